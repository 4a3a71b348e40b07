"""The views of a SQL catalog: rows of the type VIEW beside the rows of tables, as Iceberg's JdbcCatalog for Java stores views.

pyiceberg 0.12 has no views in SQL catalogs, but creates the column `iceberg_type` and ignores rows of other types. The primary key makes
the names of tables and views unique, whichever client creates them. A row refers to a metadata file of the Iceberg view spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchViewError
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from rowmerge.iceberg.catalogs.view_files import ViewFiles, location_of_file, number_of_file
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
    return SqlViews(catalog, open_storage) if catalog._schema_version == "v1" else NoViews(_UNSUPPORTED)


class SqlViews:
    """The views of a SQL catalog. `CatalogViews` documents the methods."""

    have_files = True
    rejection = None

    def __init__(self, catalog: SqlCatalog, open_storage: Callable[[str], Storage]) -> None:
        """Initialize the views of a catalog. `open_storage`: a function that returns the storage of a view's location."""
        self._catalog, self._files = catalog, ViewFiles(open_storage)

    def names(self, namespace: str) -> list[str]:
        rows = select(IcebergTables.table_name).where(self._is_view(namespace))
        with Session(self._catalog.engine) as session:
            return list(session.scalars(rows))

    def load(self, namespace: str, view: str) -> dict[str, Any] | None:
        newest = self._newest(namespace, view)
        return None if newest is None else newest[1]

    def create(self, namespace: str, view: str, metadata: Mapping[str, Any]) -> bool:
        """Create a view, as documented in `CatalogViews.create`.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            metadata: The metadata of the view.
        """
        path = self._files.write(metadata, 0)
        row = {"catalog_name": self._catalog.name, "table_namespace": namespace, "table_name": view, "iceberg_type": _VIEW}
        statement = insert(IcebergTables).values(**row, metadata_location=path, previous_metadata_location=None)
        return self._put(statement, namespace, view, path)

    def replace(self, namespace: str, view: str, old_metadata: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool | None:
        """Replace a view, as documented in `CatalogViews.replace`.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            old_metadata: The metadata of the view to replace.
            metadata: The new metadata.
        """
        newest = self._newest(namespace, view)
        if newest is None or newest[1] != old_metadata:
            return False
        old_path, _ = newest
        path = self._files.write(metadata, number_of_file(old_path) + 1)
        is_unchanged = self._is_view(namespace, view) & (IcebergTables.metadata_location == old_path)
        statement = update(IcebergTables).where(is_unchanged).values(metadata_location=path, previous_metadata_location=old_path)
        was_replaced = self._put(statement, namespace, view, path)
        if was_replaced:
            self._files.delete_files(metadata["location"], older_than=number_of_file(path) - len(metadata["versions"]))
        return was_replaced

    def rename(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a view another name. Return False if a table or view has it.

        Args:
            source: The namespace and the name of the view.
            target: The new namespace and the new name.

        Raises:
            NoSuchViewError: The view does not exist.
        """
        statement = update(IcebergTables).where(self._is_view(*source)).values(table_namespace=target[0], table_name=target[1])
        try:
            row_count = self._execute(statement)
        except IntegrityError:
            return False
        if row_count == 0:
            raise NoSuchViewError(".".join(source))
        return True

    def drop(self, namespace: str, view: str) -> None:
        # The path is in the condition, because the name may have been given to another view since the path was read.
        while (path := self._path(namespace, view)) is not None:
            is_unchanged = self._is_view(namespace, view) & (IcebergTables.metadata_location == path)
            if self._execute(delete(IcebergTables).where(is_unchanged)):
                self._files.delete_files(location_of_file(path))

    def _is_view(self, namespace: str, view: str | None = None) -> ColumnElement[bool]:
        """Return the condition for the rows of a namespace's views, or of one view."""
        condition = (IcebergTables.catalog_name == self._catalog.name) & (IcebergTables.table_namespace == namespace)
        condition &= IcebergTables.iceberg_type == _VIEW
        return condition if view is None else condition & (IcebergTables.table_name == view)

    def _newest(self, namespace: str, view: str) -> tuple[str, dict[str, Any]] | None:
        """Return the path and the content of the newest metadata file of a view, or None if the view does not exist."""
        return self._files.read_newest(partial(self._path, namespace, view))

    def _path(self, namespace: str, view: str) -> str | None:
        """Return the path of the newest metadata file of a view, or None if the view does not exist."""
        with Session(self._catalog.engine) as session:
            return session.scalar(select(IcebergTables.metadata_location).where(self._is_view(namespace, view)))

    def _put(self, statement: Any, namespace: str, view: str, path: str) -> bool:
        """Run a statement that lets a view refer to a new metadata file. Return False if another process was first."""
        try:
            was_put = self._execute(statement) > 0
        except IntegrityError:
            was_put = False
        except Exception:
            # The connection may be lost after the database has committed. Without an answer, the error of the statement is raised.
            if self._path(namespace, view) != path:
                raise
            was_put = True
        if not was_put:
            self._files.discard(path)
        return was_put

    def _execute(self, statement: Any) -> int:
        """Run a statement in its own transaction, and return the number of changed rows."""
        with self._catalog.engine.begin() as connection:
            return int(connection.execute(statement).rowcount)
