"""Measure `dbt run` of four tiny models from the shell to the prompt: dbt-duckdb, and rowmerge with and without `keep_warm`, in turns.

    python benchmarks/warm.py --duckdb /path/to/environment/bin/dbt [--repetitions 5]

The models are incremental, and find nothing new. `first` is a command that starts the server, `warm` one that finds it running, and
`session` one without `keep_warm`. The page shows medians. The stages come from the times of dbt's own log.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

from rowmerge.server.client import stop_server
from rowmerge.server.folder import ServerFolder

MODELS = 4
PROJECT = """
name: tiny
version: "1.0"
profile: tiny
flags: {send_anonymous_usage_stats: false}
"""
MODEL = """
{{ config(materialized='incremental', unique_key='id') }}
select * from (select 1 as id, 'a' as name union all select 2, 'b') s
{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}
"""
STAGES = ("imports", "project", "connection", "models", "end")
_BEGINNINGS = {"MainReportVersion": 0, "FoundStats": 1, "FormattedFoundStats": 1, "LogStartLine": 2, "EndOfRunSummary": 3}
"""The stage that ends with the first event of each name in dbt's log. The last one of `EndOfRunSummary` counts."""


def main() -> None:
    """Run the commands in turns, and print the medians of their stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duckdb", required=True, help="the command dbt of an environment with dbt-duckdb")
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowmerge-warm-") as folder:
        root = Path(folder)
        own_dbt = str(Path(sys.executable).with_name("dbt"))
        warehouse = {"type": "rowmerge", "schema": "main", "threads": 1}
        commands = {
            "dbt-duckdb": (arguments.duckdb, {"type": "duckdb", "path": str(root / "tiny.duckdb"), "threads": 1}),
            "warm": (own_dbt, {**warehouse, "warehouse": str(root / "warm"), "keep_warm": "10m"}),
            "first": (own_dbt, {**warehouse, "warehouse": str(root / "first"), "keep_warm": "10m"}),
            "session": (own_dbt, {**warehouse, "warehouse": str(root / "session")}),
        }
        try:
            runs = _measure(root, commands, arguments.repetitions)
        finally:
            for server in ServerFolder.all_of_user():
                if str(server.warehouse()).startswith(folder):
                    stop_server(server, at_once=True)
    print(f"{'seconds':<12}" + "".join(f"{name:>12}" for name in ("total", *STAGES, "a model")))
    for name, seconds in runs.items():
        medians = [median(values) for values in zip(*seconds, strict=True)]
        print(f"{name:<12}" + "".join(f"{value:12.2f}" for value in medians))


def _measure(root: Path, commands: dict[str, tuple[str, dict[str, object]]], repetitions: int) -> dict[str, list[list[float]]]:
    """Return the seconds of each command: in total, of each stage, and of a model after the first one."""
    runs: dict[str, list[list[float]]] = {name: [] for name in commands}
    for name, (_, target) in commands.items():
        _make_project(root / f"project_{name}", target)
    for repetition in range(-2, repetitions):  # the first two create the tables, and warm the server
        for name, (dbt, _) in commands.items():
            if name == "first":
                _stop_server_of(str(root / "first"))
            seconds = _run(dbt, root / f"project_{name}")
            if repetition >= 0:
                runs[name].append(seconds)
    return runs


def _make_project(folder: Path, target: dict[str, object]) -> None:
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text(PROJECT)
    (folder / "profiles.yml").write_text(json.dumps({"tiny": {"target": "dev", "outputs": {"dev": target}}}))
    for number in range(MODELS):
        (folder / "models" / f"m{number}.sql").write_text(MODEL)


def _stop_server_of(warehouse: str) -> None:
    for server in ServerFolder.all_of_user():
        if server.warehouse() == warehouse and stop_server(server, at_once=True):
            while server.read():
                time.sleep(0.05)
            time.sleep(1)  # Java ends


def _run(dbt: str, folder: Path) -> list[float]:
    """Return the seconds of a command: in total, of each stage, and of a model after the first one."""
    begun = time.time()
    run = subprocess.run(
        [dbt, "--log-format", "json", "run"],
        cwd=folder,
        env=os.environ | {"DBT_PROFILES_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    total = time.time() - begun
    assert not run.stderr, run.stderr
    ends, models = [begun], []
    for line in run.stdout.splitlines():
        event = json.loads(line)
        at = datetime.fromisoformat(event["info"]["ts"].replace("Z", "+00:00")).timestamp()
        if _BEGINNINGS.get(event["info"]["name"]) == len(ends) - 1:
            ends.append(at)
        if event["info"]["name"] == "LogModelResult":
            models.append(event["data"]["execution_time"])
    assert len(ends) == len(STAGES) and len(models) == MODELS, run.stdout
    ends.append(begun + total)
    return [total, *(end - start for start, end in pairwise(ends)), median(models[1:])]


if __name__ == "__main__":
    main()
