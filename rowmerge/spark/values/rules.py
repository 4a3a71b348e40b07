"""A table's rules on the rows that are about to be written: generated columns computed, every condition checked, in the same job."""

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
from rowmerge.table.metadata.rules import Check
from rowmerge.table.metadata.schema import Primitive, Struct, backquote, sql_name, string_literal

Numbered = tuple[int, Clause]
"""A clause that writes rows, and the number by which rows say that it fired."""

_SHOWN_COLUMNS = 12
_SHOWN_CHARACTERS = 60


def ruled(rows: DataFrame, plan: RowPlan, writing: Sequence[Numbered], fired: str, checked: str) -> DataFrame:
    """The rows with their generated columns computed; the first row against a rule stops the statement.

    `rows` have the table's columns by their own names. `fired` is the column with the number of each row's clause; the checks run where
    the column `checked`, which every reader of the rows needs, is computed. Raises TypeMismatch; Spark's analysis errors pass through.
    """
    emptied = {name: F.expr(f"nullif({backquote(name)}, '')") for name in plan.schema.names if name in plan.rules.empty_is_null}
    rows = _generated(rows.withColumns(emptied) if emptied else rows, plan, writing, fired)
    checks = [*plan.rules.checks, *_given(plan, writing, fired)]
    if not checks:
        return rows
    # One after the other, in the order of CASE: a row is shown only when it is against a rule.
    cases = " ".join(f"when not coalesce(({check.expression}), false) then {_stop(plan, check)}" for check in checks)
    written = ", ".join(str(number) for number, _ in writing)
    return rows.withColumn(checked, F.expr(f"case when {fired} in ({written}) then case {cases} else {checked} end else {checked} end"))


def sample_row(schema: Struct, expression: str) -> str:
    """SQL for a short text of a row: the columns that the expression mentions, then others as far as there is room."""
    words = {word.lower() for word in re.findall(r"\w+", expression)}
    mentioned = [field for field in schema if set(re.findall(r"\w+", field.name.lower())) <= words]
    shown = (mentioned + [field for field in schema if field not in mentioned])[:_SHOWN_COLUMNS]
    parts = []
    for field in shown:
        value = backquote(field.name)
        text = f"hex({value})" if field.type == Primitive("binary") else f"cast({value} as string)"
        short = f"if(char_length({text}) > {_SHOWN_CHARACTERS}, concat(left({text}, {_SHOWN_CHARACTERS}), '…'), {text})"
        parts.append(f"concat({string_literal(field.name + ' = ')}, coalesce({short}, 'NULL'))")
    return f"concat_ws(', ', {', '.join(parts)})"


def _generated(rows: DataFrame, plan: RowPlan, writing: Sequence[Numbered], fired: str) -> DataFrame:
    """Generated columns that a clause gives no value are computed from the row as it will be stored."""
    computed = {}
    for field in plan.schema:
        numbers = [number for number, clause in writing if field.name not in clause.values]
        if field.name not in plan.rules.generated or not numbers:
            continue
        text = f"({plan.rules.generated[field.name]})"
        (given,) = schema_of(rows.select(F.expr(text).alias("value")))
        value = stored(text, given.type, replace(field, nullable=True), plan.table)
        whole = f"case when {fired} in ({', '.join(map(str, numbers))}) then {value} else {backquote(field.name)} end"
        computed[field.name] = F.expr(f"cast({whole} as {sql_name(field.type)})")
    return rows.withColumns(computed) if computed else rows


def _given(plan: RowPlan, writing: Sequence[Numbered], fired: str) -> Iterator[Check]:
    """A value that a statement gives to a generated column must be the one that would be computed."""
    for field in plan.schema:
        numbers = [number for number, clause in writing if field.name in clause.values]
        if field.name in plan.rules.generated and numbers:
            expression = plan.rules.generated[field.name]
            same = f"{backquote(field.name)} <=> cast(({expression}) as {sql_name(field.type)})"
            told = f"GENERATED ALWAYS AS ({expression}) of column `{field.name}`"
            yield Check(told, f"{fired} not in ({', '.join(map(str, numbers))}) or {same}")


def _stop(plan: RowPlan, check: Check) -> str:
    return stop(Stop.CONSTRAINT, plan.table, check.told, sample_row(plan.schema, check.expression))
