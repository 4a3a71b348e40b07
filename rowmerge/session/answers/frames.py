"""The rows of DESCRIBE, SHOW and row-level statements, in the columns that Spark and Delta give them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

from rowmerge.execution.compaction import CompactionStatistics, Sizes
from rowmerge.execution.result import RowCounts
from rowmerge.session.answers.description import RelationDescription
from rowmerge.spark.types import frame_of
from rowmerge.table.metadata.partitioning import IDENTITY, partition_by
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Primitive, Struct, arrow_schema
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import HistoryEntry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STRING, _LONG, _TIME = Primitive("string"), Primitive("long"), Primitive("timestamp")
_STRINGS = Map(_STRING, _STRING)


def of_rows(spark: SparkSession, columns: Mapping[str, DataType], rows: Iterable[Sequence[object]]) -> DataFrame:
    """Return rows as a DataFrame with these columns."""
    schema = Struct(tuple(Field(name, type_) for name, type_ in columns.items()))
    arrow = arrow_schema(schema)
    row_list = list(rows)
    arrays = [pa.array([row[index] for row in row_list], field.type) for index, field in enumerate(arrow)]
    return frame_of(spark, pa.Table.from_arrays(arrays, schema=arrow), schema)


def empty(spark: SparkSession) -> DataFrame:
    """Return a DataFrame without columns and rows, for statements that return none."""
    return spark.range(0).select()


def row_counts(spark: SparkSession, operation: str, changes: RowCounts) -> DataFrame:
    """Return counts of changed rows as Delta does: four for MERGE, fewer for other statements."""
    counts = {
        "MERGE": [
            ("num_affected_rows", changes.affected),
            ("num_updated_rows", changes.updated),
            ("num_deleted_rows", changes.deleted),
            ("num_inserted_rows", changes.inserted),
        ],
        "UPDATE": [("num_affected_rows", changes.updated)],
        "DELETE": [("num_affected_rows", changes.deleted)],
        "TRUNCATE": [("num_affected_rows", changes.deleted)],
    }.get(operation, [("num_affected_rows", changes.inserted), ("num_inserted_rows", changes.inserted)])
    names, values = ", ".join(name for name, _ in counts), ", ".join(f"{count}L" for _, count in counts)
    # As a query: one call to the JVM, where Arrow takes dozens.
    return spark.sql(f"select * from values ({values}) as counted({names})")


def columns_of(spark: SparkSession, description: RelationDescription, extended: bool) -> DataFrame:
    """DESCRIBE [EXTENDED]: a row a column, the partitioning, and with EXTENDED what is known of the table."""
    rows: list[Sequence[str | None]] = [(f.name, f.sql_type, f.comment) for f in description.columns]
    rows += _partitioning(description)
    if extended:
        relation = description.relation
        facts = [("Name", f"{relation.schema}.{relation.name}"), *_facts(description)]
        rows += _rules(description)
        rows += [("", "", ""), ("# Detailed Table Information", "", "")] + [(key, value, "") for key, value in facts]
    return of_rows(spark, {"col_name": _STRING, "data_type": _STRING, "comment": _STRING}, rows)


def _facts(description: RelationDescription) -> list[tuple[str, str]]:
    """Return facts about a relation besides its name and columns, under the headings of Spark's DESCRIBE EXTENDED."""
    relation = description.relation
    properties = ",".join(f"{key}={value}" for key, value in sorted(description.properties.items()))
    facts = [
        ("Type", "VIEW" if relation.kind == "view" else "MANAGED"),
        ("Provider", relation.format or ""),
        ("Location", description.location),
        ("Comment", description.comment or ""),
        ("Version", "" if description.version is None else str(description.version)),
        ("Write Order", ", ".join(field.told for field in description.ordering)),
        ("Statistics", f"{description.size} bytes" + (f", {description.records} rows" if description.records is not None else "")),
        ("Table Properties", f"[{properties}]"),
        ("View Text", description.text or ""),
    ]
    return [(key, value) for key, value in facts if value]


