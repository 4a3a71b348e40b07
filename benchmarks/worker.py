"""The process of one engine: it reads jobs as JSON, and prints each repetition as one line of JSON.

After the first repetition of a scenario, it waits until the rows were compared.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.engines.engine import Engine
from benchmarks.engines.registry import ENGINES, Peers
from benchmarks.measure import Measured, measured, stopwatch
from benchmarks.scenarios import READERS_OF_SOURCES, Merge, Scenario, Step, scenario_named, steps_of
from benchmarks.tables import Tables

MARK = "told: "


class Worker:
    """Runs the scenarios of one engine in its process.

    `job` contains these fields:

    - `sources`: the Parquet files by name.
    - `repetitions`: the number of repetitions after the first.
    - `seconds`: the time after which a scenario is not repeated again.
    - `prepared`: whether another process of the engine already configured the tables.
    """

    def __init__(self, engine: Engine, tables: Tables, job: Mapping[str, Any], begun: float) -> None:
        self._engine, self._tables, self._sources = engine, tables, job["sources"]
        self._repetitions, self._seconds = job["repetitions"], job["seconds"]
        self._were_prepared = job["prepared"]
        self._prepared: dict[str, Path] = {}
        self._begun = begun

    def run(self, scenario: Scenario) -> None:
        """Run all repetitions of a scenario. The first one opens the table for the first time."""
        start = time.perf_counter()
        table_folder = self._table(scenario)
        place = self._tables.bring_back(self._engine.format, table_folder)
        # The time of copying the table does not count.
        since = self._begun + time.perf_counter() - start
        begun = time.monotonic()
        for number in range(1 + self._repetitions):
            if number > 1 and time.monotonic() - begun > self._seconds:
                break
            if number > 0 and not scenario.in_row:
                place = self._tables.bring_back(self._engine.format, table_folder)
            self._engine.open(place, preload=number > 0)
            result, answers = self._repeat(scenario, place, number)
            cold = {"process": time.perf_counter() - since} if number == 0 else {}
            tell(scenario=scenario.name, repetition=number, **cold, **asdict(result))
            if number == 0:
                if self._engine.ends:
                    tell(scenario=scenario.name, check=str(place), answers=answers)
                    sys.stdin.readline()
                begun = time.monotonic()

    def _repeat(self, scenario: Scenario, place: Path, number: int) -> tuple[Measured, dict[str, str]]:
        numbered = {
            label: [_numbered(step, number) if isinstance(step, Merge) else step for step in steps]
            for label, steps in steps_of(scenario).items()
        }
        for steps in numbered.values():
            for step in steps:
                self._register_source(step)
        answers: dict[str, str] = {}
        with measured(place) as result:
            for label, steps in numbered.items():
                for step in steps:
                    self._engine.plan(step, scenario)
                    with stopwatch(result.seconds, label):
                        answer = self._engine.run(step, scenario)
                    for stage, seconds in self._engine.stages().items():
                        result.stages[stage] = result.stages.get(stage, 0.0) + seconds
                    if answer is not None:
                        answers[label] = answer
        return result, answers

    def _register_source(self, step: Step) -> None:
        if isinstance(step, READERS_OF_SOURCES):
            self._engine.source(step.source, Path(self._sources[step.source]))

    def _run_preparation(self, scenario: Scenario, place: Path) -> None:
        """Run the steps before the first repetition."""
        self._engine.open(place, preload=True)
        for step in scenario.preparation:
            self._register_source(step)
            self._engine.plan(step, scenario)
            self._engine.run(step, scenario)

    def _table(self, scenario: Scenario) -> Path:
        """Return the loaded table with the engine's configuration."""
        layout = scenario.layout
        if self._were_prepared:
            return self._tables.set_aside_at(self._engine.format, layout)
        if layout not in self._prepared:
            place = self._tables.bring_back(self._engine.format, self._tables.loaded_folder(self._engine.format, layout))
            self._engine.prepare(place, layout)
            if self._engine.ends:
                self._run_preparation(scenario, place)
            self._prepared[layout] = self._tables.set_aside(place, self._engine.format, layout)
        return self._prepared[layout]


def _numbered(step: Merge, number: int) -> Merge:
    return Merge(step.source.replace("{n}", str(number)), step.clauses, step.on)


def tell(**fields: Any) -> None:
    sys.stdout.write(f"{MARK}{json.dumps(fields)}\n")
    sys.stdout.flush()


def main() -> None:
    job = json.loads(sys.stdin.readline())
    tables = Tables(Path(job["folder"]))
    begun = time.perf_counter()
    engine = ENGINES[job["engine"]].make(tables, Peers(Path(job["peers"])))
    tell(versions=dict(engine.versions), started=time.perf_counter() - begun)
    worker = Worker(engine, tables, job, begun)
    for name in job["scenarios"]:
        try:
            worker.run(scenario_named(name))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the engine's result
            lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\tat ")]
            tell(scenario=name, failed=f"{type(error).__name__}: {' '.join(lines[:2])}"[:400])


if __name__ == "__main__":
    main()
