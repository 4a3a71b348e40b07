"""Run the flights project: create the feed, build batch after batch with dbt in one process, then verify the tables."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from dbt.cli.main import dbtRunner
from feed import BATCHES, write_feed
from verify import FORMATS, verify

PROJECT = Path(__file__).resolve().parent
TARGET = PROJECT / "target"
ROW_MODELS = ("fct_flights", "flight_events", "airport_days", "airline_summary")


def main(batches: int, dbt_target: str) -> int:
    """Return 0 if every build succeeded and every table is correct, and else 1. `dbt_target`: a target of profiles.yml (one per format)."""
    shutil.rmtree(TARGET, ignore_errors=True)
    started = time.perf_counter()
    print("Making the feed from the flights of 2013 …")
    write_feed(TARGET / "feed", batches)
    os.environ["FLIGHTS_WAREHOUSE"] = str(TARGET / "warehouse")
    timings = [("feed", time.perf_counter() - started)]
    responses_by_batch: dict[int, dict[str, Any]] = {}
    for batch in range(batches):
        print(f"\n{'=' * 20} dbt build, batch {batch} of 0-{batches - 1} {'=' * 20}", flush=True)
        began = time.perf_counter()
        responses = build(batch, dbt_target)
        if responses is None:
            print(f"\nThe build of batch {batch} failed; see above, and {PROJECT.name}/logs/dbt.log.")
            return 1
        timings.append((f"dbt build, batch {batch}", time.perf_counter() - began))
        responses_by_batch[batch] = responses
    print_rows(responses_by_batch)
    merges = {batch: responses["fct_flights"] for batch, responses in responses_by_batch.items() if batch > 0}
    (TARGET / "merges.json").write_text(json.dumps(merges, indent=2))
    began = time.perf_counter()
    proved = verify(TARGET, dbt_target)
    timings.append(("verify", time.perf_counter() - began))
    print("\n" + "\n".join(f"{what:<24}{seconds:>7.1f} s" for what, seconds in [*timings, ("all", time.perf_counter() - started)]))
    print("\nEvery table is what the feed says." if proved else "\nA table is not what the feed says: see NO above.")
    return 0 if proved else 1


def build(batch: int, dbt_target: str) -> dict[str, Any] | None:
    """Run `dbt build` for one batch. Return the adapter's response for each model, or None if a node failed."""
    variables = json.dumps({"feed": str(TARGET / "feed"), "batch": batch})
    arguments = ["build", "--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT), "--target", dbt_target, "--vars", variables]
    result = dbtRunner().invoke([*arguments, "--log-path", str(PROJECT / "logs")])
    if not result.success:
        if result.exception:
            print(result.exception)
        return None
    return {run.node.name: run.adapter_response for run in result.result if run.node.resource_type == "model"}


def print_rows(responses_by_batch: dict[int, dict[str, Any]]) -> None:
    """Print the row counts of each model, batch by batch."""
    print(f"\n{'batch':<6}{'model':<18}what happened to its rows")
    for batch, responses in responses_by_batch.items():
        for model in ROW_MODELS:
            print(f"{batch:<6}{model:<18}{responses[model].get('_message', '')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=len(BATCHES), choices=range(1, len(BATCHES) + 1), help="how many batches to load")
    parser.add_argument("--target", choices=list(FORMATS), default="delta", help="the format of the tables, a target of profiles.yml")
    arguments = parser.parse_args()
    sys.exit(main(arguments.batches, arguments.target))
