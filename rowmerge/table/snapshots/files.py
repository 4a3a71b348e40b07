"""The data files of a snapshot, and the changes that a command makes to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowmerge.errors import UnsupportedTableFeature
from rowmerge.table.metadata.schema import Struct

Positions = BitMap64
"""A set of row positions in one data file, which count from 0 in the physical order of the file."""


SOURCE, TRANSFORM, OF_UUIDS, LOCAL = b"source", b"transform", b"of uuids", b"local"
"""The keys in the Arrow metadata of a field of `ranges` in a listing: the top-level source column, the transform as a string, whether the
column contains UUIDs as strings, whose bytes are hashed, and whether the transform was computed in an unknown time zone."""


def range_type(value_type: pa.DataType) -> pa.StructType:
    """Return the Arrow type of one field of `ranges` in a listing, for partition values of a type."""
    return pa.struct([("lower", value_type), ("upper", value_type), ("has_nulls", pa.bool_()), ("has_values", pa.bool_())])


def listing_schema(
    partition_type: pa.StructType, bounds_type: pa.StructType, null_counts_type: pa.StructType, ranges_type: pa.StructType | None = None
) -> pa.Schema:
    """Return the Arrow schema for a listing of a snapshot's live data files, which has one row per file.

    - path: the absolute path with its scheme, not percent-encoded (`file:///w/s/t/x=A%2FA/p.parquet` is in the folder `x=A%2FA`).
    - size: the size of the file in bytes.
    - records: the number of rows in the file including deleted rows, null if unknown.
    - deleted: the number of rows that deletion vectors or delete files delete.
    - partition: the partition values, null for a file that was written before the partitioning changed.
    - lower, upper: the bounds of columns, null if unknown. No value is below `lower` or above `upper`. A float column that may contain NaN
      has null bounds.
    - nulls: the null counts of columns, null if unknown.
    - ranges (optional): a field for each transform of a column by any partitioning. It contains the least and the greatest transformed
      value, and whether the column may have nulls and values. It is null for a file of another partitioning.

    Args:
        partition_type: The types of partition values by logical column name. The value of a year, month, day, hour or bucket is an int,
            under the name of the partition field.
        bounds_type: The types of the columns with bounds, by logical name, nested for structs.
        null_counts_type: The same columns and columns without bounds. Each leaf is an int64.
        ranges_type: The types of the ranges, each a `range_type`; None for a listing without ranges.
    """
    counts = [(name, pa.int64()) for name in ("size", "records", "deleted")]
    bounds = [("lower", bounds_type), ("upper", bounds_type)]
    ranges = [] if ranges_type is None else [pa.field("ranges", ranges_type)]
    return pa.schema([("path", pa.string()), *counts, ("partition", partition_type), *bounds, ("nulls", null_counts_type), *ranges])


def nested_field(values: pa.Array, path: Iterable[str]) -> pa.Array | None:
    """Return the values of a nested field of a struct array, or None if the type has no such field.

    Args:
        values: The struct array.
        path: The names of the fields from the outermost struct to the nested field.
    """
    for name in path:
        index = values.type.get_field_index(name) if pa.types.is_struct(values.type) else -1
        if index < 0:
            return None
        values = pc.struct_field(values, [index])
    return values


class ListedFile(NamedTuple):
    """One file of a listing. The fields have the same meaning as the columns in `listing_schema`."""

    path: str
    size: int
    records: int | None
    deleted: int
    partition: Mapping[str, Any] | None

    @property
    def live_size(self) -> float:
        """The estimated size of the live rows in bytes: the file size, multiplied by the fraction of live rows."""
        return float(self.size * (1 - self.deleted / self.records) if self.records else self.size)


@dataclass(frozen=True, eq=False)
class FileListing:
    """A listing of live data files of a snapshot. `rows`: an Arrow table with one row per file, in the schema of `listing_schema`."""

    rows: pa.Table

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @cached_property
    def paths(self) -> list[str]:
        paths: list[str] = self.rows["path"].to_pylist()
        return paths

    @property
    def sizes(self) -> pa.ChunkedArray:
        return self.rows["size"]

    @property
    def records(self) -> pa.ChunkedArray:
        return self.rows["records"]

    @property
    def deleted(self) -> pa.ChunkedArray:
        return self.rows["deleted"]

    @property
    def partitions(self) -> pa.StructArray:
        return self.rows["partition"].combine_chunks()

    @property
    def total_size(self) -> int:
        """The total size of all files in bytes."""
        return int(pc.sum(self.sizes).as_py() or 0)

    @property
    def total_records(self) -> int:
        """The number of rows in all files, including deleted rows. A file whose row count is unknown counts as empty."""
        return int(pc.sum(self.records).as_py() or 0)

    @property
    def total_deleted(self) -> int:
        """The number of rows in all files that deletion vectors or delete files delete."""
        return int(pc.sum(self.deleted).as_py() or 0)

    @property
    def live_rows(self) -> int:
        """The number of rows in all files that are not deleted. A file whose row count is unknown counts as empty."""
        return self.total_records - self.total_deleted

    def filter(self, mask: pa.Array | pa.ChunkedArray) -> FileListing:
        """Return the files for which the mask is true."""
        return FileListing(self.rows.filter(mask))

    def with_paths(self, paths: Iterable[str]) -> FileListing:
        """Return a listing of those files whose path is in `paths`, in the order of this listing."""
        return self.filter(pc.is_in(self.rows["path"], value_set=pa.array(list(paths), pa.string())))

    def without_files(self) -> FileListing:
        """Return an empty listing with the same columns."""
        return FileListing(self.rows.slice(0, 0))

    def without_statistics(self) -> FileListing:
        """Return the same files without bounds and null counts. Partition values and their transforms remain."""
        rows, empty = self.rows, pa.nulls(len(self), pa.struct([]))
        for name in ("lower", "upper", "nulls"):
            rows = rows.set_column(rows.column_names.index(name), name, empty)
        return FileListing(rows)

    def with_distinct_paths(self) -> list[FileListing]:
        """Return listings that together contain these files. None of them contains a path twice, which metadata of other writers can."""
        if pc.count_distinct(self.rows["path"]).as_py() == len(self):
            return [self]
        counts: dict[str, int] = defaultdict(int)
        occurrences = []
        for path in self.paths:
            counts[path] += 1
            occurrences.append(counts[path])
        array = pa.array(occurrences)
        return [self.filter(pc.equal(array, number)) for number in range(1, max(occurrences) + 1)]

    def check_listed_once(self, table: str) -> None:
        """Check that no path occurs twice. A changed file is replaced by its path, so that the rows of all its entries would change.

        Raises:
            UnsupportedTableFeature: A path occurs twice.
        """
        _, *repetitions = self.with_distinct_paths()
        if repetitions:
            feature = f"data file {repetitions[0].paths[0]}, which the metadata list more than once"
            advice = "Write its rows to new files: INSERT OVERWRITE t SELECT * FROM t, or SELECT DISTINCT * FROM t for each row once."
            raise UnsupportedTableFeature(table, feature, action="change rows of", advice=advice)

    def files(self) -> list[ListedFile]:
        """Return the listing as a list with one object per file."""
        columns = (self.rows[name].to_pylist() for name in ListedFile._fields)
        return [ListedFile(*row) for row in zip(*columns, strict=True)]


FileMask = Callable[[FileListing], pa.Array | pa.ChunkedArray]
"""A function that returns a mask over a listing, which is true for each file that may contain matching rows."""


@dataclass(frozen=True)
class MatchingFiles:
    """The files that a mask selects from all live files of a snapshot.

    `listing`: the selected files. `total_files`, `total_size`: the number of all live files and their bytes, None if the metadata that was
    read does not tell.
    """

    listing: FileListing
    total_files: int | None
    total_size: int | None

    @classmethod
    def all_of(cls, files: FileListing) -> MatchingFiles:
        """Return all live files."""
        return cls(files, len(files), files.total_size)

    @classmethod
    def of(cls, files: FileListing, mask: FileMask) -> MatchingFiles:
        """Return the files that a mask selects from a listing of all live files."""
        is_match = pc.fill_null(mask(files), True)
        # A filter copies the listing, also if it selects every file.
        selected_files = files if pc.all(is_match).as_py() else files.filter(is_match)
        return cls(selected_files, len(files), files.total_size)


@dataclass(frozen=True)
class FileLayout:
    """The way in which some data files of a table store the columns.

    `paths`: the data files. `stored_schema`: all columns of the table, in order, with their names in the files. `by_field_id`: whether only
    the FIELD_ID of a field identifies its column. `missing_columns`: the columns that are not in the files. The listing has their values.
    """

    paths: tuple[str, ...]
    stored_schema: Struct
    by_field_id: bool
    missing_columns: tuple[str, ...]


class RowOrigin(NamedTuple):
    """The ids and the version of the rows in a data file. They apply to rows for which the file does not store them.

    The row at position n has the id `first_row_id` + n. If `first_row_id` is None, the rows have no ids. `version`: the version that last
    changed the rows.
    """

    first_row_id: int | None
    version: int


@dataclass(frozen=True)
class EqualityDeletes:
    """Iceberg equality deletes: a row in `applies_to` is deleted if it equals a row in `paths` in all `columns`.

    `columns`: the compared columns, which readers identify by FIELD_ID. `paths`: the equality delete files. `applies_to`: the data files.
    NULL equals NULL. If a data file lacks a column, its value is NULL.
    """

    columns: Struct
    paths: tuple[str, ...]
    applies_to: tuple[str, ...]


@dataclass(frozen=True)
class AddedFile:
    """A data file that a command wrote.

    `partition`, `lower`, `upper` and `nulls` map logical column names to Python values, such as int, `datetime.date` or `decimal.Decimal`.
    A timestamp is a `datetime.datetime` in UTC, and a timestamp_ntz is one without a time zone. A struct is a nested mapping. Columns
    without a known bound are absent from `lower` and `upper`. `size`: the size in bytes. `records`: the number of rows. `sizes`: the
    compressed size of each leaf column in bytes, nested like the columns. Lists have the key `element`, and maps have `key` and `value`.
    `ordered`: whether the rows are in the sort order that the table had when the file was written. `split_offsets`: the offset of each row
    group in the file, empty if unknown.
    """

    path: str
    size: int
    records: int
    partition: Mapping[str, Any] = field(default_factory=dict)
    lower: Mapping[str, Any] = field(default_factory=dict)
    upper: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    ordered: bool = False
    split_offsets: tuple[int, ...] = ()


def listing_of_new_files(files: Sequence[AddedFile]) -> FileListing:
    """Return a listing, without bounds, of files that a command wrote into a table without partitions.

    Args:
        files: The files.
    """
    empty = pa.struct([])
    columns = {
        "path": pa.array([file.path for file in files], pa.string()),
        "size": pa.array([file.size for file in files], pa.int64()),
        "records": pa.array([file.records for file in files], pa.int64()),
        "deleted": pa.array([0] * len(files), pa.int64()),
        **{name: pa.array([{}] * len(files), empty) for name in ("partition", "lower", "upper", "nulls")},
    }
    return FileListing(pa.table(columns, schema=listing_schema(empty, empty, empty)))


@dataclass(frozen=True)
class FileChanges:
    """The changes that one command makes to a table's files.

    `added`: the new data files. `removed`: the paths of files that are removed from the table. `deleted`: for other files, by path, all row
    positions that are deleted after the change. These include rows that were already deleted. No path is in both `removed` and `deleted`.
    `change_rows`: change data files with the old and new values of changed rows, empty if readers can derive these from the other fields.
    `restated`: live files of a Delta table that get these statistics instead of theirs, without any other change.
    """

    added: tuple[AddedFile, ...] = ()
    removed: tuple[str, ...] = ()
    deleted: Mapping[str, Positions] = field(default_factory=dict)
    change_rows: tuple[AddedFile, ...] = ()
    restated: tuple[AddedFile, ...] = ()

    @property
    def new_files(self) -> tuple[AddedFile, ...]:
        """All files that the command wrote: data files and change data files."""
        return self.added + self.change_rows

    @property
    def empty(self) -> bool:
        return not (self.added or self.removed or self.deleted or self.restated)
