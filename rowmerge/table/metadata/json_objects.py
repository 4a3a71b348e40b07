"""JSON of metadata files: whatever is wrong with a text becomes an error that names its file."""

from __future__ import annotations

import json
from typing import Any

from rowmerge.errors import CorruptLog

DEEPEST = 128
"""The deepest nesting of objects and arrays that is read; serde_json, on which delta-rs and DuckDB build, has the same limit."""
_CONTAINERS = frozenset({dict, list})


def parse_object(text: str | bytes, path: str, *, line: int | None = None) -> dict[str, Any]:
    """Parse a JSON object. Raises CorruptLog with the path of its file, and with the line if the file has one object per line."""
    try:
        value = decode_json(text)
    except ValueError as error:
        raise CorruptLog(path, f"it is no JSON ({error})", line=line) from error
    if not isinstance(value, dict):
        raise CorruptLog(path, "it is no JSON object", line=line)
    return value


def decode_json(text: str | bytes) -> Any:
    """Parse a JSON text. Raises ValueError, also if objects and arrays are nested deeper than DEEPEST."""
    try:
        value = json.loads(text)
    except RecursionError:
        value = None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, character {error.pos + 1}") from error
    else:
        if not _is_nested_deeper(value):
            return value
    raise ValueError(f"objects and arrays are nested more than {DEEPEST} levels deep")


def check_texts(value: Any) -> None:
    """Raise ValueError if a text in a JSON value cannot be stored, because it holds half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair stands alone in a text") from None


def _is_nested_deeper(value: Any) -> bool:
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(DEEPEST):
        inner = (part for outer in level for part in (outer.values() if type(outer) is dict else outer))
        level = [part for part in inner if type(part) in _CONTAINERS]
    return bool(level)
