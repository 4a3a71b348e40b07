"""Write data files: rolling Parquet files by partition, with their bounds."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.concurrency import STORE_THREADS, map_in_batches
from rowmerge.parquet.filesystems import Options, filesystem_of
from rowmerge.parquet.fitting import conform, renamed
from rowmerge.parquet.partitions import PartitionKey, partition_path, split_by_partition

Values = dict[str, Any]
Path = tuple[str, ...]
ROW_ID, CHANGED_IN = "__rowmerge_row_id", "__rowmerge_changed_in"
"""The names of the two hidden columns among the table's columns."""
_LOCAL_THREADS = 2
"""So many local files are finished at once."""


@dataclass(frozen=True)
class StoredColumns:
    """The columns of `WriteSpec.schema` as an existing file stores them. `missing_columns`: the columns that the file lacks."""

    stored: pa.Schema
    by_field_id: bool
    missing_columns: tuple[str, ...]


@dataclass(frozen=True)
class FilesLineage:
    """What files give to rows that are written to another file: ids, and the versions that last changed the rows.

    A format may derive the id of a row from its place in a file (Iceberg's row lineage). A row that moves keeps its id in a hidden column
    of the new file. `TableShape.row_lineage` names the columns, and `Snapshot.row_origins` says what each file gives to its rows.
    An updated row keeps its id alone, a moved row also the version of its last change, and a new row neither.
    `origins`: by path, the id of a file's first row, None if its rows have no ids, and the version of all its rows.
    """

    origins: dict[str, tuple[int | None, int]] = field(default_factory=dict)

    def ids_and_versions(self, paths: pa.Array, positions: pa.Array, stored: tuple[pa.Array, pa.Array]) -> tuple[pa.Array, pa.Array]:
        """Return the ids of rows, and the versions that last changed them, by their paths and positions in files.

        `stored`: the hidden columns of the rows. A NULL stands for the value that follows from the file.
        """
        stored_ids, stored_versions = stored
        encoded = pc.dictionary_encode(paths)
        origins = [self.origins.get(path, (None, 0)) for path in encoded.dictionary.to_pylist()]
        first_ids = pc.take(pa.array([first_id for first_id, _ in origins], pa.int64()), encoded.indices)
        file_versions = pc.take(pa.array([version for _, version in origins], pa.int64()), encoded.indices)
        ids = pc.coalesce(stored_ids, pc.add(first_ids, positions.cast(pa.int64())))
        versions = pc.coalesce(stored_versions, file_versions)
        return ids, pc.if_else(pc.is_valid(ids), versions, pa.scalar(None, pa.int64()))

    def filled(self, rows: pa.Table, path: str, start: int) -> pa.Table:
        """Return rows of one file, which lie there from the position `start` on, with their ids and versions in the hidden columns."""
        paths = pa.repeat(pa.scalar(path, pa.string()), rows.num_rows)
        positions = pa.array(np.arange(start, start + rows.num_rows, dtype=np.int64))
        stored_lineage = (rows[ROW_ID].combine_chunks(), rows[CHANGED_IN].combine_chunks())
        return with_lineage(rows, *self.ids_and_versions(paths, positions, stored_lineage))


@dataclass(frozen=True)
class WriteSpec:
    """How data files of a table are written.

    `root`: the folder of the table's data files; `names`: all columns of a row in order; `schema`: the columns of a data file under the
    table's names; `stored`: the same columns as the file has them, with field ids; `by_field_id`: readers find columns of older files by
    these ids, not by name; `partition`: the keys that divide the rows; `values_in_files`: files also hold the columns that divide the rows,
    and partition values and folders are as in Iceberg, else as in Delta; `bounds`: top-level columns to keep bounds of;
    `target_file_size`, `row_group_size`: bytes of a file, and of buffered Arrow data; `prefix`: the beginning of file names; `attempt`: a
    part of the file names of one job; `ordered`: the rows come in the table's order; `older_layouts`: by path, files that hold the columns
    in another way than new ones; `lineage`: what files give to rows that are taken from them, None if rows take nothing along,
    else the hidden columns are the last two of `schema` and `stored`; `initial_values`: by the table's names, the values of columns for
    files without them, as arrays of one value; `filesystem_options`: arguments of Arrow's file systems, credentials included.
    """

    root: str
    names: tuple[str, ...]
    schema: pa.Schema
    stored: pa.Schema
    by_field_id: bool
    partition: tuple[PartitionKey, ...]
    values_in_files: bool
    bounds: frozenset[str]
    target_file_size: int = 128 * 1024 * 1024
    row_group_size: int = 64 * 1024 * 1024
    compression: str = "zstd"
    compression_level: int | None = None
    prefix: str = "part"
    attempt: str = ""
    ordered: bool = False
    older_layouts: dict[str, StoredColumns] = field(default_factory=dict)
    lineage: FilesLineage | None = None
    initial_values: dict[str, pa.Array] = field(default_factory=dict)
    filesystem_options: Options = field(default_factory=dict, repr=False)


