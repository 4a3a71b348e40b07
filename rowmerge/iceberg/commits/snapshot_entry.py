"""The entry of a new snapshot in a table's metadata, and the reference that makes it the table's newest."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.iceberg.commits.snapshot_files import Produced
from rowmerge.iceberg.manifests.content import Content, Entry, Status
from rowmerge.iceberg.metadata.properties import APPLICATION, APPLICATION_VERSION
from rowmerge.table.commits.request import Change
from rowmerge.version import __version__


def new_snapshot(
    head: TableMetadata, change: Change, made: Produced, parent: IcebergVersion | None, snapshot_id: int, schema_id: int
) -> IcebergVersion:
    """The snapshot of a change, behind what `head` has."""
    # Clocks of several writers differ, and readers go by the times of snapshots.
    now = max(time.time_ns() // 1_000_000, head.last_updated_ms + (1 if parent is not None else 0))
    operation, told = summary_of(change, made, parent)
    return IcebergVersion(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=head.next_sequence_number(),
        timestamp_ms=now,
        manifest_list=made.manifest_list,
        summary=Summary(Operation(operation), **told),
        schema_id=schema_id,
        first_row_id=None if made.row_ids is None else made.row_ids[0],
        added_rows=None if made.row_ids is None else made.row_ids[1],
    )


OPERATION, PARAMETERS, METRICS = "rowmerge.operation", "rowmerge.parameters", "rowmerge.metrics"
"""Where the history finds the statement; the other figures are those of all engines."""

_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


def summary_of(change: Change, made: Produced, parent: IcebergVersion | None) -> tuple[str, dict[str, str]]:
    """The operation (append, overwrite, delete, replace) and the other entries of the summary."""
    counts: Counter[str] = Counter()
    for entry in made.entries:
        counts.update(_figures(entry))
    partitions = len({(entry.file.spec_id, entry.file.partition) for entry in made.entries})
    told = {name: str(count) for name, count in counts.items() if count}
    told["changed-partition-count"] = str(partitions)
    before: Mapping[str, str] = {}
    if parent is not None and parent.summary is not None:
        before = parent.summary.additional_properties
    for total, plus, minus in _TOTALS:
        number = before.get(total, "0" if parent is None else "unknown")
        if re.fullmatch(r"\d{1,18}", str(number)):  # some writers put a number there
            told[total] = str(max(0, int(number) + counts[plus] - counts[minus]))
    told |= {"engine-name": "rowmerge", "engine-version": __version__, OPERATION: change.operation}
    if change.parameters:
        told[PARAMETERS] = json.dumps(dict(change.parameters), ensure_ascii=False, default=str)
    if change.metrics:
        told[METRICS] = json.dumps(dict(change.metrics))
    if change.transaction is not None:
        told |= {APPLICATION: change.transaction[0], APPLICATION_VERSION: str(change.transaction[1])}
    return _operation(change, counts), told


def _operation(change: Change, counts: Counter[str]) -> str:
    if not change.data_change:
        return "replace"
    adds = counts["added-data-files"]
    deletes = counts["deleted-data-files"] + counts["added-delete-files"]
    if adds and deletes:
        return "overwrite"
    return "delete" if deletes else "append"


def _figures(entry: Entry) -> dict[str, int]:
    file = entry.file
    added = entry.status is Status.ADDED
    verb = "added" if added else "removed"
    vector = file.format.upper() == "PUFFIN"
    figures = {f"{verb}-files-size": (file.content_size or 0) if vector else file.size}
    match file.content:
        case Content.DATA:
            figures["added-data-files" if added else "deleted-data-files"] = 1
            figures["added-records" if added else "deleted-records"] = file.records
        case Content.POSITION_DELETES:
            kind = "dvs" if vector else "position-delete-files"
            figures |= {f"{verb}-delete-files": 1, f"{verb}-{kind}": 1, f"{verb}-position-deletes": file.records}
        case Content.EQUALITY_DELETES:
            figures |= {f"{verb}-delete-files": 1, f"{verb}-equality-delete-files": 1, f"{verb}-equality-deletes": file.records}
    return figures
