"""Statements on our tables as frozen data: what the user asked for, before any table is looked at."""
