"""The Python API of one table: `rowmerge.Table` and the builder of MERGE statements."""
