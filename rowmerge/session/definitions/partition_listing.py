"""The partitions of a table from its metadata, for SHOW PARTITIONS and DESCRIBE … PARTITION."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rowmerge.commands.listings import PartitionValues
from rowmerge.errors import PlanError, TableError, UnknownColumn
from rowmerge.parquet.partitions import comparable_partition, partition_text
from rowmerge.parquet.transforms import value_text
from rowmerge.session.answers.relation_rows import PartitionCounts
from rowmerge.table.metadata.schema import Struct, backquote, sql_name
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN_AS_TEXT = ("year", "month", "hour")
"""The transforms whose values are numbers since 1970 and are shown as times."""


@dataclass(frozen=True)
class Partition:
    """A row of the metadata table `partitions`. `texts`: the text of each partition value by the name of the field, None for NULL."""

    texts: Mapping[str, str | None]
    counts: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The row of SHOW PARTITIONS, such as `day=2024-01-01/region=eu`."""
        return "/".join(partition_text(field, text) for field, text in self.texts.items())

    @property
    def described(self) -> PartitionCounts:
        """The counts that DESCRIBE … PARTITION shows."""
        counts, modified = self.counts, self.counts["last_updated_at"]
        return PartitionCounts(
            {field: "null" if text is None else text for field, text in self.texts.items()},
            files=counts["file_count"],
            rows=counts["record_count"] - counts["position_delete_record_count"],
            size=counts["total_data_file_size_in_bytes"],
            modified=None if modified is None else modified.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )


def list_partitions(spark: SparkSession, table: Table, values: PartitionValues) -> list[Partition]:
    """Return the partitions with live files that have some values, in the order of their names.

    Args:
        spark: The Spark session that evaluates the values.
        table: The table.
        values: The values of some partition fields. Empty for all partitions.

    Raises:
        TableError: The table is not partitioned.
        UnknownColumn: The table has no such partition field.
    """
    snapshot = table.snapshot()
    rows = table.metadata_tables.read("partitions", snapshot)
    column = rows.columns.find("partition")
    if column is None or not isinstance(column.type, Struct):
        raise TableError(f"{table.name} is not partitioned, so it has no partitions to name. Leave the partition out, or use DESCRIBE.")
    fields, transforms = column.type, table.metadata_tables.partition_transforms(snapshot)
    expected = _evaluated(spark, fields, transforms, values)
    partitions = []
    for counts in rows.rows.to_pylist():
        texts = {name: _text(value, transforms[name]) for name, value in counts["partition"].items()}
        compared = {name: texts[name] if transforms[name] in _SHOWN_AS_TEXT else counts["partition"][name] for name in expected}
        if counts["file_count"] and comparable_partition(compared) == comparable_partition(expected):
            partitions.append(Partition(texts, counts))
    return sorted(partitions, key=lambda partition: partition.name)


def find_partition(spark: SparkSession, table: Table, values: PartitionValues) -> PartitionCounts:
    """Return the counts of the partition with these values.

    Args:
        spark: The Spark session that evaluates the values.
        table: The table.
        values: The value of each partition field.

    Raises:
        TableError: The table is not partitioned, or has no such partition.
        PlanError: A partition field has no value.
        UnknownColumn: The table has no such partition field.
    """
    partitions = list_partitions(spark, table, values)
    clause = f"PARTITION ({', '.join(f'{backquote(name)} = {value}' for name, value in values)})"
    if not partitions:
        raise TableError(f"{table.name} has no partition {clause}. SHOW PARTITIONS {table.name} lists its partitions.")
    missing = partitions[0].texts.keys() - {_exact_name(partitions[0].texts, name) for name, _ in values}
    if missing:
        raise PlanError(f"{clause} lacks a value for {min(missing)}. Specify a value for each partition field of {table.name}.")
    return partitions[0].described


def _exact_name(names: Mapping[str, object], name: str) -> str | None:
    return next((each for each in names if each.lower() == name.lower()), None)


def _evaluated(spark: SparkSession, fields: Struct, transforms: Mapping[str, str], values: PartitionValues) -> dict[str, Any]:
    """Return the values of a PARTITION clause by the exact name of the field, with the types of the partition values."""
    types = {}
    for name, _ in values:
        field = fields.find(name)
        if field is None:
            raise UnknownColumn(name, fields.names, where="PARTITION")
        types[field.name] = "string" if transforms[field.name] in _SHOWN_AS_TEXT else sql_name(field.type)
    if len(types) < len(values):
        raise PlanError("A partition field occurs twice in PARTITION (…). Specify one value for each field.")
    if not types:
        return {}
    texts = (value.text for _, value in values)
    # Spark evaluates each value, and Arrow keeps the time zone of an instant.
    casts = [f"cast({text} as {type_}) as {backquote(name)}" for text, (name, type_) in zip(texts, types.items(), strict=True)]
    (row,) = spark.range(1).selectExpr(*casts).toArrow().to_pylist()
    return {name: row[name] for name in types}


def _text(value: Any, transform: str) -> str | None:
    return None if value is None else value_text(value, transform)
