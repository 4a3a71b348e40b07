"""SQL texts of expressions, conditions and constants in calls of the Python API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from rowmerge.errors import PlanError
from rowmerge.spark.source.local_rows import is_column
from rowmerge.sql import parse_column_name, parse_whole_expression
from rowmerge.table.metadata.schema import backquote, string_literal

Expression = str | bool | int | float | Decimal | date | datetime | bytes | UUID | np.generic | None
"""A value in a call of the Python API: SQL text, or a Python value other than a string. `literal` makes SQL text of a string."""


def literal(value: Expression) -> str:
    """Return a Python value as SQL text: `literal("open")` returns `'open'`.

    A datetime without a time zone becomes a `timestamp_ntz`.

    Args:
        value: A string, number, boolean, date, datetime, binary value, UUID, scalar of NumPy, or None for NULL.

    Raises:
        PlanError: SQL has no constant of this type.
    """
    match value:
        case np.bool_() | np.integer() | np.floating():
            return literal(value.item())
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return string_literal(value)
        case int():
            return _number(str(value))
        case float():
            return _number(f"{value!r}D") if math.isfinite(value) else f"double('{value}')"
        case Decimal() if value.is_finite():
            return _number(f"{value:f}BD")
        case bytes():
            return f"X'{value.hex()}'"
        case UUID():
            return string_literal(str(value))
        case datetime() | date() if value == value:  # pandas' NaT is not equal to itself
            return _time(value)
    problem = f"{value!r} of the type {type(value).__name__} is not a constant of SQL"
    raise PlanError(f"{problem}. Write the value as SQL text, or put it into the rows of the source.")


def _number(text: str) -> str:
    """Return a number, in parentheses if it is negative, because two minus signs would begin a comment."""
    return f"({text})" if text.startswith("-") else text


def _time(value: date) -> str:
    if not isinstance(value, datetime):
        return f"date'{value.isoformat()}'"
    kind = "timestamp_ntz" if value.tzinfo is None else "timestamp"
    return f"{kind}'{value.isoformat(sep=' ', timespec='microseconds')}'"


def expression_text(value: Expression) -> str:
    """Return the SQL text of a value in parentheses, so that it stays one expression of the statement.

    Args:
        value: SQL text, or a Python value other than a string.

    Raises:
        PlanError: The value is a Column of PySpark, which has no SQL text, or of a type without constants.
        Unparsable: The text is empty, or a bracket, string or comment in it is not closed.
    """
    if is_column(value):
        problem = f"{value!r} is a Column of PySpark, whose SQL text is not public"
        raise PlanError(f"{problem}. Write SQL text, such as 'source.amount + 1', or compute the column in the source.")
    if not isinstance(value, str):
        return literal(value)
    text = parse_whole_expression(value)
    return text if text.upper() == "DEFAULT" else f"({text})"


def condition_text(keyword: str, condition: str | None) -> str:
    """Return ` WHERE (condition)`, or an empty text without a condition.

    Args:
        keyword: The word before the condition: WHERE or AND.
        condition: The condition, or None.

    Raises:
        PlanError: The condition is a Column of PySpark.
        Unparsable: A bracket, string or comment in the condition is not closed.
    """
    return "" if condition is None else f" {keyword} {expression_text(condition)}"


def column_text(name: str) -> str:
    """Return the name of a column, or of a field in it, with each part in backquotes.

    Raises:
        PlanError: The name is not a string.
        Unparsable: The string is not the name of a column.
    """
    if not isinstance(name, str):
        raise PlanError(f"{name!r} is not the name of a column. Write the name as in SQL: 'amount', 'place.city' or '`order id`'.")
    return ".".join(map(backquote, parse_column_name(name)))


def assignments(values: Mapping[str, Expression]) -> dict[str, str]:
    """Return the SQL texts of values by the quoted names of their columns.

    Args:
        values: The value of each column, by the column's name as in SQL.

    Raises:
        PlanError: There are no values, a name is not a string, or a value is a Column of PySpark.
        Unparsable: A name or an expression is not valid.
    """
    if not isinstance(values, Mapping) or not values:
        raise PlanError(f"{values!r} assigns no column. Pass a dictionary of SQL texts by column, such as {{'amount': 'amount + 1'}}.")
    return {column_text(name): expression_text(value) for name, value in values.items()}


def set_list(values: Mapping[str, Expression]) -> str:
    """Return `SET column = value, …`. Raises the errors of `assignments`."""
    return "SET " + ", ".join(f"{column} = {value}" for column, value in assignments(values).items())


def properties_list(properties: Mapping[str, Any]) -> str:
    """Return `('key' = 'value', …)`. Booleans are written as `true` and `false`."""
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in properties.items()}
    return "(" + ", ".join(f"{string_literal(key)} = {string_literal(text)}" for key, text in texts.items()) + ")"
