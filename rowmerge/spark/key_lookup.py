"""The target's rows that have a key of the source, read by Arrow: the keys' columns first, the others only of row groups with such rows.

What Spark joins afterwards are these few rows, not the table: a hash join of Spark takes a hundred times as long for each row that it
throws away as a look into a set of keys does here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from rowmerge.commands.rows import Match
from rowmerge.plan.bounds import is_padded
from rowmerge.plan.needed_columns import needed_columns
from rowmerge.plan.row_plan import RowPlan, SourceRows
from rowmerge.spark.data_files import HeldColumns
from rowmerge.spark.failures import unreadable
from rowmerge.spark.fitting import file_columns, from_file
from rowmerge.spark.lineage import CHANGED_IN, ROW_ID
from rowmerge.spark.scan import FILE, POSITION, deleted_rows, lineage_columns, spark_path
from rowmerge.spark.sink import UnreadableFile, opened
from rowmerge.spark.source import Source, SourceKey, can_be_held
from rowmerge.spark.types import frame_of
from rowmerge.table.files import Positions
from rowmerge.table.rules import INITIAL
from rowmerge.table.schema import FIELD_ID, Field, Primitive, Struct, arrow_schema, arrow_type, bare
from rowmerge.table.snapshot import Snapshot

FEW_KEYS = 32
"""For so many source rows Spark's reader skips the pages without a key, which saves more than a look at the keys alone where other columns
are needed."""
LOOKED_UP_ROWS = 20_000_000
"""So many rows are looked through by a driver that is not the cluster itself; more are Spark's."""
FOUND_ROWS = 2_000_000
FOUND_BYTES = 256 * 1024 * 1024
"""So many rows at most, of so many bytes, are handed to Spark; when more have a key of the source, it may as well read the table itself."""
_INTEGERS = ("byte", "short", "integer", "long")
_EXACT = (*_INTEGERS, "date", "string", "binary", "boolean", "timestamp", "timestamp_ntz")


def target_by_keys(
    spark: SparkSession, snapshot: Snapshot, plan: RowPlan, files: pa.Table, source: Source, *, lineage: bool
) -> DataFrame | None:
    """The rows of these files (rows of `Snapshot.files()`) that have a key of the source, with addresses, as `read_snapshot` has them, but
    only with the columns that a MERGE needs; None where Spark must read the table.

    That is where rows without a key matter too, or a key is none that can be looked up, or columns are needed that Arrow does not bring to
    Spark as they are. Few keys and other columns are Spark's as well: its reader skips pages. Raises MissingDataFile, UnreadableDataFile.
    """
    if plan.of(Match.NOT_MATCHED_BY_SOURCE) or plan.source_rows is SourceRows.ALL or not _is_near(spark, files):
        return None
    needed = needed_columns(plan)
    if needed is None:
        return None
    found = [(key, snapshot.schema.find(key.pair.column, case_sensitive=True)) for key in source.keys]
    keys = source_keys([(key, field) for key, field in found if field is not None])
    if keys is None or (source.rows <= FEW_KEYS and not needed <= set(keys.names)):
        return None
    fields = Struct(tuple(field for field in snapshot.schema if field.name in needed or field.name in keys.names))
    hidden = snapshot.lineage if lineage else None
    looked_up = _files(spark, snapshot, files, fields, lineage=lineage) if can_be_held(fields) else None
    if looked_up is None:
        return None
    ends = () if hidden is None else (Field(ROW_ID, hidden.row_id.type), Field(CHANGED_IN, hidden.changed_in.type))
    try:
        rows = look_up(plan.table, looked_up, arrow_schema(bare(Struct((*fields, *ends)))), keys)
    except TooManyRows:
        return None
    return frame_of(spark, rows, bare(Struct((*fields, *ends, Field(FILE, Primitive("string")), Field(POSITION, Primitive("long"))))))


def _is_near(spark: SparkSession, files: pa.Table) -> bool:
    """Whether the driver may read the keys of these files: it is all of Spark, or they are not many."""
    if int(pc.sum(files["records"]).as_py() or 0) <= LOOKED_UP_ROWS:
        return True
    return hasattr(spark, "sparkContext") and str(spark.conf.get("spark.master", "")).startswith("local")


