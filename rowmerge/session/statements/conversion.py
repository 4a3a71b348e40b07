"""CONVERT TO DELTA: the columns of the files as Spark reads them, and the conversion of their folder."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.maintenance import ConvertToDelta
from rowmerge.commands.names import FileSource
from rowmerge.errors import TypeMismatch
from rowmerge.execution.conversion import Conversion
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.names.scope import SessionContext
from rowmerge.spark.peer_settings import default_properties
from rowmerge.spark.reading.file_sources import absolute, read_file_source
from rowmerge.spark.types import check_storable, parse_columns, schema_of
from rowmerge.table.metadata.schema import Primitive, Struct


def convert_to_delta(context: SessionContext, command: ConvertToDelta) -> StatementResult:
    """Run CONVERT TO DELTA. A folder that is a Delta table already stays as it is.

    Args:
        context: The session.
        command: The parsed statement.

    Raises:
        FilesNotFound: The folder contains no Parquet files.
        AlreadyExists: The folder contains an Iceberg table.
        PlanError: The partition columns are not those of the folders.
        TypeMismatch: A Delta table cannot have a column of the files.
    """
    storage, table = context.tables_by_path.open_folder(absolute(command.path), "delta")
    if table.exists():
        return empty_result(context.spark, "CONVERT")
    partition = parse_columns(context.spark, command.partitioned_by)
    for field in partition:
        if field.type == Primitive("timestamp"):
            problem = f"The partition column {field.name} cannot have the type timestamp, because its values have no time zone"
            raise TypeMismatch(f"{problem}. Write timestamp_ntz or string.")
    source = FileSource(command.path, "parquet", options={"mergeSchema": "true"})
    names = {field.name.lower() for field in partition}
    files = schema_of(read_file_source(context.spark, source))
    columns = Struct(tuple(replace(field, nullable=True) for field in files if field.name.lower() not in names))
    check_storable(columns)
    properties = default_properties(context.spark)
    result = Conversion(table, storage, columns, partition.fields, properties, command.has_statistics).run()
    return StatementResult.from_change(frames.empty_frame(context.spark), "CONVERT", result)
