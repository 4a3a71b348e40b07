"""Checks of table metadata beyond those of pyiceberg: required fields, numbers in range, and ids that name one thing each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from rowmerge.iceberg.metadata.defaults import default_text
from rowmerge.iceberg.metadata.locations import is_absolute

_LONG = range(-(2**63), 2**63)
_FIELD_IDS = range(1, 2**31)
_REQUIRED = (
    "table-uuid",
    "location",
    "last-sequence-number",
    "last-updated-ms",
    "last-column-id",
    "schemas",
    "current-schema-id",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
)
"""What metadata has from format version 2 on; pyiceberg invents some of it, even the table's identity."""


def check_required_fields(content: Mapping[str, Any]) -> None:
    """Raise ValueError for JSON of metadata that lacks a required field."""
    if content.get("format-version") != 1:
        for name in _REQUIRED:
            if content.get(name) is None:
                raise ValueError(f"it has no {name}")


def check_metadata(metadata: TableMetadata) -> None:
    """Raise an error for a number that is out of range, an id that names nothing or two things, and a default of another type.

    It is a ValueError, or what Python raises for a value of another type.
    """
    for name, number in _numbers(metadata):
        if number is not None and number not in _LONG:
            raise ValueError(f"{name} has more than 64 bits")
    snapshots = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    for name, reference in metadata.refs.items():
        if reference.snapshot_id not in snapshots:
            raise ValueError(f"the reference {name} names the snapshot {reference.snapshot_id}, which is not there")
    for snapshot in metadata.snapshots:
        if not is_absolute(snapshot.manifest_list):
            raise ValueError(f"the manifest list {snapshot.manifest_list!r:.80} of the snapshot {snapshot.snapshot_id} is no absolute path")
    currents = {"current-schema-id": metadata.schema, "default-spec-id": metadata.spec, "default-sort-order-id": metadata.sort_order}
    for name, current in currents.items():
        try:
            current()
        except StopIteration:
            raise ValueError(f"{name} names nothing") from None
    for schema in metadata.schemas:
        _check_fields(schema.as_struct(), set())
        for field in schema.fields:
            for default in (field.initial_default, field.write_default):
                if default is not None:
                    default_text(default, field.field_type)


def _numbers(metadata: TableMetadata) -> Iterator[tuple[str, int | None]]:
    yield "last-updated-ms", metadata.last_updated_ms
    yield "last-sequence-number", getattr(metadata, "last_sequence_number", None)  # which version 1 does not have
    for snapshot in metadata.snapshots:
        yield "snapshot-id", snapshot.snapshot_id
        yield "parent-snapshot-id", snapshot.parent_snapshot_id
        yield "sequence-number", snapshot.sequence_number
        yield "timestamp-ms", snapshot.timestamp_ms
    for entry in metadata.snapshot_log:
        yield "timestamp-ms of the snapshot log", entry.timestamp_ms


def _check_fields(type_: IcebergType, ids: set[int]) -> None:
    """Check the ids and the names of fields; `ids` are those of the schema so far."""
    match type_:
        case StructType():
            names = [field.name for field in type_.fields]
            if len(set(names)) < len(names):
                raise ValueError(f"a schema has two fields of one name in {names!r:.80}")
            inner = [(field.field_id, field.field_type) for field in type_.fields]
        case ListType():
            inner = [(type_.element_id, type_.element_type)]
        case MapType():
            inner = [(type_.key_id, type_.key_type), (type_.value_id, type_.value_type)]
        case _:
            return
    for id_, inner_type in inner:
        if id_ in ids or id_ not in _FIELD_IDS:
            raise ValueError(f"a schema has the field id {id_} twice, or out of range")
        ids.add(id_)
        _check_fields(inner_type, ids)
