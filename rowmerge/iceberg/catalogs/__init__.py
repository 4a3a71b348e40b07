"""Where a table's current metadata is: a folder, or a catalog of pyiceberg."""
