"""Statements that define and describe schemas, tables and views."""
