"""Parsed statements as frozen dataclasses, before any table is opened."""
