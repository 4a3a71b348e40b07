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

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from rowmerge.parquet.data_files import HeldColumns
from rowmerge.parquet.key_lookup import LookedUpFile, TooManyRows, find_positions, look_up, map_files
from rowmerge.parquet.lineage import CHANGED_IN, ROW_ID
from rowmerge.parquet.source_keys import Numbers, SourceKeys
from rowmerge.spark.reading.scan import deleted_rows, lineage_columns, spark_path
from rowmerge.spark.source.keys import source_keys
from rowmerge.spark.source.source import Source, can_be_held
from rowmerge.spark.types import frame_of
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Field, Primitive, Struct, arrow_schema, bare
from rowmerge.table.snapshots.files import FileListing, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

FEW_KEYS = 32
"""For so many source rows, Spark's reader skips the pages without a key. If the statement needs other columns, too, this saves more than a
lookup does."""
LOOKED_UP_ROWS = 20_000_000
"""A driver that is only a part of the cluster looks through up to so many rows."""


@dataclass(frozen=True)
class RowsByKeys:
    """Target rows with addresses, as `read_snapshot` returns them, but only with the columns that a MERGE needs.

    FILE holds a short name for a file, because it is part of every row. `paths`: the paths by these names, as Spark spells them.
    """

    frame: DataFrame
    paths: Mapping[str, str]


def skips_pages_instead(snapshot: Snapshot, source: Source, needed_columns: frozenset[str]) -> bool:
    """Return whether Spark's reader finds the rows of a few keys sooner than a lookup, because the statement needs other columns, too."""
    if source.rows > FEW_KEYS:
        return False
    keys = _lookup_keys(snapshot, source)
    return keys is None or not needed_columns <= set(keys.names)


def rows_by_keys(
    spark: SparkSession,
    snapshot: Snapshot,
    table: str,
    files: FileListing,
    source: Source,
    *,
    column_names: frozenset[str],
    lineage: bool,
) -> RowsByKeys | None:
    """Return the rows of these files that have a key of the source, with these columns, or None if Spark must read the files.

    Spark must read them if no key can be looked up, if Arrow does not bring a column to Spark unchanged, or if too many rows have a key.
    `table`: the name that errors print. Raises MissingDataFile, UnreadableDataFile.
    """
    keys = _lookup_keys(snapshot, source) if _may_read(spark, files) else None
    if keys is None:
        return None
    columns = Struct(tuple(field for field in snapshot.schema if field.name in column_names or field.name in keys.names))
    looked_up_files = _looked_up_files(spark, snapshot, files, columns, lineage=lineage) if can_be_held(columns) else None
    if looked_up_files is None:
        return None
    hidden = snapshot.shape.row_lineage if lineage else None
    hidden_columns = () if hidden is None else (Field(ROW_ID, hidden.row_id.type), Field(CHANGED_IN, hidden.changed_in.type))
    try:
        rows = look_up(table, looked_up_files, arrow_schema(bare(Struct((*columns, *hidden_columns)))), keys)
    except TooManyRows:
        return None
    schema = bare(Struct((*columns, *hidden_columns, Field(FILE, Primitive("string")), Field(POSITION, Primitive("long")))))
    return RowsByKeys(frame_of(spark, rows, schema), {str(index): spark_path(file.path) for index, file in enumerate(looked_up_files)})


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
    spark: SparkSession, snapshot: Snapshot, table: str, files: FileListing, source: Source, *, one_to_one: bool, with_sources: bool
) -> KeyMatches | None:
    """Return which rows of these files have all keys of a source row, or None if only Spark can tell.

    With `one_to_one`, the result is None, too, unless each row matches at most one source row and each source row at most one row.
    `with_sources`: whether the result names the source rows. Raises MissingDataFile, UnreadableDataFile.
    """
    keys = _lookup_keys(snapshot, source) if _may_read(spark, files) else None
    if keys is None or not keys.is_exact or len(keys.columns) < len(source.keys) or (one_to_one and not keys.is_distinct):
        return None
    columns = Struct(tuple(column for column in snapshot.schema if column.name in keys.names))
    looked_up_files = _looked_up_files(spark, snapshot, files, columns, lineage=False)
    if looked_up_files is None or (with_sources and source.key_ordinals is None):
        return None
    positions, key_numbers = dict[str, Positions](), dict[str, Numbers]()
    schema, with_numbers = arrow_schema(bare(columns)), one_to_one or with_sources
    with closing(map_files(table, looked_up_files, lambda file: find_positions(file, schema, keys, with_numbers=with_numbers))) as matches:
        for file, (file_positions, numbers) in zip(looked_up_files, matches, strict=True):
            if file_positions:
                positions[spark_path(file.path)] = file_positions
                key_numbers[spark_path(file.path)] = numbers if one_to_one else np.unique(numbers)
            if one_to_one and sum(map(len, key_numbers.values())) > source.rows:
                return None
    if one_to_one and _has_repeats(key_numbers.values()):
        return None
    return _with_sources(positions, key_numbers, source, keys, one_to_one=one_to_one) if with_sources else KeyMatches(positions)


