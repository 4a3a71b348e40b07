"""Apply a table's rules to the rows to write, in the same job: compute generated columns, and check all conditions.

Also check new rules of a table: whether their expressions are allowed, and whether existing rows satisfy them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F

from rowmerge.errors import ConstraintViolated, PlanError, RowmergeError, TypeMismatch, UnknownColumn, UnsupportedStatement
from rowmerge.plan.expressions.column_refs import has_query, parse
from rowmerge.plan.expressions.conditions import nondeterministic_function
from rowmerge.plan.expressions.moment import replace_time_functions
from rowmerge.plan.row_plan import Clause, RowPlan
from rowmerge.spark.failures import StopReason, rowmerge_error
from rowmerge.spark.types import empty_frame, schema_of
from rowmerge.spark.values.assignment import raise_error_sql, store_assignment_sql
from rowmerge.spark.values.nested import SqlValue
from rowmerge.table.metadata.engine_columns import ACTION, CLAUSE
from rowmerge.table.metadata.rules import Check, Rules
from rowmerge.table.metadata.schema import DataType, Field, Primitive, Struct, backquote, sql_name, string_literal

NumberedClause = tuple[int, Clause]
"""A clause that writes rows, and its number in the column CLAUSE."""

_SUBQUERY = re.compile(r"\(\s*(select|with|values|from|table)\b", re.IGNORECASE)
_SHOWN_COLUMNS, _SHOWN_CHARACTERS = 12, 60
_MANY_ROWS = ("INVALID_WHERE_CONDITION", "WINDOW_FUNCTION_NOT_ALLOWED", "_LEGACY_ERROR_TEMP_1034", "UNSUPPORTED_GENERATOR")
"""Spark's error conditions for aggregates, window functions (a legacy name in Spark 4.0 and 4.1) and generators in a filter."""


def apply_rules(rows: DataFrame, plan: RowPlan, writing_clauses: Sequence[NumberedClause]) -> DataFrame:
    """Apply all rules of a table to outcome rows: convert empty strings to NULL, compute generated columns, and add checks.

    The checks become part of the SQL of the column ACTION, which every job that writes the rows reads. Spark would drop a separate column
    that no job reads, with its checks. For example, CHECK (n > 0) changes ACTION to
    `case when not coalesce((n > 0), false) then raise_error(…) else ACTION end`.

    Args:
        rows: Outcome rows with CLAUSE and ACTION, and with the new values under the names of the table's columns.
        plan: The plan of the statement, with the rules.
        writing_clauses: The clauses that write rows.

    Returns:
        The rows with the new values. ACTION keeps its value, but its evaluation raises an error if a row violates a check.

    Raises:
        TypeMismatch: A generated column cannot store the value of its expression. Spark's analysis errors pass through.
    """
    null_if_empty = {name: F.expr(f"nullif({backquote(name)}, '')") for name in plan.schema.names if name in plan.rules.empty_is_null}
    if null_if_empty:
        rows = rows.withColumns(null_if_empty)
    rows = _with_generated_columns(rows, plan, writing_clauses)
    checks = [*plan.rules.checks, *_checks_of_generated_columns(plan, writing_clauses)]
    return _with_checks_in_action(rows, plan, checks, writing_clauses) if checks else rows


def _with_checks_in_action(rows: DataFrame, plan: RowPlan, checks: Sequence[Check], writing_clauses: Sequence[NumberedClause]) -> DataFrame:
    """Replace ACTION by SQL with the same value, which stops the statement at a written row that violates a check."""
    violations = []
    for check in checks:
        # A CASE evaluates its branches in order, so a row is formatted for the message only if it violates a rule.
        shown_row = sample_row(plan.schema, check.expression)
        raise_error = raise_error_sql(StopReason.CONSTRAINT, plan.table, check.text, shown_row)
        violations.append(f"when not coalesce(({check.expression}), false) then {raise_error}")
    checked_action = f"case {' '.join(violations)} else {ACTION} end"
    is_written = _fires_any([number for number, _ in writing_clauses])
    return rows.withColumn(ACTION, F.expr(f"case when {is_written} then {checked_action} else {ACTION} end"))


