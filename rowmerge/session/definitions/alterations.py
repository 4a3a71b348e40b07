"""The changes that ALTER TABLE and COMMENT ON make to the definition of a table: columns, properties, comments and rules."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from rowmerge.commands import definitions as commands
from rowmerge.commands.tables import ChangeIdentifiers
from rowmerge.errors import AlreadyExists, ConstraintNotFound, PlanError, UnknownColumn
from rowmerge.session.definitions import columns
from rowmerge.session.definitions.column_replacement import dropped_paths, merge_columns
from rowmerge.session.definitions.partitioning import change_partitioning, change_write_order, partitioning_operation, write_order_operation
from rowmerge.session.names.scope import SessionContext
from rowmerge.spark.types import check_storable, parse_columns
from rowmerge.spark.values.rules import check_condition, check_default, check_existing
from rowmerge.table.metadata.rules import DEFAULT, Check, not_null_checks
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class Alteration:
    """A change to the definition of a table, with `operation` and `parameters` as Delta's history names them.

    `definition`: the function that returns the changed parts of the definition for a version, or None if nothing changes. `reads_rows`:
    whether the function verifies every row of the table.
    """

    operation: str
    definition: Callable[[Snapshot], TableDefinition | None]
    parameters: dict[str, object] = field(default_factory=dict)
    reads_rows: bool = False


def build_alteration(context: SessionContext, command: commands.AlterTable) -> Alteration:
    """Return the change that ALTER TABLE or COMMENT ON makes.

    The new definition is computed only when the `definition` of the result is called with a version of the table. That call may raise
    UnknownColumn, PlanError, TableError and ConstraintViolated.

    Args:
        context: The session.
        command: The parsed statement.
    """
    match command:
        case commands.AddColumns():
            return _add_columns(context, command)
        case commands.RenameColumn():
            return _rename_column(command)
        case commands.DropColumns():
            return _drop_columns(command)
        case commands.AlterColumn():
            return _alter_column(context, command)
        case commands.ReplaceColumns():
            return _replace_columns(context, command)
        case ChangeIdentifiers(_, change):
            operation = f"{'DROP' if change.drop else 'SET'} IDENTIFIER FIELDS"
            paths: dict[str, object] = {"columns": [".".join(path) for path in change.columns]}
            return Alteration(operation, lambda snapshot: TableDefinition(identifiers=change), paths)
        case commands.SetProperties() | commands.UnsetProperties():
            return _change_properties(context, command)
        case commands.ChangePartitioning():
            return Alteration(partitioning_operation(command), partial(change_partitioning, command))
        case commands.SetWriteOrder():
            return Alteration(write_order_operation(command), partial(change_write_order, command))
        case commands.CommentOn():
            return _comment(command)
        case commands.CommentOnColumns(_, comments):
            comment_parameters = [{"path": ".".join(path), "comment": comment} for path, comment in comments]
            return Alteration("CHANGE COLUMNS", partial(_set_comments, comments=comments), {"columns": comment_parameters})
    return _constraint_alteration(context, command)


def _add_columns(context: SessionContext, command: commands.AddColumns) -> Alteration:
    """Return the change that ADD COLUMNS makes."""
    fields = parse_columns(context.spark, command.columns)
    parameters: dict[str, object] = {"columns": [{"column": {"name": column.name, "type": column.sql_type}} for column in fields]}
    return Alteration("ADD COLUMNS", lambda snapshot: TableDefinition(schema=columns.add_columns(snapshot, fields, command)), parameters)


def _replace_columns(context: SessionContext, command: commands.ReplaceColumns) -> Alteration:
    """Return the change that REPLACE COLUMNS makes.

    As on Spark, all columns of an Iceberg table become new, and columns of a Delta table with the same name keep their values.
    """
    declared = parse_columns(context.spark, command.columns)
    check_storable(declared)
    is_delta = context.names.existing_relation(command.name).format == "delta"

    def definition(snapshot: Snapshot) -> TableDefinition | None:
        if not is_delta:
            return TableDefinition(schema=declared)
        for path in dropped_paths(snapshot.schema, declared):
            columns.check_column_unused(snapshot, path)
        return TableDefinition(schema=merge_columns(snapshot.schema, declared))

    parameters: dict[str, object] = {"columns": [{"name": column.name, "type": column.sql_type} for column in declared]}
    return Alteration("REPLACE COLUMNS", definition, parameters)


def _rename_column(command: commands.RenameColumn) -> Alteration:
    """Return the change that RENAME COLUMN makes."""
    path, new_name = command.column, command.new_name
    parameters: dict[str, object] = {"oldColumnPath": ".".join(path), "newColumnPath": ".".join((*path[:-1], new_name))}
    rename = partial(columns.rename_column, path=path, new_name=new_name)
    return _schema_alteration("RENAME COLUMN", parameters, rename, unused_paths=(path,))


def _drop_columns(command: commands.DropColumns) -> Alteration:
    """Return the change that DROP COLUMNS makes."""
    drop = partial(columns.drop_columns, paths=command.columns, if_exists=command.if_exists)
    parameters: dict[str, object] = {"columns": [".".join(path) for path in command.columns]}
    return _schema_alteration("DROP COLUMNS", parameters, drop, unused_paths=command.columns)


def _alter_column(context: SessionContext, command: commands.AlterColumn) -> Alteration:
    """Return the change that ALTER COLUMN makes: a new type, comment or position of a column, or several of these.

    The schema changes later, when the alteration is applied to a version of the table.
    """
    name = command.column[-1]
    declared_field = None
    if command.type is not None:
        (declared_field,) = parse_columns(context.spark, [commands.ColumnDefinition(name, command.type)])
    parameters: dict[str, object] = {
        "column": {"name": name, "type": None if declared_field is None else declared_field.sql_type},
        "position": None if command.place is None else str(command.place),
    }
    change = partial(_change_column, command=command, declared_field=declared_field)
    # Only a new type can break a constraint or a generated column. Neither may use the column in that case.
    unused_paths = () if declared_field is None else (command.column,)
    return _schema_alteration("CHANGE COLUMN", parameters, change, unused_paths)


def _change_column(schema: Struct, command: commands.AlterColumn, declared_field: Field | None) -> Struct:
    """Return the schema with the new type, comment and position of a column. `declared_field`: has the new type, or None."""
    if declared_field is not None:
        schema = columns.retype_column(schema, command.column, declared_field)
    if command.comment is not None:
        schema = columns.set_comment(schema, command.column, command.comment)
    return schema if command.place is None else columns.move_column(schema, command.column, command.place)


def _schema_alteration(
    operation: str, parameters: dict[str, object], change: Callable[[Struct], Struct], unused_paths: Sequence[columns.Path]
) -> Alteration:
    """Return the alteration that applies `change` to the schema. No constraint or generated column may use a column in `unused_paths`."""

    def definition(snapshot: Snapshot) -> TableDefinition | None:
        schema = change(snapshot.schema)
        for path in unused_paths:
            columns.check_column_unused(snapshot, path)
        return TableDefinition(schema=schema) if schema != snapshot.schema else None

    return Alteration(operation, definition, parameters)


def _change_properties(context: SessionContext, command: commands.PropertyCommand) -> Alteration:
    """Return the change that SET or UNSET TBLPROPERTIES makes."""

    def definition(snapshot: Snapshot) -> TableDefinition:
        if isinstance(command, commands.SetProperties):
            context.tables_by_path.check_file_locations(context.catalog, snapshot.name, snapshot.shape.location, dict(command.properties))
        return TableDefinition(properties=columns.new_properties(command, snapshot.settings.properties))

    if isinstance(command, commands.SetProperties):
        return Alteration("SET TBLPROPERTIES", definition, {"properties": dict(command.properties)})
    return Alteration("UNSET TBLPROPERTIES", definition, {"properties": list(command.keys)})


def _comment(command: commands.CommentOn) -> Alteration:
    """Return the change to the comment on a table or on one column."""
    parameters: dict[str, object] = {"comment": command.comment or ""}
    if command.column is None:
        return Alteration("COMMENT ON TABLE", lambda snapshot: TableDefinition(description=command.comment or ""), parameters)
    return Alteration("CHANGE COLUMN", partial(_set_comments, comments=[(command.column, command.comment)]), parameters)


def _set_comments(snapshot: Snapshot, comments: Iterable[tuple[columns.Path, str | None]]) -> TableDefinition:
    schema = snapshot.schema
    for path, comment in comments:
        schema = columns.set_comment(schema, path, comment)
    return TableDefinition(schema=schema)


def _constraint_alteration(context: SessionContext, command: commands.ConstraintCommand) -> Alteration:
    """Return the change to a CHECK constraint, a default or NOT NULL."""
    match command:
        case commands.AddConstraint(_, check):
            parameters: dict[str, object] = {"name": constraint_name(check, str(command.name)), "expr": check.expression.text}
            return Alteration("ADD CONSTRAINT", partial(_add_check, context, command), parameters, reads_rows=True)
        case commands.DropConstraint(_, name):
            return Alteration("DROP CONSTRAINT", partial(_drop_check, command), {"name": name})
        case commands.SetDefault(_, column, value):
            parameters = {"column": column, "default": str(value) if value else None}
            return Alteration("CHANGE COLUMN", partial(_set_default, context, command), parameters)
        case commands.SetNullable(_, path, nullable):
            parameters = {"column": ".".join(path), "nullable": nullable}
            return Alteration("CHANGE COLUMN", partial(_set_nullable, context, command), parameters, reads_rows=not nullable)


def _add_check(context: SessionContext, command: commands.AddConstraint, snapshot: Snapshot) -> TableDefinition:
    """Return the CHECK constraints with the new one.

    Raise AlreadyExists if its name exists, and ConstraintViolated if an existing row violates it.
    """
    constraints = _check_expressions(snapshot)
    name, expression = constraint_name(command.check, snapshot.name), command.check.expression.text
    _check_new_name(snapshot.name, constraints, name)
    check = Check(f"{name} CHECK ({expression})", expression, name)
    rows = context.views.rows(snapshot)
    check_condition(rows, check)
    check_existing(rows, snapshot.name, snapshot.schema, check)
    return TableDefinition(checks={**constraints, name: expression})


def _check_new_name(table: str, constraints: Mapping[str, str], new_name: str) -> None:
    """Raise AlreadyExists if one of the constraints has this name."""
    for name, expression in constraints.items():
        if name.lower() == new_name.lower():
            raise AlreadyExists(
                f"{table} already has the constraint `{name}`: CHECK ({expression}). Drop it first, or choose another name."
            )


def _set_default(context: SessionContext, command: commands.SetDefault, snapshot: Snapshot) -> TableDefinition | None:
    """Return the schema with the new default, or None if the column has no default to drop.

    Raise UnknownColumn if the column does not exist, and PlanError if the default is invalid.
    """
    field = snapshot.schema.find(command.column)
    if field is None:
        raise UnknownColumn(command.column, snapshot.schema.names, where=snapshot.name)
    default = None if command.value is None else command.value.text
    if default is not None:
        _check_new_default(context, snapshot, field, default)
    elif DEFAULT not in field.metadata:
        return None
    return TableDefinition(schema=columns.replace_field(snapshot.schema, field, columns.set_metadata(field, DEFAULT, default)))


def _check_new_default(context: SessionContext, snapshot: Snapshot, field: Field, default: str) -> None:
    """Raise PlanError if the column is generated, or if Spark rejects the default."""
    if field.name in snapshot.shape.rules.generated:
        raise PlanError(f"The column `{field.name}` of {snapshot.name} is GENERATED, so it cannot have a default.")
    check_default(context.spark, snapshot.name, field, default)


def _set_nullable(context: SessionContext, command: commands.SetNullable, snapshot: Snapshot) -> TableDefinition | None:
    """Return the schema with the changed column, or None if nothing changes. Raise ConstraintViolated if NOT NULL finds a NULL."""
    schema = set_nullable(snapshot.schema, command.column, command.nullable)
    if schema == snapshot.schema:
        return None
    if not command.nullable:
        old_checks = {check.text for check in snapshot.shape.rules.checks}
        (new_check,) = [check for check in not_null_checks(schema) if check.text not in old_checks]
        check_existing(context.views.rows(snapshot), snapshot.name, schema, new_check)
    return TableDefinition(schema=schema)


def _drop_check(command: commands.DropConstraint, snapshot: Snapshot) -> TableDefinition | None:
    """Return the remaining CHECK constraints. For a missing constraint, return None with IF EXISTS, else raise ConstraintNotFound."""
    constraints = _check_expressions(snapshot)
    remaining_constraints = {name: expression for name, expression in constraints.items() if name.lower() != command.constraint.lower()}
    if len(remaining_constraints) < len(constraints):
        return TableDefinition(checks=remaining_constraints)
    if command.if_exists:
        return None
    raise ConstraintNotFound(snapshot.name, command.constraint, tuple(constraints))


def _check_expressions(snapshot: Snapshot) -> dict[str, str]:
    """Return the expressions of the table's CHECK constraints by name. NOT NULL and other rules have no name."""
    return {check.name: check.expression for check in snapshot.shape.rules.checks if check.name}


