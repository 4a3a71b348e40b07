"""A cancelled or fail-fast run stops its Spark jobs and leaves tables unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dbt.tests.util import get_connection, run_dbt

ENDLESS = """
{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge') }}
select id % 7 as id, count(*) as n from range(0, {{ '100000000000000' if is_incremental() else '100' }}) group by 1
"""
BROKEN = "{{ config(materialized='table') }} select raise_error('broken') as a"


class TestCancel:
    @pytest.fixture(scope="class")
    def models(self):
        return {"endless.sql": ENDLESS, "broken.sql": BROKEN}

    @pytest.fixture(scope="class")
    def built(self, project):
        run_dbt(["run", "--select", "endless"])
        return self.facts(project)

    def facts(self, project):
        """Return the version of the table and the data files in its folder."""
        with get_connection(project.adapter):
            described = project.adapter.session.describe(project.test_schema, "endless")
        folder = Path(described.location.removeprefix("file://"))
        return described.version, sorted(file.name for file in folder.rglob("*.parquet"))

    def test_fail_fast_cancels_the_other_models(self, project, built):
        began = time.monotonic()
        results = run_dbt(["run", "--fail-fast", "--threads", "2"], expect_pass=False)
        assert time.monotonic() - began < 60
        assert {result.node.name: str(result.status) for result in results}["broken"] == "error"
        with get_connection(project.adapter):
            spark = project.adapter.session.spark
        assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
        assert self.facts(project) == built

    def test_an_interrupted_run_ends_without_a_change(self, project, built, profiles_root):
        log = Path(project.project_root) / "logs/interrupted"
        command = ["run", "--select", "endless", "--log-path", str(log), "--log-level-file", "debug", "--profiles-dir", str(profiles_root)]
        run = subprocess.Popen(
            [sys.executable, "-c", "from dbt.cli.main import cli; cli()", *command],
            cwd=project.project_root,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            until = time.monotonic() + 120
            while not ((log / "dbt.log").exists() and "merge into" in (log / "dbt.log").read_text()):
                assert run.poll() is None and time.monotonic() < until
                time.sleep(0.2)
            time.sleep(2)
            # As a terminal does it: every process of the group gets it.
            os.killpg(run.pid, signal.SIGINT)
            output, _ = run.communicate(timeout=60)
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
        assert run.returncode != 0
        assert "CANCEL" in output
        assert self.facts(project) == built
