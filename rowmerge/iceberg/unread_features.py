"""What a table's metadata may say that cannot be read, by its name: types, transforms and keys of format version 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES = ("variant", "geometry", "geography")


def encryption(content: Mapping[str, Any]) -> str | None:
    """The feature, when the table's files are encrypted."""
    return "encryption" if content.get("encryption-keys") else None


def unread_feature(content: Mapping[str, Any]) -> str | None:
    """The first feature for which metadata cannot be parsed, as far as it can be told."""
    for schema in _objects(content, "schemas"):
        for column, name in _types(schema, ""):
            if name.startswith(_TYPES):
                return f"type {name} of the column {column}"
    parts = (part for name in ("partition-specs", "sort-orders") for spec in _objects(content, name) for part in _objects(spec, "fields"))
    sources = ((part, part.get("source-ids")) for part in parts)
    return next(
        (f"the transform {part.get('transform')} of several columns" for part, ids in sources if isinstance(ids, list) and len(ids) > 1),
        None,
    )


def _objects(value: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """The objects in a list, which may be anything in metadata that cannot be parsed."""
    items = value.get(key)
    return (item for item in items if isinstance(item, Mapping)) if isinstance(items, list) else iter(())


def _types(type_: Any, path: str) -> Iterator[tuple[str, str]]:
    """The names of types at any depth, with the paths of their columns."""
    if isinstance(type_, str):
        yield path, type_
    elif isinstance(type_, Mapping):
        for field in _objects(type_, "fields"):
            name = str(field.get("name"))
            yield from _types(field.get("type"), f"{path}.{name}" if path else name)
        for part in ("element", "key", "value"):
            yield from _types(type_.get(part), f"{path}.{part}")
