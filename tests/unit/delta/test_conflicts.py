"""Rules for concurrent commits, with similar changes that do not conflict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rowmerge.delta.log.log_files import commit_path
from rowmerge.errors import (
    CommitConflict,
    ConcurrentAppend,
    ConcurrentDeleteDelete,
    ConcurrentDeleteRead,
    ConcurrentTransaction,
    MetadataChanged,
    ProtocolChanged,
)
from rowmerge.table.commits.request import CommitRequest, Conflicted, Outcome, Reads
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, FileListing, FileMask, Positions
from tests.support.delta_tables import ID_NAME, Lake, committed


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a table of two files, with the ids 1, 2 and 11, 12."""
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1, 2]), lake.file([11, 12])))
    return lake


def paths(lake: Lake) -> tuple[str, str]:
    rows = lake.table.snapshot().files(["id"]).rows.to_pylist()
    low, high = sorted(rows, key=lambda row: row["lower"]["id"])[:2]
    return low["path"], high["path"]


def match_every_file(listing: FileListing) -> pa.Array:
    return pa.repeat(pa.scalar(True), len(listing))


def ids_from(low: int, high: int) -> Reads:
    """Return the reads of a command that searches a range of ids."""

    def mask(listing: FileListing) -> pa.ChunkedArray:
        lower, upper = (pc.struct_field(listing.rows[side], ["id"]) for side in ("lower", "upper"))
        return pc.and_(pc.less_equal(lower, high), pc.greater_equal(upper, low))

    return Reads(may_match=mask, columns=("id",))


def conflict(outcome: Outcome) -> CommitConflict:
    assert isinstance(outcome, Conflicted), outcome
    return outcome.conflict


def serializable(lake: Lake) -> None:
    definition = TableDefinition(properties={**lake.table.snapshot().settings.properties, "delta.isolationLevel": "Serializable"})
    committed(lake.table.commit(lake.table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=definition)))


def append_with_reads(lake: Lake, *ids: int, mask: FileMask = match_every_file) -> Outcome:
    """Append files by a command that read the table, as an insert-only MERGE does."""
    return lake.commit("MERGE", added=(lake.file(ids),), reads=Reads(may_match=mask))


# ------------------------------------------------------------------ appends


def test_blind_appends_do_not_conflict(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.append([3], base=base))
    assert committed(lake.append([4], base=base)) == 2
    assert lake.ids() == [1, 2, 3, 4, 11, 12]


def test_a_blind_append_does_not_conflict_with_a_reading_command(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.append([3], base=base))
    assert committed(lake.commit("MERGE", added=(lake.file([4]),), reads=Reads(may_match=match_every_file), base=base)) == 2


def test_a_blind_append_conflicts_under_serializable_isolation(lake: Lake) -> None:
    serializable(lake)
    base = lake.table.snapshot()
    committed(lake.append([3]))
    error = conflict(lake.commit("MERGE", added=(lake.file([4]),), reads=ids_from(3, 9), base=base))
    assert isinstance(error, ConcurrentAppend)
    assert committed(lake.commit("MERGE", added=(lake.file([40]),), reads=ids_from(30, 90), base=base)) == 3


def test_insert_only_merges_of_the_same_key_conflict(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.commit("MERGE", added=(lake.file([5]),), reads=ids_from(5, 5), base=base))
    error = conflict(lake.commit("MERGE", added=(lake.file([5]),), reads=ids_from(5, 5), base=base))
    assert isinstance(error, ConcurrentAppend)
    assert (error.version, error.operation, error.table) == (1, "MERGE", "s.t")
    assert "committed version 1 first" in error.message
    assert lake.ids() == [1, 2, 5, 11, 12]


