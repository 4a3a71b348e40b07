"""The data: TPC-H's lineitem from `tpchgen-cli`, and the sources of the statements, all as Parquet files.

Order keys of TPC-H have bit 3 unset; keys with this bit are new and lie between the others. A hash of the key selects rows, so every run
has the same rows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb

from benchmarks.scenarios import COLUMNS, DELTA_CASES

SMALL_FILES = 5000
NEW, ROW_GROUP = "l_orderkey | 8", 1_000_000
CHANGED = {
    "l_quantity": "cast(l_quantity + 1 as decimal(15,2))",
    "l_extendedprice": "cast(l_extendedprice * 2 as decimal(15,2))",
    "l_comment": "'changed ' || l_comment",
}


class Lineitem:
    """The data of one scale factor in a folder. Existing files are not created again."""

    def __init__(self, folder: Path, scale: float, files: int) -> None:
        self.folder, self.scale, self.files = folder, scale, files

    @property
    def parts(self) -> list[Path]:
        """Return the files of the table's rows, sorted by order key, in the table's number of files."""
        lineitem_folder = self.folder / "lineitem"
        if not lineitem_folder.exists():
            generator = shutil.which("tpchgen-cli", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
            if generator is None:
                raise SystemExit("There is no tpchgen-cli. Install it: pip install 'dbt-rowmerge[dev]'.")
            command = [generator, "parquet", "-s", f"{self.scale:g}", "-T", "lineitem", "--parts", str(self.files)]
            options = ["--compression", "ZSTD(1)", "--row-group-bytes", "64MiB", "--field-ids", "false", "-o", f"{self.folder}/new"]
            subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            (self.folder / "new" / "lineitem").rename(lineitem_folder)
        return sorted(lineitem_folder.glob("*.parquet"), key=lambda path: int(path.stem.rsplit(".", 1)[1]))

    def source(self, name: str) -> Path:
        """Return the file of a source."""
        return self._create_file(f"sources/{name}.parquet", self._source(name))

    def layout(self, name: str) -> list[Path]:
        """Return the files whose rows form a table of this layout, in loading order."""
        if name == "sorted":
            return self.parts
        if name == "small_files":
            parts = max(10, round(min(1, self.scale) * SMALL_FILES))
            part = f"cast(l_orderkey % {parts} as int)"
            return [self._create_file("small_files/0.parquet", f"select *, {part} as part from {self._all} order by part")]
        if name == "unsorted":
            return self._divided(name, f"select * from {self._all} order by hash(l_orderkey, l_linenumber)")
        if name == "by_day":
            return self._divided(name, f"select * from {self._all} order by l_shipdate, l_orderkey, l_linenumber")
        if name == "history":
            return [self._create_file(f"history/{part.stem}.parquet", self._history(f"'{part}'")) for part in self.parts]
        assert name == "lhbench"
        rows = int(6_000_000 * self.scale)
        return [self._create_file("lhbench/0.parquet", f"select {_lhbench('range')} from range({rows}) order by range % 1000, range")]

    @property
    def _all(self) -> str:
        return f"read_parquet({[str(part) for part in self.parts]!r})"

    @property
    def _sample(self) -> str:
        """Return every 50th row, so that sources are selected without reading the whole table each time."""
        return f"read_parquet('{self._create_file('sample.parquet', f'select * from {self._all} where {_picked(0.02, -1)}')}')"

    def _divided(self, name: str, query: str) -> list[Path]:
        """Write the rows of a query in as many files as the table has."""
        whole = self._create_file(f"{name}/whole.parquet", query)
        rows = int(_value(f"select count(*) from '{whole}'"))
        size = -(-rows // self.files)
        limits = [(n, n * size) for n in range(self.files)]
        return [self._create_file(f"{name}/{n}.parquet", f"select * from '{whole}' limit {size} offset {low}") for n, low in limits]

    def _create_file(self, name: str, query: str) -> Path:
        path = self.folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f"{path.name}.new")
            _run(f"copy ({query}) to '{new}' (format parquet, compression zstd, row_group_size {ROW_GROUP})")
            new.rename(path)
        return path

    def _source(self, name: str) -> str:
        kind, _, argument = name.rpartition("_")
        rows = self._all
        match name if name in ("as_large", "mirror") else kind:
            case "scattered":
                return _upsert(rows, float(argument) / 200)
            case "newest":
                return self._newest(float(argument) / 200)
            case "insert_only":
                half = float(argument) / 200
                return f"{_select(rows)} where {_picked(half, 1)} union all {_select(rows, NEW)} where {_picked(half, 2)}"
            case "keys":
                return f"select l_orderkey, l_linenumber from {rows} where {_picked(float(argument) / 100, 1)}"
            case "changes":
                return _changes(rows, float(argument) / 100)
            case "few":
                return f"select * from ({_upsert(self._sample, 0.01, int(argument))}) order by hash(l_orderkey, l_comment) limit 10"
            case "small":
                return _upsert(self._sample, 0.0025, 100 + int(argument))
            case "snapshot":
                return self._snapshot(float(argument) / 100)
            case "as_large":
                changed = f"{_select(rows, changed=True)} where {_picked(0.5, 1)}"
                return f"{changed} union all {_select(rows, NEW, changed=True)} where {_picked(0.5, 1)}"
            case "mirror":
                remaining_rows = f"{_select(rows)} where not {_picked(0.02, 1)}"
                return f"{remaining_rows} union all {_upsert(rows, 0.01)}"
            case "lhbench":
                return self._lhbench(float(argument) / 1000)
        return self._delta_case(name)

    def _newest(self, half: float) -> str:
        highest = int(_value(f"select max(l_orderkey) from {self._all}"))
        aligned, part = (highest // 32 + 1) * 32, int(highest * half)
        changed = f"{_select(self._all, changed=True)} where l_orderkey > {highest - part}"
        return f"{changed} union all {_select(self._all, f'l_orderkey + {aligned}')} where l_orderkey <= {part}"

    def _delta_case(self, name: str) -> str:
        case = next(case.parameters for case in DELTA_CASES for merge in case.steps.values() if getattr(merge, "source", "") == name)
        chosen = self.parts[:: max(1, round(1 / case["files"]))][: max(1, round(case["files"] * self.files))]
        rows = f"read_parquet({[str(part) for part in chosen]!r})"
        changed = f"{_select(rows, changed=True)} where {_picked(case['matched'], 1)}"
        return f"{changed} union all {_select(rows, NEW)} where {_picked(case['new'], 2)}"

    def _history(self, rows: str) -> str:
        return f"select *, {_scd_id('l_quantity')} as scd_id, date '2024-01-01' as valid_from, cast(null as date) as valid_to from {rows}"

    def _snapshot(self, part: float) -> str:
        """Return the staged rows of a snapshot: the old version of a changed row ends, and a new one begins."""
        rows = f"(select *, {_picked(part, 1)} as chosen from {self._all})"
        ends = f"{_scd_id('l_quantity')} as scd_id, date '2024-01-01' as valid_from, date '2024-02-01' as valid_to, 'update' as change_type"
        begins = f"{_scd_id('l_quantity + 1')} as scd_id, date '2024-02-01' as valid_from, cast(null as date) as valid_to"
        old = f"select {', '.join(COLUMNS)}, {ends} from {rows} where chosen"
        return f"{old} union all select {_columns('l_orderkey', True)}, {begins}, 'insert' as change_type from {rows} where chosen"

    def _lhbench(self, part: float) -> str:
        rows = int(6_000_000 * self.scale)
        half = int(rows * part / 2)
        changed = f"select {_lhbench('k', 1)} from (select range * {rows // half} as k from range({half}))"
        return f"{changed} union all select {_lhbench('k', 1)} from (select {rows} + range as k from range({half}))"


def _scd_id(version: str) -> str:
    return f"md5(l_orderkey || '|' || l_linenumber || '|' || ({version}))"


def _lhbench(key: str, version: int = 0) -> str:
    values = f"cast({key} * 7 % 1000003 + {version} as bigint) as value, cast({key} * 13 % 1000003 as bigint) as value2"
    return f"{key} as key, {values}, {key} % 1000 as partition"


def _picked(part: float, salt: int) -> str:
    return f"hash(l_orderkey, l_linenumber, {salt}) % 1000000 < {round(part * 1_000_000)}"


def _columns(key: str, changed: bool) -> str:
    values = {"l_orderkey": key, **(CHANGED if changed else {})}
    return ", ".join(f"{values[name]} as {name}" if name in values else name for name in COLUMNS)


def _select(rows: str, key: str = "l_orderkey", *, changed: bool = False) -> str:
    return f"select {_columns(key, changed)} from {rows}"


def _upsert(rows: str, half: float, salt: int = 0) -> str:
    """Return as many changed rows as new rows."""
    changed = f"{_select(rows, changed=True)} where {_picked(half, 2 * salt + 1)}"
    return f"{changed} union all {_select(rows, NEW)} where {_picked(half, 2 * salt + 2)}"


def _changes(rows: str, part: float) -> str:
    """Return changes: half of them updates, three tenths inserts, and the other ones deletes."""
    updates = f"select *, 'U' as op from ({_select(rows, changed=True)} where {_picked(0.5 * part, 1)})"
    inserts = f"select *, 'I' as op from ({_select(rows, NEW)} where {_picked(0.3 * part, 2)})"
    deletes = f"{_picked(0.2 * part, 3)} and not {_picked(0.5 * part, 1)}"
    return f"{updates} union all {inserts} union all select *, 'D' as op from ({_select(rows)} where {deletes})"


def _run(statement: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(statement)


def _value(query: str) -> object:
    with duckdb.connect() as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]
