"""What procedures read with Spark: session tables, distinct values, and the changes between versions."""
