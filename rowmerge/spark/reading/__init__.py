"""Read data files, change rows, and files that do not belong to a table as DataFrames."""