def test_an_append_outside_the_read_range_does_not_conflict(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(append_with_reads(lake, 50, 60))
    assert committed(lake.commit("MERGE", added=(lake.file([5]),), reads=ids_from(5, 5), base=base)) == 2


def test_an_append_without_statistics_conflicts(lake: Lake) -> None:
    base = lake.table.snapshot()
    fields = {"path": "p.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    (lake.folder / commit_path(1)).write_text(json.dumps({"add": fields}) + "\n")
    error = conflict(lake.commit("MERGE", added=(lake.file([5]),), reads=ids_from(5, 5), base=base))
    assert isinstance(error, ConcurrentAppend)
    assert error.operation == "a commit"


def test_an_append_does_not_conflict_with_a_compaction(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(append_with_reads(lake, 5))
    compacted_file = lake.file([1, 2, 11, 12])
    reads = Reads(frozenset({low, high}), match_every_file)
    assert committed(lake.commit("OPTIMIZE", added=(compacted_file,), removed=(low, high), reads=reads, data_change=False, base=base)) == 2
    assert lake.ids() == [1, 2, 5, 11, 12]


def test_files_added_by_a_compaction_do_not_conflict(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("OPTIMIZE", added=(lake.file([1, 2, 11, 12]),), removed=(low, high), data_change=False))
    assert committed(lake.commit("MERGE", added=(lake.file([5]),), reads=Reads(may_match=match_every_file), base=base)) == 2


# ------------------------------------------------------------------ removals


def test_removal_of_a_read_file_conflicts(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", removed=(low,)))
    error = conflict(lake.commit("UPDATE", added=(lake.file([5]),), removed=(high,), reads=Reads(frozenset({low, high})), base=base))
    assert isinstance(error, ConcurrentDeleteRead)
    assert low in error.message


def test_deleted_rows_in_a_read_file_conflict(lake: Lake) -> None:
    low, _ = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", deleted={low: Positions([0])}))
    error = conflict(lake.commit("MERGE", added=(lake.file([5]),), reads=Reads(frozenset({low}), match_every_file), base=base))
    assert isinstance(error, ConcurrentDeleteRead)


def test_compaction_of_a_read_file_conflicts(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("OPTIMIZE", added=(lake.file([1, 2, 11, 12]),), removed=(low, high), data_change=False))
    error = conflict(lake.commit("DELETE", removed=(low,), reads=Reads(frozenset({low})), base=base))
    assert isinstance(error, ConcurrentDeleteRead)


def test_removals_of_different_files_do_not_conflict(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", removed=(low,), reads=Reads(frozenset({low}))))
    assert committed(lake.commit("DELETE", removed=(high,), reads=Reads(frozenset({high})), base=base)) == 2
    assert lake.ids() == []


@pytest.mark.parametrize("first", ["removed", "deleted"])
@pytest.mark.parametrize("second", ["removed", "deleted"])
def test_concurrent_changes_of_the_same_file_conflict(lake: Lake, first: str, second: str) -> None:
    low, _ = paths(lake)
    changes: dict[str, Any] = {"removed": (low,), "deleted": {low: Positions([0])}}
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", **{first: changes[first]}))
    error = conflict(lake.commit("DELETE", **{second: changes[second]}, base=base))
    assert isinstance(error, ConcurrentDeleteDelete)
    assert lake.ids() == ([11, 12] if first == "removed" else [2, 11, 12])


def test_a_conflict_deletes_the_deletion_vectors_of_the_commit(lake: Lake) -> None:
    low, _ = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", removed=(low,)))
    conflict(lake.commit("DELETE", deleted={low: Positions([0])}, base=base))
    assert not list(lake.folder.glob("deletion_vector_*"))


# ------------------------------------------------------------------ definition


def commit_definition(lake: Lake, **properties: str) -> int:
    definition = TableDefinition(properties={**lake.table.snapshot().settings.properties, **properties})
    return committed(lake.table.commit(lake.table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=definition)))


def test_a_metadata_change_conflicts_with_an_append(lake: Lake) -> None:
    base = lake.table.snapshot()
    commit_definition(lake, owner="me")
    error = conflict(lake.append([3], base=base))
    assert isinstance(error, MetadataChanged)
    assert error.operation == "SET TBLPROPERTIES"


def test_a_protocol_change_conflicts_with_an_append(lake: Lake) -> None:
    base = lake.table.snapshot()
    commit_definition(lake, **{"delta.checkpointPolicy": "v2"})
    assert isinstance(conflict(lake.append([3], base=base)), ProtocolChanged)


def test_an_append_does_not_conflict_with_a_metadata_change(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.append([3]))
    change = CommitRequest("COMMENT ON", definition=TableDefinition(description="new"))
    assert committed(lake.table.commit(base, change)) == 2
    assert lake.table.snapshot().description == "new"
    assert lake.ids() == [1, 2, 3, 11, 12]


def test_concurrent_changes_of_a_metadata_domain_conflict(lake: Lake) -> None:
    base = lake.table.snapshot()
    domain = {"domainMetadata": {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}}
    (lake.folder / commit_path(1)).write_text(json.dumps(domain) + "\n")
    replacement = CommitRequest("CREATE OR REPLACE TABLE", definition=TableDefinition(ID_NAME), replace=True)
    error = conflict(lake.table.commit(base, replacement))
    assert isinstance(error, MetadataChanged)
    assert "delta.clustering" in error.message
    # On the newest version, the replacement commits and removes the old clustering.
    committed(lake.table.commit(lake.table.snapshot(), replacement))
    assert lake.table.snapshot().state.domains == {}


def test_commits_and_checkpoints_keep_foreign_metadata_domains(lake: Lake) -> None:
    domain = {"domainMetadata": {"domain": "org.else", "configuration": "{}", "removed": False}}
    (lake.folder / commit_path(1)).write_text(json.dumps(domain) + "\n")
    for version in range(2, 12):
        assert committed(lake.append([version * 100])) == version
    for version in range(11):
        (lake.folder / commit_path(version)).unlink()
    assert Lake(lake.folder).table.snapshot().state.domains == {"org.else": "{}"}


# ------------------------------------------------------------------ transactions


def test_concurrent_transactions_of_one_application_conflict(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.commit("WRITE", added=(lake.file([3]),), transaction=("app", 1), base=base))
    error = conflict(lake.commit("WRITE", added=(lake.file([3]),), transaction=("app", 1), base=base))
    assert isinstance(error, ConcurrentTransaction)
    assert committed(lake.commit("WRITE", added=(lake.file([4]),), transaction=("other", 1), base=base)) == 2
    transactions = lake.table.snapshot().state.transactions
    assert {name: transaction.version for name, transaction in transactions.items()} == {"app": 1, "other": 1}


# ------------------------------------------------------------------ replacement


def test_a_replacement_without_reads_removes_concurrent_appends(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.append([3]))
    change = CommitRequest(
        "CREATE OR REPLACE TABLE", files=FileChanges((lake.file([9]),)), definition=TableDefinition(ID_NAME), replace=True
    )
    assert committed(lake.table.commit(base, change)) == 2
    assert lake.ids() == [9]


def test_a_replacement_with_reads_conflicts_with_concurrent_appends(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(append_with_reads(lake, 3))
    reads = Reads(may_match=match_every_file)
    change = CommitRequest("CREATE OR REPLACE TABLE", reads=reads, definition=TableDefinition(ID_NAME), replace=True)
    assert isinstance(conflict(lake.table.commit(base, change)), ConcurrentAppend)


def test_all_winning_commits_are_checked_for_conflicts(lake: Lake) -> None:
    low, _ = paths(lake)
    base = lake.table.snapshot()
    for n in range(3):
        committed(lake.append([100 + n]))
    committed(lake.commit("DELETE", removed=(low,)))
    error = conflict(lake.commit("DELETE", removed=(low,), base=base))
    assert (type(error), error.version, error.operation) == (ConcurrentDeleteDelete, 4, "DELETE")
