"""Parsed statements: a frozen dataclass for each kind of statement, created before any table is opened."""
