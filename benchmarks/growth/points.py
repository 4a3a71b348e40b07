"""The points of the growth curves: tables that differ in one property, and the source of the MERGE into each of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.metadata import delta_logs, iceberg_logs
from benchmarks.tables import SCHEMA, Tables

if TYPE_CHECKING:
    import rowmerge

CURVES: dict[str, tuple[float, ...]] = {
    "rows": (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 60_000_000),
    "columns": (4, 8, 16, 32, 64, 128, 256),
    "files": (10, 100, 1_000, 10_000, 100_000),
    "commits": (10, 100, 1_000, 10_000, 100_000),
    "partitions": (1, 10, 100, 1_000, 10_000),
    "share": (0.001, 0.01, 0.1, 1, 10, 100),
}
"""The values of each property. `share`: the changed rows, as a percentage of the table's rows."""
FORMATS = ("delta", "iceberg")
SOURCE = "source.parquet"
ROWS_OF_A_FILE = 500_000
_SYNTHETIC = ("files", "commits")
"""The curves of tables that consist of metadata, and of one data file with the rows that the statement changes."""
_VALUES = (
    "pmod(xxhash64(id, {0}), 1000000)",
    "pmod(xxhash64(id, {0}), 10000000) / 100.0D",
    "concat('value ', pmod(xxhash64(id, {0}), 5000))",
    "date_add(date '2020-01-01', cast(pmod(xxhash64(id, {0}), 1500) as int))",
)
_LINEITEM = {"long": "id % 10007", "integer": "cast(id % 7 as int)", "date": "date_add(date '1995-01-01', cast(id % 900 as int))"}
_CHANGED_OF_SYNTHETIC = 1_000
_ICEBERG_FILES = 1_000
"""The number of files of an Iceberg table with many snapshots."""


@dataclass(frozen=True)
class Point:
    """One table: the value of the property of its curve, and the defaults of all others. `columns` includes the key and the partition."""

    curve: str
    value: float
    format: str
    rows: int = field(init=False)
    columns: int = field(init=False)
    partitions: int = field(init=False)
    share: float = field(init=False)

    def __post_init__(self) -> None:
        defaults = {"rows": {"rows": 2_000_000, "columns": 200_000, "partitions": 1_000_000}.get(self.curve, 2_000_000), "share": 1.0}
        properties = {"columns": 8, "partitions": 1, **defaults, self.curve: self.value}
        for name in ("rows", "columns", "partitions"):
            object.__setattr__(self, name, int(properties[name]))
        object.__setattr__(self, "share", float(properties["share"]))

    @classmethod
    def from_name(cls, name: str) -> Point:
        """Return the point with a name, such as `rows-1000000-delta`."""
        curve, value, format_ = name.split("-")
        return cls(curve, float(value), format_)

    @property
    def name(self) -> str:
        """The name of the point, such as `rows-1000000-delta`."""
        return f"{self.curve}-{self.value:.12g}-{self.format}"

    @property
    def is_synthetic(self) -> bool:
        """Whether the table consists of metadata of files that do not exist, and of one data file that the statement changes."""
        return self.curve in _SYNTHETIC

    @property
    def key(self) -> str:
        """The name of the key column."""
        return next(iter(delta_logs.COLUMNS)) if self.is_synthetic else "id"


def point_names(curves: Iterable[str] = CURVES) -> list[str]:
    """Return the names of the points of curves."""
    return [Point(curve, value, format_).name for curve in curves for value in CURVES[curve] for format_ in FORMATS]


