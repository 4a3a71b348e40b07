"""Parquet data files without Spark: write them, fit their columns, divide them into partitions."""
