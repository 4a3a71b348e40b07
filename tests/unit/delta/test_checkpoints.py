"""Checkpoints hold the whole state of a table, other readers read them, and damaged ones are skipped."""

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


def made(folder: Path, **properties: str) -> Lake:
    """Three partitions (one of them null), one file marked, one removed, a transaction: five versions."""
    lake = Lake(folder, SCHEMA, ("p",))
    files = [lake.write(rows(n, n + 10, n + 20), f"p={n}", {"p": n or None}) for n in range(3)]
    names = {name.replace("__", "."): value for name, value in properties.items()}
    committed(lake.create(*files, properties=names))
    committed(lake.commit("DELETE", deleted={files[0].path: Positions([1])}))
    committed(lake.commit("DELETE", deleted={files[0].path: Positions([1, 2])}, removed=(files[1].path,)))
    committed(lake.commit("WRITE", added=(lake.write(rows(7), "p=1", {"p": 1}),), transaction=("app", 3)))
    return lake


def only_checkpoint(lake: Lake) -> Lake:
    """The table after a checkpoint of its newest version, with all older commits gone."""
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
def test_a_checkpoint_holds_the_whole_state(tmp_path: Path, properties: dict[str, str]) -> None:
    lake = made(tmp_path, **properties)
    before = lake.table.snapshot()
    after = only_checkpoint(lake).table.snapshot()
    assert (after.version, after.protocol, after.metadata) == (before.version, before.protocol, before.metadata)
    assert after.state.transactions == before.state.transactions
    assert after.state.tombstones["key"].to_pylist() == before.state.tombstones["key"].to_pylist()
    columns = SCHEMA.names if properties != LAYOUTS[3] else ()
    expected = before.files(columns).rows.to_pylist()
    found = after.files(columns).rows.to_pylist()
    if properties == LAYOUTS[3]:
        expected = [{**row, "records": None} for row in expected]
    assert found == expected
    paths = before.files().paths
    assert after.deleted_positions(paths) == before.deleted_positions(paths)


@pytest.mark.parametrize("properties", LAYOUTS)
def test_other_readers_read_from_our_checkpoint_alone(tmp_path: Path, properties: dict[str, str]) -> None:
    lake = made(tmp_path, **properties)
    before = rows_of(read_with_delta_rs(str(tmp_path), "id"))
    only_checkpoint(lake)
    assert [row[0] for row in before] == [0, 2, 7, 12, 22]
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == before
    assert rows_of(read_with_duckdb(str(tmp_path), "id")) == before


def test_work_goes_on_after_a_checkpoint_with_statistics_as_structs_alone(tmp_path: Path) -> None:
    lake = only_checkpoint(made(tmp_path, **LAYOUTS[2]))
    file = lake.table.snapshot().files(["id"]).rows.to_pylist()[0]
    committed(lake.commit("DELETE", deleted={file["path"]: Positions([0])}))
    (after,) = [row for row in lake.table.snapshot().files(["id", "at"]).rows.to_pylist() if row["path"] == file["path"]]
    assert (after["lower"]["id"], after["upper"]["id"], after["records"]) == (file["lower"]["id"], file["upper"]["id"], file["records"])
    stats = [line for line in (lake.folder / commit_path(4)).read_text().splitlines() if line.startswith('{"add"')]
    assert json.loads(json.loads(stats[0])["add"]["stats"])["tightBounds"] is False
    assert rows_of(read_with_duckdb(str(tmp_path), "id")) == rows_of(read_with_delta_rs(str(tmp_path), "id"))


def test_a_file_without_any_statistics_can_be_marked(tmp_path: Path) -> None:
    lake = only_checkpoint(made(tmp_path, **LAYOUTS[3]))
    marked = next(row["path"] for row in lake.table.snapshot().files().rows.to_pylist() if row["partition"]["p"] == 2)
    committed(lake.commit("DELETE", deleted={marked: Positions([0])}))
    after = {row["path"]: (row["records"], row["deleted"]) for row in lake.table.snapshot().files().rows.to_pylist()}
    assert after[marked] == (3, 1)
    assert len(read_with_duckdb(str(tmp_path), "id")) == 4


def test_expired_tombstones_are_left_out(tmp_path: Path) -> None:
    state = made(tmp_path).table.snapshot().state
    now = max(state.tombstones["deletionTimestamp"].to_pylist())
    week = 7 * 24 * 3600 * 1000
    kept = [pa.concat_tables(checkpoint_tables(state, now + later))["remove"].drop_null() for later in (0, week - 1000_000, week + 1)]
    assert [len(rows) for rows in kept] == [3, 3, 0]
    assert kept[0].to_pylist()[0]["extendedFileMetadata"] is True


def test_a_removed_vector_stays_a_tombstone_of_its_own(tmp_path: Path) -> None:
    state = made(tmp_path).table.snapshot().state
    marked = [row for row in state.tombstones.to_pylist() if row["deletionVector"]]
    assert len(marked) == 1
    assert marked[0]["deletionVector"]["cardinality"] == 1


def test_a_checkpoint_is_written_every_so_many_commits(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties={"delta.checkpointInterval": "3"}))
    for version in range(1, 8):
        committed(lake.append([version]))
    found = sorted(path.name for path in lake.log.glob("*.checkpoint.parquet"))
    assert found == [f"{version:020d}.checkpoint.parquet" for version in (3, 6)]
    hint = json.loads((lake.log / "_last_checkpoint").read_text())
    assert (hint["version"], hint["numOfAddFiles"]) == (6, 6)


def test_a_checkpoint_that_cannot_be_written_does_not_fail_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties={"delta.checkpointInterval": "1"}))
    (lake.folder / checkpoint_path(1)).mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        assert committed(lake.append([1])) == 1
    assert "No checkpoint of version 1" in caplog.text
    assert lake.ids() == [1]


class Full(Storage):
    """A disk without room."""

    def put(self, path: str, data: bytes) -> None:
        raise StorageError(f"{self.location}/{path}", "no space left on device")


def test_a_failed_checkpoint_is_only_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = made(tmp_path).table.snapshot().state
    with caplog.at_level(logging.WARNING):
        try_checkpoint(Full(str(tmp_path)), state)
    assert "no space left" in caplog.text


def test_partition_values_may_be_there_as_a_struct_alone(tmp_path: Path) -> None:
    lake = made(tmp_path, **LAYOUTS[1])
    only_checkpoint(lake)
    path = lake.folder / checkpoint_path(3)
    table = pq.read_table(path)
    adds = table["add"].combine_chunks()
    fields = [field for field in adds.type if field.name != "partitionValues"]
    mask = adds.is_null()
    slim = pa.StructArray.from_arrays([adds.field(field.name) for field in fields], fields=fields, mask=mask)
    pq.write_table(table.set_column(table.column_names.index("add"), "add", slim), path)
    state = read_checkpoint(Storage(str(tmp_path)), Checkpoint(3, (checkpoint_path(3),), 0))
    assert sorted(str(row["p"]) for row in state.files.column("partition").to_pylist()) == ["1", "2", "None"]
