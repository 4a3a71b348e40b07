"""Ghosts: metadata put under a version name that cleanup freed is never current or acknowledged, and deletes no files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.store import Put, Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Outcome, Reads, Unknown
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.snapshots.snapshot import Snapshot
from tests.support.iceberg_lake import Lake
from tests.support.readers import read_with_duckdb_iceberg, read_with_pyiceberg
from tests.support.table_operations import write_rows

pytestmark = pytest.mark.one_of("is_remote")
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
PREVIOUS_VERSIONS_MAX = "write.metadata.previous-versions-max"
Act = Callable[[], object]


class Paused(Storage):
    """Storage that lets others act just before the first call of a kind on a path that contains a text."""

    def __init__(self, location: str, **acts: tuple[str, Act]) -> None:
        super().__init__(location)
        self._acts = acts

    def _act_before(self, call: str, path: str) -> None:
        if call in self._acts and self._acts[call][0] in path:
            self._acts.pop(call)[1]()

    def put_if_absent(self, path: str, data: bytes) -> Put:
        self._act_before("put", path)
        return Storage.put_if_absent(self, path, data)

    def get(self, path: str) -> bytes:
        self._act_before("get", path)
        return Storage.get(self, path)

    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        self._act_before("list", prefix)
        return Storage.list(self, prefix, after=after)


@pytest.fixture(params=[False, True], ids=["disk", "store"], autouse=True)
def is_remote(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with the calls for a disk, and with those for a remote store, which lists metadata files."""
    monkeypatch.setattr(Paused, "is_remote", request.param)


def new_lake(folder: Path, previous: int = 1) -> Lake:
    """Create a table of the id 1 at version 2, which retains `previous` old metadata files."""
    lake = Lake(folder / "t")
    lake.create({DELETE_AFTER_COMMIT: "true", PREVIOUS_VERSIONS_MAX: str(previous)})
    lake.append([1])
    return lake


def append_request(base: Snapshot, id_: int) -> CommitRequest:
    return CommitRequest("WRITE", files=FileChanges(write_rows(base, [id_])), reads=Reads())


def paused_append(lake: Lake, id_: int, **acts: tuple[str, Act]) -> Outcome:
    """Return the outcome of an append planned now, while others act at its storage calls."""
    table = IcebergTable(DirectoryOperations(Paused(str(lake.folder), **acts), "s.t"), "s.t")
    base = table.snapshot()
    return table.commit(base, append_request(base, id_))


def append_as_others(lake: Lake, *ids: int) -> Act:
    return lambda: [Lake(lake.folder).append([id_]) for id_ in ids]


def assert_rows(lake: Lake, ids: list[int]) -> None:
    """Assert that a new process and other readers read these rows."""
    reopened = Lake(lake.folder)
    assert reopened.ids() == sorted(ids)
    newest = reopened.current.path
    assert sorted(read_with_duckdb_iceberg(newest)["id"].to_pylist()) == sorted(ids)
    assert sorted(read_with_pyiceberg(newest)["id"].to_pylist()) == sorted(ids)


@pytest.mark.parametrize(("previous", "commits"), [(1, 6), (3, 8)])
def test_a_commit_planned_before_a_cleanup_is_rebased(tmp_path: Path, previous: int, commits: int) -> None:
    lake, others = new_lake(tmp_path, previous), list(range(100, 100 + commits))
    outcome = paused_append(lake, 999, put=("v3.metadata", append_as_others(lake, *others)))
    assert isinstance(outcome, Committed)
    assert_rows(lake, [1, *others, 999])
    assert not (lake.folder / "metadata/v3.metadata.json").exists()


@pytest.mark.parametrize("hint", ["current", "of the ghost", "of its base", "gone"])
def test_a_ghost_of_a_killed_writer_is_never_current(tmp_path: Path, hint: str) -> None:
    lake = new_lake(tmp_path)
    base, first = lake.table.snapshot(), lake.current
    ghost = _metadata_of_an_append(lake, 999)
    append_as_others(lake, *range(100, 106))()
    (lake.folder / "metadata/v3.metadata.json").write_bytes(ghost)
    place = lake.folder / "metadata/version-hint.text"
    texts = {"current": place.read_text(), "of the ghost": "3", "of its base": "2"}
    place.write_text(texts[hint]) if hint in texts else place.unlink()
    assert first.version == 2
    assert base.version
    assert_rows(lake, [1, *range(100, 106)])
    assert lake.ids() == [1, *range(100, 106)], "a process that knows the version before it"
    Lake(lake.folder).append([5000])
    assert_rows(lake, [1, *range(100, 106), 5000])


