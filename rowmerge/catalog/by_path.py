"""Tables that are read by the path of their folder, wherever it is and whatever any catalog calls them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rowmerge.catalog.layout import DeltaFolder, IcebergFolder, look, plain_location
from rowmerge.delta import DeltaTable
from rowmerge.errors import FilesNotFound, UnsupportedTableFeature
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.store import Storage
from rowmerge.table.table import Table


class TablesByPath:
    """The same table for the same path each time, so that its snapshots are used again."""

    def __init__(self, open_storage: Callable[[str], Storage] = Storage) -> None:
        """`open_storage` makes the storage of a location."""
        self._open_storage = open_storage
        self._tables: dict[tuple[str, str], Table] = {}
        self.is_mismatch_fatal: Callable[[], bool] = lambda: True
        """As `DeltaTable` says."""

    def open(self, path: str, format_: str, told: str) -> Table:
        """The table of a format in the folder at a path. `told`: what messages call it.

        Raises FilesNotFound when there is none, UnsupportedTableFeature for Iceberg metadata that another catalog keeps, ConfigurationError
        for a location that carries credentials, StorageError.
        """
        folder = self._open_storage(plain_location(path))
        key = (format_, folder.location)
        if key not in self._tables:
            found = look(folder)
            if isinstance(found, IcebergFolder) and format_ == "iceberg" and not found.versioned:
                advice = "Its metadata files are not numbered, so another catalog knows which is the newest: connect to that catalog."
                raise UnsupportedTableFeature(told, "iceberg of another catalog", action="read", advice=advice)
            if not isinstance(found, DeltaFolder if format_ == "delta" else IcebergFolder):
                raise FilesNotFound(told, f"{format_} table", "Check the path and the format: it must be the table's own folder.")
            delta = partial(DeltaTable, is_mismatch_fatal=lambda: self.is_mismatch_fatal())
            made: Table = delta(folder, told) if format_ == "delta" else IcebergTable(DirectoryOperations(folder, told), told)
            self._tables[key] = made
        return self._tables[key]
