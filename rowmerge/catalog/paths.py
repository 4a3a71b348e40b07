"""Tables that statements name by the path of their folder, such as `delta.`/data/orders``, beside the tables of a catalog."""

from __future__ import annotations

from typing import Any, cast

from rowmerge.catalog.catalog import Catalog, Relation
from rowmerge.catalog.layout import TableFolder, inspect_folder
from rowmerge.catalog.names import format_of_path
from rowmerge.catalog.tables_by_path import TablesByPath
from rowmerge.errors import ConfigurationError, TableError, TableNotFound
from rowmerge.table.metadata.schema import quote
from rowmerge.table.table import Table


def with_paths(catalog: Catalog, tables: TablesByPath) -> Catalog:
    """Return a catalog that also resolves a format as the schema and a path as the name: `delta` and `/data/orders`.

    Delta Lake on Spark accepts such names in every statement. All other names are those of the given catalog.

    Args:
        catalog: The catalog of the session.
        tables: The tables that are open by path.
    """
    return cast("Catalog", _CatalogWithPaths(catalog, tables))


def without_paths(catalog: Catalog) -> Catalog:
    """Return the catalog to which `with_paths` has added paths, or the given catalog."""
    return catalog._catalog if isinstance(catalog, _CatalogWithPaths) else catalog


class _CatalogWithPaths:
    """A catalog that resolves paths, and delegates every other name and every other method to the catalog of the session."""

    def __init__(self, catalog: Catalog, tables: TablesByPath) -> None:
        self._catalog, self._tables = catalog, tables

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def relation(self, schema: str, name: str) -> Relation | None:
        """Return the table in the folder, or the relation of the catalog. A path keeps its capital letters."""
        if format_of_path(schema, name) is None:
            return self._catalog.relation(schema, name)
        content = inspect_folder(self._tables.folder(name))
        is_table = isinstance(content, TableFolder) and schema.lower() in (content.format, "path")
        return Relation(schema.lower(), name, "table", content.format) if is_table and isinstance(content, TableFolder) else None

    def look_up(self, schema: str, name: str) -> tuple[Relation, Table | None] | None:
        """Return the table in the folder, or the result of the catalog."""
        if format_of_path(schema, name) is None:
            return self._catalog.look_up(schema, name)
        relation = self.relation(schema, name)
        return None if relation is None else (relation, None)

    def open(self, schema: str, name: str) -> Table:
        """Open the table in the folder, or the table of the catalog. Raises TableNotFound if the folder has no table of the format."""
        if format_of_path(schema, name) is None:
            return self._catalog.open(schema, name)
        relation = self.relation(schema, name)
        if relation is None or relation.format is None:
            raise TableNotFound(_label(schema, name))
        return self._tables.open(name, relation.format, _label(schema, name))

    def new_table(self, schema: str, name: str, format_: str, location: str | None = None) -> Table:
        """Return the table for CREATE TABLE in the folder, or the new table of the catalog.

        Raises:
            ConfigurationError: The statement has another format than the name, or a LOCATION beside the path.
        """
        path_format = format_of_path(schema, name)
        if path_format is None:
            return self._catalog.new_table(schema, name, format_, location)
        if format_ != path_format:
            raise ConfigurationError(f"{_label(schema, name)} has USING {format_}. Write USING {path_format}, or leave USING out.")
        if location is not None:
            raise ConfigurationError(f"{_label(schema, name)} is a location. Leave LOCATION out, or create the table by name.")
        return self._tables.new_table(name, path_format, _label(schema, name))

    def location_of(self, schema: str, name: str) -> str:
        """Return the location of the folder, or of the relation of the catalog."""
        if format_of_path(schema, name) is None:
            return self._catalog.location_of(schema, name)
        return self._tables.folder(name).location

    def register(self, schema: str, name: str, format_: str, location: str, *, is_new: bool = False) -> None:
        """Register a table in the catalog. A path is not registered."""
        if format_of_path(schema, name) is None:
            self._catalog.register(schema, name, format_, location, is_new=is_new)

    def drop_table(self, schema: str, name: str) -> None:
        """Drop the table of the catalog. Raises TableError for a path, which no catalog registers."""
        if format_of_path(schema, name) is not None:
            advice = "Delete the folder, or drop the name that a catalog has for the table."
            raise TableError(f"{_label(schema, name)} is a folder, which DROP TABLE does not delete. {advice}")
        self._catalog.drop_table(schema, name)


def _label(schema: str, path: str) -> str:
    """Return the name of the table in messages, with the path in backquotes."""
    return f"{schema.lower()}.{quote(path)}"
