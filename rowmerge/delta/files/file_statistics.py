"""Where the statistics of files are, and what of them was read: from a checkpoint no column before it is asked for, and none twice."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.delta.files.columns import struct_of
from rowmerge.delta.files.statistics_reading import bounds_type, nulls_type, read_records, read_statistics
from rowmerge.table.metadata.schema import Field

logger = logging.getLogger(__name__)

_BATCH = 16_384
"""How many files' statistics are decoded at a time."""
_JSON, _TYPED = "add.stats", "add.stats_parsed"
_UNREADABLE = (OSError, ValueError, pa.ArrowException)

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
        """The log's own columns `stats` and, where there are any, `parsed` of these rows."""

    @abstractmethod
    def every_raw(self) -> Iterator[pa.Table]:
        """The same of all rows, some at a time."""

    @abstractmethod
    def _batches(self, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        """`stats` or `parsed` or both of all rows, as far as they tell of these columns."""

    def read(self, fields: Sequence[Field], rows: Rows) -> ColumnStatistics:
        """The statistics of rows for these columns (`read_statistics`)."""
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
    """Those of the `add` actions in a checkpoint's Parquet file, which stays in memory as it is, compressed.

    Statistics that cannot be read count as absent, with a warning.
    """

    def __init__(self, path: str, file: pq.ParquetFile, present: pa.Array, *, marked: bool) -> None:
        """`present`: which rows of the file are `add` actions; `marked`: whether any of these has a deletion vector."""
        ends = np.cumsum([0, *(file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups))])
        counted = np.concatenate([[0], np.cumsum(present.to_numpy(zero_copy_only=False))])
        super().__init__(int(counted[-1]))
        self._path, self._file, self._present = path, file, present
        self._starts, self._firsts = ends.tolist(), counted[ends]
        self._is_reported = False
        add = file.schema_arrow.field("add").type
        self._json = add.get_field_index("stats") >= 0
        self._typed = add.get_field_index("stats_parsed") >= 0
        typed = {field.name for field in add.field("stats_parsed").type} if self._typed else set()
        # Null counts of files with deleted rows mean something else where bounds are wide: a struct that does not say which is not enough.
        self._typed_suffices = "numRecords" in typed and ("tightBounds" in typed or not marked)
        self._all_typed: bool | None = None

    def raw(self, rows: Rows) -> pa.Table:
        groups = np.searchsorted(self._firsts, rows, side="right") - 1
        parts = [self._none(0)]
        for group in np.unique(groups):
            inside = rows[groups == group] - self._firsts[group]
            whole = pa.concat_tables(self._decoded(self._every_column, int(group)), promote_options="default")
            parts.append(whole.take(pa.array(inside)))
        return pa.concat_tables(parts, promote_options="default")

    def every_raw(self) -> Iterator[pa.Table]:
        return self._decoded(self._every_column)

    @property
    def _every_column(self) -> list[str]:
        return [column for column, there in ((_JSON, self._json), (_TYPED, self._typed)) if there]

    def _batches(self, fields: Sequence[Field]) -> Iterator[pa.RecordBatch]:
        typed = ["numRecords", "tightBounds"]
        typed += [f"{side}.{field.name}" for field in fields for side in ("minValues", "maxValues", "nullCount")]
        columns = [f"{_TYPED}.{name}" for name in typed] if self._typed else []
        if self._json and not (self._typed_suffices and self._complete()):
            columns.append(_JSON)
        for table in self._decoded(columns):
            yield from table.combine_chunks().to_batches()

    def _complete(self) -> bool:
        """Whether every file has its statistics as a struct."""
        if self._all_typed is None:
            tables = self._decoded([f"{_TYPED}.numRecords"])
            self._all_typed = all(
                "parsed" in table.column_names and not pc.struct_field(table["parsed"], ["numRecords"]).null_count for table in tables
            )
        return self._all_typed

    def _decoded(self, columns: Sequence[str], group: int | None = None) -> Iterator[pa.Table]:
        """`stats` and `parsed` of the `add` actions, some at a time, as far as these columns of the checkpoint can be read."""
        for each in range(self._file.metadata.num_row_groups) if group is None else [group]:
            start = self._starts[each]
            try:
                for end, table in self._read(each, columns):
                    yield table
                    start = end
            except _UNREADABLE as error:
                if not self._is_reported:
                    logger.warning("Statistics of files in %s cannot be read, and count as absent: %s", self._path, error)
                    self._is_reported = True
                yield from self._readable(each, columns, start)

    def _readable(self, group: int, columns: Sequence[str], start: int) -> Iterator[pa.Table]:
        """The rows of a row group from `start` on, with the one kind of statistics that can be read, or none."""
        typed = [column for column in columns if column != _JSON]
        for kind in ([typed] if typed and self._typed_suffices else []) + ([[_JSON]] if self._json else []):
            try:
                for _ in self._read(group, kind):
                    pass
            except _UNREADABLE:
                continue
            for end, table in self._read(group, kind):
                if end > start:
                    yield table
            return
        yield self._none(pc.sum(self._present[start : self._starts[group + 1]]).as_py() or 0)

    def _read(self, group: int, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """Tables as `_decoded` has them, each with the row of the checkpoint at which it ends. Raises one of _UNREADABLE."""
        start = self._starts[group]
        # A file without any statistics still has to tell how many rows there are.
        for batch in self._file.iter_batches(batch_size=_BATCH, row_groups=[group], columns=list(columns) or ["add.path"]):
            adds, present = batch["add"], self._present[start : start + batch.num_rows]
            if not adds.is_valid().equals(present):
                raise ValueError("they are of other files")
            adds = adds.filter(present)
            kinds = {field.name for field in adds.type}
            table = self._none(len(adds))
            if "stats" in kinds:
                texts = pc.struct_field(adds, ["stats"])
                texts.validate(full=True)  # Arrow does not look at the encoding of texts
                table = pa.table({"stats": texts})
            if "stats_parsed" in kinds:
                table = table.append_column("parsed", pc.struct_field(adds, ["stats_parsed"]))
            start += batch.num_rows
            yield start, table

    @staticmethod
    def _none(length: int) -> pa.Table:
        return pa.table({"stats": pa.nulls(length, pa.string())})


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