def sample_row(schema: Struct, expression: str) -> str:
    """Return SQL for a string that shows a row, such as `id = 1, name = NULL`.

    Args:
        schema: The columns of the row. The string shows at most 12 of them.
        expression: The SQL of the violated rule. The string begins with the columns that this expression mentions.
    """
    words = {word.lower() for word in re.findall(r"\w+", expression)}
    mentioned_first = sorted(schema, key=lambda field: not set(re.findall(r"\w+", field.name.lower())) <= words)
    descriptions = map(_column_description, mentioned_first[:_SHOWN_COLUMNS])
    return f"concat_ws(', ', {', '.join(descriptions)})"


def _column_description(field: Field) -> str:
    """Return SQL for a string such as `name = Ann` or `name = NULL`. A long value is truncated."""
    column = backquote(field.name)
    value_text = f"hex({column})" if field.type == Primitive("binary") else f"cast({column} as string)"
    cut_text = f"concat(left({value_text}, {_SHOWN_CHARACTERS}), '…')"
    shown_text = f"if(char_length({value_text}) > {_SHOWN_CHARACTERS}, {cut_text}, {value_text})"
    return f"concat({string_literal(field.name + ' = ')}, coalesce({shown_text}, 'NULL'))"


def _with_generated_columns(rows: DataFrame, plan: RowPlan, writing_clauses: Sequence[NumberedClause]) -> DataFrame:
    """Compute generated columns from the other new values of a row, unless the clause that fires for the row assigns values to them.

    `rows`: the outcome rows. CLAUSE is the number of the clause that fires, and the new values have the names of the table's columns.
    """
    columns = {}
    for field in plan.schema:
        clauses_without_value = [number for number, clause in writing_clauses if field.name not in clause.values]
        if field.name in plan.rules.generated and clauses_without_value:
            columns[field.name] = F.expr(_generated_column_sql(rows, plan, field, clauses_without_value))
    return rows.withColumns(columns) if columns else rows


def _generated_column_sql(rows: DataFrame, plan: RowPlan, field: Field, clauses_without_value: Sequence[int]) -> str:
    """Return SQL for a generated column: computed if one of these clauses fires for the row, or else the value that the clause assigns.

    For example, if clause 1 assigns no value to the column day, which is generated as `date(time)`, the SQL is
    `cast(case when __rowmerge_clause in (1) then (date(time)) else day end as date)`.
    """
    expression = plan.rules.generated[field.name]
    computed_value = SqlValue(f"({expression})", _type_of(rows, expression))
    stored_value = store_assignment_sql(computed_value, field, plan.table)
    value = f"case when {_fires_any(clauses_without_value)} then {stored_value} else {backquote(field.name)} end"
    return f"cast({value} as {sql_name(field.type)})"  # the cast removes the metadata and the nullability of the expression's type


def _checks_of_generated_columns(plan: RowPlan, writing_clauses: Sequence[NumberedClause]) -> Iterator[Check]:
    """Yield a check for each generated column to which a clause assigns a value: it must equal the value of the generation expression."""
    for field in plan.schema:
        clause_numbers = [number for number, clause in writing_clauses if field.name in clause.values]
        if field.name in plan.rules.generated and clause_numbers:
            expression = plan.rules.generated[field.name]
            is_computed_value = f"{backquote(field.name)} <=> cast(({expression}) as {sql_name(field.type)})"
            yield Check(_generation_rule(field, expression), f"not {_fires_any(clause_numbers)} or {is_computed_value}")


def _fires_any(numbers: Sequence[int]) -> str:
    """Return a SQL condition that is true if a clause with one of these numbers fires for the row."""
    return f"{CLAUSE} in ({', '.join(map(str, numbers))})"


