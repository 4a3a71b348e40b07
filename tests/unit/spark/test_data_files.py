"""The code on executors, without Spark: files, bounds and partitions, without an import of rowmerge."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark import TaskContext, cloudpickle

from rowmerge.parquet.data_files import FileMessage, WriteSpec, delete_written
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.parquet.filesystems import UnreadableFile
from rowmerge.parquet.outcomes import OutcomeColumns
from rowmerge.parquet.partitions import PartitionKey, split_by_partition
from rowmerge.parquet.rewriting import FileBin, write_bins
from rowmerge.spark.executors import bind_for_executors
from rowmerge.spark.writing.sink import outcome_sink, source_row_sink
from rowmerge.spark.writing.write_output import discard_paths


def spec(folder: Path, rows: pa.Table, *partition: str, **sizes: int) -> WriteSpec:
    inside = pa.schema([f for f in rows.schema if f.name not in partition])
    by = tuple(PartitionKey(name, name, (name,), rows.schema.field(name).type) for name in partition)
    return WriteSpec(folder.as_uri(), tuple(rows.schema.names), inside, inside, False, by, False, frozenset(inside.names), **sizes)


def iceberg_spec(folder: Path, rows: pa.Table, *keys: PartitionKey) -> WriteSpec:
    return replace(spec(folder, rows), partition=keys, partition_values_in_files=True)


def write(folder: Path, rows: pa.Table, *partition: str, **sizes: int) -> list[FileMessage]:
    writer = PartitionedWriter(spec(folder, rows, *partition, **sizes))
    writer.write(rows)
    return writer.close()


def test_bounds_and_null_counts_come_from_the_rows(tmp_path: Path) -> None:
    zone = dt.timezone.utc
    times = [dt.datetime(1, 1, 1, tzinfo=zone), None, dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=zone)]
    rows = pa.table(
        {"n": [3, None, -1], "s": ["b", "a", "ü"], "t": pa.array(times, pa.timestamp("us", "UTC")), "x": [{"y": 1}, {"y": 5}, None]}
    )
    (file,) = write(tmp_path, rows)
    assert (file.lower["n"], file.upper["n"], file.nulls["n"]) == (-1, 3, 1)
    assert (file.lower["s"], file.upper["s"], file.nulls["s"]) == ("a", "ü", 0)
    assert (file.lower["t"], file.upper["t"], file.nulls["t"]) == (times[0], times[2], 1)
    assert (file.lower["x"], file.upper["x"], file.nulls["x"]) == ({"y": 1}, {"y": 5}, {"y": 1})
    assert file.records == 3
    assert file.size == (tmp_path / Path(file.path).name).stat().st_size


def test_a_column_with_nan_has_no_bounds(tmp_path: Path) -> None:
    rows = pa.table({"f": [1.0, float("nan")], "g": [1.0, 2.0], "s": pa.array([{"f": 1.0}, {"f": float("nan")}])})
    (file,) = write(tmp_path, rows)
    assert "f" not in file.lower and "f" not in file.upper
    assert (file.lower["g"], file.upper["g"]) == (1.0, 2.0)
    assert "s" not in file.lower


def test_files_have_no_nan_bounds_and_no_minus_zero_dictionary(tmp_path: Path) -> None:
    """Spark's Parquet filters use them and lose rows: NaN is above all numbers, -0.0 equals 0.0."""
    rows = pa.table({"f": [1.0, float("nan")], "z": [0.5, -0.0], "g": [1.0, 2.0], "s": [{"f": float("nan")}, {"f": 1.0}]})
    (file,) = write(tmp_path, rows)
    columns = [pq.read_metadata(file.path.removeprefix("file://")).row_group(0).column(at) for at in range(4)]
    assert [column.statistics is not None for column in columns] == [False, True, True, False]
    assert ["RLE_DICTIONARY" in column.encodings for column in columns] == [True, False, True, False]


def test_a_later_nan_starts_another_file(tmp_path: Path) -> None:
    writer = PartitionedWriter(spec(tmp_path, pa.table({"f": [1.0]}), row_group_size=1))
    for value in (1.0, 2.0, float("nan"), 3.0):
        writer.write(pa.table({"f": [value]}))
    assert [(file.records, file.lower) for file in writer.close()] == [(2, {"f": 1.0}), (2, {})]


def test_lists_and_maps_have_no_bounds_and_do_not_shift_others(tmp_path: Path) -> None:
    maps = pa.array([[("k", [1, 2])]], pa.map_(pa.string(), pa.list_(pa.int32())))
    rows = pa.table({"a": [[1, 2]], "m": maps, "after": [7]})
    (file,) = write(tmp_path, rows)
    assert (file.lower, file.upper, file.nulls) == ({"after": 7}, {"after": 7}, {"after": 0})


def test_each_partition_gets_its_file_and_an_empty_string_is_null(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3, 4, 5], "p": ["x/y", "", None, "x/y", "é"], "q": [1, 1, 1, 2, 1]})
    files = write(tmp_path, rows, "p", "q")
    ids_by_partition = {
        (file.partition["p"], file.partition["q"]): pq.read_table(file.path.removeprefix("file://"))["id"].to_pylist() for file in files
    }
    assert ids_by_partition == {("x/y", 1): [1], (None, 1): [2, 3], ("x/y", 2): [4], ("é", 1): [5]}
    assert all(f"p={name}/" in file.path for file, name in ((f, _folder(f.partition["p"])) for f in files))


def test_partitions_of_transforms_keep_their_columns_in_the_files(tmp_path: Path) -> None:
    times = pa.array([0, 86_400_000_000, -1, None], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1, 2, 3, 4], "t": times, "x": [{"y": "abc"}, {"y": "abd"}, None, {"y": ""}], "s": ["", None, "", "a/b"]})
    keys = (
        PartitionKey("t_day", "t_day", ("t",), times.type, "day"),
        PartitionKey("y", "y", ("x", "y"), pa.string(), "truncate[2]"),
        PartitionKey("s", "s", ("s",), pa.string()),
        PartitionKey("gone", "gone", (), pa.null(), "void"),
    )
    table_spec = iceberg_spec(tmp_path, rows, *keys)
    writer = PartitionedWriter(table_spec)
    writer.write(rows)
    files = writer.close()
    assert [tuple(file.partition.values()) for file in files] == [
        (0, "ab", "", None),
        (1, "ab", None, None),
        (-1, None, "", None),
        (None, "", "a/b", None),
    ]
    folders = [file.path.removeprefix(table_spec.root + "/").rpartition("/")[0] for file in files]
    assert folders == [
        "t_day=1970-01-01/y=ab/s=/gone=null",
        "t_day=1970-01-02/y=ab/s=null/gone=null",
        "t_day=1969-12-31/y=null/s=/gone=null",
        "t_day=null/y=/s=a%2Fb/gone=null",
    ]
    assert [pq.read_table(file.path.removeprefix("file://")).to_pylist() for file in files] == [[row] for row in rows.to_pylist()]


def test_rewritten_rows_get_the_current_partition_spec(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2, 3, 4, 5], pa.int64())})
    (file,) = write(tmp_path, rows)
    today = iceberg_spec(tmp_path, rows, PartitionKey("id_trunc", "id_trunc", ("id",), pa.int64(), "truncate[3]"))
    again = write_bins(today, [FileBin({file.path: BitMap64([1]).serialize()}, {"anything": "else"}, 0)], discard_paths)
    ids_by_partition = {file.partition["id_trunc"]: pq.read_table(file.path.removeprefix("file://"))["id"].to_pylist() for file in again}
    assert ids_by_partition == {0: [1], 3: [3, 4, 5]}


