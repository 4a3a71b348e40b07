"""With a faulty REST catalog, a commit is applied at most once and keeps its files while its outcome is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform

from rowmerge.errors import CatalogFailed, CommitStateUnknown, ConcurrentDeleteRead, MetadataChanged
from rowmerge.iceberg.catalogs import catalog_operations
from rowmerge.table.commits.request import CommitRequest, Committed, Unknown
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.table import SnapshotReference
from tests.support.iceberg_lake import Lake
from tests.support.rest_catalog import Answer
from tests.support.table_operations import write_rows
from tests.unit.iceberg.races import conflict, deleting
from tests.unit.iceberg.rest_faults import CUT, Server, failing, files_of, serving_faults, set_property
from tests.unit.iceberg.test_pyiceberg_races import lake_in_catalog, rows


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(catalog_operations, "RETRY_WAITS", (0.01, 0.01))
    with serving_faults(tmp_path) as server:
        yield server


@pytest.fixture
def lake(server: Server, tmp_path: Path) -> Lake:
    """Create a table of two files, with the ids 0 to 9 and 10 to 19."""
    table_lake = server.lake()
    table_lake.create()
    table_lake.append(range(10))
    table_lake.append(range(10, 20))
    return table_lake


INITIAL_IDS = list(range(20))
WITHOUT_3 = [id_ for id_ in INITIAL_IDS if id_ != 3]


@pytest.mark.parametrize("happened", [False, True], ids=["not", "happened"])
@pytest.mark.parametrize("status", [500, 503, 408, CUT])
def test_a_commit_with_a_lost_answer_is_applied_once(server: Server, lake: Lake, status: int | None, happened: bool) -> None:
    base = lake.table.snapshot()
    server.acts = [failing(status, happened=happened)]
    outcome = lake.table.commit(base, deleting(lake, base, 3))
    assert isinstance(outcome, Committed) and not server.acts
    assert outcome.version == lake.table.snapshot().version
    assert lake.ids() == WITHOUT_3 and [entry.operation for entry in lake.table.history()].count("DELETE") == 1
    assert sorted(server.pyiceberg_catalog.load_table("s.t").scan().to_arrow()["id"].to_pylist()) == WITHOUT_3


def test_an_invalid_answer_makes_the_outcome_unknown(server: Server, lake: Lake) -> None:
    def garble_answer(answer: Callable[[], Answer]) -> Answer:
        assert answer()[0] == 200
        return 200, {"metadata": "half of it"}

    base = lake.table.snapshot()
    server.acts, server.loads = [garble_answer], [failing(500)] * 9
    assert isinstance(lake.table.commit(base, deleting(lake, base, 3)), Unknown)
    server.loads = []
    assert lake.ids() == WITHOUT_3


def test_a_commit_without_an_answer_is_detected_in_the_table(server: Server, lake: Lake) -> None:
    base = lake.table.snapshot()
    server.acts = [failing(504, happened=True), failing(504), failing(504)]
    assert isinstance(lake.table.commit(base, deleting(lake, base, 3)), Committed)
    assert len(server.acts) == 2, "it is not sent again"
    assert lake.ids() == WITHOUT_3


@pytest.mark.parametrize("status", [504, CUT])
def test_an_unknown_outcome_keeps_the_files_of_the_commit(server: Server, lake: Lake, status: int | None) -> None:
    base = lake.table.snapshot()
    files_before_commit = files_of(lake)
    server.acts = [failing(status)] * 3
    outcome = lake.table.commit(base, deleting(lake, base, 3))
    assert isinstance(outcome, Unknown) and not server.acts
    assert len(files_of(lake) - files_before_commit) == 3 and not files_before_commit - files_of(lake), (
        "a delete file, its manifest and the list of manifests"
    )
    assert lake.ids() == INITIAL_IDS


def test_a_reference_change_without_an_answer_raises_state_unknown(server: Server, lake: Lake) -> None:
    server.acts = [failing(504)] * 3
    with pytest.raises(CommitStateUnknown, match="told by the test"):
        lake.table.branches.set_reference(SnapshotReference("kept", tag=True), create=True, replace=False, if_not_exists=False)


def test_a_concurrent_commit_after_a_lost_answer_conflicts(server: Server, lake: Lake) -> None:
    base = lake.table.snapshot()
    files_before_commit = files_of(lake)
    server.acts = [failing(504, meanwhile=lambda: server.pyiceberg_catalog.load_table("s.t").delete("id = 4"))]
    assert conflict(lake.table.commit(base, deleting(lake, base, 3))) is ConcurrentDeleteRead
    assert lake.ids() == [id_ for id_ in INITIAL_IDS if id_ != 4]
    assert not [path for path in files_of(lake) - files_before_commit if "deletes" in path], "it cannot come in any more, and its files go"


def test_concurrent_appends_after_a_lost_answer_do_not_conflict(server: Server, lake: Lake) -> None:
    base = lake.table.snapshot()
    server.acts = [failing(CUT, meanwhile=lambda: server.pyiceberg_catalog.load_table("s.t").append(rows(30)))]
    assert isinstance(lake.table.commit(base, deleting(lake, base, 3)), Committed)
    assert lake.ids() == [*WITHOUT_3, 30]
    base = lake.table.snapshot()
    server.acts = [failing(CUT, happened=True, meanwhile=lambda: server.pyiceberg_catalog.load_table("s.t").append(rows(31)))]
    assert isinstance(lake.table.commit(base, deleting(lake, base, 5)), Committed)
    assert lake.ids() == [id_ for id_ in [*WITHOUT_3, 30, 31] if id_ != 5]


def test_a_request_that_arrives_late_is_committed_with_its_files(server: Server, lake: Lake) -> None:
    """A property change does not block the late request, and a reported conflict would delete the files of a valid commit."""
    delayed_answers: list[Callable[[], Answer]] = []

    def delay_request(answer: Callable[[], Answer]) -> Answer | None:
        delayed_answers.append(answer)
        set_property(server, owner="them")
        return CUT

    def deliver_delayed_request(answer: Callable[[], Answer]) -> Answer | None:
        assert delayed_answers[0]()[0] == 200
        return answer()

    base = lake.table.snapshot()
    server.acts = [delay_request, deliver_delayed_request]
    assert isinstance(lake.table.commit(base, deleting(lake, base, 3)), Committed)
    assert lake.ids() == WITHOUT_3 and lake.table.snapshot().settings.properties["owner"] == "them"


@pytest.mark.parametrize("status", [403, 404, 422])
def test_a_refused_commit_raises_and_deletes_its_files(server: Server, lake: Lake, status: int) -> None:
    base = lake.table.snapshot()
    files_before_commit = lake.on_disk()
    server.acts = [failing(status)]
    with pytest.raises(CatalogFailed, match="told by the test"):
        lake.table.commit(base, deleting(lake, base, 3))
    assert lake.on_disk() == files_before_commit and lake.ids() == INITIAL_IDS


def test_a_commit_is_retried_after_a_conflict_without_a_winner(server: Server, lake: Lake) -> None:
    base = lake.table.snapshot()
    server.acts = [failing(409), failing(409, happened=True)]
    assert isinstance(lake.table.commit(base, deleting(lake, base, 3)), Committed)
    assert lake.ids() == WITHOUT_3


@pytest.mark.parametrize("failures", [1, 2, 9])
def test_a_refusal_of_an_applied_commit_keeps_its_files(server: Server, lake: Lake, failures: int) -> None:
    """A proxy sends the commit twice and returns the second answer; then the catalog is unavailable for some requests."""
    base = lake.table.snapshot()
    server.acts, server.loads = [failing(409, happened=True)], [failing(503)] * failures
    outcome = lake.table.commit(base, deleting(lake, base, 3))
    assert isinstance(outcome, Committed if failures < 3 else Unknown)
    server.loads = []
    assert lake.ids() == WITHOUT_3
    assert sorted(server.pyiceberg_catalog.load_table("s.t").scan().to_arrow()["id"].to_pylist()) == WITHOUT_3


@pytest.mark.parametrize("status", [409, 500, CUT])
@pytest.mark.parametrize("appends", [1, 2])
def test_files_of_a_commit_are_retained_if_its_snapshot_expired(server: Server, lake: Lake, status: int | None, appends: int) -> None:
    """Expiry by pyiceberg clears the parent id of the next snapshot, so its history is not visible."""

    def follow_and_expire() -> None:
        table = server.pyiceberg_catalog.load_table("s.t")
        for id_ in range(100, 100 + appends):
            table.append(pa.table({"id": pa.array([id_], pa.int64()), "name": ["theirs"]}))
        head = table.refresh().metadata.current_snapshot_id
        table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in table.snapshots() if each.snapshot_id != head]).commit()

    base = lake.table.snapshot()
    server.acts = [failing(status, happened=True, meanwhile=follow_and_expire)]
    files_before_commit = files_of(lake)
    outcome = lake.table.commit(base, deleting(lake, base, 3))
    assert isinstance(outcome, Unknown)
    assert files_before_commit < files_of(lake)
    assert server.lake().ids() == [*WITHOUT_3, *range(100, 100 + appends)]


@pytest.mark.parametrize("status", [409, 500, CUT])
def test_a_failed_commit_conflicts_if_its_base_snapshot_expired(server: Server, lake: Lake, status: int | None) -> None:
    def append_and_expire() -> None:
        table = server.pyiceberg_catalog.load_table("s.t")
        table.append(pa.table({"id": pa.array([100], pa.int64()), "name": ["theirs"]}))
        head = table.refresh().metadata.current_snapshot_id
        table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in table.snapshots() if each.snapshot_id != head]).commit()

    base = lake.table.snapshot()
    server.acts = [failing(status, meanwhile=append_and_expire)]
    assert conflict(lake.table.commit(base, deleting(lake, base, 3))) is MetadataChanged
    assert lake.ids() == [*INITIAL_IDS, 100]


def test_a_changed_write_mode_conflicts(server: Server, lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    set_property(server, **{"write.delete.mode": "copy-on-write"})
    outcome = lake.table.commit(base, change)
    assert conflict(outcome) is MetadataChanged
    assert lake.ids() == INITIAL_IDS


def test_a_concurrent_property_change_does_not_conflict(server: Server, lake: Lake) -> None:
    base = lake.table.snapshot()

    def set_property_first(answer: Callable[[], Answer]) -> Answer:
        set_property(server, owner="them")
        return answer()

    server.acts = [set_property_first]
    assert isinstance(lake.table.commit(base, deleting(lake, base, 3)), Committed)
    assert lake.ids() == WITHOUT_3 and lake.table.snapshot().settings.properties["owner"] == "them"


@pytest.mark.parametrize("winner", ["schema", "partitioning", "order", "rows"])
def test_commit_requirements_detect_concurrent_changes(server: Server, lake: Lake, winner: str) -> None:
    def change_first(answer: Callable[[], Answer]) -> Answer:
        table = server.pyiceberg_catalog.load_table("s.t")
        if winner == "schema":
            table.update_schema().rename_column("name", "title").commit()
        elif winner == "partitioning":
            table.update_spec().add_identity("name").commit()
        elif winner == "order":
            table.update_sort_order().asc("id", IdentityTransform()).commit()
        else:
            table.delete("id = 4")
        return answer()

    base = lake.table.snapshot()
    server.acts = [change_first]
    ending = conflict(lake.table.commit(base, deleting(lake, base, 3)))
    assert ending is (ConcurrentDeleteRead if winner == "rows" else MetadataChanged)
    assert 3 in lake.ids()


@pytest.mark.parametrize("status", [500, CUT])
def test_schema_changes_and_creations_with_lost_answers_are_applied_once(
    server: Server, lake: Lake, tmp_path: Path, status: int | None
) -> None:
    base = lake.table.snapshot()
    columns = Struct((*base.schema.fields, Field("n", Primitive("long"))))
    server.acts = [failing(status, happened=True)]
    outcome = lake.table.commit(base, CommitRequest("ADD COLUMNS", definition=TableDefinition(schema=columns)))
    assert isinstance(outcome, Committed) and lake.table.snapshot().schema.names == ("id", "name", "n")
    server.pyiceberg_catalog.drop_table("s.t")
    server.acts = [failing(status, happened=True)]
    other = lake_in_catalog(tmp_path / "other", {"type": "rest", "uri": server.uri})
    other.create()
    other.append([1])
    assert other.ids() == [1]


def test_appends_with_lost_answers_are_applied_once(server: Server, lake: Lake) -> None:
    for id_ in range(20, 26):
        base = lake.table.snapshot()
        server.acts = [failing(CUT, happened=bool(id_ % 2)), failing(502, happened=bool(id_ % 2 == 0))]
        if id_ % 2:
            server.acts.pop()
        change = CommitRequest("WRITE", files=FileChanges(write_rows(base, [id_])))
        assert isinstance(lake.table.commit(base, change), Committed)
    assert lake.ids() == [*INITIAL_IDS, *range(20, 26)]
