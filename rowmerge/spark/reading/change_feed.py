"""Change rows as a DataFrame: one scan of all files that hold any, joined with what happened to them in which version."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rowmerge.spark.reading.scan import bit_of, bit_words, read_files, spark_path
from rowmerge.spark.types import empty_frame, frame_of
from rowmerge.table.metadata.engine_columns import FILE
from rowmerge.table.metadata.schema import Array, Field, Primitive, Struct, arrow_schema, backquote, bare
from rowmerge.table.snapshots.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, TableChanges

_STRING, _LONG = Primitive("string"), Primitive("long")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MARKS = (
    Field("__rowmerge_key", _STRING),
    Field("__rowmerge_change", _STRING),
    Field("__rowmerge_version", _LONG),
    Field("__rowmerge_timestamp", Primitive("timestamp")),
    Field("__rowmerge_first", _LONG),
    Field("__rowmerge_words", Array(_LONG)),
    Field("__rowmerge_listed", Primitive("boolean")),
)
_RECORDED = Field("__rowmerge_recorded", _STRING)
_KEY, _CHANGE, _VERSION, _TIMESTAMP, _FIRST, _WORDS, _LISTED = (field.name for field in _MARKS)


def read_changes(spark: SparkSession, changes: TableChanges) -> DataFrame:
    """The table's columns, then CHANGE_TYPE, COMMIT_VERSION (long) and COMMIT_TIMESTAMP. Raises MissingDataFile."""
    snapshot = changes.snapshot
    ends = (Field(CHANGE_TYPE, _STRING), Field(COMMIT_VERSION, _LONG), Field(COMMIT_TIMESTAMP, Primitive("timestamp")))
    if not changes.files:
        return empty_frame(spark, bare(Struct((*snapshot.schema, *ends))))
    paths = list(dict.fromkeys(file.path for file in changes.files))
    (layout,) = snapshot.layouts(paths)
    partition = {name: f"__rowmerge_partition_{index}" for index, name in enumerate(layout.outside)}
    pairs = [pair for pair in zip(snapshot.schema, layout.stored, strict=True) if pair[0].name not in partition]
    pairs.append((_RECORDED, Field(CHANGE_TYPE, _STRING)))
    rows = read_files(spark, snapshot, layout, paths, pairs, addresses=True)
    marks = F.broadcast(frame_of(spark, *_marks(changes, partition)))
    joined = rows.join(marks, F.col(FILE) == F.col(_KEY), "inner")
    joined = joined.where(F.expr(f"{bit_of(_WORDS, _FIRST)} = if({_LISTED}, 1, 0)"))
    columns = [F.col(backquote(partition.get(name, name))).alias(name) for name in snapshot.schema.names]
    # A data file may hold a column of that name too, which means nothing there.
    kind = F.coalesce(F.col(_CHANGE), F.col(_RECORDED.name))
    ended = [kind.alias(CHANGE_TYPE), F.col(_VERSION).alias(COMMIT_VERSION), F.col(_TIMESTAMP).alias(COMMIT_TIMESTAMP)]
    return joined.select(*columns, *ended)


def _marks(changes: TableChanges, partition: dict[str, str]) -> tuple[pa.Table, Struct]:
    """What is known of each file and version: one row for each of `changes.files`."""
    files = changes.files
    bits = [bit_words(file.rows) if file.rows else (None, None) for file in files]
    values = [changes.snapshot.schema.select((name,)).fields[0] for name in partition]
    schema = bare(Struct((*_MARKS, *(Field(partition[f.name], f.type) for f in values))))
    columns = [
        [spark_path(file.path) for file in files],
        [file.change for file in files],
        [file.version for file in files],
        [_EPOCH + timedelta(milliseconds=file.timestamp) for file in files],
        [first for _, first in bits],
        [words for words, _ in bits],
        [file.listed for file in files],
        *([file.partition.get(field.name) for file in files] for field in values),
    ]
    types = arrow_schema(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=types), schema
