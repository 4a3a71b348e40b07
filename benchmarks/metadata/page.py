"""Print the page of the metadata benchmark from its results."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.metadata.files_table import QUERIES

OPERATIONS = {
    "open": "open, cold",
    "prune": "prune to ten files, first time",
    "open again": "open again after a commit of somebody else",
    "prune again": "prune to ten files again",
    "commit": "commit one file",
    "open after own commit": "open again after the own commit",
    "checkpoint": "write a checkpoint",
}
_INTRODUCTION = """<!-- Written by `make bench-metadata`; change benchmarks/metadata/page.py instead. -->
# Growth of metadata

What a table's log costs before the first row is read. The logs are synthetic: files with the statistics of lineitem's 16 columns, about
1 kB of JSON each, in one checkpoint and the commits after it; there are no data files. Seconds are of the wall clock, in brackets those of
the CPU where they differ by more than half; MB are the peak of resident memory during the operation, with the process and its libraries
(rowmerge and pyarrow start at {start} MB). "Typed" checkpoints hold statistics as Parquet columns too (`stats_parsed`), which is what
Delta on Spark and rowmerge write by default; "JSON" ones are what delta-rs writes.

{machine}

Where we lose: pruning by a checkpoint with JSON alone decodes all of that JSON, once for each column that is asked for, where delta-rs
did so when it opened the table. A checkpoint of many files takes longer to write than delta-rs's: statistics are typed, and those that came
as JSON are parsed for it. Tables of a thousand files open faster in delta-rs, and in pyiceberg: of those, most of our time is for reading
one manifest, which is small enough to be decoded value by value.

"Open" ends when there is a list of all live files; the goal for a million of them is less than 5 s and 2 GB, for opening again after one
commit 50 ms, for a commit 100 ms.
"""


def page(results: dict[str, Any]) -> str:
    """Return the Markdown of the results of `benchmarks.metadata`."""
    tables = results["tables"]
    starts = [measurements["rowmerge"]["start MB"] for measurements in tables.values() if "rowmerge" in measurements]
    introduction = _INTRODUCTION.format(machine=results["machine"], start=round(min(starts, default=0)))
    parts = [introduction, *(_table(name, measurements) for name, measurements in tables.items())]
    if "memory" in results:
        parts.append(_memory(results["memory"]))
    if "merges" in results:
        parts.append(_merges(results["merges"]))
    if "files_table" in results:
        parts.append(_files_table(results["files_table"]))
    return "\n".join(parts)


def _files_table(measurements: dict[str, Any]) -> str:
    lines = [
        "## Queries of `t.files`",
        "",
        "The metadata table `t.files` has one row for each data file. The logs are those of the tables above: a typed checkpoint of Delta,",
        "and manifests of Iceberg. Opening a table (*open*) ends when there is a list of all live files. *Three columns* is",
        "`SELECT count(*), sum(record_count), sum(file_size_in_bytes) FROM t.files`. *All columns* is `SELECT * FROM t.files`, written",
        "to Spark's `noop`. *First of Spark* is the first query of a process, of a table of 1,000 files: Spark loads and compiles its",
        "classes. *Cold* is the next query, the first one of this table. It opens the table. *Warm* is the median of the next five.",
        "The peer's list has all columns as well, in Arrow: `get_add_actions(flatten=True)` of delta-rs, `inspect.files()` of pyiceberg.",
        "Both open the table first. Opening a Delta table reads no statistics, and a query of `t.files` reads them. Seconds are of the",
        "wall clock, medians of three processes.",
        "",
        measurements["machine"],
        "",
        "| format | files | open | three columns, first of Spark | cold | warm | all columns, first of Spark | cold | warm | peer |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *map(_files_table_row, measurements["formats"]),
    ]
    return "\n".join(lines) + "\n"


def _files_table_row(case: dict[str, Any]) -> str:
    keys = ["open", *(f"{columns}, {run}" for columns in QUERIES for run in ("first of Spark", "cold", "warm")), "peer"]
    return f"| {case['format'].title()} | {case['files']:,} | {' | '.join(_short(case[key]) for key in keys)} |"


def _memory(measurements: list[dict[str, float]]) -> str:
    lines = [
        "## Memory of the driver for rows that are deleted",
        "",
        "`DELETE FROM t WHERE id % 6 <> 0` of a table of one column, merge-on-read: five of six rows stay in their files, marked as",
        "deleted. Rows never come to the driver. It gets a bitmap for each file, of at most one bit for each row of the file and at most",
        "two bytes for each deleted row. The driver's part of the statement alone, without Spark, has eight to nine copies of the",
        "bitmaps at its peak: messages of tasks, sets and deletion vectors. *Bytes a row* is the growth by the number of deleted rows.",
        "It is larger for few rows, because a part of the growth is that of any statement.",
        "",
        "| rows deleted | files | driver before, MB | at the peak, MB | bytes a row |",
        "| ---: | ---: | ---: | ---: | ---: |",
        *map(_memory_row, measurements),
    ]
    return "\n".join(lines) + "\n"


def _memory_row(row: dict[str, float]) -> str:
    growth = (row["peak MB"] - row["before MB"]) * 1e6 / row["deleted"]
    return f"| {row['deleted']:,} | {row['files']} | {row['before MB']} | {row['peak MB']} | {growth:.1f} |"


def _merges(measurements: dict[str, Any]) -> str:
    lines = [
        "## Many small merges",
        "",
        "Merges run one after another on one Delta table. Each updates ten random rows and inserts ten. With auto-compaction",
        "(`'delta.autoOptimize.autoCompact' = 'true'`), rowmerge combines the small files of a partition when there are 50. The seconds",
        "of a merge include those of its compaction: the mean of all merges, and of the last 100. `share` is the part of compactions in",
        "the seconds of all merges. In mode `auto`, merges also combine the small files that they change.",
        "",
        measurements["machine"],
        "",
        "| write mode | auto-compaction | merges | most files | at the end | a merge, s | the last 100, s | compactions | s | share |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *map(_merges_row, measurements["cases"]),
    ]
    return "\n".join(lines) + "\n"


def _merges_row(case: dict[str, Any]) -> str:
    share = case["compaction seconds"] / (case["seconds"] * case["merges"])
    cells = (
        f"`{case['mode']}`",
        "yes" if case["compacts"] else "no",
        f"{case['merges']:,}",
        f"{case['max files']:,}",
        f"{case['last files']:,}",
        _short(case["seconds"]),
        _short(case["last seconds"]),
        str(case["compactions"]),
        f"{case['compaction seconds']:.1f}",
        f"{100 * share:.1f} %",
    )
    return f"| {' | '.join(cells)} |"


def machine() -> str:
    """Return a sentence about the date, the machine and the versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.machine()
    )
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "deltalake", "pyiceberg"))
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return f"{today}, {os.cpu_count()} cores ({processor}), {memory:.0f} GB, Python {platform.python_version()}, {versions}."


