"""After a refusal or a failure of a REST catalog, the table's metadata decides whether a commit is in, is lost, or may be either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rowmerge.errors import CatalogFailed
from rowmerge.iceberg.catalogs import catalog_operations
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Outcome, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.table import SnapshotReference
from tests.support.delta_tables import ID_NAME, live_rows
from tests.support.iceberg_lake import Lake
from tests.support.rest_catalog import Answer
from tests.support.table_operations import written, written_for
from tests.unit.iceberg.races import deleting
from tests.unit.iceberg.rest_faults import CUT, Act, Server, append, expire, failing, files_of, serving_faults, theirs

OLD = list(range(20))
FAULTS = pytest.mark.parametrize("status", [409, 500, CUT])
VERSIONS = pytest.mark.parametrize("version", ["1", "2"])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(catalog_operations, "RETRY_WAITS", (0.01, 0.01))
    with serving_faults(tmp_path) as server:
        yield server


def empty_table(server: Server, version: str) -> Lake:
    """An empty table. We write to tables of format version 1, and create none."""
    lake = server.lake()
    if version == "1":
        server.create_in_version_1(lake.folder)
    else:
        lake.create({"format-version": version})
    return lake


def table_with_rows(server: Server, version: str = "2") -> Lake:
    """Two files: the ids 0 to 9 and 10 to 19."""
    lake = empty_table(server, version)
    lake.append(range(10))
    lake.append(range(10, 20))
    return lake


@pytest.fixture
def lake(server: Server) -> Lake:
    return table_with_rows(server)


def append_40(lake: Lake) -> Outcome:
    base = lake.table.snapshot()
    return lake.table.commit(base, CommitRequest("WRITE", files=FileChanges(written(base, [40]))))


def create_with_rows(lake: Lake) -> Outcome:
    definition = TableDefinition(ID_NAME, (), {}, None)
    files = FileChanges(written_for(lake.table.resolve_shape(definition), [1, 2]))
    return lake.table.create(definition, CommitRequest("CREATE TABLE", files=files))


def append_and_expire_before(server: Server) -> None:
    """Append a row, and expire the snapshot that it follows."""
    table = theirs(server)
    parent = table.metadata.current_snapshot_id
    assert parent is not None
    expire(append(server, 100), parent)


def assert_unknown_with_its_files(outcome: Outcome, before: set[str], lake: Lake) -> None:
    assert isinstance(outcome, Unknown), outcome
    assert before < files_of(lake)


# ------------------------------------------------------------ commits of snapshots


@FAULTS
@pytest.mark.parametrize("upgrade", [False, True])
def test_files_of_a_commit_in_format_version_1_stay_if_its_snapshot_alone_expired(
    server: Server, status: int | None, upgrade: bool
) -> None:
    def follow() -> None:
        if upgrade:
            with theirs(server).transaction() as transaction:
                transaction.upgrade_table_version(2)
        append_and_expire_before(server)

    lake = table_with_rows(server, "1")
    before = files_of(lake)
    server.acts = [failing(status, happened=True, meanwhile=follow)]
    assert_unknown_with_its_files(append_40(lake), before, lake)
    assert server.lake().ids() == [*OLD, 40, 100]


@pytest.mark.parametrize("hidden", ["metadata-location", "metadata-log"])
def test_files_stay_where_a_catalog_does_not_tell_where_its_metadata_is(server: Server, hidden: str) -> None:
    """Without its location and its log, metadata does not tell how many commits came after other metadata."""

    def hide(answer: Callable[[], Answer]) -> Answer:
        status, content = answer()
        content.pop(hidden, None)
        content["metadata"].pop(hidden, None)
        return status, content

    table_with_rows(server, "1")
    lake = server.lake()
    server.loads = [hide] * 99
    before = files_of(lake)
    server.acts = [failing(409, happened=True, meanwhile=lambda: append_and_expire_before(server))]
    assert_unknown_with_its_files(append_40(lake), before, lake)
    assert server.lake().ids() == [*OLD, 40, 100]


@FAULTS
@VERSIONS
@pytest.mark.parametrize("ids", [(30,), (30, 31)])
def test_a_commit_that_lost_to_appends_is_in_after_them(server: Server, status: int | None, version: str, ids: Sequence[int]) -> None:
    lake = table_with_rows(server, version)
    server.acts = [failing(status, meanwhile=lambda: append(server, *ids))]
    assert isinstance(append_40(lake), Committed)
    assert server.lake().ids() == [*OLD, *ids, 40]


@VERSIONS
def test_the_first_append_to_an_empty_table_may_lose_to_another_one(server: Server, version: str) -> None:
    lake = empty_table(server, version)
    server.acts = [failing(409, meanwhile=lambda: append(server, 30))]
    assert isinstance(append_40(lake), Committed)
    assert server.lake().ids() == [30, 40]


def test_a_commit_that_lost_to_its_successor_s_expiry_of_older_snapshots_is_in_after_it(server: Server, lake: Lake) -> None:
    oldest = lake.snapshots[0]
    server.acts = [failing(409, meanwhile=lambda: expire(append(server, 30), oldest))]
    assert isinstance(append_40(lake), Committed)
    assert server.lake().ids() == [*OLD, 30, 40]


@FAULTS
def test_files_of_a_commit_to_a_branch_stay_if_others_followed_it_and_expired_its_snapshot(
    server: Server, lake: Lake, status: int | None
) -> None:
    def follow() -> None:
        table = theirs(server)
        ours = table.metadata.refs["side"].snapshot_id
        expire(append(server, 100, branch="side"), ours)

    lake.table.branches.set_reference(SnapshotReference("side", tag=False), create=True, replace=False, if_not_exists=False)
    side = lake.table.branches.table("side")
    base = side.snapshot()
    before = files_of(lake)
    server.acts = [failing(status, happened=True, meanwhile=follow)]
    assert_unknown_with_its_files(side.commit(base, deleting(lake, base, 3)), before, lake)
    reader = server.lake()
    assert sorted(live_rows(reader.table.branches.snapshot("side"))["id"].to_pylist()) == [id_ for id_ in [*OLD, 100] if id_ != 3]
    assert reader.ids() == OLD


@FAULTS
def test_a_commit_to_a_branch_at_the_instant_of_a_commit_to_the_table_stands_beside_it(
    server: Server, lake: Lake, status: int | None
) -> None:
    lake.table.branches.set_reference(SnapshotReference("side", tag=False), create=True, replace=False, if_not_exists=False)
    server.acts = [failing(status, meanwhile=lambda: append(server, 30, branch="side"))]
    assert isinstance(append_40(lake), Committed)
    assert server.lake().ids() == [*OLD, 40]
    assert sorted(live_rows(server.lake().table.branches.snapshot("side"))["id"].to_pylist()) == [*OLD, 30]


# ------------------------------------------------------------ answers that are stale, or missing


def answer_of_now(server: Server, lake: Lake) -> Act:
    """What the catalog answers at this moment to a client that loads the table."""
    old: list[Answer] = []
    server.acts, server.loads = [], [lambda answer: old.append(answer()) or old[0]]  # type: ignore[func-returns-value]
    assert lake.operations.current() is not None
    return lambda answer: old[0]


@VERSIONS
@pytest.mark.parametrize("loads", [1, 2, 9])
def test_a_catalog_that_answers_with_metadata_from_before_a_commit_costs_no_file_of_it(server: Server, version: str, loads: int) -> None:
    lake = table_with_rows(server, version)
    act, before = answer_of_now(server, lake), files_of(lake)
    server.acts, server.loads = [failing(409, happened=True)], [act] * loads
    outcome = append_40(lake)
    server.loads = []
    assert isinstance(outcome, Committed if loads < 3 else Unknown)
    assert before < files_of(lake)
    assert server.lake().ids() == [*OLD, 40]


@VERSIONS
def test_a_catalog_that_answers_with_metadata_from_before_the_base_costs_no_file(server: Server, version: str) -> None:
    lake = empty_table(server, version)
    lake.append(range(10))
    act = answer_of_now(server, lake)
    lake.append(range(10, 20))
    before = files_of(lake)
    server.acts, server.loads = [failing(409, happened=True)], [act] * 9
    outcome = append_40(lake)
    server.loads = []
    assert_unknown_with_its_files(outcome, before, lake)
    assert server.lake().ids() == [*OLD, 40]


@pytest.mark.parametrize("status", [403, 404, 422])
def test_a_refusal_deletes_nothing_while_the_catalog_is_away(server: Server, lake: Lake, status: int) -> None:
    before = files_of(lake)
    server.acts, server.loads = [failing(status, happened=True)], [failing(503)] * 9
    outcome = append_40(lake)
    server.loads = []
    assert_unknown_with_its_files(outcome, before, lake)
    assert server.lake().ids() == [*OLD, 40]


# ------------------------------------------------------------ tables that are gone


@pytest.mark.parametrize("status", [409, 404, 500, CUT])
def test_files_of_a_commit_stay_if_others_renamed_the_table(server: Server, lake: Lake, status: int | None) -> None:
    before = files_of(lake)
    server.acts = [failing(status, happened=True, meanwhile=lambda: server.rename("s.renamed"))]
    assert_unknown_with_its_files(append_40(lake), before, lake)
    assert server.lake("renamed").ids() == [*OLD, 40]


def test_files_of_a_commit_stay_if_the_table_is_gone_at_a_later_attempt(server: Server, lake: Lake) -> None:
    before = files_of(lake)
    server.acts = [failing(CUT), failing(404, happened=True, meanwhile=lambda: server.rename("s.renamed"))]
    assert_unknown_with_its_files(append_40(lake), before, lake)
    assert server.lake("renamed").ids() == [*OLD, 40]


@FAULTS
def test_files_of_a_commit_stay_if_others_renamed_the_table_and_created_another(server: Server, lake: Lake, status: int | None) -> None:
    def replace() -> None:
        server.rename("s.renamed")
        other = server.lake()
        other.create()
        other.append([70])

    before = files_of(lake)
    server.acts = [failing(status, happened=True, meanwhile=replace)]
    assert_unknown_with_its_files(append_40(lake), before, lake)
    assert server.lake("renamed").ids() == [*OLD, 40] and server.lake().ids() == [70]


@pytest.mark.parametrize("status", [409, 500, CUT])
def test_files_of_a_creation_stay_if_others_renamed_the_table(server: Server, status: int | None) -> None:
    lake = server.lake()
    server.acts = [failing(status, happened=True, meanwhile=lambda: server.rename("s.renamed"))]
    assert isinstance(create_with_rows(lake), Unknown)
    assert server.lake("renamed").ids() == [1, 2]
    assert not server.lake().table.exists(), "no second table refers to the same files"


def test_a_table_that_is_dropped_at_the_instant_of_a_commit_leaves_the_outcome_unknown(server: Server, lake: Lake) -> None:
    before = files_of(lake)
    server.acts = [failing(409, meanwhile=lambda: server.theirs.drop_table("s.t"))]
    assert_unknown_with_its_files(append_40(lake), before, lake)


def test_a_creation_that_lost_to_another_is_a_conflict_and_leaves_no_manifest(server: Server) -> None:
    def first_theirs(answer: Callable[[], Answer]) -> Answer:
        other = server.lake()
        other.create()
        other.append([70])
        return answer()

    lake = server.lake()
    server.acts = [first_theirs]
    assert isinstance(create_with_rows(lake), Conflicted)
    assert server.lake().ids() == [70]
    assert len([path for path in files_of(lake) if path.startswith("metadata/")]) == 2


@pytest.mark.parametrize("status", [500, CUT])
def test_a_creation_without_an_answer_is_sent_once(server: Server, status: int | None) -> None:
    """Others may have renamed its table, and a second table would refer to the same files."""
    lake = server.lake()
    server.acts = [failing(status)]
    assert isinstance(create_with_rows(lake), Unknown)
    assert not server.lake().table.exists()


@pytest.mark.parametrize("status", [403, 422])
def test_a_creation_that_a_catalog_refuses_leaves_no_manifest(server: Server, status: int) -> None:
    lake = server.lake()
    server.acts = [failing(status)]
    with pytest.raises(CatalogFailed, match="told by the test"):
        create_with_rows(lake)
    assert not [path for path in files_of(lake) if path.startswith("metadata/")]
