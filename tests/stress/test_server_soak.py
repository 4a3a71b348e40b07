"""Eight processes of dbt use one server for ten minutes, while processes of dbt, the server and its Java are killed at random."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import deltalake
import pytest

from rowmerge.server.client import stop_server
from rowmerge.server.folder import ServerFolder
from tests.support.jvm import SPARK_SETTINGS
from tests.support.processes import descendants, is_running, wait_until

SECONDS, WORKERS, PAUSE = float(os.environ.get("ROWMERGE_SOAK_SECONDS", "600")), 8, (5, 25)
PROJECT = """
name: soak
version: "1.0"
profile: soak
flags: {send_anonymous_usage_stats: false}
"""
MODEL = """
{{ config(materialized='incremental', incremental_strategy='append') }}
select {{ var('worker') }} as worker, {{ var('batch') }} as batch
"""


class Load:
    """Workers that run dbt again and again, each with its own rows, and what they know about the rows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.warehouse = folder, folder / "warehouse"
        self.acknowledged: set[tuple[int, int]] = set()
        self.failed: list[str] = []
        self.running: dict[int, subprocess.Popen[str]] = {}
        self.until = time.monotonic() + SECONDS
        target = {
            "type": "rowmerge",
            "warehouse": str(self.warehouse),
            "schema": "main",
            "keep_warm": "20s",
            "spark_config": SPARK_SETTINGS,
        }
        (folder / "models").mkdir()
        (folder / "models" / "appended.sql").write_text(MODEL)
        (folder / "dbt_project.yml").write_text(PROJECT)
        (folder / "profiles.yml").write_text(json.dumps({"soak": {"target": "dev", "outputs": {"dev": target}}}))

    def run(self, worker: int, batch: int) -> bool:
        """Run dbt once, and return whether it succeeded."""
        own = self.folder / f"worker_{worker}"
        words = [
            "run",
            "--vars",
            json.dumps({"worker": worker, "batch": batch}),
            "--target-path",
            f"{own}/target",
            "--log-path",
            f"{own}/logs",
        ]
        command = [sys.executable, "-c", "from dbt.cli.main import cli; cli()", *words, "--profiles-dir", str(self.folder)]
        path = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        process = subprocess.Popen(command, cwd=self.folder, env=path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.running[worker] = process
        output, _ = process.communicate()
        if process.returncode == 0:
            self.acknowledged.add((worker, batch))
        elif process.returncode > 0:
            self.failed.append(output)
        return process.returncode == 0

    def work(self, worker: int) -> None:
        batch = 0
        while time.monotonic() < self.until:
            batch += 1
            self.run(worker, batch)


@pytest.mark.soak
def test_nothing_is_lost_and_no_process_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWMERGE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "project").mkdir()
    load, choices, servers = Load(tmp_path / "project"), random.Random(1), set()
    assert load.run(0, 0)
    threads = [threading.Thread(target=load.work, args=[worker]) for worker in range(1, WORKERS + 1)]
    for thread in threads:
        thread.start()
    kills: Counter[str] = Counter()
    while time.monotonic() < load.until:
        time.sleep(choices.uniform(*PAUSE))
        for folder in ServerFolder.all_of_user():
            if state := folder.read():
                servers |= {state.pid, *descendants(state.pid)}
                kind = choices.choice(["dbt", "dbt", "server", "java"])
                java = [pid for pid in descendants(state.pid) if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]
                victims = {"dbt": [process.pid for process in load.running.values()], "server": [state.pid], "java": java}[kind]
                with suppress(ProcessLookupError, IndexError):
                    os.kill(choices.choice(victims), signal.SIGKILL)
                    kills[kind] += 1
    for thread in threads:
        thread.join()
    for folder in ServerFolder.all_of_user():
        stop_server(folder, at_once=False)
    wait_until(lambda: not any(map(is_running, servers)), seconds=90)
    table = deltalake.DeltaTable(str(load.warehouse / "main" / "appended")).to_pyarrow_table()
    rows = Counter(zip(table["worker"].to_pylist(), table["batch"].to_pylist(), strict=True))
    assert max(rows.values()) == 1
    assert load.acknowledged <= rows.keys()
    assert len(load.acknowledged) > SECONDS / 20
    assert all("server" in output.lower() for output in load.failed), load.failed
    assert kills["dbt"] and kills["server"] + kills["java"]
