"""A process of release 0.1.0 used concurrently loses no rows and adds none to other tables, or its own checks reject its commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import deltalake
import pytest

from rowmerge.storage.store import Put, Storage
from tests.golden.release_0_1_0.process import Commands, OldProcess, check_out
from tests.support.readers import read_with_delta_rs, read_with_duckdb, read_with_duckdb_iceberg, read_with_pyiceberg

FORMATS = ("delta", "iceberg")
CLEANUP_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
PUT = {"delta": ("put_if_absent", "_delta_log/0"), "iceberg": ("put_if_absent", "metadata.json")}
"""The storage call that makes a commit visible, by table format."""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldProcess]:
    process = OldProcess(check_out(tmp_path_factory.mktemp("release")))
    yield process
    process.kill()


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "warehouse")


@pytest.fixture
def old(process: OldProcess, warehouse: str) -> OldProcess:
    return process.open(warehouse)


@pytest.fixture
def new(warehouse: str) -> Commands:
    return Commands(Storage(warehouse))


def create_table(new: Commands, format_: str, *ids: int, properties: dict[str, str] | None = None) -> None:
    """Create the table `t` with a file for each id."""
    assert new.create("t", format_, properties or {}) == "Committed"
    new.append_each("t", ids)


def assert_rows(warehouse: str, format_: str, ids: list[int]) -> None:
    """Assert that a new process and other readers read these rows."""
    assert Commands(Storage(warehouse)).ids("t") == ids
    folder = f"{warehouse}/s/t"
    readers = (read_with_delta_rs, read_with_duckdb) if format_ == "delta" else (read_with_pyiceberg, read_with_duckdb_iceberg)
    for read in readers:
        assert sorted(read(folder)["id"].to_pylist()) == ids, read.__name__


# ------------------------------------------------------------------ commits on one table


@pytest.mark.parametrize(
    ("format_", "properties"), [("delta", {"delta.checkpointInterval": "5"}), ("iceberg", {}), ("iceberg", CLEANUP_PROPERTIES)]
)
def test_concurrent_commits_of_both_releases_are_applied_once(
    old: OldProcess, new: Commands, warehouse: str, format_: str, properties: dict[str, str]
) -> None:
    create_table(new, format_, 1, properties=properties)
    old.start("append_each", "t", list(range(100, 125)))
    new.append_each("t", list(range(200, 225)))
    assert old.result() == "done"
    ids = [1, *range(100, 125), *range(200, 225)]
    assert_rows(warehouse, format_, ids)
    assert old.run("ids", "t") == ids


@pytest.mark.parametrize("format_", FORMATS)
def test_each_release_detects_conflicts_with_the_other(old: OldProcess, new: Commands, warehouse: str, format_: str) -> None:
    create_table(new, format_, 1, 2)
    old.start("remove", "t", pause=PUT[format_])
    assert new.remove("t") == "Committed"
    assert old.resume().startswith(("ConcurrentDeleteRead", "ConcurrentDeleteDelete"))
    new.append_each("t", [3])
    paused_commands = Commands(ActingStorage(warehouse, PUT[format_][1], lambda: old.run("remove", "t")))
    assert paused_commands.remove("t").startswith(("ConcurrentDeleteRead", "ConcurrentDeleteDelete"))
    assert_rows(warehouse, format_, [])


class ActingStorage(Storage):
    """Storage that lets others act once, before a conditional put of a path that contains a text."""

    def __init__(self, location: str, text: str, act: Callable[[], object]) -> None:
        super().__init__(location)
        self._text, self._acts = text, [act]

    def child(self, path: str) -> Storage:
        child = ActingStorage(f"{self.location}/{path}", self._text, lambda: None)
        child._acts = self._acts
        return child

    def put_if_absent(self, path: str, data: bytes) -> Put:
        if self._acts and self._text in path:
            self._acts.pop()()
        return super().put_if_absent(path, data)


# ------------------------------------------------------------------ cleanup of old metadata


def test_a_late_commit_of_0_1_0_follows_the_newest_iceberg_version(old: OldProcess, new: Commands, warehouse: str) -> None:
    create_table(new, "iceberg", 1, properties=CLEANUP_PROPERTIES)
    old.start("append", "t", [999], pause=PUT["iceberg"])
    new.append_each("t", range(100, 106))
    assert old.resume() == "Committed"
    assert_rows(warehouse, "iceberg", [1, *range(100, 106), 999])


def test_a_late_metadata_version_of_0_1_0_is_never_current(old: OldProcess, new: Commands, warehouse: str) -> None:
    create_table(new, "iceberg", 1, properties=CLEANUP_PROPERTIES)
    old.start("append", "t", [999], pause=PUT["iceberg"])
    new.append_each("t", range(100, 106))
    old.kill_at("exists", "_dropped.json")
    assert list(Path(warehouse, "s/t/metadata").glob("v3.metadata.json"))
    assert_rows(warehouse, "iceberg", [1, *range(100, 106)])
    new.append_each("t", [200])
    assert_rows(warehouse, "iceberg", [1, *range(100, 106), 200])


def test_a_commit_of_0_1_0_below_a_checkpoint_is_not_in_the_table(old: OldProcess, new: Commands, warehouse: str) -> None:
    """Release 0.1.0 has no check for this: it reports success, but readers do not read the rows."""
    create_table(new, "delta", 1, properties={"delta.logRetentionDuration": "interval 1 seconds"})
    old.start("append", "t", [999], pause=PUT["delta"])
    new.append_each("t", range(100, 110))
    time.sleep(1.2)
    delta_rs_table = deltalake.DeltaTable(f"{warehouse}/s/t")
    delta_rs_table.create_checkpoint()
    delta_rs_table.cleanup_metadata()
    assert old.resume() == "Committed"
    assert_rows(warehouse, "delta", [1, *range(100, 110)])
    new.append_each("t", [200])
    assert old.run("append_each", "t", [300]) == "done"
    assert_rows(warehouse, "delta", [1, *range(100, 110), 200, 300])


# ------------------------------------------------------------------ DROP and CREATE of this release


KINDS = {"append": ("append", "t", [999]), "remove": ("remove", "t"), "define": ("define", "t")}
REJECTIONS = ("ProtocolChanged", "MetadataChanged", "TableNotFound")


@pytest.mark.one_of("format_", "kind", keep=2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format_", FORMATS)
def test_0_1_0_rejects_a_commit_on_a_dropped_table(old: OldProcess, new: Commands, warehouse: str, format_: str, kind: str) -> None:
    create_table(new, format_, 1, 2)
    old.start(*KINDS[kind], pause=PUT[format_])
    new.drop("t")
    assert old.resume().startswith(REJECTIONS)
    assert Commands(Storage(warehouse)).relations() == []
    create_table(Commands(Storage(warehouse)), format_, 7)
    assert_rows(warehouse, format_, [7])


@pytest.mark.one_of("format_", "kind", keep=2)
@pytest.mark.parametrize("later", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format_", FORMATS)
def test_0_1_0_rejects_a_commit_on_a_recreated_table(
    old: OldProcess, new: Commands, warehouse: str, format_: str, kind: str, later: int
) -> None:
    """The new table has more commits than the old one, or fewer."""
    create_table(new, format_, 1, 2)
    old.start(*KINDS[kind], pause=PUT[format_])
    new.drop("t")
    ids = list(range(10, 11 + later))
    create_table(new, format_, *ids)
    assert old.resume().startswith(REJECTIONS)
    assert_rows(warehouse, format_, ids)
    new.append_each("t", [50])
    assert_rows(warehouse, format_, [*ids, 50])


@pytest.mark.one_of("format_", "kind", keep=2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format_", FORMATS)
def test_a_late_commit_of_0_1_0_is_not_in_a_recreated_table(
    old: OldProcess, new: Commands, warehouse: str, format_: str, kind: str
) -> None:
    """The drop deletes the versions after the base, so their names are available again."""
    create_table(new, format_, 1, 2)
    old.start(*KINDS[kind], pause=PUT[format_])
    new.append_each("t", [3, 4, 5])
    new.drop("t")
    create_table(new, format_, 7)
    result = old.resume()
    # A Delta commit below the version of the drop precedes the drop, which deleted its rows.
    assert result == "Committed" if format_ == "delta" else result.startswith(REJECTIONS)
    assert_rows(warehouse, format_, [7])
    new.append_each("t", [8])
    assert_rows(warehouse, format_, [7, 8])


def test_a_recreated_table_ignores_a_late_iceberg_version_of_0_1_0(old: OldProcess, new: Commands, warehouse: str) -> None:
    create_table(new, "iceberg", 1, 2)
    old.start("append", "t", [999], pause=PUT["iceberg"])
    new.append_each("t", [3, 4, 5])
    new.drop("t")
    create_table(new, "iceberg", 7)
    old.kill_at("exists", "_dropped.json")
    assert_rows(warehouse, "iceberg", [7])
    new.append_each("t", [8])
    assert_rows(warehouse, "iceberg", [7, 8])


# ------------------------------------------------------------------ DROP and CREATE of 0.1.0


@pytest.mark.parametrize("recreated", [False, True])
@pytest.mark.parametrize("format_", FORMATS)
def test_a_commit_on_a_table_dropped_by_0_1_0_is_rejected(
    old: OldProcess, new: Commands, warehouse: str, format_: str, recreated: bool
) -> None:
    create_table(new, format_, 1, 2)

    def drop() -> None:
        old.run("drop", "t")
        if recreated:
            old.run("create", "t", format_, {})
            old.run("append_each", "t", [10, 11])

    late_commands = Commands(ActingStorage(warehouse, PUT[format_][1], drop))
    assert late_commands.append("t", [999]) != "Committed"
    if recreated:
        assert_rows(warehouse, format_, [10, 11])
    else:
        assert Commands(Storage(warehouse)).relations() == []


@pytest.mark.parametrize(("format_", "text"), [("delta", ".parquet"), ("delta", "log/0"), ("iceberg", ".parquet"), ("iceberg", "data/v")])
def test_a_paused_drop_of_0_1_0_is_finished_and_keeps_a_new_table(
    old: OldProcess, new: Commands, warehouse: str, format_: str, text: str
) -> None:
    create_table(new, format_, 1, 2)
    old.start("drop", "t", pause=("delete", text))
    assert new.relations() == []
    create_table(new, format_, 7, 8)
    assert old.resume() == "dropped"
    assert_rows(warehouse, format_, [7, 8])
