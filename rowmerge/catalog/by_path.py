"""Open tables by the path of their folder, without a catalog."""

from __future__ import annotations

from collections.abc import Callable

from rowmerge.catalog.layout import DeltaFolder, IcebergFolder, inspect_folder, plain_location
from rowmerge.delta import DeltaTable
from rowmerge.errors import FilesNotFound, UnsupportedTableFeature
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.store import Storage
from rowmerge.table.table import Table


class TablesByPath:
    """Returns the same table for the same path each time, so that its snapshots are reused."""

    def __init__(self, open_storage: Callable[[str], Storage] = Storage) -> None:
        """`open_storage` returns the storage of a location."""
        self._open_storage = open_storage
        self._tables: dict[tuple[str, str], Table] = {}
        self.is_mismatch_fatal: Callable[[], bool] = lambda: True
        """See `DeltaTable`."""

    def open(self, path: str, format_: str, label: str) -> Table:
        """Return the table of a format in the folder at a path. `label` names it in messages.

        Raises FilesNotFound, UnsupportedTableFeature for Iceberg metadata of another catalog, ConfigurationError, StorageError.
        """
        folder = self._open_storage(plain_location(path))
        key = (format_, folder.location)
        if key not in self._tables:
            content = inspect_folder(folder)
            if format_ == "iceberg" and content == IcebergFolder(versioned=False):
                raise foreign_metadata(label, "read")
            if not isinstance(content, DeltaFolder if format_ == "delta" else IcebergFolder):
                raise FilesNotFound(label, f"{format_} table", "Check the path and the format: it must be the table's own folder.")
            self._tables[key] = open_table(folder, label, format_, lambda: self.is_mismatch_fatal())
        return self._tables[key]


def open_table(folder: Storage, name: str, format_: str, is_mismatch_fatal: Callable[[], bool]) -> Table:
    """Return the table of a format (`delta`, `iceberg`) in a folder, whether or not it exists."""
    if format_ == "delta":
        return DeltaTable(folder, name, is_mismatch_fatal)
    return IcebergTable(DirectoryOperations(folder, name), name)


def foreign_metadata(label: str, action: str) -> UnsupportedTableFeature:
    """Return the error of an Iceberg table whose metadata belongs to another catalog."""
    advice = "Its metadata files are not numbered, so another catalog knows which is the newest: connect to that catalog."
    return UnsupportedTableFeature(label, "iceberg of another catalog", action=action, advice=advice)
