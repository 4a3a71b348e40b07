"""CREATE TABLE … LIKE: a table with the definition of another table or of a view, without its rows."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.names import TableName
from rowmerge.commands.tables import CreateTableLike
from rowmerge.errors import PlanError, UnsupportedStatement
from rowmerge.execution.commit import CommitOptions
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.definitions.columns import set_metadata
from rowmerge.session.definitions.creation import NewTable, create_or_replace_table
from rowmerge.session.definitions.partitioning import resolve_partitioning
from rowmerge.session.names.scope import SessionContext
from rowmerge.spark.peer_settings import default_properties
from rowmerge.spark.types import check_storable, schema_of
from rowmerge.table.metadata.copied_files import OF_ONE_TABLE
from rowmerge.table.metadata.partitioning import PartitionField
from rowmerge.table.metadata.rules import DEFAULT, GENERATED
from rowmerge.table.metadata.schema import CHAR_VARCHAR, DataType, Field, Struct, convert_parts
from rowmerge.table.metadata.settings import OWN_PROPERTIES
from rowmerge.table.metadata.shape import IdentifierChange, TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot

_INVARIANT = "delta.invariants"
_COPIED_METADATA = ("comment", DEFAULT, CHAR_VARCHAR, _INVARIANT)
"""The metadata of columns that do not belong to the files of one table."""
_OF_ONE_LOG = (
    "delta.constraints.",
    "delta.columnMapping.maxColumnId",
    "delta.rowTracking.materialized",
    "delta.inCommitTimestampEnablement",
    "delta.requireCheckpointProtection",
    "delta.feature.",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
)
"""The beginnings of the properties of Delta tables that describe their own log, or that other parts of a definition set."""


def create_table_like(context: SessionContext, command: CreateTableLike, options: CommitOptions) -> StatementResult:
    """Create a table with the columns, partitioning, rules, comments and properties of another table, or with the columns of a view.

    Args:
        context: The session.
        command: The parsed statement.
        options: The number of retries of the commit.

    Raises:
        AlreadyExists: The new name is taken, and the statement lacks IF NOT EXISTS.
        PlanError: The format of the new table cannot store the definition.
        TableNotFound: The source does not exist.
        UnsupportedStatement: The source has an identity column.
        UnsupportedTableFeature: The format of the new table cannot store the rules of the source.
    """
    name = context.names.qualify(command.name)
    if name.relation is not None and command.if_not_exists:
        return empty_result(context.spark, "CREATE TABLE")
    source_format, definition = _source_definition(context, command.source)
    format_ = command.format or source_format or context.format_of_new(name.schema)
    if format_ != source_format:
        definition = _in_other_format(context, definition, format_)
    definition = replace(definition, properties={**(definition.properties or {}), **command.properties})
    new_table = NewTable(name, definition, format=format_, location=command.location)
    result = create_or_replace_table(context, new_table, options)
    return replace(StatementResult.from_change(frames.empty_frame(context.spark), "CREATE TABLE", result), changes=None)


def _source_definition(context: SessionContext, source: TableName) -> tuple[str | None, TableDefinition]:
    """Return the format and the definition of a table. The format is None for a view and for a table of the Spark session."""
    relation = None if context.names.is_temporary_view(source) else context.names.qualify(source).relation
    if relation is not None and relation.kind == "view":
        columns = context.catalog.view(relation.schema, relation.name).columns
        return None, TableDefinition(Struct(tuple(_copied_field(replace(field, nullable=True)) for field in columns)))
    if relation is not None:
        return relation.format, _definition_of(context.catalog.open(relation.schema, relation.name).snapshot())
    if not (context.names.is_temporary_view(source) or context.spark.catalog.tableExists(str(source))):
        context.names.existing_relation(source)  # raises TableNotFound with similar names
    return None, _definition_in_spark(context, source)


def _definition_of(snapshot: Snapshot) -> TableDefinition:
    """Return the definition of a version of a table as a statement would contain it. Raise UnsupportedStatement for an identity column."""
    shape = snapshot.shape
    for field in snapshot.schema:
        if "delta.identity.start" in field.metadata:
            problem = f"The column `{field.name}` of {snapshot.name} is an identity column, which a new table cannot have"
            raise UnsupportedStatement(f"{problem}. List the columns in CREATE TABLE", text=field.name)
    generated = shape.rules.generated
    columns = (set_metadata(_copied_field(field), GENERATED, generated.get(field.name)) for field in snapshot.schema)
    properties = {name: value for name, value in snapshot.settings.properties.items() if not name.startswith((*_OF_ONE_LOG, *OF_ONE_TABLE))}
    has_newest_iceberg_format = shape.by_field_id and shape.supports_initial_defaults
    return TableDefinition(
        Struct(tuple(columns)),
        shape.partitioning,
        {**properties, **({"format-version": "3"} if has_newest_iceberg_format else {})},
        snapshot.description,
        {check.name: check.expression for check in shape.rules.checks if check.name} or None,
        shape.ordering or None,
        identifiers=IdentifierChange(shape.identifiers, drop=False) if shape.identifiers else None,
    )


def _definition_in_spark(context: SessionContext, source: TableName) -> TableDefinition:
    """Return the columns of a temporary view, or the columns, partition columns and comment of a table of the Spark session."""
    spark, name = context.spark, str(source)
    columns = Struct(tuple(map(_copied_field, schema_of(spark.table(name)))))
    if context.names.is_temporary_view(source):
        columns = Struct(tuple(replace(field, nullable=True) for field in columns))
    check_storable(columns)
    partition_columns = [column.name for column in spark.catalog.listColumns(name) if column.isPartition]
    partitioning = resolve_partitioning(columns, tuple(PartitionField((column,)) for column in partition_columns))
    return TableDefinition(columns, partitioning, description=spark.catalog.getTable(name).description)


def _in_other_format(context: SessionContext, definition: TableDefinition, format_: str) -> TableDefinition:
    """Return the definition for a table of another format, without the properties of the old one. Raise PlanError for an invariant."""
    if any(_INVARIANT in field.metadata for field in definition.schema or ()):
        raise PlanError("A column of the source has an invariant of Delta, which only a Delta table can have. Leave out USING.")
    own_names = {property_.name for property_ in OWN_PROPERTIES}
    properties = {name: value for name, value in (definition.properties or {}).items() if name in own_names}
    defaults = default_properties(context.spark) if format_ == "delta" else {}
    return replace(definition, properties={**defaults, **properties})


def _copied_field(field: Field) -> Field:
    """Return a column or field without ids and other metadata that belong to one table."""
    metadata = {key: value for key, value in field.metadata.items() if key in _COPIED_METADATA}
    return replace(field, type=_copied_type(field.type), metadata=metadata)


def _copied_type(type_: DataType) -> DataType:
    return convert_parts(type_, lambda struct: Struct(tuple(map(_copied_field, struct))), lambda _, part: _copied_type(part))
