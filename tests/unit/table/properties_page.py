"""docs/properties.md: its text, with the tables from the registries of properties. As a program, it prints the page."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rowmerge.delta.metadata.features import UNSUPPORTED_FEATURES, WRITABLE_FEATURES
from rowmerge.delta.metadata.registry import DELTA_PROPERTIES
from rowmerge.iceberg.metadata.registry import ICEBERG_PROPERTIES
from rowmerge.table.metadata.property_registry import Effect, PropertyRegistry, TableProperty
from rowmerge.table.metadata.settings import OWN_PROPERTIES

TEXT = Path(__file__).with_suffix(".md")
_REGISTRIES = (DELTA_PROPERTIES, ICEBERG_PROPERTIES)


def document() -> str:
    """Return the text of the page."""
    own_names = {property_.name for property_ in OWN_PROPERTIES}
    delta, iceberg = ((p for p in _with_effects(registry, Effect.HONOURED) if p.name not in own_names) for registry in _REGISTRIES)
    unsupported = "\n".join(f"- `{feature}`: {reason}" for feature, reason in UNSUPPORTED_FEATURES.items())
    fields = {
        "both": _honoured(OWN_PROPERTIES),
        "delta": _honoured(delta),
        "iceberg": _honoured(iceberg),
        "stored": _by_reason(p for registry in _REGISTRIES for p in _with_effects(registry, Effect.OTHER_ENGINES)),
        "rejected": _by_reason(p for registry in _REGISTRIES for p in _with_effects(registry, Effect.MANAGED, Effect.REJECTED)),
        "features": ", ".join(f"`{feature}`" for feature in sorted(WRITABLE_FEATURES)),
        "unsupported": unsupported,
    }
    text = TEXT.read_text(encoding="utf-8")
    for name, content in fields.items():
        text = text.replace(f"{{{name}}}", content)
    return text


def _with_effects(registry: PropertyRegistry, *effects: Effect) -> Iterator[TableProperty[Any]]:
    return (property_ for property_ in registry.properties if property_.effect in effects)


def _honoured(properties: Iterable[TableProperty[Any]]) -> str:
    """Return a table of properties in the order of their names."""
    rows = [
        f"| `{property_.name}` | {property_.text} | {property_.values.description} | {_default(property_)} | {property_.since} |"
        for property_ in sorted(properties, key=lambda property_: property_.name)
    ]
    return "\n".join(["| property | effect | values | default | since |", "| --- | --- | --- | --- | --- |", *rows])


def _default(property_: TableProperty[Any]) -> str:
    if property_.name == "rowmerge.write.mode":
        return "`auto` (Delta), `copy-on-write` (Iceberg)"
    return "" if property_.default is None else f"`{property_.default}`"


def _by_reason(properties: Iterable[TableProperty[Any]]) -> str:
    """Return a table of reasons, each with its properties."""
    names_by_reason: dict[str, list[str]] = {}
    for property_ in properties:
        names_by_reason.setdefault(property_.text, []).append(f"`{property_.name}`")
    rows = [f"| {', '.join(names)} | {reason} |" for reason, names in names_by_reason.items()]
    return "\n".join(["| properties | reason |", "| --- | --- |", *rows])


if __name__ == "__main__":
    sys.stdout.write(document())
