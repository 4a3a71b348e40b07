"""One process of the stress test: random statements on one table, with stops and kills at random storage calls."""

from __future__ import annotations

import io
import os
import random
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.catalog import DirectoryCatalog
from rowmerge.delta.commits import commit as delta_commit, drop as delta_drop
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import AlreadyExists, CommitStateUnknown, RowmergeError
from rowmerge.iceberg.catalogs.operations import DirectoryOperations
from rowmerge.iceberg.commits import drop as iceberg_drop
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot
from rowmerge.storage.store import Put, Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest, Committed, Outcome, Reads, Unknown
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges, Positions
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME
from tests.support.table_operations import optimize, write_rows

Rows = dict[int, int]
"""The value of each id."""
SCHEMA, NAME = "default", "t"
PROPERTIES = {
    "delta": {"delta.logRetentionDuration": "interval 1 seconds", "delta.checkpointInterval": "5"},
    "iceberg": {"write.metadata.delete-after-commit.enabled": "true", "commit.manifest.min-count-to-merge": "4"},
}
_RETENTION = 20 / 3600
"""Hours for which VACUUM keeps files: longer than a statement takes with all its stops."""
_MOST_COLUMNS = 5


@dataclass(frozen=True)
class Task:
    """The task of one process. `rows`: the rows that this worker has in the table `table_id`. `next_id`: the first id that it may insert.

    `without` disables one check of the engine, which must make the test fail.
    """

    warehouse: str
    format: str
    seed: int
    statements: int
    rows: Rows
    table_id: str | None
    next_id: int
    without: str | None = None
    drops: int = 3
    """How many of 75 statements are a DROP."""
    longest_stop: float = 1.2
    """Seconds of the longest stop at a storage call."""
    options: Mapping[str, Any] | None = None
    """Options of an object store. On it, the test writes the data files, and OPTIMIZE is left out."""


