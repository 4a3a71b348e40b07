"""Look up the keys of a source in data files with Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.concurrency import STORE_THREADS, map_in_batches
from rowmerge.errors.tables import unreadable_data_file
from rowmerge.parquet.data_files import HeldColumns
from rowmerge.parquet.filesystems import Options
from rowmerge.parquet.fitting import file_columns, from_file
from rowmerge.parquet.reading import UnreadableFile, open_data_file
from rowmerge.parquet.source_keys import SourceKeys
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.snapshots.files import Positions

FOUND_ROWS = 2_000_000


FOUND_BYTES = 256 * 1024 * 1024
"""So many rows at most, of so many bytes, are handed to Spark; when more have a key of the source, it may as well read the table itself."""


Found = TypeVar("Found")


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
        raise unreadable_data_file(table, error.path, error.reason) from error


def _rows_in(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys) -> list[tuple[pa.Table, np.ndarray[Any, Any]]]:
    """The rows of each row group that has some, and their positions."""
    first, rest = _parts(columns, file.held, keys.names)
    found = []
    with open_data_file(file.path, file.filesystem_options, by_field_id=file.held.by_field_id) as source:
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
    with open_data_file(file.path, file.filesystem_options, by_field_id=file.held.by_field_id) as source:
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
