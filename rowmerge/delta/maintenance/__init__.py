"""Delete files that no version needs, clean the log, drop tables."""
