"""Open tables: those of a warehouse, and those that statements name by path. Also check where tables put their files."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Any

from rowmerge.catalog import errors
from rowmerge.catalog.catalog import Catalog
from rowmerge.catalog.layout import FOREIGN_TABLE, LOG, METADATA, Leftovers, TableFolder, inspect_folder, open_table
from rowmerge.catalog.names import is_valid_name, lower_case, name_of, normalize_location, path_of, quoted_name
from rowmerge.concurrency import run_concurrently
from rowmerge.errors import ConfigurationError, CorruptLog, FilesNotFound, RowmergeError, StorageError
from rowmerge.iceberg.maintenance.reachable import file_key
from rowmerge.iceberg.metadata.properties import FILE_LOCATIONS
from rowmerge.storage.store import Storage, local_path
from rowmerge.table.commits.drop_markers import DROP_MARKERS, NAMES
from rowmerge.table.metadata.property_values import LOCATION
from rowmerge.table.relations import Relation
from rowmerge.table.table import Table

FORMATS = {"delta": METADATA, "iceberg": LOG}
"""The folder of the other table format, by table format."""


class OpenTables:
    """The tables of a warehouse that this process has opened, by the location of the folder and the name. Threads may share it."""

    def __init__(self, is_mismatch_fatal: Callable[[], bool], prefix: str = "") -> None:
        """Create the collection without tables. `is_mismatch_fatal`: see `DeltaTable`. `prefix`: the beginning of names in messages."""
        self._tables: dict[tuple[str, str, str], Table] = {}
        self._prefix = prefix
        self._is_mismatch_fatal = is_mismatch_fatal

    def open(self, folder: Storage, schema: str, name: str, format_: str) -> Table:
        """Return the table in a folder. Repeated calls return the same object.

        Args:
            folder: The folder of the table.
            schema: The name of the schema.
            name: The name of the table.
            format_: `delta` or `iceberg`.
        """
        table_name = f"{lower_case(schema)}.{lower_case(name)}"
        key = (format_, folder.location, table_name)
        if key not in self._tables:
            table = open_table(folder, f"{self._prefix}{table_name}", format_, is_mismatch_fatal=self._is_mismatch_fatal)
            # With `setdefault`, two threads that open the same table get the same object.
            self._tables.setdefault(key, table)
        return self._tables[key]

    def forget(self, location: str, relation: Relation) -> None:
        """Remove the table at a location, which was dropped, from the collection.

        Args:
            location: The location of the folder.
            relation: The name of the table.
        """
        for format_ in FORMATS:
            self._tables.pop((format_, location, str(relation)), None)

    def look_ahead(self, warehouse: Storage, schema: str, name: str) -> tuple[str, Table] | None:
        """Return the format of a table that is open, and the table with its newest version, if its folder still contains it.

        Args:
            warehouse: The warehouse folder.
            schema: The name of the schema.
            name: The name of the table.

        Returns:
            None if `inspect_name` must read the folder: the name was not open before, or its folder no longer has only this table.

        Raises:
            StorageError: A file cannot be listed or read.
        """
        if not (is_valid_name(schema) and is_valid_name(name)):
            return None
        folder, table_name = warehouse.child(path_of(schema, name)), f"{lower_case(schema)}.{lower_case(name)}"
        for format_, other_formats_folder in FORMATS.items():
            table = self._tables.get((format_, folder.location, table_name))
            if table is None:
                continue
            calls: list[Callable[[], Any]] = [folder.folders, table.look_ahead]
            subfolders, ahead = run_concurrently(calls, is_remote=folder.is_remote)
            if ahead is not None and not {NAMES, DROP_MARKERS, other_formats_folder} & {*subfolders}:
                return format_, ahead
        return None


class TablesByPath:
    """The tables that statements name by path. Each table is opened only once, so that statements reuse its snapshots."""

    def __init__(self, open_storage: Callable[[str], Storage] = Storage) -> None:
        """Create the collection without tables. `open_storage`: a function that returns the storage of a location."""
        self._open_storage = open_storage
        self._tables: dict[tuple[str, str], Table] = {}
        self.is_mismatch_fatal: Callable[[], bool] = lambda: True
        """Returns whether a mismatch between a Delta table's version and its checksum file is an error rather than a warning."""

    def open(self, path: str, format_: str, label: str) -> Table:
        """Return the table with this format in a folder. Repeated calls return the same object.

        Args:
            path: The location of the table's folder.
            format_: `delta` or `iceberg`.
            label: The name of the table in messages.

        Raises:
            ConfigurationError: The path is empty or has credentials.
            FilesNotFound: The folder does not contain a table of this format.
            UnsupportedTableFeature: The metadata of the Iceberg table belongs to another catalog.
        """
        folder = self.folder(path)
        key = (format_, folder.location)
        if key in self._tables:
            return self._tables[key]
        content = inspect_folder(folder)
        if format_ == "iceberg" and content == FOREIGN_TABLE:
            raise errors.foreign_metadata(label, "read")
        if not isinstance(content, TableFolder) or content.format != format_:
            raise FilesNotFound(label, f"{format_} table", "Check the format, and that the path is the table's own folder.")
        return self.new_table(path, format_, label)

    def new_table(self, path: str, format_: str, label: str) -> Table:
        """Return the table in a folder, which may not exist yet. Repeated calls return the same object.

        Args:
            path: The location of the table's folder.
            format_: `delta` or `iceberg`.
            label: The name of the table in messages.

        Raises:
            ConfigurationError: The path is empty or has credentials.
        """
        folder = self.folder(path)
        # The session replaces the attribute later. With the lambda, the table uses the attribute's value of the moment.
        table = open_table(folder, label, format_, is_mismatch_fatal=lambda: self.is_mismatch_fatal())
        return self._tables.setdefault((format_, folder.location), table)

    def folder(self, path: str) -> Storage:
        """Return the storage of a folder. Raises ConfigurationError if the path is empty or has credentials."""
        return self._open_storage(normalize_location(path))

    def storage(self, path: str) -> Storage:
        """Return the storage of a folder, with the storage options of the session.

        Raises:
            ConfigurationError: The path is empty or has credentials.
        """
        return self._open_storage(normalize_location(path))

    def open_folder(self, path: str, format_: str) -> tuple[Storage, Table]:
        """Return the storage of a folder, and the table in it, whether or not it exists. Raises ConfigurationError for an empty path."""
        folder = self._open_storage(normalize_location(path))
        return folder, open_table(folder, folder.location, format_, is_mismatch_fatal=lambda: self.is_mismatch_fatal())

    def check_file_locations(self, catalog: Catalog, table: str, location: str, properties: Mapping[str, str]) -> None:
        """Check that the folders in which the properties of an Iceberg table put its files are not inside the folder of another table.

        DROP TABLE and VACUUM of the other table delete all files in its folder. The check looks for a table in the folder of the property
        and in the folders above it. It also rejects a folder that the catalog gives to a later table or view. It does not find a table of
        a catalog whose `write.metadata.path` is outside its folder, and skips folders that cannot be listed.

        Args:
            catalog: The catalog of the session.
            table: The name of the table in messages.
            location: The folder of the table itself, in which the properties may put files.
            properties: The properties that a statement sets.

        Raises:
            ConfigurationError: A folder is inside the folder of another table, or of a name that another table can have.
        """
        for name in FILE_LOCATIONS:
            path = properties.get(name, "").strip()
            if path and LOCATION.allow(path):  # The check of the properties rejects any other value.
                self._check_folder(catalog, location, path, f"The table property {name} of {table}")

    def check_location(self, catalog: Catalog, table: str, location: str, new_location: str) -> None:
        """Check that the new location of an Iceberg table is not inside the folder of another table, as `check_file_locations` does.

        Args:
            catalog: The catalog of the session.
            table: The name of the table in messages.
            location: The current location of the table.
            new_location: The new location.

        Raises:
            ConfigurationError: The new location is empty, has credentials, or is in the folder of another table.
        """
        self._check_folder(catalog, location, normalize_location(new_location), f"The new location of {table}")

    def _check_folder(self, catalog: Catalog, own_location: str, path: str, subject: str) -> None:
        """Raise ConfigurationError if a folder for files of a table is in the folder of another table, or of a name that one can get."""
        folders = _folders_outside(own_location, path)
        owner = self._table_in(folders) or _name_in(catalog, folders)
        if owner is not None:
            problem = f"{subject} is {path!r}, which is in the folder of {owner}"
            raise ConfigurationError(f"{problem}. DROP TABLE or VACUUM would delete the files there. Choose a folder outside it.")

    def _table_in(self, folders: Sequence[str]) -> str | None:
        """Return a text for the first folder that is the folder of a table, or None if none is."""
        have_tables = run_concurrently([partial(_contains_table, self._open_storage(folder)) for folder in folders])
        return next((f"another table, {folder}" for folder, has_table in zip(folders, have_tables, strict=True) if has_table), None)


