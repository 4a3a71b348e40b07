"""The change data feed of a table: the files and rows that each version inserted, updated or deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Protocol

import pyarrow as pa

from rowmerge.table.metadata.schema import Field, Primitive, Struct, arrow_schema, bare
from rowmerge.table.snapshots.files import FileListing, FileMask, MatchingFiles, Positions, listing_schema
from rowmerge.table.snapshots.snapshot import Snapshot

INSERT, DELETE = "insert", "delete"
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
"""The names of the additional columns of change rows, which follow the columns of the table."""
CHANGE_COLUMNS = Struct(
    (
        Field(CHANGE_TYPE, Primitive("string")),
        Field(COMMIT_VERSION, Primitive("long")),
        Field(COMMIT_TIMESTAMP, Primitive("timestamp")),
    )
)
_INDEX = "index"
"""The column of a listing with the index of each file in `TableChanges.files`, whose paths are not unique."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Bound:
    """One end of a range of versions: either a version number, or a time in milliseconds since the epoch."""

    version: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True)
class ChangedFile:
    """The change rows of one version in one file.

    `timestamp`: the time of the version, in milliseconds since the epoch. `change`: INSERT or DELETE, or None if the column CHANGE_TYPE in
    the file contains the type of each change. `partition`: the typed partition values by logical column name. `rows`: row positions in the
    file. `listed`: whether the change rows are the rows at these positions. Otherwise, they are all other rows of the file.
    `size`: the size of the file in bytes.
    """

    version: int
    timestamp: int
    path: str
    change: str | None
    partition: Mapping[str, Any]
    rows: Positions = field(default_factory=Positions)
    listed: bool = False
    size: int = 0

    @property
    def time(self) -> datetime:
        """The time of the version."""
        return _EPOCH + timedelta(milliseconds=self.timestamp)


@dataclass(frozen=True)
class TableChanges:
    """All changes from version `first` to version `last`, both inclusive, with the columns of `snapshot`.

    A query reads them like a table: the listing of files has an entry for each file and version.
    """

    snapshot: Snapshot
    first: int
    last: int
    changed_files: tuple[ChangedFile, ...] = ()

    @property
    def name(self) -> str:
        """The name of the table in messages."""
        return f"changes of {self.snapshot.name}"

    @property
    def version(self) -> int:
        """The last version."""
        return self.last

    @property
    def schema(self) -> Struct:
        """The columns of change rows."""
        return Struct((*self.snapshot.schema, *CHANGE_COLUMNS))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns of the table."""
        return self.snapshot.partition_columns

    def files(self, columns: Collection[str] = ()) -> FileListing:
        """Return a listing of the changed files. `columns`: the columns whose known bounds the listing contains."""
        bounds = [_bounds_of_change(file) for file in self.changed_files]
        names = [name for name in CHANGE_COLUMNS.names if name in columns]
        bounds_type = pa.struct(list(arrow_schema(CHANGE_COLUMNS.select(tuple(names)))))
        partition_type = pa.struct(list(arrow_schema(bare(self.snapshot.schema.select(self.partition_columns)))))
        rows = [
            {
                "path": file.path,
                "size": file.size,
                "deleted": 0,
                "partition": {name: file.partition.get(name) for name in self.partition_columns},
                "lower": bound,
                "upper": bound,
                "nulls": dict.fromkeys(names, 0),
                _INDEX: index,
            }
            for index, (file, bound) in enumerate(zip(self.changed_files, bounds, strict=True))
        ]
        null_counts_type = pa.struct([(name, pa.int64()) for name in names])
        schema = listing_schema(partition_type, bounds_type, null_counts_type).append(pa.field(_INDEX, pa.int64()))
        return FileListing(pa.Table.from_pylist(rows, schema))

    def files_matching(self, mask: FileMask, columns: Collection[str] = ()) -> MatchingFiles:
        """Return the changed files that a mask selects. `columns`: the columns whose bounds the mask compares."""
        return MatchingFiles.of(self.files(columns), mask)

    def selected(self, files: FileListing) -> TableChanges:
        """Return only the changes in some files of the listing."""
        return replace(self, changed_files=tuple(self.changed_files[index] for index in files.rows[_INDEX].to_pylist()))


def _bounds_of_change(file: ChangedFile) -> dict[str, Any]:
    """Return the values of the columns that all change rows of a file share, without those that are unknown."""
    bounds = {CHANGE_TYPE: file.change, COMMIT_VERSION: file.version, COMMIT_TIMESTAMP: file.time}
    return {name: value for name, value in bounds.items() if value is not None}


class ChangeFeed(Protocol):
    """The change data feed of a table. Each table format that records changes implements this interface."""

    def changes(self, newest: Snapshot, first: Bound, last: Bound | None) -> TableChanges:
        """Return the change rows in a range of versions.

        Args:
            newest: The newest version of the table. Later versions are ignored.
            first: The first version of the range, or a time. A time selects the first version at or after it.
            last: The last version of the range, or a time, which selects the last version at or before it. None for `newest`.

        Raises:
            ChangesNotRecorded: A version in the range has no change rows.
            VersionNotFound: A bound is in the future, or a log cleanup has deleted its version.
            IncompatibleSchemaChange: Change rows cannot be read with the columns of the result.
            PlanError: The range ends before it begins.
            CorruptLog: The log cannot be read.
        """
