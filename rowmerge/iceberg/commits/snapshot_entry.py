"""The entry of a new snapshot in a table's metadata, with its summary."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

from rowmerge.iceberg.commits.snapshot_files import WrittenSnapshot
from rowmerge.iceberg.manifests.content import Content, Entry, Status
from rowmerge.iceberg.metadata.partition_values import partition_path_of
from rowmerge.iceberg.metadata.properties import APPLICATION, APPLICATION_VERSION, IcebergSettings
from rowmerge.iceberg.metadata.refs import WAP_ID, point_branch_at, summary_properties
from rowmerge.table.commits.request import CommitRequest
from rowmerge.version import __version__

OPERATION, PARAMETERS, METRICS = "rowmerge.operation", "rowmerge.parameters", "rowmerge.metrics"
USER_METADATA = "rowmerge.user-metadata"
"""The summary properties from which the table's history reads the statement. All other properties are common to all engines."""

REPLACES_PARTITIONS = "replace-partitions"
"""The summary property of a dynamic overwrite, which Iceberg's `cherrypick_snapshot` needs."""

_COUNTS = (
    "added-data-files deleted-data-files added-equality-delete-files removed-equality-delete-files added-position-delete-files "
    "removed-position-delete-files added-delete-files removed-delete-files added-dvs removed-dvs added-records deleted-records "
    "added-files-size removed-files-size added-position-deletes removed-position-deletes added-equality-deletes removed-equality-deletes"
).split()
"""The counts of a snapshot, in the order in which Iceberg writes them."""
_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


def new_snapshot_id() -> int:
    """Return a random positive snapshot id of 63 bits, because Iceberg stores ids as signed longs."""
    return uuid.uuid4().int >> 65


