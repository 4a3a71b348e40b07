"""The Iceberg table format: metadata, manifests, deletes and commits. This package does not depend on Spark."""

from rowmerge.iceberg.catalogs.catalog_operations import CatalogOperations
from rowmerge.iceberg.catalogs.clients import CatalogClient
from rowmerge.iceberg.catalogs.operations import DirectoryOperations
from rowmerge.iceberg.commits.metadata_commit import set_location
from rowmerge.iceberg.maintenance.dropping import delete_dropped_files
from rowmerge.iceberg.table import IcebergTable

__all__ = ["CatalogClient", "CatalogOperations", "DirectoryOperations", "IcebergTable", "delete_dropped_files", "set_location"]
