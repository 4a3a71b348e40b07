"""Procedures that make existing Parquet files, session tables or metadata files tables of the catalog: add_files, snapshot, migrate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from rowmerge.catalog import register_metadata
from rowmerge.commands.names import FILE_FORMATS, TABLE_FORMATS, TableName
from rowmerge.errors import AlreadyExists, FilesNotFound, PlanError, UnknownColumn
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.procedures.file_imports import FileImport, SourceFile, add_files as add_existing_files, create_from_files
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.resolver import QualifiedName
from rowmerge.session.names.scope import SessionContext
from rowmerge.session.procedures.arguments import ProcedureCall
from rowmerge.spark.procedures.session_tables import (
    SessionTable,
    describe_session_table,
    files_of_session_table,
    infer_columns,
    parse_partition_values,
)
from rowmerge.spark.reading.file_sources import absolute
from rowmerge.spark.spark_session import run_sql
from rowmerge.sql import parse_table_name
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.partitioning import identities, identity_columns
from rowmerge.table.metadata.schema import Primitive, Struct, as_nullable, backquote
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.table import Table

_LONG = Primitive("long")
_PROVIDER = "provider"
"""The property in the argument `properties` that sets the format of a new table."""
_READERS = 8
"""The number of footers that a clone reads at the same time."""
_INTERNAL_FOLDERS = ("_delta_log", "metadata")


@dataclass(frozen=True)
class _Source:
    """The files of a folder or of a session table. `table`: the session table, or None. `folder`: the folder, or None."""

    name: str
    folder: Storage | None = None
    table: SessionTable | None = None


def add_files(call: ProcedureCall) -> StatementResult:
    """Add existing Parquet files to a table, and return the numbers of files and of changed partitions.

    Raises:
        PlanError: The partitioning of the files differs from that of the table, or the table contains a file already.
        FilesNotFound: There are no such files.
    """
    table, arguments = call.table, call.arguments
    source = _source(call, arguments["source_table"])
    shape = table.snapshot().shape
    partition = shape.schema.select(identity_columns(shape.partitioning))
    if len(partition) < len(shape.partitioning):
        problem = f"{table.name} is partitioned by a transform, whose values the folders of {source.name} do not contain."
        raise PlanError(f"{problem} Copy the rows: INSERT INTO … SELECT * FROM …")
    files = _source_files(call, source, partition, shape.schema)
    selected = _matching(call, files, partition, arguments.get("partition_filter", {}))
    if not selected:
        raise FilesNotFound(source.name, "Parquet file", "Check the path and partition_filter.")
    parameters = {"source": source.name, "partitionFilter": dict(arguments.get("partition_filter", {}))}
    result = add_existing_files(
        table,
        FileImport(selected, arguments.get("parallelism", 1)),
        call.options,
        checks_duplicates=arguments.get("check_duplicate_files", True),
        parameters=parameters,
    )
    return call.result("ADD FILES", {column: (_LONG, count) for column, count in result.result_row.items()})


def snapshot(call: ProcedureCall) -> StatementResult:
    """Create a table that consists of the files of a folder or a session table, and return the number of files. The source stays.

    Raises:
        AlreadyExists: The new table exists.
        FilesNotFound: There are no such files.
    """
    source = _source(call, call.arguments["source_table"])
    name = call.context.names.qualify(parse_table_name(call.arguments["table"]))
    file_count = _create(call, source, name, "SNAPSHOT", {"gc.enabled": "false", "snapshot": "true"}, call.arguments.get("location"))
    return call.result("SNAPSHOT", {"imported_files_count": (_LONG, file_count)})


def migrate(call: ProcedureCall) -> StatementResult:
    """Replace a session table by a table of the catalog with the same name and files, and return the number of files.

    The commit of the new table is the only step that readers notice: afterwards, the name refers to the new table. The session table then
    gets the name of the backup, or is dropped without its files.

    Raises:
        AlreadyExists: The catalog has a table of this name.
        PlanError: The source is a folder, or Spark owns the files of the session table.
    """
    arguments = call.arguments
    source = _source(call, arguments["table"])
    table = source.table
    if table is None:
        problem = f"{source.name} is a folder, which has no name in the catalog."
        raise PlanError(f"{problem} Use CONVERT TO DELTA, or CALL system.snapshot(source_table => …, table => …).")
    if table.managed:
        problem = f"Spark owns the files of {source.name}: when it renames or drops the table, it moves or deletes them."
        advice = "Use CALL system.snapshot(…), or make the table external: ALTER TABLE … SET TBLPROPERTIES ('EXTERNAL' = 'TRUE')."
        raise PlanError(f"{problem} {advice}")
    if arguments.get("drop_backup") and "backup_table_name" in arguments:
        raise PlanError("migrate has both drop_backup and backup_table_name. Specify one of them.")
    name = call.context.names.qualify(_own_name(call.context, arguments["table"]))
    *_, table_name = parse_table_name(arguments["table"]).parts
    backup = f"{table.name.rpartition('.')[0]}.{backquote(arguments.get('backup_table_name', f'{table_name}_BACKUP_'))}"
    if not arguments.get("drop_backup") and call.spark.catalog.tableExists(backup):
        raise AlreadyExists(f"The table {backup} already exists. Drop it, or set backup_table_name.")
    file_count = _create(call, source, name, "MIGRATE", {"migrated": "true"}, None)
    retired = f"drop table {table.name}" if arguments.get("drop_backup") else f"alter table {table.name} rename to {_unqualified(backup)}"
    run_sql(call.spark, retired)
    return call.result("MIGRATE", {"migrated_files_count": (_LONG, file_count)})


def parquet_files(context: SessionContext, path: str, table: Table, properties: Mapping[str, str]) -> tuple[TableDefinition, FileChanges]:
    """Return the definition and the files of a table that consists of the Parquet files in a folder, with Hive-style subfolders.

    Args:
        context: The session.
        path: The folder.
        table: The table, for the form of its files.
        properties: The properties of the table.

    Raises:
        FilesNotFound: There are no such files.
        TypeMismatch: The files have different types of a column.
    """
    source = _Source(f"parquet.`{path}`", folder=context.tables_by_path.storage(absolute(path)))
    call = ProcedureCall(context, CommitOptions(), "SHALLOW CLONE", {})
    schema, partition_columns = _columns(call, source)
    files = _source_files(call, source, schema.select(partition_columns), schema)
    if not files:
        raise FilesNotFound(source.name, "Parquet file", "Check the path.")
    definition = TableDefinition(schema, identities(partition_columns), properties)
    return definition, FileChanges(FileImport(files, _READERS).describe(table.resolve_shape(definition)))


def register_table(call: ProcedureCall) -> StatementResult:
    """Register the table of a metadata file under a name, and return its current version and its numbers of rows and files.

    Raises:
        AlreadyExists: The name is in use.
        FilesNotFound: The metadata file does not exist.
        PlanError: The file is not the newest metadata file of a table that the catalog can contain.
    """
    context, path = call.context, absolute(call.arguments["metadata_file"])
    name = context.names.qualify(parse_table_name(call.arguments["table"]))
    register_metadata(context.catalog, context.tables_by_path.storage(path), name.schema, name.name, path)
    registered = call.table.snapshot()
    files = registered.files()
    has_snapshot = call.table.maintenance is None or registered.version != 0
    values = {
        "current_snapshot_id": registered.version if has_snapshot else None,
        "total_records_count": files.live_rows if has_snapshot else None,
        "total_data_files_count": len(files) if has_snapshot else None,
    }
    return call.result("REGISTER TABLE", {column: (_LONG, value) for column, value in values.items()})


def _unqualified(name: str) -> str:
    """Return the quoted name of a session table without the catalog, as RENAME TO needs it."""
    return name.partition(".")[2]


def _own_name(context: SessionContext, text: str) -> TableName:
    """Return the name of a session table as a name in the catalog, whose unqualified names are in Spark's schema `default`."""
    name = context.names.without_catalog(parse_table_name(text))
    return name if len(name.parts) > 1 else TableName(("default", *name.parts))