def snapshot_updates(
    metadata: TableMetadata,
    branch: str,
    parent: Snapshot | None,
    written_snapshot: WrittenSnapshot,
    change: CommitRequest,
    origin: Mapping[str, str] | None = None,
) -> tuple[TableUpdate, ...]:
    """Return the metadata updates that add a snapshot and point a branch at it (Iceberg spec, Snapshots).

    Args:
        metadata: The current metadata of the table.
        branch: The name of the branch.
        parent: The preceding snapshot, or None for the first one.
        written_snapshot: The files of the snapshot.
        change: The change that the statement makes, for the summary.
        origin: Summary properties about the publication of the snapshot. No branch points at a snapshot with the key WAP_ID.
    """
    # Readers order snapshots by their timestamps, but the clocks of several writers differ. So a later snapshot gets a later timestamp.
    earliest_timestamp = metadata.last_updated_ms + (1 if parent is not None else 0)
    snapshot = Snapshot(
        snapshot_id=written_snapshot.snapshot_id,
        parent_snapshot_id=None if parent is None else parent.snapshot_id,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=max(time.time_ns() // 1_000_000, earliest_timestamp),
        manifest_list=written_snapshot.manifest_list,
        summary=_summary(written_snapshot, change, parent, origin or {}),
        schema_id=written_snapshot.definition.current_schema_id,
        first_row_id=written_snapshot.first_row_id,
        added_rows=written_snapshot.assigned_row_ids,
    )
    added = AddSnapshotUpdate(snapshot=snapshot)
    return (added,) if WAP_ID in (origin or {}) else (added, point_branch_at(metadata, branch, written_snapshot.snapshot_id))


def _summary(written_snapshot: WrittenSnapshot, change: CommitRequest, parent: Snapshot | None, origin: Mapping[str, str]) -> Summary:
    """Return the summary of a snapshot: its operation, counts of changes, the table's totals, and the statement for the history."""
    counts: Counter[str] = Counter()
    for entry in written_snapshot.entries:
        counts.update(_summary_counts(entry))
    properties = {
        **change.snapshot_properties,
        **_nonzero_counts(counts),
        **_partition_summaries(written_snapshot.definition, written_snapshot.entries),
        **_totals(counts, parent),
        **_statement_properties(change),
        **origin,
    }
    return Summary(_operation(change, counts), **properties)


def _nonzero_counts(counts: Counter[str]) -> dict[str, str]:
    return {name: str(counts[name]) for name in _COUNTS if counts[name]}


def _partition_summaries(metadata: TableMetadata, entries: Sequence[Entry]) -> dict[str, str]:
    """Return the summary properties about changed partitions: their number and, up to `write.summary.partition-limit`, the counts of each.

    The names and conditions are those of Iceberg's SnapshotSummary. Files without a partition count as one partition without a name.
    """
    paths = {key: partition_path_of(metadata, *key) for key in {(entry.file.spec_id, entry.file.partition) for entry in entries}}
    changed_paths = set(paths.values())
    properties = {"changed-partition-count": str(len(changed_paths))}
    if not changed_paths or len(changed_paths) > IcebergSettings(metadata.properties).summarized_partitions:
        return properties
    counts_by_path: dict[str, Counter[str]] = {path: Counter() for path in sorted(changed_paths)}
    for entry in entries:
        counts_by_path[paths[entry.file.spec_id, entry.file.partition]].update(_summary_counts(entry))
    properties["partition-summaries-included"] = "true"
    for path, counts in counts_by_path.items():
        if path:
            properties[f"partitions.{path}"] = ",".join(f"{name}={count}" for name, count in _nonzero_counts(counts).items())
    return properties


def _totals(counts: Counter[str], parent: Snapshot | None) -> dict[str, str]:
    """Return the table's totals after the snapshot. Leave out a total that the parent's summary does not have."""
    parent_properties = summary_properties(parent)
    default = "0" if parent is None else "unknown"
    totals = {}
    for total, added, removed in _TOTALS:
        parent_total = str(parent_properties.get(total, default))  # some writers store a number
        if re.fullmatch(r"\d{1,18}", parent_total):
            totals[total] = str(max(0, int(parent_total) + counts[added] - counts[removed]))
    return totals


def _statement_properties(change: CommitRequest) -> dict[str, str]:
    properties = {"engine-name": "rowmerge", "engine-version": __version__, OPERATION: change.operation}
    if change.parameters:
        properties[PARAMETERS] = json.dumps(dict(change.parameters), ensure_ascii=False, default=str)
    if change.user_metadata is not None:
        properties[USER_METADATA] = change.user_metadata
    if change.replaces_partitions:
        properties[REPLACES_PARTITIONS] = "true"
    if change.metrics:
        properties[METRICS] = json.dumps(dict(change.metrics))
    if change.transaction is not None:
        application, version = change.transaction
        properties |= {APPLICATION: application, APPLICATION_VERSION: str(version)}
    return properties


def _operation(change: CommitRequest, counts: Counter[str]) -> Operation:
    if not change.data_change:
        return Operation.REPLACE
    if change.replaces_partitions:  # as in Iceberg, also if no partition had rows
        return Operation.OVERWRITE
    deletes_rows = counts["deleted-data-files"] + counts["added-delete-files"] > 0
    if deletes_rows and counts["added-data-files"]:
        return Operation.OVERWRITE
    return Operation.DELETE if deletes_rows else Operation.APPEND


def _summary_counts(entry: Entry) -> dict[str, int]:
    """Return the summary counts of one added or removed file. The spec's names call data files deleted, and delete files removed."""
    file = entry.file
    is_added = entry.status is Status.ADDED
    is_vector = file.format.upper() == "PUFFIN"
    verb = "added" if is_added else "removed"
    # Several deletion vectors share one Puffin file, so each counts with its own content.
    size = (file.content_size or 0) if is_vector else file.size
    match file.content:
        case Content.DATA:
            data_verb = "added" if is_added else "deleted"
            counts = {f"{data_verb}-data-files": 1, f"{data_verb}-records": file.records}
        case Content.POSITION_DELETES:
            file_kind = "dvs" if is_vector else "position-delete-files"
            counts = {f"{verb}-delete-files": 1, f"{verb}-{file_kind}": 1, f"{verb}-position-deletes": file.records}
        case Content.EQUALITY_DELETES:
            counts = {f"{verb}-delete-files": 1, f"{verb}-equality-delete-files": 1, f"{verb}-equality-deletes": file.records}
    return {f"{verb}-files-size": size, **counts}
