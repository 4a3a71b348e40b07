"""The Iceberg table format: metadata, manifests, deletes, commits. Knows no Spark."""
