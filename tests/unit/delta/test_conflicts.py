"""Every rule about concurrent commits, with the neighbours that it must let pass."""

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
    """Two files, of the ids 1, 2 and 11, 12."""
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1, 2]), lake.file([11, 12])))
    return lake


def paths(lake: Lake) -> tuple[str, str]:
    rows = lake.table.snapshot().files(["id"]).rows.to_pylist()
    low, high = sorted(rows, key=lambda row: row["lower"]["id"])[:2]
    return low["path"], high["path"]


def everything(listing: FileListing) -> pa.Array:
    return pa.repeat(pa.scalar(True), len(listing))


def ids_from(low: int, high: int) -> Reads:
    """A command that looks for ids in a range."""

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


def no_blind_append(lake: Lake, *ids: int, mask: FileMask = everything) -> Outcome:
    """An append by a command that read the table, as an insert-only MERGE is one."""
    return lake.commit("MERGE", added=(lake.file(ids),), reads=Reads(may_match=mask))


# ------------------------------------------------------------------ appends


def test_blind_appends_go_together(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.append([3], base=base))
    assert committed(lake.append([4], base=base)) == 2
    assert lake.ids() == [1, 2, 3, 4, 11, 12]


def test_a_blind_append_does_not_disturb_a_command_that_read(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.append([3], base=base))
    assert committed(lake.commit("MERGE", added=(lake.file([4]),), reads=Reads(may_match=everything), base=base)) == 2


def test_a_blind_append_disturbs_under_serializable(lake: Lake) -> None:
    serializable(lake)
    base = lake.table.snapshot()
    committed(lake.append([3]))
    found = conflict(lake.commit("MERGE", added=(lake.file([4]),), reads=ids_from(3, 9), base=base))
    assert isinstance(found, ConcurrentAppend)
    assert committed(lake.commit("MERGE", added=(lake.file([40]),), reads=ids_from(30, 90), base=base)) == 3


def test_two_insert_only_merges_of_one_key_do_not_both_commit(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.commit("MERGE", added=(lake.file([5]),), reads=ids_from(5, 5), base=base))
    found = conflict(lake.commit("MERGE", added=(lake.file([5]),), reads=ids_from(5, 5), base=base))
    assert isinstance(found, ConcurrentAppend)
    assert (found.version, found.operation, found.table) == (1, "MERGE", "s.t")
    assert "committed version 1 first" in found.message
    assert lake.ids() == [1, 2, 5, 11, 12]


