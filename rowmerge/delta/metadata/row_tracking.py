"""Row tracking: the row ids of files, and the high water mark, which is the highest assigned id (PROTOCOL.md, Row Tracking)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from rowmerge.delta.files.statistics import parse_statistics
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, compact
from rowmerge.delta.metadata.properties import ROW_TRACKING, ROW_TRACKING_SUSPENDED, is_true
from rowmerge.errors import CorruptLog
from rowmerge.table.metadata.json_objects import parse_object

ROW_TRACKING_DOMAIN = "delta.rowTracking"
ROW_TRACKING_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}
"""The properties with the names of the hidden columns for row ids and commit versions, and the prefixes of these names."""


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether every added file needs row ids: the table supports row tracking, and row tracking is not suspended.

    Args:
        protocol: The protocol of the table.
        metadata: The metadata of the table.
    """
    return protocol.supports("rowTracking") and not is_true(metadata.configuration, ROW_TRACKING_SUSPENDED)


def assign_row_ids(actions: Sequence[Action], domains: Mapping[str, str], version: int, log_path: str) -> list[Action]:
    """Return the actions of a commit with row ids for each added file, and an action with the new high water mark.

    Args:
        actions: The file actions of the commit.
        domains: The configurations before the commit, by metadata domain.
        version: The version of the commit.
        log_path: The path of the log's folder, for the error.

    Raises:
        CorruptLog: The high water mark is invalid, or an added file has no row count.
    """
    old_mark = row_id_high_water_mark(domains, log_path)
    new_actions, new_mark = _with_row_ids(actions, old_mark, version, log_path)
    # The domain must exist as soon as there are files, even if the first files contain no rows and the mark does not rise.
    is_first_add = ROW_TRACKING_DOMAIN not in domains and any("add" in action for action in actions)
    if new_mark > old_mark or is_first_add:
        configuration = compact({"rowIdHighWaterMark": new_mark})
        new_actions.append({"domainMetadata": {"domain": ROW_TRACKING_DOMAIN, "configuration": configuration, "removed": False}})
    return new_actions


def _with_row_ids(actions: Sequence[Action], highest_row_id: int, version: int, log_path: str) -> tuple[list[Action], int]:
    """Return the file actions with a range of row ids for each added file, and the new high water mark.

    `highest_row_id`: the high water mark before the commit. Raises CorruptLog, which names `log_path`, if a file has no row count.
    """
    new_actions: list[Action] = []
    for action in actions:
        if "add" not in action:
            new_actions.append(action)
            continue
        file = {**action["add"]}
        # An existing file with a new deletion vector keeps its row ids.
        if file.get("baseRowId") is None:
            file["baseRowId"] = highest_row_id + 1
            highest_row_id += _record_count(file, log_path)
        if file.get("defaultRowCommitVersion") is None:
            file["defaultRowCommitVersion"] = version
        new_actions.append({"add": file})
    return new_actions, highest_row_id


def _record_count(file: Mapping[str, Any], log_path: str) -> int:
    """Return the row count from a file's statistics. Raises CorruptLog if it is missing or invalid."""
    count = (parse_statistics(file.get("stats")) or {}).get("numRecords")
    if not isinstance(count, int) or count < 0:
        raise CorruptLog(log_path, f"the file {file['path']} has no row count, so its rows cannot get row ids")
    return count


def row_id_high_water_mark(domains: Mapping[str, str], log_path: str) -> int:
    """Return the highest row id that any version of a table has assigned, or -1 if no row id has been assigned.

    Args:
        domains: The configurations by metadata domain. The domain `delta.rowTracking` contains the high water mark.
        log_path: The path of the log's folder, for the error.

    Raises:
        CorruptLog: The metadata domain `delta.rowTracking` is invalid.
    """
    configuration = domains.get(ROW_TRACKING_DOMAIN)
    if configuration is None:
        return -1
    mark = parse_object(configuration, log_path).get("rowIdHighWaterMark")
    if not isinstance(mark, int):
        raise CorruptLog(log_path, f"the metadata domain {ROW_TRACKING_DOMAIN} has no row id high water mark: {configuration:.80}")
    return mark


def with_row_tracking_columns(properties: dict[str, str], old_properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a table. If row tracking is enabled, they include the names of the hidden columns.

    Args:
        properties: The new properties, without the names of the hidden columns.
        old_properties: The properties of the replaced table. Its hidden columns keep their names.
    """
    if not is_true(properties, ROW_TRACKING):
        return properties
    return properties | {name: old_properties.get(name) or f"{prefix}{uuid.uuid4()}" for name, prefix in ROW_TRACKING_COLUMNS.items()}
