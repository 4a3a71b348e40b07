"""A lower bound: jobs that only read the necessary columns and write the necessary rows.

They read the columns that a scenario requires, of files that contain a key of the source, and the source. They write as many rows as are
new or changed. They run no join, compute no positions and do not commit. Compaction has no lower bound.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyspark

from benchmarks.engines.spark_sql import CORES, SETTINGS, start
from benchmarks.scenarios import READERS_OF_SOURCES, Compact, DeleteInsert, Merge, Overwrite, Query, Scenario, Step, Update


class Limit(ABC):
    """A lower bound for an engine: it only reads and writes the files that the statement must read and write.

    An engine finds these files in its log, so the search for them is not timed.
    """

    ends = False

    def __init__(self, format_: str = "delta") -> None:
        self.format = format_
        self._known: dict[str, tuple[list[str], int]] = {}

    def prepare(self, place: Path, layout: str) -> None:
        self._known.clear()

    def open(self, place: Path, *, preload: bool) -> None:
        self._folder = place.parent / f"{place.name}-rows"
        self._folder.mkdir(exist_ok=True)
        self._files = [str(path) for path in sorted(place.rglob("*.parquet")) if "_delta_log" not in path.parts]
        self._place = place

    def source(self, name: str, path: Path) -> None:
        self._sources = {**getattr(self, "_sources", {}), name: str(path)}

    def plan(self, step: Step, scenario: Scenario) -> None:
        """Look up what `run` needs, untimed."""
        source = self._sources[step.source] if isinstance(step, READERS_OF_SOURCES) else None
        files = [] if isinstance(step, Overwrite) else self._files if source is None else _holding(self._files, source, scenario.reads)
        self._wanted = files, 0 if isinstance(step, Query | Compact) else _rows(scenario, self._files, source)

    def run(self, step: Step, scenario: Scenario) -> str | None:
        files, rows = self._wanted
        match step:
            case Merge() | DeleteInsert() | Overwrite():
                self.change(files, scenario.reads, self._sources[step.source], rows)
            case Update():
                self.change(files, scenario.reads, None, rows)
            case Query():
                self.scan(files, [name for name in scenario.columns if name in _words(step)], step)
            case Compact():
                pass
        return None

    def stages(self) -> Mapping[str, float]:
        return {}

    @abstractmethod
    def change(self, files: Sequence[str], columns: Sequence[str], source: str | None, rows: int) -> None:
        """Read these columns of the files, and the source. Write this number of rows from the source, or from the files if it is None."""

    @abstractmethod
    def scan(self, files: Sequence[str], columns: Sequence[str], query: Query) -> None:
        """Read these columns for a query."""


class ArrowLimit(Limit):
    """The lower bound in one process with pyarrow. A query only reads its columns."""

    @property
    def versions(self) -> Mapping[str, str]:
        return {"pyarrow": pa.__version__}

    def change(self, files: Sequence[str], columns: Sequence[str], source: str | None, rows: int) -> None:
        self._read(files, columns)
        if source is None:
            table = ds.dataset(list(files[:1])).head(rows) if files else None
            parts = [] if table is None else [table] * -(-rows // max(1, table.num_rows))
            self._write(pa.concat_tables(parts).slice(0, rows) if parts else None)
        else:
            self._write(pq.read_table(source).slice(0, rows))

    def scan(self, files: Sequence[str], columns: Sequence[str], query: Query) -> None:
        if query.condition is None:
            self._read(files, columns)

    def _read(self, files: Sequence[str], columns: Sequence[str]) -> None:
        if files:
            for batch in ds.dataset(list(files), format="parquet").to_batches(columns=list(columns)):
                del batch

    def _write(self, table: pa.Table | None) -> None:
        if table is None or table.num_rows == 0:
            return
        size = -(-table.num_rows // CORES)
        parts = [table.slice(n * size, size) for n in range(CORES)]
        with ThreadPoolExecutor(CORES) as pool:
            list(pool.map(lambda part: pq.write_table(part[1], self._folder / f"{part[0]}.parquet", compression="zstd"), enumerate(parts)))


class SparkLimit(Limit):
    """The lower bound as Spark jobs, on the PySpark of our engine."""

    def __init__(self, format_: str = "delta") -> None:
        super().__init__(format_)
        self._spark = start(SETTINGS, [])

    @property
    def versions(self) -> Mapping[str, str]:
        return {"PySpark": pyspark.__version__}

    def plan(self, step: Step, scenario: Scenario) -> None:
        """List the files with Spark too. If the step reads all files, Spark lists the folder: thousands of single paths take longer."""
        super().plan(step, scenario)
        files, _ = self._wanted
        # Spark rejects a folder that contains partitions and other folders, such as Iceberg's metadata.
        folder = self._place / "data" if self.format == "iceberg" else self._place
        self._rows = self._spark.read.parquet(*([str(folder)] if len(files) == len(self._files) else files)) if files else None

    def change(self, files: Sequence[str], columns: Sequence[str], source: str | None, rows: int) -> None:
        if self._rows is not None:
            self._rows.select(*columns).write.format("noop").mode("overwrite").save()
        origin = self._rows if source is None else self._spark.read.parquet(source)
        if rows and origin is not None:
            total = sum(pq.read_metadata(path).num_rows for path in (files if source is None else [source]))
            chosen = origin if rows >= total else origin.sample(rows / total, 1)
            chosen.write.option("compression", "zstd").mode("append").parquet(str(self._folder))
        elif origin is not None and source is not None:
            origin.write.format("noop").mode("overwrite").save()

    def scan(self, files: Sequence[str], columns: Sequence[str], query: Query) -> None:
        if self._rows is not None:
            rows = self._rows.where(query.condition) if query.condition else self._rows
            rows.selectExpr(*query.select.split(", ")).collect()


def _words(query: Query) -> set[str]:
    """Return the names of columns and functions in a query."""
    return set(re.findall(r"\w+", f"{query.select} {query.condition or ''}"))


def _holding(files: Sequence[str], source: str, columns: Sequence[str]) -> list[str]:
    """Return the files whose bounds of the first column include a value of the source."""
    column = pq.read_table(source, columns=[columns[0]])[columns[0]].combine_chunks()
    values = column.field(0) if pa.types.is_struct(column.type) else column
    keys = pc.unique(values.drop_null()).sort().to_pylist()
    matching_files = []
    for file in files:
        metadata = pq.read_metadata(file)
        paths = [metadata.schema.column(index).path for index in range(len(metadata.schema))]
        index = next(index for index, path in enumerate(paths) if path.split(".")[0] == columns[0])
        statistics = [metadata.row_group(n).column(index).statistics for n in range(metadata.num_row_groups)]
        bounds = [each for each in statistics if each.has_min_max]
        if not bounds:
            continue  # all values are NULL
        low, high = min(b.min for b in bounds), max(b.max for b in bounds)
        if bisect_left(keys, low) < bisect_right(keys, high):
            matching_files.append(file)
    return matching_files


def _rows(scenario: Scenario, files: Sequence[str], source: str | None) -> int:
    """Return the number of rows that the statement must write."""
    if scenario.writes is None:
        return 0
    with duckdb.connect() as connection:
        for name, paths in (("t", list(files)), ("s", [] if source is None else [source])):
            if paths:
                connection.execute(f"create view {name} as select * from read_parquet({paths!r})")
        row = connection.execute(f"select count(*) from ({scenario.writes})").fetchone()
    assert row is not None
    return int(row[0])
