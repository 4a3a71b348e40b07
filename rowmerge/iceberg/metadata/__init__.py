"""Table metadata of Iceberg: parse, check, convert and update it."""
