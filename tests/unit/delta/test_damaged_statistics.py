"""Unreadable file statistics count as absent in reads, pruning and the next checkpoint."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rowmerge.delta.log.log_files import checkpoint_path, commit_path
from rowmerge.errors import CorruptLog
from rowmerge.table.snapshots.files import Positions
from tests.support.delta_tables import Lake, committed
from tests.support.readers import read_with_delta_rs
from tests.support.suites import examples

IDS = [0, *range(100, 112)]


def zero_pages(folder: Path, kinds: Sequence[str], *, write_checksums: bool) -> None:
    """Fill the checkpoint's pages of statistics with zeros; `kinds`: `stats`, `stats_parsed`."""
    path = folder / checkpoint_path(10)
    if not write_checksums:  # Other engines write checkpoints without page checksums.
        pq.write_table(pq.read_table(path), path, compression="snappy")
    content, file = bytearray(path.read_bytes()), pq.ParquetFile(path).metadata
    for group in range(file.num_row_groups):
        for index in range(file.num_columns):
            column = file.row_group(group).column(index)
            if column.path_in_schema.split(".")[1] in kinds:
                start = column.dictionary_page_offset or column.data_page_offset
                content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)


def count_upper_bounds(lake: Lake) -> int:
    """Return the number of files with an upper bound of the ids."""
    listing = lake.table.snapshot().files(("id",))
    return len(listing) - pc.struct_field(listing.rows["upper"], ["id"]).null_count


def commit_copy(folder: Path, version: int, stats: str) -> None:
    """Commit a copy of the first file with these statistics."""
    lines = [json.loads(line) for line in (folder / commit_path(0)).read_text().splitlines()]
    (original_add,) = (action["add"] for action in lines if "add" in action)
    copy = f"copy-{version}.parquet"
    shutil.copy(folder / original_add["path"], folder / copy)
    (folder / commit_path(version)).write_text(json.dumps({"add": {**original_add, "path": copy, "stats": stats}}) + "\n")


def checkpoint_statistics(folder: Path, version: int) -> dict[str, tuple[Any, Any]]:
    """Return `stats` and `stats_parsed` by path."""
    adds = [add for add in pq.read_table(folder / checkpoint_path(version))["add"].to_pylist() if add is not None]
    return {add["path"]: (add["stats"], add["stats_parsed"]) for add in adds}


@pytest.mark.parametrize("write_checksums", [True, False])
@pytest.mark.parametrize(
    ("kinds", "bounded"), [(["stats", "stats_parsed"], 2), (["stats"], 13), (["stats_parsed"], 13)], ids=["both", "text", "struct"]
)
def test_damaged_checkpoint_statistics_count_as_absent(
    copied_table: Path, kinds: list[str], bounded: int, write_checksums: bool, caplog: pytest.LogCaptureFixture
) -> None:
    zero_pages(copied_table, kinds, write_checksums=write_checksums)
    assert Lake(copied_table).ids() == IDS
    assert count_upper_bounds(Lake(copied_table)) == bounded
    lake = Lake(copied_table)
    for number in range(12, 20):
        committed(lake.append([100 + number]))
    assert len(caplog.records) >= 1
    caplog.clear()
    shutil.copy(copied_table / checkpoint_path(20), copied_table / checkpoint_path(20).replace("checkpoint", "copy"))
    for version in range(20):
        (copied_table / commit_path(version)).unlink()
    (copied_table / checkpoint_path(10)).unlink()
    assert Lake(copied_table).ids() == [*IDS, *range(112, 120)]
    assert count_upper_bounds(Lake(copied_table)) == bounded + 8
    assert read_with_delta_rs(str(copied_table), "id")["id"].to_pylist() == [*IDS, *range(112, 120)]
    assert not caplog.records


def test_files_with_damaged_statistics_accept_deletes(copied_table: Path) -> None:
    zero_pages(copied_table, ["stats", "stats_parsed"], write_checksums=True)
    lake = Lake(copied_table)
    committed(lake.append([1000, 1001, 1002]))
    (path,) = (file["path"] for file in lake.table.snapshot().files().rows.to_pylist() if file["records"] == 3)
    first = sorted(set(lake.table.snapshot().files().paths) - {path})[0]
    committed(lake.commit("DELETE", deleted={path: Positions([1])}))
    committed(lake.commit("DELETE", removed=(first,)))
    assert len(Lake(copied_table).ids()) == len(IDS) + 1


BAD = {
    "no JSON": "{{{",
    "a list": "[1]",
    "nested deeply": '{"a":' * 50_000,
    "a huge number": '{"numRecords":' + "9" * 5000 + "}",
    "a huge exponent": '{"numRecords":1e999999999,"minValues":{"id":1e-999999999}}',
    "a negative count": '{"numRecords":-1,"nullCount":{"id":-1}}',
    "other types": '{"numRecords":"1","minValues":{"id":"a"},"maxValues":[],"nullCount":{"id":true},"tightBounds":"no"}',
}


