"""Row tracking: each file assigns its rows ids that no other row had before, under concurrency too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.metadata.row_tracking import ROW_TRACKING_DOMAIN, row_id_high_water_mark
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import ConfigurationError, CorruptLog, UnsupportedTableFeature
from rowmerge.execution.row_change import change_files
from rowmerge.execution.ways.target_files import TargetFiles
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.spark.reading.data_files import spark_path
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.settings import WRITE_MODE
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import Positions
from tests.support.delta_tables import Lake, committed

SUPPORTED = {"delta.feature.rowTracking": "supported"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "t")


def ranges(snapshot: DeltaSnapshot) -> list[tuple[int | None, int | None]]:
    """Return the first id and the commit version of each live file, ordered by id."""
    files = snapshot.state.files
    pairs = zip(files.column("baseRowId").to_pylist(), files.column("defaultRowCommitVersion").to_pylist(), strict=True)
    return sorted(pairs, key=repr)


def high_water_mark(lake: Lake) -> int:
    return row_id_high_water_mark(lake.table.snapshot().state.domains, "")


def actions(lake: Lake, version: int, kind: str) -> list[dict[str, Any]]:
    lines = (lake.log / f"{version:020d}.json").read_text().splitlines()
    return [action[kind] for action in map(json.loads, lines) if kind in action]


def test_added_files_get_row_ids_above_the_high_water_mark(lake: Lake) -> None:
    committed(lake.create(lake.file([1, 2, 3]), lake.file([4]), properties=SUPPORTED))
    assert {"rowTracking", "domainMetadata"} <= lake.table.snapshot().protocol.features
    committed(lake.append([5, 6]))
    assert ranges(lake.table.snapshot()) == [(0, 0), (3, 0), (4, 1)]
    assert high_water_mark(lake) == 5
    assert actions(lake, 1, "domainMetadata") == [
        {"domain": ROW_TRACKING_DOMAIN, "configuration": '{"rowIdHighWaterMark":5}', "removed": False}
    ]


def test_deletion_vectors_keep_row_ids_and_rewrites_assign_new_ids(lake: Lake) -> None:
    committed(lake.create(lake.file([1, 2, 3]), properties=SUPPORTED))
    (path,) = lake.table.snapshot().files().paths
    committed(lake.commit("DELETE", deleted={path: Positions([1])}))
    assert ranges(lake.table.snapshot()) == [(0, 0)]
    assert [(removed["baseRowId"], removed["defaultRowCommitVersion"]) for removed in actions(lake, 1, "remove")] == [(0, 0)]
    assert actions(lake, 1, "domainMetadata") == []
    committed(lake.commit("DELETE", added=(lake.file([1]),), removed=(path,)))
    assert ranges(lake.table.snapshot()) == [(3, 2)]
    assert high_water_mark(lake) == 3


def test_a_rebased_commit_reassigns_row_ids_and_commit_version(lake: Lake) -> None:
    committed(lake.create(lake.file([1]), properties=SUPPORTED))
    base = lake.table.snapshot()
    committed(lake.append([2, 3]))
    assert committed(lake.append([4], base=base)) == 2
    assert ranges(lake.table.snapshot()) == [(0, 0), (1, 1), (3, 2)]
    assert high_water_mark(lake) == 3


def test_checkpoints_keep_row_ids_and_the_high_water_mark(lake: Lake) -> None:
    committed(lake.create(lake.file([1, 2]), properties={**SUPPORTED, "delta.checkpointInterval": "2"}))
    committed(lake.append([3]))
    committed(lake.append([4]))
    assert (lake.log / f"{2:020d}.checkpoint.parquet").exists()
    for version in (0, 1):
        (lake.log / f"{version:020d}.json").unlink()
    snapshot = DeltaTable(Storage(str(lake.folder)), "s.t").snapshot()
    assert ranges(snapshot) == [(0, 0), (2, 1), (3, 2)]
    assert row_id_high_water_mark(snapshot.state.domains, "") == 3


def test_a_replaced_table_continues_row_ids(lake: Lake) -> None:
    committed(lake.create(lake.file([1, 2]), properties=SUPPORTED))
    committed(lake.commit("CREATE OR REPLACE", added=(lake.file([3]),), definition=TableDefinition(lake.schema, (), {}), replace=True))
    assert ranges(lake.table.snapshot()) == [(2, 1)]


def test_older_files_get_row_ids_with_their_next_commit(lake: Lake) -> None:
    committed(lake.create(lake.file([1, 2])))
    properties = lake.table.snapshot().settings.properties
    committed(
        lake.table.commit(lake.table.snapshot(), CommitRequest("ALTER", definition=TableDefinition(properties={**properties, **SUPPORTED})))
    )
    committed(lake.append([3]))
    assert ranges(lake.table.snapshot()) == [(0, 2), (None, None)]
    (path,) = (file["path"] for file in lake.table.snapshot().files().rows.to_pylist() if file["records"] == 2)
    committed(lake.commit("DELETE", deleted={path: Positions([0])}))
    assert ranges(lake.table.snapshot()) == [(0, 2), (1, 3)]
    assert high_water_mark(lake) == 2


def test_suspended_row_tracking_assigns_no_row_ids(lake: Lake) -> None:
    committed(lake.create(lake.file([1]), properties={**SUPPORTED, "delta.rowTrackingSuspended": "true"}))
    assert ranges(lake.table.snapshot()) == [(None, None)]
    assert ROW_TRACKING_DOMAIN not in lake.table.snapshot().state.domains


def test_enabled_row_tracking_names_its_columns_and_blocks_rewrites(lake: Lake) -> None:
    committed(lake.create(lake.file([1]), properties={"delta.enableRowTracking": "true"}))
    snapshot = lake.table.snapshot()
    names = [value for name, value in snapshot.settings.properties.items() if name.startswith("delta.rowTracking.materialized")]
    assert len(set(names)) == 2
    assert snapshot.shape.rewrite_blocker == "rowTracking"
    assert actions(lake, 0, "commitInfo")[0]["tags"] == {"delta.rowTracking.preserved": "true"}


def test_enabling_row_tracking_for_rows_without_ids_is_refused(lake: Lake) -> None:
    committed(lake.create(lake.file([1])))
    enabled = TableDefinition(properties={"delta.enableRowTracking": "true"})
    with pytest.raises(UnsupportedTableFeature, match="rowTracking"):
        lake.table.commit(lake.table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=enabled))


def test_enabling_and_suspending_row_tracking_is_refused(lake: Lake) -> None:
    with pytest.raises(ConfigurationError, match="both"):
        lake.create(properties={"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"})


def test_an_invalid_high_water_mark_is_a_corrupt_log() -> None:
    with pytest.raises(CorruptLog, match="high water mark"):
        row_id_high_water_mark({ROW_TRACKING_DOMAIN: "{}"}, "log")


def test_rows_that_must_stay_are_marked_whatever_the_write_mode(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(lake.create(lake.file([1, 2]), properties={"delta.enableRowTracking": "true", WRITE_MODE.name: "auto"}))
    snapshot = lake.table.snapshot()
    monkeypatch.setitem(snapshot.settings.properties, WRITE_MODE.name, "unknown")  # as another writer may set it
    listing = snapshot.files()
    files = TargetFiles(listing, listing, listing.without_files(), listing, every_file, ())
    output = WriteOutput(positions={spark_path(path): Positions([0]) for path in listing.paths})
    result = change_files(Mock(), snapshot, Mock(operation="DELETE"), output, files)
    assert (list(result.changes.deleted), result.changes.removed, result.copied_rows) == (listing.paths, (), 0)