def _files(spark: SparkSession, snapshot: Snapshot, files: pa.Table, fields: Struct, *, lineage: bool) -> list[LookedUpFile] | None:
    """None where a file does not hold the columns as the table does."""
    paths = files["path"].to_pylist()
    deleted = deleted_rows(spark, snapshot, [path for path, count in zip(paths, files["deleted"].to_pylist(), strict=True) if count])
    partition = dict(zip(paths, files["partition"].to_pylist(), strict=True))
    listed = []
    for layout in snapshot.layouts(paths):
        named = {field.name: held for field, held in zip(snapshot.schema, layout.stored, strict=True)}
        stored = [named[field.name] for field in fields]
        if any(held.type != field.type or INITIAL in held.metadata for field, held in zip(fields, stored, strict=True)):
            return None
        stored += [held for _, held in lineage_columns(snapshot.lineage if lineage else None, layout)]
        columns = HeldColumns(arrow_schema(bare(Struct(tuple(stored)), (FIELD_ID,))), layout.by_field_id, layout.outside)
        listed += [LookedUpFile(path, columns, deleted.get(path, Positions()), partition[path] or {}) for path in layout.paths]
    return listed


class TooManyRows(Exception):
    """More than FOUND_ROWS rows have a key of the source, or they take more than FOUND_BYTES."""