def _partitioning(description: RelationDescription) -> list[Sequence[str | None]]:
    """Return the rows of the partitioning as Spark's DESCRIBE does: columns with types, or transforms if there are any."""
    fields = description.partitioning
    if any(field.transform.name != IDENTITY for field in fields):
        return [("", "", ""), ("# Partitioning", "", ""), *((f"Part {at}", field.told, "") for at, field in enumerate(fields))]
    columns = Struct(description.columns)
    rows: list[Sequence[str | None]] = [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")] if fields else []
    for field in fields:
        source = columns.at(field.column, case_sensitive=True)
        assert source is not None
        rows.append((".".join(field.column), source.sql_type, source.comment))
    return rows


def _rules(description: RelationDescription) -> list[Sequence[str | None]]:
    """Return the rows of defaults, generated columns and constraints, each group below a heading."""
    rules, types = description.rules, {field.name: field.sql_type for field in description.columns}
    rows: list[Sequence[str | None]] = []
    if rules.defaults:
        rows += [("", "", ""), ("# Column Default Values", "", "")]
        rows += [(name, types[name], text) for name, text in rules.defaults.items()]
    if rules.generated:
        rows += [("", "", ""), ("# Generated Columns", "", "")]
        rows += [(name, types[name], f"GENERATED ALWAYS AS ({text})") for name, text in rules.generated.items()]
    if rules.checks:
        rows += [("", "", ""), ("# Constraints", "", "")]
        rows += [(check.name, check.told.removeprefix(f"{check.name} "), "") for check in rules.checks]
    return rows


def detail_of(spark: SparkSession, description: RelationDescription, snapshot: Snapshot) -> DataFrame:
    """DESCRIBE DETAIL, the columns of Delta's that have a meaning here."""
    listing = snapshot.files()
    columns: dict[str, DataType] = {
        "format": _STRING,
        "name": _STRING,
        "description": _STRING,
        "location": _STRING,
        "lastModified": _TIME,
        "partitionColumns": Array(_STRING),
        "numFiles": _LONG,
        "sizeInBytes": _LONG,
        "numDeletedRows": _LONG,
        "properties": _STRINGS,
    }
    row = (
        description.relation.format,
        snapshot.name,
        snapshot.description,
        snapshot.shape.location,
        _utc_time(snapshot.timestamp),
        partition_by(snapshot.shape.partitioning),
        len(listing),
        listing.total_size,
        listing.total_deleted,
        list(snapshot.settings.properties.items()),
    )
    return of_rows(spark, columns, [row])


def history_of(spark: SparkSession, entries: Sequence[HistoryEntry]) -> DataFrame:
    """DESCRIBE HISTORY, newest first."""
    columns: dict[str, DataType] = {
        "version": _LONG,
        "timestamp": _TIME,
        "operation": _STRING,
        "operationParameters": _STRINGS,
        "readVersion": _LONG,
        "isolationLevel": _STRING,
        "isBlindAppend": Primitive("boolean"),
        "operationMetrics": _STRINGS,
        "engineInfo": _STRING,
    }
    rows = [
        (
            e.version,
            _utc_time(e.timestamp),
            e.operation,
            list(e.parameters.items()),
            e.read_version,
            e.isolation_level,
            e.is_blind_append,
            list(e.metrics.items()),
            e.engine,
        )
        for e in entries
    ]
    return of_rows(spark, columns, rows)


def compaction_of(spark: SparkSession, location: str, statistics: CompactionStatistics) -> DataFrame:
    """OPTIMIZE and REORG: the path and Delta's metrics, those of them that have a meaning here."""
    sizes = _struct(min=_LONG, max=_LONG, avg=Primitive("double"), totalFiles=_LONG, totalSize=_LONG)
    vectors = _struct(numDeletionVectorsRemoved=_LONG, numDeletionVectorRowsRemoved=_LONG)
    counts = ("numFilesAdded", "numFilesRemoved"), ("partitionsOptimized", "numBins", "totalConsideredFiles", "totalFilesSkipped")
    fields: dict[str, DataType] = {
        **dict.fromkeys(counts[0], _LONG),
        "filesAdded": sizes,
        "filesRemoved": sizes,
        **dict.fromkeys(counts[1], _LONG),
        "deletionVectorStats": vectors,
    }
    metrics = {
        "numFilesAdded": len(statistics.added.sizes),
        "numFilesRemoved": len(statistics.removed.sizes),
        "filesAdded": _size_metrics(statistics.added),
        "filesRemoved": _size_metrics(statistics.removed),
        "partitionsOptimized": statistics.partitions,
        "numBins": statistics.bins,
        "totalConsideredFiles": statistics.considered,
        "totalFilesSkipped": statistics.considered - len(statistics.removed.sizes),
        "deletionVectorStats": {"numDeletionVectorsRemoved": statistics.vectors, "numDeletionVectorRowsRemoved": statistics.rows},
    }
    return of_rows(spark, {"path": _STRING, "metrics": _struct(**fields)}, [(location, metrics)])


def _struct(**fields: DataType) -> Struct:
    return Struct(tuple(Field(name, type_) for name, type_ in fields.items()))


def _size_metrics(files: Sizes) -> dict[str, int | float | None]:
    low, high = (min(files.sizes), max(files.sizes)) if files.sizes else (None, None)
    return {"min": low, "max": high, "avg": files.average, "totalFiles": len(files.sizes), "totalSize": files.total}


def names(spark: SparkSession, column: str, values: Iterable[str], like: str | None) -> DataFrame:
    """Return one column of the names that match a pattern of SHOW … LIKE."""
    return of_rows(spark, {column: _STRING}, [(value,) for value in values if matches(value, like)])


def relations(spark: SparkSession, rows: Iterable[tuple[str, str, bool]], name_column: str) -> DataFrame:
    """SHOW TABLES and SHOW VIEWS: namespace, name, isTemporary."""
    return of_rows(spark, {"namespace": _STRING, name_column: _STRING, "isTemporary": Primitive("boolean")}, rows)


def relations_extended(spark: SparkSession, described: Iterable[RelationDescription]) -> DataFrame:
    """SHOW TABLE EXTENDED: as SHOW TABLES, and `information`, a text of a line for each fact and each column, as Spark writes it."""
    columns = {"namespace": _STRING, "tableName": _STRING, "isTemporary": Primitive("boolean"), "information": _STRING}
    return of_rows(spark, columns, [(d.relation.schema, d.relation.name, False, _information(d)) for d in described])


def _information(description: RelationDescription) -> str:
    relation = description.relation
    facts = [("Database", relation.schema), ("Table", relation.name), *_facts(description)]
    fields = [f" |-- {field.name}: {field.sql_type} (nullable = {str(field.nullable).lower()})" for field in description.columns]
    return "\n".join([*(f"{key}: {value}" for key, value in facts), "Schema: root", *fields]) + "\n\n"


def properties(spark: SparkSession, values: Mapping[str, str], key: str | None) -> DataFrame:
    """SHOW TBLPROPERTIES."""
    pairs = sorted(values.items()) if key is None else [(key, values.get(key, f"Table does not have property: {key}"))]
    return of_rows(spark, {"key": _STRING, "value": _STRING}, pairs)


def matches(name: str, like: str | None) -> bool:
    """Return whether a name matches a pattern of SHOW … LIKE: `*` and `%` are any text, `|` separates patterns, case does not matter."""
    if like is None:
        return True
    patterns = [part.strip().replace("[", "[[]").replace("?", "[?]").replace("%", "*") for part in like.lower().split("|")]
    return any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in patterns)


def _utc_time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
