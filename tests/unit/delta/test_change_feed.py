"""Changed rows of each version, computed from the log: recorded change rows, files, and deletion vectors."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.metadata.schema_changes import why_schema_not_readable
from rowmerge.errors import ChangesNotRecorded, IncompatibleSchemaChange, PlanError, VersionNotFound
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.change_feed import Bound, ChangedFile
from rowmerge.table.snapshots.files import FileChanges, Positions
from tests.support.delta_tables import Lake, committed

FEED = {"delta.enableChangeDataFeed": "true"}
LONG, TEXT, INT = Primitive("long"), Primitive("string"), Primitive("integer")
HOUR = 3_600_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([1, 2, 3, 4]), properties=FEED))
    return lake


def changes(lake: Lake, first: int, last: int | None = None) -> tuple[ChangedFile, ...]:
    return lake.table.change_feed.changes(
        lake.table.snapshot(), Bound(version=first), None if last is None else Bound(version=last)
    ).changed_files


def change_summaries(files: tuple[ChangedFile, ...]) -> list[tuple[int, str | None, list[int], bool]]:
    return [(file.version, file.change, list(file.rows), file.listed) for file in files]


def only_path(lake: Lake) -> str:
    (path,) = lake.table.snapshot().files().paths
    return str(path)


def rewrite_log(lake: Lake, version: int, edit: Any) -> None:
    path = lake.log / f"{version:020d}.json"
    path.write_text("\n".join(json.dumps(action) for action in edit([json.loads(line) for line in path.read_text().splitlines()])) + "\n")


def test_added_files_are_inserts_and_removed_files_are_deletes(lake: Lake) -> None:
    path = only_path(lake)
    committed(lake.commit("WRITE", added=(lake.file([9]),), removed=(path,)))
    assert change_summaries(changes(lake, 0)) == [(0, "insert", [], False), (1, "delete", [], False), (1, "insert", [], False)]


def test_only_new_positions_of_a_deletion_vector_are_deletes(lake: Lake) -> None:
    path = only_path(lake)
    committed(lake.commit("DELETE", deleted={path: Positions([1])}))
    committed(lake.commit("DELETE", deleted={path: Positions([1, 3])}))
    committed(lake.commit("DELETE", removed=(path,)))
    assert change_summaries(changes(lake, 1)) == [(1, "delete", [1], True), (2, "delete", [3], True), (3, "delete", [1, 3], False)]


def test_positions_removed_from_a_deletion_vector_are_inserts(lake: Lake) -> None:
    committed(lake.commit("DELETE", deleted={only_path(lake): Positions([0, 2])}))
    rewrite_log(lake, 1, lambda actions: actions)
    marked = json.loads((lake.log / f"{1:020d}.json").read_text().splitlines()[-1])["add"]
    removed = {**marked, "deletionTimestamp": 1, "extendedFileMetadata": True}
    added = {name: value for name, value in marked.items() if name != "deletionVector"}
    actions = [{"commitInfo": {"operation": "RESTORE"}}, {"remove": removed}, {"add": added}]
    (lake.log / f"{2:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
    assert change_summaries(changes(lake, 2)) == [(2, "insert", [0, 2], True)]


def test_recorded_change_rows_replace_file_changes_of_a_version(lake: Lake) -> None:
    path, rows = only_path(lake), lake.file([1], folder="_change_data")
    files = FileChanges((lake.file([7]),), (path,), {}, (rows,))
    committed(lake.table.commit(lake.table.snapshot(), CommitRequest("UPDATE", files=files)))
    (changed_file,) = changes(lake, 1)
    assert (changed_file.path, changed_file.change, changed_file.partition) == (rows.path, None, {})


def test_compaction_produces_no_changes(lake: Lake) -> None:
    committed(lake.commit("OPTIMIZE", added=(lake.file([1, 2, 3, 4]),), removed=(only_path(lake),), data_change=False))
    assert changes(lake, 1) == ()


def test_a_merge_with_zero_row_metrics_produces_no_changes(lake: Lake) -> None:
    metrics = {"numTargetRowsInserted": 0, "numTargetRowsUpdated": 0, "numTargetRowsDeleted": 0}
    committed(lake.commit("MERGE", added=(lake.file([1, 2, 3, 4]),), removed=(only_path(lake),), metrics=metrics))
    assert changes(lake, 1) == ()


def test_partition_values_of_changes_are_typed(tmp_path: Path) -> None:
    schema = Struct((Field("id", LONG), Field("p", INT)))
    lake = Lake(tmp_path / "t", schema, ("p",))
    committed(lake.create(lake.file([1], "p=7", {"p": 7}), lake.file([2], "p=x", {"p": None}), properties=FEED))
    assert sorted((file.partition["p"] for file in changes(lake, 0)), key=repr) == [7, None]
    committed(lake.commit("DELETE", removed=tuple(lake.table.snapshot().files().paths)))
    assert sorted((file.partition["p"] for file in changes(lake, 1)), key=repr) == [7, None]


def test_versions_without_enabled_change_feed_raise_changes_not_recorded(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([1])))
    for properties in (FEED, {}):
        committed(lake.table.commit(lake.table.snapshot(), CommitRequest("ALTER", definition=TableDefinition(properties=properties))))
    for first, last, version in ((0, 0, 0), (0, 1, 0), (1, 2, 2), (2, None, 2)):
        with pytest.raises(ChangesNotRecorded) as caught:
            changes(lake, first, last)
        assert caught.value.version == version
    assert changes(lake, 1, 1) == ()


def test_a_start_in_a_cleaned_log_reports_the_first_available_version(lake: Lake) -> None:
    definition = TableDefinition(properties={**FEED, "delta.checkpointInterval": "2"})
    committed(lake.table.commit(lake.table.snapshot(), CommitRequest("ALTER", definition=definition)))
    committed(lake.append([5]))
    committed(lake.append([6]))
    for version in (0, 1):
        (lake.log / f"{version:020d}.json").unlink()
    with pytest.raises(VersionNotFound, match="up to version 1. Begin at version 2"):
        changes(lake, 1)
    assert change_summaries(changes(lake, 2)) == [(2, "insert", [], False), (3, "insert", [], False)]


def test_a_log_without_commits_raises_version_not_found(lake: Lake) -> None:
    definition = TableDefinition(properties={**FEED, "delta.checkpointInterval": "1"})
    committed(lake.table.commit(lake.table.snapshot(), CommitRequest("ALTER", definition=definition)))
    for path in lake.log.glob("*.json"):
        path.unlink()
    newest = DeltaTable(Storage(str(lake.folder)), "s.t").snapshot()
    with pytest.raises(VersionNotFound, match="Begin at version 2"):
        lake.table.change_feed.changes(newest, Bound(version=1), None)


def test_version_ranges_are_checked_against_existing_versions(lake: Lake) -> None:
    committed(lake.append([5]))
    with pytest.raises(VersionNotFound, match="after the newest version, 1"):
        changes(lake, 2)
    with pytest.raises(PlanError, match="not before the start"):
        changes(lake, 1, 0)
    assert change_summaries(changes(lake, 1, 7)) == [(1, "insert", [], False)]
    base = lake.table.snapshot()
    committed(lake.append([6]))
    assert lake.table.change_feed.changes(base, Bound(version=0), None).last == 1


@pytest.mark.parametrize(
    ("first", "last", "versions"),
    [
        (0, None, (0, 3)),
        (10 * HOUR, None, (0, 3)),
        (10 * HOUR + 1, None, (1, 3)),
        (11 * HOUR, 12 * HOUR, (1, 2)),
        (11 * HOUR + 1, 13 * HOUR - 1, (2, 2)),
        (13 * HOUR, 99 * HOUR, (3, 3)),
        (10 * HOUR, 10 * HOUR, (0, 0)),
    ],
)
def test_timestamps_select_first_version_after_start_and_last_before_end(
    lake: Lake, first: int, last: int | None, versions: tuple[int, int]
) -> None:
    hours(lake, 10, 11, 12, 13)
    feed = lake.table.change_feed.changes(lake.table.snapshot(), Bound(timestamp=first), None if last is None else Bound(timestamp=last))
    assert (feed.first, feed.last) == versions
    assert [file.timestamp for file in feed.changed_files] == [(10 + file.version) * HOUR for file in feed.changed_files]


def test_timestamps_between_two_versions_select_no_changes(lake: Lake) -> None:
    hours(lake, 10, 11)
    newest = lake.table.snapshot()
    assert lake.table.change_feed.changes(newest, Bound(timestamp=10 * HOUR + 1), Bound(timestamp=11 * HOUR - 1)).changed_files == ()
    with pytest.raises(PlanError, match="not before the start"):
        lake.table.change_feed.changes(newest, Bound(timestamp=11 * HOUR), Bound(timestamp=10 * HOUR))
    with pytest.raises(VersionNotFound, match="1970-01-01 12:00:00 UTC, after the newest"):
        lake.table.change_feed.changes(newest, Bound(timestamp=12 * HOUR), None)
    with pytest.raises(VersionNotFound, match="before its first version"):
        lake.table.change_feed.changes(newest, Bound(version=0), Bound(timestamp=9 * HOUR))


def hours(lake: Lake, *at: int) -> None:
    """Append versions, and set their commit times to these hours of the first day of 1970."""
    for number in range(len(at)):
        if number:
            committed(lake.append([10 + number]))
    for number, hour in enumerate(at):
        os.utime(lake.log / f"{number:020d}.json", (hour * 3600, hour * 3600))


def test_commit_timestamps_never_decrease_between_versions(lake: Lake) -> None:
    hours(lake, 10, 8, 12)
    assert [file.timestamp // HOUR for file in changes(lake, 0)] == [10, 10, 12]


def test_in_commit_timestamps_override_file_modification_times(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([1]), properties={**FEED, "delta.enableInCommitTimestamps": "true"}))
    os.utime(lake.log / f"{0:020d}.json", (3600, 3600))
    (file,) = changes(lake, 0)
    assert file.timestamp == lake.table.snapshot().timestamp > 24 * HOUR


def test_changes_across_an_incompatible_schema_replacement_are_refused(lake: Lake) -> None:
    other = TableDefinition(Struct((Field("id", TEXT),)), (), FEED)
    committed(lake.commit("CREATE OR REPLACE", definition=other, replace=True))
    with pytest.raises(IncompatibleSchemaChange, match="version 0 do not fit"):
        changes(lake, 0)
    with pytest.raises(IncompatibleSchemaChange, match="version 0 do not fit"):
        changes(lake, 1)


def schema(**types: DataType) -> Struct:
    return Struct(tuple(Field(name, type_) for name, type_ in types.items()))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (schema(a=LONG), schema(a=LONG, b=TEXT), ""),
        (schema(a=LONG), schema(A=LONG), ""),
        (schema(a=INT), schema(a=LONG), ""),
        (schema(a=schema(x=LONG)), schema(a=schema(x=LONG, y=TEXT)), ""),
        (schema(a=LONG, b=TEXT), schema(a=LONG), "a column b, which was dropped"),
        (schema(a=LONG), schema(a=TEXT), "column a has the type bigint, and later string"),
        (schema(a=LONG), schema(a=INT), "column a has the type bigint"),
        (schema(a=schema(x=LONG)), schema(a=schema(y=LONG)), "a column a.x"),
        (schema(a=Array(LONG)), schema(a=Array(TEXT)), "a.element"),
        (schema(a=Map(TEXT, LONG)), schema(a=Map(TEXT, TEXT)), "a.value"),
        (schema(a=LONG), Struct((Field("a", LONG, nullable=False),)), "may contain NULL"),
        (Struct((Field("a", LONG, nullable=False),)), schema(a=LONG), ""),
        (schema(a=LONG), Struct((Field("a", LONG, metadata={"delta.columnMapping.physicalName": "a"}),)), ""),
        (schema(a=LONG), Struct((Field("a", LONG, metadata={"delta.columnMapping.physicalName": "col-1"}),)), "is another column"),
    ],
)
def test_compatible_schema_changes_are_readable_with_the_newer_schema(old: Struct, new: Struct, reason: str) -> None:
    problem = why_schema_not_readable(old, new)
    assert reason in problem
    assert bool(reason) == bool(problem)
