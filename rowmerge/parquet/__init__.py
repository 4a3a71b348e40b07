"""Parquet data files without Spark: write them, fit their columns, divide them into partitions.

spark/writing/executors.py sends most of these modules to executors by value. A contract in pyproject.toml limits their imports.
"""
