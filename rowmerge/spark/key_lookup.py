"""The target's rows that have a key of the source, read by Arrow: the keys' columns first, the others only of row groups with such rows.

What Spark joins afterwards are these few rows, not the table: a hash join of Spark takes a hundred times as long for each row that it
throws away as a look into a set of keys does here.

The keys must be plain values that are equal in Arrow whenever they are equal in Spark. The result may hold more rows than match, never
fewer. Spark joins it to the source on the whole condition, and this join also tells which source rows are new.

Arrow hashes the keys in each call. Hashing a million texts takes as long as looking up some million rows. Therefore:

- Texts are looked up in several row groups at once.
- Of integers, only keys within the range of a row group are hashed.
- If all key columns but one have one value in a row group, as in the file of a partition, only keys with these values are hashed.

Spark reads the table itself if rows without a key matter (NOT MATCHED BY SOURCE, change rows), and for other types. It also does for few
keys with other columns, because its reader skips pages and Arrow's does not. The other cases are more than two million rows with a key, and
many files on a driver that is not the whole cluster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from rowmerge.concurrency import STORE_THREADS, map_in_batches
from rowmerge.parquet.data_files import HeldColumns
from rowmerge.parquet.filesystems import Options
from rowmerge.parquet.fitting import file_columns, from_file
from rowmerge.parquet.lineage import CHANGED_IN, ROW_ID
from rowmerge.spark.failures import unreadable
from rowmerge.spark.reading.scan import FILE, POSITION, deleted_rows, lineage_columns, spark_path
from rowmerge.spark.source.keys import SourceKeys, source_keys
from rowmerge.spark.source.source import Source, can_be_held
from rowmerge.spark.types import frame_of
from rowmerge.spark.writing.sink import UnreadableFile, opened
from rowmerge.table.files import Positions
from rowmerge.table.rules import INITIAL
from rowmerge.table.schema import FIELD_ID, Field, Primitive, Struct, arrow_schema, bare
from rowmerge.table.snapshot import Snapshot

FEW_KEYS = 32
"""For so many source rows Spark's reader skips the pages without a key, which saves more than a look at the keys alone where other columns
are needed."""
LOOKED_UP_ROWS = 20_000_000
"""So many rows are looked through by a driver that is not the cluster itself; more are Spark's."""
FOUND_ROWS = 2_000_000
FOUND_BYTES = 256 * 1024 * 1024
"""So many rows at most, of so many bytes, are handed to Spark; when more have a key of the source, it may as well read the table itself."""
Found = TypeVar("Found")


@dataclass(frozen=True)
class RowsByKeys:
    """Rows of the target with addresses, as `read_snapshot` has them, but with the columns alone that a MERGE needs, and with a short name
    for a file as FILE: it stands in every row. `paths`: by these names, as Spark spells them."""

    frame: DataFrame
    paths: Mapping[str, str]


def skips_pages_instead(snapshot: Snapshot, source: Source, needed_columns: frozenset[str]) -> bool:
    """Return whether Spark's reader finds the rows of a few keys sooner than a lookup, because the statement needs other columns, too."""
    if source.rows > FEW_KEYS:
        return False
    keys = _keys(snapshot, source)
    return keys is None or not needed_columns <= set(keys.names)


