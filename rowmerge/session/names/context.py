"""The context that the statements of one session share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.catalog import Catalog, TablesByPath
from rowmerge.session.names.files import Files
from rowmerge.session.names.functions import WarehouseFunctions
from rowmerge.session.names.resolver import NameResolver
from rowmerge.session.names.spark_views import SparkViews
from rowmerge.session.names.temporary_views import TemporaryViews

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SessionContext:
    """Spark, the catalog, and thread-safe objects that resolve names in them. `default_format`: the format of new tables."""

    spark: SparkSession
    catalog: Catalog
    default_format: str
    names: NameResolver
    views: SparkViews
    functions: WarehouseFunctions
    files: Files

    @classmethod
    def create(
        cls, spark: SparkSession, catalog: Catalog, default_format: str, schema: str, tables_by_path: TablesByPath, catalog_name: str | None
    ) -> SessionContext:
        """Build the context. `schema` and `catalog_name`: as `NameResolver` takes them."""
        names = NameResolver(catalog, TemporaryViews(spark), schema, catalog_name)
        functions, files = WarehouseFunctions(spark, catalog), Files(spark, tables_by_path)
        return cls(spark, catalog, default_format, names, SparkViews(spark), functions, files)