@dataclass(frozen=True)
class Begin:
    """A statement starts. `rows`: what its commit makes of rows (None: deletes them) in the table `table_id`."""

    operation: str
    table_id: str | None = None
    rows: Mapping[int, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A DROP has chosen the table that it drops."""

    table_id: str | None


@dataclass(frozen=True)
class End:
    """A statement ends: `committed`, `unknown`, or `failed`, which is certain to have no effect."""

    outcome: str


@dataclass(frozen=True)
class Stop:
    """The process stops itself. The parent resumes it after some seconds, until it reports `Resumed`."""

    seconds: float


@dataclass(frozen=True)
class Resumed:
    """The process continues after a stop."""


def id_of(snapshot: Snapshot) -> str:
    """Return the identity of a snapshot's table."""
    if isinstance(snapshot, DeltaSnapshot):
        return snapshot.metadata.id
    assert isinstance(snapshot, IcebergSnapshot)
    return str(snapshot.metadata.table_uuid)


def rows_of(snapshot: Snapshot, storage: Storage) -> list[tuple[str, int, int, int]]:
    """Return the path, the position, the id and the value of each row."""
    paths = snapshot.files().paths
    deleted = snapshot.deleted_positions(paths)
    rows = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        table = pq.read_table(pa.BufferReader(storage.at(folder).get(name)), columns=["id", "name"])
        deleted_positions = set(deleted.get(path, ()))
        rows += [
            (path, at, id_, int(name.split(".")[0]))
            for at, (id_, name) in enumerate(zip(*table.to_pydict().values(), strict=True))
            if at not in deleted_positions
        ]
    return rows


def file_of(storage: Storage, snapshot: Snapshot, ids: Sequence[int], value: str) -> AddedFile:
    """Write a data file with a row for each id, as any engine may do, and return its entry for a commit."""
    names = [f"{value}{id_}" for id_ in ids]
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    for at, column in enumerate(schema):
        schema = schema.set(at, column.with_metadata({"PARQUET:field_id": str(at + 1)}))
    stream = io.BytesIO()
    pq.write_table(pa.table({"id": list(ids), "name": names}, schema=schema), stream)
    path = f"data/{uuid.uuid4()}.parquet"
    holder = storage.at(snapshot.shape.location)
    holder.put(path, stream.getvalue())
    lower, upper = {"id": min(ids), "name": min(names)}, {"id": max(ids), "name": max(names)}
    size = len(stream.getvalue())
    return AddedFile(f"{holder.location}/{path}", size, len(ids), {}, lower, upper, {"id": 0, "name": 0})


def run(task: Task, connection: Connection) -> None:
    """Run the statements of a task, and report each of them."""
    _leave_out(task.without)
    _Worker(task, connection).run()
    connection.close()


class _Worker:
    def __init__(self, task: Task, connection: Connection) -> None:
        self.task, self.connection, self.random = task, connection, random.Random(task.seed)
        self.rows, self.table_id, self.next_id = dict(task.rows), task.table_id, task.next_id
        self.is_dropping = False
        # A thread that puts a checksum on a distant store stops the process, too.
        self.sending = Lock()
        self.storage = _storage_of(self)(task.warehouse, task.options)
        self.catalog = DirectoryCatalog(self.storage)
        for drop in (delta_drop.Drop, iceberg_drop.Drop):
            _report_target(drop, self)

    def send(self, message: object) -> None:
        with self.sending:
            self.connection.send(message)

    def run(self) -> None:
        statements: list[tuple[int, Callable[[], Outcome | None]]] = [
            (30, self.append),
            (12, partial(self.change_row, "UPDATE")),
            (12, partial(self.change_row, "DELETE")),
            (0 if self.task.options else 8, self.optimize),
            (3, self.vacuum),
            (3, self.evolve),
            (self.task.drops, self.drop),
            (8 if self.task.format == "delta" else 0, self.clean_as_delta_rs),
        ]
        weights = [weight for weight, _ in statements]
        for _ in range(self.task.statements):
            (_, statement) = self.random.choices(statements, weights)[0]
            self.report(statement if self.is_table() else self.create)

    def report(self, statement: Callable[[], Outcome | None]) -> None:
        try:
            outcome = statement()
            ending = "committed" if outcome is None or isinstance(outcome, Committed) else "failed"
            self.send(End("unknown" if isinstance(outcome, Unknown) else ending))
        except CommitStateUnknown:
            self.send(End("unknown"))
        except (RowmergeError, FileNotFoundError, deltalake.exceptions.DeltaError, OSError):
            # Other processes can drop the table and clean its log at any time. The test verifies the table when all processes have ended.
            self.send(End("failed"))

    def is_table(self) -> bool:
        return self.catalog.relation(SCHEMA, NAME) is not None

    # ------------------------------------------------------------------ statements

    def create(self) -> Outcome:
        self.send(Begin("CREATE"))
        properties = dict(PROPERTIES[self.task.format])
        if self.task.format == "iceberg":
            properties["write.metadata.previous-versions-max"] = str(self.random.randint(1, 3))
        table = self.catalog.new_table(SCHEMA, NAME, self.task.format)
        if table.exists():
            raise AlreadyExists("others created it")
        return table.create(TableDefinition(ID_NAME, (), properties, None), CommitRequest("CREATE TABLE"))

    def append(self) -> Outcome:
        table, snapshot = self.open()
        ids = range(self.next_id, self.next_id + self.random.randint(1, 3))
        self.next_id = ids.stop
        files = FileChanges(self.write_rows(snapshot, ids, "0."))
        return self.commit(table, snapshot, CommitRequest("WRITE", files=files, reads=Reads()), dict.fromkeys(ids, 0))

    def change_row(self, operation: str) -> Outcome:
        table, snapshot = self.open()
        own = [row for row in rows_of(snapshot, self.storage) if row[2] in self.rows]
        if not own:
            return self.append()
        path, position, id_, value = self.random.choice(own)
        assert value == self.rows[id_], f"row {id_} has the value {value} instead of {self.rows[id_]}"
        old_positions = snapshot.deleted_positions([path]).get(path, Positions())
        added = self.write_rows(snapshot, [id_], f"{value + 1}.") if operation == "UPDATE" else ()
        files = FileChanges(added, (), {path: old_positions | Positions([position])})
        reads = Reads(frozenset([path]), rows={path: Positions([position])})
        return self.commit(
            table, snapshot, CommitRequest(operation, files=files, reads=reads), {id_: value + 1 if operation == "UPDATE" else None}
        )

    def optimize(self) -> None:
        self.send(Begin("OPTIMIZE"))
        optimize(self.open()[0])

    def vacuum(self) -> None:
        self.send(Begin("VACUUM"))
        self.open()[0].vacuum(VacuumOptions(retain_hours=_RETENTION, check_retention=False))

    def evolve(self) -> Outcome:
        table, snapshot = self.open()
        fields = snapshot.schema.fields
        definition = TableDefinition(properties={"x": str(self.random.random())})
        if len(fields) < _MOST_COLUMNS:
            definition = TableDefinition(Struct((*fields, Field(f"c{self.random.random()}"[:8].replace(".", "_"), Primitive("string")))))
        return self.commit(table, snapshot, CommitRequest("ALTER TABLE", definition=definition), {})

    def drop(self) -> None:
        self.send(Begin("DROP"))
        self.is_dropping = True
        try:
            self.catalog.drop_table(SCHEMA, NAME)
        finally:
            self.is_dropping = False

    def clean_as_delta_rs(self) -> None:
        self.send(Begin("CLEAN"))
        config = (
            None
            if self.task.options is None
            else {name: str(value).lower() if isinstance(value, bool) else value for name, value in self.task.options["config"].items()}
            | {"allow_http": "true"}
        )
        delta_rs_table = deltalake.DeltaTable(f"{self.task.warehouse}/{SCHEMA}/{NAME}", storage_options=config)
        delta_rs_table.create_checkpoint()
        delta_rs_table.cleanup_metadata()

    # ------------------------------------------------------------------ inside

    def write_rows(self, snapshot: Snapshot, ids: Sequence[int], value: str) -> tuple[AddedFile, ...]:
        return write_rows(snapshot, ids, value) if self.task.options is None else (file_of(self.storage, snapshot, ids, value),)

    def open(self) -> tuple[Table, Snapshot]:
        """Return the table and its newest snapshot. In another table than before, this worker has no rows."""
        table = self.catalog.open(SCHEMA, NAME)
        snapshot = table.snapshot()
        if id_of(snapshot) != self.table_id:
            self.table_id, self.rows = id_of(snapshot), {}
        return table, snapshot

    def commit(self, table: Table, snapshot: Snapshot, change: CommitRequest, rows: Mapping[int, int | None]) -> Outcome:
        self.send(Begin(change.operation, self.table_id, rows))
        outcome = table.commit(snapshot, change)
        for id_, value in rows.items():
            if isinstance(outcome, Unknown):
                self.rows.pop(id_, None)
            elif isinstance(outcome, Committed):
                self.rows.pop(id_, None)
                self.rows |= {} if value is None else {id_: value}
        return outcome

    def before_call(self, name: str, path: str) -> None:
        """Stop or kill this process at random. Puts of versions and deletions matter most."""
        matters = name in ("put_if_absent", "delete") or (name == "put" and "rowmerge-probe" not in path)
        chance = self.random.random()
        if chance < (0.004 if matters else 0.0005):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.is_dropping and name == "put_if_absent" and chance > 0.2:
            # After the pause, another table can have replaced the one that DROP chose.
            self.stop(1.2)
        elif chance > (0.9 if matters else 0.995):
            self.stop(self.random.choice([0.01, 0.2, self.task.longest_stop]))

    def stop(self, seconds: float) -> None:
        self.send(Stop(seconds))
        # In contrast to os.kill, this stops the calling thread before the next line.
        signal.raise_signal(signal.SIGSTOP)
        self.send(Resumed())


def _storage_of(worker: _Worker) -> type[Storage]:
    class Stopping(Storage):
        def child(self, path: str) -> Storage:
            return Stopping(f"{self.location}/{path}", self.configuration)

        def at(self, location: str) -> Storage:
            return Stopping(location, self.configuration)

        def get(self, path: str) -> bytes:
            worker.before_call("get", path)
            return Storage.get(self, path)

        def put(self, path: str, data: bytes) -> None:
            worker.before_call("put", path)
            Storage.put(self, path, data)

        def put_if_absent(self, path: str, data: bytes) -> Put:
            worker.before_call("put_if_absent", path)
            put = Storage.put_if_absent(self, path, data)
            worker.before_call("after_put", path)
            return put

        def delete(self, paths: Sequence[str]) -> None:
            for path in paths:
                worker.before_call("delete", path)
                Storage.delete(self, [path])

        def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
            worker.before_call("list", prefix)
            return Storage.list(self, prefix, after=after)

    return Stopping


def _report_target(drop: Any, worker: _Worker) -> None:
    """Report the identity of the table that a drop has chosen, right before its first put."""
    put = drop.put

    def reported(self: Any) -> Any:
        dropped = self.table_id_to_drop if hasattr(self, "table_id_to_drop") else self.dropped_uuid
        worker.send(Target(None if dropped is None else str(dropped)))
        return put(self)

    drop.put = reported


def _leave_out(check: str | None) -> None:
    """Disable one check of the engine."""
    if check == "identity of a drop":
        for drop, name in ((delta_drop.Drop, "table_id_to_drop"), (iceberg_drop.Drop, "dropped_uuid")):
            rebase = drop.rebase

            def unchecked(self: Any, rebase: Any = rebase, name: str = name) -> Any:
                setattr(self, name, None)
                return rebase(self)

            drop.rebase = unchecked  # type: ignore[assignment,method-assign]
    elif check == "cleanup of a Delta log":
        delta_commit.Commit._verify_or_delete = lambda self: Put.CREATED  # type: ignore[method-assign]
    elif check == "ghosts of Iceberg metadata":

        def unverified(self: DirectoryOperations, new: Any) -> Put:
            self._hint.advance(new.number)
            return Put.CREATED

        DirectoryOperations._verify_put = unverified  # type: ignore[assignment,method-assign]
    else:
        assert check is None, check
