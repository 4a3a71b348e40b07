"""Read the target rows that have a key of the source with Arrow: key columns first, other columns only of row groups with such rows.

Spark then joins these few rows instead of the table. For each row that does not match, a hash join of Spark takes a hundred times as long
as a lookup in a set of keys takes here.

The keys must be simple values that are equal in Arrow whenever they are equal in Spark. The result may hold more rows than match, never
fewer. Spark joins it to the source on the whole condition, and this join also tells which source rows are new.

Arrow hashes the keys in each call. Hashing a million texts takes as long as looking up some million rows. Therefore texts are looked up
in several row groups at once. Of integers, only keys within the range of a row group are hashed. If all key columns but one have one value
in a row group, as in the file of a partition, only keys with these values are hashed.

Spark reads the table itself if rows without a key matter (NOT MATCHED BY SOURCE, change rows), and for other types. It also does for few
keys with other columns, because its reader skips pages and Arrow's does not. The other cases are more than two million rows with a key, and
many files on a driver that is not the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID, StoredColumns
from rowmerge.parquet.key_lookup import LookedUpFile, TooManyRows, find_positions, map_files, read_rows_with_keys
from rowmerge.parquet.source_keys import Numbers, SourceKeys
from rowmerge.spark.reading.scan import ADDRESS_FIELDS, deleted_rows, lineage_columns, spark_path
from rowmerge.spark.source.keys import source_keys
from rowmerge.spark.source.source import Source, can_be_held
from rowmerge.spark.spark_session import is_local_mode
from rowmerge.spark.types import frame_of
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Field, Struct, arrow_schema, bare
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.files import FileLayout, FileListing, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

FEW_KEYS = 32
"""For so many source rows, Spark's reader skips the pages without a key. If the statement needs other columns, too, this saves more than a
lookup does."""
LOOKED_UP_ROWS = 20_000_000
"""A driver that is only a part of the cluster looks through up to so many rows."""


def skips_pages_instead(snapshot: Snapshot, source: Source, needed_columns: frozenset[str]) -> bool:
    """Return whether Spark's reader finds the rows of a few keys sooner than a lookup, because the statement needs other columns, too."""
    if source.rows > FEW_KEYS:
        return False
    keys = _lookup_keys(snapshot, source)
    return keys is None or not needed_columns <= set(keys.names)


def rows_by_keys(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, source: Source, column_names: frozenset[str], lineage: Lineage | None
) -> tuple[DataFrame, Mapping[str, str]] | None:
    """Return the rows of these files that have a key of the source, with these columns, or None if Spark must read the files.

    The rows have addresses, as `read_snapshot` returns them. But FILE, which is part of every row, holds a short name. The second result
    is the path of each file, as Spark spells it, by this name.
    Spark must read them if no key can be looked up, if Arrow does not bring a column to Spark unchanged, or if too many rows have a key.
    Raises MissingDataFile, UnreadableDataFile.
    """
    keys = _lookup_keys_for_files(spark, snapshot, files, source)
    if keys is None:
        return None
    columns = snapshot.schema.select(name for name in snapshot.schema.names if name in column_names or name in keys.names)
    if not can_be_held(columns):
        return None
    looked_up_files = _looked_up_files(spark, snapshot, files, columns, lineage)
    if looked_up_files is None:
        return None
    row_fields = tuple(columns)
    if lineage is not None:
        row_fields += (Field(ROW_ID, lineage.row_id.type), Field(CHANGED_IN, lineage.changed_in.type))
    try:
        rows = read_rows_with_keys(snapshot.name, looked_up_files, arrow_schema(bare(Struct(row_fields))), keys)
    except TooManyRows:
        return None
    frame = frame_of(spark, rows, bare(Struct((*row_fields, *ADDRESS_FIELDS))))
    return frame, {str(index): spark_path(file.path) for index, file in enumerate(looked_up_files)}


@dataclass(frozen=True)
class KeyMatches:
    """Which rows of a table and of a source have equal keys.

    `positions`: of the table's rows, by path as Spark spells it; `sources`: the ordinals of the source rows; `source_of`: by path, the
    source ordinals of the rows at the path's positions, in their order, if matches are one-to-one.
    """

    positions: dict[str, Positions]
    sources: BitMap64 = field(default_factory=BitMap64)
    source_of: Mapping[str, Numbers] = field(default_factory=dict)


def find_key_matches(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, source: Source, *, one_to_one: bool, with_sources: bool
) -> KeyMatches | None:
    """Return which rows of these files have all keys of a source row, or None if only Spark can tell.

    With `one_to_one`, the result is None, too, unless each row matches at most one source row and each source row at most one row.
    `with_sources`: whether the result names the source rows. Raises MissingDataFile, UnreadableDataFile.
    """
    keys = _lookup_keys_for_files(spark, snapshot, files, source)
    if keys is None or not _decide_matches(keys, source, one_to_one=one_to_one):
        return None
    columns = snapshot.schema.select(name for name in snapshot.schema.names if name in keys.names)
    looked_up_files = _looked_up_files(spark, snapshot, files, columns, lineage=None)
    if looked_up_files is None:
        return None
    find_in_file = partial(find_positions, columns=arrow_schema(bare(columns)), keys=keys, with_key_numbers=one_to_one or with_sources)
    # One-to-one matches are not more than the source rows. Closing stops the reading of other files once there are more.
    max_rows = source.rows if one_to_one else None
    with closing(map_files(snapshot.name, looked_up_files, find_in_file)) as matches_by_file:
        rows = _collect_rows(zip(looked_up_files, matches_by_file, strict=True), max_rows=max_rows)
    if rows is None or (one_to_one and _has_repeated_key(rows)):
        return None
    return _with_source_rows(rows, source, keys, one_to_one=one_to_one) if with_sources else KeyMatches(rows.positions)


