"""EXPLAIN, and statements that change rows, maintain tables, define functions or call procedures."""
