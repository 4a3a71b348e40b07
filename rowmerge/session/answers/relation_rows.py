"""The result rows of DESCRIBE and SHOW TABLE EXTENDED for tables, views, partitions and columns, in the form of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rowmerge.session.answers.frames import RowValues, rows_frame, single_row
from rowmerge.table.metadata.partitioning import IDENTITY, partition_by
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct
from rowmerge.table.relations import Relation, RelationDescription
from rowmerge.table.snapshots.metadata_tables import utc_time
from rowmerge.table.snapshots.snapshot import Snapshot, TableDetails

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STRING, _LONG, _INT, _TIME, _BOOLEAN = map(Primitive, ("string", "long", "integer", "timestamp", "boolean"))
_ROW = {"col_name": _STRING, "data_type": _STRING, "comment": _STRING}
_JSON_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint", "timestamp": "timestamp_ltz"}

TextRow = tuple[str, str, str | None]  # of DESCRIBE: col_name, data_type, comment


@dataclass(frozen=True)
class CatalogEntry:
    """What the catalog tells about a relation beside its description.

    `catalog`: the name of the catalog. `is_managed`: whether DROP TABLE deletes the files. `details`: the details of a table, None for a
    view.
    """

    catalog: str
    is_managed: bool
    details: TableDetails | None = None

    def kind_of(self, description: RelationDescription) -> str:
        """Return the type of a relation as DESCRIBE EXTENDED shows it: VIEW, MANAGED or EXTERNAL."""
        if description.relation.kind == "view":
            return "VIEW"
        return "MANAGED" if self.is_managed else "EXTERNAL"

    @property
    def created(self) -> str:
        """The time of creation in UTC, or an empty string if it is unknown."""
        created = None if self.details is None else self.details.created
        return "" if created is None else utc_time(created).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class PartitionCounts:
    """The counts of one partition.

    `values`: the text of each partition value by the name of the field. `size`: the bytes of its data files. `modified`: the time of its
    last change in UTC, or None if the metadata lack it.
    """

    values: Mapping[str, str]
    files: int
    rows: int
    size: int
    modified: str | None = None


def describe_columns(spark: SparkSession, description: RelationDescription, entry: CatalogEntry | None = None) -> DataFrame:
    """Return the rows of DESCRIBE [EXTENDED] for a table or view.

    Args:
        spark: The Spark session of the DataFrame.
        description: The description of the table or view.
        entry: The entry in the catalog, for EXTENDED, which adds rows for the rules, the location, the statistics and the properties.
    """
    rows = _column_rows(description)
    if entry is not None:
        relation = description.relation
        facts = [("Catalog", entry.catalog), ("Schema", relation.schema), ("Name", str(relation)), *_detailed_facts(description, entry)]
        rows += _rule_rows(description)
        rows += _section("Detailed Table Information", [(key, value, "") for key, value in facts])
    return rows_frame(spark, _ROW, rows)


def _column_rows(description: RelationDescription) -> list[TextRow]:
    """Return the rows of the columns, and those of the partitioning."""
    return [(field.name, field.sql_type, field.comment) for field in description.columns] + _partitioning_rows(description)


def describe_partition(spark: SparkSession, description: RelationDescription, partition: PartitionCounts) -> DataFrame:
    """Return the rows of DESCRIBE … PARTITION: those of DESCRIBE, and the counts of the partition.

    Args:
        spark: The Spark session of the DataFrame.
        description: The description of the table.
        partition: The values and the counts of the partition.
    """
    facts = [("Schema", description.relation.schema), ("Table", description.relation.name), *_partition_facts(partition)]
    rows = _column_rows(description) + _section("Detailed Partition Information", [(key, value, "") for key, value in facts])
    return rows_frame(spark, _ROW, rows)


def _partition_facts(partition: PartitionCounts) -> list[tuple[str, str]]:
    """Return the (heading, value) pairs that describe a partition. The time of the last change is omitted if it is unknown."""
    values = ", ".join(f"{name}={value}" for name, value in partition.values.items())
    facts = [
        ("Partition Values", f"[{values}]"),
        ("Number of Files", str(partition.files)),
        ("Partition Statistics", f"{partition.size} bytes, {partition.rows} rows"),
    ]
    return facts if partition.modified is None else [*facts, ("Last Updated", partition.modified)]


def describe_column(spark: SparkSession, column: Field, statistics: Mapping[str, str | None] | None) -> DataFrame:
    """Return the rows of DESCRIBE [EXTENDED] for a column.

    Args:
        spark: The Spark session of the DataFrame.
        column: The column.
        statistics: The values by Spark's names, such as `min` and `num_nulls`, None for unknown ones. None without EXTENDED.
    """
    facts: dict[str, str | None] = {"col_name": column.name, "data_type": column.sql_type, "comment": column.comment, **(statistics or {})}
    return rows_frame(spark, {"info_name": _STRING, "info_value": _STRING}, [(name, value or "NULL") for name, value in facts.items()])


def describe_as_json(spark: SparkSession, description: RelationDescription, entry: CatalogEntry) -> DataFrame:
    """Return the row of DESCRIBE EXTENDED … AS JSON, with the keys of Spark 4.

    Args:
        spark: The Spark session of the DataFrame.
        description: The description of the table or view.
        entry: The entry in the catalog.
    """
    relation, defaults = description.relation, description.rules.defaults
    values = {
        "table_name": relation.name,
        "catalog_name": entry.catalog,
        "namespace": [relation.schema],
        "schema_name": relation.schema,
        "columns": [{**_json_field(field), "default": defaults.get(field.name)} for field in description.columns],
        "partition_columns": partition_by(description.partitioning) or None,
        "location": description.location,
        "provider": relation.format,
        "comment": description.comment,
        "type": entry.kind_of(description),
        "created_time": entry.created or None,
        "table_properties": dict(sorted(description.properties.items())) or None,
        "statistics": None if description.text is not None else {"size_in_bytes": description.size, "num_rows": description.records},
        "view_text": description.text,
    }
    return single_row(spark, {"json_metadata": (_STRING, json.dumps(_without_none(values), ensure_ascii=False))})


def _without_none(value: Any) -> Any:
    """Return JSON without the members of objects that are null, at any depth."""
    if isinstance(value, dict):
        return {key: _without_none(member) for key, member in value.items() if member is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def _json_field(field: Field) -> dict[str, Any]:
    type_ = _json_type(field.type)
    declared, _, length = field.sql_type.rstrip(")").partition("(")
    if declared in ("char", "varchar"):
        type_ = {"name": declared, "length": int(length)}
    return {"name": field.name, "type": type_, "nullable": field.nullable, "comment": field.comment}


def _json_type(type_: DataType) -> dict[str, Any]:
    """Return a type in the form of DESCRIBE … AS JSON."""
    match type_:
        case Decimal(precision, scale):
            return {"name": "decimal", "precision": precision, "scale": scale}
        case Array(element, contains_null):
            return {"name": "array", "element_type": _json_type(element), "element_nullable": contains_null}
        case Map(key, value, contains_null):
            return {"name": "map", "key_type": _json_type(key), "value_type": _json_type(value), "value_nullable": contains_null}
        case Struct(fields):
            return {"name": "struct", "fields": [_json_field(field) for field in fields]}
        case Primitive("string"):
            return {"name": "string", "collation": "UTF8_BINARY"}
        case Primitive(name):
            return {"name": _JSON_NAMES.get(name, name)}
    return {"name": "binary"}


def _section(title: str, rows: Sequence[TextRow]) -> list[TextRow]:
    """Return the rows, preceded by an empty row and a heading. Return an empty list if there are no rows."""
    return [("", "", ""), (f"# {title}", "", ""), *rows] if rows else []


def _detailed_facts(description: RelationDescription, entry: CatalogEntry) -> list[tuple[str, str]]:
    """Return the (heading, value) pairs of Spark's DESCRIBE EXTENDED, except the name and the columns. Empty values are omitted."""
    properties = ",".join(f"{key}={value}" for key, value in sorted(description.properties.items()))
    row_count = "" if description.records is None else f", {description.records} rows"
    facts = [
        ("Type", entry.kind_of(description)),
        ("Provider", description.relation.format or ""),
        ("Location", description.location),
        ("Comment", description.comment or ""),
        ("Owner", description.properties.get("owner", "")),
        ("Created Time", entry.created),
        ("Version", "" if description.version is None else str(description.version)),
        ("Write Order", ", ".join(field.text for field in description.ordering)),
        ("Statistics", f"{description.size} bytes{row_count}"),
        ("Table Properties", f"[{properties}]"),
        ("View Text", description.text or ""),
    ]
    return [(heading, value) for heading, value in facts if value]


