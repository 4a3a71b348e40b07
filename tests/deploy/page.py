"""Print docs/deploy/tested.md: which environments of docs/deploy were proven, when, and with which versions.

`python -m tests.deploy.page` writes the page from results.json. With `--run NAME…`, it first runs the trials of these environments, or of
all if there is no name, and records their results.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import rowmerge
from tests.deploy.environments import ENVIRONMENTS, PROFILES, Environment, run_trial

RESULTS = Path(__file__).with_name("results.json")
_VERSIONS = ("pyspark", "dbt-core", "pyarrow", "pyiceberg")
_HEAD = """<!-- Written by `python -m tests.deploy.page` from tests/deploy/results.json; change tests/deploy/page.py instead. -->
# Tested deployments

Each row is one trial, with the profile of the page and its real components. A trial has three parts:

- **debug:** all checks of `dbt debug` pass.
- **demo:** `dbt build` of the project in `integration_tests/flights` runs twice, on one in fifty flights: seeds, a view, merge, append,
  delete+insert, a table, and data tests. The number counts nodes without an error.
- **statements:** `tests/deploy/statements.sql` has all strategies, definitions, maintenance and time travel.

The column *as laptop* says whether nodes, rows of all tables, and statements have the results of the laptop.

| environment | components | format | debug | demo | statements | as laptop | date | versions |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
_OTHER_STORES = """

Stores beside S3 have no trial either:

- **Azure Blob Storage:** `tests/engine/test_statements_on_azure.py` runs INSERT, MERGE, OPTIMIZE, DELETE and DROP in both formats against
  Azurite, with the engine's own reads and writes. delta-rs and pyiceberg verify the rows. Spark's connector, hadoop-azure, needs the
  interface of Data Lake Storage, which Azurite lacks. So scans by Spark are not tested.
- **Google Cloud Storage:** not tested. fake-gcs-server 1.52 rejects the puts of the XML interface, which the engine's client sends.
  Listings, reads, and data files by Arrow worked in a trial by hand.
"""


def page(results: list[dict[str, Any]]) -> str:
    """Return the Markdown of results."""
    rows = [_row(result, results) for result in results]
    tested = {result["environment"] for result in results}
    pages = [f"- [{_title(path.stem)}]({path.stem}.md)" for path in sorted(PROFILES.glob("*.yml")) if path.stem not in tested]
    return (
        _HEAD
        + "\n".join(rows)
        + "\n\n## Not tested\n\nNo trial with the profiles of these pages is recorded:\n\n"
        + "\n".join(pages)
        + _OTHER_STORES
    )


def _title(name: str) -> str:
    return (PROFILES.parent / f"{name}.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def _row(result: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """Return the row of a trial. Names the claims of failed cases next to the number of statements."""
    outcome = result["outcome"]
    laptop = next((each for each in results if each["environment"] == "laptop" and each["format"] == result["format"]), result)
    nodes = outcome.get("nodes", {})
    passed = sum(status in ("success", "pass") for status in nodes.values())
    failures = f", failed: {'; '.join(outcome['failures'])}" if outcome.get("failures") else ""
    name = result["environment"]
    cells = [
        f"[{name}]({name}.md)",
        result["components"],
        result["format"],
        "yes" if outcome["debug"] else "no",
        f"{passed} of {len(nodes)}",
    ]
    agreement = "–" if result is laptop else "yes" if outcome == laptop["outcome"] else "no"
    cells += [f"{outcome.get('statements', 0)}{failures}", agreement]
    return f"| {' | '.join([*cells, result['date'], result['versions']])} |"


def read_results() -> list[dict[str, Any]]:
    """Return the recorded results, in the order of ENVIRONMENTS and their formats."""
    results: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    names = [environment.name for environment in ENVIRONMENTS]
    return sorted(
        (each for each in results if each["environment"] in names), key=lambda each: (names.index(each["environment"]), each["format"])
    )


def record(environment: Environment, format_: str) -> None:
    """Run a trial, and record its result in place of an earlier one."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_trial(environment, Path(folder) / "trial", format_)
    versions = ", ".join([f"rowmerge {rowmerge.__version__}", *(f"{name} {version(name)}" for name in _VERSIONS)])
    result = {"environment": environment.name, "components": environment.components, "format": format_}
    result |= {"date": date.today().isoformat(), "versions": versions, "outcome": outcome}
    others = [each for each in read_results() if (each["environment"], each["format"]) != (environment.name, format_)]
    RESULTS.write_text(json.dumps([*others, result], indent=1) + "\n")


def main() -> None:
    """Run the trials of the command line, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", nargs="*", metavar="NAME", help="run the trials of these environments, or of all of them")
    arguments = parser.parse_args()
    for environment in ENVIRONMENTS if arguments.run is not None else ():
        if not arguments.run or environment.name in arguments.run:
            if reason := environment.missing():
                parser.exit(1, f"{environment.name}: {reason}\n")
            for format_ in environment.formats:
                record(environment, format_)
    (PROFILES.parent / "tested.md").write_text(page(read_results()), encoding="utf-8")


if __name__ == "__main__":
    main()