def test_an_append_whose_statistics_exclude_what_was_read_goes_together(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(no_blind_append(lake, 50, 60))
    assert committed(lake.commit("MERGE", added=(lake.file([5]),), reads=ids_from(5, 5), base=base)) == 2


def test_an_append_without_statistics_may_hold_anything(lake: Lake) -> None:
    base = lake.table.snapshot()
    fields = {"path": "p.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    (lake.folder / commit_path(1)).write_text(json.dumps({"add": fields}) + "\n")
    found = conflict(lake.commit("MERGE", added=(lake.file([5]),), reads=ids_from(5, 5), base=base))
    assert isinstance(found, ConcurrentAppend)
    assert found.operation == "a commit"


def test_an_append_does_not_disturb_a_compaction(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(no_blind_append(lake, 5))
    both = lake.file([1, 2, 11, 12])
    reads = Reads(frozenset({low, high}), everything)
    assert committed(lake.commit("OPTIMIZE", added=(both,), removed=(low, high), reads=reads, data_change=False, base=base)) == 2
    assert lake.ids() == [1, 2, 5, 11, 12]


def test_a_compaction_adds_nothing_that_was_not_there(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("OPTIMIZE", added=(lake.file([1, 2, 11, 12]),), removed=(low, high), data_change=False))
    assert committed(lake.commit("MERGE", added=(lake.file([5]),), reads=Reads(may_match=everything), base=base)) == 2


# ------------------------------------------------------------------ removals


def test_a_file_that_was_read_and_is_gone_is_a_conflict(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", removed=(low,)))
    found = conflict(lake.commit("UPDATE", added=(lake.file([5]),), removed=(high,), reads=Reads(frozenset({low, high})), base=base))
    assert isinstance(found, ConcurrentDeleteRead)
    assert low in found.message


def test_a_file_that_was_read_and_lost_rows_is_a_conflict(lake: Lake) -> None:
    low, _ = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", deleted={low: Positions([0])}))
    found = conflict(lake.commit("MERGE", added=(lake.file([5]),), reads=Reads(frozenset({low}), everything), base=base))
    assert isinstance(found, ConcurrentDeleteRead)


def test_a_compaction_of_a_file_that_was_read_is_a_conflict(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("OPTIMIZE", added=(lake.file([1, 2, 11, 12]),), removed=(low, high), data_change=False))
    found = conflict(lake.commit("DELETE", removed=(low,), reads=Reads(frozenset({low})), base=base))
    assert isinstance(found, ConcurrentDeleteRead)


def test_removals_of_other_files_go_together(lake: Lake) -> None:
    low, high = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", removed=(low,), reads=Reads(frozenset({low}))))
    assert committed(lake.commit("DELETE", removed=(high,), reads=Reads(frozenset({high})), base=base)) == 2
    assert lake.ids() == []


@pytest.mark.parametrize("first", ["removed", "deleted"])
@pytest.mark.parametrize("second", ["removed", "deleted"])
def test_one_file_is_not_changed_twice(lake: Lake, first: str, second: str) -> None:
    low, _ = paths(lake)
    how: dict[str, Any] = {"removed": (low,), "deleted": {low: Positions([0])}}
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", **{first: how[first]}))
    found = conflict(lake.commit("DELETE", **{second: how[second]}, base=base))
    assert isinstance(found, ConcurrentDeleteDelete)
    assert lake.ids() == ([11, 12] if first == "removed" else [2, 11, 12])


def test_the_vectors_of_a_conflicted_commit_are_removed(lake: Lake) -> None:
    low, _ = paths(lake)
    base = lake.table.snapshot()
    committed(lake.commit("DELETE", removed=(low,)))
    conflict(lake.commit("DELETE", deleted={low: Positions([0])}, base=base))
    assert not list(lake.folder.glob("deletion_vector_*"))


# ------------------------------------------------------------------ definition


def commit_definition(lake: Lake, **properties: str) -> int:
    definition = TableDefinition(properties={**lake.table.snapshot().settings.properties, **properties})
    return committed(lake.table.commit(lake.table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=definition)))


def test_a_changed_definition_is_a_conflict_even_for_an_append(lake: Lake) -> None:
    base = lake.table.snapshot()
    commit_definition(lake, owner="me")
    found = conflict(lake.append([3], base=base))
    assert isinstance(found, MetadataChanged)
    assert found.operation == "SET TBLPROPERTIES"


def test_a_changed_protocol_is_a_conflict(lake: Lake) -> None:
    base = lake.table.snapshot()
    commit_definition(lake, **{"delta.checkpointPolicy": "v2"})
    assert isinstance(conflict(lake.append([3], base=base)), ProtocolChanged)


def test_a_definition_changes_beside_appends(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.append([3]))
    change = CommitRequest("COMMENT ON", definition=TableDefinition(description="new"))
    assert committed(lake.table.commit(base, change)) == 2
    assert lake.table.snapshot().description == "new"
    assert lake.ids() == [1, 2, 3, 11, 12]


def test_a_metadata_domain_is_not_changed_twice(lake: Lake) -> None:
    base = lake.table.snapshot()
    domain = {"domainMetadata": {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}}
    (lake.folder / commit_path(1)).write_text(json.dumps(domain) + "\n")
    replacement = CommitRequest("CREATE OR REPLACE TABLE", definition=TableDefinition(ID_NAME), replace=True)
    found = conflict(lake.table.commit(base, replacement))
    assert isinstance(found, MetadataChanged)
    assert "delta.clustering" in found.message
    # On the newest version it goes, and takes the old clustering with it.
    committed(lake.table.commit(lake.table.snapshot(), replacement))
    assert lake.table.snapshot().state.domains == {}


def test_domains_of_others_stay_through_our_commits(lake: Lake) -> None:
    domain = {"domainMetadata": {"domain": "org.else", "configuration": "{}", "removed": False}}
    (lake.folder / commit_path(1)).write_text(json.dumps(domain) + "\n")
    for version in range(2, 12):
        assert committed(lake.append([version * 100])) == version
    for version in range(11):
        (lake.folder / commit_path(version)).unlink()
    assert Lake(lake.folder).table.snapshot().state.domains == {"org.else": "{}"}


# ------------------------------------------------------------------ transactions


def test_one_application_does_not_write_twice_at_once(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.commit("WRITE", added=(lake.file([3]),), transaction=("app", 1), base=base))
    found = conflict(lake.commit("WRITE", added=(lake.file([3]),), transaction=("app", 1), base=base))
    assert isinstance(found, ConcurrentTransaction)
    assert committed(lake.commit("WRITE", added=(lake.file([4]),), transaction=("other", 1), base=base)) == 2
    transactions = lake.table.snapshot().state.transactions
    assert {name: transaction.version for name, transaction in transactions.items()} == {"app": 1, "other": 1}


# ------------------------------------------------------------------ replacement


def test_a_replacement_takes_away_what_was_appended_meanwhile(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.append([3]))
    change = CommitRequest(
        "CREATE OR REPLACE TABLE", files=FileChanges((lake.file([9]),)), definition=TableDefinition(ID_NAME), replace=True
    )
    assert committed(lake.table.commit(base, change)) == 2
    assert lake.ids() == [9]


def test_a_replacement_that_read_the_table_minds_what_was_appended(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(no_blind_append(lake, 3))
    reads = Reads(may_match=everything)
    change = CommitRequest("CREATE OR REPLACE TABLE", reads=reads, definition=TableDefinition(ID_NAME), replace=True)
    assert isinstance(conflict(lake.table.commit(base, change)), ConcurrentAppend)


def test_several_winners_are_all_checked(lake: Lake) -> None:
    low, _ = paths(lake)
    base = lake.table.snapshot()
    for n in range(3):
        committed(lake.append([100 + n]))
    committed(lake.commit("DELETE", removed=(low,)))
    found = conflict(lake.commit("DELETE", removed=(low,), base=base))
    assert (type(found), found.version, found.operation) == (ConcurrentDeleteDelete, 4, "DELETE")