def rows_by_keys(
    spark: SparkSession,
    snapshot: Snapshot,
    table: str,
    files: pa.Table,
    source: Source,
    *,
    needed_columns: frozenset[str],
    lineage: bool,
) -> RowsByKeys | None:
    """Return the rows of these files (rows of `Snapshot.files()`) that have a key of the source, or None if Spark must read the files.

    Spark must read them if no key can be looked up, if Arrow does not bring a needed column to Spark unchanged, or if too many rows have a
    key. `table`: the name that errors print. Raises MissingDataFile, UnreadableDataFile.
    """
    keys = _keys(snapshot, source) if _is_near(spark, files) else None
    if keys is None:
        return None
    fields = Struct(tuple(field for field in snapshot.schema if field.name in needed_columns or field.name in keys.names))
    hidden = snapshot.shape.row_lineage if lineage else None
    looked_up = _files(spark, snapshot, files, fields, lineage=lineage) if can_be_held(fields) else None
    if looked_up is None:
        return None
    ends = () if hidden is None else (Field(ROW_ID, hidden.row_id.type), Field(CHANGED_IN, hidden.changed_in.type))
    try:
        rows = look_up(table, looked_up, arrow_schema(bare(Struct((*fields, *ends)))), keys)
    except TooManyRows:
        return None
    schema = bare(Struct((*fields, *ends, Field(FILE, Primitive("string")), Field(POSITION, Primitive("long")))))
    paths = {str(index): spark_path(file.path) for index, file in enumerate(looked_up)}
    return RowsByKeys(frame_of(spark, rows, schema), paths)


@dataclass(frozen=True)
class KeyMatches:
    """Which rows of a table and of a source have equal keys.

    `positions`: of the table's rows, by path as Spark spells it; `sources`: the ordinals of the source rows; `source_of`: by path, the
    source ordinals of the rows at the path's positions, in their order, if matches are one-to-one.
    """

    positions: dict[str, Positions]
    sources: BitMap64 = field(default_factory=BitMap64)
    source_of: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)


def find_key_matches(
    spark: SparkSession, snapshot: Snapshot, table: str, files: pa.Table, source: Source, *, one_to_one: bool, with_sources: bool
) -> KeyMatches | None:
    """Return which rows of these files (rows of `Snapshot.files()`) have all keys of a source row, or None if only Spark can tell.

    With `one_to_one`, the result is None, too, unless each row matches at most one source row and each source row at most one row.
    `with_sources`: whether the result names the source rows. Raises MissingDataFile, UnreadableDataFile.
    """
    keys = _keys(snapshot, source) if _is_near(spark, files) else None
    if keys is None or not keys.exact or len(keys.columns) < len(source.keys) or (one_to_one and not keys.distinct):
        return None
    fields = Struct(tuple(column for column in snapshot.schema if column.name in keys.names))
    looked_up = _files(spark, snapshot, files, fields, lineage=False)
    if looked_up is None or (with_sources and source.key_ordinals is None):
        return None
    columns, numbered = arrow_schema(bare(fields)), one_to_one or with_sources
    positions, key_numbers = dict[str, Positions](), dict[str, np.ndarray[Any, Any]]()
    with closing(_in_each(table, looked_up, lambda file: _positions_in(file, columns, keys, numbered=numbered))) as matches_by_file:
        for file, (rows, numbers) in zip(looked_up, matches_by_file, strict=True):
            if rows:
                positions[spark_path(file.path)] = rows
                key_numbers[spark_path(file.path)] = numbers if one_to_one else np.unique(numbers)
            if one_to_one and sum(map(len, key_numbers.values())) > source.rows:
                return None
    all_numbers = np.concatenate([np.zeros(0, dtype=np.int64), *key_numbers.values()])
    if one_to_one and np.bincount(all_numbers, minlength=1).max() > 1:
        return None
    return _with_sources(positions, key_numbers, source, keys, one_to_one=one_to_one) if with_sources else KeyMatches(positions)


