"""The expected rows after the acknowledged commits of the stress test, and the comparison with what readers read."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import pyarrow as pa

from rowmerge.catalog import DirectoryCatalog
from rowmerge.storage.store import Storage
from tests.stress.statements import NAME, SCHEMA, Begin, End, Resumed, Rows, Stop, Target, Task, id_of, rows_of, run
from tests.support.readers import read_with_delta_rs, read_with_duckdb, read_with_duckdb_iceberg, read_with_pyiceberg

_READERS = {"delta": (read_with_delta_rs, read_with_duckdb), "iceberg": (read_with_pyiceberg, read_with_duckdb_iceberg)}
_IDS_OF_A_WORKER = 1_000_000
_STATEMENTS = 12
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.stress.statements"])


@dataclass
class _Process:
    worker: int
    process: Any
    connection: Connection
    begun: Begin | None = None
    stops: int = 0
    """Stops that the process has reported and that have not ended. Two threads may stop it."""
    resume_at: float = 0.0


@dataclass
class Model:
    """The expected table. `allowed`: the values that a row may have, None if it may be absent, for each row of each table."""

    warehouse: str
    format: str
    seed: int
    workers: int = 6
    without: str | None = None
    drops: int = 3
    longest_stop: float = 1.2
    options: Mapping[str, Any] | None = None
    allowed: dict[str, dict[int, set[int | None]]] = field(default_factory=dict)
    dropped: set[str | None] = field(default_factory=set)
    commits: Counter[str] = field(default_factory=Counter)
    table_id: str | None = None

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._next_ids = [worker * _IDS_OF_A_WORKER for worker in range(self.workers)]

    def round(self) -> None:
        """Let every worker run some statements at the same time. Then compare the table with the acknowledged commits."""
        processes = [self._start(worker) for worker in range(self.workers)]
        while processes:
            for ready in wait([each.connection for each in processes], timeout=0.01):
                process = next(each for each in processes if each.connection is ready)
                if not self._receive(process):
                    processes.remove(process)
            now = time.monotonic()
            for process in processes:
                if process.stops and process.resume_at <= now:
                    # Again until it has resumed: the process may not have stopped yet.
                    process.resume_at = now + 0.05
                    # A process that has just killed itself is gone before its connection ends.
                    with suppress(ProcessLookupError):
                        os.kill(process.process.pid, signal.SIGCONT)
        self.verify()

    # ------------------------------------------------------------------ processes

    def _start(self, worker: int) -> _Process:
        table = {id_: next(iter(values)) for id_, values in self.allowed.get(self.table_id or "", {}).items()}
        rows: Rows = {id_: value for id_, value in table.items() if id_ // _IDS_OF_A_WORKER == worker and value is not None}
        task = Task(
            self.warehouse,
            self.format,
            self._random.getrandbits(32),
            _STATEMENTS,
            rows,
            self.table_id,
            self._next_ids[worker],
            self.without,
            self.drops,
            self.longest_stop,
            self.options,
        )
        # The next process of this worker inserts other ids, whatever becomes of this one.
        self._next_ids[worker] += 10 * _STATEMENTS
        parent_pipe, child_pipe = _PROCESSES.Pipe(duplex=False)
        process = _PROCESSES.Process(target=run, args=(task, child_pipe), daemon=True)
        process.start()
        child_pipe.close()
        return _Process(worker, process, parent_pipe)

    def _receive(self, process: _Process) -> bool:
        """Receive one message, and return False if the process has ended."""
        try:
            message = process.connection.recv()
        except (EOFError, OSError):
            # The process has ended, perhaps in the middle of a message.
            process.process.join()
            # Anything else is an error that no statement may raise. Its traceback is in the output of the test.
            assert process.process.exitcode in (0, -signal.SIGKILL)
            if process.begun is not None:
                self._apply(process.begun, "unknown")
            return False
        match message:
            case Begin():
                process.begun = message
            case Target(table_id):
                self.dropped.add(table_id)
            case End(outcome):
                if process.begun is not None:
                    self._apply(process.begun, outcome)
                process.begun = None
            case Stop(seconds):
                process.stops += 1
                process.resume_at = time.monotonic() + seconds
            case Resumed():
                process.stops -= 1
        return True

    def _apply(self, statement: Begin, outcome: str) -> None:
        if outcome == "committed":
            self.commits[statement.operation] += 1
        if outcome == "failed" or statement.table_id is None:
            return
        rows = self.allowed.setdefault(statement.table_id, {})
        for id_, value in statement.rows.items():
            old_values = rows.get(id_, {None})
            rows[id_] = {value} if outcome == "committed" else old_values | {value}

    # ------------------------------------------------------------------ the table

    def verify(self) -> None:
        """Compare the table with the acknowledged commits, while no process runs.

        Raises AssertionError for a lost, a duplicate or an unknown row, for a table that disappeared without a DROP, and if readers differ.
        """
        storage = Storage(self.warehouse, self.options)
        catalog = DirectoryCatalog(storage)
        if catalog.relation(SCHEMA, NAME) is None:
            actual, self.table_id = [], None
        else:
            snapshot = catalog.open(SCHEMA, NAME).snapshot()
            actual, self.table_id = rows_of(snapshot, storage), id_of(snapshot)
        for table_id, rows in self.allowed.items():
            if table_id != self.table_id and any(None not in values for values in rows.values()):
                assert table_id in self.dropped, f"the table {table_id} vanished and nobody dropped it"
        expected = self.allowed.get(self.table_id or "", {})
        values = {id_: value for _, _, id_, value in actual}
        assert len(values) == len(actual), f"duplicated rows: {[id_ for id_, count in Counter(r[2] for r in actual).items() if count > 1]}"
        assert values.keys() <= expected.keys(), f"rows that nobody inserted into this table: {values.keys() - expected.keys()}"
        wrong = {id_: (values.get(id_), allowed) for id_, allowed in expected.items() if values.get(id_) not in allowed}
        assert not wrong, f"rows with a value that no acknowledged commit gave them, and the values that are allowed: {wrong}"
        self._compare_readers(values)
        self.allowed = {} if self.table_id is None else {self.table_id: {id_: {value} for id_, value in values.items()}}
        self.dropped.clear()

    def _compare_readers(self, values: Rows) -> None:
        if self.table_id is None or self.options is not None:
            return
        for read in _READERS[self.format]:
            table: pa.Table = read(f"{self.warehouse}/{SCHEMA}/{NAME}")
            names = zip(table["id"].to_pylist(), table["name"].to_pylist(), strict=True)
            reader_values = {id_: int(name.split(".")[0]) for id_, name in names}
            assert reader_values == values, f"{read.__name__} sees other rows"
            assert table.num_rows == len(reader_values)
