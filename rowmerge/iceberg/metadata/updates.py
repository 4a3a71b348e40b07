"""Apply updates to table metadata with pyiceberg, but upgrade to format version 3 here, and avoid its deep copies of histories."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, SupportsIndex

from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import TableUpdate, UpgradeFormatVersionUpdate, update_table_metadata
from pyiceberg.typedef import IcebergBaseModel

from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.registry import DELETE_AFTER_COMMIT, PREVIOUS_VERSIONS

INITIAL_DEFAULTS = 3
"""The first format version with column defaults."""
ROW_LINEAGE = 3
"""The first format version with row ids and deletion vectors."""

_HISTORY_FIELDS = ("snapshots", "snapshot_log", "metadata_log")
"""The lists in table metadata that grow by an entry with each commit."""


class _UncopiedList(list[Any]):
    """A list of immutable history entries, whose deep copy is the list itself.

    pyiceberg makes a deep copy of the metadata after every update. In a table with 400 snapshots, these copies dominated the commit time.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> _UncopiedList:
        return self

    def __add__(self, other: Any) -> _UncopiedList:
        return _UncopiedList([*self, *other])

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        entries: Any = super().__getitem__(index)
        return _UncopiedList(entries) if isinstance(index, slice) else entries


def apply_updates(base: TableMetadata, updates: Sequence[TableUpdate], *, location: str | None = None) -> TableMetadata:
    """Return table metadata with updates applied by pyiceberg.

    pyiceberg does not support the upgrade to format version 3. So this function upgrades the metadata first, because the other updates may
    require the new version.

    Args:
        base: The metadata before the updates. It is not modified.
        updates: The updates, as defined by the Iceberg REST catalog specification, in the order in which they apply.
        location: The absolute path of the metadata file of `base`, to add to the metadata log; None to add no entry.

    Raises:
        ConfigurationError: The property `write.metadata.previous-versions-max` is not a whole number.
        ValueError: An update does not fit the metadata.
    """
    pyiceberg_updates = tuple(update for update in updates if not _upgrades_to_version_3(update))
    has_upgrade = len(pyiceberg_updates) < len(updates)
    metadata = _upgrade_to_version_3(base) if has_upgrade else base
    if has_upgrade and not pyiceberg_updates:
        return metadata
    try:
        return update_table_metadata(_with_shared_histories(metadata), pyiceberg_updates, metadata_location=location)
    except ValueError:
        # If the property of the metadata log's length is the cause, parsing it raises a ConfigurationError with advice.
        PREVIOUS_VERSIONS.value(base.properties)
        raise


def _with_shared_histories(metadata: TableMetadata) -> TableMetadata:
    """Return the same metadata, but pyiceberg's deep copies of it share the long lists of snapshots and log entries."""
    return metadata.model_copy(update={name: _UncopiedList(getattr(metadata, name)) for name in _HISTORY_FIELDS})


def _upgrades_to_version_3(update: TableUpdate) -> bool:
    """Return whether an update is the upgrade to format version 3, which pyiceberg does not support."""
    return isinstance(update, UpgradeFormatVersionUpdate) and update.format_version == ROW_LINEAGE


def _upgrade_to_version_3(metadata: TableMetadata) -> TableMetadata:
    """Return the metadata in format version 3. The next snapshot assigns row ids."""
    if metadata.format_version >= ROW_LINEAGE:
        return metadata
    return TableMetadataV3(**{**metadata.model_dump(), "format-version": ROW_LINEAGE, "next-row-id": 0})


def next_row_id(metadata: TableMetadata) -> int | None:
    """Return the `next-row-id` of table metadata, or None for a format version below 3."""
    return (metadata.next_row_id or 0) if isinstance(metadata, TableMetadataV3) else None


def serialize_metadata(metadata: TableMetadata) -> bytes:
    """Return table metadata as the bytes of a metadata file."""
    # TableMetadataV3.model_dump_json raises NotImplementedError; the method of its base class works.
    return IcebergBaseModel.model_dump_json(metadata).encode()


_METADATA_FILE = re.compile(r"(?P<folder>.*)/[^/]+\.metadata\.json(\.gz)?")


def gapless_snapshot_log(old_log: Sequence[SnapshotLogEntry], new_metadata: TableMetadata) -> list[SnapshotLogEntry]:
    """Return the snapshot log after snapshots expired, without the entries that precede a removed snapshot.

    Time travel opens the snapshot of the last log entry that is not later than a given time. If the entry of a removed snapshot were
    missing between two others, some times would select an older snapshot by mistake. So the log begins after the last such gap
    (`snapshot-log` in the Iceberg specification).

    Args:
        old_log: The snapshot log before the snapshots expired.
        new_metadata: The new metadata, without the expired snapshots.
    """
    live_ids = {snapshot.snapshot_id for snapshot in new_metadata.snapshots}
    last_gap = max((index for index, entry in enumerate(old_log) if entry.snapshot_id not in live_ids), default=None)
    if last_gap is None:
        return new_metadata.snapshot_log
    # The new log begins with the entries of the old log whose snapshots are live, in the same order. Remove those that precede the gap.
    live_entries_before_gap = sum(entry.snapshot_id in live_ids for entry in old_log[:last_gap])
    return new_metadata.snapshot_log[live_entries_before_gap:]


def metadata_files_to_delete(old_metadata: TableMetadata, new_metadata: TableMetadata, folders: Collection[str] = ()) -> list[str]:
    """Return the absolute paths of the metadata files to delete after a commit, oldest first.

    These are the files that the commit removes from the metadata log. Return an empty list unless the property
    `write.metadata.delete-after-commit.enabled` is true. The log may contain any path, so omit paths outside the table's folder `metadata`
    and `folders`.

    Args:
        old_metadata: The metadata before the commit.
        new_metadata: The metadata after the commit, with the property.
        folders: The absolute paths of other folders in which the table puts metadata files.
    """
    if new_metadata.properties.get(DELETE_AFTER_COMMIT.name, "false").strip().lower() != "true":
        return []
    logged_paths = {plain_path(entry.metadata_file) for entry in new_metadata.metadata_log}
    metadata_folders = {f"{plain_path(new_metadata.location)}/metadata", *folders}
    old_paths = [plain_path(entry.metadata_file) for entry in old_metadata.metadata_log]
    removed_files = [match for path in old_paths if path not in logged_paths and (match := _METADATA_FILE.fullmatch(path))]
    return [match[0] for match in removed_files if match["folder"] in metadata_folders]