def _folders_outside(own_location: str, location: str) -> list[str]:
    """Return a location and the folders above it, nearest first. If one is the folder of the table itself, return those below it."""
    own_folder = next(_folder_and_parents(own_location))
    return list(takewhile(lambda folder: folder != own_folder, _folder_and_parents(location)))


def _name_in(catalog: Catalog, folders: Sequence[str]) -> str | None:
    """Return a text for the name `schema.name` whose tables have one of these folders in the catalog, or None if there is no such name."""
    for folder in folders:
        schema, name = (name_of(segment) for segment in folder.rsplit("/", 2)[-2:])
        if schema is None or name is None:
            continue
        with suppress(RowmergeError):  # The catalog refuses some names, and credentials may not allow to list the schema.
            if catalog.schema_exists(schema) and next(_folder_and_parents(catalog.location_of(schema, name))) == folder:
                return f"the name {quoted_name(schema, name)}, which another table can get"
    return None


def _folder_and_parents(location: str) -> Iterator[str]:
    """Yield a location, without symbolic links and aliases of S3, and the folders above it up to the root of the disk or the bucket."""
    location = file_key(location)
    path = local_path(location)
    scheme, _, bucket_and_path = (location if path is None else f"file://{os.path.realpath(path)}").partition("://")
    names = bucket_and_path.rstrip("/").split("/")
    for count in range(len(names), 0, -1):
        yield f"{scheme}://{'/'.join(names[:count])}"


def _contains_table(folder: Storage) -> bool:
    """Return whether a folder is that of a table whose drop or VACUUM deletes the files below it. Return False if it is unreadable.

    Credentials often allow no access to the folders above a warehouse.
    """
    with suppress(StorageError, CorruptLog):
        metadata_files = [file.path for file in folder.list(METADATA) if file.path.endswith((".metadata.json", ".metadata.json.gz"))]
        if metadata_files or folder.list(LOG):
            content = inspect_folder(folder)
            if content == FOREIGN_TABLE:
                # The folder may only have the metadata of a table elsewhere, because of `write.metadata.path`.
                return next(_folder_and_parents(_location_in(folder, max(metadata_files)))) == folder.location
            return isinstance(content, TableFolder | Leftovers)
    return False


def _location_in(folder: Storage, path: str) -> str:
    """Return the location of the table in a metadata file. Raises CorruptLog if the file is not a metadata file."""
    data = folder.get(path)
    try:
        return str(json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)["location"])
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise CorruptLog(f"{folder.location}/{path}", "it is not the metadata of a table") from error
