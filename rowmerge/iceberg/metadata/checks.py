"""Checks of table metadata beyond those of pyiceberg: required fields, numbers in range, and ids that name one thing each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, StructType

from rowmerge.iceberg.metadata.defaults import default_text
from rowmerge.iceberg.metadata.locations import is_absolute
from rowmerge.iceberg.metadata.types import nested_fields

_LONG = range(-(2**63), 2**63)
_FIELD_IDS = range(1, 2**31)
_REQUIRED = (
    "table-uuid location last-sequence-number last-updated-ms last-column-id schemas current-schema-id partition-specs "
    "default-spec-id last-partition-id sort-orders default-sort-order-id".split()
)
"""The fields that the specification requires from format version 2 on. pyiceberg invents some of them, even the table's UUID."""


def check_required_fields(content: Mapping[str, Any]) -> None:
    """Raise ValueError for JSON of metadata that lacks a required field."""
    if content.get("format-version") == 1:
        return
    for name in _REQUIRED:
        if content.get(name) is None:
            raise ValueError(f"it has no {name}")


def check_metadata(metadata: TableMetadata) -> None:
    """Check that numbers are in range, that ids are unique and resolve, and that defaults have the type of their column.

    Raises ValueError, or the error that Python raises for a value of another type.
    """
    for name, number in _numbers(metadata):
        if number is not None and number not in _LONG:
            raise ValueError(f"{name} has more than 64 bits")
    _check_snapshots(metadata)
    _check_current_ids(metadata)
    for schema in metadata.schemas:
        _check_field_ids(schema.as_struct(), set())
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


def _check_snapshots(metadata: TableMetadata) -> None:
    """Check that each reference names a snapshot, and that each snapshot has an absolute path of its manifest list."""
    snapshot_ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    for name, reference in metadata.refs.items():
        if reference.snapshot_id not in snapshot_ids:
            raise ValueError(f"the reference {name} names the snapshot {reference.snapshot_id}, which is not there")
    for snapshot in metadata.snapshots:
        if not is_absolute(snapshot.manifest_list):
            raise ValueError(f"the manifest list {snapshot.manifest_list!r:.80} of the snapshot {snapshot.snapshot_id} is no absolute path")


def _check_current_ids(metadata: TableMetadata) -> None:
    getters = {"current-schema-id": metadata.schema, "default-spec-id": metadata.spec, "default-sort-order-id": metadata.sort_order}
    for name, get_current in getters.items():
        try:
            get_current()
        except StopIteration:  # pyiceberg takes the first match of the id with next()
            raise ValueError(f"{name} names nothing") from None


def _check_field_ids(type_: IcebergType, seen_ids: set[int]) -> None:
    """Check the ids and names of fields at any depth, and add the ids to `seen_ids`, those of the schema so far."""
    if isinstance(type_, StructType):
        names = [field.name for field in type_.fields]
        if len(set(names)) < len(names):
            raise ValueError(f"a schema has two fields of one name in {names!r:.80}")
    for field in nested_fields(type_):
        if field.field_id in seen_ids or field.field_id not in _FIELD_IDS:
            raise ValueError(f"a schema has the field id {field.field_id} twice, or out of range")
        seen_ids.add(field.field_id)
        _check_field_ids(field.field_type, seen_ids)
