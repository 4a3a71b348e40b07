"""Identifiers and string literals in SQL."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

# Matches names without quotes; expressions and quoted names do not match.
PLAIN = re.compile(r"[^`().+*/|]+")


def quote(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def lower_name(name: str) -> str:
    """Return a column's name without quotes, in lower case."""
    return name.strip("`\"'").replace("``", "`").lower()


def quote_column(name: str, columns: Collection[str]) -> str:
    """Return the name of a column as a quoted identifier, and other SQL unchanged.

    Args:
        name: The name of a column, or other SQL.
        columns: The names of the table's columns. If empty, every string that may be a name is treated as a column.
    """
    is_column = name.lower() in {column.lower() for column in columns} if columns else PLAIN.fullmatch(name)
    return quote(name) if is_column else name


def literal(text: Any) -> str:
    """Return a string as a SQL string literal."""
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"


def as_text(value: Any) -> str:
    """Return a YAML value as a string, such as `true` or `8`, for Spark settings, table properties and storage options."""
    return str(value).lower() if isinstance(value, bool) else str(value)
