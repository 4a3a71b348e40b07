"""Catalogs of schemas, tables, views and functions: a warehouse folder, and services of Iceberg tables."""

from rowmerge.catalog.by_path import TablesByPath
from rowmerge.catalog.catalog import Catalog
from rowmerge.catalog.directory import DirectoryCatalog
from rowmerge.catalog.functions import Function
from rowmerge.catalog.iceberg import IcebergCatalog
from rowmerge.catalog.relation import Relation, View

__all__ = ["Catalog", "DirectoryCatalog", "Function", "IcebergCatalog", "Relation", "TablesByPath", "View"]
