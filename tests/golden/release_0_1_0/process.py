"""A process of release 0.1.0 for the tests: it runs commands on a warehouse, and stops at storage calls until other processes have run.

This file is the program of both sides. `OldProcess` starts it with the code of the commit of 0.1.0, which it takes from the history.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rowmerge.catalog import DirectoryCatalog
from rowmerge.errors import RowmergeError
from rowmerge.storage.store import Put, Storage, StoredObject

try:  # The names in release 0.1.0 come first: an editable installation adds modules of the present code to the package of a checkout.
    from rowmerge.changes.commit import Attempt, commit_with_retry
    from rowmerge.changes.result import RowChanges as RowCounts, Timings
    from rowmerge.table.files import FileChanges
    from rowmerge.table.snapshot import Change, Conflicted, Outcome, Reads, Snapshot, Table, TableDefinition
    from tests.unit.changes.operations import written as write_rows
    from tests.unit.delta.small_tables import ID_NAME, live_rows
except ModuleNotFoundError:
    from rowmerge.execution.commit import Attempt, commit_with_retry
    from rowmerge.execution.result import RowCounts, Timings
    from rowmerge.table.commits.request import CommitRequest as Change, Conflicted, Outcome, Reads
    from rowmerge.table.metadata.shape import TableDefinition
    from rowmerge.table.snapshots.files import FileChanges
    from rowmerge.table.snapshots.snapshot import Snapshot
    from rowmerge.table.table import Table
    from tests.support.delta_tables import ID_NAME, live_rows
    from tests.support.table_operations import write_rows

COMMIT = "7d3484c"
"""The commit of release 0.1.0."""
ROOT = Path(__file__).parents[3]
SPARK = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"}


class Commands:
    """The commands of a process on tables with columns `id` and `name` in a schema `s`. Only `sql` needs Spark."""

    def __init__(self, storage: Storage) -> None:
        self.catalog = DirectoryCatalog(storage)
        self.catalog.create_schema("s", if_not_exists=True)
        self._session: Any = None

    def create(self, name: str, format_: str, properties: dict[str, str]) -> str:
        open_new: Any = getattr(self.catalog, "table_at", None) or self.catalog.new_table  # the name in release 0.1.0 comes first
        table = open_new("s", name, format_)
        return _text(table.create(TableDefinition(ID_NAME, (), properties, None), Change("CREATE TABLE")))

    def append(self, name: str, ids: Sequence[int]) -> str:
        """Append a file in one attempt."""
        return self._attempt(name, lambda base: Change("WRITE", files=FileChanges(write_rows(base, ids)), reads=Reads()))

    def append_each(self, name: str, ids: Sequence[int]) -> str:
        """Append a file for each id, and plan again after a conflict, as a statement does."""
        table = self.catalog.open("s", name)
        for id_ in ids:
            commit_with_retry(table, lambda id_=id_: _attempt(table, id_), Timings())  # type: ignore[misc]
        return "done"

    def remove(self, name: str) -> str:
        """Delete all current rows of the table with their files."""

        def change(base: Snapshot) -> Change:
            files: Any = base.files()
            paths = tuple(files.paths if hasattr(files, "paths") else files["path"].to_pylist())  # 0.1.0 returns an Arrow table
            return Change("DELETE", files=FileChanges((), paths), reads=Reads(frozenset(paths)))

        return self._attempt(name, change)

    def define(self, name: str) -> str:
        """Set a property."""
        return self._attempt(name, lambda base: Change("SET TBLPROPERTIES", definition=TableDefinition(properties={"owner": "tests"})))

    def drop(self, name: str) -> str:
        self.catalog.drop_table("s", name)
        return "dropped"

    def ids(self, name: str) -> list[int]:
        return sorted(live_rows(self.catalog.open("s", name).snapshot())["id"].to_pylist())

    def relations(self) -> list[str]:
        return [relation.name for relation in self.catalog.relations("s")]

    def sql(self, text: str) -> list[list[Any]]:
        """Run a statement on a Spark of this process, and return its rows as text."""
        if self._session is None:
            from rowmerge.session.session import Session, start_spark  # where both sides have them

            self._session = Session(self.catalog, start_spark(SPARK), "s", "delta", owns_spark=True)
        return [[str(value) for value in row] for row in self._session.sql(text).collect()]

    def _attempt(self, name: str, change: Callable[[Snapshot], Change]) -> str:
        table = self.catalog.open("s", name)
        base = table.snapshot()
        return _text(table.commit(base, change(base)))


def _attempt(table: Table, id_: int) -> Attempt:
    base = table.snapshot()
    change = Change("WRITE", files=FileChanges(write_rows(base, [id_])), reads=Reads())
    return Attempt(base, change, RowCounts(), change.files.added)


def _text(outcome: Outcome) -> str:
    """Return `Committed` or `Unknown`, or the class and the text of a conflict."""
    if isinstance(outcome, Conflicted):
        return f"{type(outcome.conflict).__name__}: {outcome.conflict.message}"
    return type(outcome).__name__


class PausingStorage(Storage):
    """Storage that stops once, before the next call of a method on a path that contains a string, until a line sets the next stop."""

    pause: ClassVar[Sequence[str] | None] = None

    def child(self, path: str) -> Storage:
        return PausingStorage(f"{self.location}/{path}")

    def at(self, location: str) -> Storage:
        return PausingStorage(location)

    def get(self, path: str) -> bytes:
        self._stop("get", path)
        return super().get(path)

    def put(self, path: str, data: bytes) -> None:
        self._stop("put", path)
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> Put:
        self._stop("put_if_absent", path)
        return super().put_if_absent(path, data)

    def exists(self, path: str) -> bool:
        self._stop("exists", path)
        return super().exists(path)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._stop("delete", path)
            super().delete([path])

    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        self._stop("list", prefix)
        return super().list(prefix, after=after)

    @classmethod
    def _stop(cls, call: str, path: str) -> None:
        if cls.pause is not None and cls.pause[0] == call and cls.pause[1] in path:
            cls.pause = None
            _send({"paused": f"{call} {path}"})
            cls.pause = json.loads(sys.stdin.readline())


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class OldProcess:
    """A process that runs `Commands` with the code of 0.1.0. It serves one test after another."""

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        self._process: subprocess.Popen[str] | None = None

    def open(self, warehouse: str) -> OldProcess:
        """Open a warehouse, and start the process if it does not run."""
        if self._process is None:
            program = self._checkout / Path(__file__).relative_to(ROOT)
            others = [path for path in sys.path if path and Path(path) != ROOT]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self._checkout), *others])}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._process = subprocess.Popen([sys.executable, str(program)], text=True, env=environment, **pipes)
        self._write({"open": warehouse})
        assert self._receive() == {"rowmerge": str(self._checkout / "rowmerge")}
        return self

    def run(self, command: str, *arguments: object) -> Any:
        self.start(command, *arguments)
        return self.result()

    def start(self, command: str, *arguments: object, pause: tuple[str, str] | None = None) -> None:
        """Begin a command. With `pause` (storage call, text in its path), return when the process has stopped there."""
        self._write({"command": command, "arguments": arguments, "pause": pause})
        if pause is not None:
            self._await_pause()

    def resume(self) -> Any:
        """Resume a stopped command, and return its result."""
        self._write(None)
        return self.result()

    def kill_at(self, call: str, text: str) -> None:
        """Resume a stopped command up to another storage call, and kill the process there."""
        self._write((call, text))
        self._await_pause()
        self.kill()

    def result(self) -> Any:
        """Return the result of a command, or the class of the error that it raised."""
        return self._receive()["result"]

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _await_pause(self) -> None:
        message = self._receive()
        assert "paused" in message, message

    def _write(self, message: object) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        message: dict[str, Any] = json.loads(self._process.stdout.readline())
        return message


def check_out(folder: Path) -> Path:
    """Put the code of 0.1.0 into a folder, with this file. Skip the test where the history does not have the commit."""
    command = ["git", "-C", str(ROOT), "archive", COMMIT, "rowmerge", "tests/unit"]
    try:
        archive = subprocess.run(command, check=True, capture_output=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        import pytest

        pytest.skip(f"commit {COMMIT} of release 0.1.0 is not in the history of this copy")
    subprocess.run(["tar", "--extract", "--directory", str(folder)], input=archive, check=True)
    copy = folder / Path(__file__).relative_to(ROOT)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(__file__).read_bytes())
    return folder


def main() -> None:
    import rowmerge

    for line in sys.stdin:
        request = json.loads(line)
        if "open" in request:
            commands = Commands(PausingStorage(request["open"]))
            _send({"rowmerge": str(Path(rowmerge.__file__).parent)})
            continue
        PausingStorage.pause = request["pause"]
        try:
            result = getattr(commands, request["command"])(*request["arguments"])
        except RowmergeError as error:
            result = type(error).__name__
        _send({"result": result})


if __name__ == "__main__":
    main()
