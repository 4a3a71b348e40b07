"""Tables that statements name by the path of their folder, or that they register by the path of their newest metadata file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from rowmerge.catalog import errors
from rowmerge.catalog.catalog import Catalog
from rowmerge.catalog.catalogs import Catalogs
from rowmerge.catalog.iceberg import IcebergCatalog
from rowmerge.catalog.layout import LOG, METADATA, TableFolder, inspect_folder, version_of_file
from rowmerge.catalog.names import format_of_path
from rowmerge.catalog.tables_by_path import TablesByPath
from rowmerge.errors import ConfigurationError, FilesNotFound, PlanError, TableError, TableNotFound
from rowmerge.storage.store import Storage, absolute_location
from rowmerge.table.metadata.schema import quote
from rowmerge.table.relations import Relation
from rowmerge.table.table import Table

_DELTA_COMMIT = re.compile(r"(?P<folder>.+)/_delta_log/0*(?P<version>\d+)\.json")
_ICEBERG_METADATA = re.compile(r"(?P<folder>.+)/metadata/[^/]+\.metadata\.json")


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


@dataclass(frozen=True)
class _MetadataFile:
    """A metadata file. `version`: the number of the version in its name, or None for an Iceberg file whose name has none."""

    folder: str
    format: str
    version: int | None


def register_metadata(catalog: Catalog, storage: Storage, schema: str, name: str, path: str) -> None:
    """Register the table of a metadata file: `metadata/….metadata.json` of Iceberg, or `_delta_log/….json` of Delta.

    Args:
        catalog: The catalog of the new name.
        storage: A storage with the options of the session.
        schema: The name of the schema.
        name: The new name of the table.
        path: The path of the table's newest metadata file.

    Raises:
        AlreadyExists: The catalog has a table or view of this name.
        FilesNotFound: The file does not exist.
        PlanError: The file is not the newest one, or only another catalog can find the newest one.
        CorruptLog: The file is not a metadata file.
    """
    path = absolute_location(path)
    if catalog.relation(schema, name) is not None:
        raise errors.already_exists(schema, name)
    file = _parse(path)
    folder = storage.at(file.folder)
    if not folder.exists(path.removeprefix(f"{folder.location}/")):
        raise FilesNotFound(path, "metadata file", "Check the path.")
    named_catalog = without_paths(catalog)
    if isinstance(named_catalog, Catalogs):
        register_metadata(named_catalog.catalog_of(schema), storage, named_catalog.schema_in_catalog(schema), name, path)
        return
    if isinstance(named_catalog, IcebergCatalog):
        if file.format != "iceberg":
            raise PlanError(f"{path} belongs to a Delta table, which an Iceberg catalog cannot contain. Use a warehouse folder.")
        named_catalog.register_metadata(schema, name, path)
        return
    _check_newest(folder, file, path)
    catalog.new_table(schema, name, file.format, file.folder).snapshot()  # raises an error if the table cannot be read
    catalog.register(schema, name, file.format, file.folder)


def _parse(path: str) -> _MetadataFile:
    """Return what the path of a metadata file tells. Raise PlanError for a path that is not that of a metadata file."""
    if match := _DELTA_COMMIT.fullmatch(path):
        return _MetadataFile(match["folder"], "delta", int(match["version"]))
    if match := _ICEBERG_METADATA.fullmatch(path):
        return _MetadataFile(match["folder"], "iceberg", version_of_file(path))
    raise PlanError(f"{path} is not a metadata file. Specify metadata/….metadata.json of an Iceberg table, or _delta_log/….json of Delta.")


def _check_newest(folder: Storage, file: _MetadataFile, path: str) -> None:
    """Raise PlanError unless readers of a warehouse folder find the file as the newest version of its table."""
    if file.version is None:
        problem = f"{path} has no version in its name, so only the catalog that wrote it can find the newest metadata."
        raise PlanError(f"{problem} Connect to a catalog of Iceberg tables, and register the table there.")
    if file.format == "delta":
        versions = [int(match["version"]) for match in map(_DELTA_COMMIT.fullmatch, _paths(folder, LOG)) if match]
    else:
        versions = [version for version in map(version_of_file, _paths(folder, METADATA)) if version is not None]
    if file.version < max(versions, default=0):
        problem = f"{path} is version {file.version} of its table, whose newest version is {max(versions)}."
        raise PlanError(f"{problem} Specify the newest one, or RESTORE the table afterwards.")


def _paths(folder: Storage, subfolder: str) -> list[str]:
    return [f"{folder.location}/{file.path}" for file in folder.list(subfolder)]
