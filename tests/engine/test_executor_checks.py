"""The check of executors on a standalone cluster: executors that share the warehouse, and executors that see another folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

pytestmark = pytest.mark.full_suite("a cluster starts for each test; tests/functional/adapter/test_connect.py checks executors in the gate")

ROOT = Path(__file__).parents[2]
CHECKS = """
import sys, rowmerge
for check in rowmerge.check_environment(sys.argv[1], spark_config={"spark.master": sys.argv[2], "spark.executor.memory": "512m"}):
    print(check.name, check.status, check.detail)
"""


@contextmanager
def cluster(folder: Path, worker_command: Sequence[str] = ()) -> Iterator[str]:
    """Start a master and a worker without rowmerge, and yield the master's address. `worker_command` runs the command of the worker."""
    processes: list[subprocess.Popen[bytes]] = []
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")

    def start(log: Path, *arguments: str, command: Sequence[str] = ()) -> None:
        environment = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": sys.executable}
        environment.pop("PYTHONPATH", None)
        with open(log, "wb") as file:
            processes.append(subprocess.Popen([*command, spark_class, *arguments], stdout=file, stderr=file, env=environment, cwd=folder))

    try:
        start(folder / "master", "org.apache.spark.deploy.master.Master", "--host", "localhost", "--port", "0", "--webui-port", "0")
        address = _await(folder / "master", r"Starting Spark master at (spark://\S+)")
        arguments = ["--host", "localhost", "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        arguments += ["--work-dir", str(folder / "work"), address]
        start(folder / "worker", "org.apache.spark.deploy.worker.Worker", *arguments, command=worker_command)
        _await(folder / "worker", r"(Successfully registered with master)")
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(30)


def _await(log: Path, pattern: str) -> str:
    """Return the group of a pattern when a log contains it."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if match := re.search(pattern, log.read_text()):
            return match[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])


def run_checks(warehouse: Path, master: str, **variables: str) -> dict[str, str]:
    """Return the status and the detail of each check, by its name. A new process runs the checks, because it starts a Spark."""
    command, environment = [sys.executable, "-c", CHECKS, str(warehouse), master], {**os.environ, **variables}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    lines = [re.fullmatch(r"(.+?) ((?:OK|ERROR|WARNING|SKIPPED) .*)", line) for line in process.stdout.splitlines()]
    return {line[1]: line[2] for line in lines if line is not None}


def test_executors_that_share_the_warehouse_report_their_versions(tmp_path: Path) -> None:
    with cluster(tmp_path) as master:
        checks = run_checks(tmp_path / "warehouse", master)
    assert all(text.startswith("OK") for text in checks.values()), checks
    assert f"Spark {pyspark.__version__}: " in checks["executors"] and "PyArrow" in checks["executors"]
    assert not (tmp_path / "warehouse").exists()


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0,
    reason="only root may give a process its own view of the disk",
)
def test_executors_with_another_folder_at_the_path_are_reported(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(warehouse)]
    with cluster(tmp_path, mount) as master:
        checks = run_checks(warehouse, master)
    assert checks["executors"].startswith("ERROR") and "cannot read the file" in checks["executors"], checks
    assert "Use a warehouse that all executors share: an object store" in checks["executors"]
    assert checks["store delete"].startswith("OK") and list(warehouse.iterdir()) == []


def test_executors_without_pyarrow_are_reported(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "python"], check=True)
    with cluster(tmp_path) as master:
        checks = run_checks(tmp_path / "warehouse", master, PYSPARK_PYTHON=str(tmp_path / "python" / "bin" / "python"))
    assert checks["executors"].startswith("ERROR") and "pip install 'pyspark[sql]'" in checks["executors"], checks
