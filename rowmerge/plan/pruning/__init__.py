"""Skip data files that cannot contain rows for a statement, according to their statistics and partition values."""
