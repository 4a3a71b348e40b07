"""CONVERT TO DELTA of a Parquet folder, an Iceberg table or a session table, and shallow clones of Parquet folders and Iceberg tables."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.catalog.names import quoted_name
from rowmerge.commands.maintenance import CloneFiles, ConvertToDelta
from rowmerge.commands.names import FileSource
from rowmerge.errors import AlreadyExists, PlanError, TypeMismatch
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.conversion import Conversion
from rowmerge.execution.procedures.file_adoption import FileAdoption, definition_of_iceberg, files_of_iceberg
from rowmerge.execution.table_change import change_definition
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.definitions.creation import check_no_view, clone_table, source_snapshot
from rowmerge.session.names.resolver import QualifiedName
from rowmerge.session.names.scope import SessionContext
from rowmerge.session.procedures import imports
from rowmerge.session.procedures.arguments import ProcedureCall
from rowmerge.spark.peer_settings import default_properties
from rowmerge.spark.reading.file_sources import absolute, read_file_source
from rowmerge.spark.types import check_storable, parse_columns, schema_of
from rowmerge.table.metadata.schema import Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

_GC_ENABLED = "gc.enabled"


def convert_to_delta(context: SessionContext, command: ConvertToDelta, options: CommitOptions) -> StatementResult:
    """Run CONVERT TO DELTA. A Delta table stays as it is.

    Args:
        context: The session.
        command: The parsed statement.
        options: The text for the history of the table.

    Raises:
        FilesNotFound: The folder contains no Parquet files, or no Iceberg table.
        AlreadyExists: The folder contains an Iceberg table, and the statement says `parquet`.
        PlanError: The table of this name cannot be converted in place, or the partition columns are not those of the folders.
        TypeMismatch: A Delta table cannot have a column of the files.
        UnsupportedTableFeature: A Delta table cannot have a feature of the Iceberg table.
    """
    parts = command.source.parts
    kind = parts[0].lower() if len(parts) == 2 else ""
    if kind == "parquet":
        return _convert_folder(context, parts[1], command)
    if command.partitioned_by:
        raise PlanError(f"The metadata of {command.source} contain its partition columns. Leave PARTITIONED BY out.")
    return _convert_iceberg(context, parts[1], options) if kind == "iceberg" else _convert_name(context, command, options)


def _convert_name(context: SessionContext, command: ConvertToDelta, options: CommitOptions) -> StatementResult:
    """Convert a session table to a Delta table of the catalog, as the procedure `migrate` does, without a backup of its name."""
    name = context.names.without_catalog(command.source)
    relation = context.catalog.relation(*context.names.locate(name))
    if relation is not None and relation.format == "delta":
        return empty_result(context.spark, "CONVERT")
    if relation is not None:
        label = quoted_name(relation.schema, relation.name)
        if relation.format is None:
            raise PlanError(f"{label} is a view, which has no files. Convert the tables that it reads.")
        location = context.catalog.open(relation.schema, relation.name).location
        advice = f"Write its folder, CONVERT TO DELTA iceberg.`{location}`, or create a table: CREATE TABLE … USING delta AS SELECT"
        raise PlanError(f"{label} is an Iceberg table, and the catalog would still know it as one. {advice}.")
    arguments = {"table": str(command.source), "properties": {"provider": "delta"}, "drop_backup": True}
    migrated = imports.migrate(ProcedureCall(context, options, "migrate", arguments))
    return replace(empty_result(context.spark, "CONVERT"), version=migrated.version)


def _convert_iceberg(context: SessionContext, path: str, options: CommitOptions) -> StatementResult:
    """Make a Delta table of an Iceberg table in a folder. One put makes the folder a Delta table, with the same data files.

    Before it, the Iceberg table gets `gc.enabled` = false, so that its maintenance deletes no file that the Delta table needs. If an
    Iceberg commit comes between, the conversion fails, and the folder stays an Iceberg table.
    """
    _, table = context.tables_by_path.open_folder(absolute(path), "delta")
    if table.exists():
        return empty_result(context.spark, "CONVERT")
    source = context.tables_by_path.open(absolute(path), "iceberg", f"iceberg.`{path}`")
    definition_of_iceberg(source.snapshot(), {})  # an error changes nothing
    properties = source.snapshot().settings.properties
    if properties.get(_GC_ENABLED) != "false":
        protected = TableDefinition(properties={**properties, _GC_ENABLED: "false"})
        change_definition(source, "SET TBLPROPERTIES", {"properties": {_GC_ENABLED: "false"}}, lambda _: protected)
    expected = table.creation_version(converts=True)
    snapshot = source.snapshot()
    if expected is None:
        raise AlreadyExists(f"A concurrent statement created a Delta table in {table.location}. Read that table.")
    adoption = _adoption(context, table, snapshot, "CONVERT", {"sourceFormat": "iceberg", "numFiles": len(snapshot.files())}, {}, options)
    return StatementResult.from_change(frames.empty_frame(context.spark), "CONVERT", adoption.create(expected))


def _adoption(
    context: SessionContext,
    table: Table,
    source: Snapshot,
    operation: str,
    parameters: dict[str, object],
    properties: dict[str, str],
    options: CommitOptions,
) -> FileAdoption:
    """Return the creation of a Delta table with the files of an Iceberg snapshot."""
    definition = definition_of_iceberg(source, {**default_properties(context.spark), **properties})
    return FileAdoption(table, definition, files_of_iceberg(source), operation, parameters, options)


def clone_files(context: SessionContext, command: CloneFiles, options: CommitOptions) -> StatementResult:
    """Run CREATE TABLE … CLONE of a Parquet folder or of an Iceberg table in a folder.

    The clone is a Delta table that refers to the files. But if the session's default format is Iceberg, or the table exists as an Iceberg
    table, the clone of an Iceberg table is one, too.

    Args:
        context: The session.
        command: The parsed statement.
        options: The number of retries of the commit.

    Raises:
        AlreadyExists: A table or a view has the name, and the statement cannot replace it.
        PlanError: The statement is a deep clone, or has a version of a Parquet folder, or the table is an Iceberg table.
        UnsupportedTableFeature: A Delta table cannot have a feature of the Iceberg table.
    """
    name, kind = context.names.qualify(command.name), command.source.parts[0].lower()
    if name.relation is not None and command.if_not_exists:
        return empty_result(context.spark, "CLONE")
    check_no_view(name)
    target_format = context.format_of_new(name.schema) if name.relation is None else name.relation.format
    if kind == "iceberg" and (target_format == "iceberg" or not command.shallow):
        return clone_table(context, command, options)
    table = _open_target(context, command, name)
    properties = {**default_properties(context.spark), **command.properties}
    if kind == "iceberg":
        source = source_snapshot(context, command)
        parameters = {"source": str(command.source), "sourceVersion": source.version}
        adoption = _adoption(context, table, source, "CLONE", parameters, dict(command.properties), options)
    else:
        definition, files = imports.parquet_files(context, command.source.parts[1], table, properties)
        adoption = FileAdoption(table, definition, files, "CLONE", {"source": str(command.source), "sourceVersion": 0}, options)
    result = adoption.replace_table() if table.exists() else adoption.create()
    if name.relation is None:
        context.catalog.register(name.schema, name.name, "delta", table.location, is_new=True)
    return StatementResult.from_change(frames.count_row(context.spark, result.result_row), "CLONE", result)


def _open_target(context: SessionContext, command: CloneFiles, name: QualifiedName) -> Table:
    """Return the Delta table that becomes a clone. Raise an error if the statement cannot create or replace it."""
    if not command.shallow:
        raise PlanError(f"A deep clone of {command.source} cannot be a Delta table. Use SHALLOW CLONE, or CREATE TABLE … AS SELECT.")
    has_version = command.version is not None or command.timestamp is not None or command.reference is not None
    if has_version and command.source.parts[0].lower() == "parquet":
        raise PlanError(f"{command.source} has no versions. Leave the version out.")
    if name.relation is None:
        table = context.catalog.new_table(name.schema, name.name, "delta", command.location)
    elif name.relation.format != "delta":
        raise PlanError(f"{name} is an Iceberg table, but the clone is a Delta table. Drop the table first.")
    else:
        table = context.catalog.open(name.schema, name.name)
    if table.exists() and not command.or_replace:
        raise AlreadyExists(f"The table {name} already exists. Add IF NOT EXISTS or OR REPLACE, or drop it first.")
    context.tables_by_path.check_file_locations(context.catalog, str(name), table.location, command.properties)
    return table


def _convert_folder(context: SessionContext, path: str, command: ConvertToDelta) -> StatementResult:
    """Make a Delta table of the Parquet files in a folder."""
    storage, table = context.tables_by_path.open_folder(absolute(path), "delta")
    if table.exists():
        return empty_result(context.spark, "CONVERT")
    partition = parse_columns(context.spark, command.partitioned_by)
    for field in partition:
        if field.type == Primitive("timestamp"):
            problem = f"The partition column {field.name} cannot have the type timestamp, because its values have no time zone"
            raise TypeMismatch(f"{problem}. Write timestamp_ntz or string.")
    source = FileSource(path, "parquet", options={"mergeSchema": "true"})
    names = {field.name.lower() for field in partition}
    files = schema_of(read_file_source(context.spark, source))
    columns = Struct(tuple(replace(field, nullable=True) for field in files if field.name.lower() not in names))
    check_storable(columns)
    properties = default_properties(context.spark)
    result = Conversion(table, storage, columns, partition.fields, properties, command.has_statistics).run()
    return StatementResult.from_change(frames.empty_frame(context.spark), "CONVERT", result)
