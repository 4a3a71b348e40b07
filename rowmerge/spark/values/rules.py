"""Apply a table's rules to the rows to write, in the same job: compute generated columns, and check every condition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rowmerge.plan.row_plan import Clause, RowPlan
from rowmerge.spark.failures import Stop
from rowmerge.spark.types import schema_of
from rowmerge.spark.values.assignment import stop, stored
from rowmerge.table.metadata.engine_columns import ACTION, CLAUSE
from rowmerge.table.metadata.rules import Check
from rowmerge.table.metadata.schema import Primitive, Struct, backquote, sql_name, string_literal

NumberedClause = tuple[int, Clause]
"""A clause that writes rows, and its number in the column CLAUSE."""

_SHOWN_COLUMNS = 12
_SHOWN_CHARACTERS = 60


def apply_rules(rows: DataFrame, plan: RowPlan, writing: Sequence[NumberedClause]) -> DataFrame:
    """Compute the generated columns of the rows. The first row that violates a rule stops the statement.

    `rows` have the table's columns by their own names. The checks are part of ACTION, because every reader of the rows needs ACTION.
    Raises TypeMismatch; Spark's analysis errors pass through.
    """
    emptied = {name: F.expr(f"nullif({backquote(name)}, '')") for name in plan.schema.names if name in plan.rules.empty_is_null}
    rows = _with_generated_columns(rows.withColumns(emptied) if emptied else rows, plan, writing)
    checks = [*plan.rules.checks, *_checks_of_generated_columns(plan, writing)]
    if not checks:
        return rows
    violations = []
    for check in checks:
        # A CASE evaluates its branches in order, so a row is formatted for the message only if it violates a rule.
        error = stop(Stop.CONSTRAINT, plan.table, check.told, sample_row(plan.schema, check.expression))
        violations.append(f"when not coalesce(({check.expression}), false) then {error}")
    is_written = _fires_any([number for number, _ in writing])
    return rows.withColumn(ACTION, F.expr(f"case when {is_written} then case {' '.join(violations)} else {ACTION} end else {ACTION} end"))


def sample_row(schema: Struct, expression: str) -> str:
    """Return SQL text for a short description of a row: first the columns that the expression mentions, then others."""
    words = {word.lower() for word in re.findall(r"\w+", expression)}
    mentioned = [field for field in schema if set(re.findall(r"\w+", field.name.lower())) <= words]
    shown = (mentioned + [field for field in schema if field not in mentioned])[:_SHOWN_COLUMNS]
    descriptions = []
    for field in shown:
        value = backquote(field.name)
        text = f"hex({value})" if field.type == Primitive("binary") else f"cast({value} as string)"
        short = f"if(char_length({text}) > {_SHOWN_CHARACTERS}, concat(left({text}, {_SHOWN_CHARACTERS}), '…'), {text})"
        descriptions.append(f"concat({string_literal(field.name + ' = ')}, coalesce({short}, 'NULL'))")
    return f"concat_ws(', ', {', '.join(descriptions)})"


def _with_generated_columns(rows: DataFrame, plan: RowPlan, writing: Sequence[NumberedClause]) -> DataFrame:
    """Compute the generated columns that a clause gives no value, from the row as it will be stored."""
    computed = {}
    for field in plan.schema:
        numbers = [number for number, clause in writing if field.name not in clause.values]
        if field.name not in plan.rules.generated or not numbers:
            continue
        expression = f"({plan.rules.generated[field.name]})"
        (result,) = schema_of(rows.select(F.expr(expression).alias("value")))
        value = stored(expression, result.type, replace(field, nullable=True), plan.table)
        chosen = f"case when {_fires_any(numbers)} then {value} else {backquote(field.name)} end"
        computed[field.name] = F.expr(f"cast({chosen} as {sql_name(field.type)})")
    return rows.withColumns(computed) if computed else rows


def _checks_of_generated_columns(plan: RowPlan, writing: Sequence[NumberedClause]) -> Iterator[Check]:
    """Yield checks that a value which a clause gives to a generated column is the computed one."""
    for field in plan.schema:
        numbers = [number for number, clause in writing if field.name in clause.values]
        if field.name in plan.rules.generated and numbers:
            expression = plan.rules.generated[field.name]
            is_computed_value = f"{backquote(field.name)} <=> cast(({expression}) as {sql_name(field.type)})"
            rule = f"GENERATED ALWAYS AS ({expression}) of column `{field.name}`"
            yield Check(rule, f"not {_fires_any(numbers)} or {is_computed_value}")


def _fires_any(numbers: Sequence[int]) -> str:
    return f"{CLAUSE} in ({', '.join(map(str, numbers))})"
