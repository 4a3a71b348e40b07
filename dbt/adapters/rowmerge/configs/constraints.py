"""The columns and constraints of a model's contract, as SQL for CREATE TABLE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Union

from dbt_common.contracts.constraints import ColumnLevelConstraint, ConstraintType, ModelLevelConstraint
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.relations.names import quote

Constraint = Union[ColumnLevelConstraint, ModelLevelConstraint]

ContractColumn = tuple[str, str, Sequence[ColumnLevelConstraint]]
"""A column's name, its SQL type, and its constraints."""

PROPERTY_PREFIX = "constraint."
"""The prefix of the table properties that record keys, which the table does not enforce."""

_KEY_CLAUSES = {ConstraintType.primary_key: "primary key", ConstraintType.unique: "unique", ConstraintType.foreign_key: "foreign key"}


@dataclass
class TableContract:
    """The clauses that a contract adds to CREATE TABLE.

    `column_definitions` and `checks` are elements of the column list. `properties` are table properties that record keys, which are not
    enforced.
    """

    column_definitions: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)

    def add_column(self, name: str, sql_type: str, constraints: Sequence[ColumnLevelConstraint], *, is_not_null: bool) -> None:
        """Add a column and its constraints to the contract.

        Args:
            name: The name of the column.
            sql_type: The type of the column in SQL.
            constraints: The constraints of the column.
            is_not_null: Whether a table-level constraint makes the column NOT NULL.

        Raises:
            CompilationError: A constraint is incomplete.
        """
        has_not_null = is_not_null or any(constraint.type == ConstraintType.not_null for constraint in constraints)
        not_null = " not null" if has_not_null else ""
        # The SQL of a custom constraint, such as `default 0`, has a meaning only after its column.
        custom_sql = "".join(f" {constraint.expression}" for constraint in constraints if constraint.type == ConstraintType.custom)
        self.column_definitions.append(f"{quote(name)} {sql_type}{not_null}{custom_sql}")
        # CREATE TABLE has all other constraints on the level of the table.
        for constraint in constraints:
            if constraint.type != ConstraintType.custom:
                self.add_constraint(constraint, [name])

    def add_constraint(self, constraint: Constraint, columns: Sequence[str]) -> None:
        """Add a check, a custom constraint or a key to the contract.

        Args:
            constraint: The constraint of a column or of the table. NOT NULL has no effect here: see `add_column`.
            columns: The names of the columns of a key.

        Raises:
            CompilationError: A check or a custom constraint has no expression, or a key has no columns or references.
        """
        match constraint.type:
            case ConstraintType.custom:
                self.checks.append(_with_name(constraint, _expression(constraint)))
            case ConstraintType.check:
                self.checks.append(_with_name(constraint, f"check ({_expression(constraint)})"))
            case ConstraintType.primary_key | ConstraintType.unique | ConstraintType.foreign_key:
                name = constraint.name or "_".join([constraint.type.value, *columns])
                self.properties[PROPERTY_PREFIX + name] = _key_definition(constraint, columns)


def table_contract(
    columns: Sequence[ContractColumn], constraints: Iterable[ModelLevelConstraint], is_supported: Callable[[Constraint], bool]
) -> TableContract:
    """Return the clauses of a contract. Omit constraints that the table format does not support.

    Args:
        columns: The columns of the contract with their constraints.
        constraints: The constraints of the table.
        is_supported: Whether the table format supports a constraint.

    Raises:
        CompilationError: A constraint is incomplete.
    """
    table_constraints = [constraint for constraint in constraints if is_supported(constraint)]
    not_null_columns = _not_null_columns(table_constraints)
    contract = TableContract()
    for name, sql_type, column_constraints in columns:
        supported_constraints = [constraint for constraint in column_constraints if is_supported(constraint)]
        contract.add_column(name, sql_type, supported_constraints, is_not_null=name.lower() in not_null_columns)
    # Constraints may spell a column in another case than its definition, which counts.
    defined_names = {name.lower(): name for name, _, _ in columns}
    for constraint in table_constraints:
        unquoted_names = [name.strip("`") for name in constraint.columns]
        contract.add_constraint(constraint, [defined_names.get(name.lower(), name) for name in unquoted_names])
    return contract


def _not_null_columns(constraints: Iterable[ModelLevelConstraint]) -> set[str]:
    columns_of_constraints = [constraint.columns for constraint in constraints if constraint.type == ConstraintType.not_null]
    return {name.strip("`").lower() for columns in columns_of_constraints for name in columns}


def _key_definition(constraint: Constraint, columns: Sequence[str]) -> str:
    """Return the SQL of a key constraint. Raises CompilationError for a key without columns or a foreign key without a reference."""
    clause = _KEY_CLAUSES[constraint.type]
    if not columns:
        raise CompilationError(f"A {clause} constraint of the contract has no columns. Add `columns`.")
    references = f" references {_reference(constraint)}" if constraint.type == ConstraintType.foreign_key else ""
    return f"{clause} ({', '.join(map(quote, columns))}){references}"


def _reference(constraint: Constraint) -> str:
    """Return the SQL of the table and columns that a foreign key references. Raises CompilationError if they are not set."""
    if constraint.to and constraint.to_columns:
        return f"{constraint.to} ({', '.join(map(quote, constraint.to_columns))})"
    return _expression(constraint)


def _expression(constraint: Constraint) -> str:
    """Return the expression of a constraint. Raises CompilationError if it has none."""
    if not constraint.expression:
        missing_keys = "`to` and `to_columns`" if constraint.type == ConstraintType.foreign_key else "`expression`"
        raise CompilationError(f"A {constraint.type.value} constraint of the contract has no {missing_keys}. Add {missing_keys}.")
    return constraint.expression.strip()


def _with_name(constraint: Constraint, definition: str) -> str:
    return f"constraint {quote(constraint.name)} {definition}" if constraint.name else definition
