"""Measure the operations on the table of a point: `python -m benchmarks.growth.measure FOLDER NAME REPETITIONS` prints JSON.

Each repetition has a new copy of the table. It opens the table anew, because it has a new session of the engine on the same Spark.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import rowmerge
from benchmarks.engines.spark_sql import SETTINGS
from benchmarks.growth.points import SOURCE, Point
from benchmarks.measure import measured
from benchmarks.tables import SCHEMA, Tables
from rowmerge.storage.store import Storage

OPERATIONS = ("open", "select", "merge")
_REQUESTS = ("get", "get_range", "size_of", "put", "put_if_absent", "folders", "exists", "delete", "list")
"""The names of the calls of a store that are counted."""


def measure(folder: Path, point: Point, repetitions: int) -> dict[str, Any]:
    """Return the measurements of each operation: medians of the repetitions after the first one, and the highest memory.

    Args:
        folder: The folder of the tables (`Tables`).
        point: The point, whose table is loaded.
        repetitions: The number of repetitions after the first one.
    """
    tables, spark, runs = Tables(folder), None, list[dict[str, dict[str, float]]]()
    for _ in range(1 + repetitions):
        place = tables.bring_back(point.format, tables.loaded_folder(point.format, point.curve))
        config = {"spark_config": SETTINGS} if spark is None else {"spark": spark}
        session = rowmerge.connect(str(tables.live), **config)
        spark = session.spark
        spark.read.parquet(str(folder / SOURCE)).createOrReplaceTempView("s")
        lowest_key = spark.sql(f"select min({point.key}) from s").collect()[0][0]  # a row of the table, which the source changes
        statements = _statements(f"{SCHEMA}.{place.name}", point, lowest_key)
        if not runs:  # this repetition does not count
            (answer,) = session.sql(statements["select"]).collect()
            assert answer[0] == 1, f"the table of {point.name} lacks the key {lowest_key}"
        runs.append({name: _run(session, text, place) for name, text in statements.items()})
    warm = runs[1:]
    return {name: {key: _summary(key, [run[name][key] for run in warm]) for key in warm[0][name]} for name in OPERATIONS}


def _statements(table: str, point: Point, selected: int) -> dict[str, str]:
    """Return the statement of each operation. Metadata alone answer the first one. `selected`: the key of the row that is read."""
    key = point.key
    on = f"t.{key} = s.{key}"
    return {
        "open": f"select count(*) from {table}",
        "select": f"select count(*), max({key}) from {table} where {key} = {selected}",
        "merge": f"merge into {table} t using s on {on} when matched then update set * when not matched then insert *",
    }


def _run(session: rowmerge.Session, text: str, place: Path) -> dict[str, float]:
    """Run a statement and fetch its rows. Return its measurements."""
    with counted_requests() as requests, measured(place) as result:
        start = time.perf_counter()
        session.sql(text).collect()
        seconds = time.perf_counter() - start
    memory, java = result.memory or 0, result.memory_of_java or 0
    return {
        "seconds": seconds,
        "requests": requests.total(),
        "bytes_read": result.bytes_read or 0,
        "bytes_written": result.bytes_written,
        "files": result.files,
        "memory_of_python": memory - java,
        "memory_of_java": java,
    }


def _summary(key: str, values: list[float]) -> float:
    return max(values) if key.startswith("memory") else median(values)


@contextmanager
def counted_requests() -> Iterator[Counter[str]]:
    """Count the calls of stores in this process, by the name of the method. Reads of data files by Arrow and Spark do not count."""
    counter, methods = Counter[str](), {name: getattr(Storage, name) for name in _REQUESTS}

    def counting(name: str) -> Any:
        def call(self: Storage, *arguments: Any, **options: Any) -> Any:
            counter[name] += 1
            return methods[name](self, *arguments, **options)

        return call

    for name in _REQUESTS:
        setattr(Storage, name, counting(name))
    try:
        yield counter
    finally:
        for name, method in methods.items():
            setattr(Storage, name, method)


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), Point.from_name(sys.argv[2]), int(sys.argv[3]))))
