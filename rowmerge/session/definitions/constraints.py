"""ALTER TABLE of CHECK constraints, NOT NULL and defaults."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from rowmerge.commands.definitions import AddConstraint, CheckConstraint, ConstraintCommand, DropConstraint, SetDefault, SetNullable
from rowmerge.errors import AlreadyExists, ConstraintNotFound, PlanError, UnknownColumn
from rowmerge.execution.result import ChangeResult
from rowmerge.execution.table_change import change_definition
from rowmerge.session.definitions.columns import find_field, replace_field, set_metadata
from rowmerge.session.names.scope import SessionContext
from rowmerge.spark.values.rules import check_condition, check_default, check_existing
from rowmerge.table.metadata.rules import DEFAULT, Check, not_null_checks
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot


def change_constraint(context: SessionContext, command: ConstraintCommand) -> ChangeResult:
    """Add or drop a CHECK constraint, a default or NOT NULL. Raises ConstraintViolated, and what `check_rules` raises."""
    table = context.names.table(command.name)
    match command:
        case AddConstraint(_, check):
            parameters: dict[str, object] = {"name": constraint_name(check, str(command.name)), "expr": check.expression.text}
            add_check = partial(_add_check, context, command)
            return change_definition(table, "ADD CONSTRAINT", parameters, add_check, reads_rows=True)
        case DropConstraint(_, name):
            return change_definition(table, "DROP CONSTRAINT", {"name": name}, partial(_drop_check, command))
        case SetDefault(_, column, value):
            parameters = {"column": column, "default": str(value) if value else None}
            return change_definition(table, "CHANGE COLUMN", parameters, partial(_set_default, context, command))
        case SetNullable(_, path, nullable):
            parameters = {"column": ".".join(path), "nullable": nullable}
            set_nullability = partial(_set_nullable, context, command)
            return change_definition(table, "CHANGE COLUMN", parameters, set_nullability, reads_rows=not nullable)


def _add_check(context: SessionContext, command: AddConstraint, snapshot: Snapshot) -> TableDefinition:
    """Return the CHECK constraints with the new one. Raise AlreadyExists for its name, ConstraintViolated by existing rows."""
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
            problem = f"{table} has the constraint `{name}` already: CHECK ({expression})."
            raise AlreadyExists(f"{problem} Drop it first, or choose another name.")


def _set_default(context: SessionContext, command: SetDefault, snapshot: Snapshot) -> TableDefinition | None:
    """Return the schema with the new default, or None if the column has no default to drop. Raise UnknownColumn, PlanError."""
    field = snapshot.schema.find(command.column)
    if field is None:
        raise UnknownColumn(command.column, snapshot.schema.names, where=snapshot.name)
    default = None if command.value is None else command.value.text
    if default is None and DEFAULT not in field.metadata:
        return None
    if default is not None:
        _check_new_default(context, snapshot, field, default)
    return TableDefinition(schema=replace_field(snapshot.schema, field, set_metadata(field, DEFAULT, default)))


def _check_new_default(context: SessionContext, snapshot: Snapshot, field: Field, default: str) -> None:
    if field.name in snapshot.shape.rules.generated:
        raise PlanError(f"The column `{field.name}` of {snapshot.name} is GENERATED, so it cannot have a default too.")
    check_default(context.spark, snapshot.name, field, default)


def _set_nullable(context: SessionContext, command: SetNullable, snapshot: Snapshot) -> TableDefinition | None:
    """Return the schema with the changed column, or None if nothing changes. Raise ConstraintViolated for existing NULLs."""
    schema = set_nullable(snapshot.schema, command.column, command.nullable)
    if schema == snapshot.schema:
        return None
    if not command.nullable:
        old_checks = {check.text for check in snapshot.shape.rules.checks}
        (new_check,) = [check for check in not_null_checks(schema) if check.text not in old_checks]
        check_existing(context.views.rows(snapshot), snapshot.name, schema, new_check)
    return TableDefinition(schema=schema)


def _drop_check(command: DropConstraint, snapshot: Snapshot) -> TableDefinition | None:
    """Return the remaining CHECK constraints, or None if IF EXISTS allows that nothing changes. Raise ConstraintNotFound."""
    constraints = _check_expressions(snapshot)
    remaining_constraints = {name: expression for name, expression in constraints.items() if name.lower() != command.constraint.lower()}
    if len(remaining_constraints) < len(constraints):
        return TableDefinition(checks=remaining_constraints)
    if command.if_exists:
        return None
    raise ConstraintNotFound(snapshot.name, command.constraint, tuple(constraints))


def _check_expressions(snapshot: Snapshot) -> dict[str, str]:
    """Return the expressions of the table's CHECK constraints by name. Other rules have no name."""
    return {check.name: check.expression for check in snapshot.shape.rules.checks if check.name}


def constraint_name(check: CheckConstraint, table: str) -> str:
    """Return the constraint's name, or a name made of the table's name and a digest of the expression."""
    digest = hashlib.sha256(check.expression.text.encode()).hexdigest()[:6]
    return check.name or f"{table.rsplit('.', 1)[-1].strip('`')}_chk_{digest}"


def checks_by_name(checks: Iterable[CheckConstraint], table: str) -> dict[str, str]:
    """Return the expressions of CHECK constraints by their names. Raises PlanError for a name that occurs twice."""
    expressions: dict[str, str] = {}
    for check in checks:
        name = constraint_name(check, table)
        if name.lower() in (other.lower() for other in expressions):
            raise PlanError(f"The constraint `{name}` is defined twice. Give one of the two another name.")
        expressions[name] = check.expression.text
    return expressions


def set_nullable(schema: Struct, path: tuple[str, ...], nullable: bool) -> Struct:
    """Return the schema in which a column, or a field of a struct, is nullable or NOT NULL. Raises UnknownColumn, PlanError."""
    field = find_field(schema, path[0])
    if len(path) == 1:
        return replace_field(schema, field, replace(field, nullable=nullable))
    if not isinstance(field.type, Struct):
        raise PlanError(f"`{path[0]}` is not a struct, so it has no field `{path[1]}`.")
    return replace_field(schema, field, replace(field, type=set_nullable(field.type, path[1:], nullable)))
