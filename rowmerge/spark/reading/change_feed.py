"""Read change rows as a DataFrame: scan all files with change rows once, and join their rows with the changes of each file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as F

from rowmerge.spark.reading.bit_sets import bit_at_position, bit_set_of
from rowmerge.spark.reading.data_files import ADDRESS_COLUMNS, read_files, spark_path
from rowmerge.spark.types import empty_frame, frame_of
from rowmerge.table.metadata.engine_columns import FILE
from rowmerge.table.metadata.schema import Array, DataType, Field, Primitive, Struct, arrow_schema, backquote, bare
from rowmerge.table.snapshots.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, ChangedFile, TableChanges
from rowmerge.table.snapshots.files import FileLayout
from rowmerge.table.snapshots.snapshot import Snapshot

_STRING, _LONG, _TIMESTAMP = Primitive("string"), Primitive("long"), Primitive("timestamp")
_FILE_PATH, _FILE_CHANGE, _VERSION, _TIME = "__rowmerge_path", "__rowmerge_change", "__rowmerge_version", "__rowmerge_timestamp"
_FIRST_WORD, _BIT_WORDS, _IS_LISTED, _RECORDED_CHANGE = "__rowmerge_first", "__rowmerge_words", "__rowmerge_listed", "__rowmerge_recorded"
_CHANGED_FILE_TYPES: dict[str, DataType] = {_FILE_PATH: _STRING, _FILE_CHANGE: _STRING, _VERSION: _LONG, _TIME: _TIMESTAMP}
_CHANGED_FILE_TYPES |= {_FIRST_WORD: _LONG, _BIT_WORDS: Array(_LONG), _IS_LISTED: Primitive("boolean")}
"""The columns of a row that describes the changes of a file in a version (see `_select_change_rows` for the bit set)."""


def read_changes(spark: SparkSession, changes: TableChanges) -> DataFrame:
    """Return the change rows: the table's columns, CHANGE_TYPE, COMMIT_VERSION (long) and COMMIT_TIMESTAMP, as in Delta's change data feed.

    One scan reads all files. A join with a small table, one row for each file and version, selects the rows that a version changed. The
    small table also has the partition values, which data files lack.

    Args:
        spark: The session that reads the files.
        changes: The changed files, each with the kind of change and the positions of the changed rows.

    Raises:
        MissingDataFile: Spark does not find one of the files while it lists them.
    """
    snapshot = changes.snapshot
    if not changes.changed_files:
        return empty_frame(spark, bare(changes.schema))
    # Only Delta tables have a change data feed, and all files of a Delta table have one layout.
    (layout,) = snapshot.layouts(list(dict.fromkeys(file.path for file in changes.changed_files)))
    # The small table has the partition columns under names that no column of a file has. Their original names return after the join.
    partition_names = {name: f"__rowmerge_partition_{index}" for index, name in enumerate(layout.missing_columns)}
    file_rows = _read_changed_files(spark, snapshot, layout)
    change_rows = _select_change_rows(file_rows, _changed_files(spark, changes, partition_names))
    table_columns = [F.col(backquote(partition_names.get(name, name))).alias(name) for name in snapshot.schema.names]
    return change_rows.select(*table_columns, _change_type(), F.col(_VERSION).alias(COMMIT_VERSION), F.col(_TIME).alias(COMMIT_TIMESTAMP))


def _change_type() -> Column:
    """Return the column CHANGE_TYPE, for rows of two kinds of files.

    A version inserts or deletes all selected rows of a data file, and _FILE_CHANGE is "insert" or "delete". A file in `_change_data` has
    the change of each row in a column of its own (_RECORDED_CHANGE), and _FILE_CHANGE is NULL.
    """
    return F.coalesce(F.col(_FILE_CHANGE), F.col(_RECORDED_CHANGE)).alias(CHANGE_TYPE)


def _read_changed_files(spark: SparkSession, snapshot: Snapshot, layout: FileLayout) -> DataFrame:
    """Return all rows of changed files with their addresses. _RECORDED_CHANGE has the values of the files' CHANGE_TYPE column."""
    column_pairs = zip(snapshot.schema, layout.stored_schema, strict=True)
    columns = [(column, file_column) for column, file_column in column_pairs if column.name not in layout.missing_columns]
    columns.append((Field(_RECORDED_CHANGE, _STRING), Field(CHANGE_TYPE, _STRING)))
    return read_files(spark, snapshot, layout, columns, ADDRESS_COLUMNS)


def _select_change_rows(file_rows: DataFrame, changed_files: DataFrame) -> DataFrame:
    """Join the rows of files to the changes of these files, and return each changed row once for each version that changed it.

    The bit set of a change contains the positions of the changed rows. If _IS_LISTED is false, it contains the positions of all other rows.
    """
    rows = file_rows.join(F.broadcast(changed_files), F.col(FILE) == F.col(_FILE_PATH), "inner")
    is_in_bit_set = f"{bit_at_position(_BIT_WORDS, _FIRST_WORD)} = 1"
    return rows.where(f"({is_in_bit_set}) = {_IS_LISTED}")


def _changed_files(spark: SparkSession, changes: TableChanges, partition_names: dict[str, str]) -> DataFrame:
    """Return a row for each changed file, with the columns of _CHANGED_FILE_TYPES and the partition values.

    `partition_names`: the names under which the result has the partition columns, by their names in the table.
    """
    partition_columns = changes.snapshot.schema.select(tuple(partition_names))
    types = _CHANGED_FILE_TYPES | {partition_names[column.name]: column.type for column in partition_columns}
    schema = bare(Struct(tuple(Field(name, type_) for name, type_ in types.items())))
    rows = [_changed_file(file, partition_names) for file in changes.changed_files]
    return frame_of(spark, pa.Table.from_pylist(rows, arrow_schema(schema)), schema)


def _changed_file(file: ChangedFile, partition_names: dict[str, str]) -> dict[str, Any]:
    """Return the row that describes a changed file (see `_changed_files`)."""
    words, first_word = bit_set_of(file.rows) if file.rows else (None, None)
    change = {_FILE_PATH: spark_path(file.path), _FILE_CHANGE: file.change, _VERSION: file.version, _TIME: file.time}
    bit_set = {_FIRST_WORD: first_word, _BIT_WORDS: words, _IS_LISTED: file.listed}
    return change | bit_set | {column: file.partition.get(name) for name, column in partition_names.items()}