@dataclass
class FileMessage:
    """One written file: what the driver needs for the table's log. Values are plain Python objects."""

    path: str
    size: int
    records: int
    partition: dict[str, Any]
    lower: dict[str, Any]
    upper: dict[str, Any]
    nulls: dict[str, Any]
    sizes: dict[str, Any]
    ordered: bool


class PartitionedWriter:
    """Write rows to rolling Parquet files, one open file for each partition."""

    def __init__(self, spec: WriteSpec) -> None:
        self._spec = spec
        self.names = spec.names
        self.lineage = spec.lineage
        self._open: dict[Any, RollingFile] = {}
        self._buffered = 0

    def write(self, rows: pa.Table) -> None:
        """Write rows with the columns of the files, and those that divide the rows."""
        if not self._spec.partition:
            self.write_partition({}, rows.select(self._spec.schema.names))
            return
        for partition, partition_rows in split_by_partition(rows, self._spec.partition, empty_is_null=not self._spec.values_in_files):
            self.write_partition(partition, partition_rows.select(self._spec.schema.names))

    def write_partition(self, partition: dict[str, Any], rows: pa.Table) -> None:
        """Write rows of one partition, with the columns of the files."""
        if rows.num_rows == 0:
            return
        key = tuple("NaN" if value != value else value for value in partition.values())  # a NaN is not equal to itself
        if key not in self._open:
            self._open[key] = RollingFile(self._spec, partition)
        file = self._open[key]
        self._buffered -= file.buffered
        file.write(conform(rows, self._spec.schema))
        self._buffered += file.buffered
        if self._buffered > 4 * self._spec.row_group_size:
            fullest = max(self._open.values(), key=lambda file: file.buffered)  # its buffer makes the largest row group
            self._buffered -= fullest.buffered
            fullest.flush()

    def close(self) -> list[FileMessage]:
        """Finish all files, several at once: with partitions they may be thousands."""
        threads = _LOCAL_THREADS if self._spec.root.startswith("file:") else STORE_THREADS
        return [message for messages in map_in_batches(RollingFile.close, list(self._open.values()), threads) for message in messages]

    def abort(self) -> list[str]:
        """Close all files. Returns their paths, for the caller to delete."""
        return [path for file in self._open.values() for path in file.abort()]


@dataclass(frozen=True)
class OddFloats:
    """The columns that hold floats which Spark's own Parquet filters would lose.

    NaN is no part of a footer's bounds, but above all numbers in Spark; -0.0 is another entry of a dictionary than 0.0, but equal to it.
    Spark passes conditions to Parquet's filters, which trust footers and dictionaries. So these columns are written without them.
    """

    not_a_number: frozenset[str] = frozenset()
    minus_zero: frozenset[str] = frozenset()

    @staticmethod
    def of(rows: pa.Table) -> OddFloats:
        floats = [column.name for column in rows.schema if pa.types.is_floating(column.type)]
        with_nan = (name for name in floats if pc.any(pc.is_nan(rows[name])).as_py())
        with_minus_zero = (name for name in floats if pc.any(pc.equal(pc.divide(1.0, rows[name]), float("-inf"))).as_py())
        return OddFloats(frozenset(with_nan), frozenset(with_minus_zero))

    def __le__(self, other: OddFloats) -> bool:
        return self.not_a_number <= other.not_a_number and self.minus_zero <= other.minus_zero


