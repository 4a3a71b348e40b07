"""Where the statistics of files are, and what of them was read: from a checkpoint no column before it is asked for, and none twice."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.delta.columns import struct_of
from rowmerge.delta.statistics_reading import bounds_type, nulls_type, read_records, read_statistics
from rowmerge.errors import CorruptLog
from rowmerge.table.schema import Field

_BATCH = 16_384
"""How many files' statistics are decoded at a time."""

Rows = np.ndarray[Any, Any]
"""Numbers of a source's rows, ascending."""


@dataclass(frozen=True)
class ColumnStatistics:
    """As `FileStatistics`, but for what the log alone needs to know."""

    records: pa.Array
    lower: pa.StructArray
    upper: pa.StructArray
    nulls: pa.StructArray


@dataclass(frozen=True)
class _Column:
    """What a source tells of one column; no bounds for a column of a type that has none."""

    lower: pa.Array | None
    upper: pa.Array | None
    nulls: pa.Array


class StatisticsSource(ABC):
    """The statistics of some files that came into the log together. For any number of threads."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._lock = threading.RLock()
        self._records: pa.Array | None = None
        self._columns: dict[tuple[object, ...], _Column] = {}

    @abstractmethod
    def raw(self, rows: Rows) -> pa.Table:
        """The log's own columns `stats` and, where there are any, `parsed` of these rows. Raises CorruptLog."""

    @abstractmethod
    def every_raw(self) -> Iterator[pa.Table]:
        """The same of all rows, some at a time."""

    @abstractmethod
    def _batches(self, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        """`stats` or `parsed` or both of all rows, as far as they tell of these columns."""

    def read(self, fields: Sequence[Field], rows: Rows) -> ColumnStatistics:
        """The statistics of rows for these columns (`read_statistics`). Raises CorruptLog."""
        with self._lock:
            if self._records is None:
                self._records = _whole([read_records(batch) for batch in self._batches(())], pa.int64())
            unread = [field for field in fields if _key(field) not in self._columns]
            if unread:
                self._read_columns(unread)
            columns = [self._columns[_key(field)] for field in fields]
            records = self._records
        lower, upper = bounds_type(fields), nulls_type(fields)
        return ColumnStatistics(
            _taken(records, rows),
            struct_of([_taken(column.lower, rows) for column in columns if column.lower is not None], list(lower), len(rows)),
            struct_of([_taken(column.upper, rows) for column in columns if column.upper is not None], list(lower), len(rows)),
            struct_of([_taken(column.nulls, rows) for column in columns], list(upper), len(rows)),
        )

    def _read_columns(self, fields: Sequence[Field]) -> None:
        parts = [read_statistics(batch, fields) for batch in self._batches(fields)]
        for field in fields:
            bounded = bounds_type([field]).num_fields > 0
            lower, upper = (
                _whole([pc.struct_field(part, [field.name]) for part in sides], bounds_type([field]).field(0).type) if bounded else None
                for sides in ([part.lower for part in parts], [part.upper for part in parts])
            )
            nulls = _whole([pc.struct_field(part.nulls, [field.name]) for part in parts], nulls_type([field]).field(0).type)
            self._columns[_key(field)] = _Column(lower, upper, nulls)


class HeldStatistics(StatisticsSource):
    """Those of a table's columns `stats` and, where there are any, `parsed`."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.num_rows)
        columns = {name: table[name] for name in ("stats", "parsed") if name in table.column_names}
        self._table = pa.table(columns or {"stats": pa.nulls(table.num_rows, pa.string())})

    def raw(self, rows: Rows) -> pa.Table:
        return self._table if len(rows) == self.length else self._table.take(pa.array(rows))

    def every_raw(self) -> Iterator[pa.Table]:
        yield self._table

    def _batches(self, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches(max_chunksize=_BATCH))


class CheckpointStatistics(StatisticsSource):
    """Those of the `add` actions in a checkpoint's Parquet file, which stays in memory as it is, compressed."""

    def __init__(self, path: str, file: pq.ParquetFile, present: pa.Array, *, marked: bool) -> None:
        """`present`: which rows of the file are `add` actions; `marked`: whether any of these has a deletion vector."""
        ends = np.cumsum([0, *(file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups))])
        counted = np.concatenate([[0], np.cumsum(present.to_numpy(zero_copy_only=False))])
        super().__init__(int(counted[-1]))
        self._path, self._file, self._firsts = path, file, counted[ends]
        add = file.schema_arrow.field("add").type
        self._json = add.get_field_index("stats") >= 0
        self._typed = add.get_field_index("stats_parsed") >= 0
        typed = {field.name for field in add.field("stats_parsed").type} if self._typed else set()
        # Null counts of files with deleted rows mean something else where bounds are wide: a struct that does not say which is not enough.
        self._typed_suffices = "numRecords" in typed and ("tightBounds" in typed or not marked)
        self._all_typed: bool | None = None

    def raw(self, rows: Rows) -> pa.Table:
        groups = np.searchsorted(self._firsts, rows, side="right") - 1
        found = []
        for group in np.unique(groups):
            inside = rows[groups == group] - self._firsts[group]
            found.append(self._rows(self._decoded(self._every_column, int(group))).take(pa.array(inside)))
        return pa.concat_tables(found) if found else self._rows([]).slice(0, 0)

    def every_raw(self) -> Iterator[pa.Table]:
        for batch in self._decoded(self._every_column):
            yield self._rows([batch])

    @property
    def _every_column(self) -> list[str]:
        return [f"add.{name}" for name, there in (("stats", self._json), ("stats_parsed", self._typed)) if there]

    def _batches(self, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        typed = ["numRecords", "tightBounds"]
        typed += [f"{side}.{field.name}" for field in fields for side in ("minValues", "maxValues", "nullCount")]
        columns = [f"add.stats_parsed.{name}" for name in typed] if self._typed else []
        if self._json and not (self._typed_suffices and self._complete()):
            columns.append("add.stats")
        for batch in self._decoded(columns):
            yield from self._rows([batch]).combine_chunks().to_batches()

    def _complete(self) -> bool:
        """Whether every file has its statistics as a struct."""
        if self._all_typed is None:
            counts = (batch["parsed"] for found in self._decoded(["add.stats_parsed.numRecords"]) for batch in [self._rows([found])])
            self._all_typed = all(not pc.struct_field(parsed, ["numRecords"]).null_count for parsed in counts)
        return self._all_typed

    def _decoded(self, columns: Sequence[str], group: int | None = None) -> Iterator[pa.RecordBatch]:
        groups = list(range(self._file.metadata.num_row_groups)) if group is None else [group]
        # A file without any statistics still has to tell how many rows there are.
        try:
            yield from self._file.iter_batches(batch_size=_BATCH, row_groups=groups, columns=list(columns) or ["add.path"])
        except (OSError, pa.ArrowException) as error:
            raise CorruptLog(self._path, f"it is no whole Parquet file ({error})") from error

    def _rows(self, batches: Sequence[pa.RecordBatch] | Iterator[pa.RecordBatch]) -> pa.Table:
        tables = []
        for batch in batches:
            adds = batch["add"]
            adds = adds.filter(pc.is_valid(adds))
            there = {field.name for field in adds.type}
            columns = {"stats": pc.struct_field(adds, ["stats"]) if "stats" in there else pa.nulls(len(adds), pa.string())}
            if "stats_parsed" in there:
                columns["parsed"] = pc.struct_field(adds, ["stats_parsed"])
            tables.append(pa.table(columns))
        return pa.concat_tables(tables) if tables else pa.table({"stats": pa.array([], pa.string())})


def _key(field: Field) -> tuple[object, ...]:
    """What is read of a column depends on its name in the log and on its type."""
    return field.name, bounds_type([field]), nulls_type([field])


def _whole(parts: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.array([], type_)


def _taken(values: pa.Array, rows: Rows) -> pa.Array:
    """The values of rows, without a copy where they follow each other."""
    if len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows):
        return values.slice(int(rows[0]), len(rows))
    return values.take(pa.array(rows))
