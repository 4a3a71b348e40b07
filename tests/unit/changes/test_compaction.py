"""OPTIMIZE and REORG on real files preserve rows and concurrent changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.log.log_files import commit_path
from rowmerge.errors import UnsupportedTableFeature
from rowmerge.execution.compaction import optimize, purge
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Outcome
from rowmerge.table.snapshots.snapshot import Snapshot
from tests.support import table_operations as operations
from tests.support.delta_tables import delete_checksums
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of
from tests.support.table_operations import NO_SPARK, opened, rows


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Create a table of two files, one with two deleted rows, and several small ones."""
    operations.built(str(tmp_path))
    operations.append(opened(str(tmp_path)))
    return opened(str(tmp_path))


def actions(table: DeltaTable, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(table.location.removeprefix("file://"), commit_path(version)).read_text().splitlines()]


class Overtaken(DeltaTable):
    """A table that a concurrent writer changes right before our first commit."""

    def __init__(self, table: DeltaTable, operation: str) -> None:
        super().__init__(Storage(table.location), "s.t")
        self.operation, self.commits = operation, 0

    def commit(self, base: Snapshot, change: CommitRequest) -> Outcome:
        self.commits += 1
        if self.commits == 1:
            operations.OPERATIONS[self.operation](opened(self.location))
        return super().commit(base, change)


def test_compaction_merges_files_and_preserves_rows(table: DeltaTable) -> None:
    old_rows = rows(table)
    result, compacted = optimize(NO_SPARK, table, None)
    assert table.snapshot().files().rows.num_rows == 1
    assert rows(table) == old_rows
    assert rows_of(read_with_duckdb(table.location)) == rows_of(read_with_delta_rs(table.location)) == old_rows
    assert (len(compacted.removed_sizes), len(compacted.added_sizes)) == (3, 1)
    assert (compacted.removed_vector_count, compacted.removed_vector_rows) == (1, 2)
    commit_actions = actions(table, result.version)
    assert [action["add"]["dataChange"] for action in commit_actions if "add" in action] == [False]
    assert [action["remove"]["dataChange"] for action in commit_actions if "remove" in action] == [False] * 3
    assert optimize(NO_SPARK, table, None)[0].version == result.version, "a second time there is nothing to do"


def test_the_history_contains_the_compaction(table: DeltaTable) -> None:
    optimize(NO_SPARK, table, None)
    (entry,) = table.history(1)
    assert (entry.operation, entry.isolation_level, entry.is_blind_append) == ("OPTIMIZE", "SnapshotIsolation", False)
    assert entry.parameters == {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": "false"}
    assert (entry.metrics["numRemovedFiles"], entry.metrics["numAddedFiles"], entry.metrics["numDeletionVectorsRemoved"]) == ("3", "1", "1")


def test_purge_skips_files_without_deleted_rows(table: DeltaTable) -> None:
    old_rows, old_paths = rows(table), set(table.snapshot().files().paths)
    purge(NO_SPARK, table, None)
    new_files = table.snapshot().files()
    assert sum(new_files.deleted.to_pylist()) == 0
    assert len(old_paths & set(new_files.paths)) == 2
    assert rows(table) == old_rows
    assert table.history(1)[0].parameters == {"predicate": "[]", "applyPurge": "true"}


@pytest.mark.parametrize("operation", ["merge_on_read", "copy_on_write", "overwrite", "replace", "add_column"])
def test_concurrent_row_changes_survive_a_compaction(table: DeltaTable, operation: str) -> None:
    expected = Path(f"{table.location.removeprefix('file://')}-expected")
    operations.built(str(expected))
    operations.append(opened(str(expected)))
    operations.OPERATIONS[operation](opened(str(expected)))
    overtaken = Overtaken(table, operation)
    optimize(NO_SPARK, overtaken, None)
    assert rows(opened(table.location)) == rows(opened(str(expected)))


def test_a_concurrent_append_does_not_restart_a_compaction(table: DeltaTable) -> None:
    old_count = len(rows(table))
    overtaken = Overtaken(table, "append")
    optimize(NO_SPARK, overtaken, None)
    assert overtaken.commits == 1
    assert len(rows(opened(table.location))) == old_count + 2


@pytest.mark.parametrize("operation", ["merge_on_read", "copy_on_write"])
def test_a_merge_restarts_after_a_concurrent_compaction(table: DeltaTable, operation: str) -> None:
    overtaken = Overtaken(table, "optimize")
    operations.OPERATIONS[operation](overtaken)
    assert overtaken.commits == 2
    assert [name for _, name in rows(opened(table.location)) if str(name).startswith("new")] == ["new5", "new15", "new100"]


def test_the_target_file_size_is_a_table_property(table: DeltaTable) -> None:
    path = Path(table.location.removeprefix("file://"), commit_path(0))
    path.write_text(path.read_text().replace('"configuration":{', '"configuration":{"delta.targetFileSize":"1kb",'))
    delete_checksums(path.parents[1])
    again = opened(table.location)
    assert again.snapshot().settings.target_file_size == 1024
    _, compacted = optimize(NO_SPARK, again, None)
    assert len(compacted.added_sizes) == 1
    assert compacted.considered_files == 3


def test_a_clustered_table_is_rejected(table: DeltaTable) -> None:
    path = Path(table.location.removeprefix("file://"), commit_path(0))
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}
    path.write_text(path.read_text() + json.dumps({"domainMetadata": domain}) + "\n")
    delete_checksums(path.parents[1])
    with pytest.raises(UnsupportedTableFeature, match="clustered by id"):
        optimize(NO_SPARK, opened(table.location), None)
