"""Read and write Parquet data files without Spark: convert columns, divide rows by partition, and look up keys.

`spark/executors.py` sends most of these modules to executors by value. A contract in `pyproject.toml` limits their imports.
"""
