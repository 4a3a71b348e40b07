"""The data files of a snapshot, and the changes of a command to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowmerge.table.metadata.schema import Struct

Positions = BitMap64
"""Row indexes inside one data file, counted from 0 in the file's physical order."""


SOURCE, TRANSFORM, OF_UUIDS = b"source", b"transform", b"of uuids"
"""Keys of the Arrow metadata of a bucket field in a listing's `partition`: the top-level column that is hashed, the text of the transform,
and whether the column holds texts of UUIDs, whose bytes are hashed."""


def listing_schema(partition_type: pa.StructType, bounds_type: pa.StructType, null_counts_type: pa.StructType) -> pa.Schema:
    """Return the Arrow schema of a snapshot's list of live data files, which has one row per file.

    - path: absolute, not percent-encoded, with its scheme (`file:///w/s/t/x=A%2FA/p.parquet` is in the folder `x=A%2FA`).
    - size: in bytes.
    - records: the number of rows in the file, deleted rows included, null if unknown.
    - deleted: the number of rows that deletion vectors or delete files delete.
    - partition: the partition values, null for a file from before the partitioning was changed.
    - lower, upper: bounds of columns, null if unknown. No value is below `lower` or above `upper`. A float column that may hold NaN has
      null bounds.
    - nulls: null counts of the same columns, null if unknown.

    Args:
        partition_type: The types of partition values by logical column name. A value that is not a column's value (a year, month, day, hour
            or bucket) is an int, by the name of the partition field.
        bounds_type: The types of the columns with bounds, by logical name, nested for structs.
        null_counts_type: The same columns and further ones without bounds, as long.
    """
    counts = [(name, pa.int64()) for name in ("size", "records", "deleted")]
    bounds = [("lower", bounds_type), ("upper", bounds_type)]
    return pa.schema([("path", pa.string()), *counts, ("partition", partition_type), *bounds, ("nulls", null_counts_type)])


class ListedFile(NamedTuple):
    """One file of a listing. The fields have the meaning of the columns of `listing_schema`."""

    path: str
    size: int
    records: int | None
    deleted: int
    partition: Mapping[str, Any] | None

    @property
    def live_size(self) -> float:
        """The bytes of the file that its live rows take, in proportion to the rows."""
        return float(self.size * (1 - self.deleted / self.records) if self.records else self.size)


@dataclass(frozen=True, eq=False)
class FileListing:
    """Live data files of a snapshot, one row a file. `rows` has the schema of `listing_schema`."""

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
        """The bytes of all files."""
        return int(pc.sum(self.sizes).as_py() or 0)

    @property
    def total_records(self) -> int:
        """The rows in all files, deleted rows included. A file whose row count is unknown adds none."""
        return int(pc.sum(self.records).as_py() or 0)

    @property
    def total_deleted(self) -> int:
        """The rows that deletion vectors or delete files delete in all files."""
        return int(pc.sum(self.deleted).as_py() or 0)

    @property
    def live_rows(self) -> int:
        """The rows in all files that are not deleted. A file whose row count is unknown adds none."""
        return self.total_records - self.total_deleted

    def filter(self, mask: pa.Array | pa.ChunkedArray) -> FileListing:
        """Return the files for which the mask is true."""
        return FileListing(self.rows.filter(mask))

    def with_paths(self, paths: Iterable[str]) -> FileListing:
        """Return the files that have one of these paths."""
        return self.filter(pc.is_in(self.rows["path"], value_set=pa.array(list(paths), pa.string())))

    def without_files(self) -> FileListing:
        """Return a listing of the same columns without files."""
        return FileListing(self.rows.slice(0, 0))

    def files(self) -> list[ListedFile]:
        """Return a record of each file."""
        columns = (self.rows[name].to_pylist() for name in ListedFile._fields)
        return [ListedFile(*row) for row in zip(*columns, strict=True)]


FileMask = Callable[[FileListing], pa.Array | pa.ChunkedArray]
"""Returns a mask that is true for each file of a listing that may have matching rows."""


@dataclass(frozen=True)
class FileLayout:
    """The columns of some data files of a table.

    `stored_schema` has all columns of the table, in order, under their names in the files. With `by_field_id`, only the FIELD_ID of a field
    identifies its column. `missing_columns`: columns that these files lack. The file listing has their values.
    """

    paths: tuple[str, ...]
    stored_schema: Struct
    by_field_id: bool
    missing_columns: tuple[str, ...]


class RowOrigin(NamedTuple):
    """The row ids and the version of a data file's rows, unless the file stores them.

    The row at position n has the id `first_row_id` + n, no id if `first_row_id` is None. `version`: the version that last changed the rows.
    """

    first_row_id: int | None
    version: int


@dataclass(frozen=True)
class EqualityDeletes:
    """Equality deletes of Iceberg: rows of `applies_to` are deleted if they equal a row of `paths` in these columns.

    `paths`: the equality delete files. `applies_to`: data files. NULL equals NULL. Readers find the columns by their FIELD_ID. A data file
    without the column holds NULL.
    """

    columns: Struct
    paths: tuple[str, ...]
    applies_to: tuple[str, ...]


@dataclass(frozen=True)
class AddedFile:
    """A data file that a command wrote.

    `partition`, `lower`, `upper` and `nulls` map logical column names to Python values, such as int, `datetime.date` or `decimal.Decimal`.
    A timestamp is a `datetime.datetime` in UTC, a timestamp_ntz one without a time zone. A struct is a nested mapping. A column without a
    known bound is absent from `lower` and `upper`. `sizes`: the compressed bytes of every leaf column, nested as the columns are. Lists
    have the key `element`, maps `key` and `value`. `ordered`: the rows are in the sort order that the table had when the file was written.
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


@dataclass(frozen=True)
class FileChanges:
    """The changes of one command to a table's files.

    `removed`: paths of files that leave the table. `deleted`: by the path of a file that stays, all positions that are deleted after the
    change, also those that were deleted before. A path is in at most one of both. `change_rows`: change data files with the old and new
    values of changed rows, empty if a reader can derive them from the other three fields.
    """

    added: tuple[AddedFile, ...] = ()
    removed: tuple[str, ...] = ()
    deleted: Mapping[str, Positions] = field(default_factory=dict)
    change_rows: tuple[AddedFile, ...] = ()

    @property
    def new_files(self) -> tuple[AddedFile, ...]:
        """Every file that the command wrote."""
        return self.added + self.change_rows

    @property
    def empty(self) -> bool:
        return not (self.added or self.removed or self.deleted)
