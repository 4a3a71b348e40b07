"""Describe the columns of data files for reads with Arrow: their names, field ids and types in files, and their initial values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from rowmerge.parquet.data_files import StoredColumns
from rowmerge.spark.reading.data_files import lineage_columns
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, NESTED_IDS, Struct, arrow_schema, arrow_type, bare, sql_name
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import FileLayout
from rowmerge.table.snapshots.snapshot import Snapshot


def nullable_schema(schema: Struct) -> pa.Schema:
    """Return the Arrow schema with all columns nullable, as in files of Spark, so that a column may later lose its NOT NULL constraint."""
    return arrow_schema(bare(schema, metadata_keys=(FIELD_ID, NESTED_IDS)))


def initial_values(spark: SparkSession, table: TableShape) -> dict[str, pa.Array]:
    """Return, by column name, the values of columns for files that lack them, as arrays of one value. Columns without one are left out."""
    pairs = zip(table.schema, table.stored_schema, strict=True)
    defaults = {field.name: (field.type, file_field.metadata[INITIAL]) for field, file_field in pairs if INITIAL in file_field.metadata}
    if not table.supports_initial_defaults or not defaults:
        return {}
    literals = ", ".join(f"cast({text} as {sql_name(type_)})" for type_, text in defaults.values())
    values = dict(zip(defaults, spark.sql(f"select {literals}").toArrow().columns, strict=True))
    return {name: values[name].combine_chunks().cast(arrow_type(type_)) for name, (type_, _) in defaults.items()}


def stored_columns(snapshot: Snapshot, layout: FileLayout, names: Sequence[str]) -> StoredColumns:
    """Return columns as the files of a layout store them, and the hidden columns of row lineage.

    Args:
        snapshot: The snapshot of the table.
        layout: How the files store the columns.
        names: The names of the columns in the table.
    """
    pairs = zip(snapshot.schema, layout.stored_schema, strict=True)
    file_columns = [file_column for column, file_column in pairs if column.name in names]
    file_columns += [file_column for _, file_column in lineage_columns(snapshot.shape.row_lineage, layout)]
    # Columns are nullable, because a file may be older than the NOT NULL constraint of a column.
    return StoredColumns(nullable_schema(Struct(tuple(file_columns))), layout.by_field_id, layout.missing_columns)
