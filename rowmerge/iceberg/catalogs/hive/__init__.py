"""A Hive metastore: its client, and pyiceberg's catalog with checked locks."""
