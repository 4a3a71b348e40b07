"""Row tracking: the ids that files give to their rows, and the mark of the highest one (PROTOCOL.md, Row Tracking)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from rowmerge.delta.files.statistics import parse_statistics
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, compact
from rowmerge.delta.metadata.properties import ROW_TRACKING, ROW_TRACKING_SUSPENDED, is_true
from rowmerge.errors import CorruptLog
from rowmerge.table.metadata.json_objects import parse_object

FEATURE = "rowTracking"
DOMAIN = "delta.rowTracking"
COLUMN_NAMES = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}
"""Properties that name the hidden columns of ids that rows took along, and how such names begin."""


def gives_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every file that is added must give ids to its rows."""
    return protocol.supports(FEATURE) and not is_true(metadata.configuration, ROW_TRACKING_SUSPENDED)


def keeps_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether a row must keep its id when it is copied or updated."""
    return protocol.supports(FEATURE) and is_true(metadata.configuration, ROW_TRACKING)


def with_ids(actions: Sequence[Action], domains: Mapping[str, str], version: int, log: str) -> list[Action]:
    """The file actions of a version, each added file with a range of ids of its own, and with the new mark behind them.

    A file that was there before, whose deletion vector changes, keeps what it has. Raises CorruptLog for a mark that makes no sense, and
    for a file of unknown length.
    """
    before = mark = high_water_mark(domains, log)
    tracked: list[Action] = []
    for action in actions:
        fields = action.get("add")
        if fields is not None:
            given = dict(fields)
            if given.get("baseRowId") is None:
                given["baseRowId"] = mark + 1
                mark += _records(given, log)
            if given.get("defaultRowCommitVersion") is None:
                given["defaultRowCommitVersion"] = version
            action = {"add": given}
        tracked.append(action)
    if mark > before or (DOMAIN not in domains and any("add" in action for action in tracked)):
        configuration = compact({"rowIdHighWaterMark": mark})
        tracked.append({"domainMetadata": {"domain": DOMAIN, "configuration": configuration, "removed": False}})
    return tracked


def _records(fields: Mapping[str, Any], log: str) -> int:
    records = (parse_statistics(fields.get("stats")) or {}).get("numRecords")
    if not isinstance(records, int) or records < 0:
        raise CorruptLog(log, f"the file {fields['path']} has no count of its rows, so they cannot get ids")
    return records


def high_water_mark(domains: Mapping[str, str], log: str) -> int:
    """The highest id that was ever given, -1 before the first. Raises CorruptLog."""
    if DOMAIN not in domains:
        return -1
    mark = parse_object(domains[DOMAIN], log).get("rowIdHighWaterMark")
    if not isinstance(mark, int):
        raise CorruptLog(log, f"the metadata domain {DOMAIN} holds no high water mark: {domains[DOMAIN]:.80}")
    return mark


def with_column_names(configuration: Mapping[str, str], old: Mapping[str, str]) -> dict[str, str]:
    """The properties with names for the hidden columns, those that the table had before where it had any."""
    named: dict[str, Any] = {name: old.get(name) or f"{begins}{uuid.uuid4()}" for name, begins in COLUMN_NAMES.items()}
    return {**configuration, **named}
