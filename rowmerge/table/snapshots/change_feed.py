"""The change data feed of a table: the files and rows that each version inserted, updated or deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.table.metadata.schema import Decimal, Field, Primitive, Struct, arrow_schema, arrow_type, bare
from rowmerge.table.snapshots.files import FileListing, FileMask, MatchingFiles, Positions
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
class FileStatistics:
    """The statistics of one file in a listing of several files.

    `listing`: the function that returns the listing with the bounds of these columns, as far as they apply to change rows. `row`: the index
    of the file in the listing.
    """

    listing: Callable[[frozenset[str]], FileListing]
    row: int


@dataclass(frozen=True)
class ChangedFile:
    """The change rows of one version in one file.

    `timestamp`: the time of the version, in milliseconds since the epoch. `change`: INSERT or DELETE, or None if the column CHANGE_TYPE in
    the file contains the type of each change. `partition`: the typed partition values by logical column name. `rows`: row positions in the
    file. `listed`: whether the change rows are the rows at these positions. Otherwise, they are all other rows of the file.
    `size`: the size of the file in bytes. `statistics`: statistics that hold for the change rows, or None if they are unknown.
    """

    version: int
    timestamp: int
    path: str
    change: str | None
    partition: Mapping[str, Any]
    rows: Positions = field(default_factory=Positions)
    listed: bool = False
    size: int = 0
    statistics: FileStatistics | None = None

    @property
    def time(self) -> datetime:
        """The time of the version."""
        return _EPOCH + timedelta(milliseconds=self.timestamp)

    def value_of(self, column: str) -> str | int | datetime | None:
        """Return the value of one of CHANGE_COLUMNS in all change rows of the file, or None if the rows differ."""
        return {CHANGE_TYPE: self.change, COMMIT_VERSION: self.version, COMMIT_TIMESTAMP: self.time}[column]


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
        files = self.changed_files
        with_bounds = frozenset(columns) - frozenset(self.partition_columns)
        data_columns = (column for column in self.snapshot.schema if column.name in with_bounds)
        statistics = _statistics(files, [column for column in data_columns if isinstance(column.type, Primitive | Decimal)])
        for column in CHANGE_COLUMNS:  # all change rows of a file have the same version and time, and mostly the same type
            values = pa.array([file.value_of(column.name) for file in files], arrow_type(column.type))
            statistics[column.name] = (values, values, pa.array([0] * len(files), pa.int64()))
        partition_type = pa.struct(list(arrow_schema(bare(self.snapshot.schema.select(self.partition_columns)))))
        partitions = [{name: file.partition.get(name) for name in self.partition_columns} for file in files]
        lower, upper, nulls = (
            pa.StructArray.from_arrays([arrays[part] for arrays in statistics.values()], list(statistics)) for part in range(3)
        )
        return FileListing(
            pa.table(
                {
                    "path": pa.array([file.path for file in files], pa.string()),
                    "size": pa.array([file.size for file in files], pa.int64()),
                    "records": pa.nulls(len(files), pa.int64()),
                    "deleted": pa.array([0] * len(files), pa.int64()),
                    "partition": pa.array(partitions, partition_type),
                    "lower": lower,
                    "upper": upper,
                    "nulls": nulls,
                    _INDEX: pa.array(range(len(files)), pa.int64()),
                }
            )
        )

    def files_matching(self, mask: FileMask, columns: Collection[str] = ()) -> MatchingFiles:
        """Return the changed files that a mask selects. `columns`: the columns whose bounds the mask compares."""
        return MatchingFiles.of(self.files(columns), mask)

    def selected(self, files: FileListing) -> TableChanges:
        """Return only the changes in some files of the listing."""
        return replace(self, changed_files=tuple(self.changed_files[index] for index in files.rows[_INDEX].to_pylist()))


def _statistics(files: Sequence[ChangedFile], columns: Sequence[Field]) -> dict[str, tuple[pa.Array, pa.Array, pa.Array]]:
    """Return the lower bounds, the upper bounds and the null counts of columns in each file, null if unknown, by the name of the column."""
    indexes: dict[Callable[[frozenset[str]], FileListing], list[int]] = {}
    for index, file in enumerate(files):
        if file.statistics is not None:
            indexes.setdefault(file.statistics.listing, []).append(index)
    names = frozenset(column.name for column in columns)
    listings = [
        listing(names).rows.take([statistics.row for index in group if (statistics := files[index].statistics) is not None])
        for listing, group in indexes.items()
    ]
    row_by_index = {index: row for row, index in enumerate(chain.from_iterable(indexes.values()))}
    order = pa.array([row_by_index.get(index) for index in range(len(files))], pa.int64())

    def values(struct: str, name: str, type_: pa.DataType) -> pa.Array:
        chunks = [_child(rows, struct, name, type_) for rows in listings]
        return pa.concat_arrays(chunks or [pa.nulls(0, type_)]).take(order)

    types = {column.name: arrow_type(column.type) for column in columns}
    return {
        name: (values("lower", name, type_), values("upper", name, type_), values("nulls", name, pa.int64()))
        for name, type_ in types.items()
    }


def _child(rows: pa.Table, struct: str, name: str, type_: pa.DataType) -> pa.Array:
    """Return a field of a struct column of a listing, or nulls if the listing does not have it."""
    column = rows[struct].combine_chunks()
    index = column.type.get_field_index(name)
    return pa.nulls(len(rows), type_) if index < 0 else pc.struct_field(column, [index]).cast(type_)


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
