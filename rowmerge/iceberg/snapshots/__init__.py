"""One snapshot of a table: its live files, their listing and their layouts."""
