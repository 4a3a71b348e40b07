"""Updates applied to a table's metadata: as pyiceberg does it, and the step to format version 3, which it does not know."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.update import TableUpdate, UpgradeFormatVersionUpdate, update_table_metadata
from pyiceberg.typedef import IcebergBaseModel

ROW_LINEAGE = 3
"""The format version from which on every row has an id, and deleted rows are in deletion vectors."""


def updated(base: TableMetadata, updates: Sequence[TableUpdate], *, location: str | None = None) -> TableMetadata:
    """The metadata with these updates; `location`: the absolute path of the file of `base`, which its log is to name.

    Raises ValueError for an update that does not fit.
    """
    upgrades = [update for update in updates if _is_upgrade(update)]
    others = tuple(update for update in updates if not _is_upgrade(update))
    if upgrades and base.format_version < ROW_LINEAGE:
        base = _upgraded(base)
    return update_table_metadata(base, others, metadata_location=location) if others or not upgrades else base


def next_row_id(metadata: TableMetadata) -> int | None:
    """The id that the table's next row gets, None before format version 3."""
    return (metadata.next_row_id or 0) if isinstance(metadata, TableMetadataV3) else None


def serialized(metadata: TableMetadata) -> bytes:
    """The bytes of a metadata file."""
    # Of format version 3 pyiceberg's own classes say that they cannot; what their bases do is all that there is to it.
    return IcebergBaseModel.model_dump_json(metadata).encode()


def _is_upgrade(update: TableUpdate) -> bool:
    return isinstance(update, UpgradeFormatVersionUpdate) and update.format_version == ROW_LINEAGE


def _upgraded(base: TableMetadata) -> TableMetadataV3:
    """No row has an id yet: the next snapshot gives them theirs."""
    return TableMetadataV3(**{**base.model_dump(), "format-version": ROW_LINEAGE, "next-row-id": 0})
