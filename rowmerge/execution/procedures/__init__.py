"""What procedures commit: existing files, and statistics of columns."""