class RollingFile:
    """The files of one partition: a new one begins when the target size is reached."""

    def __init__(self, spec: WriteSpec, partition: dict[str, Any]) -> None:
        self._spec, self._partition = spec, partition
        self._leaves = list(_leaves(pa.struct(list(spec.schema)), pa.struct(list(spec.stored))))
        self._pending: list[pa.Table] = []
        self.buffered = 0
        self._writer: pq.ParquetWriter | None = None
        self._stream: Any = None
        self._path = ""
        self._odd_floats = OddFloats()
        self._footers: list[pq.FileMetaData] = []
        self._finished: list[FileMessage] = []

    def write(self, rows: pa.Table) -> None:
        self._pending.append(rows)
        self.buffered += rows.nbytes
        if self.buffered >= self._spec.row_group_size:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows as one row group, or as several if they came at once and are more."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        row_groups = max(self.buffered // self._spec.row_group_size, 1)
        self._pending, self.buffered = [], 0
        writer = self._writer_for(OddFloats.of(rows))
        writer.write_table(renamed(rows, self._spec.stored), row_group_size=-(-rows.num_rows // row_groups))  # rounded up
        if self._stream.tell() >= self._spec.target_file_size:
            self._finish()

    def _writer_for(self, odd_floats: OddFloats) -> pq.ParquetWriter:
        """Return the open file if it may hold these odd floats, else a new file."""
        if self._writer is not None and not odd_floats <= self._odd_floats:
            self._finish()
        if self._writer is None:
            self._stream = self._open_stream()
            self._writer = self._open_writer(odd_floats)
            self._odd_floats = odd_floats
        return self._writer

    def close(self) -> list[FileMessage]:
        self.flush()
        if self._writer is not None:
            self._finish()
        return self._finished

    def abort(self) -> list[str]:
        """Close the open file. Returns the paths of all files of this partition."""
        paths = [file.path for file in self._finished]
        if self._writer is not None:
            paths.append(self._path)
            for opened in (self._writer, self._stream):
                # A full disk takes no footer, and a writer that failed has no metadata.
                with suppress(OSError, RuntimeError, pa.ArrowException):
                    opened.close()
        return paths

    def _open_stream(self) -> Any:
        """Open a new file in the partition's folder, and note its path."""
        spec = self._spec
        folder = partition_path(spec.partition, self._partition, as_hive=not spec.values_in_files)
        unique = f"{spec.attempt}-{uuid.uuid4().hex[:12]}" if spec.attempt else str(uuid.uuid4())
        name = f"{spec.prefix}-{len(self._finished):05d}-{unique}.c000.{spec.compression}.parquet"
        self._path = "/".join(part for part in (spec.root, folder, name) if part)
        filesystem, inner_path = filesystem_of(self._path, spec.filesystem_options)
        if self._path.startswith("file:"):
            os.makedirs(os.path.dirname(inner_path), exist_ok=True)
        return filesystem.open_output_stream(inner_path)

    def _open_writer(self, odd_floats: OddFloats) -> pq.ParquetWriter:
        """Return a Parquet writer, without statistics and dictionaries of the columns with these floats."""
        return pq.ParquetWriter(
            self._stream,
            self._spec.stored,
            compression=self._spec.compression,
            compression_level=self._spec.compression_level,
            version="2.6",
            coerce_timestamps="us",
            store_schema=False,
            store_decimal_as_integer=True,
            metadata_collector=self._footers,
            write_statistics=_file_paths(self._leaves, odd_floats.not_a_number),
            use_dictionary=_file_paths(self._leaves, odd_floats.minus_zero),
            write_page_index=True,  # a reader that looks for few keys skips pages by it
        )

    def _finish(self) -> None:
        """Close the open file, and keep its message with the bounds and sizes from the footer."""
        assert self._writer is not None
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        footer, spec = self._footers.pop(), self._spec
        groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
        lower, upper, nulls = bounds_of(groups, self._leaves, spec.bounds)
        sizes = sizes_of(groups, self._leaves)
        self._finished.append(FileMessage(self._path, size, footer.num_rows, self._partition, lower, upper, nulls, sizes, spec.ordered))
        self._writer = None


@dataclass(frozen=True)
class Leaf:
    """A Parquet leaf column. `path`: names of the table, with `element`, `key` and `value`; `file_path`: the path in the file's schema.

    `has_bounds`: whether the footer's bounds of the leaf are kept.
    """

    path: Path
    file_path: str
    is_float: bool
    has_bounds: bool


def _leaves(type_: pa.DataType, stored: pa.DataType, path: Path = (), file_path: Path = (), *, is_repeated: bool = False) -> Iterator[Leaf]:
    """Yield the leaves of a type in the file's order. `stored`: the type in the file; `is_repeated`: it is inside a list or map."""
    if not pa.types.is_nested(type_):
        is_float = pa.types.is_floating(type_)
        # Parquet's statistics leave out NaN, which Spark sorts last. OddFloats finds a NaN in a column, but not inside a struct.
        may_hide_nan = is_float and len(path) > 1
        is_any_length_binary = pa.types.is_binary(type_) and not pa.types.is_fixed_size_binary(stored)
        yield Leaf(path, ".".join(file_path), is_float, has_bounds=not (is_repeated or may_hide_nan or is_any_length_binary))
        return
    is_repeated = is_repeated or not pa.types.is_struct(type_)
    for name, file_names, child_type, stored_type in _children(type_, stored):
        yield from _leaves(child_type, stored_type, (*path, name), (*file_path, *file_names), is_repeated=is_repeated)


def _children(type_: pa.DataType, stored: pa.DataType) -> Iterator[tuple[str, Path, pa.DataType, pa.DataType]]:
    """Yield each part of a struct, list or map: its name, its names in the file, its type, and its type in the file."""
    if pa.types.is_struct(type_):
        for column, stored_column in zip(type_, stored, strict=True):
            yield column.name, (stored_column.name,), column.type, stored_column.type
    elif pa.types.is_list(type_):
        yield "element", ("list", "element"), type_.value_type, stored.value_type
    elif pa.types.is_map(type_):
        yield "key", ("key_value", "key"), type_.key_type, stored.key_type
        yield "value", ("key_value", "value"), type_.item_type, stored.item_type


def _file_paths(leaves: Sequence[Leaf], without: frozenset[str]) -> list[str]:
    """Return the paths of leaves in the file, except those of columns to leave out and of floats inside other columns."""
    return [leaf.file_path for leaf in leaves if leaf.path[0] not in without and not (leaf.is_float and "." in leaf.file_path)]


def bounds_of(groups: Sequence[pq.RowGroupMetaData], leaves: Sequence[Leaf], columns: frozenset[str]) -> tuple[Values, Values, Values]:
    """Return lower bounds, upper bounds and null counts of `columns`, from the row groups of a footer. Fields of structs nest.

    The bounds of UUIDs are bytes, as in the file.
    """
    lower, upper, nulls = Values(), Values(), Values()
    for index, leaf in enumerate(leaves):
        if not leaf.has_bounds or leaf.path[0] not in columns:
            continue
        statistics = [group.column(index).statistics for group in groups]
        if any(group_statistics is None for group_statistics in statistics):
            continue
        if all(group_statistics.has_null_count for group_statistics in statistics):
            put(nulls, leaf.path, sum(group_statistics.null_count for group_statistics in statistics))
        if min_max := _min_max(groups, statistics):
            minimum, maximum = min_max
            put(lower, leaf.path, minimum)
            put(upper, leaf.path, maximum)
    return lower, upper, nulls


def _min_max(groups: Sequence[pq.RowGroupMetaData], statistics: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """Return the minimum and maximum of a leaf, or None if a row group with values has no bounds."""
    with_bounds = [group_statistics for group_statistics in statistics if group_statistics.has_min_max]
    with_values = [group for group, stats in zip(groups, statistics, strict=True) if stats.null_count != group.num_rows]
    if not with_bounds or len(with_bounds) < len(with_values):
        return None
    return min(stats.min for stats in with_bounds), max(stats.max for stats in with_bounds)


def sizes_of(groups: Sequence[pq.RowGroupMetaData], leaves: Sequence[Leaf]) -> Values:
    """Return the compressed bytes of each leaf's column chunks. Nested leaves nest, with `element`, `key` and `value`."""
    sizes = Values()
    for index, leaf in enumerate(leaves):
        put(sizes, leaf.path, sum(group.column(index).total_compressed_size for group in groups))
    return sizes


def put(tree: dict[str, Any], path: Path, value: Any) -> None:
    """Set the value at a path of nested dicts."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def with_lineage(rows: pa.Table, ids: pa.Array, versions: pa.Array) -> pa.Table:
    """Set both hidden columns, which are appended to rows without them."""
    for name, values in ((ROW_ID, ids), (CHANGED_IN, versions)):
        index = rows.schema.get_field_index(name)
        rows = rows.append_column(name, values) if index < 0 else rows.set_column(index, name, values)
    return rows


def delete_written(paths: list[str], filesystem_options: Options) -> None:
    """Delete files that a task on an executor wrote. There is no `rowmerge.storage.deletion` there. A failure leaves them for VACUUM."""
    for path in paths:
        filesystem, inner_path = filesystem_of(path, filesystem_options)
        with suppress(OSError):
            filesystem.delete_file(inner_path)
