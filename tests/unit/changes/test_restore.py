"""RESTORE of a version restores rows, schema, properties and deletion vectors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.errors import AppendOnly, MissingDataFile, PlanError, VersionNotFound
from rowmerge.execution.compaction import optimize
from rowmerge.execution.restore_and_clone import restore
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableDefinition
from tests.support import table_operations as operations
from tests.support.delta_tables import live_rows
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of
from tests.support.table_operations import NO_SPARK, opened, rows
from tests.unit.changes.test_compaction import Overtaken, actions


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Create versions 0 (empty), 1 to 3 (appends), 4 and 5 (deletes)."""
    operations.built(str(tmp_path))
    return opened(str(tmp_path))


def to(table: DeltaTable, version: int) -> dict[str, int]:
    return dict(restore(table, {"version": version}, version=version, timestamp=None).result_row)


def ids(table: DeltaTable, version: int | None = None) -> list[int]:
    return sorted(live_rows(table.snapshot_at(version=version) if version is not None else table.snapshot())["id"].to_pylist())


@pytest.mark.parametrize("version", range(5))
def test_restore_returns_each_version_exactly(table: DeltaTable, version: int) -> None:
    expected = ids(table, version)
    to(table, version)
    assert ids(table) == expected
    assert [row[0] for row in rows_of(read_with_duckdb(table.location, "id"))] == expected
    assert [row[0] for row in rows_of(read_with_delta_rs(table.location, "id"))] == expected


def test_a_restore_can_be_restored(table: DeltaTable) -> None:
    old_ids = ids(table)
    to(table, 1)
    assert ids(table) != old_ids
    to(table, 5)
    assert ids(table) == old_ids


def test_counts_and_history_describe_the_restore(table: DeltaTable) -> None:
    counts = to(table, 3)
    sizes = table.snapshot().files().sizes.to_pylist()
    assert counts["num_of_files_after_restore"] == 3
    assert counts["table_size_after_restore"] == sum(sizes)
    assert (counts["num_removed_files"], counts["num_restored_files"]) == (1, 2)
    (entry,) = table.history(1)
    assert (entry.operation, entry.parameters) == ("RESTORE", {"version": "3"})
    assert entry.metrics["numRestoredFiles"] == "2"
    assert entry.metrics["restoredFilesSize"] == str(counts["restored_files_size"])
    commit_actions = actions(table, 6)
    assert {action["add"]["dataChange"] for action in commit_actions if "add" in action} == {True}
    assert sum("metaData" in action for action in commit_actions) == 0


def test_restore_includes_schema_and_properties(table: DeltaTable) -> None:
    operations.replace(table)
    table.commit(table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={"mine": "1"})))
    assert table.snapshot().schema.names == ("id", "name", "more")
    to(table, 5)
    assert table.snapshot().schema.names == ("id", "name")
    assert dict(table.snapshot().settings.properties) == dict(table.snapshot_at(version=5).settings.properties)
    assert ids(table) == ids(table, 5)
    operations.merge_on_read(table)


def test_a_version_whose_files_vacuum_deleted_is_rejected(table: DeltaTable) -> None:
    old_rows = rows(table)
    operations.vacuum(table)
    with pytest.raises(MissingDataFile, match="parquet"):
        to(table, 3)
    with pytest.raises(MissingDataFile, match="deletion_vector"):
        to(table, 4)
    assert rows(table) == old_rows


def test_the_current_version_and_unknown_versions_are_rejected(table: DeltaTable) -> None:
    with pytest.raises(PlanError, match="is already at version 5"):
        to(table, 5)
    with pytest.raises(VersionNotFound):
        to(table, 6)
    assert table.snapshot().version == 5


def test_a_compaction_can_be_undone(table: DeltaTable) -> None:
    old_rows, old_paths = rows(table), sorted(table.snapshot().files().paths)
    optimize(NO_SPARK, table, None)
    to(table, 5)
    assert (rows(table), sorted(table.snapshot().files().paths)) == (old_rows, old_paths)


@pytest.mark.parametrize("operation", ["append", "merge_on_read", "copy_on_write", "add_column", "optimize"])
def test_a_restore_also_undoes_concurrent_commits(table: DeltaTable, operation: str) -> None:
    expected = rows_of(live_rows(table.snapshot_at(version=3)))
    overtaken = Overtaken(table, operation)
    to(overtaken, 3)
    assert overtaken.commits == 2
    assert rows(opened(table.location)) == sorted(expected)


def test_an_append_only_table_rejects_a_restore(table: DeltaTable) -> None:
    properties = {"delta.appendOnly": "true", "delta.enableDeletionVectors": "true"}
    table.commit(table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties=properties)))
    with pytest.raises(AppendOnly):
        to(table, 3)


def test_restore_includes_the_clustering_columns(table: DeltaTable) -> None:
    log = Path(table.location.removeprefix("file://")) / "_delta_log"
    features = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "domainMetadata", "clustering"],
    }
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}
    text = "".join(json.dumps(action) + "\n" for action in ({"protocol": features}, {"domainMetadata": domain}))
    (log / f"{6:020d}.json").write_text(text)
    to(table, 5)
    assert table.snapshot().clustering_columns == ()
    to(table, 6)
    assert table.snapshot().clustering_columns == ("id",)