def _partitioning_rows(description: RelationDescription) -> list[TextRow]:
    """Return the partitioning as in Spark's DESCRIBE: the columns with their types, or numbered fields if one has a transform."""
    fields = description.partitioning
    if not fields:
        return []
    if any(field.transform.name != IDENTITY for field in fields):
        return _section("Partitioning", [(f"Part {index}", field.text, "") for index, field in enumerate(fields)])
    columns = Struct(description.columns)
    headings = [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
    return headings + [_partition_column_row(columns, field.column) for field in fields]


def _partition_column_row(columns: Struct, path: tuple[str, ...]) -> TextRow:
    """Return the path, the type and the comment of a partition column, which may be a field of a struct."""
    column = columns.at(path, case_sensitive=True)
    assert column is not None, path
    return ".".join(path), column.sql_type, column.comment


def _rule_rows(description: RelationDescription) -> list[TextRow]:
    """Return the rows of defaults, generated columns and constraints, each group below a heading."""
    rules = description.rules
    types = {field.name: field.sql_type for field in description.columns}
    default_values = [(name, types[name], default) for name, default in rules.defaults.items()]
    generated_columns = [(name, types[name], f"GENERATED ALWAYS AS ({expression})") for name, expression in rules.generated.items()]
    constraints = [(check.name, check.text.removeprefix(f"{check.name} "), "") for check in rules.checks]
    sections = [("Column Default Values", default_values), ("Generated Columns", generated_columns), ("Constraints", constraints)]
    return [row for title, section_rows in sections for row in _section(title, section_rows)]


def describe_detail(spark: SparkSession, description: RelationDescription, snapshot: Snapshot) -> DataFrame:
    """Return the row of DESCRIBE DETAIL, with Delta's columns. Those of the protocol are NULL for other formats.

    Args:
        spark: The Spark session of the DataFrame.
        description: The description of the table.
        snapshot: The newest version of the table.
    """
    files, details = snapshot.files(), snapshot.details
    values: RowValues = {
        "format": (_STRING, description.relation.format),
        "id": (_STRING, details.id),
        "name": (_STRING, snapshot.name),
        "description": (_STRING, snapshot.description),
        "location": (_STRING, snapshot.shape.location),
        "createdAt": (_TIME, None if details.created is None else utc_time(details.created)),
        "lastModified": (_TIME, utc_time(snapshot.timestamp)),
        "partitionColumns": (Array(_STRING), partition_by(snapshot.shape.partitioning)),
        "clusteringColumns": (Array(_STRING), list(snapshot.clustering_columns)),
        "numFiles": (_LONG, len(files)),
        "sizeInBytes": (_LONG, files.total_size),
        "numDeletedRows": (_LONG, files.total_deleted),
        "properties": (Map(_STRING, _STRING), list(description.properties.items())),
        "minReaderVersion": (_INT, details.min_reader_version),
        "minWriterVersion": (_INT, details.min_writer_version),
        "tableFeatures": (Array(_STRING), list(details.features)),
    }
    return single_row(spark, values)


_INFORMATION = {"namespace": _STRING, "tableName": _STRING, "isTemporary": _BOOLEAN, "information": _STRING}


def show_relations_extended(spark: SparkSession, descriptions: Iterable[tuple[RelationDescription, CatalogEntry]]) -> DataFrame:
    """Return the rows of SHOW TABLE EXTENDED: the rows of SHOW TABLES, each with a description as one string in Spark's format.

    Args:
        spark: The Spark session of the DataFrame.
        descriptions: The descriptions of the tables and views, with their entries in the catalog.
    """
    rows = [(relation.schema, relation.name, False, text) for relation, text in map(_information, descriptions)]
    return rows_frame(spark, _INFORMATION, rows)


def _information(described: tuple[RelationDescription, CatalogEntry]) -> tuple[Relation, str]:
    """Return a relation, and its description as one string."""
    description, entry = described
    relation = description.relation
    facts = [("Catalog", entry.catalog), ("Database", relation.schema), ("Table", relation.name), *_detailed_facts(description, entry)]
    columns = [f" |-- {field.name}: {field.sql_type} (nullable = {str(field.nullable).lower()})" for field in description.columns]
    return relation, "\n".join([*(f"{key}: {value}" for key, value in facts), "Schema: root", *columns]) + "\n\n"


def show_partition_extended(spark: SparkSession, relation: Relation, partition: PartitionCounts) -> DataFrame:
    """Return the row of SHOW TABLE EXTENDED … PARTITION.

    Args:
        spark: The Spark session of the DataFrame.
        relation: The table.
        partition: The values and the counts of the partition.
    """
    text = "".join(f"{key}: {value}\n" for key, value in _partition_facts(partition))
    return rows_frame(spark, _INFORMATION, [(relation.schema, relation.name, False, f"{text}\n")])
