"""Sources of file statistics: a commit in memory or a checkpoint file. A source reads a column on first use and caches it."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.delta.files.columns import struct_of
from rowmerge.delta.files.statistics_reading import (
    ColumnStatistics,
    bounds_type,
    child_of,
    nulls_type,
    read_records,
    read_statistics,
    read_tight,
)
from rowmerge.table.metadata.schema import DataType, Field

logger = logging.getLogger(__name__)

_BATCH = 16_384
"""The number of files whose statistics are decoded at a time."""
_JSON, _STRUCT = "add.stats", "add.stats_parsed"
"""The columns of a checkpoint with the statistics of files as JSON strings and as structs."""
_UNREADABLE = (OSError, ValueError, pa.ArrowException)

FileIndices = np.ndarray[Any, Any]
"""The ascending indices of files in a source of statistics."""


@dataclass(frozen=True)
class _Column:
    """The bounds and null counts of one column, with one value per file. `lower` and `upper` are None for a type without bounds."""

    lower: pa.Array | None
    upper: pa.Array | None
    nulls: pa.Array
    has_invalid: bool


class StatisticsSource(ABC):
    """The statistics of the files in one commit or checkpoint, with one row per file. A source is thread-safe."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._lock = threading.RLock()
        self._columns: dict[tuple[str, DataType], _Column] = {}

    @abstractmethod
    def read_raw(self, indices: FileIndices) -> pa.Table:
        """Return the statistics of these files as they are in the log: `stats`, and also `parsed` if the log contains structs."""

    @abstractmethod
    def scan_raw(self) -> Iterator[pa.Table]:
        """Yield the statistics of all files in batches, as they are in the log (see `read_raw`)."""

    @abstractmethod
    def _batches(self, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        """Yield `stats`, `parsed` or both for all files, in batches. Each batch contains at least the statistics of these table columns."""

    def read(self, fields: Sequence[Field], indices: FileIndices) -> ColumnStatistics:
        """Return statistics that are safe for file skipping: row counts, and the bounds and null counts of these columns.

        Statistics that could exclude a file with matching rows are widened or null. The first call for a column reads the statistics of
        this column for all files in the source and caches them.

        Args:
            fields: The columns whose bounds and null counts are returned, with their physical names.
            indices: The ascending indices of the files in this source.
        """
        with self._lock:
            # Each of these reads the statistics of all files, unless they are cached.
            row_counts, columns = self._row_counts, self._load_columns(fields)
        return ColumnStatistics(
            records=_take(row_counts, indices),
            lower=_take_struct([column.lower for column in columns], bounds_type(fields), indices),
            upper=_take_struct([column.upper for column in columns], bounds_type(fields), indices),
            nulls=_take_struct([column.nulls for column in columns], nulls_type(fields), indices),
            has_invalid=any(column.has_invalid for column in columns),
        )

    def read_tight(self, indices: FileIndices) -> pa.Array:
        """Return for each of these files whether its bounds are tight. `indices`: as in `read`."""
        with self._lock:
            return _take(self._is_tight, indices)

    @cached_property
    def _is_tight(self) -> pa.Array:
        """Whether the bounds of each file are tight."""
        return _concat([read_tight(batch) for batch in self._batches(())], pa.bool_())

    @cached_property
    def _row_counts(self) -> pa.Array:
        """The row count of each file, null if unknown."""
        return _concat([read_records(batch) for batch in self._batches(())], pa.int64())

    def _load_columns(self, fields: Sequence[Field]) -> list[_Column]:
        """Return the statistics of these columns for all files. Read the columns that are not cached yet."""
        uncached_fields = [field for field in fields if (field.name, field.type) not in self._columns]
        if uncached_fields:
            self._read_columns(uncached_fields)
        return [self._columns[field.name, field.type] for field in fields]

    def _read_columns(self, fields: Sequence[Field]) -> None:
        """Read the statistics of these columns for all files and cache them."""
        batches = [read_statistics(batch, fields) for batch in self._batches(fields)]
        lower = _concat([batch.lower for batch in batches], bounds_type(fields))
        upper = _concat([batch.upper for batch in batches], bounds_type(fields))
        nulls = _concat([batch.nulls for batch in batches], nulls_type(fields))
        has_invalid = any(batch.has_invalid for batch in batches)
        for field in fields:
            lower_bounds, upper_bounds, null_counts = (child_of(structs, field.name) for structs in (lower, upper, nulls))
            self._columns[field.name, field.type] = _Column(lower_bounds, upper_bounds, null_counts, has_invalid)


class TableStatistics(StatisticsSource):
    """The statistics in an Arrow table in memory, which has the column `stats`, the column `parsed`, both or neither."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.num_rows)
        columns = {name: table[name] for name in ("stats", "parsed") if name in table.column_names}
        self._table = pa.table(columns) if columns else _absent_statistics(table.num_rows)

    def read_raw(self, indices: FileIndices) -> pa.Table:
        return self._table if len(indices) == self.length else self._table.take(pa.array(indices))

    def scan_raw(self) -> Iterator[pa.Table]:
        yield self._table

    def _batches(self, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches(max_chunksize=_BATCH))


class CheckpointStatistics(StatisticsSource):
    """The statistics of the `add` actions in a checkpoint, whose Parquet file stays in memory. Unreadable statistics count as absent.

    A checkpoint contains statistics as JSON strings (`stats`), as structs (`stats_parsed`), or both. Structs are faster to read.
    """

    def __init__(self, path: str, file: pq.ParquetFile, is_add: pa.Array, *, has_deletion_vectors: bool) -> None:
        """Initialize a source that reads the statistics when they are needed.

        Args:
            path: The path of the checkpoint, for the warning about unreadable statistics.
            file: The opened checkpoint.
            is_add: A mask that is true for each row of the checkpoint with an `add` action.
            has_deletion_vectors: Whether any `add` action has a deletion vector.
        """
        self._group_starts, self._adds_before_group = _locate_groups(file.metadata, is_add)
        super().__init__(length=int(self._adds_before_group[-1]))  # the number of `add` actions in the checkpoint
        self._path, self._file, self._is_add = path, file, is_add
        self._is_warning_logged = False
        add_types = {f"add.{field.name}": field.type for field in file.schema_arrow.field("add").type}
        self._statistics_columns = [column for column in (_JSON, _STRUCT) if column in add_types]
        # The structs replace the JSON only if they contain the same counts.
        self._structs_suffice = _STRUCT in add_types and _has_exact_counts(add_types[_STRUCT], has_deletion_vectors)

    def read_raw(self, indices: FileIndices) -> pa.Table:
        groups = np.searchsorted(self._adds_before_group, indices, side="right") - 1
        tables = [_absent_statistics(0)]
        for group in np.unique(groups):
            indices_in_group = indices[groups == group] - self._adds_before_group[group]
            statistics = pa.concat_tables(self._decode_group(int(group), self._statistics_columns), promote_options="default")
            tables.append(statistics.take(pa.array(indices_in_group)))
        return pa.concat_tables(tables, promote_options="default")

    def scan_raw(self) -> Iterator[pa.Table]:
        return self._decode(self._statistics_columns)

    def _batches(self, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        names = ["numRecords", "tightBounds"]
        names += [f"{kind}.{field.name}" for field in fields for kind in ("minValues", "maxValues", "nullCount")]
        columns = [f"{_STRUCT}.{name}" for name in names] if _STRUCT in self._statistics_columns else []
        if _JSON in self._statistics_columns and not (self._structs_suffice and self._is_struct_complete):
            columns.append(_JSON)
        for table in self._decode(columns):
            yield from table.combine_chunks().to_batches()

    @cached_property
    def _is_struct_complete(self) -> bool:
        """Whether the statistics of every file are available as a struct."""
        tables = self._decode([f"{_STRUCT}.numRecords"])
        return all("parsed" in table.column_names and not pc.struct_field(table["parsed"], ["numRecords"]).null_count for table in tables)

    def _decode(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for group in range(self._file.metadata.num_row_groups):
            yield from self._decode_group(group, columns)

    def _decode_group(self, group: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the statistics of a row group from these columns of the checkpoint: `add.stats_parsed` or its fields, `add.stats`, or both.

        If the read fails at a row, continue from this row with only the structs (`stats_parsed`) or only the JSON (`stats`). If neither
        is readable, the statistics of the remaining files are null.
        """
        next_row = self._group_starts[group]
        try:
            for end_row, statistics in self._read_group(group, columns):
                yield statistics
                next_row = end_row
        except _UNREADABLE as error:
            if not self._is_warning_logged:
                logger.warning("Statistics of files in %s cannot be read and are ignored: %s", self._path, error)
                self._is_warning_logged = True
            yield from self._decode_structs_or_json(group, columns, start=next_row)

    def _decode_structs_or_json(self, group: int, columns: Sequence[str], start: int) -> Iterator[pa.Table]:
        """Yield the statistics of a row group from the row `start` on, from structs or JSON. If neither is readable, yield nulls."""
        struct_columns = [column for column in columns if column != _JSON]
        if struct_columns and self._structs_suffice and self._is_readable(group, struct_columns):
            readable_columns = struct_columns
        elif _JSON in self._statistics_columns and self._is_readable(group, [_JSON]):
            readable_columns = [_JSON]
        else:
            yield _absent_statistics(pc.sum(self._is_add[start : self._group_starts[group + 1]]).as_py() or 0)
            return
        yield from (statistics for end, statistics in self._read_group(group, readable_columns) if end > start)

    def _is_readable(self, group: int, columns: Sequence[str]) -> bool:
        """Return whether these columns of a row group are readable in all rows."""
        try:
            for _ in self._read_group(group, columns):
                pass
        except _UNREADABLE:
            return False
        return True

    def _read_group(self, group: int, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """Yield each batch of statistics with the index of the checkpoint row after it. Raises one of _UNREADABLE if the read fails."""
        end = self._group_starts[group]
        # If there are no statistics columns, the paths determine the number of rows.
        for batch in self._file.iter_batches(batch_size=_BATCH, row_groups=[group], columns=list(columns) or ["add.path"]):
            adds, is_add = batch["add"], self._is_add[end : end + batch.num_rows]
            if not adds.is_valid().equals(is_add):
                raise ValueError("they belong to other files")
            end += batch.num_rows
            yield end, _raw_statistics(adds.filter(is_add))


def _locate_groups(metadata: pq.FileMetaData, is_add: pa.Array) -> tuple[list[int], FileIndices]:
    """Return the number of rows and of `add` actions before each row group. The last numbers are the totals of the file."""
    group_lengths = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    group_starts = np.cumsum([0, *group_lengths])
    adds_before_row = np.concatenate([[0], np.cumsum(is_add.to_numpy(zero_copy_only=False))])
    return group_starts.tolist(), adds_before_row[group_starts]


def _has_exact_counts(statistics_type: pa.StructType, has_deletion_vectors: bool) -> bool:
    """Return whether the structs of a checkpoint contain the row count and show which null counts may include deleted rows."""
    names = {field.name for field in statistics_type}
    # With a deletion vector, null counts may include deleted rows. Only `tightBounds` shows whether they do.
    return "numRecords" in names and ("tightBounds" in names or not has_deletion_vectors)


def _raw_statistics(adds: pa.StructArray) -> pa.Table:
    """Return `stats` and, if the actions have typed statistics, `parsed`. Raises pa.ArrowInvalid if a string is not valid UTF-8."""
    fields = {field.name for field in adds.type}
    texts = pc.struct_field(adds, ["stats"]) if "stats" in fields else pa.nulls(len(adds), pa.string())
    texts.validate(full=True)  # Arrow's Parquet reader does not check the encoding
    table = pa.table({"stats": texts})
    return table.append_column("parsed", pc.struct_field(adds, ["stats_parsed"])) if "stats_parsed" in fields else table


def _absent_statistics(length: int) -> pa.Table:
    return pa.table({"stats": pa.nulls(length, pa.string())})


def _concat(chunks: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    return pa.concat_arrays(chunks) if chunks else pa.array([], type_)


def _take(values: pa.Array, indices: FileIndices) -> pa.Array:
    """Return the values at ascending indices. Consecutive indices need no copy."""
    if len(indices) and int(indices[-1]) - int(indices[0]) + 1 == len(indices):
        return values.slice(int(indices[0]), len(indices))
    return values.take(pa.array(indices))


def _take_struct(columns: Sequence[pa.Array | None], type_: pa.StructType, indices: FileIndices) -> pa.StructArray:
    """Return the values of columns at ascending indices as structs. `type_` has one field for each column that is not None."""
    return struct_of([_take(column, indices) for column in columns if column is not None], list(type_), len(indices))
