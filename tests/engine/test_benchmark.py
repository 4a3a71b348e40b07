"""The benchmark runs unchanged on few rows. Each engine has its own process."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"


@pytest.mark.full_suite("it runs every engine in processes of its own for two minutes, and verifies only the benchmark")
@pytest.mark.skipif(shutil.which("tpchgen-cli", path=PLACES) is None, reason="tpchgen-cli, which makes the data, is not installed")
def test_all_engines_of_the_benchmark_end_with_the_same_rows(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-m", "benchmarks.smoke"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "all engines end with the same rows" in run.stderr
    assert "| 12 | rowmerge, Delta, auto |" in run.stdout and "| 12 | delta-rs |" in run.stdout
    table = run.stdout.split("### Cold seconds")[1].split("###")[0]
    assert "| | delta-rs |" in table and re.search(r"\| \*\*1\*\* .* \| \d+\.\d\d \|", table)


@pytest.mark.full_suite("it runs two processes for each table, and verifies only the benchmark")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("point", ["rows-20000", "columns-6", "files-20", "commits-20", "partitions-5", "share-10"])
def test_the_growth_benchmark_changes_the_rows_of_a_point(point: str, format_: str, tmp_path: Path) -> None:
    name, out = f"{point}-{format_}", tmp_path / "growth.jsonl"
    command = [sys.executable, "-m", "benchmarks.growth", "--points", name, "--folder", str(tmp_path / "tables"), "--out", str(out)]
    run = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    result = json.loads(out.read_text())
    merge, opening = result["operations"]["merge"], result["operations"]["open"]
    assert result["point"] == name and merge["bytes_written"] > 0 and merge["files"] > 0
    assert merge["requests"] > 0 and opening["requests"] > 0 and opening["bytes_written"] == 0
