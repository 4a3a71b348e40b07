"""The metadata tables of snapshots, branches and metadata files: `snapshots`, `history`, `refs` and `metadata_log_entries`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.iceberg.commits.snapshot_entry import METRICS, OPERATION, PARAMETERS, USER_METADATA
from rowmerge.iceberg.metadata.refs import MAIN, ancestors, summary_properties
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.schema import DataType
from rowmerge.table.snapshots.metadata_tables import HISTORY, INT, LONG, REFS, SNAPSHOTS, STRING, TIME, MetadataRows, utc_time
from rowmerge.table.table import HistoryEntry

_METADATA_LOG: dict[str, DataType] = {
    "timestamp": TIME,
    "file": STRING,
    "latest_snapshot_id": LONG,
    "latest_schema_id": INT,
    "latest_sequence_number": LONG,
}


def snapshot_rows(metadata: TableMetadata) -> MetadataRows:
    """Return the rows of `snapshots`: one for each snapshot in the metadata, in the order of their commits."""
    snapshots = metadata.snapshots
    summaries = [snapshot.summary for snapshot in snapshots]
    return MetadataRows.of(
        SNAPSHOTS,
        {
            "committed_at": [utc_time(snapshot.timestamp_ms) for snapshot in snapshots],
            "snapshot_id": [snapshot.snapshot_id for snapshot in snapshots],
            "parent_id": [snapshot.parent_snapshot_id for snapshot in snapshots],
            "operation": [None if summary is None else summary.operation.value for summary in summaries],
            "manifest_list": [snapshot.manifest_list for snapshot in snapshots],
            "summary": [None if summary is None else list(summary.additional_properties.items()) for summary in summaries],
        },
    )


def history_rows(metadata: TableMetadata) -> MetadataRows:
    """Return the rows of `history`: one for each time at which a snapshot became the current one of the main branch."""
    log = metadata.snapshot_log
    snapshots = [metadata.snapshot_by_id(entry.snapshot_id) for entry in log]
    current_ancestors = {snapshot.snapshot_id for snapshot in ancestors(metadata, metadata.current_snapshot_id)}
    return MetadataRows.of(
        HISTORY,
        {
            "made_current_at": [utc_time(entry.timestamp_ms) for entry in log],
            "snapshot_id": [entry.snapshot_id for entry in log],
            "parent_id": [None if snapshot is None else snapshot.parent_snapshot_id for snapshot in snapshots],
            "is_current_ancestor": [entry.snapshot_id in current_ancestors for entry in log],
        },
    )


def reference_rows(metadata: TableMetadata) -> MetadataRows:
    """Return the rows of `refs`: one for each branch and tag, the main branch first."""
    refs = sorted(metadata.refs.items(), key=lambda item: (item[0] != MAIN, item[0]))
    return MetadataRows.of(
        REFS,
        {
            "name": [name for name, _ in refs],
            "type": [str(ref.snapshot_ref_type.value).upper() for _, ref in refs],
            "snapshot_id": [ref.snapshot_id for _, ref in refs],
            "max_reference_age_in_ms": [ref.max_ref_age_ms for _, ref in refs],
            "min_snapshots_to_keep": [ref.min_snapshots_to_keep for _, ref in refs],
            "max_snapshot_age_in_ms": [ref.max_snapshot_age_ms for _, ref in refs],
        },
    )


def metadata_log_rows(metadata: TableMetadata, path: str) -> MetadataRows:
    """Return the rows of `metadata_log_entries`: one for each metadata file, each with the snapshot that was current in it.

    Args:
        metadata: The metadata of the table.
        path: The path of the current metadata file.
    """
    files = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log] + [(metadata.last_updated_ms, path)]
    snapshots = [_snapshot_at(metadata, timestamp) for timestamp, _ in files]

    def values(attribute: str) -> Sequence[Any]:
        return [None if snapshot is None else getattr(snapshot, attribute) for snapshot in snapshots]

    return MetadataRows.of(
        _METADATA_LOG,
        {
            "timestamp": [utc_time(timestamp) for timestamp, _ in files],
            "file": [file for _, file in files],
            "latest_snapshot_id": values("snapshot_id"),
            "latest_schema_id": values("schema_id"),
            "latest_sequence_number": values("sequence_number"),
        },
    )


def _snapshot_at(metadata: TableMetadata, timestamp: int) -> Any:
    """Return the snapshot that was the current one of the main branch at a time, or None."""
    ids = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= timestamp]
    return metadata.snapshot_by_id(ids[-1]) if ids else None


def history_entry(snapshot: IcebergVersion) -> HistoryEntry:
    """Return the row of DESCRIBE HISTORY for a snapshot. Without rowmerge's metrics, the metrics are the counts in the summary."""
    properties = summary_properties(snapshot)
    iceberg_operation = "" if snapshot.summary is None else snapshot.summary.operation.value
    counts = {name: value for name, value in properties.items() if not name.startswith(("rowmerge.", "engine-"))}
    return HistoryEntry(
        version=snapshot.snapshot_id,
        timestamp=snapshot.timestamp_ms,
        operation=properties.get(OPERATION, iceberg_operation),
        parameters=_json_to_strings(properties.get(PARAMETERS, "{}")),
        metrics=_json_to_strings(properties.get(METRICS, "{}")) or counts,
        read_version=snapshot.parent_snapshot_id,
        user_metadata=properties.get(USER_METADATA),
        engine=properties.get("engine-name"),
    )


def _json_to_strings(text: str) -> dict[str, str]:
    """Return the JSON object in a summary property, with its values as strings. Return an empty object for malformed JSON."""
    try:
        decoded = decode_json(text)
    except ValueError:
        return {}
    properties = decoded if isinstance(decoded, dict) else {}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in properties.items()}
