"""Names and texts as SQL writes them."""

from __future__ import annotations

from typing import Any


def quote(name: str) -> str:
    """A SQL identifier that means exactly this name."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: Any) -> str:
    """A SQL string that means exactly this text."""
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"
