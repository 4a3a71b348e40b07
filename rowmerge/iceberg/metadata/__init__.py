"""Table metadata of Iceberg: what it contains, how it is parsed, checked and updated."""
