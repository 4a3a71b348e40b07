"""A point lookup among many files, one day of five years, and many small files: seconds and opened files, next to other engines."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks.__main__ import machine
from benchmarks.reads.opened import opened_files
from benchmarks.reads.process import Places, engine_process
from benchmarks.reads.tables import DAYS, folders_of
from benchmarks.reads.timing import Timings, timed
from benchmarks.reads.worker import SCHEMA

ENGINES = (
    ("ours-before", "delta"),
    ("ours", "delta"),
    ("delta-spark", "delta"),
    ("delta-rs", "delta"),
    ("duckdb", "delta"),
    ("ours-before", "iceberg"),
    ("ours", "iceberg"),
    ("iceberg-spark", "iceberg"),
    ("duckdb", "iceberg"),
)


@dataclass(frozen=True)
class Figures:
    """The sizes of the tables."""

    lookup_files: int = 10_000
    day_files: int = DAYS
    small_files: int = 5_000
    rows_of_a_file: int = 1_000

    def statements(self) -> dict[str, str]:
        """Return the measured statements by name."""
        day = self.day_files * 3 // 4
        return {
            "lookup": f"select k, name, amount from {SCHEMA}.lookup where k = {self.lookup_files * self.rows_of_a_file * 42 // 100}",
            "day": f"select count(*), sum(amount) from {SCHEMA}.days where day = {_date(day)}",
            "small": f"select count(name), sum(amount), max(k) from {SCHEMA}.small",
            "compacted": f"select count(name), sum(amount), max(k) from {SCHEMA}.compacted",
        }

    def tables(self, format_: str) -> list[str]:
        """Return the statements that create the tables of a format."""

        def table(name: str, files: int, tasks: int, partitioned: str = "") -> str:
            rows, by = files * self.rows_of_a_file, f"partitioned by ({partitioned})" if partitioned else ""
            day = f"date_add(date'2020-01-01', cast(id div {self.rows_of_a_file} as int))"
            columns = f"id as k, format_string('cust-%010d', id) as name, cast(id / 100 as decimal(12, 2)) as amount, {day} as day"
            return f"create table {SCHEMA}.{name} using {format_} {by} as select {columns} from range(0, {rows}, 1, {tasks})"

        return [
            table("lookup", self.lookup_files, self.lookup_files),
            table("days", self.day_files, 20, "day"),
            table("small", self.small_files, self.small_files),
            table("compacted", self.small_files, 2),
        ]


def _date(day: int) -> str:
    from datetime import date, timedelta

    return f"date '{date(2020, 1, 1) + timedelta(days=day)}'"


def create_tables(places: Places, figures: Figures, format_: str) -> None:
    """Write the tables of a format, if they are missing or of another size."""
    warehouse = places.warehouse(format_)
    note, statements = warehouse / "tables.json", figures.tables(format_)
    if note.exists() and json.loads(note.read_text()) == statements:
        return
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    with engine_process(places, "ours", format_) as engine:
        engine.require(f"create schema {SCHEMA}")
        for statement in statements:
            engine.require(statement)
    note.write_text(json.dumps(statements))


def measure_figures(places: Places, figures: Figures, out: Path, engines: list[tuple[str, str]], repetitions: int) -> Timings:
    """Measure these engines, and add the timings to those of an earlier run.

    Args:
        places: The folders, with the earlier checkout for `ours-before`.
        figures: The sizes of the tables.
        out: The JSON file, which is written after each engine.
        engines: The engines with the formats of their tables.
        repetitions: The measured runs of each statement.
    """
    timings = Timings.read(out) if out.exists() else Timings(machine())
    for engine_name, format_ in engines:
        create_tables(places, figures, format_)
        timings.timings = timings.without(engine_name, format_)
        with engine_process(places, engine_name, format_) as engine:
            timings.versions |= engine.versions
            for case, statement in figures.statements().items():
                with opened_files(folders_of(places, format_, statement)) as paths:
                    answer = engine.run(statement)
                (timing,) = timed([engine], case, "", statement, repetitions)
                timing.opened = len(paths) if "error" not in answer else None
                timings.timings.append(timing)
        timings.write(out)
    return timings
