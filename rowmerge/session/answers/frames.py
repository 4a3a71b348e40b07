"""The result rows of DESCRIBE, SHOW, maintenance and row-level statements, with the columns of Spark and Delta."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from rowmerge.execution.compaction import CompactionStatistics
from rowmerge.execution.row_counts import RowCounts
from rowmerge.spark.types import frame_of
from rowmerge.table.metadata.schema import DataType, Field, Map, Primitive, Struct, arrow_schema
from rowmerge.table.relations import Relation
from rowmerge.table.snapshots.metadata_tables import utc_time
from rowmerge.table.table import HistoryEntry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STRING, _LONG, _TIME, _BOOLEAN = Primitive("string"), Primitive("long"), Primitive("timestamp"), Primitive("boolean")
_STRINGS = Map(_STRING, _STRING)
_HISTORY_COLUMNS: dict[str, tuple[DataType, Callable[[HistoryEntry], object]]] = {
    "version": (_LONG, lambda entry: entry.version),
    "timestamp": (_TIME, lambda entry: utc_time(entry.timestamp)),
    "operation": (_STRING, lambda entry: entry.operation),
    "operationParameters": (_STRINGS, lambda entry: list(entry.parameters.items())),
    "readVersion": (_LONG, lambda entry: entry.read_version),
    "isolationLevel": (_STRING, lambda entry: entry.isolation_level),
    "isBlindAppend": (_BOOLEAN, lambda entry: entry.is_blind_append),
    "operationMetrics": (_STRINGS, lambda entry: list(entry.metrics.items())),
    "userMetadata": (_STRING, lambda entry: entry.user_metadata),
    "engineInfo": (_STRING, lambda entry: entry.engine),
}

RowValues = Mapping[str, tuple[DataType, object]]  # the type and the value of each column


def rows_frame(spark: SparkSession, columns: Mapping[str, DataType], rows: Iterable[Sequence[object]]) -> DataFrame:
    """Return rows as a DataFrame.

    Args:
        spark: The Spark session of the DataFrame.
        columns: The type of each column by name.
        rows: The values of each row, in the order of the columns.
    """
    schema = _struct(columns)
    arrow = arrow_schema(schema)
    row_list = list(rows)
    arrays = [pa.array([row[index] for row in row_list], field.type) for index, field in enumerate(arrow)]
    return frame_of(spark, pa.Table.from_arrays(arrays, schema=arrow), schema)


def single_row(spark: SparkSession, values: RowValues) -> DataFrame:
    """Return a DataFrame with one row.

    Args:
        spark: The Spark session of the DataFrame.
        values: The type and the value of each column, by its name.
    """
    types = {name: type_ for name, (type_, _) in values.items()}
    return rows_frame(spark, types, [[value for _, value in values.values()]])


def text_column(spark: SparkSession, column: str, values: Iterable[str]) -> DataFrame:
    """Return a DataFrame with one string column.

    Args:
        spark: The Spark session of the DataFrame.
        column: The name of the column.
        values: The string in each row.
    """
    return rows_frame(spark, {column: _STRING}, [(value,) for value in values])


def count_row(spark: SparkSession, counts: Mapping[str, int]) -> DataFrame:
    """Return a DataFrame with one row of bigint columns.

    Args:
        spark: The Spark session of the DataFrame.
        counts: The value of each column, by its name.
    """
    return single_row(spark, {name: (_LONG, count) for name, count in counts.items()})


def empty_frame(spark: SparkSession) -> DataFrame:
    """Return a DataFrame without columns or rows, for statements that return no rows."""
    return spark.range(0).select()


def changed_row_counts(spark: SparkSession, operation: str, counts: RowCounts) -> DataFrame:
    """Return the row of counts that Delta returns for MERGE, UPDATE, DELETE, TRUNCATE and INSERT.

    Args:
        spark: The Spark session of the DataFrame.
        operation: The statement, such as `MERGE`.
        counts: The counts of changed rows.
    """
    counts_by_change = _counts_by_change(operation, counts)
    values = ", ".join(f"{count}L" for count in counts_by_change.values())
    columns = ", ".join(f"num_{change}_rows" for change in counts_by_change)
    # A query takes one call to the JVM, where Arrow takes dozens.
    return spark.sql(f"select * from values ({values}) as counted({columns})")


def _counts_by_change(operation: str, counts: RowCounts) -> dict[str, int]:
    """Return the counts that Delta returns for a statement: four for MERGE, fewer for the others."""
    match operation:
        case "MERGE":
            return {"affected": counts.affected, "updated": counts.updated, "deleted": counts.deleted, "inserted": counts.inserted}
        case "UPDATE":
            return {"affected": counts.updated}
        case "DELETE" | "TRUNCATE" | "ALTER TABLE":
            return {"affected": counts.deleted}
    return {"affected": counts.inserted, "inserted": counts.inserted}


def describe_history(spark: SparkSession, entries: Sequence[HistoryEntry]) -> DataFrame:
    """Return the rows of DESCRIBE HISTORY.

    Args:
        spark: The Spark session of the DataFrame.
        entries: The commits of the table, newest first.
    """
    columns = {name: type_ for name, (type_, _) in _HISTORY_COLUMNS.items()}
    return rows_frame(spark, columns, [[value_of(entry) for _, value_of in _HISTORY_COLUMNS.values()] for entry in entries])


def compaction_metrics(spark: SparkSession, location: str, statistics: CompactionStatistics) -> DataFrame:
    """Return the row of OPTIMIZE and REORG: the path of the table and Delta's metrics.

    Args:
        spark: The Spark session of the DataFrame.
        location: The location of the table.
        statistics: The counts and sizes of the compaction.
    """
    deletion_vectors: RowValues = {
        "numDeletionVectorsRemoved": (_LONG, statistics.removed_vector_count),
        "numDeletionVectorRowsRemoved": (_LONG, statistics.removed_vector_rows),
    }
    metrics: RowValues = {
        "numFilesAdded": (_LONG, len(statistics.added_sizes)),
        "numFilesRemoved": (_LONG, len(statistics.removed_sizes)),
        "filesAdded": _size_metrics(statistics.added_sizes),
        "filesRemoved": _size_metrics(statistics.removed_sizes),
        "partitionsOptimized": (_LONG, statistics.partitions),
        "numBins": (_LONG, statistics.bins),
        "totalConsideredFiles": (_LONG, statistics.considered_files),
        "totalFilesSkipped": (_LONG, statistics.considered_files - len(statistics.removed_sizes)),
        "deletionVectorStats": _struct_value(deletion_vectors),
    }
    return single_row(spark, {"path": (_STRING, location), "metrics": _struct_value(metrics)})


def _struct(types: Mapping[str, DataType]) -> Struct:
    return Struct(tuple(Field(name, type_) for name, type_ in types.items()))


def _struct_value(values: RowValues) -> tuple[DataType, object]:
    """Return the type and the value of a struct with these fields."""
    return _struct({name: type_ for name, (type_, _) in values.items()}), {name: value for name, (_, value) in values.items()}


def _size_metrics(sizes: Sequence[int]) -> tuple[DataType, object]:
    """Return the type and the value of a struct with metrics of file sizes. `sizes`: the size of each file in bytes."""
    metrics: RowValues = {
        "min": (_LONG, min(sizes, default=None)),
        "max": (_LONG, max(sizes, default=None)),
        "avg": (Primitive("double"), sum(sizes) / len(sizes) if sizes else 0.0),
        "totalFiles": (_LONG, len(sizes)),
        "totalSize": (_LONG, sum(sizes)),
    }
    return _struct_value(metrics)


def missing_files(spark: SparkSession, files: Iterable[Sequence[object]]) -> DataFrame:
    """Return the rows of FSCK REPAIR TABLE, with the columns of Databricks.

    Args:
        spark: The Spark session of the DataFrame.
        files: For each file its path and whether it is missing, and the path of its deletion vector and whether that is missing.
    """
    boolean = Primitive("boolean")
    paths = {"dataFilePath": _STRING, "dataFileMissing": boolean, "deletionVectorPath": _STRING, "deletionVectorFileMissing": boolean}
    return rows_frame(spark, paths, files)


def show_relations(spark: SparkSession, relations: Iterable[Relation], name_column: str) -> DataFrame:
    """Return the rows of SHOW TABLES and SHOW VIEWS: namespace, name and isTemporary.

    Args:
        spark: The Spark session of the DataFrame.
        relations: The tables and views.
        name_column: The name of the second column, `tableName` or `viewName`.
    """
    columns = {"namespace": _STRING, name_column: _STRING, "isTemporary": _BOOLEAN}
    return rows_frame(spark, columns, [(relation.schema, relation.name, False) for relation in relations])


def show_properties(spark: SparkSession, pairs: Sequence[tuple[str, str]]) -> DataFrame:
    """Return the rows of SHOW TBLPROPERTIES, from the name and the value of each property."""
    return rows_frame(spark, {"key": _STRING, "value": _STRING}, pairs)


def matches_pattern(name: str, like: str | None) -> bool:
    """Return whether a name matches a pattern of SHOW … LIKE.

    Args:
        name: The name of a schema, table, view or function.
        like: The pattern: `*` and `%` match any text, `|` separates alternatives, and case is ignored. None matches every name.
    """
    if like is None:
        return True
    patterns = [pattern.strip().replace("[", "[[]").replace("?", "[?]").replace("%", "*") for pattern in like.lower().split("|")]
    return any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in patterns)
