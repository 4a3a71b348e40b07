"""Look up the target rows that have a key of the source, with Arrow. In row groups without such rows, only the key columns are read.

Spark then joins these few rows instead of the table. For a row without a match, a hash join in Spark takes a hundred times as long as this
lookup.

The keys must be simple values that are equal in Arrow whenever they are equal in Spark. The result contains all rows that match, and may
contain other rows. Spark joins it to the source on the whole condition, and the same join finds the new source rows.

Arrow hashes the keys in each call. Hashing a million strings takes as long as looking up a few million rows. So one call looks up the keys
in several row groups, also of several files. A call for integers, dates and timestamps hashes only the keys within the range of the rows.
For few rows, it searches the sorted keys instead. All key columns but one may have a single value, for example in the file of a partition.
In this case, a call hashes only the keys with these values.

Spark reads the files itself
- if the statement needs rows without a key (NOT MATCHED BY SOURCE, change rows),
- for keys of other types,
- for few keys if the statement needs other columns, because only Spark's reader skips pages,
- if the driver looks up the keys, and more than two million rows have a key.

In local mode, the driver reads the files. On a cluster, executors do if there are many rows or distant files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID, StoredColumns
from rowmerge.parquet.key_lookup import LookedUpFile, find_positions
from rowmerge.parquet.source_keys import NumpyArray, SourceKeys
from rowmerge.plan.bounds.bounds import comparison_field
from rowmerge.spark.matching.driver_lookup import TooManyRows, map_files, read_rows_with_keys
from rowmerge.spark.matching.executor_lookup import positions_on_executors, rows_on_executors
from rowmerge.spark.reading.data_files import ADDRESS_FIELDS, lineage_columns, spark_path
from rowmerge.spark.reading.deleted_rows import deleted_rows
from rowmerge.spark.source.keys import TIME_TYPES, contains_times, is_unchanged_by_arrow, source_keys
from rowmerge.spark.source.source import Source
from rowmerge.spark.spark_session import analyses_later, is_local_mode
from rowmerge.spark.types import frame_of
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, DataType, Field, Struct, arrow_schema, bare
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.files import FileLayout, FileListing, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

MAX_KEYS_FOR_PAGE_SKIPPING = 32
"""Up to this number of source rows, Spark's reader skips pages without a key. If the statement also needs other columns, this is faster
than a lookup."""
ROWS_ON_DRIVER, DISTANT_FILES_ON_DRIVER = 4_000_000, 64
"""The maximum number of rows among which a driver looks up keys if executors run elsewhere, and the maximum number of files in a remote
store. A job on executors takes half a second longer than a lookup in a few rows."""
MAX_CONNECT_KEY_BYTES = 32 * 1024 * 1024
"""The maximum size in bytes of keys that Spark Connect sends to executors: each request for the rows contains them. A server accepts
requests of up to 128 MB."""


_FileMatches = tuple[LookedUpFile, tuple[Positions, NumpyArray]]
"""A data file, the positions of its rows that have a key of the source, and the key ids of these rows."""


@dataclass(frozen=True)
class LookedUpRows:
    """The live rows of the target that have a key of the source.

    Attributes:
        frame: The rows with FILE and POSITION. FILE is only a file's index as a string, because each row repeats it.
        path_by_file: The path of each file, as Spark spells it, by FILE.
        are_few: Whether the rows are so few that Spark can broadcast them. Their number is unknown if executors look them up.
    """

    frame: DataFrame
    path_by_file: Mapping[str, str]
    are_few: bool


def should_use_page_skipping(snapshot: Snapshot, source: Source, needed_columns: frozenset[str]) -> bool:
    """Return whether Spark's Parquet reader, which skips pages, should find the rows with few keys, instead of a lookup in Arrow.

    A page is a part of a column chunk, with bounds of its values. Spark reads only the pages whose bounds can include a key, in all
    columns. A lookup reads whole column chunks. So Spark is faster if the statement needs columns other than the keys.

    Args:
        snapshot: The snapshot of the target.
        source: The source with its keys.
        needed_columns: The target columns that the statement reads.
    """
    if source.row_count > MAX_KEYS_FOR_PAGE_SKIPPING:
        return False  # with many keys, the bounds of most pages include one of them
    keys = _lookup_keys(snapshot, source)
    # The keys are None if Arrow cannot compare them. Then only Spark can find their rows.
    # For a nested field, `needed_columns` names the whole column, which may contain more than keys.
    return keys is None or not needed_columns <= {path[0] for path in keys.paths if len(path) == 1}


def rows_by_keys(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, source: Source, column_names: frozenset[str], lineage: Lineage | None
) -> LookedUpRows | None:
    """Look up the target rows that have a key of the source, with Arrow instead of Spark.

    Args:
        spark: The session of the result. It also finds the rows of equality deletes.
        snapshot: The snapshot of the target.
        files: The data files to read.
        source: The source with its keys.
        column_names: The names of the target columns to return in addition to the key columns.
        lineage: The lineage columns to add to the result; None to add none.

    Returns:
        The live rows. None if Spark must read the files: no key can be looked up, or too many rows have a key. It is also None if Arrow
        changes a column's values, or a file stores a column with another type.

    Raises:
        MissingDataFile: A data file does not exist.
        UnreadableDataFile: A data file is damaged.
    """
    keys = _lookup_keys(snapshot, source)
    if keys is None or not _can_send(spark, files, keys):
        return None
    columns = snapshot.schema.select(name for name in snapshot.schema.names if name in column_names or name in keys.names)
    if not is_unchanged_by_arrow(columns) or _have_nested_times(columns):
        return None
    lookup_files = _describe_files(spark, snapshot, files, columns, lineage)
    if lookup_files is None:
        return None
    row_fields = (*columns, *_lineage_fields(lineage))
    path_by_index = {str(index): spark_path(file.path) for index, file in enumerate(lookup_files)}
    if _executors_look_up(spark, files):
        return LookedUpRows(rows_on_executors(spark, lookup_files, Struct(row_fields), keys), path_by_index, are_few=False)
    try:
        rows = read_rows_with_keys(snapshot.name, lookup_files, arrow_schema(bare(Struct(row_fields))), keys)
    except TooManyRows:
        return None
    return LookedUpRows(frame_of(spark, rows, bare(Struct((*row_fields, *ADDRESS_FIELDS)))), path_by_index, are_few=True)


def _have_nested_times(columns: Struct) -> bool:
    """Return whether a column contains nested dates or timestamps. Arrow cannot convert those that Spark 2 wrote in its old calendar."""
    return any(column.type not in TIME_TYPES and contains_times(column.type) for column in columns)


def _lineage_fields(lineage: Lineage | None) -> tuple[Field, ...]:
    return () if lineage is None else (Field(ROW_ID, lineage.row_id.type), Field(CHANGED_IN, lineage.changed_in.type))


def _executors_look_up(spark: SparkSession, files: FileListing) -> bool:
    """Return whether executors look up keys in these files, instead of the driver."""
    if is_local_mode(spark):
        return False
    are_distant = len(files) > DISTANT_FILES_ON_DRIVER and not files.paths[0].startswith("file:")
    return are_distant or files.total_records > ROWS_ON_DRIVER


@dataclass(frozen=True)
class KeyMatches:
    """The rows of a table and of a source that have equal keys. Paths are spelled as Spark spells them.

    `positions`: the positions of the matching table rows, by path. `source_ordinals`: the ordinals of the matching source rows.
    `ordinals_by_path`: for one-to-one matches, the ordinals of the source rows by path, in the order of the positions of the matching table
    rows.
    """

    positions: dict[str, Positions]
    source_ordinals: BitMap64 = field(default_factory=BitMap64)
    ordinals_by_path: Mapping[str, NumpyArray] = field(default_factory=dict)


def find_key_matches(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, source: Source, *, one_to_one: bool, with_sources: bool
) -> KeyMatches | None:
    """Find the target rows whose key columns all equal those of a source row, with Arrow instead of Spark.

    The lookup can also return the key id of each target row. One-to-one matches and ordinals of source rows require these ids.

    Args:
        spark: The session that finds the rows of equality deletes.
        snapshot: The snapshot of the target.
        files: The data files to read.
        source: The source with its keys.
        one_to_one: Whether each target row may match only one source row, and each source row only one target row.
        with_sources: Whether to return the ordinals of the source rows.

    Returns:
        The matches, or None if they are not one-to-one as requested, or if a lookup in the files cannot determine them.

    Raises:
        MissingDataFile: A data file does not exist.
        UnreadableDataFile: A data file is damaged.
    """
    keys = _lookup_keys(snapshot, source)
    if keys is None or not _can_send(spark, files, keys) or not _can_decide_matches(keys, source, one_to_one=one_to_one):
        return None
    columns = snapshot.schema.select(name for name in snapshot.schema.names if name in keys.names)
    lookup_files = _describe_files(spark, snapshot, files, columns, lineage=None)
    if lookup_files is None:
        return None
    max_rows = source.row_count if one_to_one else None  # with more target rows, the matches are not one-to-one
    with closing(_find_in_files(spark, snapshot, files, lookup_files, columns, keys, max_rows, one_to_one or with_sources)) as matches:
        rows = _collect_rows(matches, max_rows, distinct_keys=not one_to_one)
    if rows is None or (one_to_one and _has_repeated_key(rows)):
        return None
    return _matches_with_ordinals(rows, source, keys, one_to_one=one_to_one) if with_sources else KeyMatches(rows.positions)


def _can_send(spark: SparkSession, files: FileListing, keys: SourceKeys) -> bool:
    """Return whether the keys reach the process that looks them up: executors get them in a request if the session is on Spark Connect."""
    return not analyses_later(spark) or keys.nbytes <= MAX_CONNECT_KEY_BYTES or not _executors_look_up(spark, files)


def _find_in_files(
    spark: SparkSession,
    snapshot: Snapshot,
    files: FileListing,
    lookup_files: Sequence[LookedUpFile],
    columns: Struct,
    keys: SourceKeys,
    max_rows: int | None,
    with_key_ids: bool,
) -> Generator[_FileMatches, None, None]:
    """Yield files with the positions and key ids of their matching rows, on executors or on the driver. Closing it stops reading files."""
    if _executors_look_up(spark, files):
        yield from positions_on_executors(spark, snapshot.name, lookup_files, columns, keys, with_key_ids=with_key_ids, max_rows=max_rows)
        return
    find_in_files = partial(_find_positions, columns=arrow_schema(bare(columns)), keys=keys, with_key_ids=with_key_ids)
    with closing(map_files(snapshot.name, lookup_files, keys, find_in_files)) as matches_by_group:
        for group, matches_by_file in matches_by_group:
            yield from zip(lookup_files[group.start : group.stop], matches_by_file, strict=True)


def _find_positions(
    files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys, *, with_key_ids: bool
) -> list[tuple[Positions, NumpyArray]]:
    """Return the positions as bitmaps, which take less memory than arrays, and the key ids. See `find_positions` for the arguments."""
    matches_by_file = find_positions(files, columns, keys, with_key_ids=with_key_ids)
    return [(Positions(positions.astype(np.uint64)), key_ids) for positions, key_ids in matches_by_file]


def _can_decide_matches(keys: SourceKeys, source: Source, *, one_to_one: bool) -> bool:
    """Return whether a lookup of these keys finds exactly the rows that have all keys of a source row."""
    return keys.is_exact and len(keys.columns) >= len(source.keys) and (keys.is_distinct or not one_to_one)


class _RowsWithKeys(NamedTuple):
    """Target rows that have a key of the source: their positions and their key ids, both by file path as Spark spells it."""

    positions: dict[str, Positions]
    key_ids: dict[str, NumpyArray]


def _collect_rows(matches: Iterable[_FileMatches], max_rows: int | None, *, distinct_keys: bool) -> _RowsWithKeys | None:
    """Collect the matching rows of each file, or return None as soon as there are more than `max_rows`.

    A key id is the index of a key among the distinct keys of the source. `distinct_keys`: whether to keep each key id once per file instead
    of once per row, to save memory.
    """
    rows, row_count = _RowsWithKeys(positions={}, key_ids={}), 0
    for file, (positions, key_ids) in matches:
        row_count += len(key_ids)
        if max_rows is not None and row_count > max_rows:
            return None
        if positions:  # some row of the file has a key
            path = spark_path(file.path)
            rows.positions[path] = positions
            rows.key_ids[path] = np.unique(key_ids) if distinct_keys else key_ids
    return rows


def _has_repeated_key(rows: _RowsWithKeys) -> bool:
    """Return whether two or more rows have the same key, in the same file or in different files."""
    all_key_ids = np.concatenate([np.zeros(0, dtype=np.int64), *rows.key_ids.values()])
    return bool(np.bincount(all_key_ids, minlength=1).max() > 1)


def _matches_with_ordinals(rows: _RowsWithKeys, source: Source, keys: SourceKeys, *, one_to_one: bool) -> KeyMatches:
    """Return the matches of target rows and source rows: the positions of the target rows, and the ordinals of the source rows.

    An ordinal identifies a source row. A key id is the index of a key among the distinct keys of the source. So it is less than the number
    of source rows. Two rows match if they have the same key id. `rows` contains the key ids of the target rows.

    For example, the source rows with the ordinals 0, 1 and 2 have the key ids 1, 0 and -1. The id -1 stands for a key that no target row
    can equal (NULL). The only target row has the key id 0. Then the result contains the source ordinal 1.

    `one_to_one`: whether no two source rows and no two target rows share a key. The result then contains the ordinal for each target row.
    """
    assert source.key_ordinals is not None
    source_ordinals, source_key_ids = source.key_ordinals.to_numpy(), keys.source_key_ids()
    can_match = source_key_ids >= 0
    source_ordinals, source_key_ids = source_ordinals[can_match], source_key_ids[can_match]
    is_matched_source_row = _is_target_key(rows, source.row_count)[source_key_ids]
    matched_ordinals = BitMap64(source_ordinals[is_matched_source_row].astype(np.uint64))
    if not one_to_one:
        return KeyMatches(rows.positions, matched_ordinals)
    # An array indexed by key id: the ordinal of the only source row with the key.
    ordinal_by_key_id = np.full(source.row_count, -1, dtype=np.int64)
    ordinal_by_key_id[source_key_ids] = source_ordinals
    ordinals_by_path = {path: ordinal_by_key_id[target_key_ids] for path, target_key_ids in rows.key_ids.items()}
    return KeyMatches(rows.positions, matched_ordinals, ordinals_by_path)


def _is_target_key(rows: _RowsWithKeys, key_count: int) -> NumpyArray:
    """Return for each key id whether a target row has the key. For target rows with the key ids 2 and 0, this is [True, False, True]."""
    is_target_key = np.zeros(key_count, dtype=bool)
    for target_key_ids in rows.key_ids.values():
        is_target_key[target_key_ids] = True
    return is_target_key


def _lookup_keys(snapshot: Snapshot, source: Source) -> SourceKeys | None:
    """Return the source's keys that Arrow can look up in columns of the target, or None if there are no such keys."""
    columns = [(key, comparison_field(snapshot.schema, key.pair.path)) for key in source.keys]
    return source_keys([(key, column) for key, column in columns if column is not None])


