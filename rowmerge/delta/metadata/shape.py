"""The shape of a Delta table (`TableShape`) and the rules for its rows, from the protocol and metadata of the table.

The rules come from CHECK constraints, invariants, generated columns and column defaults, which PROTOCOL.md describes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.features import GENERATION_EXPRESSION, INVARIANT, is_enabled
from rowmerge.delta.metadata.properties import (
    APPEND_ONLY,
    CHANGE_DATA_FEED,
    CONSTRAINT_PREFIX,
    DELETION_VECTORS,
    ROW_TRACKING,
    SYMLINK_MANIFESTS,
    DeltaSettings,
    is_true,
)
from rowmerge.delta.metadata.schema_changes import can_widen
from rowmerge.errors import UnsupportedTableFeature
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.rules import DEFAULT, Check, Rules, not_null_checks
from rowmerge.table.metadata.schema import Primitive, Struct
from rowmerge.table.metadata.shape import TableShape


def table_shape(name: str, storage: Storage, protocol: Protocol, metadata: Metadata) -> TableShape:
    """Return the schema, the locations, the settings and the capabilities of a Delta table in a form that all formats share.

    Args:
        name: The name of the table.
        storage: The storage of the table.
        protocol: The protocol of a version.
        metadata: The metadata of the same version.
    """
    return TableShape(
        name=name,
        location=storage.location,
        data_location=storage.location,
        schema=metadata.schema,
        stored_schema=metadata.stored_schema,
        by_field_id=metadata.mapping_mode == "id",
        partitioning=identities(metadata.partition_columns),
        partition_values_in_files=False,
        settings=DeltaSettings(metadata.configuration),
        filesystem_options=storage.filesystem_options,
        # PROTOCOL.md, Writer Requirements for AddCDCFile.
        change_data_location=f"{storage.location}/_change_data" if is_enabled(protocol, metadata, CHANGE_DATA_FEED) else None,
        # With row tracking, a copied or updated row must keep its row id, which a rewrite would not preserve.
        rewrite_blocker="rowTracking" if is_enabled(protocol, metadata, ROW_TRACKING) else None,
        # Engines that read symlink manifests ignore deletion vectors.
        supports_merge_on_read=is_enabled(protocol, metadata, DELETION_VECTORS) and not is_true(metadata.configuration, SYMLINK_MANIFESTS),
        can_widen=partial(can_widen, metadata),
        parse_rules=partial(_table_rules, name, protocol, metadata),
    )


def _table_rules(table: str, protocol: Protocol, metadata: Metadata) -> Rules:
    """Return the rules for the rows of a table. Raises UnsupportedTableFeature if the form of an invariant is unknown."""
    schema = metadata.schema
    partition_fields = schema.select(metadata.partition_columns)
    return Rules(
        checks=(*not_null_checks(schema), *_invariants(table, schema, parents=()), *_constraints(metadata)),
        generated=generation_expressions(protocol, schema),
        defaults=_expressions(schema, DEFAULT),
        append_only=is_enabled(protocol, metadata, APPEND_ONLY),
        # Delta cannot distinguish an empty string from null in a partition column.
        empty_is_null=frozenset(field.name for field in partition_fields if field.type == Primitive("string")),
    )


def generation_expressions(protocol: Protocol, schema: Struct) -> dict[str, str]:
    """Return the expressions of generated columns, by column. Without the table feature, writers do not apply them."""
    return _expressions(schema, GENERATION_EXPRESSION) if protocol.supports("generatedColumns") else {}


def _expressions(schema: Struct, key: str) -> dict[str, str]:
    """Return the SQL expressions that columns have under a metadata key, by column name."""
    return {field.name: str(field.metadata[key]) for field in schema if key in field.metadata}


def _constraints(metadata: Metadata) -> Iterator[Check]:
    """Yield the CHECK constraints that the table's properties define."""
    for name, expression in sorted(metadata.configuration.items()):
        if name.lower().startswith(CONSTRAINT_PREFIX):
            constraint = name[len(CONSTRAINT_PREFIX) :]
            yield Check(f"{constraint} CHECK ({expression})", expression, constraint)


def _invariants(table: str, schema: Struct, parents: tuple[str, ...]) -> Iterator[Check]:
    """Yield the invariants of columns and of fields of structs. `parents`: the path of the struct whose fields are `schema`."""
    for field in schema:
        path = (*parents, field.name)
        if INVARIANT in field.metadata:
            expression = _invariant_expression(table, ".".join(path), field.metadata[INVARIANT])
            yield Check(f"({expression}), an invariant of column `{'.'.join(path)}`", expression)
        if isinstance(field.type, Struct):
            yield from _invariants(table, field.type, path)


def _invariant_expression(table: str, column: str, text: object) -> str:
    """Return the SQL expression in `text`, the JSON of `delta.invariants`. Raises UnsupportedTableFeature if its form is unknown."""
    try:
        return str(decode_json(str(text))["expression"]["expression"])
    except (ValueError, KeyError, TypeError):
        advice = f"The invariant of the column {column} has an unknown form: {text}. Copy the rows into a table without it."
        raise UnsupportedTableFeature(table, "invariants", action="write to", advice=advice) from None
