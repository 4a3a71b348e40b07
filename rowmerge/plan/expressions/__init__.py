"""Expressions of statements: which columns they refer to, and to which side each condition belongs."""
