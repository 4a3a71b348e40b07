"""Names and texts as SQL writes them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

# What may be a name, and is no expression and no quoted name.
PLAIN = re.compile(r"[^`().+*/|]+")


def quote(name: str) -> str:
    """A SQL identifier that means exactly this name."""
    return "`" + name.replace("`", "``") + "`"


def quote_column(name: str, columns: Collection[str]) -> str:
    """A column's name quoted, and what is none as it is written: quoted already, or a field of a struct. No columns: they are not known."""
    is_column = name.lower() in {column.lower() for column in columns} if columns else PLAIN.fullmatch(name)
    return quote(name) if is_column else name


def literal(text: Any) -> str:
    """A SQL string that means exactly this text."""
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"
