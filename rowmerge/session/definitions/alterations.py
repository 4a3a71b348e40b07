"""The changes that ALTER TABLE and COMMENT ON make to the definition of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from rowmerge.commands.definitions import (
    AddColumns,
    AlterColumn,
    ChangePartitioning,
    ColumnDefinition,
    CommentOn,
    CommentOnColumns,
    DropColumns,
    RenameColumn,
    SetProperties,
    SetWriteOrder,
    UnsetProperties,
)
from rowmerge.session.definitions.column_changes import (
    Path,
    check_unused,
    drop_columns,
    move_column,
    rename_column,
    retype_column,
    set_comment,
)
from rowmerge.session.definitions.columns import add_columns, new_properties
from rowmerge.session.definitions.partitioning import change_partitioning, change_write_order, partitioning_operation, write_order_operation
from rowmerge.session.names.context import SessionContext
from rowmerge.spark.columns import parse_columns
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot

ColumnCommand = RenameColumn | DropColumns | AlterColumn
PropertyCommand = SetProperties | UnsetProperties
AlterTable = AddColumns | ColumnCommand | PropertyCommand | ChangePartitioning | SetWriteOrder | CommentOn | CommentOnColumns


@dataclass(frozen=True)
class Alteration:
    """A change of a table's definition.

    `definition` returns the parts that change in a version, or None if nothing changes. `operation` and `parameters`: as Delta's history
    names them.
    """

    operation: str
    definition: Callable[[Snapshot], TableDefinition | None]
    parameters: dict[str, object] = field(default_factory=dict)


def alteration_of(context: SessionContext, command: AlterTable) -> Alteration:
    """Return what a command changes. Raises what Spark raises for a type; `definition` raises UnknownColumn, PlanError, TableError."""
    match command:
        case AddColumns():
            return _add_columns(context, command)
        case RenameColumn():
            return _rename_column(command)
        case DropColumns():
            return _drop_columns(command)
        case AlterColumn():
            return _alter_column(context, command)
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
    columns = parse_columns(context.spark, command.columns)
    parameters: dict[str, object] = {"columns": [{"column": {"name": column.name, "type": column.sql_type}} for column in columns]}
    return Alteration("ADD COLUMNS", lambda snapshot: TableDefinition(schema=add_columns(snapshot, columns, command)), parameters)


def _rename_column(command: RenameColumn) -> Alteration:
    path, new_name = command.column, command.new_name
    parameters: dict[str, object] = {"oldColumnPath": ".".join(path), "newColumnPath": ".".join((*path[:-1], new_name))}
    rename = partial(rename_column, path=path, new_name=new_name)
    return Alteration("RENAME COLUMN", partial(_change_schema, change=rename, changed_paths=(path,)), parameters)


def _drop_columns(command: DropColumns) -> Alteration:
    drop = partial(drop_columns, paths=command.columns, if_exists=command.if_exists)
    parameters: dict[str, object] = {"columns": [".".join(path) for path in command.columns]}
    return Alteration("DROP COLUMNS", partial(_change_schema, change=drop, changed_paths=command.columns), parameters)


def _alter_column(context: SessionContext, command: AlterColumn) -> Alteration:
    """Return the change of a column's type, comment and position, each if the command gives it."""
    path, comment, place = command.column, command.comment, command.place
    declared = None if command.type is None else parse_columns(context.spark, [ColumnDefinition(path[-1], command.type)]).fields[0]

    def change(schema: Struct) -> Struct:
        if declared is not None:
            schema = retype_column(schema, path, declared)
        if comment is not None:
            schema = set_comment(schema, path, comment)
        return schema if place is None else move_column(schema, path, place)

    column = {"name": path[-1], "type": None if declared is None else declared.sql_type}
    parameters: dict[str, object] = {"column": column, "position": None if place is None else str(place)}
    changed_paths = () if declared is None else (path,)
    return Alteration("CHANGE COLUMN", partial(_change_schema, change=change, changed_paths=changed_paths), parameters)


def _change_schema(snapshot: Snapshot, change: Callable[[Struct], Struct], changed_paths: Sequence[Path]) -> TableDefinition | None:
    """Return the changed schema, or None if it is the same. Raise PlanError if a rule of the table uses a changed column."""
    schema = change(snapshot.schema)
    for path in changed_paths:
        check_unused(snapshot, path)
    return TableDefinition(schema=schema) if schema != snapshot.schema else None


def _change_properties(command: PropertyCommand) -> Alteration:
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
