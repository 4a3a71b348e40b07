"""Maintenance of Delta tables: delete files that no version needs, clean the log, and drop tables."""
