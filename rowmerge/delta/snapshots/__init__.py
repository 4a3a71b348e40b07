"""One version of a table: its live files, deletion vectors and change rows."""
