"""What a table's metadata may say that cannot be read, by its name: types, transforms and keys of format version 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES = ("variant", "geometry", "geography")


def encryption(content: Mapping[str, Any]) -> str | None:
    """The feature, when the table's files are encrypted."""
    return "encryption" if content.get("encryption-keys") else None


def unread_feature(content: Any) -> str | None:
    """The first feature for which metadata cannot be parsed, as far as it can be told."""
    if not isinstance(content, Mapping):
        return None
    for schema in content.get("schemas", ()):
        for column, name in _types(schema, ""):
            if name.startswith(_TYPES):
                return f"type {name} of the column {column}"
    fields = [part for spec in content.get("partition-specs", ()) for part in spec.get("fields", ())]
    fields += [part for order in content.get("sort-orders", ()) for part in order.get("fields", ())]
    return next(
        (f"the transform {part.get('transform')} of several columns" for part in fields if len(part.get("source-ids", ())) > 1), None
    )


def _types(type_: Any, path: str) -> Iterator[tuple[str, str]]:
    """The names of types at any depth, with the paths of their columns."""
    if isinstance(type_, str):
        yield path, type_
    elif isinstance(type_, Mapping):
        for field in type_.get("fields", ()):
            name = str(field.get("name"))
            yield from _types(field.get("type"), f"{path}.{name}" if path else name)
        for part in ("element", "key", "value"):
            yield from _types(type_.get(part), f"{path}.{part}")
