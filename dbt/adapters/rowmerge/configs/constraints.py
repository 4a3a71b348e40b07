"""The columns and constraints of a model's contract, as a CREATE TABLE takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Optional, Union

from dbt_common.contracts.constraints import ColumnLevelConstraint, ConstraintType, ModelLevelConstraint
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.relations.names import quote

Constraint = Union[ColumnLevelConstraint, ModelLevelConstraint]
Taken = Callable[[Constraint], bool]
"""Whether the table takes a constraint; dbt's warnings about it are given on the way."""

ContractedColumn = tuple[str, str, Sequence[ColumnLevelConstraint]]
"""A column's name, its type, and its constraints."""

PROPERTY = "constraint."
"""What the properties begin with that keep constraints which nobody enforces."""

_KEYS = {ConstraintType.primary_key: "primary key", ConstraintType.unique: "unique", ConstraintType.foreign_key: "foreign key"}


@dataclass
class TableContract:
    """`columns` and `checks` are what stands in the brackets of CREATE TABLE. `properties` keep keys, which nobody enforces."""

    columns: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)


def table_contract(columns: Sequence[ContractedColumn], constraints: Iterable[ModelLevelConstraint], takes: Taken) -> TableContract:
    """The contract of a table with these columns, in their order, and with constraints of its own.

    Raises CompilationError for a constraint that lacks what it is about.
    """
    contract, known = TableContract(), {name.lower(): name for name, _, _ in columns}
    taken = [constraint for constraint in constraints if takes(constraint)]
    not_null = {name.strip("`").lower() for each in taken if each.type == ConstraintType.not_null for name in each.columns}
    for name, type_, own in columns:
        kept = [constraint for constraint in own if takes(constraint)]
        if name.lower() in not_null or any(each.type == ConstraintType.not_null for each in kept):
            type_ += " not null"
        type_ += "".join(f" {each.expression}" for each in kept if each.type == ConstraintType.custom)
        contract.columns.append(f"{quote(name)} {type_}")
        for constraint in kept:
            _add(contract, constraint, [name])
    for constraint in taken:
        if constraint.type == ConstraintType.custom:
            contract.checks.append(_named(constraint, _expression(constraint)))
        _add(contract, constraint, [known.get(name.strip("`").lower(), name.strip("`")) for name in constraint.columns])
    return contract


def _add(contract: TableContract, constraint: Constraint, columns: Sequence[str]) -> None:
    if constraint.type == ConstraintType.check:
        contract.checks.append(_named(constraint, f"check ({_expression(constraint)})"))
    elif words := _KEYS.get(constraint.type):
        if not columns:
            raise CompilationError(f"A {words} constraint of the contract names no columns. Add `columns` to it.")
        name = constraint.name or "_".join([constraint.type.value, *columns])
        references = f" references {_referenced(constraint)}" if constraint.type == ConstraintType.foreign_key else ""
        contract.properties[PROPERTY + name] = f"{words} ({', '.join(map(quote, columns))}){references}"


def _referenced(constraint: Constraint) -> str:
    if constraint.to and constraint.to_columns:
        return f"{constraint.to} ({', '.join(map(quote, constraint.to_columns))})"
    return _expression(constraint)


def _expression(constraint: Constraint) -> str:
    if not constraint.expression:
        lacking = "`to` and `to_columns`" if constraint.type == ConstraintType.foreign_key else "`expression`"
        raise CompilationError(f"A {constraint.type.value} constraint of the contract has no {lacking}. Add it.")
    return constraint.expression.strip()


def _named(constraint: Constraint, text: str) -> str:
    name: Optional[str] = constraint.name
    return f"constraint {quote(name)} {text}" if name else text
