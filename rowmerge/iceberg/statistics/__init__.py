"""Statistics files of Iceberg tables: of columns (Puffin), and of partitions (Parquet)."""
