"""Parquet tables of Spark's session catalog, and the partition values in the names of Hive-style folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F

from rowmerge.commands.names import FileSource
from rowmerge.errors import PlanError, TableNotFound, TypeMismatch, UnsupportedTableFeature
from rowmerge.parquet.partitions import HIVE_NULL
from rowmerge.spark.reading.data_files import escape_patterns
from rowmerge.spark.reading.file_sources import read_file_source
from rowmerge.spark.types import frame_of, schema_of
from rowmerge.storage.store import absolute_location
from rowmerge.table.metadata.schema import Field, Primitive, Struct, arrow_schema, backquote, sql_name

_PATH, _SIZE = "__rowmerge_path", "__rowmerge_size"
_SPARK_PROPERTIES = ("spark.sql.", "transient_lastDdlTime", "numFiles", "totalSize", "rawDataSize", "EXTERNAL")
"""The beginnings of the names of properties with which Hive and Spark describe their own storage."""


@dataclass(frozen=True)
class SessionTable:
    """A Parquet table of Spark's session catalog. `name`: its quoted name. `managed`: whether DROP TABLE in Spark deletes its files."""

    name: str
    location: str
    managed: bool
    schema: Struct
    partition_columns: tuple[str, ...]
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def describe_session_table(spark: SparkSession, parts: Sequence[str]) -> SessionTable:
    """Return the description of a Parquet table of Spark's session catalog.

    Args:
        spark: The session.
        parts: The parts of the table's name, without the name of the catalog.

    Raises:
        TableNotFound: Spark has no such table.
        UnsupportedTableFeature: The table has another format than Parquet, or it is bucketed.
    """
    name = ".".join(map(backquote, ("spark_catalog", *(("default",) if len(parts) == 1 else ()), *parts)))
    try:
        rows = [(row["col_name"], row["data_type"]) for row in spark.sql(f"describe table extended {name}").collect()]
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith(("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")):
            raise
        raise TableNotFound(".".join(parts)) from error
    headings = [text for text, _ in rows]
    details = dict(rows[headings.index("# Detailed Table Information") :])
    provider = details.get("Provider", "").lower()
    if provider != "parquet" and "parquet" not in details.get("InputFormat", "").lower():
        kind = provider or details.get("Type", "unknown").lower()
        raise UnsupportedTableFeature(name, f"the format {kind}", action="import", advice="Copy its rows: CREATE TABLE … AS SELECT …")
    if details.get("Num Buckets", "0") not in ("0", "-1"):
        raise UnsupportedTableFeature(name, "buckets", action="import", advice="Copy its rows: CREATE TABLE … AS SELECT …")
    partition_columns = _partition_columns(rows)
    return SessionTable(
        name,
        absolute_location(unquote(details["Location"])),
        managed=details.get("Type") == "MANAGED",
        schema=schema_of(spark.table(name)),
        partition_columns=partition_columns,
        comment=details.get("Comment"),
        properties=_own_properties(spark, name),
    )


