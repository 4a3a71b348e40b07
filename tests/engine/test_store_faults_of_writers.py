"""Processes that write to S3 through a store with faults: two at the same time, and one that is killed during its commit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.faulty_s3 import AnyFault, Fault, FaultyS3, Request, Response, needs_moto
from tests.support.store_fault_tables import COMMIT, INSERT, OLD_ROWS, SHORT_WAITS, Connect, create_table, options_of, rows

pytestmark = [needs_moto, pytest.mark.one_of("format_", keep=1)]

ROOT = Path(__file__).parents[2]
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
WRITER = """
import json, sys
import rowmerge
from rowmerge.errors import CommitStateUnknown, RowmergeError
from tests.support.jvm import SPARK_SETTINGS
warehouse, format_, options, ids = json.loads(sys.argv[1])
session = rowmerge.connect(warehouse, spark_config=SPARK_SETTINGS, storage_options=options, default_format=format_)
print("ready", flush=True)
sys.stdin.readline()
for id_ in ids:
    try:
        session.sql(f"insert into t values ({id_}, 'w')")
        outcome = "committed"
    except CommitStateUnknown:
        outcome = "unknown"
    except RowmergeError as error:
        outcome = f"failed: {error}"
    print(json.dumps([id_, outcome]), flush=True)
"""
APPENDS = 10
FAULTS = (503, 500, Fault.CUT, Fault.DONE_THEN_CUT, Fault.DONE_THEN_500)


class Writer:
    """A process that inserts ids one after the other, once `start` is called."""

    def __init__(self, s3: FaultyS3, warehouse: str, format_: str, options: dict[str, object], ids: list[int]) -> None:
        arguments = json.dumps([warehouse, format_, options_of(s3, options), ids])
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None and self.process.stdout.readline() == "ready\n"

    def start(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def outcomes(self) -> dict[int, str]:
        """Wait for the end of the process, and return the outcome of each insert that has ended, by its id."""
        output, _ = self.process.communicate(timeout=300)
        return dict(json.loads(line) for line in output.splitlines())


@FORMATS
def test_a_writer_killed_at_its_commit_leaves_the_new_version(
    s3: FaultyS3, connect_to_s3: Connect, s3_warehouse: str, format_: str
) -> None:
    create_table(connect_to_s3(format_))
    writer = Writer(s3, s3_warehouse, format_, SHORT_WAITS, [4])

    def rule(request: Request) -> AnyFault | None:
        if request.method == "PUT" and request.path.endswith(COMMIT[format_]):
            s3.forward(request)
            writer.process.send_signal(signal.SIGKILL)
            return Fault.CUT
        return None

    s3.rule = rule
    writer.start()
    assert writer.outcomes() == {} and writer.process.returncode == -signal.SIGKILL
    assert rows(s3, format_, s3_warehouse) == {**OLD_ROWS, 4: "w"}
    connect_to_s3(format_).sql(INSERT.replace("4", "5"))
    assert rows(s3, format_, s3_warehouse) == {**OLD_ROWS, 4: "w", 5: "i"}


@FORMATS
@pytest.mark.parametrize("retries", [0, 10], ids=["no retries by the client", "retries by the client"])
def test_acknowledged_appends_of_two_writers_exist_once(
    s3: FaultyS3, connect_to_s3: Connect, s3_warehouse: str, format_: str, retries: int
) -> None:
    create_table(connect_to_s3(format_))
    options = {"retry_config": {**SHORT_WAITS["retry_config"], "max_retries": retries}}
    ids = [list(range(start, start + APPENDS)) for start in (100, 200)]
    writers = [Writer(s3, s3_warehouse, format_, options, own_ids) for own_ids in ids]
    answer, lock, generator = s3.answer, threading.Lock(), random.Random(f"{format_} {retries}")

    def answer_alone(request: Request) -> Response | None:
        # moto looks whether an object exists, and writes it later. Only one request at a time makes a conditional put atomic.
        with lock:
            return answer(request)

    s3.answer = answer_alone  # type: ignore[method-assign]
    s3.rule = lambda request: generator.choice(FAULTS) if generator.random() < (0.15 if retries else 0.02) else None
    for writer in writers:
        writer.start()
    outcomes = {id_: outcome for writer in writers for id_, outcome in writer.outcomes().items()}
    assert list(outcomes) == ids[0] + ids[1]
    live = rows(s3, format_, s3_warehouse)
    committed = {id_ for id_, outcome in outcomes.items() if outcome == "committed"}
    unknown = {id_ for id_, outcome in outcomes.items() if outcome == "unknown"}
    assert committed <= live.keys() <= committed | unknown | OLD_ROWS.keys(), outcomes
    assert len(committed) >= APPENDS, outcomes
    assert OLD_ROWS.items() <= live.items()
