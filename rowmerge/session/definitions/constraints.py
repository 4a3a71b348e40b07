"""ALTER TABLE of CHECK constraints, NOT NULL and defaults."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rowmerge.commands.definitions import AddConstraint, CheckConstraint, DropConstraint, SetDefault, SetNullable
from rowmerge.errors import AlreadyExists, ConstraintNotFound, PlanError, UnknownColumn
from rowmerge.execution.result import ChangeResult
from rowmerge.execution.table_change import change_definition
from rowmerge.session.names.context import SessionContext
from rowmerge.spark.values.definition_rules import check_condition, check_default, check_existing
from rowmerge.table.metadata.rules import DEFAULT, Check, not_null_checks
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class Constraints:
    """Executes ALTER TABLE … ADD and DROP CONSTRAINT, and ALTER COLUMN … SET and DROP of DEFAULT and NOT NULL."""

    context: SessionContext

    def run(self, command: AddConstraint | DropConstraint | SetDefault | SetNullable) -> ChangeResult:
        """Execute a command. Raises ConstraintViolated if existing rows violate the new rule, and what `check_rules` raises."""
        match command:
            case AddConstraint():
                return self._add(command)
            case DropConstraint():
                return self._drop(command)
            case SetDefault():
                return self._default(command)
            case SetNullable():
                return self._nullable(command)

    def _add(self, command: AddConstraint) -> ChangeResult:
        expression = command.check.expression.text

        def definition(snapshot: Snapshot) -> TableDefinition:
            constraints = {check.name: check.expression for check in snapshot.shape.rules.checks if check.name}
            name = constraint_name(command.check, snapshot.name)
            if same := [other for other in constraints if other.lower() == name.lower()]:
                raise AlreadyExists(
                    f"{snapshot.name} has the constraint `{same[0]}` already: CHECK ({constraints[same[0]]}). "
                    f"Drop it first, or choose another name."
                )
            check = Check(f"{name} CHECK ({expression})", expression, name)
            rows = self.context.views.rows(snapshot)
            check_condition(rows, check)
            check_existing(rows, snapshot.name, snapshot.schema, check)
            return TableDefinition(checks={**constraints, name: expression})

        name = constraint_name(command.check, str(command.name))
        parameters: dict[str, object] = {"name": name, "expr": expression}
        return change_definition(self.context.names.table(command.name), "ADD CONSTRAINT", parameters, definition, reads_rows=True)

    def _drop(self, command: DropConstraint) -> ChangeResult:
        def definition(snapshot: Snapshot) -> TableDefinition | None:
            constraints = {check.name: check.expression for check in snapshot.shape.rules.checks if check.name}
            remaining = {name: expression for name, expression in constraints.items() if name.lower() != command.constraint.lower()}
            if len(remaining) < len(constraints):
                return TableDefinition(checks=remaining)
            if command.if_exists:
                return None
            raise ConstraintNotFound(snapshot.name, command.constraint, tuple(constraints))

        parameters: dict[str, object] = {"name": command.constraint}
        return change_definition(self.context.names.table(command.name), "DROP CONSTRAINT", parameters, definition)

    def _default(self, command: SetDefault) -> ChangeResult:
        def definition(snapshot: Snapshot) -> TableDefinition | None:
            field = snapshot.schema.find(command.column)
            if field is None:
                raise UnknownColumn(command.column, snapshot.schema.names, where=snapshot.name)
            metadata = {key: value for key, value in field.metadata.items() if key != DEFAULT}
            if command.value is not None:
                if field.name in snapshot.shape.rules.generated:
                    raise PlanError(f"The column `{field.name}` of {snapshot.name} is GENERATED, so it cannot have a default too.")
                check_default(self.context.spark, snapshot.name, field, command.value.text)
                metadata[DEFAULT] = command.value.text
            elif DEFAULT not in field.metadata:
                return None
            new = replace(field, metadata=metadata)
            return TableDefinition(schema=Struct(tuple(new if f is field else f for f in snapshot.schema)))

        parameters: dict[str, object] = {"column": command.column, "default": str(command.value) if command.value else None}
        return change_definition(self.context.names.table(command.name), "CHANGE COLUMN", parameters, definition)

    def _nullable(self, command: SetNullable) -> ChangeResult:
        def definition(snapshot: Snapshot) -> TableDefinition | None:
            schema, changed = with_nullable(snapshot.schema, command.column, command.nullable)
            if not changed:
                return None
            if not command.nullable:
                existing_checks = {check.told for check in snapshot.shape.rules.checks}
                (check,) = [check for check in not_null_checks(schema) if check.told not in existing_checks]
                check_existing(self.context.views.rows(snapshot), snapshot.name, schema, check)
            return TableDefinition(schema=schema)

        parameters: dict[str, object] = {"column": ".".join(command.column), "nullable": command.nullable}
        table = self.context.names.table(command.name)
        return change_definition(table, "CHANGE COLUMN", parameters, definition, reads_rows=not command.nullable)


def constraint_name(check: CheckConstraint, table: str) -> str:
    """Return the constraint's name, or a name made of the table's name and a digest of the expression."""
    digest = hashlib.sha256(check.expression.text.encode()).hexdigest()[:6]
    return check.name or f"{table.rsplit('.', 1)[-1].strip('`')}_chk_{digest}"


def checks_by_name(checks: Iterable[CheckConstraint], table: str) -> dict[str, str]:
    """Return the expressions of CHECK constraints by their names. Raises PlanError for a name that occurs twice."""
    named: dict[str, str] = {}
    for check in checks:
        name = constraint_name(check, table)
        if name.lower() in (other.lower() for other in named):
            raise PlanError(f"The constraint `{name}` is defined twice. Give one of the two another name.")
        named[name] = check.expression.text
    return named


def with_nullable(schema: Struct, path: tuple[str, ...], nullable: bool) -> tuple[Struct, bool]:
    """The schema with NOT NULL set on or taken from a column or a field of a struct, and whether that changes it.

    Raises UnknownColumn, PlanError.
    """
    field = schema.find(path[0])
    if field is None:
        raise UnknownColumn(path[0], schema.names)
    new: Field
    if len(path) == 1:
        changed = field.nullable is not nullable
        new = replace(field, nullable=nullable)
    else:
        if not isinstance(field.type, Struct):
            raise PlanError(f"`{path[0]}` is not a struct, so it has no field `{path[1]}`.")
        inner, changed = with_nullable(field.type, path[1:], nullable)
        new = replace(field, type=inner)
    return Struct(tuple(new if f is field else f for f in schema)), changed
