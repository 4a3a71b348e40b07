"""The changes that ALTER TABLE and COMMENT ON make to the definition of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from rowmerge.commands.definitions import (
    AddColumns,
    AlterColumn,
    ChangePartitioning,
    CommentOn,
    CommentOnColumns,
    DropColumns,
    RenameColumn,
    SetProperties,
    SetWriteOrder,
    UnsetProperties,
)
from rowmerge.session.definitions.column_changes import check_unused, column_change_of, set_comment
from rowmerge.session.definitions.columns import add_columns, new_properties
from rowmerge.session.definitions.partitioning import (
    change_partitioning,
    change_write_order,
    partitioning_operation,
    write_order_operation,
)
from rowmerge.session.names.context import SessionContext
from rowmerge.spark.columns import fields_of
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot

AlterTable = (
    AddColumns
    | RenameColumn
    | DropColumns
    | AlterColumn
    | SetProperties
    | UnsetProperties
    | ChangePartitioning
    | SetWriteOrder
    | CommentOn
    | CommentOnColumns
)


@dataclass(frozen=True)
class Alteration:
    """A change of a table's definition.

    `definition` returns the parts that change in a version, or None if nothing changes. `operation` and `parameters`: as Delta's history
    names them.
    """

    operation: str
    definition: Callable[[Snapshot], TableDefinition | None]
    parameters: Mapping[str, object] = field(default_factory=dict)


def alteration_of(context: SessionContext, command: AlterTable) -> Alteration:
    """Return what a command changes. Raises what Spark raises for a type; `definition` raises UnknownColumn, PlanError, TableError."""
    match command:
        case AddColumns():
            return _add_columns(context, command)
        case RenameColumn() | DropColumns() | AlterColumn():
            return _change_columns(context, command)
        case SetProperties() | UnsetProperties():
            return _change_properties(command)
        case ChangePartitioning():
            return Alteration(partitioning_operation(command), partial(change_partitioning, command))
        case SetWriteOrder():
            return Alteration(write_order_operation(command), partial(change_write_order, command))
        case CommentOn():
            return _comment(command)
        case CommentOnColumns():
            return _comment_on_columns(command)


def _add_columns(context: SessionContext, command: AddColumns) -> Alteration:
    columns = fields_of(context.spark, command.columns)
    parameters: dict[str, object] = {"columns": [{"column": {"name": column.name, "type": column.sql_type}} for column in columns]}
    return Alteration("ADD COLUMNS", lambda snapshot: TableDefinition(schema=add_columns(snapshot, columns, command)), parameters)


def _change_columns(context: SessionContext, command: RenameColumn | DropColumns | AlterColumn) -> Alteration:
    change = column_change_of(context.spark, command)

    def definition(snapshot: Snapshot) -> TableDefinition | None:
        schema = change.apply(snapshot.schema)
        for path in change.paths:
            check_unused(snapshot, path)
        return TableDefinition(schema=schema) if schema != snapshot.schema else None

    return Alteration(change.operation, definition, change.parameters)


def _change_properties(command: SetProperties | UnsetProperties) -> Alteration:
    def definition(snapshot: Snapshot) -> TableDefinition:
        return TableDefinition(properties=new_properties(command, snapshot.settings.properties))

    if isinstance(command, SetProperties):
        return Alteration("SET TBLPROPERTIES", definition, {"properties": dict(command.properties)})
    return Alteration("UNSET TBLPROPERTIES", definition, {"properties": list(command.keys)})


def _comment(command: CommentOn) -> Alteration:
    def definition(snapshot: Snapshot) -> TableDefinition:
        if command.column is None:
            return TableDefinition(description=command.comment or "")
        return TableDefinition(schema=set_comment(snapshot.schema, command.column, command.comment))

    return Alteration("CHANGE COLUMN" if command.column else "COMMENT ON TABLE", definition, {"comment": command.comment or ""})


def _comment_on_columns(command: CommentOnColumns) -> Alteration:
    def definition(snapshot: Snapshot) -> TableDefinition:
        schema = snapshot.schema
        for path, comment in command.comments:
            schema = set_comment(schema, path, comment)
        return TableDefinition(schema=schema)

    parameters: dict[str, object] = {"columns": [{"path": ".".join(path), "comment": comment} for path, comment in command.comments]}
    return Alteration("CHANGE COLUMNS", definition, parameters)