def check_rules(spark: SparkSession, table: str, schema: Struct, rules: Rules) -> None:
    """Check that the rules of a table are valid for its columns.

    Args:
        spark: The session that analyses the expressions.
        table: The name of the table, for messages.
        schema: The columns of the table.
        rules: The checks, generated columns and defaults.

    Raises:
        PlanError: A generated column reads itself or another generated column, or a default reads a column.
        UnknownColumn: An expression reads a column that the table lacks.
        TypeMismatch: The type of an expression is wrong for its rule.
        UnsupportedStatement: An expression is nondeterministic, has a subquery, or reads several rows.
    """
    named_checks = [check for check in rules.checks if check.name]
    # Only named checks and generated columns read columns of the table. Without them, the frame is not used.
    frame = empty_frame(spark, schema) if named_checks or rules.generated else spark.range(0)
    for check in named_checks:
        check_condition(frame, check)
    for name, expression in rules.generated.items():
        _check_generated_column(frame, schema, rules, schema.select((name,)).fields[0], expression)
    for name, expression in rules.defaults.items():
        check_default(spark, table, schema.select((name,)).fields[0], expression)


def check_condition(rows: DataFrame, check: Check) -> None:
    """Check that the expression of a check is a boolean condition on the columns of `rows`.

    Args:
        rows: Rows with the columns of the table. Spark analyses the expression, but does not read the rows.
        check: The check whose expression is tested.

    Raises:
        TypeMismatch: The expression is not boolean. For other errors, see `check_rules`.
    """
    type_ = _type_of_valid_expression(rows, check.expression, check.text)
    if type_ != Primitive("boolean"):
        raise TypeMismatch(f"{check.text} has the type {sql_name(type_)}, not boolean. Write a condition that is true for every valid row.")


def check_default(spark: SparkSession, table: str, field: Field, expression: str) -> None:
    """Check that a column can have a default: a constant that the column can store.

    Args:
        spark: The session that evaluates the default.
        table: The name of the table, for messages.
        field: The column that has the default.
        expression: SQL for the default.

    Raises:
        PlanError: The default reads a column. For other errors, see `check_rules`.
    """
    rule = f"the default of column `{field.name}`, {expression}"
    try:
        frame_without_columns = spark.range(0).select()
        type_ = _type_of_valid_expression(frame_without_columns, expression, rule)
    except UnknownColumn as error:
        raise PlanError(f"{rule} reads the column `{error.name}`. A default is a constant. Compute the value in the statement.") from None
    # This job evaluates the default, to raise the errors of its evaluation and of its store assignment now. The value is not used.
    spark.range(1).select(F.expr(store_assignment_sql(SqlValue(f"({expression})", type_), field, table))).collect()


def check_existing(rows: DataFrame, table: str, schema: Struct, check: Check) -> None:
    """Check that existing rows satisfy a new rule. One job reads all rows.

    Args:
        rows: The live rows of the table.
        table: The name of the table, for the message.
        schema: The columns of the table.
        check: The new rule.

    Raises:
        ConstraintViolated: Rows violate the rule. The error shows the number of these rows and one example.
    """
    violations = rows.where(f"not coalesce(({check.expression}), false)")  # as in Delta, a condition that is NULL is violated
    sample = F.min(F.expr(sample_row(schema, check.expression)))  # the same row in each run
    (result,) = violations.agg(F.count(F.lit(1)).alias("rows"), sample.alias("sample")).collect()
    if result["rows"]:
        raise ConstraintViolated(table, check.text, result["sample"], existing=result["rows"])


