"""One version of a Delta table: its live files, deletion vectors and change rows."""