def _create(
    call: ProcedureCall, source: _Source, name: QualifiedName, operation: str, markers: Mapping[str, str], location: str | None
) -> int:
    """Create a table that consists of the files of a source, and return the number of files. Raise AlreadyExists if the name is in use."""
    context, arguments = call.context, call.arguments
    if name.relation is not None:
        raise AlreadyExists(f"{name} already exists. Drop it first, or choose another name.")
    properties = dict(arguments.get("properties", {}))
    format_ = properties.pop(_PROVIDER, context.format_of_new(name.schema)).lower()
    if format_ not in TABLE_FORMATS:
        raise PlanError(f"The property {_PROVIDER} of {call.procedure} is {format_!r}. Set it to one of {', '.join(TABLE_FORMATS)}.")
    schema, partition_columns = _columns(call, source)
    partition = schema.select(partition_columns)
    files = _source_files(call, source, partition, schema)
    if not files and source.table is None:
        raise FilesNotFound(source.name, "Parquet file", "Check the path.")
    source_properties = {} if source.table is None else source.table.properties
    own_markers = {**markers} if format_ == "iceberg" else {}
    definition = TableDefinition(
        schema,
        identities(partition_columns),
        {**source_properties, **own_markers, **properties},
        None if source.table is None else source.table.comment,
    )
    table = context.catalog.new_table(name.schema, name.name, format_, location)
    context.tables_by_path.check_file_locations(context.catalog, str(name), table.location, definition.properties or {})
    imports = FileImport(files, arguments.get("parallelism", 1), arguments.get("ignore_missing_files", False))
    result = create_from_files(table, definition, imports, call.options, operation=operation, parameters={"source": source.name})
    if location is not None:
        context.catalog.register(name.schema, name.name, format_, location)
    return result.counts.files_added


