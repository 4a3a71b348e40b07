"""Delta's constraints, invariants, generated columns and defaults, as the engine's rules (PROTOCOL.md, the features of these names)."""

from __future__ import annotations

from collections.abc import Iterator

from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.features import is_on
from rowmerge.delta.metadata.properties import CONSTRAINT_PREFIX
from rowmerge.errors import UnsupportedTableFeature
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.rules import DEFAULT, Check, Rules, not_null_checks
from rowmerge.table.metadata.schema import Primitive, Struct

INVARIANT = "delta.invariants"
GENERATION_EXPRESSION = "delta.generationExpression"


def rules_of(table: str, protocol: Protocol, metadata: Metadata) -> Rules:
    """The rules of a table. Raises UnsupportedTableFeature for an invariant that is none of the protocol's.

    Generation expressions count only where the protocol has the feature: older writers carried them along as mere metadata.
    """
    schema = metadata.schema
    checks = [*_invariants(table, schema, ()), *_constraints(metadata)]
    generated = {f.name: str(f.metadata[GENERATION_EXPRESSION]) for f in schema if GENERATION_EXPRESSION in f.metadata}
    strings = (f.name for f in schema.select(metadata.partition_columns) if f.type == Primitive("string"))
    return Rules(
        checks=(*not_null_checks(schema), *checks),
        generated=generated if protocol.supports("generatedColumns") else {},
        defaults={f.name: str(f.metadata[DEFAULT]) for f in schema if DEFAULT in f.metadata},
        append_only=protocol.supports("appendOnly") and is_on(metadata, "delta.appendOnly"),
        empty_is_null=frozenset(strings),
    )


def _constraints(metadata: Metadata) -> Iterator[Check]:
    for name, expression in sorted(metadata.configuration.items()):
        if name.lower().startswith(CONSTRAINT_PREFIX):
            constraint = name[len(CONSTRAINT_PREFIX) :]
            yield Check(f"{constraint} CHECK ({expression})", expression, constraint)


def _invariants(table: str, schema: Struct, above: tuple[str, ...]) -> Iterator[Check]:
    for field in schema:
        path = (*above, field.name)
        if INVARIANT in field.metadata:
            expression = _invariant(table, ".".join(path), field.metadata[INVARIANT])
            yield Check(f"({expression}), an invariant of column `{'.'.join(path)}`", expression)
        if isinstance(field.type, Struct):
            yield from _invariants(table, field.type, path)


def _invariant(table: str, column: str, text: object) -> str:
    try:
        return str(decode_json(str(text))["expression"]["expression"])
    except (ValueError, KeyError, TypeError):
        advice = f"The invariant of its column {column} is none that the protocol knows: {text}. Copy the rows into a table without it."
        raise UnsupportedTableFeature(table, "invariants", action="write to", advice=advice) from None
