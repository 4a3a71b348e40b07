"""The change rows that a task writes with its data files, without Spark."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.outcomes import DELETE, INSERT, NONE, UPDATE, OutcomeColumns
from rowmerge.parquet.partitions import PartitionKey
from rowmerge.spark.writing.sink import outcome_sink
from rowmerge.spark.writing.specs import change_rows_spec

COLUMNS = OutcomeColumns("action", "file", "position", new_columns=("after_0", "after_1"), old_columns=("before_0", "before_1"))
SCHEMA = pa.schema(
    [
        ("action", pa.int8()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("after_0", pa.int64()),
        ("after_1", pa.string()),
        ("before_0", pa.int64()),
        ("before_1", pa.string()),
    ]
)
Row = tuple[Any, ...]


def spec(folder: Path, *partition: str) -> WriteSpec:
    columns = {"id": pa.int64(), "a.b": pa.string()}
    inside = pa.schema([(name, type_) for name, type_ in columns.items() if name not in partition])
    by = tuple(PartitionKey(name, name, (name,), columns[name]) for name in partition)
    return WriteSpec(folder.as_uri(), tuple(columns), inside, inside, False, by, False, frozenset(inside.names))


def run(table_spec: WriteSpec, *batches: list[Row], columns: OutcomeColumns = COLUMNS) -> dict[str, Any]:
    sink = outcome_sink(table_spec, columns, change_rows_spec(table_spec, f"{table_spec.root}/_change_data"))
    records = [pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA) for rows in batches]
    (message,) = sink(iter(records))
    report: dict[str, Any] = pickle.loads(message["message"][0].as_py())["message"]
    return report


def rows(files: list[dict[str, Any]]) -> list[Row]:
    read = [pq.ParquetFile(file["path"].removeprefix("file://")).read().to_pylist() for file in files]
    return sorted((tuple(row.values()) for table in read for row in table), key=repr)


def test_each_kind_of_change_writes_its_rows(tmp_path: Path) -> None:
    message = run(
        spec(tmp_path),
        [
            (UPDATE, "f", 0, 1, "new", 1, "old"),
            (NONE, "f", 1, None, None, 2, "kept"),
            (DELETE, "f", 2, None, None, 3, "gone"),
            (INSERT, None, None, 4, "born", None, None),
        ],
    )
    assert rows(message["files"]) == [(1, "new"), (4, "born")]
    assert rows(message["change_rows"]) == [
        (1, "new", "update_postimage"),
        (1, "old", "update_preimage"),
        (3, "gone", "delete"),
        (4, "born", "insert"),
    ]
    assert all("/_change_data/cdc-" in file["path"] and not file["lower"] for file in message["change_rows"])


def test_a_row_deleted_twice_has_one_change_row(tmp_path: Path) -> None:
    twice = [(DELETE, "f", 5, None, None, 5, "five"), (DELETE, "g", 5, None, None, 6, "six"), (DELETE, "f", 5, None, None, 5, "five")]
    message = run(spec(tmp_path), twice, [*twice, (DELETE, "f", 6, None, None, 7, "seven")])
    assert rows(message["change_rows"]) == [(5, "five", "delete"), (6, "six", "delete"), (7, "seven", "delete")]
    assert message["repeated_count"] == 4
    assert {path: list(BitMap64.deserialize(bits)) for path, bits in message["positions"].items()} == {"f": [5, 6], "g": [5]}


def test_a_row_that_changes_its_partition_has_change_rows_in_both(tmp_path: Path) -> None:
    message = run(spec(tmp_path, "a.b"), [(UPDATE, "f", 0, 1, "q", 1, "p")])
    assert rows(message["files"]) == [(1,)]
    rows_by_partition = {file["partition"]["a.b"]: rows([file]) for file in message["change_rows"]}
    assert rows_by_partition == {"p": [(1, "update_preimage")], "q": [(1, "update_postimage")]}
    assert all(f"/_change_data/a.b={file['partition']['a.b']}/" in file["path"] for file in message["change_rows"])


def test_a_failed_task_leaves_no_change_files(tmp_path: Path) -> None:
    table_spec = replace(spec(tmp_path, "id"), row_group_size=1)
    sink = outcome_sink(table_spec, COLUMNS, change_rows_spec(table_spec, f"{table_spec.root}/_change_data"))
    batch = pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, (DELETE, "f", 0, None, None, 1, "old"), strict=True))], schema=SCHEMA)

    def batches() -> Any:
        yield batch
        assert list(tmp_path.rglob("*.parquet"))
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        list(sink(batches()))
    assert not list(tmp_path.rglob("*.parquet"))