def _partition_columns(rows: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names in the section of partition columns of DESCRIBE EXTENDED."""
    headings = [name for name, _ in rows]
    if "# Partition Information" not in headings:
        return ()
    section = headings[headings.index("# Partition Information") + 2 :]  # after the heading, and the titles of the columns
    return tuple(section[: next((index for index, name in enumerate(section) if not name or name.startswith("#")), len(section))])


def _own_properties(spark: SparkSession, name: str) -> dict[str, str]:
    """Return the properties that users set, without those with which Spark and Hive describe the table."""
    rows = spark.sql(f"show tblproperties {name}").collect()
    return {row["key"]: row["value"] for row in rows if not row["key"].startswith(_SPARK_PROPERTIES)}


def files_of_session_table(spark: SparkSession, table: SessionTable, partition: Struct) -> list[tuple[str, int, dict[str, object]]]:
    """Return the absolute path, the size and the partition values of each file with rows, wherever its partition is stored.

    Args:
        spark: The session that lists the files.
        table: The table of the session catalog.
        partition: The partition columns, with the types of the values to return.

    Raises:
        TypeMismatch: A partition value does not have its type.
    """
    columns = [F.expr(f"cast({backquote(column.name)} as {sql_name(column.type)})").alias(column.name) for column in partition]
    path, size = F.col("_metadata.file_path").alias(_PATH), F.col("_metadata.file_size").alias(_SIZE)
    rows = _collect(spark.table(table.name).select(path, size, *columns).distinct(), table.name)
    return [
        (absolute_location(unquote(row[_PATH])), row[_SIZE], {column.name: row[column.name] for column in partition})
        for row in sorted(rows, key=lambda row: row[_PATH])
    ]


def parse_partition_values(
    spark: SparkSession, folder: str, texts: Sequence[Mapping[str, str]], partition: Struct
) -> list[dict[str, object]]:
    """Return partition values with their types. Each text is the value in the name of a folder, as Hive writes it.

    Args:
        spark: The session that casts the texts.
        folder: The folder of the files, for messages.
        texts: The text of each partition value by column.
        partition: The partition columns.

    Raises:
        PlanError: A column has no value.
        TypeMismatch: A text is not a value of its type.
    """
    if not partition:
        return [{} for _ in texts]
    for values in texts:
        missing = [column.name for column in partition if column.name not in values]
        if missing:
            problem = f"A file in {folder} is not in a folder {missing[0]}=…, so its value of the partition column is unknown."
            raise PlanError(f"{problem} Move the files into such folders, or copy their rows with INSERT.")
    distinct_texts = list(dict.fromkeys(tuple(values[column.name] for column in partition) for values in texts))
    strings = Struct(tuple(Field(column.name, Primitive("string")) for column in partition))
    nullable_texts = [[None if text == HIVE_NULL else text for text in values] for values in zip(*distinct_texts, strict=True)]
    arrow = arrow_schema(strings).empty_table().from_pydict(dict(zip(strings.names, nullable_texts, strict=True)), arrow_schema(strings))
    index = [f"cast({backquote(column.name)} as {sql_name(column.type)}) as {backquote(column.name)}" for column in partition]
    numbered = frame_of(spark, arrow.append_column(_PATH, [list(range(len(distinct_texts)))]), Struct((*strings, Field(_PATH, _INT))))
    rows = _collect(numbered.selectExpr(backquote(_PATH), *index), folder)
    by_texts = {distinct_texts[row[_PATH]]: {column.name: row[column.name] for column in partition} for row in rows}
    return [by_texts[tuple(values[column.name] for column in partition)] for values in texts]


_INT = Primitive("long")


def infer_columns(spark: SparkSession, folder: str) -> Struct:
    """Return the columns of the Parquet files in a folder, the partition columns of its subfolders last.

    Args:
        spark: The session that reads the footers of the files.
        folder: The absolute location of the folder.

    Raises:
        FilesNotFound: The folder has no Parquet files.
    """
    return schema_of(read_file_source(spark, FileSource(escape_patterns(folder), "parquet", options={"mergeSchema": "true"})))


def _collect(frame: DataFrame, source: str) -> list[dict[str, Any]]:
    """Return rows with their Python values. Times have a time zone only if their type has one. Raise TypeMismatch for an invalid value."""
    try:
        rows = frame.toArrow()
    except PySparkException as error:
        if "CAST_INVALID_INPUT" not in str(error) and "CAST_OVERFLOW" not in str(error):
            raise
        raise TypeMismatch(f"A partition value of {source} does not have the type of its column: {str(error).splitlines()[0]}") from error
    for index, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            rows = rows.set_column(index, column.name, rows[column.name].cast(pa.timestamp("us", "UTC")))
    return rows.to_pylist()  # type: ignore[no-any-return]
