"""Maintenance of tables in pyiceberg's catalogs works as in the directory catalog, and pyiceberg reads them after each step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table as PyIcebergTable

from rowmerge.catalog import IcebergCatalog
from rowmerge.execution.compaction import optimize
from rowmerge.execution.restore_and_clone import restore
from rowmerge.iceberg.maintenance.reachable import file_key, needed_files
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.maintenance import ExpiryOptions, OrphanOptions, VacuumOptions
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, Positions
from tests.support.delta_tables import ID_NAME, committed
from tests.support.rest_catalog import serving
from tests.support.table_operations import NO_SPARK, write_rows


@pytest.fixture(params=["sql", "rest"])
def configuration(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/elsewhere"}
    if request.param == "sql":
        yield sql
        return
    with serving(sql) as uri:
        yield {"type": "rest", "uri": uri}


def test_maintenance_keeps_the_rows_of_a_catalog_table(configuration: dict[str, Any], tmp_path: Path) -> None:
    catalog = IcebergCatalog(configuration, str(tmp_path / "w"))
    catalog.create_schema("raw")
    table = catalog.new_table("raw", "t", "iceberg")
    committed(table.create(TableDefinition(ID_NAME, (), {}, None), CommitRequest("CREATE TABLE")))

    def load_pyiceberg_table() -> PyIcebergTable:
        return load_catalog("default", **configuration).load_table("raw.t")

    def read() -> list[int]:
        ids: list[int] = sorted(load_pyiceberg_table().scan().to_arrow()["id"].to_pylist())
        return ids

    def change(**files: Any) -> int:
        return committed(table.commit(table.snapshot(), CommitRequest("WRITE", files=FileChanges(**files), reads=Reads())))

    for first in (0, 10, 20):
        change(added=write_rows(table.snapshot(), range(first, first + 3)))
    paths = table.snapshot().files().paths
    second = change(deleted={path: Positions([1]) for path in paths})
    maintenance = table.maintenance
    assert maintenance is not None
    assert maintenance.rewrite_manifests().added == 1
    assert maintenance.rewrite_position_deletes().rewritten == 0
    load_pyiceberg_table().manage_snapshots().create_tag(second, "kept").commit()
    optimize(NO_SPARK, table, None)
    assert read() == [0, 2, 10, 12, 20, 22]
    restore(table, {}, version=second, timestamp=None)
    assert read() == [0, 2, 10, 12, 20, 22]
    time.sleep(0.005)
    result = maintenance.expire(ExpiryOptions(older_than=time.time_ns() // 1_000_000))
    assert (result.data_files, result.manifest_lists) == (1, 5), "what was written together; of three appends and two rewritings"
    assert {snapshot.snapshot_id for snapshot in load_pyiceberg_table().snapshots()} == {second}
    storage = Storage(table.location)
    storage.put("data/left.parquet", b"left over")
    time.sleep(0.005)
    (path,) = maintenance.remove_orphan_files(OrphanOptions(time.time_ns() // 1_000_000, dry_run=True))
    assert path.endswith("/data/left.parquet")
    table.vacuum(VacuumOptions(retain_hours=0, check_retention=False))
    root = f"{file_key(table.location)}/"
    metadata = {path for path in (o.path for o in storage.list("metadata")) if path.endswith(".metadata.json")}
    needed = {path.removeprefix(root) for path in needed_files(storage, load_pyiceberg_table().metadata)}
    assert {o.path for o in storage.list()} - metadata == needed
    assert read() == [0, 2, 10, 12, 20, 22]
