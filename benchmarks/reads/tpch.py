"""The 22 queries of TPC-H on tables of both formats, next to the same files as plain Parquet and next to other engines.

There are three layouts: `whole`, `deleted` with 1 % of the rows marked as deleted, and `months` with lineitem partitioned by month.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.__main__ import machine
from benchmarks.reads.opened import data_files
from benchmarks.reads.process import Places, engine_process
from benchmarks.reads.timing import Timings, timed
from benchmarks.reads.worker import SCHEMA

LAYOUTS = ("whole", "deleted", "months")
TABLES = ("lineitem", "orders", "customer", "part", "partsupp", "supplier", "nation", "region")
KEYS = {
    "lineitem": "l_orderkey, l_linenumber",
    "orders": "o_orderkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
}
"""The tables with deleted rows, with the columns whose hash selects these rows."""
OF_MONTHS = ("6", "14", "15")
"""The queries with a filter on `l_shipdate`, which run on the layout `months`."""
ENGINES = (
    ("parquet", "delta"),
    ("ours", "delta"),
    ("delta-spark", "delta"),
    ("duckdb", "delta"),
    ("parquet", "iceberg"),
    ("ours", "iceberg"),
    ("iceberg-spark", "iceberg"),
    ("duckdb", "iceberg"),
)


def queries(scale: float) -> dict[str, str]:
    """Return the queries by their numbers."""
    text = (Path(__file__).parent / "tpch.sql").read_text(encoding="utf-8").replace("{fraction}", f"{0.0001 / scale:.10f}")
    return dict(re.findall(r"^--- (\d+)\n(.*?);$", text, re.MULTILINE | re.DOTALL))


class Tpch:
    """TPC-H at one scale factor: its Parquet files and its tables in a folder. What is there is not created again."""

    def __init__(self, places: Places, scale: float) -> None:
        self._places, self._scale = places.below(f"tpch-{scale:g}"), scale

    def places(self, layout: str) -> Places:
        """Return the folders of the tables of a layout."""
        return self._places.below(layout)

    def create_tables(self, layout: str, format_: str) -> None:
        """Write the tables of a layout with rowmerge."""
        warehouse = self.places(layout).warehouse(format_)
        if (warehouse / "complete").exists():
            return
        shutil.rmtree(warehouse, ignore_errors=True)
        warehouse.mkdir(parents=True)
        with engine_process(self.places(layout), "ours", format_) as engine:
            engine.require(f"create schema {SCHEMA}")
            for table in TABLES:
                for statement in self._statements(layout, format_, table):
                    engine.require(statement)
        (warehouse / "complete").touch()

    def measure(self, timings: Timings, layout: str, engines: list[str], format_: str, numbers: list[str], repetitions: int) -> None:
        """Run queries of a layout in new processes of some engines, in turns, and replace their earlier timings.

        Turns give all engines the same share of a machine whose speed varies. With one repetition, the first run of each query is measured.
        Before it, the files are read and one other query runs.

        Args:
            timings: The timings that change.
            layout: One of `LAYOUTS`.
            engines: The names of the engines.
            format_: The format of their tables.
            numbers: The numbers of the queries.
            repetitions: The measured runs of each query.
        """
        self.create_tables(layout, format_)
        places = self.places(layout)
        folders = {table: places.warehouse(format_) / SCHEMA / table for table in TABLES}
        files = {table: [str(path) for path in data_files([folder]) if not _holds_deletes(path)] for table, folder in folders.items()}
        if repetitions == 1:
            _read_into_memory(files)
        with ExitStack() as stack:
            processes = [stack.enter_context(engine_process(places, engine, format_, files)) for engine in engines]
            for process in processes:
                timings.timings = timings.without(process.engine, format_, layout)
                timings.versions |= process.versions
                if process.engine != "parquet":
                    process.require(f"use {SCHEMA}")
                process.run(queries(self._scale)["1"])
            for number, query in queries(self._scale).items():
                if number in numbers and (layout != "months" or number in OF_MONTHS):
                    for timing in timed(processes, number, layout, query, repetitions, measures_first=repetitions == 1):
                        if layout == "deleted" and timing.engine == "parquet":
                            timing.digest = None  # plain Parquet also has the deleted rows
                        timings.timings.append(timing)

    def _statements(self, layout: str, format_: str, table: str) -> list[str]:
        rows = f"select * from read_files('{self._source(table)}', format => 'parquet')"
        name = f"{SCHEMA}.{table}"
        properties = "tblproperties ('rowmerge.write.mode' = 'merge-on-read')"
        if layout == "months" and table == "lineitem" and format_ == "delta":
            columns = _columns(self._source(table))
            generated = "l_shipmonth date generated always as (trunc(l_shipdate, 'MM'))"
            types = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
            create = f"create table {name} ({types}, {generated}) using delta partitioned by (l_shipmonth)"
            return [create, f"insert into {name} ({', '.join(columns)}) {rows}"]
        partitioned = "partitioned by (months(l_shipdate))" if layout == "months" and table == "lineitem" else ""
        statements = [f"create table {name} using {format_} {partitioned} {properties} as {rows}"]
        if layout == "deleted" and table in KEYS:
            statements.append(f"delete from {name} where pmod(xxhash64({KEYS[table]}), 100) = 0")
        return statements

    def _source(self, table: str) -> Path:
        source = self._places.tables / "source" / table
        if not source.exists():
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
            generator = shutil.which("tpchgen-cli", path=path)
            if generator is None:
                raise SystemExit("There is no tpchgen-cli. Install it: pip install 'dbt-rowmerge[dev]'.")
            parts = max(1, round(8 * self._scale)) if table in KEYS else 1
            options = ["-s", f"{self._scale:g}", "-T", table, "--parts", str(parts), "--compression", "SNAPPY", "--field-ids", "false"]
            new = self._places.tables / "new"
            subprocess.run(
                [generator, "parquet", *options, "-o", str(new)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            source.parent.mkdir(parents=True, exist_ok=True)
            (new / table).rename(source)
        return source


def _read_into_memory(files: dict[str, list[str]]) -> None:
    """Read all files of the tables, so that the operating system caches them for every engine."""
    for path in (path for paths in files.values() for path in paths):
        with open(path, "rb") as file:
            while file.read(2**24):
                pass


def _columns(source: Path) -> dict[str, str]:
    """Return the SQL types of the columns of Parquet files."""
    import pyarrow.dataset as ds

    names = {
        "int64": "bigint",
        "int32": "int",
        "date32[day]": "date",
        "string": "string",
        "string_view": "string",
        "large_string": "string",
    }
    schema = ds.dataset(source, format="parquet").schema
    return {field.name: names.get(str(field.type), str(field.type).replace("decimal128", "decimal")) for field in schema}


def _holds_deletes(path: Path) -> bool:
    """Return whether a Parquet file of an Iceberg table holds the positions of deleted rows."""
    import pyarrow.parquet as pq

    return list(pq.read_schema(path).names[:2]) == ["file_path", "pos"]


def measure_tpch(
    tpch: Tpch, out: Path, engines: list[tuple[str, str]], *, layouts: list[str], numbers: list[str], repetitions: int
) -> Timings:
    """Measure these engines on these layouts, and add the timings to those of an earlier run.

    Args:
        tpch: The tables.
        out: The JSON file, which is written after each layout and format.
        engines: The engines with the formats of their tables.
        layouts: The layouts of `LAYOUTS`.
        numbers: The numbers of the queries.
        repetitions: The measured runs of each query.
    """
    timings = Timings.read(out) if out.exists() else Timings(machine())
    for layout in layouts:
        for format_ in dict.fromkeys(format_ for _, format_ in engines):
            names = [name for name, format_of_engine in engines if format_of_engine == format_]
            tpch.measure(timings, layout, names, format_, numbers, repetitions)
            timings.write(out)
    return timings
