"""The views of a SQL catalog: rows of the type VIEW beside the rows of tables, as Iceberg's JdbcCatalog for Java stores views.

pyiceberg 0.12 has no views in SQL catalogs, but creates the column `iceberg_type` and ignores rows of other types. The primary key makes
the names of tables and views unique, whichever client creates them. A row refers to a metadata file of the Iceberg view spec.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchViewError
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from rowmerge.iceberg.catalogs.metastore_views import MetastoreViews, ViewDefinition
from rowmerge.iceberg.catalogs.views import CatalogViews, NoViews
from rowmerge.storage.store import Storage

_VIEW = "VIEW"
_UNSUPPORTED = (
    "Its database has the first layout of SQL catalogs, whose tables have no column iceberg_type. Set schema_version: v1 in the "
    "configuration of the catalog once, which adds the column."
)


def open_sql_views(catalog: Catalog, open_storage: Callable[[str], Storage]) -> CatalogViews:
    """Return the views of a catalog, which are not supported if it is not a SQL catalog.

    Args:
        catalog: The catalog.
        open_storage: A function that returns the storage of a view's location.
    """
    if not isinstance(catalog, SqlCatalog):
        return NoViews()
    return MetastoreViews(SqlViews(catalog), open_storage) if catalog._schema_version == "v1" else NoViews(_UNSUPPORTED)


class SqlViews:
    """The views of a SQL catalog. `rowmerge.iceberg.catalogs.metastore_views.ViewEntries` documents the methods."""

    def __init__(self, catalog: SqlCatalog) -> None:
        """Initialize the views of a catalog."""
        self._catalog = catalog

    def names(self, namespace: str) -> list[str]:
        with Session(self._catalog.engine) as session:
            return list(session.scalars(select(IcebergTables.table_name).where(self._is_view(namespace))))

    def path(self, view: tuple[str, str]) -> str | None:
        with Session(self._catalog.engine) as session:
            return session.scalar(select(IcebergTables.metadata_location).where(self._is_view(*view)))

    def create(self, view: tuple[str, str], definition: ViewDefinition) -> bool:
        namespace, name = view
        row = {"catalog_name": self._catalog.name, "table_namespace": namespace, "table_name": name, "iceberg_type": _VIEW}
        with suppress(IntegrityError):
            self._execute(insert(IcebergTables).values(**row, metadata_location=definition.path, previous_metadata_location=None))
            return True
        return False

    def replace(self, view: tuple[str, str], definition: ViewDefinition) -> bool:
        paths = {"metadata_location": definition.path, "previous_metadata_location": definition.previous_path}
        is_unchanged = self._is_view(*view) & (IcebergTables.metadata_location == definition.previous_path)
        return self._execute(update(IcebergTables).where(is_unchanged).values(**paths)) > 0

    def rename(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a view another name. Return False if a table or view has the new name.

        Args:
            source: The namespace and the name of the view.
            target: The new namespace and the new name.

        Raises:
            NoSuchViewError: The view does not exist.
        """
        statement = update(IcebergTables).where(self._is_view(*source)).values(table_namespace=target[0], table_name=target[1])
        with suppress(IntegrityError):
            if self._execute(statement) == 0:
                raise NoSuchViewError(".".join(source))
            return True
        return False

    def drop(self, view: tuple[str, str], path: str) -> bool:
        is_unchanged = self._is_view(*view) & (IcebergTables.metadata_location == path)
        return self._execute(delete(IcebergTables).where(is_unchanged)) > 0

    def _is_view(self, namespace: str, view: str | None = None) -> ColumnElement[bool]:
        """Return the condition for the rows of a namespace's views, or of one view."""
        condition = (IcebergTables.catalog_name == self._catalog.name) & (IcebergTables.table_namespace == namespace)
        condition &= IcebergTables.iceberg_type == _VIEW
        return condition if view is None else condition & (IcebergTables.table_name == view)

    def _execute(self, statement: Any) -> int:
        """Run a statement in its own transaction, and return the number of changed rows."""
        with self._catalog.engine.begin() as connection:
            return int(connection.execute(statement).rowcount)
