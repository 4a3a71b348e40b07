"""The bounds of columns in each file: from statistics, partition values and the session's time zone."""
