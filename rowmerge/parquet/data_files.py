"""Writing data files: rolling Parquet files by partition, with their bounds.

Runs on executors, sent there by value (see spark/writing/executors.py), so nothing here may import rowmerge.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.concurrency import STORE_THREADS, map_in_batches
from rowmerge.parquet.filesystems import Options, filesystem_of
from rowmerge.parquet.fitting import conform, renamed
from rowmerge.parquet.lineage import FilesLineage
from rowmerge.parquet.partitions import PartitionKey, partition_path, split_by_partition

_NEAR = 2
"""So many files are finished at once where no store is waited for."""


@dataclass(frozen=True)
class HeldColumns:
    """How a file that is read holds the columns of `WriteSpec.schema`; `outside`: it does not hold these."""

    stored: pa.Schema
    by_field_id: bool
    outside: tuple[str, ...]


@dataclass(frozen=True)
class WriteSpec:
    """How data files of a table are written.

    `root`: the folder of the table's data files; `names`: all columns of a row in order; `schema`: the columns of a data file as the
    table names them;
    `stored`: the same as the file does, ids included; `by_field_id`: older files are read by these ids, not by name; `partition`: what
    divides the rows; `values_in_files`: the columns that divide them are in the files too, and partition values and folders are as
    Iceberg has them, else as Delta does;
    `bounds`: top-level columns to keep bounds of; sizes in bytes of file and of buffered Arrow data; `prefix`: how names of files begin;
    `attempt`: what the names of one job's files have in common; `ordered`: the rows come in the table's order; `others`: files that hold
    the columns in another way than new ones, by their paths; `lineage`: of the files that rows are taken from, None where rows take
    nothing along; else the hidden columns (see lineage.py) are the last two of `schema` and `stored`;
    `initial`: what columns hold in rows of files that do not have them, as arrays of one value, by the table's names;
    `filesystem_options`: arguments of Arrow's file systems, credentials included.
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
    others: dict[str, HeldColumns] = field(default_factory=dict)
    lineage: FilesLineage | None = None
    initial: dict[str, pa.Array] = field(default_factory=dict)
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
    """Rows to rolling Parquet files, one open file a partition."""

    def __init__(self, spec: WriteSpec) -> None:
        self._spec = spec
        self.names = spec.names
        self.lineage = spec.lineage
        self._open: dict[Any, RollingFile] = {}
        self._buffered = 0
        self._done: list[FileMessage] = []

    def write(self, rows: pa.Table) -> None:
        """Rows with the columns of the files, and those that divide the rows."""
        if not self._spec.partition:
            self.write_partition({}, rows.select(self._spec.schema.names))
            return
        for partition, part in split_by_partition(rows, self._spec.partition, empty_is_null=not self._spec.values_in_files):
            self.write_partition(partition, part.select(self._spec.schema.names))

    def write_partition(self, partition: dict[str, Any], rows: pa.Table) -> None:
        """Rows of one partition, with the columns of the files."""
        if rows.num_rows == 0:
            return
        key = tuple("NaN" if value != value else value for value in partition.values())
        if key not in self._open:
            self._open[key] = RollingFile(self._spec, partition)
        file = self._open[key]
        self._buffered -= file.buffered
        file.write(conform(rows, self._spec.schema))
        self._buffered += file.buffered
        if self._buffered > 4 * self._spec.row_group_size:
            fullest = max(self._open.values(), key=lambda file: file.buffered)
            self._buffered -= fullest.buffered
            fullest.flush()

    def close(self) -> list[FileMessage]:
        """Finish all files, several at once: with partitions they may be thousands."""
        threads = _NEAR if self._spec.root.startswith("file:") else STORE_THREADS
        for done in map_in_batches(RollingFile.close, list(self._open.values()), threads):
            self._done += done
        return self._done

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
        nan = (name for name in floats if pc.any(pc.is_nan(rows[name])).as_py())
        zero = (name for name in floats if pc.any(pc.equal(pc.divide(1.0, rows[name]), float("-inf"))).as_py())
        return OddFloats(frozenset(nan), frozenset(zero))

    def __le__(self, other: OddFloats) -> bool:
        return self.not_a_number <= other.not_a_number and self.minus_zero <= other.minus_zero


