"""Compute the number of distinct values of each column of an Iceberg snapshot, and store it in a statistics file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowmerge.errors import PlanError, TypeMismatch, UnknownColumn
from rowmerge.parquet.theta_sketches import estimate, serialize
from rowmerge.spark.reading.distinct_values import distinct_values
from rowmerge.table.maintenance import DistinctValues, TableMaintenance
from rowmerge.table.metadata.schema import Array, Map, Primitive, Struct
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compute_table_statistics(
    spark: SparkSession, table: Table, maintenance: TableMaintenance, snapshot_id: int, columns: Sequence[str] | None = None
) -> str:
    """Compute a theta sketch of columns of a snapshot, and store them in a statistics file. Return the path of the file.

    Args:
        spark: The session that reads the rows.
        table: The table.
        maintenance: The maintenance of the table.
        snapshot_id: The id of the snapshot.
        columns: The names of columns and fields of structs (`address.city`), or None for all columns of primitive types.

    Raises:
        UnknownColumn: The snapshot has no such column.
        TypeMismatch: A column is a struct, an array, a map or a variant.
        PlanError: There are no columns.
        VersionNotFound: The table has no such snapshot.
    """
    snapshot = table.snapshot_at(version=snapshot_id)
    paths = _all_paths(snapshot.schema) if columns is None else [_path(snapshot.schema, name) for name in dict.fromkeys(columns)]
    if not paths:
        raise PlanError(f"{table.name} has no columns of primitive types, or the list of columns is empty. List at least one column.")
    sketches = distinct_values(spark, snapshot, paths)
    values = {path: DistinctValues(serialize(*sketch), estimate(*sketch)) for path, sketch in sketches.items()}
    return maintenance.write_table_statistics(snapshot_id, values)


def _all_paths(schema: Struct) -> list[tuple[str, ...]]:
    return [(field.name,) for field in schema if not _is_complex(field.type)]


def _is_complex(type_: object) -> bool:
    return isinstance(type_, Struct | Array | Map) or type_ == Primitive("variant")


def _path(schema: Struct, name: str) -> tuple[str, ...]:
    """Return the path of a column or field. Raise UnknownColumn if there is none, and TypeMismatch if its type is not primitive."""
    candidates = [(name,), tuple(name.split("."))]
    for path in candidates:
        field = schema.at(path, case_sensitive=True)
        if field is not None and _is_complex(field.type):
            raise TypeMismatch(
                f"The column {name} has the type {field.sql_type}, of which there are no statistics. List columns of other types."
            )
        if field is not None:
            return path
    raise UnknownColumn(name, schema.names)
