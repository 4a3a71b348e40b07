"""The place that records a table's current metadata: a folder or a pyiceberg catalog."""
