"""The Iceberg table format: metadata, manifests, deletes, commits. Knows no Spark."""

from rowmerge.iceberg.operations import DirectoryOperations
from rowmerge.iceberg.table import IcebergTable

__all__ = ["DirectoryOperations", "IcebergTable"]