def _describe_files(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, columns: Struct, lineage: Lineage | None
) -> list[LookedUpFile] | None:
    """Describe the deleted rows, partition values and stored columns of data files for the lookup, which reads the files without Spark.

    Returns:
        A description of each file. None if a file stores a column with a different type than the table, or lacks a column with a default
        value.
    """
    paths, options = files.paths, snapshot.shape.filesystem_options
    deleted_counts = files.deleted.to_pylist()
    deleted_by_path = deleted_rows(spark, snapshot, [path for path, count in zip(paths, deleted_counts, strict=True) if count])
    partitions = dict(zip(paths, files.partitions.to_pylist(), strict=True))
    counts_and_sizes = dict(zip(paths, zip(files.records.fill_null(0).to_pylist(), files.sizes.to_pylist(), strict=True), strict=True))
    lookup_files = []
    for layout in snapshot.layouts(paths):  # the files of one layout store the columns with the same names and types
        stored_columns = _stored_columns(snapshot, layout, columns, lineage)
        if stored_columns is None:
            return None
        for path in layout.paths:
            deleted = deleted_by_path[path].serialize() if path in deleted_by_path else b""
            lookup_files.append(LookedUpFile(path, stored_columns, deleted, partitions[path] or {}, options, *counts_and_sizes[path]))
    return lookup_files


def _stored_columns(snapshot: Snapshot, layout: FileLayout, columns: Struct, lineage: Lineage | None) -> StoredColumns | None:
    """Return columns as files of a layout store them, or None if a type differs or a default value replaces a missing column."""
    file_column_by_name = dict(zip(snapshot.schema.names, layout.stored_schema, strict=True))
    stored_columns = Struct(tuple(file_column_by_name[name] for name in columns.names))
    if not _has_same_types(columns, stored_columns):
        return None
    file_columns = (*stored_columns, *(file_column for _, file_column in lineage_columns(lineage, layout)))
    return StoredColumns(arrow_schema(bare(Struct(file_columns), (FIELD_ID,))), layout.by_field_id, layout.missing_columns)


def _has_same_types(type_: DataType, stored_type: DataType) -> bool:
    """Return whether a type and its form in data files differ only in the names of fields, and files without a field have NULL there."""
    if not (isinstance(type_, Struct) and isinstance(stored_type, Struct)):
        return type_ == stored_type
    fields = zip(type_, stored_type, strict=True)
    return all(_has_same_types(field.type, file_field.type) and INITIAL not in file_field.metadata for field, file_field in fields)
