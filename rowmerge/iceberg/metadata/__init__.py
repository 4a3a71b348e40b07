"""Parse, check, convert and update the metadata of Iceberg tables."""