class RollingFile:
    """The files of one partition: a new one begins when the target size is reached."""

    def __init__(self, spec: WriteSpec, partition: dict[str, Any]) -> None:
        self._spec, self._partition = spec, partition
        self._pending: list[pa.Table] = []
        self.buffered = 0
        self._writer: pq.ParquetWriter | None = None
        self._stream: Any = None
        self._path = ""
        self._records = 0
        self._odd = OddFloats()
        self._footers: list[pq.FileMetaData] = []
        self._done: list[FileMessage] = []

    def write(self, rows: pa.Table) -> None:
        self._pending.append(rows)
        self.buffered += rows.nbytes
        if self.buffered >= self._spec.row_group_size:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered, as one row group unless it came at once and is more."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        groups = max(self.buffered // self._spec.row_group_size, 1)
        self._pending, self.buffered = [], 0
        odd = OddFloats.of(rows)
        if self._writer is not None and not odd <= self._odd:
            self._finish()
        if self._writer is None:
            self._begin(odd)
        assert self._writer is not None
        self._writer.write_table(renamed(rows, self._spec.stored), row_group_size=-(-rows.num_rows // groups))
        self._records += rows.num_rows
        if self._stream.tell() >= self._spec.target_file_size:
            self._finish()

    def close(self) -> list[FileMessage]:
        self.flush()
        if self._writer is not None:
            self._finish()
        return self._done

    def abort(self) -> list[str]:
        """Close the open file. Returns the paths of all files of this partition."""
        paths = [file.path for file in self._done]
        if self._writer is not None:
            paths.append(self._path)
            for opened in (self._writer, self._stream):
                # A full disk takes no footer, and a writer that failed has no metadata.
                with suppress(OSError, RuntimeError, pa.ArrowException):
                    opened.close()
        return paths

    def _begin(self, odd: OddFloats) -> None:
        """Open a file in which only these columns may hold odd floats."""
        folder = partition_path(self._spec.partition, self._partition, as_hive=not self._spec.values_in_files)
        unique = f"{self._spec.attempt}-{uuid.uuid4().hex[:12]}" if self._spec.attempt else str(uuid.uuid4())
        name = f"{self._spec.prefix}-{len(self._done):05d}-{unique}.c000.{self._spec.compression}.parquet"
        self._path = "/".join(part for part in (self._spec.root, folder, name) if part)
        filesystem, inner = filesystem_of(self._path, self._spec.filesystem_options)
        if self._path.startswith("file:"):
            os.makedirs(os.path.dirname(inner), exist_ok=True)
        self._stream = filesystem.open_output_stream(inner)
        self._writer = pq.ParquetWriter(
            self._stream,
            self._spec.stored,
            compression=self._spec.compression,
            compression_level=self._spec.compression_level,
            version="2.6",
            coerce_timestamps="us",
            store_schema=False,
            store_decimal_as_integer=True,
            metadata_collector=self._footers,
            write_statistics=_leaf_paths(self._spec.schema, self._spec.stored, odd.not_a_number),
            use_dictionary=_leaf_paths(self._spec.schema, self._spec.stored, odd.minus_zero),
            write_page_index=True,  # a reader that looks for few keys skips pages by it
        )
        self._records = 0
        self._odd = odd

    def _finish(self) -> None:
        assert self._writer is not None
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        footer, spec = self._footers.pop(), self._spec
        lower, upper, nulls = bounds_of(footer, spec.schema, spec.stored, spec.bounds)
        sizes = sizes_of(footer, spec.schema)
        self._done.append(FileMessage(self._path, size, self._records, self._partition, lower, upper, nulls, sizes, spec.ordered))
        self._writer = None


def _leaf_paths(schema: pa.Schema, stored: pa.Schema, without: frozenset[str]) -> list[str]:
    """The Parquet leaf columns, by their paths in the file, but for those of columns to leave out and floats inside other columns."""
    found: list[str] = []

    def visit(field: pa.Field, path: str) -> None:
        type_ = field.type
        if pa.types.is_struct(type_):
            for child in type_:
                visit(child, f"{path}.{child.name}")
        elif pa.types.is_list(type_):
            visit(type_.value_field, f"{path}.list.element")
        elif pa.types.is_map(type_):
            visit(type_.key_field, f"{path}.key_value.key")
            visit(type_.item_field, f"{path}.key_value.value")
        elif "." not in path or not pa.types.is_floating(type_):
            found.append(path)

    for column, held in zip(schema, stored, strict=True):
        if column.name not in without:
            visit(held, held.name)
    return found


def bounds_of(
    footer: pq.FileMetaData, schema: pa.Schema, stored: pa.Schema, wanted: frozenset[str]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Lower and upper bounds and null counts by column, from a Parquet footer; fields of structs nest, lists and maps have none.

    Those of UUIDs are bytes, as the file (`stored`) has them.
    """
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    leaf = -1
    for column, held in zip(schema, stored, strict=True):
        for path in leaves(column, held.type):
            leaf += 1
            if path is None or path[0] not in wanted:
                continue
            statistics = [group.column(leaf).statistics for group in groups]
            if any(found is None for found in statistics):
                continue
            if all(found.has_null_count for found in statistics):
                put(nulls, path, sum(found.null_count for found in statistics))
            ranges = [found for found in statistics if found.has_min_max]
            full = [s for s, g in zip(statistics, groups, strict=True) if s.null_count != g.num_rows]
            if not ranges or len(ranges) < len(full):
                continue
            put(lower, path, min(found.min for found in ranges))
            put(upper, path, max(found.max for found in ranges))
    return lower, upper, nulls


def sizes_of(footer: pq.FileMetaData, schema: pa.Schema) -> dict[str, Any]:
    """Bytes of the column chunks of each leaf, compressed; all that is nested nests, lists as `element`, maps as `key` and `value`."""
    sizes: dict[str, Any] = {}
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    for leaf, path in enumerate(path for column in schema for path in _every_leaf(column)):
        put(sizes, path, sum(group.column(leaf).total_compressed_size for group in groups))
    return sizes


def _every_leaf(column: pa.Field) -> Iterator[tuple[str, ...]]:
    """The Parquet leaf columns of a field in file order, by their paths."""
    type_ = column.type
    if pa.types.is_struct(type_):
        inner = [path for child in type_ for path in _every_leaf(child)]
    elif pa.types.is_map(type_):
        parts = (pa.field("key", type_.key_type), pa.field("value", type_.item_type))
        inner = [path for part in parts for path in _every_leaf(part)]
    elif pa.types.is_list(type_):
        inner = list(_every_leaf(pa.field("element", type_.value_type)))
    else:
        inner = [()]
    yield from ((column.name, *path) for path in inner)


def leaves(column: pa.Field, held: pa.DataType) -> list[tuple[str, ...] | None]:
    """The Parquet leaf columns of a field in file order: a path where bounds make sense, None elsewhere.

    Lists and maps have none, nor has binary of any length (`held`: the type in the file).
    A float inside a struct may hide a NaN, which Parquet's statistics leave out and Spark sorts last.
    """
    type_ = column.type
    if pa.types.is_struct(type_):
        pairs = zip(type_, held, strict=True)
        inner = [None if pa.types.is_floating(child.type) else path for child, there in pairs for path in leaves(child, there.type)]
        return [None if path is None else (column.name, *path) for path in inner]
    if pa.types.is_map(type_):
        parts = ((type_.key_field, held.key_type), (type_.item_field, held.item_type))
        return [None for child, there in parts for _ in leaves(child, there)]
    if pa.types.is_list(type_):
        return [None for _ in leaves(type_.value_field, held.value_type)]
    if pa.types.is_binary(type_) and not pa.types.is_fixed_size_binary(held):
        return [None]
    return [(column.name,)]


def put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a value at a path of nested dicts."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def delete_written(paths: list[str], filesystem_options: Options) -> None:
    """Delete files that a task on an executor wrote. There is no `rowmerge.storage.deletion` there. A failure leaves them for VACUUM."""
    for path in paths:
        filesystem, inner = filesystem_of(path, filesystem_options)
        with suppress(OSError):
            filesystem.delete_file(inner)