def _with_sources(
    positions: dict[str, Positions],
    key_numbers: Mapping[str, np.ndarray[Any, Any]],
    source: Source,
    keys: SourceKeys,
    *,
    one_to_one: bool,
) -> KeyMatches:
    """Return the matches with the ordinals of their source rows, whose keys have the numbers in `key_numbers`."""
    assert source.key_ordinals is not None
    ordinals, numbers = source.key_ordinals.to_numpy(), keys.of_source()
    is_matched = np.zeros(source.rows + 1, dtype=bool)
    for matched_numbers in key_numbers.values():
        is_matched[matched_numbers] = True
    sources = BitMap64(ordinals[(numbers >= 0) & is_matched[numbers]].astype(np.uint64))
    if not one_to_one:
        return KeyMatches(positions, sources)
    row_of_number = np.full(source.rows + 1, -1, dtype=np.int64)
    row_of_number[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    return KeyMatches(positions, sources, {path: ordinals[row_of_number[matched]] for path, matched in key_numbers.items()})


def _keys(snapshot: Snapshot, source: Source) -> SourceKeys | None:
    found = [(key, snapshot.schema.find(key.pair.column, case_sensitive=True)) for key in source.keys]
    return source_keys([(key, field) for key, field in found if field is not None])


def _is_near(spark: SparkSession, files: pa.Table) -> bool:
    """Whether the driver may read the keys of these files: it is all of Spark, or they are not many."""
    return int(pc.sum(files["records"]).as_py() or 0) <= LOOKED_UP_ROWS or is_all_of_spark(spark)


def is_all_of_spark(spark: SparkSession) -> bool:
    """Whether this process and its JVM are the cluster themselves."""
    return hasattr(spark, "sparkContext") and str(spark.conf.get("spark.master", "")).startswith("local")


def _files(spark: SparkSession, snapshot: Snapshot, files: pa.Table, fields: Struct, *, lineage: bool) -> list[LookedUpFile] | None:
    """None where a file does not hold the columns as the table does."""
    paths = files["path"].to_pylist()
    deleted = deleted_rows(spark, snapshot, [path for path, count in zip(paths, files["deleted"].to_pylist(), strict=True) if count])
    partition = dict(zip(paths, files["partition"].to_pylist(), strict=True))
    listed, access = [], snapshot.shape.filesystem_options
    for layout in snapshot.layouts(paths):
        named = {field.name: held for field, held in zip(snapshot.schema, layout.stored, strict=True)}
        stored = [named[field.name] for field in fields]
        if any(held.type != field.type or INITIAL in held.metadata for field, held in zip(fields, stored, strict=True)):
            return None
        stored += [held for _, held in lineage_columns(snapshot.shape.row_lineage if lineage else None, layout)]
        columns = HeldColumns(arrow_schema(bare(Struct(tuple(stored)), (FIELD_ID,))), layout.by_field_id, layout.outside)
        listed += [LookedUpFile(path, columns, deleted.get(path, Positions()), partition[path] or {}, access) for path in layout.paths]
    return listed


class TooManyRows(Exception):
    """Raised when more than FOUND_ROWS rows have a key of the source, or when they take more than FOUND_BYTES.

    Remedy: None is needed. Spark joins the whole table instead.
    """


@dataclass(frozen=True)
class LookedUpFile:
    """A data file: how it holds `columns` of the lookup, its deleted rows, and the values of columns that it does not hold."""

    path: str
    held: HeldColumns
    deleted: Positions
    partition: Mapping[str, Any]
    filesystem_options: Options = field(default_factory=dict, repr=False)


def look_up(table: str, files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys) -> pa.Table:
    """The live rows with a key of the source: `columns`, then FILE, which is the file's number as text, and POSITION, as of any scan.

    Raises MissingDataFile, UnreadableDataFile, TooManyRows.
    """
    found: list[pa.Table] = []
    with closing(_in_each(table, files, lambda file: _rows_in(file, columns, keys))) as each:
        for number, parts in enumerate(each):
            found += [_addressed(rows, str(number), positions) for rows, positions in parts]
            if sum(part.num_rows for part in found) > FOUND_ROWS or sum(part.nbytes for part in found) > FOUND_BYTES:
                raise TooManyRows
    if not found:
        return _addressed(columns.empty_table(), "", np.zeros(0, dtype=np.int64))
    return pa.concat_tables(found)


def _in_each(table: str, files: Sequence[LookedUpFile], find: Callable[[LookedUpFile], Found]) -> Generator[Found, None, None]:
    """What is found in the files, in their order."""
    cores = os.cpu_count() or 1
    threads = cores if all(file.path.startswith("file:") for file in files) else max(cores, STORE_THREADS)
    try:
        with closing(map_in_batches(find, files, threads)) as found:
            yield from found
    except UnreadableFile as error:
        raise unreadable(table, error.path, error.reason) from error


def _rows_in(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys) -> list[tuple[pa.Table, np.ndarray[Any, Any]]]:
    """The rows of each row group that has some, and their positions."""
    first, rest = _parts(columns, file.held, keys.names)
    found = []
    with opened(file.path, file.filesystem_options, by_field_id=file.held.by_field_id) as source:
        for hits in _hits(source, file, first, keys):
            taken = pa.array(hits.rows)
            others = _read(source, hits.group, rest, file).take(taken) if len(rest[0]) else None
            found.append((_together(columns, hits.known.take(taken), others), hits.rows + hits.start))
    return found


def _positions_in(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys, *, numbered: bool) -> tuple[Positions, np.ndarray[Any, Any]]:
    """The positions of the rows, and the number of the key of each, if these are `numbered`: for as many rows as a table may lose, the
    numbers would be too much to hold."""
    first, _ = _parts(columns, file.held, keys.names)
    positions, numbers = Positions(), [np.zeros(0, dtype=np.int64)]
    with opened(file.path, file.filesystem_options, by_field_id=file.held.by_field_id) as source:
        for hits in _hits(source, file, first, keys):
            positions.update((hits.rows + hits.start).astype(np.uint64))
            if numbered:
                numbers.append(hits.numbers)
    return positions, np.concatenate(numbers)


class _Hits(NamedTuple):
    """Rows of a row group: its number, the position of its first row, the keys of all its rows, the indexes of the rows that were found,
    and the numbers of their keys."""

    group: int
    start: int
    known: pa.Table
    rows: np.ndarray[Any, Any]
    numbers: np.ndarray[Any, Any]


def _hits(source: pq.ParquetFile, file: LookedUpFile, part: tuple[pa.Schema, pa.Schema], keys: SourceKeys) -> Iterator[_Hits]:
    """The live rows that have a key, of each row group with some."""
    gone = np.array(file.deleted.to_array(), dtype=np.int64)
    counts = [source.metadata.row_group(group).num_rows for group in range(source.num_row_groups)]
    start = 0
    for groups in _runs(counts, keys.rows_at_once):
        read = [_read(source, group, part, file) for group in groups]
        rows, numbers = keys.look(pa.concat_tables(read))
        if len(gone):
            live = ~np.isin(rows + start, gone)
            rows, numbers = rows[live], numbers[live]
        rows += start
        for group, known in zip(groups, read, strict=True):
            first, last = np.searchsorted(rows, (start, start + counts[group]))
            if first < last:
                yield _Hits(group, start, known, rows[first:last] - start, numbers[first:last])
            start += counts[group]


def _runs(counts: Sequence[int], enough: int) -> Iterator[list[int]]:
    """The indexes of the counts in their order, so many of them together that they come to enough."""
    run, total = list[int](), 0
    for index, count in enumerate(counts):
        run.append(index)
        total += count
        if total >= enough:
            yield run
            run, total = [], 0
    if run:
        yield run


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
        names = [there.field(place).name for place in places]
        rows = from_file(source.read_row_group(group, names, use_threads=len(names) > 1), schema, stored, by_field_id=by_id)
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


def _addressed(rows: pa.Table, file: str, positions: np.ndarray[Any, Any]) -> pa.Table:
    files = pa.repeat(pa.scalar(file, pa.string()), rows.num_rows)
    return rows.append_column(FILE, files).append_column(POSITION, pa.array(positions, pa.int64()))
