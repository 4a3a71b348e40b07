"""The shape of a Delta table, from its protocol and metadata."""

from __future__ import annotations

from functools import partial

from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.features import is_on, keeps_change_rows
from rowmerge.delta.metadata.properties import DELETION_VECTORS, DeltaSettings
from rowmerge.delta.metadata.row_tracking import FEATURE, preserves_row_ids
from rowmerge.delta.metadata.rules import table_rules
from rowmerge.delta.metadata.widening import allows_widening, is_wider
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.schema import DataType
from rowmerge.table.metadata.shape import TableShape

CHANGE_ROWS = "_change_data"


def table_shape(name: str, storage: Storage, protocol: Protocol, metadata: Metadata) -> TableShape:
    """Return the shape of the table `name` in a storage with this protocol and metadata."""
    location = storage.location
    return TableShape(
        name=name,
        location=location,
        data_location=location,
        schema=metadata.schema,
        stored_schema=metadata.stored_schema,
        by_field_id=metadata.mapping_mode == "id",
        partitioning=identities(metadata.partition_columns),
        partition_values_in_files=False,
        settings=DeltaSettings(metadata.configuration),
        filesystem_options=storage.configuration.filesystem_options(),
        change_data_location=f"{location}/{CHANGE_ROWS}" if keeps_change_rows(protocol, metadata) else None,
        rewrite_blocker=FEATURE if preserves_row_ids(protocol, metadata) else None,
        supports_merge_on_read=protocol.supports("deletionVectors") and is_on(metadata, DELETION_VECTORS),
        can_widen=partial(_can_widen, metadata),
        parse_rules=partial(table_rules, name, protocol, metadata),
    )


def _can_widen(metadata: Metadata, old: DataType, new: DataType) -> bool:
    return allows_widening(metadata) and is_wider(new, old)