def _decide_matches(keys: SourceKeys, source: Source, *, one_to_one: bool) -> bool:
    """Return whether a lookup of these keys tells exactly which rows have all keys of a source row."""
    return keys.is_exact and len(keys.columns) >= len(source.keys) and (keys.is_distinct or not one_to_one)


class _RowsWithKeys(NamedTuple):
    """The positions of rows that have a key of the source, and the numbers of their keys, both by path as Spark spells it."""

    positions: dict[str, Positions]
    key_numbers: dict[str, Numbers]


def _collect_rows(matches: Iterable[tuple[LookedUpFile, tuple[Positions, Numbers]]], *, max_rows: int | None) -> _RowsWithKeys | None:
    """Collect the matching rows of each file, or return None for more than `max_rows`.

    Without `max_rows`, each key number comes once in a file. Otherwise, there is one for each row.
    """
    rows, row_count = _RowsWithKeys({}, {}), 0
    for file, (positions, numbers) in matches:
        row_count += len(numbers)
        if max_rows is not None and row_count > max_rows:
            return None
        if positions:
            path = spark_path(file.path)
            rows.positions[path] = positions
            rows.key_numbers[path] = np.unique(numbers) if max_rows is None else numbers
    return rows


def _has_repeated_key(rows: _RowsWithKeys) -> bool:
    """Return whether several rows have the same key, in one file or in several."""
    all_numbers = np.concatenate([np.zeros(0, dtype=np.int64), *rows.key_numbers.values()])
    return bool(np.bincount(all_numbers, minlength=1).max() > 1)


def _with_source_rows(rows_with_keys: _RowsWithKeys, source: Source, keys: SourceKeys, *, one_to_one: bool) -> KeyMatches:
    """Return the matches of rows that have a key with the ordinals of the source rows that have the same key."""
    assert source.key_ordinals is not None
    ordinals, source_numbers = source.key_ordinals.to_numpy(), keys.source_numbers()
    # A source row that matches nothing has the number -1, which selects the last element of the arrays by number.
    has_number = source_numbers >= 0
    is_matched_by_number = np.zeros(source.rows + 1, dtype=bool)
    for numbers in rows_with_keys.key_numbers.values():
        is_matched_by_number[numbers] = True
    matched_ordinals = BitMap64(ordinals[has_number & is_matched_by_number[source_numbers]].astype(np.uint64))
    if not one_to_one:
        return KeyMatches(rows_with_keys.positions, matched_ordinals)
    ordinal_by_number = np.full(source.rows + 1, -1, dtype=np.int64)
    ordinal_by_number[source_numbers[has_number]] = ordinals[has_number]
    source_of = {path: ordinal_by_number[numbers] for path, numbers in rows_with_keys.key_numbers.items()}
    return KeyMatches(rows_with_keys.positions, matched_ordinals, source_of)


def _lookup_keys(snapshot: Snapshot, source: Source) -> SourceKeys | None:
    columns = [(key, snapshot.schema.find(key.pair.column, case_sensitive=True)) for key in source.keys]
    return source_keys([(key, column) for key, column in columns if column is not None])


def _lookup_keys_for_files(spark: SparkSession, snapshot: Snapshot, files: FileListing, source: Source) -> SourceKeys | None:
    """Return the keys by which the driver looks up rows of these files, or None if there are none, or if the driver must not read them.

    The driver reads many keys only if the driver is the whole cluster.
    """
    may_read = files.total_records <= LOOKED_UP_ROWS or is_local_mode(spark)
    return _lookup_keys(snapshot, source) if may_read else None


def _looked_up_files(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, columns: Struct, lineage: Lineage | None
) -> list[LookedUpFile] | None:
    """Return the files with the layout of these columns, None if a file holds a column in another way than the table."""
    paths, options = files.paths, snapshot.shape.filesystem_options
    paths_with_deletes = [path for path, count in zip(paths, files.deleted.to_pylist(), strict=True) if count]
    deleted = deleted_rows(spark, snapshot, paths_with_deletes)
    partitions = dict(zip(paths, files.partitions.to_pylist(), strict=True))
    looked_up_files = []
    for layout in snapshot.layouts(paths):
        stored = _stored_columns(snapshot, layout, columns, lineage)
        if stored is None:
            return None
        for path in layout.paths:
            looked_up_files.append(LookedUpFile(path, stored, deleted.get(path, Positions()), partitions[path] or {}, options))
    return looked_up_files


def _stored_columns(snapshot: Snapshot, layout: FileLayout, columns: Struct, lineage: Lineage | None) -> StoredColumns | None:
    """Return these columns as files of a layout hold them, None if a type differs or a default value replaces a lacking column."""
    file_column_by_name = dict(zip(snapshot.schema.names, layout.stored, strict=True))
    file_columns = [file_column_by_name[column.name] for column in columns]
    pairs = zip(columns, file_columns, strict=True)
    if any(file_column.type != column.type or INITIAL in file_column.metadata for column, file_column in pairs):
        return None
    file_columns += [file_column for _, file_column in lineage_columns(lineage, layout)]
    return StoredColumns(arrow_schema(bare(Struct(tuple(file_columns)), (FIELD_ID,))), layout.by_field_id, layout.missing_columns)
