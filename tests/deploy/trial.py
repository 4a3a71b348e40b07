"""One trial of a profile in a new process, because a process has one Spark: `dbt debug`, the flights project, and statements.

`python -m tests.deploy.trial FOLDER FORMAT PART…` reads `FOLDER/profiles.yml` with the profile `analytics`. The parts are `demo` and
`statements`. Every trial begins with `dbt debug`. The last line of standard output is the result as JSON.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.cli.main import dbtRunner
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context

import rowmerge
from dbt.adapters.rowmerge.configs.credentials import RowmergeCredentials
from dbt.adapters.rowmerge.sessions import connection_for
from tests.support.statement_cases import Case, cases, run_case

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "integration_tests/flights"
STATEMENTS = Path(__file__).with_name("statements.sql")
BATCHES = 2
PROFILE = "analytics"
PARTS = ("demo", "statements")
_SHARE = 50
"""The project loads one in so many flights."""


def main(folder: Path, format_: str, parts: list[str]) -> dict[str, Any]:
    """Return the result of a trial: the outcome of `dbt debug`, of each node, the digest of each table, and the failed statements."""
    project = _copy_project(folder)
    result: dict[str, Any] = {"debug": _dbt("debug", folder, project).success}
    credentials = _credentials(folder)
    session = connection_for(credentials).session if result["debug"] else None
    if session is not None and "demo" in parts:
        result["nodes"] = _build(folder, project)
        result["tables"] = _digests(session, str(credentials.schema))
    if session is not None and "statements" in parts:
        result |= _run_statements(session, format_)
    return result


def _copy_project(folder: Path) -> Path:
    """Copy the flights project, whose seeds and feed are then in the folder."""
    project = folder / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("target", "logs", "profiles.yml", "__pycache__"))
    return project


def _dbt(command: str, folder: Path, project: Path, *arguments: str) -> Any:
    """Run a command of dbt with the profile of the trial."""
    places = ["--project-dir", str(project), "--profiles-dir", str(folder), "--log-path", str(folder / "logs")]
    return dbtRunner().invoke([command, *places, "--profile", PROFILE, *arguments])


def _build(folder: Path, project: Path) -> dict[str, str]:
    """Build all nodes of the project for each batch. Return the worst status of each node, `success` or `pass` if all is well."""
    _write_feed(project / "target/feed")
    statuses: dict[str, str] = {}
    for batch in range(BATCHES):
        variables = json.dumps({"feed": str(project / "target/feed"), "batch": batch})
        result = _dbt("build", folder, project, "--vars", variables)
        for run in result.result or ():
            node, status = run.node.name, str(run.status) if str(run.status) != "error" else f"error: {run.message}"
            statuses[node] = status if statuses.get(node, "success") in ("success", "pass") else statuses[node]
    return statuses


def _write_feed(feed: Path) -> None:
    """Write the feed of the project, with few of its flights."""
    sys.path.insert(0, str(PROJECT))
    from feed import write_feed  # a script of the project, which is no package

    write_feed(feed, BATCHES)
    for path in (feed / "flights").glob("*.csv"):
        rows = list(csv.reader(path.read_text().splitlines()))
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(row for row in rows if row[0] == "flight_id" or zlib.crc32(row[0].encode()) % _SHARE == 0)


def _digests(session: rowmerge.Session, schema: str) -> dict[str, str]:
    """Return the number of rows of each table, with a digest of the rows."""
    digests = {}
    for relation in session.relations(schema):
        if relation.kind == "table":
            rows = sorted(repr(row) for row in session.table(f"`{schema}`.`{relation.name}`").toArrow().to_pylist())
            digests[relation.name] = f"{len(rows)} rows, {hashlib.sha256(chr(10).join(rows).encode()).hexdigest()[:16]}"
    return digests


def _run_statements(session: rowmerge.Session, format_: str) -> dict[str, Any]:
    """Run the cases of a format, each in a schema of its own. Return the number of statements, and the message of each failed case."""
    failures, count = {}, 0
    for number, case in enumerate(case for case in cases(STATEMENTS) if case.format in (None, format_)):
        session.sql(f"create schema trial_{number}")
        session.sql(f"use trial_{number}")
        count += len(case.steps)
        if message := _failure(session, case, format_):
            failures[case.claim] = message
    return {"statements": count, "failures": failures}


def _failure(session: rowmerge.Session, case: Case, format_: str) -> str | None:
    try:
        run_case(session, case, lambda text: text.replace("using delta", f"using {format_}"))
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever it is, the result names it
        return f"{type(error).__name__}: {error}"
    return None


def _credentials(folder: Path) -> RowmergeCredentials:
    """Return the credentials of the profile, with the values of its environment variables."""
    set_invocation_context(dict(os.environ))
    profile = yaml.safe_load((folder / "profiles.yml").read_text())[PROFILE]
    target = ProfileRenderer({}).render_data(profile["outputs"][profile["target"]])
    return RowmergeCredentials.from_dict({key: value for key, value in target.items() if key not in ("type", "threads")})


if __name__ == "__main__":
    outcome = main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
    sys.stdout.write(f"\n{json.dumps(outcome)}\n")
    sys.stdout.flush()
