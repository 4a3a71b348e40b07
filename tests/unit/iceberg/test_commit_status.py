"""After an error of a REST catalog, the table's metadata determines whether a commit succeeded, failed, or is unknown."""

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
from tests.support.table_operations import write_rows, write_rows_for
from tests.unit.iceberg.races import deleting
from tests.unit.iceberg.rest_faults import CUT, Act, Server, append, expire, failing, files_of, load_pyiceberg_table, serving_faults

INITIAL_IDS = list(range(20))
FAULTS = pytest.mark.parametrize("status", [409, 500, CUT])
VERSIONS = pytest.mark.parametrize("version", ["1", "2"])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(catalog_operations, "RETRY_WAITS", (0.01, 0.01))
    with serving_faults(tmp_path) as server:
        yield server


def empty_table(server: Server, version: str) -> Lake:
    """Create an empty table. rowmerge writes to tables of format version 1 but does not create them."""
    lake = server.lake()
    if version == "1":
        server.create_in_version_1(lake.folder)
    else:
        lake.create({"format-version": version})
    return lake


def table_with_rows(server: Server, version: str = "2") -> Lake:
    """Create a table of two files, with the ids 0 to 9 and 10 to 19."""
    lake = empty_table(server, version)
    lake.append(range(10))
    lake.append(range(10, 20))
    return lake


@pytest.fixture
def lake(server: Server) -> Lake:
    return table_with_rows(server)


def append_40(lake: Lake) -> Outcome:
    base = lake.table.snapshot()
    return lake.table.commit(base, CommitRequest("WRITE", files=FileChanges(write_rows(base, [40]))))


def create_with_rows(lake: Lake) -> Outcome:
    definition = TableDefinition(ID_NAME, (), {}, None)
    files = FileChanges(write_rows_for(lake.table.resolve_shape(definition), [1, 2]))
    return lake.table.create(definition, CommitRequest("CREATE TABLE", files=files))


def append_and_expire_before(server: Server) -> None:
    """Append a row and expire its parent snapshot."""
    table = load_pyiceberg_table(server)
    parent = table.metadata.current_snapshot_id
    assert parent is not None
    expire(append(server, 100), parent)


def assert_unknown_with_its_files(outcome: Outcome, files_before_commit: set[str], lake: Lake) -> None:
    assert isinstance(outcome, Unknown), outcome
    assert files_before_commit < files_of(lake)


# ------------------------------------------------------------ commits of snapshots


@FAULTS
@pytest.mark.parametrize("upgrade", [False, True])
def test_files_of_a_version_1_commit_are_retained_if_its_snapshot_expired(server: Server, status: int | None, upgrade: bool) -> None:
    def follow() -> None:
        if upgrade:
            with load_pyiceberg_table(server).transaction() as transaction:
                transaction.upgrade_table_version(2)
        append_and_expire_before(server)

    lake = table_with_rows(server, "1")
    files_before_commit = files_of(lake)
    server.acts = [failing(status, happened=True, meanwhile=follow)]
    assert_unknown_with_its_files(append_40(lake), files_before_commit, lake)
    assert server.lake().ids() == [*INITIAL_IDS, 40, 100]


@pytest.mark.parametrize("hidden", ["metadata-location", "metadata-log"])
def test_files_are_retained_without_metadata_location_or_log(server: Server, hidden: str) -> None:
    """Without location and log, metadata does not show how many commits followed."""

    def hide(answer: Callable[[], Answer]) -> Answer:
        status, content = answer()
        content.pop(hidden, None)
        content["metadata"].pop(hidden, None)
        return status, content

    table_with_rows(server, "1")
    lake = server.lake()
    server.loads = [hide] * 99
    files_before_commit = files_of(lake)
    server.acts = [failing(409, happened=True, meanwhile=lambda: append_and_expire_before(server))]
    assert_unknown_with_its_files(append_40(lake), files_before_commit, lake)
    assert server.lake().ids() == [*INITIAL_IDS, 40, 100]


