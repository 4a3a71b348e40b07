"""The changes that ALTER TABLE and COMMENT ON make to the definition of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from rowmerge.commands import definitions as commands
from rowmerge.session.definitions import columns
from rowmerge.session.definitions.columns import Path, new_properties, set_comment
from rowmerge.session.definitions.partitioning import change_partitioning, change_write_order, partitioning_operation, write_order_operation
from rowmerge.session.names.scope import SessionContext
from rowmerge.spark.types import parse_columns
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class Alteration:
    """A change of a table's definition, with `operation` and `parameters` as Delta's history names them.

    `definition` returns the parts that change in a version, or None if nothing changes.
    """

    operation: str
    definition: Callable[[Snapshot], TableDefinition | None]
    parameters: dict[str, object] = field(default_factory=dict)


def build_alteration(context: SessionContext, command: commands.AlterTable) -> Alteration:
    """Return the change that a command describes. Its `definition` raises UnknownColumn, PlanError and TableError."""
    match command:
        case commands.AddColumns():
            return _add_columns(context, command)
        case commands.RenameColumn():
            return _rename_column(command)
        case commands.DropColumns():
            return _drop_columns(command)
        case commands.AlterColumn():
            return _alter_column(context, command)
        case commands.SetProperties() | commands.UnsetProperties():
            return _change_properties(command)
        case commands.ChangePartitioning():
            return Alteration(partitioning_operation(command), partial(change_partitioning, command))
        case commands.SetWriteOrder():
            return Alteration(write_order_operation(command), partial(change_write_order, command))
        case commands.CommentOn():
            return _comment(command)
        case commands.CommentOnColumns():
            return _comment_on_columns(command)


def _add_columns(context: SessionContext, command: commands.AddColumns) -> Alteration:
    new_columns = parse_columns(context.spark, command.columns)
    parameters: dict[str, object] = {"columns": [{"column": {"name": column.name, "type": column.sql_type}} for column in new_columns]}
    return Alteration(
        "ADD COLUMNS", lambda snapshot: TableDefinition(schema=columns.add_columns(snapshot, new_columns, command)), parameters
    )


def _rename_column(command: commands.RenameColumn) -> Alteration:
    path, new_name = command.column, command.new_name
    parameters: dict[str, object] = {"oldColumnPath": ".".join(path), "newColumnPath": ".".join((*path[:-1], new_name))}
    rename = partial(columns.rename_column, path=path, new_name=new_name)
    return Alteration("RENAME COLUMN", partial(_change_schema, change=rename, changed_paths=(path,)), parameters)


def _drop_columns(command: commands.DropColumns) -> Alteration:
    drop = partial(columns.drop_columns, paths=command.columns, if_exists=command.if_exists)
    parameters: dict[str, object] = {"columns": [".".join(path) for path in command.columns]}
    return Alteration("DROP COLUMNS", partial(_change_schema, change=drop, changed_paths=command.columns), parameters)


def _alter_column(context: SessionContext, command: commands.AlterColumn) -> Alteration:
    """Return the change of a column's type, comment and position, each if the command gives it."""
    declared_field = None
    if command.type is not None:
        declared_field = parse_columns(context.spark, [commands.ColumnDefinition(command.column[-1], command.type)]).fields[0]
    parameters: dict[str, object] = {
        "column": {"name": command.column[-1], "type": None if declared_field is None else declared_field.sql_type},
        "position": None if command.place is None else str(command.place),
    }
    change = partial(_change_column, command=command, declared_field=declared_field)
    changed_paths = () if declared_field is None else (command.column,)
    return Alteration("CHANGE COLUMN", partial(_change_schema, change=change, changed_paths=changed_paths), parameters)


def _change_column(schema: Struct, command: commands.AlterColumn, declared_field: Field | None) -> Struct:
    if declared_field is not None:
        schema = columns.retype_column(schema, command.column, declared_field)
    if command.comment is not None:
        schema = set_comment(schema, command.column, command.comment)
    return schema if command.place is None else columns.move_column(schema, command.column, command.place)


def _change_schema(snapshot: Snapshot, change: Callable[[Struct], Struct], changed_paths: Sequence[Path]) -> TableDefinition | None:
    """Return the changed schema, or None if it is the same. Raise PlanError if a rule of the table uses a changed column."""
    schema = change(snapshot.schema)
    for path in changed_paths:
        columns.check_unused(snapshot, path)
    return TableDefinition(schema=schema) if schema != snapshot.schema else None


def _change_properties(command: commands.PropertyCommand) -> Alteration:
    def definition(snapshot: Snapshot) -> TableDefinition:
        return TableDefinition(properties=new_properties(command, snapshot.settings.properties))

    if isinstance(command, commands.SetProperties):
        return Alteration("SET TBLPROPERTIES", definition, {"properties": dict(command.properties)})
    return Alteration("UNSET TBLPROPERTIES", definition, {"properties": list(command.keys)})


def _comment(command: commands.CommentOn) -> Alteration:
    parameters: dict[str, object] = {"comment": command.comment or ""}
    if command.column is None:
        return Alteration("COMMENT ON TABLE", lambda snapshot: TableDefinition(description=command.comment or ""), parameters)
    return Alteration("CHANGE COLUMN", partial(_set_comments, comments=[(command.column, command.comment)]), parameters)


def _comment_on_columns(command: commands.CommentOnColumns) -> Alteration:
    parameters: dict[str, object] = {"columns": [{"path": ".".join(path), "comment": comment} for path, comment in command.comments]}
    return Alteration("CHANGE COLUMNS", partial(_set_comments, comments=command.comments), parameters)


def _set_comments(snapshot: Snapshot, comments: Iterable[tuple[Path, str | None]]) -> TableDefinition:
    schema = snapshot.schema
    for path, comment in comments:
        schema = set_comment(schema, path, comment)
    return TableDefinition(schema=schema)
