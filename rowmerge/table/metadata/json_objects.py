"""Parse the JSON of metadata files. Every parse error becomes an error that names the file."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

from rowmerge.errors import CorruptLog

MAX_DEPTH = 128
"""The maximum nesting depth of objects and arrays. serde_json, which delta-rs and DuckDB use, has the same limit."""
_TOO_DEEP_MESSAGE = f"objects and arrays are nested more than {MAX_DEPTH} levels deep"
_CONTAINERS = frozenset({dict, list})


def parse_object(text: str | bytes, path: str, *, line: int | None = None) -> dict[str, Any]:
    """Parse a JSON object from a metadata file.

    Args:
        text: The JSON, as a string or as UTF-8 bytes.
        path: The path of the file, for the error.
        line: The number of the line, for the error. None if the whole file is one object.

    Raises:
        CorruptLog: `text` is not a JSON object, or it is nested more than MAX_DEPTH levels deep.
    """
    try:
        value = decode_json(text)
    except ValueError as error:
        raise CorruptLog(path, f"it is not valid JSON ({error})", line=line) from error
    if not isinstance(value, dict):
        raise CorruptLog(path, "it is not a JSON object", line=line)
    return value


def decode_json(text: str | bytes) -> Any:
    """Parse JSON from a string or from UTF-8 bytes.

    Raises:
        ValueError: `text` is not valid JSON, or objects and arrays are nested more than MAX_DEPTH levels deep.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, character {error.pos + 1}") from error
    except RecursionError:
        raise ValueError(_TOO_DEEP_MESSAGE) from None
    if _is_nested_deeper(value):
        raise ValueError(_TOO_DEEP_MESSAGE)
    return value


def check_texts(value: Any) -> None:
    """Check that every string in a JSON value can be encoded in UTF-8.

    Raises:
        ValueError: A string contains an unpaired surrogate.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a string contains an unpaired surrogate") from None


def _is_nested_deeper(value: Any) -> bool:
    """Return whether a JSON value is nested more than MAX_DEPTH levels deep. Visit objects and arrays level by level."""
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(MAX_DEPTH):
        members = chain.from_iterable(container.values() if type(container) is dict else container for container in level)
        level = [member for member in members if type(member) in _CONTAINERS]
    return bool(level)