@FAULTS
@VERSIONS
@pytest.mark.parametrize("ids", [(30,), (30, 31)])
def test_a_commit_that_lost_to_appends_is_retried(server: Server, status: int | None, version: str, ids: Sequence[int]) -> None:
    lake = table_with_rows(server, version)
    server.acts = [failing(status, meanwhile=lambda: append(server, *ids))]
    assert isinstance(append_40(lake), Committed)
    assert server.lake().ids() == [*INITIAL_IDS, *ids, 40]


@VERSIONS
def test_the_first_append_to_an_empty_table_is_retried_after_a_lost_race(server: Server, version: str) -> None:
    lake = empty_table(server, version)
    server.acts = [failing(409, meanwhile=lambda: append(server, 30))]
    assert isinstance(append_40(lake), Committed)
    assert server.lake().ids() == [30, 40]


def test_a_commit_that_lost_to_an_append_and_expiry_is_retried(server: Server, lake: Lake) -> None:
    oldest = lake.snapshots[0]
    server.acts = [failing(409, meanwhile=lambda: expire(append(server, 30), oldest))]
    assert isinstance(append_40(lake), Committed)
    assert server.lake().ids() == [*INITIAL_IDS, 30, 40]


@FAULTS
def test_files_of_a_branch_commit_are_retained_if_its_snapshot_expired(server: Server, lake: Lake, status: int | None) -> None:
    def follow() -> None:
        table = load_pyiceberg_table(server)
        branch_head = table.metadata.refs["side"].snapshot_id
        expire(append(server, 100, branch="side"), branch_head)

    lake.table.branches.set_reference(SnapshotReference("side", tag=False), create=True, replace=False, if_not_exists=False)
    side = lake.table.branches.table("side")
    base = side.snapshot()
    files_before_commit = files_of(lake)
    server.acts = [failing(status, happened=True, meanwhile=follow)]
    assert_unknown_with_its_files(side.commit(base, deleting(lake, base, 3)), files_before_commit, lake)
    reader = server.lake()
    assert sorted(live_rows(reader.table.branches.snapshot("side"))["id"].to_pylist()) == [id_ for id_ in [*INITIAL_IDS, 100] if id_ != 3]
    assert reader.ids() == INITIAL_IDS


@FAULTS
def test_a_concurrent_branch_commit_does_not_conflict_with_a_table_commit(server: Server, lake: Lake, status: int | None) -> None:
    lake.table.branches.set_reference(SnapshotReference("side", tag=False), create=True, replace=False, if_not_exists=False)
    server.acts = [failing(status, meanwhile=lambda: append(server, 30, branch="side"))]
    assert isinstance(append_40(lake), Committed)
    assert server.lake().ids() == [*INITIAL_IDS, 40]
    assert sorted(live_rows(server.lake().table.branches.snapshot("side"))["id"].to_pylist()) == [*INITIAL_IDS, 30]


# ------------------------------------------------------------ stale or missing answers


def record_answer(server: Server, lake: Lake) -> Act:
    """Return an act that repeats the catalog's present answer to a load of the table."""
    answers: list[Answer] = []
    server.acts, server.loads = [], [lambda answer: answers.append(answer()) or answers[0]]  # type: ignore[func-returns-value]
    assert lake.operations.current() is not None
    return lambda answer: answers[0]


@VERSIONS
@pytest.mark.parametrize("loads", [1, 2, 9])
def test_stale_metadata_from_before_the_commit_keeps_its_files(server: Server, version: str, loads: int) -> None:
    lake = table_with_rows(server, version)
    act, files_before_commit = record_answer(server, lake), files_of(lake)
    server.acts, server.loads = [failing(409, happened=True)], [act] * loads
    outcome = append_40(lake)
    server.loads = []
    assert isinstance(outcome, Committed if loads < 3 else Unknown)
    assert files_before_commit < files_of(lake)
    assert server.lake().ids() == [*INITIAL_IDS, 40]


@VERSIONS
def test_stale_metadata_from_before_the_base_keeps_the_files(server: Server, version: str) -> None:
    lake = empty_table(server, version)
    lake.append(range(10))
    act = record_answer(server, lake)
    lake.append(range(10, 20))
    files_before_commit = files_of(lake)
    server.acts, server.loads = [failing(409, happened=True)], [act] * 9
    outcome = append_40(lake)
    server.loads = []
    assert_unknown_with_its_files(outcome, files_before_commit, lake)
    assert server.lake().ids() == [*INITIAL_IDS, 40]