def test_consecutive_ghosts_are_not_current(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    first = _metadata_of_an_append(lake, 901)
    lake.append([2])
    second = _metadata_of_an_append(lake, 902)
    append_as_others(lake, *range(100, 106))()
    (lake.folder / "metadata/v3.metadata.json").write_bytes(first)
    (lake.folder / "metadata/v4.metadata.json").write_bytes(second)
    (lake.folder / "metadata/version-hint.text").write_text("3")
    assert_rows(lake, [1, 2, *range(100, 106)])


def _metadata_of_an_append(lake: Lake, id_: int) -> bytes:
    """Return the metadata file of an append planned now; it becomes a ghost if it is put later."""

    class Stopped(BaseException):
        pass

    class Stopping(Storage):
        def put_if_absent(self, path: str, data: bytes) -> Put:
            metadata_files.append(data)
            raise Stopped

    metadata_files: list[bytes] = []
    table = IcebergTable(DirectoryOperations(Stopping(str(lake.folder)), "s.t"), "s.t")
    base = table.snapshot()
    with pytest.raises(Stopped):
        table.commit(base, append_request(base, id_))
    return metadata_files[0]


def test_a_commit_does_not_follow_a_ghost_of_its_base_version(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    ghost = _metadata_of_an_append(lake, 901)
    lake.append([2])

    def overtake() -> None:
        append_as_others(lake, *range(100, 106))()
        (lake.folder / "metadata/v3.metadata.json").write_bytes(ghost)

    assert isinstance(paused_append(lake, 902, put=("v4.metadata", overtake)), Committed)
    assert_rows(lake, [1, 2, *range(100, 106), 902])


def test_a_commit_on_an_outdated_version_puts_no_ghost(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    table = IcebergTable(DirectoryOperations(Paused(str(lake.folder), put=("v3.metadata", lambda: pytest.fail("a ghost"))), "s.t"), "s.t")
    base = table.snapshot()
    change = append_request(base, 999)
    append_as_others(lake, *range(100, 106))()
    assert isinstance(table.commit(base, change), Committed)
    assert_rows(lake, [1, *range(100, 106), 999])


def test_a_ghost_is_not_acknowledged_if_java_retained_its_base(tmp_path: Path) -> None:
    """Java deletes old metadata in any order, so the base can exist although the next version is deleted."""
    lake = new_lake(tmp_path)
    base = lake.folder / "metadata/v2.metadata.json"
    data = base.read_bytes()

    def overtake() -> None:
        append_as_others(lake, *range(100, 106))()
        base.write_bytes(data)

    assert isinstance(paused_append(lake, 999, put=("v3.metadata", overtake)), Committed)
    assert_rows(lake, [1, *range(100, 106), 999])


def test_a_ghost_is_not_current_if_java_retained_the_first_version(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    ghost = _metadata_of_an_append(lake, 999)
    retained = {path: path.read_bytes() for path in (lake.folder / "metadata").glob("v[12].metadata.json")}
    assert retained
    append_as_others(lake, *range(100, 106))()
    for path in (lake.folder / "metadata/v1.metadata.json", *retained):
        path.write_bytes(retained.get(path, next(iter(retained.values()))))
    (lake.folder / "metadata/v3.metadata.json").write_bytes(ghost)
    (lake.folder / "metadata/version-hint.text").write_text("3")
    assert Lake(lake.folder).ids() == [1, *range(100, 106)]


@pytest.mark.parametrize("properties", [{}, {DELETE_AFTER_COMMIT: "true", PREVIOUS_VERSIONS_MAX: "1"}])
def test_a_recreated_table_rejects_commits_on_the_old_table(tmp_path: Path, properties: Mapping[str, str]) -> None:
    """The new table is at the version of the base, so the put would follow it by number."""
    lake = Lake(tmp_path / "t")
    lake.create(properties)
    lake.append([1])

    def recreate_table() -> None:
        shutil.rmtree(lake.folder / "metadata")
        other = Lake(lake.folder)
        other.create(properties)
        other.append([7])

    assert isinstance(paused_append(lake, 999, put=("v3.metadata", recreate_table)), Conflicted)
    assert_rows(lake, [7])
    assert Lake(lake.folder).append([8])
    assert_rows(lake, [7, 8])


def test_a_version_cleaned_before_its_verification_keeps_its_files(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    lake.append([2])

    def follow() -> None:
        append_as_others(lake, 10, 11)()

    outcome = paused_append(lake, 99, get=("v3.metadata", lambda: None), list=("metadata", follow))
    assert isinstance(outcome, Committed | Unknown)
    assert_rows(lake, [1, 2, 10, 11, 99])


@pytest.mark.parametrize("at", range(1, 40))
def test_a_writer_killed_after_a_cleanup_does_not_roll_back_commits(tmp_path: Path, at: int) -> None:
    lake, others = new_lake(tmp_path), list(range(100, 106))
    committed_ids = [1]

    def overtake() -> None:
        append_as_others(lake, *others)()
        committed_ids.extend(others)

    storage = Dying(str(lake.folder), at, overtake)
    table = IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")
    try:
        base = table.snapshot()
        outcome = table.commit(base, append_request(base, 999))
        assert isinstance(outcome, Committed)
        is_acknowledged = True
    except Died:
        is_acknowledged = False
    live_ids = Lake(lake.folder).ids()
    assert live_ids == sorted([*committed_ids, 999]) if is_acknowledged else live_ids in (committed_ids, sorted([*committed_ids, 999]))
    Lake(lake.folder).append([5000])
    assert_rows(lake, [*live_ids, 5000])


class Died(BaseException):
    """The end of the process."""


class Dying(Storage):
    """Storage of a process that others overtake at its first conditional put and that dies at a call, counted from 1."""

    def __init__(self, location: str, at: int, overtake: Act) -> None:
        super().__init__(location)
        self._at, self._calls, self._overtake = at, 0, [overtake]

    def at(self, location: str) -> Storage:
        return self

    def _count(self) -> None:
        self._calls += 1
        if self._calls >= self._at:
            raise Died

    def put_if_absent(self, path: str, data: bytes) -> Put:
        while self._overtake:
            self._overtake.pop()()
        self._count()
        return Storage.put_if_absent(self, path, data)

    def put(self, path: str, data: bytes) -> None:
        self._count()
        Storage.put(self, path, data)

    def get(self, path: str) -> bytes:
        self._count()
        return Storage.get(self, path)

    def exists(self, path: str) -> bool:
        self._count()
        return Storage.exists(self, path)

    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        self._count()
        return Storage.list(self, prefix, after=after)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._count()
            Storage.delete(self, [path])
