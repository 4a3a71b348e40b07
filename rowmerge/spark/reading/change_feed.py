"""Read change rows as a DataFrame: one scan of all files that hold any, joined with the changes of each file."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rowmerge.spark.reading.scan import ADDRESS_COLUMNS, bit_of, bit_words, read_files, spark_path
from rowmerge.spark.types import empty_frame, frame_of
from rowmerge.table.metadata.engine_columns import FILE
from rowmerge.table.metadata.schema import Array, Field, Primitive, Struct, arrow_schema, backquote, bare
from rowmerge.table.snapshots.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, TableChanges

_STRING, _LONG = Primitive("string"), Primitive("long")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FILE_CHANGE = (
    Field("__rowmerge_key", _STRING),
    Field("__rowmerge_change", _STRING),
    Field("__rowmerge_version", _LONG),
    Field("__rowmerge_timestamp", Primitive("timestamp")),
    Field("__rowmerge_first", _LONG),
    Field("__rowmerge_words", Array(_LONG)),
    Field("__rowmerge_listed", Primitive("boolean")),
)
"""Columns of a row for each file and version: the bit set holds the rows that changed or, if not listed, those that did not."""
_CHANGE_COLUMNS = (Field(CHANGE_TYPE, _STRING), Field(COMMIT_VERSION, _LONG), Field(COMMIT_TIMESTAMP, Primitive("timestamp")))
_RECORDED = Field("__rowmerge_recorded", _STRING)
_KEY, _CHANGE, _VERSION, _TIMESTAMP, _FIRST, _WORDS, _LISTED = (field.name for field in _FILE_CHANGE)


def read_changes(spark: SparkSession, changes: TableChanges) -> DataFrame:
    """Return the table's columns, then CHANGE_TYPE, COMMIT_VERSION (long) and COMMIT_TIMESTAMP. Raises MissingDataFile."""
    snapshot = changes.snapshot
    if not changes.files:
        return empty_frame(spark, bare(Struct((*snapshot.schema, *_CHANGE_COLUMNS))))
    (layout,) = snapshot.layouts(list(dict.fromkeys(file.path for file in changes.files)))
    # Files lack the partition columns. The rows of `file_changes` hold their values, under names that no column of a file has.
    partition_names = {name: f"__rowmerge_partition_{index}" for index, name in enumerate(layout.missing_columns)}
    pairs = zip(snapshot.schema, layout.stored, strict=True)
    columns_in_files = [(column, stored) for column, stored in pairs if column.name not in partition_names]
    columns_in_files.append((_RECORDED, Field(CHANGE_TYPE, _STRING)))
    rows = read_files(spark, snapshot, layout, columns_in_files, ADDRESS_COLUMNS)
    file_changes = F.broadcast(frame_of(spark, *_file_changes(changes, partition_names)))
    is_changed = F.expr(f"{bit_of(_WORDS, _FIRST)} = if({_LISTED}, 1, 0)")
    changed = rows.join(file_changes, F.col(FILE) == F.col(_KEY), "inner").where(is_changed)
    columns = [F.col(backquote(partition_names.get(name, name))).alias(name) for name in snapshot.schema.names]
    # A data file may hold a column named CHANGE_TYPE, too, which has no meaning there. So the type of the file's change comes first.
    change_type = F.coalesce(F.col(_CHANGE), F.col(_RECORDED.name)).alias(CHANGE_TYPE)
    return changed.select(*columns, change_type, F.col(_VERSION).alias(COMMIT_VERSION), F.col(_TIMESTAMP).alias(COMMIT_TIMESTAMP))


def _file_changes(changes: TableChanges, partition_names: dict[str, str]) -> tuple[pa.Table, Struct]:
    """Return a row for each of `changes.files`, with its partition values under `partition_names`."""
    partition_fields = [changes.snapshot.schema.select((name,)).fields[0] for name in partition_names]
    renamed_fields = (Field(partition_names[field.name], field.type) for field in partition_fields)
    schema = bare(Struct((*_FILE_CHANGE, *renamed_fields)))
    rows = []
    for file in changes.files:
        words, first = bit_words(file.rows) if file.rows else (None, None)
        timestamp = _EPOCH + timedelta(milliseconds=file.timestamp)
        partition_values = [file.partition.get(field.name) for field in partition_fields]
        rows.append((spark_path(file.path), file.change, file.version, timestamp, first, words, file.listed, *partition_values))
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], arrow_schema(schema)), schema
