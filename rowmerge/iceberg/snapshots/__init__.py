"""One snapshot of a table: its live files and what the engine reads of it."""