@pytest.mark.parametrize("case", BAD)
def test_unreadable_commit_statistics_count_as_absent(copied_table: Path, case: str) -> None:
    commit_copy(copied_table, 13, BAD[case])
    lake = Lake(copied_table)
    assert lake.ids() == [0, *IDS]
    (row,) = (row for row in lake.table.snapshot().files(("id",)).rows.to_pylist() if row["path"].endswith("copy-13.parquet"))
    assert (row["records"], row["lower"]["id"], row["upper"]["id"], row["nulls"]["id"]) == (None, None, None, None)
    path = row["path"]
    for number in range(12, 19):
        committed(lake.append([100 + number]))
    text, struct = checkpoint_statistics(copied_table, 20)["copy-13.parquet"]
    assert struct["minValues"]["id"] is None and struct["maxValues"]["id"] is None
    assert text is None or isinstance(json.loads(text), dict)
    assert len(read_with_delta_rs(str(copied_table), "id")) == len(IDS) + 8
    lake = Lake(copied_table)
    committed(lake.commit("DELETE", deleted={path: Positions([0])}))
    assert len(Lake(copied_table).ids()) == len(IDS) + 7


@pytest.mark.parametrize("parsed", [True, False])
def test_unreadable_statistics_are_not_copied_into_checkpoints(copied_table: Path, parsed: bool) -> None:
    lake = Lake(copied_table)
    commit_copy(copied_table, 13, "{{{")
    from rowmerge.table.commits.request import CommitRequest
    from rowmerge.table.metadata.shape import TableDefinition

    properties = {"delta.checkpoint.writeStatsAsStruct": str(parsed).lower()}
    committed(lake.table.commit(lake.table.snapshot(), CommitRequest("SET", definition=TableDefinition(properties=properties))))
    for number in range(12, 18):
        committed(lake.append([100 + number]))
    adds = [add for add in pq.read_table(copied_table / checkpoint_path(20))["add"].to_pylist() if add is not None]
    texts = {add["path"]: add["stats"] for add in adds}
    assert texts.pop("copy-13.parquet") is None
    assert all(json.loads(text)["numRecords"] == 1 for text in texts.values())


def test_a_maximum_timestamp_beyond_the_type_range_is_ignored() -> None:
    from rowmerge.delta.files.statistics_reading import read_statistics
    from rowmerge.table.metadata.schema import Field, Primitive

    stats = '{"numRecords":1,"minValues":{"t":"2020-01-01T00:00:00Z"},"maxValues":{"t":"%s"}}'
    batch = pa.record_batch({"stats": pa.array([stats % "294247-01-10T04:00:54.775Z", stats % "2021-01-01T00:00:00Z"])})
    upper = read_statistics(batch, [Field("t", Primitive("timestamp"))]).upper.field("t").cast(pa.int64()).to_pylist()
    assert upper[0] is None or upper[0] > upper[1]
    assert upper[1] == 1609459200001000


def outcome(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except CorruptLog as error:
        return error.path


def test_a_checkpoint_with_random_byte_changes_is_read_correctly_or_skipped(copied_table: Path) -> None:
    """Page checksums detect damaged values; damaged lengths and headers must not crash the reader."""
    path = copied_table / checkpoint_path(10)
    content, random_ = path.read_bytes(), random.Random(7)
    for _ in range(examples(gate=60, full=600)):
        damaged = bytearray(content)
        start = random_.randrange(len(content))
        for at in range(start, min(start + random_.choice([1, 4, 64]), len(content))):
            damaged[at] = random_.randrange(256)
        path.write_bytes(damaged)
        lake = Lake(copied_table)
        assert lake.ids() == IDS
        assert 2 <= count_upper_bounds(lake) <= 13
        assert len(list(lake.table.snapshot().state.files.tables())) >= 1


@pytest.mark.parametrize("case", [*BAD, "valid"])
def test_statistics_of_other_types_are_reported_once_for_each_table(
    copied_table: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    valid = '{"numRecords":3,"minValues":{"id":0},"maxValues":{"id":9},"nullCount":{"id":0}}'
    commit_copy(copied_table, 13, BAD.get(case, valid))
    for _ in range(2):
        assert len(Lake(copied_table).table.snapshot().files(("id",))) > 1
    messages = [record.getMessage() for record in caplog.records if "wrong type or length" in record.getMessage()]
    # A negative count has the type of a count.
    assert len(messages) == (case not in ("valid", "a negative count"))
