"""What metadata remembers of its past: the snapshots that were current, and the metadata files before it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import SnapshotLogEntry

from rowmerge.iceberg.locations import plain_path

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
