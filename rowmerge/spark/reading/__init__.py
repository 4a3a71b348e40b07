"""Read data files, change rows and files without a table as DataFrames."""
