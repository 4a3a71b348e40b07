"""A snapshot of a table: its live files, the listing of these files, and their layouts."""
