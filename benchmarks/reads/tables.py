"""The tables of the query shapes, written once for each format by rowmerge and read by all engines.

Each of the `files` tasks of Spark's range writes its own file, so the files of both formats hold the same rows.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reads.process import EngineProcess, Places, engine_process
from benchmarks.reads.worker import SCHEMA

DAYS = 1826
"""The days of the column `d`, from 2020-01-01 to 2024-12-30."""
FIRST_HOUR = "2024-03-01 00:00:00"
"""The start of the table by hour."""


@dataclass(frozen=True)
class Size:
    """The size of the tables of the shapes."""

    files: int = 100
    rows: int = 100_000

    @property
    def rows_of_a_file(self) -> int:
        return self.rows // self.files


def events(size: Size, *, low: float = 0, high: float = 1, tasks: int | None = None) -> str:
    """Return the query of the events between two shares of all rows, one file for each task."""
    first, last = int(size.rows * low), int(size.rows * high)
    tasks = tasks or int(size.files * (high - low))
    second = DAYS * 86_400 / size.rows
    moment = f"timestamp_seconds(1577836800 + cast(id * {second} as bigint))"
    return f"""select id as k, {size.rows} - id as other, format_string('cust-%07d', id) as name, {moment} as ts,
        cast({moment} as date) as d, cast(id / 100 as decimal(12, 2)) as amount, if(id < {size.rows // 20}, id, null) as seldom,
        if(id < {size.rows - size.rows // 20}, id, null) as often, named_struct('x', id, 'y', format_string('y%07d', id)) as point,
        cast(id div {max(1, size.rows // 50)} as int) as region from range({first}, {last}, 1, {tasks})"""


def _moving(size: Size, start: str, seconds: int) -> str:
    """Return the query of events whose `ts` moves by some seconds per file. Each task writes one partition."""
    moment = f"timestamp_seconds(unix_timestamp({start}) + cast(id * {size.files * seconds / size.rows} as bigint))"
    return f"""select id as k, format_string('cust-%07d', id) as name, {moment} as ts, cast({moment} as date) as d
        from range(0, {size.rows}, 1, {size.files})"""


def _days(size: Size) -> str:
    """Return the query of events of one day per file. The last day is today."""
    return _moving(size, f"timestamp(current_date() - {size.files - 1})", 86_400)


def _hours(size: Size) -> str:
    """Return the query of events of one hour per file."""
    return _moving(size, f"timestamp'{FIRST_HOUR}'", 3600)


def create_tables(places: Places, size: Size, statements: list[str]) -> None:
    """Write the tables that statements read, in both formats, if they are missing or have another definition."""
    names = {name for statement in statements for name in _names_in(statement)}
    for format_ in ("delta", "iceberg"):
        note = places.warehouse(format_) / "definitions.json"
        existing: dict[str, list[str]] = json.loads(note.read_text()) if note.exists() else {}
        missing = {name: texts for name, texts in _by_table(size, format_).items() if name in names and existing.get(name) != texts}
        if missing:
            note.parent.mkdir(parents=True, exist_ok=True)
            _create(places, format_, missing)
            note.write_text(json.dumps(existing | missing))


def _create(places: Places, format_: str, definitions: dict[str, list[str]]) -> None:
    """Replace tables. `definitions`: the statements that create each table."""
    with engine_process(places, "ours", format_) as engine:
        engine.require(f"create schema if not exists {SCHEMA}")
        for name, statements in definitions.items():
            drop(engine, name)
            shutil.rmtree(places.warehouse(format_) / SCHEMA / name, ignore_errors=True)
            for statement in statements:
                engine.require(statement)


def _by_table(size: Size, format_: str) -> dict[str, list[str]]:
    """Return the statements that create each table of a format."""
    by_table: dict[str, list[str]] = {}
    for statement in _definitions(size, format_):
        by_table.setdefault(_names_in(statement)[0], []).append(" ".join(statement.split()))
    return by_table


def _definitions(size: Size, format_: str) -> list[str]:
    """Return the statements that create the tables of a format."""

    def table(name: str, query: str, partitioned: str = "") -> str:
        by = f"partitioned by ({partitioned})" if partitioned else ""
        return f"create table {SCHEMA}.{name} using {format_} {by} as {query}"

    halves = (
        table("versions", events(size, high=0.5)),
        f"insert into {SCHEMA}.versions {events(size, low=0.5)}",
    )
    columns = f"cast(id as int) as region, format_string('region %d', id) as title, id * {size.rows // 50} + 7 as k"
    dimension = f"select {columns} from range(0, 50, 1, 1)"
    shared = [
        table("events", events(size)),
        table("by_region", events(size), "region"),
        *halves,
        table("regions", dimension),
        table("loaded", events(size, high=0.9, tasks=1)),
    ]
    return shared + (_delta_partitions(size) if format_ == "delta" else _iceberg_partitions(size, table))


def _delta_partitions(size: Size) -> list[str]:
    columns = "k bigint, name string, ts timestamp, d date"
    recent = "select k, name, ts, d from"
    of_events = f"select k, name, ts, d from ({events(size)})"
    return [
        *_generated("by_day", columns, "day date generated always as (cast(ts as date))", "day", f"{recent} ({_days(size)})"),
        *_generated("by_month", columns, "month string generated always as (date_format(ts, 'yyyy-MM'))", "month", of_events),
        *_generated(
            "by_hour", columns, "hour timestamp generated always as (date_trunc('HOUR', ts))", "hour", f"{recent} ({_hours(size)})"
        ),
        *_generated("by_prefix", columns, "prefix string generated always as (substring(name, 1, 9))", "prefix", of_events),
    ]


def _generated(name: str, columns: str, generated: str, partition: str, query: str) -> list[str]:
    return [
        f"create table {SCHEMA}.{name} ({columns}, {generated}) using delta partitioned by ({partition})",
        f"insert into {SCHEMA}.{name} (k, name, ts, d) {query}",
    ]


def _iceberg_partitions(size: Size, table: Callable[..., str]) -> list[str]:
    of_events = f"select k, name, ts, d from ({events(size)})"
    return [
        table("by_day", _days(size), "days(ts)"),
        table("by_month", of_events, "months(ts)"),
        table("by_hour", _hours(size), "hours(ts)"),
        table("by_prefix", of_events, "truncate(9, name)"),
        table("by_bucket", f"select k, name, ts, d from ({events(size, tasks=max(1, size.files // 50))})", "bucket(50, k)"),
        table("evolved", f"select k, name, ts, d from ({events(size, high=0.5)})"),
        f"alter table {SCHEMA}.evolved add partition field months(ts)",
        f"insert into {SCHEMA}.evolved select k, name, ts, d from ({events(size, low=0.5)})",
    ]


def folders_of(places: Places, format_: str, statement: str, *, outputs: tuple[str, ...] = ()) -> list[Path]:
    """Return the folders of the tables that a statement names, without its outputs."""
    folders = [places.warehouse(format_) / SCHEMA / name for name in dict.fromkeys(_names_in(statement)) if name not in outputs]
    return [folder for folder in folders if folder.exists()]


def _names_in(statement: str) -> list[str]:
    """Return the names of the tables in a statement."""
    return re.findall(rf"{SCHEMA}\.(\w+)", statement)


def drop(engine: EngineProcess, name: str) -> None:
    """Drop a table that an earlier statement wrote."""
    engine.require(f"drop table if exists {SCHEMA}.{name}")
