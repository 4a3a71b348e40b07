"""Small files without Spark: batches across files, deleted rows, partition values, other schemas, and their division among tasks."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.filesystems import UnreadableFile
from rowmerge.parquet.small_files import SmallFilesSpec, read_small_files
from rowmerge.spark.reading.splits import pack

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("p", pa.string())])
SPEC = SmallFilesSpec(
    SCHEMA, StoredColumns(SCHEMA, False, ("p",)), initial_values={"s": pa.array(["initial"])}, address_columns=("file", "position")
)


def file_list(folder: Path, *files: tuple[pa.Table, list[int], str | None]) -> pa.Table:
    """Write files, and return their list with the positions of deleted rows and the partition values."""
    paths = []
    for index, (rows, _, _) in enumerate(files):
        path = folder / f"{index} %41.parquet"
        pq.write_table(rows, path, row_group_size=3)
        paths.append(f"file://{path}")
    deleted = [np.array(positions, dtype=np.int64).tobytes() or None for _, positions, _ in files]
    columns = {"path": paths, "file_name": [f"f{index}" for index in range(len(files))], "deleted": pa.array(deleted, pa.binary())}
    return pa.table(columns | {"partition p": pa.array([partition for _, _, partition in files], pa.string())})


def rows_of(spec: SmallFilesSpec, files: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for batch in read_small_files(spec, files) for row in batch.to_pylist()]


def test_batches_contain_the_live_rows_of_several_files(tmp_path: Path) -> None:
    first, second = pa.table({"n": range(8), "s": list("abcdefgh")}), pa.table({"n": [10, 11], "s": ["x", None]})
    files = file_list(tmp_path, (first, [0, 2, 3, 7], "a"), (second, [], None), (second, [0, 1], "gone"))
    (batch,) = read_small_files(SPEC, files)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        *[(n, s, "a", "f0", n) for n, s in ((1, "b"), (4, "e"), (5, "f"), (6, "g"))],
        (10, "x", None, "f1", 0),
        (11, None, None, "f1", 1),
    ]


LEGACY_DATES = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
OLD_DAY, NEW_DAY = datetime.date(1582, 10, 14), datetime.date(1582, 10, 15)


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([OLD_DAY, None, datetime.date(1, 1, 3)], [datetime.date(1582, 10, 4), None, datetime.date(1, 1, 5)]),
        ([datetime.date(1000, 3, 6), datetime.date(1000, 3, 5)], [datetime.date(1000, 3, 1), datetime.date(1000, 2, 28)]),
        ([NEW_DAY, None], [NEW_DAY, None]),
        ([datetime.datetime(1899, 12, 31)], None),
        ([datetime.datetime(1900, 1, 1)], [datetime.datetime(1900, 1, 1)]),
        ([None, {"d": OLD_DAY}], None),
        ([[{"d": NEW_DAY}], [{"d": OLD_DAY}]], None),
        ([[{"d": NEW_DAY}], None], [[{"d": NEW_DAY}], None]),
    ],
)
@pytest.mark.parametrize("metadata", [{}, LEGACY_DATES, {"org.apache.spark.version": "2.4.8"}])
def test_old_dates_of_spark_2_are_converted_and_other_old_times_are_an_error(
    tmp_path: Path, values: list[object], read: list[object] | None, metadata: dict[str, str]
) -> None:
    rows = pa.table({"x": values})
    spec = SmallFilesSpec(rows.schema, StoredColumns(rows.schema, False, ()))
    files = file_list(tmp_path, (rows.replace_schema_metadata(metadata), [], None))
    if metadata and read is None:
        with pytest.raises(UnreadableFile, match="Julian calendar"):
            rows_of(spec, files)
        return
    assert rows_of(spec, files) == [(value,) for value in (read if metadata and read is not None else values)]


@pytest.mark.parametrize(
    ("metadata", "are_julian"),
    [
        ({"org.apache.spark.version": "3.0.1", "org.apache.spark.legacyINT96": ""}, False),
        ({"org.apache.spark.version": "3.0.1", "org.apache.spark.legacyDateTime": ""}, True),
        ({"org.apache.spark.version": "4.0.0"}, False),
        ({"org.apache.spark.legacyDateTime": ""}, False),
    ],
)
def test_dates_are_converted_only_where_spark_converts_them(tmp_path: Path, metadata: dict[str, str], are_julian: bool) -> None:
    rows = pa.table({"x": [OLD_DAY]})
    spec = SmallFilesSpec(rows.schema, StoredColumns(rows.schema, False, ()))
    files = file_list(tmp_path, (rows.replace_schema_metadata(metadata), [], None))
    assert rows_of(spec, files) == [(datetime.date(1582, 10, 4) if are_julian else OLD_DAY,)]


def test_names_of_fields_can_differ_in_case(tmp_path: Path) -> None:
    schema = pa.schema([("s", pa.struct([("a", pa.int64()), ("b", pa.int64())])), ("l", pa.list_(pa.struct([("k", pa.int64())])))])
    rows = pa.table({"S": [{"A": 1, "b": 2, "B": 3}], "L": [[{"K": 4}]]})
    spec = SmallFilesSpec(schema, StoredColumns(schema, False, ()))
    assert rows_of(spec, file_list(tmp_path, (rows, [], None))) == [({"a": 1, "b": 2}, [{"k": 4}])]


def test_files_with_other_schemas_get_the_columns_of_the_table(tmp_path: Path) -> None:
    views = pa.table({"s": pa.array(["v"], pa.string_view()), "n": pa.array([1], pa.int32())})
    words = pa.table({"N": [2], "s": pa.array(["d"]).dictionary_encode(), "other": [0]})
    lacking, neither = pa.table({"n": [3, 4]}), pa.table({"other": [5, 6]})
    files = file_list(tmp_path, (views, [], "a"), (words, [], "b"), (lacking, [0], "c"), (neither, [1], "d"))
    assert rows_of(SPEC, files) == [
        (1, "v", "a", "f0", 0),
        (2, "d", "b", "f1", 0),
        (4, "initial", "c", "f2", 1),
        (None, "initial", "d", "f3", 0),
    ]


def test_a_missing_or_damaged_file_stops_the_read(tmp_path: Path) -> None:
    files = file_list(tmp_path, (pa.table({"n": [1]}), [], None), (pa.table({"n": [2]}), [], None))
    path = Path(files["path"][1].as_py().removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:-8] + b"damaged!")
    with pytest.raises(UnreadableFile, match="1 %41.parquet"):
        rows_of(SPEC, files)
    path.unlink()
    with pytest.raises(UnreadableFile) as caught:
        rows_of(SPEC, files)
    assert caught.value.reason is None


@pytest.mark.parametrize(
    ("weights", "lookback", "bins"),
    [
        ([], 10, []),
        ([60, 30, 50, 10, 40], 10, [[0, 1, 3], [2, 4]]),
        ([60, 30, 50, 10, 40], 1, [[0, 1], [2, 3, 4]]),
        ([500, 1, 500], 10, [[0], [1], [2]]),
        ([30, 90, 80, 70], 2, [[1], [0, 3], [2]]),
    ],
)
def test_files_are_packed_as_in_iceberg(weights: list[int], lookback: int, bins: list[list[int]]) -> None:
    assert pack(weights, 100, lookback) == bins
