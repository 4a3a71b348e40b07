"""A version of a table: its files, their deleted rows and their change rows."""