def test_files_that_are_rewritten_together_have_the_rows_of_files_that_are_rewritten_alone(tmp_path: Path) -> None:
    """Rows of files with equal schemas are converted together. Older files lack a column, or have a narrower type."""
    new = pa.schema({"id": pa.int64(), "x": pa.struct({"a": pa.int32(), "b": pa.string()}), "added": pa.string(), "later": pa.int64()})
    contents = [
        pa.table({"id": [1, 2, 3], "x": [{"a": 1, "b": "b"}, None, {"a": None, "b": None}], "added": ["n", None, "n"], "later": [1, 2, 3]}),
        pa.table({"id": pa.array([4, 5], pa.int32()), "x": [{"a": 4}, {"a": 5}], "added": ["o", "p"]}),
        pa.table({"added": ["q", "r"], "id": pa.array([6, 7], pa.int32()), "dropped": [True, False]}),
        pa.table({"id": pa.array([], pa.int32()), "x": pa.array([], pa.struct({"a": pa.int64()})), "added": pa.array([], pa.string())}),
        pa.table({"id": pa.array([8, 9], pa.int32()), "x": [{"a": 8}, {"a": 9}], "added": [None, "s"]}),
        pa.table({"other": [0, 0]}),
    ]
    deleted = [[1], [], [0], [], [0, 1], [1]]
    positions = {}
    for number, (content, rows) in enumerate(zip(contents, deleted, strict=True)):
        pq.write_table(content, tmp_path / f"{number}.parquet", row_group_size=2)
        positions[(tmp_path / f"{number}.parquet").as_uri()] = BitMap64(rows).serialize()
    table_spec = replace(spec(tmp_path, new.empty_table()), initial_values={"later": pa.array([-1], pa.int64())})
    (together,) = write_bins(table_spec, [FileBin(positions, {}, 0)], discard_paths)
    alone = [write_bins(table_spec, [FileBin({path: bitmap}, {}, 0)], discard_paths) for path, bitmap in positions.items()]
    expected_rows = pa.concat_tables(pq.read_table(file.path.removeprefix("file://")) for files in alone for file in files)
    assert expected_rows["id"].to_pylist() == [1, 3, 4, 5, 7, None]
    assert expected_rows["later"].to_pylist() == [1, 3, -1, -1, -1, -1]
    assert pq.read_table(together.path.removeprefix("file://")).equals(expected_rows)