def constraint_name(check: commands.CheckConstraint, table: str) -> str:
    """Return the constraint's name, or a name composed of the table's name and a digest of the expression.

    Args:
        check: The constraint in the statement, with or without a name.
        table: The name of the table, with or without its schema.
    """
    digest = hashlib.sha256(check.expression.text.encode()).hexdigest()[:6]
    return check.name or f"{table.rsplit('.', 1)[-1].strip('`')}_chk_{digest}"


def checks_by_name(checks: Iterable[commands.CheckConstraint], table: str) -> dict[str, str]:
    """Return the expressions of CHECK constraints by their names.

    Args:
        checks: The constraints in the statement.
        table: The name of the table, for constraints without a name.

    Raises:
        PlanError: Two constraints have the same name.
    """
    expressions: dict[str, str] = {}
    for check in checks:
        name = constraint_name(check, table)
        if name.lower() in (other.lower() for other in expressions):
            raise PlanError(f"The constraint `{name}` is defined twice. Rename one of the two.")
        expressions[name] = check.expression.text
    return expressions


def set_nullable(schema: Struct, path: tuple[str, ...], nullable: bool) -> Struct:
    """Return the schema with a column, or a field of a struct, changed to nullable or NOT NULL.

    Args:
        schema: The schema to change.
        path: The name of the column, followed by the names of nested fields.
        nullable: Whether the column is nullable.

    Raises:
        UnknownColumn: The schema has no such column or field.
        PlanError: The path leads into a type that is not a struct.
    """
    field = columns.find_field(schema, path[0])
    if len(path) == 1:
        return columns.replace_field(schema, field, replace(field, nullable=nullable))
    if not isinstance(field.type, Struct):
        raise PlanError(f"`{path[0]}` is not a struct, so it has no field `{path[1]}`.")
    return columns.replace_field(schema, field, replace(field, type=set_nullable(field.type, path[1:], nullable)))
