"""Catalogs of schemas, tables, views and functions: a warehouse folder, and services of Iceberg tables."""

from rowmerge.catalog.catalog import Catalog, Relation, View
from rowmerge.catalog.directory import DirectoryCatalog
from rowmerge.catalog.functions import Function
from rowmerge.catalog.iceberg import IcebergCatalog
from rowmerge.catalog.registration import register_metadata
from rowmerge.catalog.tables_by_path import TablesByPath

__all__ = ["Catalog", "DirectoryCatalog", "Function", "IcebergCatalog", "Relation", "TablesByPath", "View", "register_metadata"]
