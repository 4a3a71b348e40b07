"""What versions of a table have in common is held once, and statistics are read once, and only when they are asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.files.file_statistics import CheckpointStatistics
from rowmerge.delta.log.checkpoints import write_checkpoint
from rowmerge.delta.log.log_files import checkpoint_path
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions
from tests.support.delta_tables import Lake, committed, delete_checksums

VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Five files of ten rows, all of them in a checkpoint."""
    lake = Lake(tmp_path / "t")
    committed(lake.create(*(lake.file(range(start, start + 10)) for start in range(0, 50, 10)), properties=VECTORS))
    write_checkpoint(Storage(str(lake.folder)), lake.table.snapshot().state)
    lake.table = DeltaTable(Storage(str(lake.folder)), "s.t")
    return lake


def bounds(snapshot: DeltaSnapshot) -> list[tuple[Any, ...]]:
    files = snapshot.files(("id",)).rows.to_pylist()
    return sorted((f["records"], f["deleted"], f["lower"]["id"], f["upper"]["id"], f["nulls"]["id"] or 0) for f in files)


def test_many_commits_leave_few_blocks(lake: Lake) -> None:
    for id_ in range(100, 110):
        committed(lake.append([id_]))
    snapshot = lake.table.snapshot()
    assert len(snapshot.state.files.blocks) == 1
    assert bounds(snapshot) == bounds(DeltaTable(Storage(str(lake.folder)), "s.t").snapshot())


def test_a_large_block_is_the_next_versions_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.delta.files.live_files._MOST_MERGED_FILES", 2)
    before = lake.table.snapshot()
    files = before.files(("id",)).paths
    committed(lake.append([100]))
    appended = lake.table.snapshot()
    assert appended.state.files.blocks[0] is before.state.files.blocks[0]
    committed(lake.commit("DELETE", removed=(files[0],)))
    after = lake.table.snapshot()
    assert [block.rows.num_rows for block in after.state.files.blocks] == [4, 1]
    assert after.state.files.blocks[0].source is before.state.files.blocks[0].source
    assert bounds(after) == sorted([*bounds(before), (1, 0, 100, 100, 0)][1:])
    assert [len(side) for side in (after.difference(before).own_sizes, after.difference(before).other_sizes)] == [1, 1]


def test_marked_rows_of_a_file_from_a_checkpoint_leave_its_bounds(lake: Lake) -> None:
    path = lake.table.snapshot().files().paths[0]
    committed(lake.commit("DELETE", deleted={path: Positions([0, 3])}))
    assert (10, 2, 0, 9, 0) in bounds(lake.table.snapshot())
    assert bounds(lake.table.snapshot()) == bounds(DeltaTable(Storage(str(lake.folder)), "s.t").snapshot())


def typed_alone(lake: Lake, *fields: str) -> DeltaSnapshot:
    """The table with a checkpoint whose typed statistics have these fields; those in JSON say something else."""
    path = lake.folder / checkpoint_path(0)
    table = pq.read_table(path)
    adds = table["add"].to_pylist()
    for add in adds:
        if add is not None:
            told = json.loads(add["stats"])
            typed = {**told, "numRecords": 77, "tightBounds": True}
            add["stats_parsed"] = {name: typed[name] for name in ("minValues", "maxValues", "nullCount", *fields)}
    values = pa.array(adds, adds_type(table.schema.field("add").type, fields))
    pq.write_table(table.set_column(table.column_names.index("add"), "add", values), path)
    return DeltaTable(Storage(str(lake.folder)), "s.t").snapshot()


def adds_type(known: pa.StructType, fields: tuple[str, ...]) -> pa.StructType:
    sides = pa.struct([("id", pa.int64()), ("name", pa.string())])
    counts = pa.struct([("id", pa.int64()), ("name", pa.int64())])
    told = {"numRecords": pa.int64(), "tightBounds": pa.bool_()}
    typed = pa.struct([("minValues", sides), ("maxValues", sides), ("nullCount", counts), *((name, told[name]) for name in fields)])
    return pa.struct([*(field for field in known if field.name != "stats_parsed"), ("stats_parsed", typed)])


def test_typed_statistics_of_a_checkpoint_are_enough(lake: Lake) -> None:
    snapshot = typed_alone(lake, "numRecords")
    assert {row[0] for row in bounds(snapshot)} == {77}
    assert isinstance(snapshot.state.files.blocks[0].source, CheckpointStatistics)


def test_typed_statistics_that_do_not_say_whether_bounds_are_tight_are_not_enough_where_rows_are_deleted(lake: Lake) -> None:
    path = lake.table.snapshot().files().paths[0]
    committed(lake.commit("DELETE", deleted={path: Positions([0])}))
    write_checkpoint(Storage(str(lake.folder)), lake.table.snapshot().state)
    (lake.folder / checkpoint_path(0)).unlink()
    (lake.folder / checkpoint_path(1)).rename(lake.folder / checkpoint_path(0))
    (lake.log / f"{0:020d}.json").unlink()
    (lake.log / f"{1:020d}.json").unlink()
    (lake.log / "_last_checkpoint").unlink()
    delete_checksums(lake.folder)
    assert {row[0] for row in bounds(typed_alone(lake, "numRecords"))} == {10}
    assert {row[0] for row in bounds(typed_alone(lake, "numRecords", "tightBounds"))} == {77}
