"""The check of executors on a standalone cluster: executors that share the warehouse, and executors that see another folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyspark
import pytest

from tests.support.standalone import StandaloneCluster, worker_python

pytestmark = pytest.mark.full_suite("a cluster starts for each test; tests/functional/adapter/test_connect.py checks executors in the gate")

ROOT = Path(__file__).parents[2]
CHECKS = """
import sys, rowmerge
settings = {"spark.master": sys.argv[2], "spark.pyspark.python": sys.argv[3], "spark.executor.memory": "512m"}
for check in rowmerge.check_environment(sys.argv[1], spark_config=settings):
    print(check.name, check.status, check.detail)
"""


def run_checks(warehouse: Path, cluster: StandaloneCluster, python: str) -> dict[str, str]:
    """Return the status and the detail of each check, by its name. A new process runs the checks, because it starts a Spark."""
    command = [sys.executable, "-c", CHECKS, str(warehouse), cluster.master, python]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [re.fullmatch(r"(.+?) ((?:OK|ERROR|WARNING|SKIPPED) .*)", line) for line in process.stdout.splitlines()]
    return {line[1]: line[2] for line in lines if line is not None}


def test_executors_that_share_the_warehouse_report_their_versions(tmp_path: Path) -> None:
    with closing(StandaloneCluster(tmp_path / "cluster", workers=1)) as cluster:
        checks = run_checks(tmp_path / "warehouse", cluster, worker_python())
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
    with closing(StandaloneCluster(tmp_path / "cluster", workers=0)) as cluster:
        cluster.start_worker_with_other_view(warehouse)
        checks = run_checks(warehouse, cluster, worker_python())
    assert checks["executors"].startswith("ERROR") and "cannot read the file" in checks["executors"], checks
    assert "Use a warehouse that all executors share: an object store" in checks["executors"]
    assert checks["store delete"].startswith("OK") and list(warehouse.iterdir()) == []


def test_executors_without_pyarrow_are_reported(tmp_path: Path) -> None:
    with closing(StandaloneCluster(tmp_path / "cluster", workers=1)) as cluster:
        checks = run_checks(tmp_path / "warehouse", cluster, worker_python(()))
    assert checks["executors"].startswith("ERROR") and "pip install 'pyspark[sql]'" in checks["executors"], checks
