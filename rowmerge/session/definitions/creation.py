"""CREATE [OR REPLACE] TABLE with columns, AS SELECT, at the LOCATION of an existing table, or as a CLONE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rowmerge.catalog.names import format_of_path
from rowmerge.commands.definitions import CloneTable, CreateTable
from rowmerge.errors import AlreadyExists, PlanError
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.insert import NewRows
from rowmerge.execution.restore_and_clone import Clone
from rowmerge.execution.result import ChangeResult
from rowmerge.execution.table_change import change_definition, create_table
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, TableScan, empty_result
from rowmerge.session.definitions.alterations import checks_by_name
from rowmerge.session.definitions.columns import query_columns, set_metadata
from rowmerge.session.definitions.partitioning import resolve_ordering, resolve_partitioning
from rowmerge.session.names.resolver import QualifiedName, branches_of
from rowmerge.session.names.scope import SessionContext, StatementScope
from rowmerge.spark.peer_settings import default_properties, with_iceberg_settings
from rowmerge.spark.spark_session import evaluate_timestamp_millis
from rowmerge.spark.types import check_storable, parse_columns
from rowmerge.spark.values.rules import check_rules
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


@dataclass(frozen=True)
class NewTable:
    """A table to create or, if `or_replace` is true, to replace.

    `rows`: the first rows, or None if there is no query. `base`: the version of the replaced table, which the query may read, or None if no
    table is replaced. `format`: the table format, or None for the format of the replaced table or the session's default format.
    `location`: the folder of the table, or None for the folder that the catalog chooses. `scans`: the tables that the query reads.
    """

    name: QualifiedName
    definition: TableDefinition
    rows: NewRows | None = None
    or_replace: bool = False
    format: str | None = None
    location: str | None = None
    base: Snapshot | None = None
    scans: tuple[TableScan, ...] = ()


def run_create_table(context: SessionContext, command: CreateTable, options: CommitOptions) -> StatementResult:
    """Run CREATE [OR REPLACE] TABLE, with or without AS SELECT.

    Args:
        context: The session.
        command: The parsed statement.
        options: The number of retries, and the transaction of the commit.

    Raises:
        AlreadyExists: The table exists, and the statement has neither IF NOT EXISTS nor OR REPLACE.
        PlanError: The definition is invalid.
        TypeMismatch: No table can store one of the types.
    """
    name = context.names.qualify(command.name)
    if name.relation is not None and command.if_not_exists:
        return empty_result(context.spark, "CREATE TABLE")
    new_table = _new_table(context, command, name)
    result = create_or_replace_table(context, new_table, options)
    operation = "CREATE OR REPLACE TABLE" if command.or_replace else "CREATE TABLE"
    outcome = StatementResult.from_change(frames.empty_frame(context.spark), operation, result, new_table.scans)
    # A table without a query gets no rows to count.
    return outcome if new_table.rows is not None else replace(outcome, changes=None)


def _new_table(context: SessionContext, command: CreateTable, name: QualifiedName) -> NewTable:
    """Return the table that a statement defines, with the rows of its query. Raise PlanError, TypeMismatch or errors of Spark."""
    columns = parse_columns(context.spark, command.columns)
    rows, base = None, None
    scans: tuple[TableScan, ...] = ()
    if command.query is not None:
        base = _replaced_snapshot(context, name)
        rows, scans = _query_rows(context, command.query.text, base)
        columns = columns or query_columns(rows.frame)
    check_storable(columns)
    partition_fields = resolve_partitioning(columns, command.partitioned_by)
    checks = checks_by_name(command.checks, name.name)
    replaced_format = None if name.relation is None else name.relation.format
    format_ = command.format or replaced_format or format_of_path(name.schema, name.name) or context.format_of_new(name.schema)
    defaults = default_properties(context.spark) if format_ == "delta" else {}
    definition = TableDefinition(columns, partition_fields, {**defaults, **command.properties}, command.comment, checks or None)
    if command.write_order is not None:
        ordering = resolve_ordering(columns, command.write_order.ordering)
        definition = replace(definition, ordering=ordering, distribution=command.write_order.distribution)
    return NewTable(name, definition, rows, command.or_replace, command.format, command.location, base, scans)


def _replaced_snapshot(context: SessionContext, name: QualifiedName) -> Snapshot | None:
    """Return the newest version of the table that has this name, or None if there is no such table."""
    is_table = name.relation is not None and name.relation.kind == "table"
    return context.catalog.open(name.schema, name.name).snapshot() if is_table else None


def _query_rows(context: SessionContext, query: str, base: Snapshot | None) -> tuple[NewRows, tuple[TableScan, ...]]:
    """Return the rows of AS SELECT and its scans. If the query reads the replaced table, it reads the version `base`."""
    scope = StatementScope.begin(context, base)
    rows = NewRows(scope.query(query), reads_table=base is not None and scope.reads(base))
    return rows, scope.scans


def create_or_replace_table(context: SessionContext, new_table: NewTable, options: CommitOptions) -> ChangeResult:
    """Create a table, or replace the existing table of this name. Write the first rows if there are any.

    Args:
        context: The session.
        new_table: The table to create, and whether it may replace another one.
        options: The number of retries, and the transaction of the commit.

    Raises:
        AlreadyExists: A view has the name, or a table has it and the statement lacks OR REPLACE.
        PlanError: The existing table has another format, or the definition has no columns.
    """
    name, existing = new_table.name, new_table.name.relation
    if existing is None:
        return _create_and_register(context, new_table, options)
    check_no_view(name)
    if new_table.or_replace and new_table.format not in (None, existing.format):
        problem = f"{name} has the format {existing.format}, which CREATE OR REPLACE cannot change to {new_table.format}."
        raise PlanError(f"{problem} Drop the table first.")
    # Without OR REPLACE, an existing table is an error, which `create_table` raises.
    return _commit_new_table(context, context.catalog.open(name.schema, name.name), new_table, options)


def check_no_view(name: QualifiedName) -> None:
    """Check that no view has this name.

    Raises:
        AlreadyExists: A view has it.
    """
    if name.relation is not None and name.relation.kind == "view":
        raise AlreadyExists(f"{name} is a view. Drop it with DROP VIEW, or choose another name.")


def _create_and_register(context: SessionContext, new_table: NewTable, options: CommitOptions) -> ChangeResult:
    """Create a table under an unused name, or keep the existing table at the LOCATION, and register it in the catalog."""
    name, location = new_table.name, new_table.location
    format_ = new_table.format or format_of_path(name.schema, name.name) or context.format_of_new(name.schema)
    table = context.catalog.new_table(name.schema, name.name, format_, location)
    has_only_location = location is not None and new_table.rows is None and not new_table.definition.schema
    keeps_table = has_only_location and table.exists()
    result = _keep_existing_table(table) if keeps_table else _commit_new_table(context, table, new_table, options)
    context.catalog.register(name.schema, name.name, format_, table.location, is_new=not keeps_table)
    return result


def _keep_existing_table(table: Table) -> ChangeResult:
    """Return the result of CREATE TABLE with only a LOCATION, at which a table exists: its newest version. Nothing is committed."""
    return change_definition(table, "CREATE TABLE", parameters={}, definition_for=lambda snapshot: None)


def _commit_new_table(context: SessionContext, table: Table, new_table: NewTable, options: CommitOptions) -> ChangeResult:
    """Check the definition, and commit it with the first rows.

    Raise PlanError if the definition has no columns, and AlreadyExists if the table exists and must not be replaced. Raise
    ConfigurationError if its properties put files into the folder of another table.
    """
    name, definition = str(new_table.name), new_table.definition
    if not definition.schema:
        raise PlanError(f"CREATE TABLE {name} has no columns. List columns, add AS SELECT, or specify the LOCATION of an existing table.")
    context.tables_by_path.check_file_locations(context.catalog, name, table.location, definition.properties or {})
    check_rules(context.spark, name, definition.schema, table.resolve_shape(definition).rules)
    table = with_iceberg_settings(context.spark, table)
    audited_table = context.audit.new_table(table, definition.properties or {})
    # If another writer creates the table in the meantime, a replacement would remove its rows from the main branch, which is not audited.
    or_replace = new_table.or_replace and audited_table is table
    return create_table(audited_table, name, definition, new_table.rows, options, or_replace=or_replace, base=new_table.base)


def clone_table(context: SessionContext, command: CloneTable, options: CommitOptions) -> StatementResult:
    """Run CREATE TABLE … CLONE: create a table that refers to the data files of a version of another table, or copies them.

    Args:
        context: The session.
        command: The parsed statement.
        options: The number of retries of the commit.

    Returns:
        The row of CLONE, with the columns of delta-spark.

    Raises:
        TableNotFound: The source does not exist.
        VersionNotFound: The source has no such version, branch or tag.
        AlreadyExists: A view has the name, or a table has it and the statement lacks OR REPLACE.
        ConfigurationError: A property puts files into the folder of another table.
        PlanError: The existing table has another format, or is the source itself.
    """
    name = context.names.qualify(command.name)
    if name.relation is not None and command.if_not_exists:
        return empty_result(context.spark, "CLONE")
    check_no_view(name)
    source_name = context.names.qualify(command.source)
    source = source_snapshot(context, command)
    source_relation = source_name.relation
    assert source_relation is not None and source_relation.format is not None  # the source is a table: it has a snapshot
    target = _open_clone_target(context, command, name, source_relation.format)
    if target.location == source.shape.location:
        raise PlanError(f"{name} would be a clone of itself. Choose another name, or use RESTORE TABLE to return to an older version.")
    context.tables_by_path.check_file_locations(context.catalog, str(name), target.location, command.properties)
    clone = Clone(target, str(name), source, str(source_name), command.properties, options, command.shallow)
    result = clone.run(or_replace=command.or_replace)
    if name.relation is None:
        context.catalog.register(name.schema, name.name, source_relation.format, target.location, is_new=True)
    return StatementResult.from_change(frames.count_row(context.spark, result.result_row), "CLONE", result)


def _open_clone_target(context: SessionContext, command: CloneTable, name: QualifiedName, source_format: str) -> Table:
    """Return the table that becomes the clone. Raise PlanError if it exists in a different format from the source."""
    if name.relation is None:
        return context.catalog.new_table(name.schema, name.name, source_format, command.location)
    if name.relation.format != source_format:
        problem = f"{name} has the format {name.relation.format}, but a clone of {command.source} has the format {source_format}."
        raise PlanError(f"{problem} Drop the table first.")
    return context.catalog.open(name.schema, name.name)


def source_snapshot(context: SessionContext, command: CloneTable) -> Snapshot:
    """Return the version to clone.

    Args:
        context: The session.
        command: The parsed statement.

    Raises:
        TableError: The source is a view.
        TableNotFound, VersionNotFound: The source or its version does not exist.
    """
    table = context.names.table(command.source)
    timestamp = None if command.timestamp is None else evaluate_timestamp_millis(context.spark, command.timestamp.text)
    version = command.version if command.reference is None else branches_of(table, command.source).snapshot_id(command.reference)
    return table.snapshot_at(version=version, timestamp=timestamp)


def with_comments(columns: Struct, comments: Mapping[str, str]) -> Struct:
    """Return columns with their comments, or without a comment if there is none. `comments`: the comments by exact column name."""
    return Struct(tuple(set_metadata(column, "comment", comments.get(column.name) or None) for column in columns))