@dataclass(frozen=True)
class KeyColumn:
    """A column of the target and the distinct values that the source has for it, sorted, in the column's type; `null`: NULL equals NULL
    here, and the source has one."""

    name: str
    values: pa.Array
    null: bool

    def codes(self, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        """The place of each value among `values`, their number for a NULL that counts, -1 for what the source does not have."""
        first, values = self._within(column)
        places = np.asarray(pc.index_in(column, value_set=values, skip_nulls=True).fill_null(-1), dtype=np.int64)
        places[places >= 0] += first
        return np.where(np.asarray(column.is_null()), len(self.values), places) if self.null else places

    def meets(self, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        """True for each value that the source has."""
        _, values = self._within(column)
        found = np.asarray(pc.is_in(column, value_set=values, skip_nulls=True), dtype=bool)
        return found | np.asarray(column.is_null()) if self.null else found

    def _within(self, column: pa.ChunkedArray) -> tuple[int, pa.Array]:
        """The values between the least and the greatest of a column, and the place of the first: a smaller set is searched sooner."""
        if not pa.types.is_integer(self.values.type) or not len(self.values):
            return 0, self.values
        ends = pc.min_max(column)
        if not ends["min"].is_valid:
            return 0, self.values.slice(0, 0)
        values = np.asarray(self.values)
        low, high = np.searchsorted(values, ends["min"].as_py()), np.searchsorted(values, ends["max"].as_py(), side="right")
        return int(low), self.values.slice(low, high - low)


@dataclass(frozen=True)
class SourceKeys:
    """What the source has: its keys, the one with the most values first, and the combinations of them, as sorted numbers (see `_combined`);
    None where each is looked up by itself."""

    columns: tuple[KeyColumn, ...]
    combinations: np.ndarray[Any, Any] | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def rows_of(self, rows: pa.Table) -> np.ndarray[Any, Any]:
        """The indexes of the rows that have a key of the source."""
        found: np.ndarray[Any, Any] = np.flatnonzero(self.columns[0].meets(rows[self.columns[0].name]))
        for column in self.columns[1:] if self.combinations is None else ():
            found = found[column.meets(rows[column.name].take(pa.array(found)))]
        if self.combinations is None or not len(found):
            return found
        some = rows.take(pa.array(found))
        wanted = _combined([column.codes(some[column.name]) for column in self.columns], self.columns)
        known: np.ndarray[Any, Any] = found[_among(wanted, self.combinations)]
        return known


def source_keys(keys: Sequence[tuple[SourceKey, Field]]) -> SourceKeys | None:
    """The keys of a source by which rows of a table can be looked up, with the table's columns; None where there is none.

    A key is left out whose values are not here, or whose equality Arrow and Spark might see differently (floats, collations, texts of one
    length, other types than the column has).
    """
    columns, given = [], []
    for key, field in keys:
        held = _as_held(key, field)
        if held is None:
            continue
        columns.append(KeyColumn(field.name, held[0], key.pair.op == "<=>" and key.has_null))
        given.append(held[1])
    if not columns:
        return None
    order = sorted(range(len(columns)), key=lambda index: -len(columns[index].values))
    columns, given = [columns[index] for index in order], [given[index] for index in order]
    combinations = None
    if len(columns) > 1 and np.prod([float(len(column.values) + 1) for column in columns]) < 2**62:
        combinations = _combined([column.codes(values) for column, values in zip(columns, given, strict=True)], columns)
        combinations = np.sort(combinations[combinations >= 0])
    return SourceKeys(tuple(columns), combinations)


def _as_held(key: SourceKey, field: Field) -> tuple[pa.Array, pa.ChunkedArray] | None:
    """The key's distinct values, and that of each row, in the column's type; None when it cannot be looked up."""
    if key.values is None or key.column is None or key.pair.op not in ("=", "<=>") or is_padded(field):
        return None
    integers = all(isinstance(type_, Primitive) and type_.name in _INTEGERS for type_ in (key.type, field.type))
    same = key.type == field.type and (not isinstance(field.type, Primitive) or field.type.name in _EXACT)
    if not integers and not same:
        return None
    try:
        return key.values.cast(arrow_type(field.type)), key.column.cast(arrow_type(field.type))
    except pa.ArrowInvalid:
        return None  # a number that the column cannot hold


def _combined(codes: Sequence[np.ndarray[Any, Any]], columns: Sequence[KeyColumn]) -> np.ndarray[Any, Any]:
    """One number for the codes of each row, -1 where one of them is."""
    total = np.zeros(len(codes[0]), dtype=np.int64)
    missing = np.zeros(len(codes[0]), dtype=bool)
    for code, column in zip(codes, columns, strict=True):
        total = total * (len(column.values) + 1) + code
        missing |= code < 0
    total[missing] = -1
    return total


def _among(values: np.ndarray[Any, Any], known: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """True for each value that is one of the known, which are sorted."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    found: np.ndarray[Any, Any] = known[places] == values
    return found


@dataclass(frozen=True)
class LookedUpFile:
    """A data file: how it holds `columns` of the lookup, its deleted rows, and the values of columns that it does not hold."""

    path: str
    held: HeldColumns
    deleted: Positions
    partition: Mapping[str, Any]


def look_up(table: str, files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys) -> pa.Table:
    """The live rows with a key of the source: `columns`, then FILE as Spark spells it and POSITION, as of any scan.

    Raises MissingDataFile, UnreadableDataFile, TooManyRows.
    """
    found: list[pa.Table] = []
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for parts in pool.map(lambda file: list(_found_in(file, columns, keys)), files):
                found += parts
                if sum(part.num_rows for part in found) > FOUND_ROWS or sum(part.nbytes for part in found) > FOUND_BYTES:
                    pool.shutdown(cancel_futures=True)
                    raise TooManyRows
    except UnreadableFile as error:
        raise unreadable(table, error.path, error.reason) from error
    if not found:
        return _addressed(columns.empty_table(), "", np.zeros(0, dtype=np.int64))
    return pa.concat_tables(found)


def _found_in(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys) -> Iterator[pa.Table]:
    gone = np.array(file.deleted.to_array(), dtype=np.int64)
    first, rest = _parts(columns, file.held, keys.names)
    start = 0
    with opened(file.path, by_field_id=file.held.by_field_id) as source:
        for group in range(source.num_row_groups):
            known = _read(source, group, first, file)
            rows = keys.rows_of(known)
            rows = rows[~np.isin(rows + start, gone)] if len(gone) else rows
            if len(rows):
                taken = pa.array(rows)
                parts = known.take(taken), _read(source, group, rest, file).take(taken) if len(rest[0]) else None
                yield _addressed(_together(columns, *parts), spark_path(file.path), rows + start)
            start += source.metadata.row_group(group).num_rows


def _parts(columns: pa.Schema, held: HeldColumns, keys: Sequence[str]) -> tuple[tuple[pa.Schema, pa.Schema], ...]:
    """The key columns and the others, each as the table has them and as the file does."""
    pairs = list(zip(columns, held.stored, strict=True))
    chosen = [pair for pair in pairs if pair[0].name in keys], [pair for pair in pairs if pair[0].name not in keys]
    return tuple((pa.schema([field for field, _ in some]), pa.schema([there for _, there in some])) for some in chosen)


def _read(source: pq.ParquetFile, group: int, part: tuple[pa.Schema, pa.Schema], file: LookedUpFile) -> pa.Table:
    schema, stored = part
    by_id, there = file.held.by_field_id, source.schema_arrow
    places = [place for place in file_columns(there, stored, by_field_id=by_id) if place is not None]
    count = source.metadata.row_group(group).num_rows
    if places:
        rows = from_file(source.read_row_group(group, [there.field(place).name for place in places]), schema, stored, by_field_id=by_id)
    else:
        rows = pa.table([pa.nulls(count, field.type) for field in schema], schema=schema)
    for name in file.held.outside:
        place = schema.get_field_index(name)
        if place >= 0:
            value = pa.scalar(file.partition.get(name), schema.field(place).type)
            rows = rows.set_column(place, schema.field(place), pa.repeat(value, count))
    return rows


def _together(columns: pa.Schema, keys: pa.Table, others: pa.Table | None) -> pa.Table:
    if others is None:
        return keys.select(columns.names)
    arrays = [keys[name] if name in keys.column_names else others[name] for name in columns.names]
    return pa.Table.from_arrays(arrays, schema=columns)


def _addressed(rows: pa.Table, path: str, positions: np.ndarray[Any, Any]) -> pa.Table:
    paths = pa.repeat(pa.scalar(path, pa.string()), rows.num_rows)
    return rows.append_column(FILE, paths).append_column(POSITION, pa.array(positions, pa.int64()))