def _table(name: str, measurements: dict[str, Any]) -> str:
    engines = [engine for engine in measurements if engine != "files"]
    lines = [f"## {_title(name, measurements['files'])}", "", "| | " + " | ".join(f"{engine}, s | MB" for engine in engines) + " |"]
    lines.append("| --- |" + " ---: | ---: |" * len(engines))
    for key, said in OPERATIONS.items():
        if not any(key in measurements[engine] for engine in engines):
            continue
        cells = [cell for engine in engines for cell in _cells(measurements[engine], key)]
        lines.append(f"| {said} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cells(measurements: dict[str, float], key: str) -> tuple[str, str]:
    return (_seconds(measurements, key), f"{measurements[f'{key} MB']:.0f}") if key in measurements else ("–", "–")


def _title(name: str, files: int) -> str:
    kind = name.rsplit("-", 1)[1]
    if name.startswith("iceberg"):
        return f"Iceberg, {files:,} files in manifests of 20,000"
    if name.startswith("commits"):
        return f"{files + 1:,} commits, " + ("the newest checkpoint ten commits old" if kind == "checkpoint" else "no checkpoint at all")
    return f"{files:,} files, " + ("checkpoint with JSON alone" if kind == "json" else "typed checkpoint")


def _seconds(measurements: dict[str, float], key: str) -> str:
    wall, computed = measurements[key], measurements[f"{key} CPU"]
    differs = wall > 0.01 and not 0.5 <= computed / wall <= 1.5
    return f"{_short(wall)} ({_short(computed)})" if differs else _short(wall)


def _short(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}" if seconds >= 1 else f"{seconds:.3f}"


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []
