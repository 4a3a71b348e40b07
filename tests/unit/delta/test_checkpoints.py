"""Checkpoints contain the whole state of a table, other readers read them, and damaged checkpoints are skipped."""

from __future__ import annotations

import datetime
import json
import logging
from decimal import Decimal as Number
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmerge.delta.log.checkpoint_reading import read_checkpoint
from rowmerge.delta.log.checkpoints import checkpoint_tables, try_checkpoint, write_checkpoint
from rowmerge.delta.log.log_files import Checkpoint, checkpoint_path, commit_path
from rowmerge.errors import StorageError
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.schema import Array, Decimal, Field, Primitive, Struct
from rowmerge.table.snapshots.files import Positions
from tests.support.delta_tables import Lake, committed
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of

SCHEMA = Struct(
    (
        Field("id", Primitive("long")),
        Field("name", Primitive("string")),
        Field("price", Decimal(12, 3)),
        Field("at", Primitive("timestamp")),
        Field("day", Primitive("date")),
        Field("list", Array(Primitive("long"))),
        Field("p", Primitive("integer")),
    )
)


def rows(*ids: int) -> pa.Table:
    moment = datetime.datetime(2024, 1, 1, 0, 0, 0, 999999, tzinfo=datetime.timezone.utc)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"é{i}" * 20 for i in ids]),
            "price": pa.array([Number(i) / 8 for i in ids], pa.decimal128(12, 3)),
            "at": pa.array([moment + datetime.timedelta(days=i) for i in ids], pa.timestamp("us", tz="UTC")),
            "day": pa.array([datetime.date(2024, 1, 1 + i % 28) for i in ids]),
            "list": pa.array([[i] for i in ids], pa.list_(pa.int64())),
        }
    )


def checkpoint_lake(folder: Path, **properties: str) -> Lake:
    """Create a table of five versions with three partitions, one of them null, a deletion vector, a removed file and a transaction."""
    lake = Lake(folder, SCHEMA, ("p",))
    files = [lake.write(rows(n, n + 10, n + 20), f"p={n}", {"p": n or None}) for n in range(3)]
    names = {name.replace("__", "."): value for name, value in properties.items()}
    committed(lake.create(*files, properties=names))
    committed(lake.commit("DELETE", deleted={files[0].path: Positions([1])}))
    committed(lake.commit("DELETE", deleted={files[0].path: Positions([1, 2])}, removed=(files[1].path,)))
    committed(lake.commit("WRITE", added=(lake.write(rows(7), "p=1", {"p": 1}),), transaction=("app", 3)))
    return lake


def with_checkpoint_only(lake: Lake) -> Lake:
    """Write a checkpoint of the newest version, delete all older commits, and reopen the table."""
    state = lake.table.snapshot().state
    write_checkpoint(Storage(str(lake.folder)), state)
    for version in range(state.version):
        (lake.folder / commit_path(version)).unlink()
    return Lake(lake.folder, SCHEMA, ("p",))


LAYOUTS = [
    {},
    {"delta__checkpoint__writeStatsAsStruct": "true"},
    {"delta__checkpoint__writeStatsAsStruct": "true", "delta__checkpoint__writeStatsAsJson": "false"},
    {"delta__checkpoint__writeStatsAsStruct": "false", "delta__checkpoint__writeStatsAsJson": "false"},
    {"delta__checkpoint__writeStatsAsStruct": "false"},
    {"delta__checkpointPolicy": "v2"},
]


@pytest.mark.parametrize("properties", LAYOUTS)
def test_a_checkpoint_contains_the_whole_state(tmp_path: Path, properties: dict[str, str]) -> None:
    lake = checkpoint_lake(tmp_path, **properties)
    original = lake.table.snapshot()
    restored = with_checkpoint_only(lake).table.snapshot()
    assert (restored.version, restored.protocol, restored.metadata) == (original.version, original.protocol, original.metadata)
    assert restored.state.transactions == original.state.transactions
    assert restored.state.tombstones["key"].to_pylist() == original.state.tombstones["key"].to_pylist()
    columns = SCHEMA.names if properties != LAYOUTS[3] else ()
    expected = original.files(columns).rows.to_pylist()
    files = restored.files(columns).rows.to_pylist()
    if properties == LAYOUTS[3]:
        expected = [{**row, "records": None} for row in expected]
    assert files == expected
    paths = original.files().paths
    assert restored.deleted_positions(paths) == original.deleted_positions(paths)


@pytest.mark.parametrize("properties", LAYOUTS)
def test_other_readers_read_the_table_from_the_checkpoint_only(tmp_path: Path, properties: dict[str, str]) -> None:
    lake = checkpoint_lake(tmp_path, **properties)
    expected = rows_of(read_with_delta_rs(str(tmp_path), "id"))
    with_checkpoint_only(lake)
    assert [row[0] for row in expected] == [0, 2, 7, 12, 22]
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == expected
    assert rows_of(read_with_duckdb(str(tmp_path), "id")) == expected


