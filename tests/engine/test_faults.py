"""A process is killed, or storage fails, at any call: the table is at the old or the new version, and accepts the next statement."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.maintenance.vacuum import referenced_paths
from rowmerge.errors import CommitStateUnknown, RowmergeError
from rowmerge.storage.store import Storage
from tests.support import suites, table_operations as operations
from tests.support.faulty_storage import Fault, Kind
from tests.support.iceberg_lake import needed
from tests.support.table_operations import FORMAT_OF, NOW, OPERATIONS, opened_any, rows

pytestmark = pytest.mark.one_of("original", "kind")

logger = logging.getLogger(__name__)
ROOT = Path(__file__).parents[2]


class Executioner:
    """A process that runs the operation in child processes, which are killed."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.table_operations"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def run(self, operation: str, folder: Path, kind: Kind, at: int) -> dict[str, Any]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"operation": operation, "folder": str(folder), "kind": kind.name, "at": at}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        assert self._server.wait(10) == 0


@pytest.fixture(scope="module")
def executioner() -> Iterator[Executioner]:
    executioner = Executioner()
    yield executioner
    executioner.close()


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the table at its final path."""
    folder = tmp_path_factory.mktemp("original") / "t"
    operations.built(str(folder), request.param)
    shutil.copytree(folder, folder.with_name("kept"))
    return folder


@pytest.fixture
def copies(original: Path) -> Iterator[Path]:
    """Yield fresh copies of the table at the same path, because the paths of an Iceberg table are absolute."""

    def create_copies() -> Iterator[Path]:
        while True:
            shutil.rmtree(original)
            shutil.copytree(original.with_name("kept"), original)
            yield original

    return create_copies()


def expected(operation: str, copies: Iterator[Path]) -> tuple[list[Any], list[Any], list[str]]:
    """Return the rows before and after the operation, and its calls."""
    folder = next(copies)
    format_ = "delta" if isinstance(opened_any(str(folder)), DeltaTable) else "iceberg"
    if FORMAT_OF.get(operation, format_) != format_:
        pytest.skip("the other format has this operation")
    old_rows = rows(opened_any(str(folder)))
    fault = Fault()
    operations.run(operation, str(folder), fault)
    return old_rows, rows(opened_any(str(folder))), fault.calls


def check_that_it_goes_on(folder: Path) -> None:
    """Verify that the next merge succeeds, and that VACUUM then leaves exactly the files of the newest version."""
    old_rows = rows(opened_any(str(folder)))
    operations.append(opened_any(str(folder)))
    time.sleep(0.005)
    table = opened_any(str(folder))
    table.vacuum(NOW)
    on_disk = {o.path for o in Storage(str(folder)).list() if not o.path.startswith("_delta_log/")}
    assert on_disk == (referenced_paths(table.snapshot()) if isinstance(table, DeltaTable) else needed(folder))
    assert len(rows(opened_any(str(folder)))) == len(old_rows) + 2


@pytest.mark.parametrize("kind", [Kind.KILLED, Kind.TORN], ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("operation", [name for name in (*OPERATIONS, *FORMAT_OF) if name != "append"])
def test_a_kill_at_any_call_leaves_the_old_or_the_new_version(
    operation: str, kind: Kind, copies: Iterator[Path], executioner: Executioner
) -> None:
    old_rows, new_rows, _ = expected(operation, copies)
    # The other process counts the calls, because this process has cached files.
    calls = executioner.run(operation, next(copies), kind, 0)["calls"]
    points = [at for at, call in enumerate(calls, 1) if kind is Kind.KILLED or call.startswith("put")]
    points = _sampled(points)
    observed_states = []
    for at in points:
        folder = next(copies)
        assert executioner.run(operation, folder, kind, at)["killed"]
        current_rows = rows(opened_any(str(folder)))
        assert current_rows in (old_rows, new_rows), f"killed at call {at}, {calls[at - 1]}"
        observed_states.append(current_rows)
        check_that_it_goes_on(folder)
    assert len(executioner.run(operation, next(copies), kind, len(calls) + 1)["calls"]) == len(calls)
    logger.info("%s: %s at %d of %d calls", operation, kind.value, len(points), len(calls))
    assert old_rows in observed_states


def _sampled(points: Sequence[int]) -> list[int]:
    """Return all points in the full suite. In the gate, return every eighth of many points, counted back from the last, near the commit."""
    return list(points) if suites.chosen_suite == "full" or len(points) < 9 else list(points[::-8])


@pytest.mark.parametrize("kind", [Kind.FAILED, Kind.LIED, Kind.LOST], ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("operation", [name for name in (*OPERATIONS, *FORMAT_OF) if name != "append"])
def test_a_failed_call_ends_in_a_commit_or_in_an_error_without_changes(
    operation: str, kind: Kind, copies: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    old_rows, new_rows, calls = expected(operation, copies)
    # The commit retries as often, but with shorter waits.
    monkeypatch.setattr("rowmerge.table.commits.commit.RETRY_WAITS", (0.01, 0.01, 0.01, 0.01))
    succeeded = 0
    for at in _sampled(range(1, len(calls) + 1)):
        folder = next(copies)
        possible = [new_rows]
        try:
            operations.run(operation, str(folder), Fault(kind, at))
            succeeded += 1
        except CommitStateUnknown:
            possible = [old_rows, new_rows]
        except RowmergeError:
            possible = [old_rows]
        assert rows(opened_any(str(folder))) in possible, f"call {at}, {calls[at - 1]}"
    logger.info("%s: %s at %d calls, of which %d did no harm", operation, kind.value, len(calls), succeeded)


PUTTING = """
import sys
from rowmerge.storage.store import Storage
storage = Storage(sys.argv[1])
for number in range(10_000):
    storage.put_if_absent(f"{number}.json", bytes(8_000_000))
    storage.put("replaced.json", bytes([number % 256]) * 8_000_000)
"""


def test_a_visible_object_is_complete_after_a_kill(tmp_path: Path) -> None:
    """A local disk writes to a temporary file and then links its name, so a commit or checkpoint is never partial."""
    for turn in range(3):
        folder = tmp_path / str(turn)
        writer = subprocess.Popen([sys.executable, "-c", PUTTING, str(folder)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        while not (folder / "1.json").exists():
            time.sleep(0.01)
        time.sleep(0.013 * turn)
        writer.kill()
        writer.wait()
        visible_objects = [path for path in folder.iterdir() if "#" not in path.name]
        assert len(visible_objects) > 1
        for path in visible_objects:
            content = path.read_bytes()
            assert len(content) == 8_000_000
            assert content == content[:1] * len(content)
