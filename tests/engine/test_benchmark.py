"""The benchmark runs unchanged on few rows. Each engine has its own process."""

from __future__ import annotations

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