@pytest.mark.parametrize("status", [403, 404, 422])
def test_a_refusal_keeps_files_while_the_catalog_is_unavailable(server: Server, lake: Lake, status: int) -> None:
    files_before_commit = files_of(lake)
    server.acts, server.loads = [failing(status, happened=True)], [failing(503)] * 9
    outcome = append_40(lake)
    server.loads = []
    assert_unknown_with_its_files(outcome, files_before_commit, lake)
    assert server.lake().ids() == [*INITIAL_IDS, 40]


# ------------------------------------------------------------ renamed and dropped tables


@pytest.mark.parametrize("status", [409, 404, 500, CUT])
def test_files_of_a_commit_are_retained_after_a_concurrent_rename(server: Server, lake: Lake, status: int | None) -> None:
    files_before_commit = files_of(lake)
    server.acts = [failing(status, happened=True, meanwhile=lambda: server.rename("s.renamed"))]
    assert_unknown_with_its_files(append_40(lake), files_before_commit, lake)
    assert server.lake("renamed").ids() == [*INITIAL_IDS, 40]


def test_files_of_a_commit_are_retained_after_a_rename_before_a_retry(server: Server, lake: Lake) -> None:
    files_before_commit = files_of(lake)
    server.acts = [failing(CUT), failing(404, happened=True, meanwhile=lambda: server.rename("s.renamed"))]
    assert_unknown_with_its_files(append_40(lake), files_before_commit, lake)
    assert server.lake("renamed").ids() == [*INITIAL_IDS, 40]


@FAULTS
def test_files_of_a_commit_are_retained_after_a_rename_and_recreation(server: Server, lake: Lake, status: int | None) -> None:
    def replace() -> None:
        server.rename("s.renamed")
        other = server.lake()
        other.create()
        other.append([70])

    files_before_commit = files_of(lake)
    server.acts = [failing(status, happened=True, meanwhile=replace)]
    assert_unknown_with_its_files(append_40(lake), files_before_commit, lake)
    assert server.lake("renamed").ids() == [*INITIAL_IDS, 40] and server.lake().ids() == [70]


@pytest.mark.parametrize("status", [409, 500, CUT])
def test_files_of_a_creation_are_retained_after_a_concurrent_rename(server: Server, status: int | None) -> None:
    lake = server.lake()
    server.acts = [failing(status, happened=True, meanwhile=lambda: server.rename("s.renamed"))]
    assert isinstance(create_with_rows(lake), Unknown)
    assert server.lake("renamed").ids() == [1, 2]
    assert not server.lake().table.exists(), "no second table refers to the same files"


def test_a_concurrent_drop_makes_the_commit_outcome_unknown(server: Server, lake: Lake) -> None:
    files_before_commit = files_of(lake)
    server.acts = [failing(409, meanwhile=lambda: server.pyiceberg_catalog.drop_table("s.t"))]
    assert_unknown_with_its_files(append_40(lake), files_before_commit, lake)


def test_a_conflicting_creation_deletes_its_manifests(server: Server) -> None:
    def create_other_first(answer: Callable[[], Answer]) -> Answer:
        other = server.lake()
        other.create()
        other.append([70])
        return answer()

    lake = server.lake()
    server.acts = [create_other_first]
    assert isinstance(create_with_rows(lake), Conflicted)
    assert server.lake().ids() == [70]
    assert len([path for path in files_of(lake) if path.startswith("metadata/")]) == 2


@pytest.mark.parametrize("status", [500, CUT])
def test_a_creation_without_an_answer_is_not_retried(server: Server, status: int | None) -> None:
    """The table may have been renamed, and a second table would reference the same files."""
    lake = server.lake()
    server.acts = [failing(status)]
    assert isinstance(create_with_rows(lake), Unknown)
    assert not server.lake().table.exists()


@pytest.mark.parametrize("status", [403, 422])
def test_a_refused_creation_deletes_its_manifests(server: Server, status: int) -> None:
    lake = server.lake()
    server.acts = [failing(status)]
    with pytest.raises(CatalogFailed, match="told by the test"):
        create_with_rows(lake)
    assert not [path for path in files_of(lake) if path.startswith("metadata/")]
