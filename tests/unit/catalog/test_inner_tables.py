"""Statements on an outer table keep the files of a table in a folder below it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowmerge.catalog.layout import drop_table
from rowmerge.delta import DeltaTable
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME, committed
from tests.support.table_operations import NOW, append, rows, write_rows

OUTER = pytest.mark.parametrize("outer", ["delta", "iceberg"])
INNER = pytest.mark.parametrize("inner", ["delta", "iceberg"])


def table_at(folder: Path, format_: str) -> Table:
    storage = Storage(str(folder))
    return DeltaTable(storage, "s.t") if format_ == "delta" else IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")


def create(folder: Path, format_: str) -> Table:
    table = table_at(folder, format_)
    committed(table.create(TableDefinition(ID_NAME, (), {}), CommitRequest("CREATE TABLE")))
    snapshot = table.snapshot()
    committed(table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, [1, 2, 3])))))
    return table


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@OUTER
@INNER
@pytest.mark.parametrize("below", ["inner", "a/b"])
@pytest.mark.parametrize("statement", ["vacuum", "drop"])
def test_statements_on_an_outer_table_keep_an_inner_table(tmp_path: Path, outer: str, inner: str, below: str, statement: str) -> None:
    table = create(tmp_path / "t", outer)
    append(create(tmp_path / "t" / below, inner))
    orphan = tmp_path / "t/data/orphan.parquet"
    orphan.parent.mkdir(exist_ok=True)
    orphan.touch()
    for path in files(tmp_path):
        os.utime(path, (0, 0))
    inner_files = files(tmp_path / "t" / below)
    if statement == "vacuum":
        table.vacuum(NOW)
        assert len(rows(table_at(tmp_path / "t", outer))) == 3
    else:
        drop_table(Storage(str(tmp_path / "t")), "s.t", outer)
    assert inner_files <= files(tmp_path / "t" / below)
    assert len(rows(table_at(tmp_path / "t" / below, inner))) == 5
    assert not orphan.exists(), "the outer table's own file is deleted"
