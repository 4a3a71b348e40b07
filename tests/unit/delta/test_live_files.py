"""Versions of a table share file lists in memory, and statistics are read once and on demand."""

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
    """Create a table of five files of ten rows each, all of them in a checkpoint."""
    lake = Lake(tmp_path / "t")
    committed(lake.create(*(lake.file(range(start, start + 10)) for start in range(0, 50, 10)), properties=VECTORS))
    write_checkpoint(Storage(str(lake.folder)), lake.table.snapshot().state)
    lake.table = DeltaTable(Storage(str(lake.folder)), "s.t")
    return lake


def bounds(snapshot: DeltaSnapshot) -> list[tuple[Any, ...]]:
    files = snapshot.files(("id",)).rows.to_pylist()
    return sorted((f["records"], f["deleted"], f["lower"]["id"], f["upper"]["id"], f["nulls"]["id"] or 0) for f in files)


def test_blocks_of_many_commits_are_merged(lake: Lake) -> None:
    for id_ in range(100, 110):
        committed(lake.append([id_]))
    snapshot = lake.table.snapshot()
    assert len(snapshot.state.files.blocks) == 1
    assert bounds(snapshot) == bounds(DeltaTable(Storage(str(lake.folder)), "s.t").snapshot())


def test_versions_share_large_blocks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.delta.files.live_files._MAX_MERGED_FILES", 2)
    base = lake.table.snapshot()
    files = base.files(("id",)).paths
    committed(lake.append([100]))
    appended = lake.table.snapshot()
    assert appended.state.files.blocks[0] is base.state.files.blocks[0]
    committed(lake.commit("DELETE", removed=(files[0],)))
    deleted = lake.table.snapshot()
    assert [block.rows.num_rows for block in deleted.state.files.blocks] == [4, 1]
    assert deleted.state.files.blocks[0].source is base.state.files.blocks[0].source
    assert bounds(deleted) == sorted([*bounds(base), (1, 0, 100, 100, 0)][1:])
    assert [len(side) for side in (deleted.difference(base).own_sizes, deleted.difference(base).other_sizes)] == [1, 1]


def test_a_deletion_vector_keeps_the_bounds_of_a_checkpointed_file(lake: Lake) -> None:
    path = lake.table.snapshot().files().paths[0]
    committed(lake.commit("DELETE", deleted={path: Positions([0, 3])}))
    assert (10, 2, 0, 9, 0) in bounds(lake.table.snapshot())
    assert bounds(lake.table.snapshot()) == bounds(DeltaTable(Storage(str(lake.folder)), "s.t").snapshot())


def with_typed_statistics(lake: Lake, *fields: str) -> DeltaSnapshot:
    """Return a snapshot of a checkpoint whose typed statistics have these fields and differ from those in JSON."""
    path = lake.folder / checkpoint_path(0)
    table = pq.read_table(path)
    adds = table["add"].to_pylist()
    for add in adds:
        if add is not None:
            statistics = json.loads(add["stats"])
            typed = {**statistics, "numRecords": 77, "tightBounds": True}
            add["stats_parsed"] = {name: typed[name] for name in ("minValues", "maxValues", "nullCount", *fields)}
    values = pa.array(adds, adds_type(table.schema.field("add").type, fields))
    pq.write_table(table.set_column(table.column_names.index("add"), "add", values), path)
    return DeltaTable(Storage(str(lake.folder)), "s.t").snapshot()


def adds_type(add_type: pa.StructType, fields: tuple[str, ...]) -> pa.StructType:
    sides = pa.struct([("id", pa.int64()), ("name", pa.string())])
    counts = pa.struct([("id", pa.int64()), ("name", pa.int64())])
    optional_types = {"numRecords": pa.int64(), "tightBounds": pa.bool_()}
    typed = pa.struct(
        [("minValues", sides), ("maxValues", sides), ("nullCount", counts), *((name, optional_types[name]) for name in fields)]
    )
    return pa.struct([*(field for field in add_type if field.name != "stats_parsed"), ("stats_parsed", typed)])


def test_typed_checkpoint_statistics_are_used_without_json(lake: Lake) -> None:
    snapshot = with_typed_statistics(lake, "numRecords")
    assert {row[0] for row in bounds(snapshot)} == {77}
    assert isinstance(snapshot.state.files.blocks[0].source, CheckpointStatistics)


def test_typed_statistics_without_tight_bounds_are_not_used_for_deleted_rows(lake: Lake) -> None:
    path = lake.table.snapshot().files().paths[0]
    committed(lake.commit("DELETE", deleted={path: Positions([0])}))
    write_checkpoint(Storage(str(lake.folder)), lake.table.snapshot().state)
    (lake.folder / checkpoint_path(0)).unlink()
    (lake.folder / checkpoint_path(1)).rename(lake.folder / checkpoint_path(0))
    (lake.log / f"{0:020d}.json").unlink()
    (lake.log / f"{1:020d}.json").unlink()
    (lake.log / "_last_checkpoint").unlink()
    delete_checksums(lake.folder)
    assert {row[0] for row in bounds(with_typed_statistics(lake, "numRecords"))} == {10}
    assert {row[0] for row in bounds(with_typed_statistics(lake, "numRecords", "tightBounds"))} == {77}
