"""Measure one engine's operations on one synthetic Iceberg table in its own process: `measure_iceberg.py ENGINE TABLE FILES`.

The table's catalog is its folder of numbered metadata files. pyiceberg has no catalog for it: it opens the newest file by path, and
reuses nothing that it read before.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.metadata.delta_logs import KEYS_OF_A_FILE, ROWS_OF_A_FILE, file_name
from benchmarks.metadata.measure import Engine, measured
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import file_mask
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.snapshots.files import AddedFile, FileChanges


def table_in(folder: Path) -> IcebergTable:
    return IcebergTable(DirectoryOperations(Storage(str(folder)), "lineitem"), "lineitem")


def append(table: IcebergTable, number: int) -> None:
    """Commit one more file."""
    low = number * KEYS_OF_A_FILE
    path = f"{table.location}/data/{file_name(number)}"
    file = AddedFile(path, 12_000_000, ROWS_OF_A_FILE, {}, {"l_orderkey": low}, {"l_orderkey": low + KEYS_OF_A_FILE - 1})
    outcome = table.commit(table.snapshot(), CommitRequest("WRITE", files=FileChanges(added=(file,))))
    assert isinstance(outcome, Committed), outcome


class Iceberg(Engine):
    def commit_of_another(self, number: int) -> None:
        append(table_in(self.folder), number)


class Rowmerge(Iceberg):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._table = table_in(folder)

    def open(self) -> int:
        self._snapshot = self._table.snapshot()
        return len(self._snapshot.files())

    def open_again(self) -> int:
        return self.open()

    def prune(self, low: int, high: int) -> int:
        schema = self._snapshot.schema
        mask, columns = file_mask([f"t.l_orderkey BETWEEN {low} AND {high}"], Side("t", (("t",),), schema.names), schema, ())
        files = self._snapshot.files(columns)
        return len(files.filter(mask(files)))

    def commit(self, number: int) -> None:
        append(self._table, number)


class PyIceberg(Iceberg):
    def open(self) -> int:
        from pyiceberg.table import StaticTable

        newest = (self.folder / "metadata" / "version-hint.text").read_text()
        self._table = StaticTable.from_metadata(f"{self.folder}/metadata/v{newest}.metadata.json")
        return sum(1 for _ in self._table.scan().plan_files())

    def open_again(self) -> int:
        return self.open()

    def prune(self, low: int, high: int) -> int:
        return sum(1 for _ in self._table.scan(row_filter=f"l_orderkey >= {low} AND l_orderkey <= {high}").plan_files())


ENGINES: dict[str, Any] = {"rowmerge": Rowmerge, "pyiceberg": PyIceberg}

if __name__ == "__main__":
    print(json.dumps(measured(ENGINES[sys.argv[1]](Path(sys.argv[2])), int(sys.argv[3]))))
