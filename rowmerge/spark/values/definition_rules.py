"""Rules that a table is about to get, judged: what their expressions may be, and whether the rows that are there meet them."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rowmerge.errors import ConstraintViolated, PlanError, TypeMismatch, UnknownColumn, UnsupportedStatement
from rowmerge.plan.expressions.column_refs import has_query, parse
from rowmerge.plan.expressions.conditions import nondeterministic
from rowmerge.plan.expressions.moment import at_moment
from rowmerge.spark.failures import as_ours
from rowmerge.spark.types import empty_frame, schema_of
from rowmerge.spark.values.assignment import stored
from rowmerge.spark.values.rules import sample_row
from rowmerge.table.metadata.rules import Check, Rules
from rowmerge.table.metadata.schema import DataType, Field, Primitive, Struct, backquote, sql_name

_MANY_ROWS = ("INVALID_WHERE_CONDITION", "WINDOW_FUNCTION_NOT_ALLOWED", "_LEGACY_ERROR_TEMP_1034", "UNSUPPORTED_GENERATOR")
"""Spark's conditions for aggregates, window functions (a legacy name in Spark 4.0 and 4.1) and generators in a filter."""


def check_rules(spark: SparkSession, table: str, schema: Struct, rules: Rules) -> None:
    """Raises PlanError, UnknownColumn, TypeMismatch, UnsupportedStatement for a rule that this table cannot have."""
    named = [check for check in rules.checks if check.name]
    frame = empty_frame(spark, schema) if named or rules.generated else spark.range(0)
    for check in named:
        check_condition(frame, check)
    for name, expression in rules.generated.items():
        _check_generated(frame, schema, rules, schema.select((name,)).fields[0], expression)
    for name, expression in rules.defaults.items():
        check_default(spark, table, schema.select((name,)).fields[0], expression)


def check_condition(rows: DataFrame, check: Check) -> None:
    """Raises as `check_rules` does when the condition is none over these rows' columns."""
    type_ = _type(rows, check.expression, check.told)
    if type_ != Primitive("boolean"):
        raise TypeMismatch(f"{check.told} is {sql_name(type_)}, not boolean. Write a condition, which is true for the rows that may be.")


def check_default(spark: SparkSession, table: str, field: Field, expression: str) -> None:
    """Raises as `check_rules` does when a column cannot have this default: it must be a constant that the column can hold."""
    told = f"the default of column `{field.name}`, {expression}"
    nothing = spark.range(0).select()
    try:
        type_ = _type(nothing, expression, told)
    except UnknownColumn as error:
        raise PlanError(f"{told} reads the column `{error.name}`. A default is a constant; compute the value in the statement.") from None
    spark.range(1).select(F.expr(stored(f"({expression})", type_, field, table))).collect()


def check_existing(rows: DataFrame, table: str, schema: Struct, check: Check) -> None:
    """Raises ConstraintViolated when rows that are there are against a rule: how many, and one of them."""
    against = rows.where(f"not coalesce(({check.expression}), false)")
    sample = F.min(F.expr(sample_row(schema, check.expression)))
    found = against.agg(F.count(F.lit(1)).alias("rows"), sample.alias("sample")).collect()[0]
    if found["rows"]:
        raise ConstraintViolated(table, check.told, found["sample"], existing=found["rows"])


def _check_generated(frame: DataFrame, schema: Struct, rules: Rules, field: Field, expression: str) -> None:
    told = f"GENERATED ALWAYS AS ({expression}) of column `{field.name}`"
    if at_moment(expression, 0, schema.names) != expression:
        raise UnsupportedStatement(f"{told} asks for the time, so its value would not stay true. Use a DEFAULT", text=expression)
    others = frame.select(*(F.col(backquote(name)) for name in schema.names if name not in rules.generated))
    try:
        type_ = _type(others, expression, told)
    except UnknownColumn as error:
        name = error.name.split(".")[0]
        meant = schema.find(name)
        if meant is None:
            raise UnknownColumn(error.name, others.columns, where=told) from None
        itself = "itself" if meant is field else f"the generated column `{meant.name}`"
        raise PlanError(f"{told} reads {itself}. A generated column reads other columns only; write their expression out.") from None
    if sql_name(type_) != sql_name(field.type):
        raise TypeMismatch(
            f"{told} is {sql_name(type_)}, and the column is {field.sql_type}. Write GENERATED ALWAYS AS (cast({expression} as "
            f"{sql_name(field.type)})), or give the column the type {sql_name(type_)}."
        )


def _type(rows: DataFrame, expression: str, told: str) -> DataType:
    """The type of an expression over one row, after everything that a rule may not contain was refused."""
    if function := nondeterministic(expression):
        raise UnsupportedStatement(f"{told} uses {function}(), which gives another value each time. Leave it out", text=expression)
    tree = parse(expression)
    if has_query(tree) if tree is not None else re.search(r"\(\s*(select|with|values|from|table)\b", expression, re.IGNORECASE):
        raise UnsupportedStatement(f"{told} has a subquery. A rule reads one row; test more in the statement that writes", text=expression)
    try:
        # A filter takes neither aggregates nor windows nor generators.
        rows.where(F.expr(f"(({expression})) is null"))
        (field,) = schema_of(rows.select(F.expr(f"({expression})").alias("value")))
    except AnalysisException as error:
        if (error.getCondition() or "").startswith(_MANY_ROWS):
            named = (error.getMessageParameters() or {}).get("expressionList", expression)
            raise UnsupportedStatement(
                f"{told} uses {named}, which is about many rows. A rule reads one row: leave aggregates and windows out", text=expression
            ) from None
        ours = as_ours(error, expression, told)
        raise UnknownColumn(ours.name, rows.columns, where=told) if isinstance(ours, UnknownColumn) else ours from None
    return field.type