@pytest.mark.parametrize("size", [1, 2**20 + 1], ids=["together", "alone"])
def test_bins_of_several_partitions_are_rewritten(tmp_path: Path, size: int) -> None:
    """Files of small bins are read together. A row stays in its partition, and a partition whose rows are all deleted gets no file."""
    rows = pa.table({"n": pa.array(range(12), pa.int64()), "p": [n // 3 for n in range(12)]})
    files = write(tmp_path, rows, "p")
    deleted = {0: [1], 1: [], 2: [0, 1, 2], 3: [0]}
    bins = [FileBin({file.path: BitMap64(deleted[file.partition["p"]]).serialize()}, file.partition, size) for file in files]
    new_files = write_bins(spec(tmp_path, rows, "p"), bins, discard_paths)
    live_rows = {file.partition["p"]: pq.read_table(file.path.removeprefix("file://"))["n"].to_pylist() for file in new_files}
    assert live_rows == {0: [0, 2], 1: [3, 4, 5], 3: [10, 11]}


@pytest.mark.parametrize("values", [[0.0, -0.0], [1.0, 1.0]], ids=["zeros", "one partition"])
def test_each_small_bin_gets_a_file_of_its_own(tmp_path: Path, values: list[float]) -> None:
    """The partitions 0.0 and -0.0 are two, although Python regards them as equal."""
    rows = pa.table({"n": pa.array([1, 2], pa.int64()), "p": pa.array([0.5, 0.5])})
    files = [file for _ in values for file in write(tmp_path, rows, "p")]
    bins = [FileBin({file.path: BitMap64().serialize()}, {"p": value}, 1) for file, value in zip(files, values, strict=True)]
    new_files = write_bins(spec(tmp_path, rows, "p"), bins, discard_paths)
    assert [(str(file.partition["p"]), file.records) for file in new_files] == [(str(value), 2) for value in values]


def test_an_unreadable_file_leaves_no_rewritten_files(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array(range(4), pa.int64())})
    (file,) = write(tmp_path, rows)
    bins = [FileBin({path: BitMap64([0]).serialize()}, {}, 2**21) for path in (file.path, f"{file.path}.missing")]
    with pytest.raises(UnreadableFile):
        write_bins(spec(tmp_path, rows), bins, discard_paths)
    assert [path.as_uri() for path in tmp_path.rglob("*.parquet")] == [file.path]


def test_partitions_of_many_keys_are_distinguished(tmp_path: Path) -> None:
    names = [f"k{at}" for at in range(8)]
    rows = pa.table({name: pa.array(range(1000), pa.int64()) for name in names} | {"f": [float("nan"), *range(999)]})
    keys = tuple(PartitionKey(name, name, (name,), pa.int64(), "bucket[1000]") for name in names)
    groups = list(split_by_partition(rows, keys, empty_is_null=False))
    assert sum(part.num_rows for _, part in groups) == 1000
    assert all(len(set(values.values())) == 1 for values, _ in groups)
    assert len(groups) == len({values["k0"] for values, _ in groups})


def test_rows_with_a_nan_partition_value_are_in_one_file(tmp_path: Path) -> None:
    rows = pa.table({"f": [float("nan")], "n": [1]})
    writer = PartitionedWriter(iceberg_spec(tmp_path, rows, PartitionKey("f", "f", ("f",), pa.float64())))
    writer.write(rows)
    writer.write(rows)
    assert [file.records for file in writer.close()] == [2]


def _folder(value: str | None) -> str:
    return {None: "__HIVE_DEFAULT_PARTITION__", "x/y": "x%2Fy"}.get(value, str(value))


def test_a_new_file_begins_at_the_target_size(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array(range(100_000), pa.int64())})
    writer = PartitionedWriter(spec(tmp_path, rows, target_file_size=50_000, row_group_size=100_000))
    for start in range(0, 100_000, 10_000):
        writer.write(rows.slice(start, 10_000))
    files = writer.close()
    assert len(files) > 3
    assert sum(file.records for file in files) == 100_000
    assert sorted(n for file in files for n in pq.read_table(file.path.removeprefix("file://"))["n"].to_pylist()) == list(range(100_000))


def random_rows(seed: int, width: int, row_count: int) -> pa.Table:
    generator = np.random.default_rng(seed)
    return pa.table({f"c{column}": generator.integers(0, 2**60, row_count) for column in range(width)})


BATCHES = {
    "narrow": lambda seed: random_rows(seed, 1, 3_000),
    "wide": lambda seed: random_rows(seed, 200, 40),
    "large rows": lambda seed: pa.table({"b": [np.random.default_rng(seed).bytes(10_000) for _ in range(20)]}),
    "constant": lambda seed: pa.table({f"c{column}": np.full(40_000, seed // 100) for column in range(4)}),
    "numbers": lambda seed: pa.table({"n": range(seed * 5_000, seed * 5_000 + 5_000), "s": [f"value {n % 50}" for n in range(5_000)]}),
    "one batch": lambda seed: random_rows(seed, 1, 200_000 if seed == 0 else 0),
}


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("row_group_size", [256 * 1024, 100 * 1024])
def test_files_end_within_a_tenth_of_the_target_size(tmp_path: Path, batch: Callable[[int], pa.Table], row_group_size: int) -> None:
    target = 256 * 1024
    writer = PartitionedWriter(spec(tmp_path, batch(0), target_file_size=target, row_group_size=row_group_size))
    for seed in range(150):
        writer.write(batch(seed))
    *complete_files, last_file = writer.close()
    assert complete_files
    assert [file.size / target for file in complete_files if not 0.95 * target <= file.size <= 1.1 * target] == []
    assert last_file.size <= 1.1 * target


def test_the_last_rows_of_a_partition_do_not_make_a_small_file(tmp_path: Path) -> None:
    target, rows = 256 * 1024, random_rows(0, 1, 100_000)

    def written_files(row_count: int) -> list[FileMessage]:
        writer = PartitionedWriter(spec(tmp_path, rows, target_file_size=target, row_group_size=target))
        for start in range(0, row_count, 1_000):
            writer.write(rows.slice(start, min(1_000, row_count - start)))
        return writer.close()

    first, second, *_ = written_files(rows.num_rows)
    _, file = written_files(first.records + second.records + second.records // 30)
    assert (file.records, file.size <= 1.1 * target) == (second.records + second.records // 30, True)


def test_an_aborted_write_leaves_no_file(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2], "p": [1, 2]})
    writer = PartitionedWriter(spec(tmp_path, rows, "p", row_group_size=1))
    writer.write(rows)
    assert list(tmp_path.rglob("*.parquet"))
    delete_written(writer.abort(), {})
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("deleted_positions", [[0], [4], [1, 2, 3], [0, 1, 2, 3]])
def test_a_rewritten_file_has_the_rows_without_the_deleted_ones(tmp_path: Path, deleted_positions: list[int]) -> None:
    rows = pa.table({"n": [10, 11, 12, 13, 14], "s": ["a", None, "c", "d", "e"]})
    (file,) = write(tmp_path, rows)
    (again,) = write_bins(spec(tmp_path, rows), [FileBin({file.path: BitMap64(deleted_positions).serialize()}, {}, 0)], discard_paths)
    live_rows = pq.read_table(again.path.removeprefix("file://"))
    assert live_rows["n"].to_pylist() == [10 + i for i in range(5) if i not in deleted_positions]


def test_combined_files_keep_their_order_and_get_the_columns_of_the_table(tmp_path: Path) -> None:
    rows = pa.table({"n": [10, 11, 12], "s": ["a", None, "c"]})
    (first,), (older,) = write(tmp_path, rows), write(tmp_path, pa.table({"n": [20, 21]}))
    positions = {first.path: BitMap64([1]).serialize(), older.path: BitMap64().serialize()}
    (again,) = write_bins(spec(tmp_path, rows), [FileBin(positions, {}, 0)], discard_paths)
    live_rows = pq.read_table(again.path.removeprefix("file://"))
    assert live_rows.to_pylist() == [{"n": 10, "s": "a"}, {"n": 12, "s": "c"}, {"n": 20, "s": None}, {"n": 21, "s": None}]
    assert (again.records, again.nulls["s"]) == (4, 2)


def test_string_views_and_int96_are_converted(tmp_path: Path) -> None:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)
    pq.write_table(pa.table({"s": ["a", "b"], "t": [moment, moment]}), tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    empty_table = pa.table({"s": pa.array([], pa.string()), "t": pa.array([], pa.timestamp("us", "UTC"))})
    positions = {(tmp_path / "old.parquet").as_uri(): BitMap64([0]).serialize()}
    (again,) = write_bins(spec(tmp_path, empty_table), [FileBin(positions, {}, 0)], discard_paths)
    live_rows = pq.read_table(again.path.removeprefix("file://"))
    assert live_rows.to_pylist() == [{"s": "b", "t": moment.replace(tzinfo=dt.timezone.utc)}]


def test_executors_do_not_need_rowmerge(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1, 2], pa.int64())})
    payload = tmp_path / "sink.pickle"
    columns = OutcomeColumns("__rowmerge_action", new_columns=("__rowmerge_column_0",))
    payload.write_bytes(cloudpickle.dumps(bind_for_executors(outcome_sink, spec(tmp_path, rows), columns, None)))
    code = """
import pickle, sys
sys.modules["rowmerge"] = sys.modules["pyroaring"] = None
import pyarrow as pa
sink = pickle.loads(open(sys.argv[1], "rb").read())
batch = pa.record_batch({"__rowmerge_action": pa.array([3, 3], pa.int8()), "__rowmerge_column_0": pa.array([1, 2], pa.int64())})
message = pickle.loads(next(sink(iter([batch])))["message"][0].as_py())["message"]
print(message["inserted"], message["files"][0]["records"])
"""
    process = subprocess.run([sys.executable, "-c", code, str(payload)], capture_output=True, text=True, check=False)
    assert process.stdout.split() == ["2", "2"], process.stderr


def test_keys_of_a_task_do_not_keep_its_rows_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Spark sends each batch as one message of Arrow. PyArrow reads it into one buffer, of which all columns are parts.
    text = pa.array([f"{n:04}" * 500 for n in range(1_000)])
    rows = pa.table({"__rowmerge_action": pa.repeat(pa.scalar(3, pa.int8()), 1_000), "new": text, "key": pa.array(range(1_000))})
    with pa.ipc.new_stream(str(tmp_path / "batches"), rows.schema) as writer:
        for _ in range(60):
            writer.write_table(rows)
    allocated_bytes = list[int]()

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in pa.ipc.open_stream(pa.OSFile(str(tmp_path / "batches"))):
            allocated_bytes.append(pa.total_allocated_bytes() - start)
            yield batch

    monkeypatch.setattr(TaskContext, "_taskContext", None)  # restores it: `TaskContext()` stores the new context there
    context = TaskContext()
    context._partitionId = context._attemptNumber = context._stageId = 0
    sizes = {"row_group_size": 4 << 20, "target_file_size": 256 << 20}
    columns = OutcomeColumns("__rowmerge_action", new_columns=("new",))
    sink = source_row_sink(spec(tmp_path, pa.table({"new": text}), **sizes), columns, ("key",), 100_000, requires_keys=True)
    start = pa.total_allocated_bytes()
    (message,) = (pickle.loads(batch["message"][0].as_py())["message"] for batch in sink(batches()))
    assert pa.ipc.open_stream(message["keys"]).read_all()["key"].to_pylist() == list(range(1_000)) * 60
    assert message["row_count"] == sum(file["records"] for file in message["task_message"]["files"]) == 60_000
    assert max(allocated_bytes) < 60 * text.nbytes / 3
