"""The version hint names only verified versions, never decreases, and does not delay statements."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowmerge import concurrency
from rowmerge.concurrency import wait_for_background
from rowmerge.errors import StorageError
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.store import Storage
from tests.support.iceberg_lake import Lake

HINT = "metadata/version-hint.text"


class Waiting(Storage):
    """Storage whose hint writes wait for an event, once each."""

    is_remote = True
    events: list[threading.Event]
    has_begun_to_wait: threading.Event

    def put(self, path: str, data: bytes) -> None:
        if path == HINT and self.events:
            event = self.events.pop(0)
            self.has_begun_to_wait.set()
            assert event.wait(60)
        Storage.put(self, path, data)

    def at(self, location: str) -> Storage:
        return type(self)(location)


class OnDisk(Waiting):
    is_remote = False


@pytest.fixture
def event(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    event = threading.Event()
    monkeypatch.setattr(Waiting, "events", [], raising=False)
    monkeypatch.setattr(Waiting, "has_begun_to_wait", threading.Event(), raising=False)
    yield event
    event.set()
    wait_for_background(60)


def lake_of(kind: type[Storage], folder: Path) -> Lake:
    lake = Lake(folder)
    lake.table = IcebergTable(DirectoryOperations(kind(str(folder)), "s.t"), "s.t")
    return lake


def hint(lake: Lake) -> str:
    wait_for_background(60)
    return (lake.folder / HINT).read_text()


def test_statements_do_not_wait_for_the_hint_on_remote_storage(tmp_path: Path, event: threading.Event) -> None:
    lake = lake_of(Waiting, tmp_path / "t")
    lake.create()
    assert hint(lake) == "1"
    Waiting.events.append(event)
    lake.append([1])
    assert (lake.folder / HINT).read_text() == "1"
    assert Lake(lake.folder).ids() == [1], "a reader goes on from a hint that is behind"
    event.set()
    assert hint(lake) == "2"


def test_a_slow_writer_does_not_replace_the_hint_of_a_later_version(tmp_path: Path, event: threading.Event) -> None:
    slow = lake_of(Waiting, tmp_path / "t")
    slow.create()
    wait_for_background(60)

    class Slow(Waiting):
        def get(self, path: str) -> bytes:
            if path == HINT and threading.current_thread().daemon:
                assert event.wait(60)
            return Storage.get(self, path)

    slow = lake_of(Slow, tmp_path / "t")
    slow.append([1])
    Lake(slow.folder).append([2])
    event.set()
    assert hint(slow) == "3"


@pytest.mark.parametrize("kind", [Waiting, OnDisk])
def test_a_hint_of_a_deleted_version_is_corrected(tmp_path: Path, event: threading.Event, kind: type[Waiting]) -> None:
    Lake(tmp_path / "t").create({"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"})
    slow = lake_of(kind, tmp_path / "t")
    Waiting.events = [event]

    def append_others() -> None:
        assert Waiting.has_begun_to_wait.wait(60)
        for id_ in range(10, 15):
            Lake(tmp_path / "t").append([id_])
        event.set()

    others = threading.Thread(target=append_others)
    others.start()
    slow.append([1])
    others.join()
    assert not (slow.folder / "metadata/v2.metadata.json").exists()
    assert hint(slow) == "7"
    assert sorted(Lake(slow.folder).ids()) == [1, *range(10, 15)]


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("deletes_metadata", [False, True])
def test_the_hint_is_written_after_the_version_is_verified(tmp_path: Path, is_remote: bool, deletes_metadata: bool) -> None:
    events: list[str] = []

    class Recording(Storage):
        def put(self, path: str, data: bytes) -> None:
            events.append(f"put {path}")
            Storage.put(self, path, data)

    class Operations(DirectoryOperations):
        def _verify_put(self, *arguments: object) -> object:  # type: ignore[override]
            verified = DirectoryOperations._verify_put(self, *arguments)  # type: ignore[arg-type]
            events.append("verified")
            return verified

    Recording.is_remote = is_remote  # type: ignore[method-assign,assignment]
    lake = Lake(tmp_path / "t")
    lake.table = IcebergTable(Operations(Recording(str(lake.folder)), "s.t"), "s.t")
    lake.create({"write.metadata.delete-after-commit.enabled": str(deletes_metadata).lower()})
    wait_for_background(60)
    lake.append([1])
    wait_for_background(60)
    relevant = [each for each in events if each in ("verified", f"put {HINT}")]
    assert relevant == ["verified", f"put {HINT}"] * 2


def test_a_failed_hint_write_does_not_fail_the_commit(tmp_path: Path) -> None:
    class Failing(Storage):
        def put(self, path: str, data: bytes) -> None:
            if path == HINT:
                raise StorageError(path, "the disk is full")
            Storage.put(self, path, data)

    lake = lake_of(Failing, tmp_path / "t")
    lake.create()
    lake.append([1])
    assert Lake(lake.folder).ids() == [1]


def test_concurrent_hint_writes_are_limited(tmp_path: Path, event: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "_MAX_BACKGROUND_THREADS", 2)
    lake = lake_of(Waiting, tmp_path / "t")
    lake.create()
    wait_for_background(60)
    Waiting.events = [event]
    for id_ in range(5):
        lake.append([id_])
    assert len(concurrency._background_threads) == 2
    event.set()
    wait_for_background(60)
    lake.append([9])
    assert hint(lake) == "7"


ENDING = """
import sys, time
from pathlib import Path
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.store import Storage

class Slow(Storage):
    is_remote = True

    def put(self, path, data):
        time.sleep(0.3)
        Storage.put(self, path, data)

from tests.support.iceberg_lake import Lake
lake = Lake(Path(sys.argv[1]))
lake.table = IcebergTable(DirectoryOperations(Slow(str(lake.folder)), "s.t"), "s.t")
lake.create()
"""


def test_a_process_writes_its_hint_before_exit(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    subprocess.run([sys.executable, "-c", ENDING, str(folder)], check=True, cwd=Path(__file__).parents[3], timeout=120)
    assert (folder / HINT).read_text() == "1"
