"""Divide the data files of a table into the tasks that read them, with the columns that a query asks for."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from rowmerge.errors import TypeMismatch, UnknownColumn, UnsupportedTableFeature
from rowmerge.iceberg.metadata.defaults import text_of_default
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.small_files import SmallFilesSpec
from rowmerge.spark.reading.small_files import file_streams
from rowmerge.spark.reading.stored_columns import nullable_schema
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import Struct, arrow_schema, arrow_type, as_nullable, schema_from_json, sql_name
from rowmerge.table.snapshots.files import FileLayout, FileListing
from rowmerge.table.snapshots.snapshot import Snapshot


def columns_of(schema: StructType) -> Struct:
    """Return the columns of a Spark schema."""
    return schema_from_json(schema.jsonValue())


def check_readable(snapshot: Snapshot) -> None:
    """Check that Arrow has the types of all columns.

    Args:
        snapshot: The version of the table.

    Raises:
        UnsupportedTableFeature: A column has another type, such as variant.
    """
    for column in snapshot.schema:
        try:
            arrow_type(column.type)
        except ValueError:
            advice = f"Read the table with session.table(…), or select columns other than `{column.name}` in the schema of the reader."
            feature = f"column of type {sql_name(column.type)}"
            raise UnsupportedTableFeature(snapshot.name, feature, action="read", advice=advice) from None


def check_columns(snapshot: Snapshot, columns: Struct) -> None:
    """Check that a table has the columns that a query reads.

    Args:
        snapshot: The version of the table.
        columns: The columns of the query.

    Raises:
        UnknownColumn: The table has no column with exactly this name.
        TypeMismatch: A column has another type.
    """
    for column in columns:
        table_column = snapshot.schema.find(column.name, case_sensitive=True)
        if table_column is None:
            raise UnknownColumn(column.name, snapshot.schema.names, where=f"the table {snapshot.name}")
        if as_nullable(table_column.type) != as_nullable(column.type):
            problem = f"the schema of the query has the type {sql_name(column.type)}"
            raise TypeMismatch(
                f"The column `{column.name}` of {snapshot.name} has the type {sql_name(table_column.type)}, but {problem}. "
                f"Leave the schema out, and cast the column."
            )


def read_tasks(snapshot: Snapshot, columns: Struct, files: FileListing) -> list[bytes]:
    """Return the pickled arguments of `tasks.read_files`, one for each task.

    Args:
        snapshot: A snapshot that contains the files.
        columns: The columns that the tasks read, which must pass `check_columns`. Batches have exactly their names, order and types.
        files: The files to read.

    Raises:
        UnsupportedTableFeature: Equality deletes apply to a file. Only a Spark job can apply them.
    """
    if not len(files):
        return []
    if snapshot.equality_deletes(files.paths):
        advice = "Read it with session.table(…), or run OPTIMIZE, which removes the deletes."
        raise UnsupportedTableFeature(snapshot.name, "equality deletes", action="read", advice=advice)
    tasks, deleted = [], snapshot.deleted_positions(files.paths)
    for layout in snapshot.layouts(files.paths):
        spec = _read_spec(snapshot, layout, columns)
        layout_files = files if len(layout.paths) == len(files) else files.with_paths(layout.paths)
        tasks += [pickle.dumps((spec, stream)) for stream in file_streams(snapshot, layout, layout_files, deleted)]
    return tasks


def _read_spec(snapshot: Snapshot, layout: FileLayout, columns: Struct) -> SmallFilesSpec:
    """Return the columns to read from files of one layout."""
    file_columns = dict(zip(snapshot.schema.names, layout.stored_schema, strict=True))
    file_schema = nullable_schema(Struct(tuple(file_columns[name] for name in columns.names)))
    return SmallFilesSpec(
        arrow_schema(Struct(tuple(columns))),
        StoredColumns(file_schema, layout.by_field_id, layout.missing_columns),
        initial_values=_initial_values(snapshot, columns.names),
        filesystem_options=snapshot.shape.filesystem_options,
    )


def _initial_values(snapshot: Snapshot, names: Sequence[str]) -> dict[str, pa.Array]:
    """Return the values of columns for files that lack them, by name, as arrays of one value."""
    if not snapshot.shape.supports_initial_defaults:
        return {}
    pairs = zip(snapshot.schema, snapshot.shape.stored_schema, strict=True)
    texts = {field.name: (field.type, str(file_field.metadata[INITIAL])) for field, file_field in pairs if INITIAL in file_field.metadata}
    return {name: pa.array([text_of_default(text)]).cast(arrow_type(type_)) for name, (type_, text) in texts.items() if name in names}
