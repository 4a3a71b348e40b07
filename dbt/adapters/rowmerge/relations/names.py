"""Names and texts as SQL writes them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

# Matches names without quotes; expressions and quoted names do not match.
PLAIN = re.compile(r"[^`().+*/|]+")


def quote(name: str) -> str:
    """Return the SQL identifier of a name."""
    return "`" + name.replace("`", "``") + "`"


def quote_column(name: str, columns: Collection[str]) -> str:
    """Quote a column's name, and return other SQL unchanged. Without `columns`, each text that may be a name is taken for a column."""
    is_column = name.lower() in {column.lower() for column in columns} if columns else PLAIN.fullmatch(name)
    return quote(name) if is_column else name


def literal(text: Any) -> str:
    """Return the SQL string literal of a text."""
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"


def as_text(value: Any) -> str:
    """Return a value from YAML as Spark, table properties and object stores expect it: `true`, `8`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
