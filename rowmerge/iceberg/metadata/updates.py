"""Updates of metadata, by pyiceberg but without a copy of its past; and the step to format version 3, which pyiceberg does not know."""

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
"""The format version from which on columns have defaults."""
ROW_LINEAGE = 3
"""The format version from which on every row has an id, and deleted rows are in deletion vectors."""

T = TypeVar("T")
_PAST = ("snapshots", "snapshot_log", "metadata_log")


class _Shared(list[T]):
    """Entries that metadata has in common with that before it. They never change, so a copy of them is themselves.

    pyiceberg copies metadata to its last leaf after every update: that was most of what a commit cost in a table of 400 snapshots.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> _Shared[T]:
        return self

    def __add__(self, other: Any) -> _Shared[Any]:
        return _Shared([*self, *other])

    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        found: Any = super().__getitem__(at)
        return _Shared(found) if isinstance(at, slice) else found


def updated(base: TableMetadata, updates: Sequence[TableUpdate], *, location: str | None = None) -> TableMetadata:
    """The metadata with these updates; `location`: the absolute path of the file of `base`, which its log is to name.

    Raises ValueError for an update that does not fit, ConfigurationError for a property of another engine that says how long the log is.
    """
    upgrades = [update for update in updates if _is_upgrade(update)]
    others = tuple(update for update in updates if not _is_upgrade(update))
    if upgrades and base.format_version < ROW_LINEAGE:
        base = _upgraded(base)
    shared = base.model_copy(update={name: _Shared(getattr(base, name)) for name in _PAST})
    try:
        return update_table_metadata(shared, others, metadata_location=location) if others or not upgrades else base
    except ValueError:
        whole_number(base.properties, PREVIOUS_VERSIONS, 100)
        raise


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


DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_METADATA_FILE = re.compile(r"metadata/[^/]+\.metadata\.json(\.gz)?")


def known_log(before: Sequence[SnapshotLogEntry], after: TableMetadata) -> list[SnapshotLogEntry]:
    """The snapshot log less all that comes before a gap (Iceberg spec, snapshot-log).

    Where a snapshot was removed, nobody could tell any more what was current at its time, and an older one would be taken for it.
    """
    kept = {snapshot.snapshot_id for snapshot in after.snapshots}
    gap = max((index for index, entry in enumerate(before) if entry.snapshot_id not in kept), default=None)
    if gap is None:
        return after.snapshot_log
    old = sum(entry.snapshot_id in kept for entry in before[:gap])
    return after.snapshot_log[old:]


def left_the_log(before: TableMetadata, after: TableMetadata) -> list[str]:
    """Return the metadata files that leave the metadata log, oldest first, for tables that delete them. The paths are absolute.

    The log may name anything. So an entry counts only if it has the name and the folder of this table's metadata files.
    """
    if after.properties.get(DELETE_AFTER_COMMIT, "false").strip().lower() != "true":
        return []
    kept = {plain_path(entry.metadata_file) for entry in after.metadata_log}
    root = f"{plain_path(after.location)}/"
    left = [path for entry in before.metadata_log if (path := plain_path(entry.metadata_file)) not in kept]
    return [path for path in left if path.startswith(root) and _METADATA_FILE.fullmatch(path[len(root) :])]
