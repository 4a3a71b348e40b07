"""The Iceberg table format: metadata, manifests, deletes, commits. Knows no Spark."""

from rowmerge.iceberg.catalog_operations import CatalogOperations
from rowmerge.iceberg.catalogs import CatalogClient
from rowmerge.iceberg.operations import DirectoryOperations
from rowmerge.iceberg.removal import delete_dropped_files
from rowmerge.iceberg.table import IcebergTable

__all__ = ["CatalogClient", "CatalogOperations", "DirectoryOperations", "IcebergTable", "delete_dropped_files"]