def test_commits_after_a_checkpoint_with_struct_statistics_keep_file_statistics(tmp_path: Path) -> None:
    lake = with_checkpoint_only(checkpoint_lake(tmp_path, **LAYOUTS[2]))
    file = lake.table.snapshot().files(["id"]).rows.to_pylist()[0]
    committed(lake.commit("DELETE", deleted={file["path"]: Positions([0])}))
    (marked,) = [row for row in lake.table.snapshot().files(["id", "at"]).rows.to_pylist() if row["path"] == file["path"]]
    assert (marked["lower"]["id"], marked["upper"]["id"], marked["records"]) == (file["lower"]["id"], file["upper"]["id"], file["records"])
    stats = [line for line in (lake.folder / commit_path(4)).read_text().splitlines() if line.startswith('{"add"')]
    assert json.loads(json.loads(stats[0])["add"]["stats"])["tightBounds"] is False
    assert rows_of(read_with_duckdb(str(tmp_path), "id")) == rows_of(read_with_delta_rs(str(tmp_path), "id"))


def test_a_file_without_statistics_gets_a_deletion_vector(tmp_path: Path) -> None:
    lake = with_checkpoint_only(checkpoint_lake(tmp_path, **LAYOUTS[3]))
    marked = next(row["path"] for row in lake.table.snapshot().files().rows.to_pylist() if row["partition"]["p"] == 2)
    committed(lake.commit("DELETE", deleted={marked: Positions([0])}))
    counts = {row["path"]: (row["records"], row["deleted"]) for row in lake.table.snapshot().files().rows.to_pylist()}
    assert counts[marked] == (3, 1)
    assert len(read_with_duckdb(str(tmp_path), "id")) == 4


def test_expired_tombstones_are_not_checkpointed(tmp_path: Path) -> None:
    state = checkpoint_lake(tmp_path).table.snapshot().state
    now = max(state.tombstones["deletionTimestamp"].to_pylist())
    week = 7 * 24 * 3600 * 1000
    tombstones = [pa.concat_tables(checkpoint_tables(state, now + age))["remove"].drop_null() for age in (0, week - 1000_000, week + 1)]
    assert [len(rows) for rows in tombstones] == [3, 3, 0]
    assert tombstones[0].to_pylist()[0]["extendedFileMetadata"] is True


def test_a_replaced_deletion_vector_has_its_own_tombstone(tmp_path: Path) -> None:
    state = checkpoint_lake(tmp_path).table.snapshot().state
    marked = [row for row in state.tombstones.to_pylist() if row["deletionVector"]]
    assert len(marked) == 1
    assert marked[0]["deletionVector"]["cardinality"] == 1


def test_checkpoints_are_written_at_the_checkpoint_interval(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties={"delta.checkpointInterval": "3"}))
    for version in range(1, 8):
        committed(lake.append([version]))
    names = sorted(path.name for path in lake.log.glob("*.checkpoint.parquet"))
    assert names == [f"{version:020d}.checkpoint.parquet" for version in (3, 6)]
    hint = json.loads((lake.log / "_last_checkpoint").read_text())
    assert (hint["version"], hint["numOfAddFiles"]) == (6, 6)


def test_an_unwritable_checkpoint_does_not_fail_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties={"delta.checkpointInterval": "1"}))
    (lake.folder / checkpoint_path(1)).mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        assert committed(lake.append([1])) == 1
    assert "Cannot write the checkpoint of version 1" in caplog.text
    assert lake.ids() == [1]


class Full(Storage):
    """Storage without free space."""

    def put(self, path: str, data: bytes) -> None:
        raise StorageError(f"{self.location}/{path}", "no space left on device")


def test_a_failed_checkpoint_is_logged_as_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = checkpoint_lake(tmp_path).table.snapshot().state
    with caplog.at_level(logging.WARNING):
        try_checkpoint(Full(str(tmp_path)), state)
    assert "no space left" in caplog.text


def test_partition_values_are_read_from_parsed_struct_only(tmp_path: Path) -> None:
    lake = checkpoint_lake(tmp_path, **LAYOUTS[1])
    with_checkpoint_only(lake)
    path = lake.folder / checkpoint_path(3)
    table = pq.read_table(path)
    adds = table["add"].combine_chunks()
    fields = [field for field in adds.type if field.name != "partitionValues"]
    mask = adds.is_null()
    slim = pa.StructArray.from_arrays([adds.field(field.name) for field in fields], fields=fields, mask=mask)
    pq.write_table(table.set_column(table.column_names.index("add"), "add", slim), path)
    state = read_checkpoint(Storage(str(tmp_path)), Checkpoint(3, (checkpoint_path(3),), 0))
    assert sorted(str(row["p"]) for row in state.files.column("partition").to_pylist()) == ["1", "2", "None"]