def _source(call: ProcedureCall, text: str) -> _Source:
    """Return the folder or the session table that an argument names. Raise PlanError for a table of the catalog, or another format."""
    parts = parse_table_name(text).parts
    if len(parts) == 2 and parts[0].lower() in FILE_FORMATS:
        if parts[0].lower() != "parquet":
            problem = f"{call.procedure} reads only Parquet files, and {text} names files of the format {parts[0]}."
            raise PlanError(f"{problem} Copy their rows: INSERT INTO … SELECT * FROM {text}.")
        return _Source(text, folder=call.context.tables_by_path.storage(absolute(parts[1])))
    name = call.context.names.without_catalog(TableName(parts))
    if call.procedure != "migrate" and call.context.catalog.relation(*call.context.names.locate(name)) is not None:
        raise PlanError(f"{text} is a table of the catalog, not of Spark's session. Use SHALLOW CLONE, or INSERT INTO … SELECT.")
    return _Source(text, table=describe_session_table(call.spark, name.parts))


def _columns(call: ProcedureCall, source: _Source) -> tuple[Struct, tuple[str, ...]]:
    """Return the columns of a source, all of which may be NULL, and the names of its partition columns."""
    if source.table is not None:
        return _nullable(source.table.schema), source.table.partition_columns
    assert source.folder is not None
    names = list(dict.fromkeys(name for file in _listed_files(source.folder) for name in _folder_values(file)))
    return _nullable(infer_columns(call.spark, source.folder.location)), tuple(names)


def _nullable(schema: Struct) -> Struct:
    nullable = as_nullable(schema)
    assert isinstance(nullable, Struct)
    return nullable


def _source_files(call: ProcedureCall, source: _Source, partition: Struct, schema: Struct) -> list[SourceFile]:
    """Return the files of a source with their values of the partition columns.

    Raise PlanError if the source has other partition columns, whose values would be lost.
    """
    if source.table is not None:
        _check_partitioning(source, source.table.partition_columns, partition)
        rows = files_of_session_table(call.spark, source.table, partition)
        return [SourceFile(path, size, values) for path, size, values in rows]
    assert source.folder is not None
    files = _listed_files(source.folder)
    texts = [_folder_values(file) for file in files]
    _check_partitioning(source, tuple(dict.fromkeys(name for values in texts for name in values)), partition)
    values = parse_partition_values(call.spark, source.name, texts, partition)
    paths = [f"{source.folder.location}/{path}" for path in files]
    return [SourceFile(path, files[file], row) for path, file, row in zip(paths, files, values, strict=True)]


def _check_partitioning(source: _Source, columns: tuple[str, ...], partition: Struct) -> None:
    """Raise PlanError if the folders of a source have the values of other columns than those by which the table is partitioned."""
    others = [name for name in columns if name not in partition.names]
    if others:
        expected = ", ".join(partition.names) or "no column"
        problem = f"{source.name} is partitioned by {', '.join(others)}, and the table by {expected}."
        raise PlanError(f"{problem} Partition the table in the same way, or copy the rows with INSERT.")


def _listed_files(folder: Storage) -> dict[str, int]:
    """Return the sizes of the visible files of a folder by relative path, as Spark lists them."""
    files = {file.path: file.size for file in folder.list() if file.path.partition("/")[0] not in _INTERNAL_FOLDERS}
    return {path: size for path, size in sorted(files.items()) if not _is_hidden(path)}


def _is_hidden(path: str) -> bool:
    """Return whether Spark ignores a file: its name, or that of a folder without a partition value, begins with `_` or `.`."""
    return any(name.startswith((".", "_")) and "=" not in name for name in path.split("/"))


def _folder_values(path: str) -> dict[str, str]:
    """Return the partition values in the names of a file's folders, such as `day=2024-01-01`, by column."""
    pairs = [name.partition("=") for name in path.split("/")[:-1] if "=" in name]
    return {unquote(column): unquote(text) for column, _, text in pairs}


def _matching(call: ProcedureCall, files: list[SourceFile], partition: Struct, texts: dict[str, str]) -> list[SourceFile]:
    """Return the files with the partition values of a filter. Raise PlanError for a filter of a table without partitions."""
    if not texts:
        return files
    if not partition:
        raise PlanError(f"{call.table.name} is not partitioned, so partition_filter has no meaning. Leave it out.")
    for name in texts:
        if name not in partition.names:
            raise UnknownColumn(name, partition.names)
    filtered = partition.select(tuple(texts))
    (filter_values,) = parse_partition_values(call.spark, "partition_filter", [texts], filtered)
    return [file for file in files if _has_values(file, filter_values)]


def _has_values(file: SourceFile, values: Mapping[str, Any]) -> bool:
    return all(file.partition[name] == value for name, value in values.items())