def load(folder: Path, point: Point) -> None:
    """Write the table of a point, and the source of its MERGE.

    Args:
        folder: The folder of the tables (`Tables`). It receives the source as SOURCE.
        point: The point.
    """
    import rowmerge

    tables = Tables(folder)
    place = tables.place(point.format)
    if point.is_synthetic:
        _write_metadata(place, point)
    session = rowmerge.connect(str(tables.live))
    session.sql(f"create schema if not exists {SCHEMA}")
    name = f"{SCHEMA}.{place.name}"
    if point.is_synthetic:
        first = 10 * max(int(point.value), _ICEBERG_FILES) * delta_logs.KEYS_OF_A_FILE  # above the keys of all other files
        rows = f"select {_lineitem(0)} from range({first}, {first + delta_logs.ROWS_OF_A_FILE}, 1, 1)"
        session.sql(f"insert into {name} {rows}")
        last = first + delta_logs.ROWS_OF_A_FILE
        source = f"select {_lineitem(1)} from range({last - _CHANGED_OF_SYNTHETIC * 4 // 5}, {last + _CHANGED_OF_SYNTHETIC // 5}, 1, 1)"
    else:
        _create(session, name, point)
        source = _source(point)
    properties = "'delta.enableDeletionVectors' = 'true', 'rowmerge.write.mode' = 'auto'"
    if point.format == "iceberg":
        properties = "'rowmerge.write.mode' = 'merge-on-read'"
    session.sql(f"alter table {name} set tblproperties ({properties})")
    shutil.rmtree(folder / SOURCE, ignore_errors=True)
    session.spark.sql(source).write.parquet(str(folder / SOURCE))
    session.close()
    loaded_folder = tables.loaded_folder(point.format, point.curve)
    shutil.rmtree(loaded_folder, ignore_errors=True)
    loaded_folder.parent.mkdir(parents=True, exist_ok=True)
    place.rename(loaded_folder)


def _write_metadata(place: Path, point: Point) -> None:
    """Write the log or the metadata of a synthetic table. With many commits, the newest checkpoint of Delta is ten commits old."""
    count = int(point.value)
    match point.format, point.curve:
        case "delta", "files":
            delta_logs.write_log(place, count, structs=True)
        case "delta", _:
            delta_logs.write_commits(place, count, max(count - 10, 1))
        case "iceberg", "files":
            iceberg_logs.write_table(place, count)
        case _:
            iceberg_logs.write_table(place, _ICEBERG_FILES, snapshots=count)


def _create(session: rowmerge.Session, name: str, point: Point) -> None:
    """Create the table, sorted by the key. Without partitions, each file has ROWS_OF_A_FILE rows."""
    clause = "partitioned by (p)" if point.partitions > 1 else ""
    tasks = max(1, point.rows // ROWS_OF_A_FILE)
    session.sql(f"create table {name} using {point.format} {clause} as select {_columns(point, 0)} from range(0, {point.rows}, 1, {tasks})")


def _source(point: Point) -> str:
    """Return SQL for the source: changed rows, which a hash of the key selects, and a fifth of new rows."""
    parts, new_rows = round(point.share * 10_000), max(1, round(point.rows * point.share / 500))
    is_changed = f"pmod(xxhash64(id, 7), 1000000) < {parts} and pmod(id, 5) > 0"
    return f"select {_columns(point, 1)} from range({point.rows + new_rows}) where {is_changed} or id >= {point.rows}"


def _columns(point: Point, version: int) -> str:
    """Return SQL for the columns of a table. `version`: rows of different versions differ in all values."""
    columns = ["id"]
    if point.partitions > 1:
        columns.append(f"cast(pmod(xxhash64(id, 3), {point.partitions}) as int) as p")
    for number in range(point.columns - len(columns)):
        columns.append(f"{_VALUES[number % len(_VALUES)].format(1000 * version + number)} as v{number}")
    return ", ".join(columns)


def _lineitem(version: int) -> str:
    """Return SQL for the columns of a synthetic table, whose key is `id`."""
    key, *others = delta_logs.COLUMNS.items()
    expressions = [f"cast(id as bigint) as {key[0]}"]
    for name, type_ in others:
        default = f"cast(id % 100 + {version} as {type_})" if type_.startswith("decimal") else f"concat('text ', id % 100, ' {version}')"
        expressions.append(f"{_LINEITEM.get(type_, default)} as {name}")
    return ", ".join(expressions)


if __name__ == "__main__":
    load(Path(sys.argv[1]), Point.from_name(sys.argv[2]))
