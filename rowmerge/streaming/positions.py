"""The progress of a stream through the versions of a table, and the files between two positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rowmerge.errors import IncompatibleSchemaChange, RowsChanged, TableRecreated, TypeMismatch, UnknownColumn, VersionNotFound
from rowmerge.streaming.reading import check_columns, read_tasks
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.snapshots.appends import Append
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

COMPLETE = -1
"""The index of a position at which all files of the version have been read."""
_MAX_CACHED = 64
"""The maximum number of versions whose files a stream remembers, from the choice of a batch to its reads."""


@dataclass(frozen=True)
class Position:
    """A position in a stream: all rows of earlier versions have been read, and the first `index` files of this version.

    Attributes:
        table_id: The id of the table.
        version: The version.
        index: The number of files, or COMPLETE.
        initial: Whether the files are those of the whole version, with which the stream begins, instead of the files that it added.
        origin: The version, index and `initial` at which the stream began, None if they are unknown. Spark does not store where the first
            batch begins. If it runs again after a restart, `first` positions may differ, so the end of the batch tells its beginning.
        first: Whether this is the position at which a new stream would begin now.
    """

    table_id: str
    version: int
    index: int
    initial: bool = False
    origin: tuple[int, int, bool] | None = None
    first: bool = False

    @classmethod
    def beginning(cls, table_id: str, version: int, index: int, *, initial: bool = False) -> Position:
        """Return the position at which a new stream begins.

        Args:
            table_id: The id of the table.
            version: The version.
            index: The number of files that the stream leaves out, or COMPLETE.
            initial: Whether the stream reads all files of the version.
        """
        return cls(table_id, version, index, initial, (version, index, initial), first=True)

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> Position:
        """Return the position in an offset of the checkpoint."""
        origin = offset["origin"]
        return cls(**{**offset, "origin": None if origin is None else tuple(origin)})

    def moved(self, version: int, index: int, *, initial: bool = False) -> Position:
        """Return another position of the same stream.

        Args:
            version: The version.
            index: The number of files, or COMPLETE.
            initial: Whether the files are those of the whole version.
        """
        return Position(self.table_id, version, index, initial, self.origin)

    def start_of_first_batch(self) -> Position:
        """Return the beginning of the stream, for the end of its first batch."""
        return self if self.origin is None else self.moved(*self.origin[:2], initial=self.origin[2])

    def offset(self) -> dict[str, Any]:
        """Return the position in the form that Spark stores in the checkpoint."""
        return asdict(self)


class VersionStream:
    """The new rows of a table, version by version. Files of a version are in the order of their paths, which never changes."""

    def __init__(self, table: Table, columns: Struct, *, skips_changes: bool) -> None:
        """Initialize a stream.

        Args:
            table: The table.
            columns: The columns that the query reads.
            skips_changes: Whether versions that delete or change rows are skipped. Otherwise, they are errors.
        """
        self._table, self._columns, self._skips_changes = table, columns, skips_changes
        snapshot = table.snapshot()
        check_columns(snapshot, columns)
        self._reads_all_columns = set(columns.names) == set(snapshot.schema.names)
        self._cache: dict[tuple[str, int, bool], Append] = {}

    def newest(self, start: Position | None = None) -> Snapshot:
        """Return the newest version of the table. `start`: the position at which the stream is, or None for a new stream.

        Raises:
            TableRecreated: The table is another one than that of the position.
            IncompatibleSchemaChange: The columns of the query have changed. After a restart, the query has the new columns.
        """
        newest = self._table.snapshot()
        if start is not None and start.table_id != newest.table_id:
            raise TableRecreated(newest.name, start.table_id, newest.table_id)
        try:
            check_columns(newest, self._columns)
        except (UnknownColumn, TypeMismatch) as error:
            raise self._schema_error(newest, str(error).rstrip(".")) from error
        new_names = set(newest.schema.names) - set(self._columns.names)
        if new_names and self._reads_all_columns:
            raise self._schema_error(newest, f"the table has the new column `{min(new_names)}`")
        return newest

    def _schema_error(self, newest: Snapshot, reason: str) -> IncompatibleSchemaChange:
        return IncompatibleSchemaChange(newest.name, newest.version, f"the query began with other columns ({reason})", "Restart the query.")

    def advance(self, start: Position, max_files: int | None, last_version: int | None = None) -> Position:
        """Return the position at which the next batch ends. It is `start` if there are no new versions.

        A batch ends before a version that changes rows, so that the rows before it are processed. The next batch then raises the error.

        Args:
            start: The position at which the batch begins.
            max_files: The maximum number of files of the batch, or None for all.
            last_version: The version at which the stream ends, or None for the newest one.

        Raises:
            RowsChanged: The next version deletes or changes rows.
            VersionNotFound: A version was cleaned or has expired.
        """
        newest, position = self.newest(start), start
        for version, initial, first in self._pending(newest, start):
            append = self._read(newest, version, initial=initial)
            if append.change is not None and not self._skips_changes:
                if position != start:
                    return position
                raise RowsChanged(newest.name, version, append.change)
            count = len(self._files(append)) - first if append.change is None else 0
            if max_files is not None and count > max_files:
                return start.moved(version, first + max_files, initial=initial) if max_files else position
            max_files = None if max_files is None else max_files - count
            position = start.moved(version, COMPLETE)
            if version == last_version:
                break
        return position

    def tasks(self, start: Position, end: Position) -> list[bytes]:
        """Return the pickled arguments of the tasks that read the rows between two positions.

        Args:
            start: The position at which the batch begins.
            end: The position at which it ends.

        Raises:
            RowsChanged: A version between the positions deletes or changes rows.
            VersionNotFound: A version was cleaned or has expired.
        """
        if start.first and end.origin is not None:
            start = end.start_of_first_batch()
        if (start.version, start.index, start.initial) == (end.version, end.index, end.initial):
            return []
        newest, tasks = self.newest(end), []
        for version, initial, first in self._pending(newest, start):
            append = self._read(newest, version, initial=initial)
            if append.change is not None and not self._skips_changes:
                raise RowsChanged(newest.name, version, append.change)
            if append.change is None:
                files = self._files(append)
                is_cut = version == end.version and end.index != COMPLETE
                rows = files.rows.slice(first, end.index - first) if is_cut else files.rows.slice(first)
                tasks += read_tasks(append.files, self._columns, FileListing(rows))
            if version == end.version:
                return tasks
        reason = "it has expired, or the table was rolled back. Start a new stream with a new checkpoint."
        raise VersionNotFound(f"The stream cannot read {newest.name} up to version {end.version}: {reason}")

    def _pending(self, newest: Snapshot, start: Position) -> Iterator[tuple[int, bool, int]]:
        """Yield the versions after a position, each with whether all its rows are read, and the number of files that have been read."""
        if start.index != COMPLETE:
            yield start.version, start.initial, start.index
        yield from ((version, False, 0) for version in self._table.appends.versions_after(newest, start.version))

    def _read(self, newest: Snapshot, version: int, *, initial: bool) -> Append:
        """Return the files of a version. They have the columns of the newest version, so a new definition makes the cache obsolete."""
        key = (newest.identity if initial else f"{newest.table_id} {newest.schema}", version, initial)
        if key not in self._cache:
            appends = self._table.appends
            append = Append(appends.all_rows(newest, version)) if initial else appends.read(newest, version)
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[key] = append
        return self._cache[key]

    def _files(self, append: Append) -> FileListing:
        return FileListing(append.files.files().rows.sort_by("path"))
