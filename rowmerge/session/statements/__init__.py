"""Statements that change rows, maintain tables, define functions, call procedures, and EXPLAIN."""
