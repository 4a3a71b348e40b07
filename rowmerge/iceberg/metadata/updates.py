"""Apply updates to metadata with pyiceberg, but without copies of its histories, and upgrade to format version 3, which pyiceberg lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar

from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import TableUpdate, UpgradeFormatVersionUpdate, update_table_metadata
from pyiceberg.typedef import IcebergBaseModel

from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.properties import PREVIOUS_VERSIONS
from rowmerge.table.metadata.settings import whole_number

INITIAL_DEFAULTS = 3
"""The first format version with column defaults."""
ROW_LINEAGE = 3
"""The first format version with row ids and deletion vectors."""

T = TypeVar("T")
_HISTORIES = ("snapshots", "snapshot_log", "metadata_log")


class _SharedEntries(list[T]):
    """The entries of a history, which metadata shares with the metadata before it. Entries never change, so a deep copy is the list itself.

    pyiceberg copies metadata deeply after every update. In a table of 400 snapshots, that was most of the time of a commit.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> _SharedEntries[T]:
        return self

    def __add__(self, other: Any) -> _SharedEntries[Any]:
        return _SharedEntries([*self, *other])

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        entries: Any = super().__getitem__(index)
        return _SharedEntries(entries) if isinstance(index, slice) else entries


def apply_updates(base: TableMetadata, updates: Sequence[TableUpdate], *, location: str | None = None) -> TableMetadata:
    """Return the metadata after updates; `location` is the absolute path of the metadata file of `base`, for the metadata log.

    Raises ValueError for an update that does not fit, ConfigurationError for an invalid length of the metadata log in the properties.
    """
    pyiceberg_updates = tuple(update for update in updates if not _adds_row_lineage(update))
    if len(pyiceberg_updates) < len(updates):
        # pyiceberg cannot upgrade to format version 3, so this is done here, and first, because other updates may need the version.
        base = _with_row_lineage(base)
        if not pyiceberg_updates:
            return base
    uncopied_base = base.model_copy(update={name: _SharedEntries(getattr(base, name)) for name in _HISTORIES})
    try:
        return update_table_metadata(uncopied_base, pyiceberg_updates, metadata_location=location)
    except ValueError:
        whole_number(base.properties, PREVIOUS_VERSIONS, 100)  # raises ConfigurationError if another engine wrote an invalid value
        raise


def _adds_row_lineage(update: TableUpdate) -> bool:
    return isinstance(update, UpgradeFormatVersionUpdate) and update.format_version == ROW_LINEAGE


def _with_row_lineage(metadata: TableMetadata) -> TableMetadata:
    """Return the metadata in format version 3. No row has an id: the next snapshot assigns them."""
    if metadata.format_version >= ROW_LINEAGE:
        return metadata
    return TableMetadataV3(**{**metadata.model_dump(), "format-version": ROW_LINEAGE, "next-row-id": 0})


def next_row_id(metadata: TableMetadata) -> int | None:
    """Return the id of the table's next row, or None before format version 3."""
    return (metadata.next_row_id or 0) if isinstance(metadata, TableMetadataV3) else None


def serialize_metadata(metadata: TableMetadata) -> bytes:
    """Return the bytes of a metadata file."""
    # pyiceberg's class of format version 3 refuses to serialize itself; the method of its base class is complete.
    return IcebergBaseModel.model_dump_json(metadata).encode()


DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_METADATA_FILE = re.compile(r"metadata/[^/]+\.metadata\.json(\.gz)?")


def gapless_snapshot_log(before: Sequence[SnapshotLogEntry], after: TableMetadata) -> list[SnapshotLogEntry]:
    """Return the snapshot log without the entries before a removed snapshot (Iceberg spec, snapshot-log).

    Otherwise an older snapshot would be taken for the current one of the time when the removed one was current.
    """
    live_ids = {snapshot.snapshot_id for snapshot in after.snapshots}
    last_gap = max((index for index, entry in enumerate(before) if entry.snapshot_id not in live_ids), default=None)
    if last_gap is None:
        return after.snapshot_log
    entries_before_gap = sum(entry.snapshot_id in live_ids for entry in before[:last_gap])
    return after.snapshot_log[entries_before_gap:]


def metadata_files_to_delete(before: TableMetadata, after: TableMetadata) -> list[str]:
    """Return the absolute paths of files that leave the metadata log, oldest first, if the table's properties say to delete them.

    The log may name any path, so files outside the table's metadata folder or with other names are left out.
    """
    if after.properties.get(DELETE_AFTER_COMMIT, "false").strip().lower() != "true":
        return []
    logged_paths = {plain_path(entry.metadata_file) for entry in after.metadata_log}
    root = f"{plain_path(after.location)}/"
    old_paths = [plain_path(entry.metadata_file) for entry in before.metadata_log]
    return [path for path in old_paths if path not in logged_paths and _METADATA_FILE.fullmatch(path.removeprefix(root))]
