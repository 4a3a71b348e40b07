"""Row tracking: the row ids of files, and the high water mark (PROTOCOL.md, Row Tracking)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from rowmerge.delta.files.statistics import parse_statistics
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, compact
from rowmerge.delta.metadata.properties import ROW_TRACKING, ROW_TRACKING_SUSPENDED, is_true
from rowmerge.errors import CorruptLog
from rowmerge.table.metadata.json_objects import parse_object

DOMAIN = "delta.rowTracking"
COLUMN_NAMES = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}
"""Properties that name the hidden columns of materialized row ids and commit versions, and the prefixes of these names."""


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether every added file must have row ids."""
    return protocol.supports("rowTracking") and not is_true(metadata.configuration, ROW_TRACKING_SUSPENDED)


def assign_row_ids(actions: Sequence[Action], domains: Mapping[str, str], version: int, log: str) -> list[Action]:
    """Return the actions of a commit with row ids for each added file, and the action of a new high water mark.

    Args:
        actions: The file actions of the commit.
        domains: The metadata domains before the commit.
        version: The version of the commit.
        log: The path of the log's folder, for the error.

    Raises:
        CorruptLog: The high water mark is invalid, or an added file has no row count.
    """
    old_mark = high_water_mark(domains, log)
    new_actions, mark = _assign_row_ids(actions, old_mark, version, log)
    is_first_add = DOMAIN not in domains and any("add" in action for action in actions)
    if mark > old_mark or is_first_add:
        configuration = compact({"rowIdHighWaterMark": mark})
        new_actions.append({"domainMetadata": {"domain": DOMAIN, "configuration": configuration, "removed": False}})
    return new_actions


def _assign_row_ids(actions: Sequence[Action], mark: int, version: int, log: str) -> tuple[list[Action], int]:
    """Return the file actions with row ids above `mark` for each added file, and the new high water mark. Raises CorruptLog."""
    new_actions: list[Action] = []
    for action in actions:
        if "add" not in action:
            new_actions.append(action)
            continue
        file = {**action["add"]}
        # An existing file with a new deletion vector keeps its row ids.
        if file.get("baseRowId") is None:
            file["baseRowId"] = mark + 1
            mark += _record_count(file, log)
        if file.get("defaultRowCommitVersion") is None:
            file["defaultRowCommitVersion"] = version
        new_actions.append({"add": file})
    return new_actions, mark


def _record_count(file: Mapping[str, Any], log: str) -> int:
    """Return the row count in a file's statistics. Raises CorruptLog without a valid count."""
    count = (parse_statistics(file.get("stats")) or {}).get("numRecords")
    if not isinstance(count, int) or count < 0:
        raise CorruptLog(log, f"the file {file['path']} has no count of its rows, so they cannot get ids")
    return count


def high_water_mark(domains: Mapping[str, str], log: str) -> int:
    """Return the highest row id of any version so far, -1 without row ids.

    Raises:
        CorruptLog: The metadata domain `delta.rowTracking` is invalid.
    """
    if DOMAIN not in domains:
        return -1
    mark = parse_object(domains[DOMAIN], log).get("rowIdHighWaterMark")
    if not isinstance(mark, int):
        raise CorruptLog(log, f"the metadata domain {DOMAIN} holds no high water mark: {domains[DOMAIN]:.80}")
    return mark


def with_column_names(configuration: dict[str, str], old: Mapping[str, str]) -> dict[str, str]:
    """Return the properties, with names of the hidden columns if row tracking is enabled. `old`: properties with names to keep."""
    if not is_true(configuration, ROW_TRACKING):
        return configuration
    return configuration | {name: old.get(name) or f"{prefix}{uuid.uuid4()}" for name, prefix in COLUMN_NAMES.items()}