def _has_repeats(key_numbers: Collection[Numbers]) -> bool:
    """Return whether a key matched rows more than once, in one file or in several."""
    all_numbers = np.concatenate([np.zeros(0, dtype=np.int64), *key_numbers])
    return bool(np.bincount(all_numbers, minlength=1).max() > 1)


def _with_sources(
    positions: dict[str, Positions], key_numbers: Mapping[str, Numbers], source: Source, keys: SourceKeys, *, one_to_one: bool
) -> KeyMatches:
    """Return the matches with the ordinals of their source rows, whose keys have the numbers in `key_numbers`."""
    assert source.key_ordinals is not None
    ordinals, numbers = source.key_ordinals.to_numpy(), keys.source_numbers()
    is_matched = np.zeros(source.rows + 1, dtype=bool)
    for matched_numbers in key_numbers.values():
        is_matched[matched_numbers] = True
    sources = BitMap64(ordinals[(numbers >= 0) & is_matched[numbers]].astype(np.uint64))
    if not one_to_one:
        return KeyMatches(positions, sources)
    row_of_number = np.full(source.rows + 1, -1, dtype=np.int64)
    row_of_number[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    return KeyMatches(positions, sources, {path: ordinals[row_of_number[matched]] for path, matched in key_numbers.items()})


def _lookup_keys(snapshot: Snapshot, source: Source) -> SourceKeys | None:
    columns = [(key, snapshot.schema.find(key.pair.column, case_sensitive=True)) for key in source.keys]
    return source_keys([(key, column) for key, column in columns if column is not None])


def _may_read(spark: SparkSession, files: FileListing) -> bool:
    """Return whether the driver may read the keys of these files: they are not many, or the driver is the whole cluster."""
    return files.total_records <= LOOKED_UP_ROWS or is_all_of_spark(spark)


def is_all_of_spark(spark: SparkSession) -> bool:
    """Return whether this process and its JVM are the whole cluster."""
    return hasattr(spark, "sparkContext") and str(spark.conf.get("spark.master", "")).startswith("local")


def _looked_up_files(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, columns: Struct, *, lineage: bool
) -> list[LookedUpFile] | None:
    """Return the files with the layout of these columns, None if a file holds a column in another way than the table."""
    paths = files.paths
    deleted = deleted_rows(spark, snapshot, [path for path, count in zip(paths, files.deleted.to_pylist(), strict=True) if count])
    partitions = dict(zip(paths, files.partitions.to_pylist(), strict=True))
    hidden, filesystem_options = snapshot.shape.row_lineage if lineage else None, snapshot.shape.filesystem_options
    looked_up_files = []
    for layout in snapshot.layouts(paths):
        stored_by_name = {field.name: stored for field, stored in zip(snapshot.schema, layout.stored, strict=True)}
        stored = [stored_by_name[column.name] for column in columns]
        if any(held.type != column.type or INITIAL in held.metadata for column, held in zip(columns, stored, strict=True)):
            return None
        stored += [held for _, held in lineage_columns(hidden, layout)]
        held_columns = HeldColumns(arrow_schema(bare(Struct(tuple(stored)), (FIELD_ID,))), layout.by_field_id, layout.outside)
        looked_up_files += [
            LookedUpFile(path, held_columns, deleted.get(path, Positions()), partitions[path] or {}, filesystem_options)
            for path in layout.paths
        ]
    return looked_up_files
