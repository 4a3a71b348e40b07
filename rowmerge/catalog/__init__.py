"""Catalogs of schemas, tables, views and functions: a warehouse folder, and services of Iceberg tables."""

from rowmerge.catalog.catalog import Catalog, View
from rowmerge.catalog.catalogs import Catalogs, FurtherCatalog
from rowmerge.catalog.directory import DirectoryCatalog
from rowmerge.catalog.functions import Function
from rowmerge.catalog.iceberg import IcebergCatalog
from rowmerge.catalog.paths import register_metadata, with_paths, without_paths
from rowmerge.catalog.tables_by_path import TablesByPath
from rowmerge.table.relations import Relation

__all__ = [
    "Catalog",
    "Catalogs",
    "DirectoryCatalog",
    "Function",
    "FurtherCatalog",
    "IcebergCatalog",
    "Relation",
    "TablesByPath",
    "View",
    "register_metadata",
    "with_paths",
    "without_paths",
]