def _check_generated_column(frame: DataFrame, schema: Struct, rules: Rules, field: Field, expression: str) -> None:
    """Raise one of the errors of `check_rules` if a column cannot be generated from an expression."""
    rule = _generation_rule(field, expression)
    # A replacement of `current_timestamp()` and similar functions by any time changes only an expression that calls one of them.
    calls_time_function = replace_time_functions(expression, microseconds=0, columns=schema.names) != expression
    if calls_time_function:
        raise UnsupportedStatement(f"{rule} reads the current time, so its value would become wrong. Use a DEFAULT", text=expression)
    allowed_columns = frame.select(*(F.col(backquote(name)) for name in schema.names if name not in rules.generated))
    try:
        type_ = _type_of_valid_expression(allowed_columns, expression, rule)
    except UnknownColumn as error:
        raise _reference_error(error, schema, field, rule, allowed_columns.columns) from None
    if sql_name(type_) != sql_name(field.type):
        advice = f"Write GENERATED ALWAYS AS (cast({expression} as {sql_name(field.type)})), or give the column the type {sql_name(type_)}."
        raise TypeMismatch(f"{rule} has the type {sql_name(type_)}, but the column has the type {field.sql_type}. {advice}")


def _reference_error(error: UnknownColumn, schema: Struct, field: Field, rule: str, allowed: list[str]) -> UnknownColumn | PlanError:
    """Return the error for a generated column that reads an unknown column, itself, or another generated column."""
    column = schema.find(error.name.split(".")[0])
    if column is None:
        return UnknownColumn(error.name, allowed, where=rule)
    described = "itself" if column is field else f"the generated column `{column.name}`"
    return PlanError(f"{rule} reads {described}. A generated column can read only columns that are not generated.")


def _generation_rule(field: Field, expression: str) -> str:
    """Return the name that messages use for the rule of a generated column."""
    return f"GENERATED ALWAYS AS ({expression}) of column `{field.name}`"


def _type_of_valid_expression(rows: DataFrame, expression: str, rule: str) -> DataType:
    """Check the expression of a CHECK constraint, a generated column or a default, and return its type.

    The value must depend only on the columns of a single row.

    Args:
        rows: A frame with the columns that the expression may read.
        expression: SQL for the value.
        rule: The description of the rule, for messages.

    Raises:
        UnsupportedStatement: The expression has a nondeterministic function, a subquery, or a function of several rows.
        UnknownColumn: The expression reads a column that `rows` lacks.
    """
    if function := nondeterministic_function(expression):
        raise UnsupportedStatement(f"{rule} calls {function}(), which returns a different value each time. Remove it", text=expression)
    if _has_subquery(expression):
        raise UnsupportedStatement(f"{rule} has a subquery. A rule reads one row. Check other rows in the statement", text=expression)
    try:
        # Spark rejects aggregates, window functions and generators in a filter. `is null` turns a value of any type into a condition. The
        # second parentheses make a list such as `a, b` a single value instead of two arguments.
        rows.where(F.expr(f"(({expression})) is null"))
        return _type_of(rows, expression)
    except AnalysisException as error:
        raise _analysis_error(error, expression, rule, rows.columns) from None


def _type_of(rows: DataFrame, expression: str) -> DataType:
    """Return the type of an expression that reads the columns of `rows`."""
    (field,) = schema_of(rows.select(F.expr(f"({expression})").alias("value")))
    return field.type


def _has_subquery(expression: str) -> bool:
    """Return whether an expression contains a subquery. If sqlglot cannot parse the expression, search it for keywords instead."""
    tree = parse(expression)
    return has_query(tree) if tree is not None else _SUBQUERY.search(expression) is not None


def _analysis_error(error: AnalysisException, expression: str, rule: str, columns: list[str]) -> RowmergeError:
    """Return the error for a rule's expression that Spark rejects, such as for a function of several rows or an unknown column."""
    if (error.getCondition() or "").startswith(_MANY_ROWS):
        calls = (error.getMessageParameters() or {}).get("expressionList", expression)
        problem = f"{rule} uses {calls}, which reads several rows. A rule can read only one row. Remove aggregates and windows"
        return UnsupportedStatement(problem, text=expression)
    translated_error = rowmerge_error(error, expression, rule)
    return UnknownColumn(translated_error.name, columns, where=rule) if isinstance(translated_error, UnknownColumn) else translated_error
