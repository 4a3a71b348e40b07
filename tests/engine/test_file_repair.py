"""VACUUM LITE, VACUUM with an inventory, and FSCK REPAIR TABLE, on files that are removed, unknown or missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowmerge
from rowmerge.errors import MissingDataFile, PlanError, Unparsable

FORMATS = ["delta", "iceberg"]


@pytest.fixture
def retained(session: rowmerge.Session) -> Iterator[rowmerge.Session]:
    """Yield a session without the check of short retentions."""
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    yield session
    session.sql("reset spark.databricks.delta.retentionDurationCheck.enabled")


def _folder(session: rowmerge.Session) -> Path:
    return Path(session.describe("default", "t").location.removeprefix("file://"))


def _data_files(session: rowmerge.Session) -> set[str]:
    return {path.name for path in _folder(session).rglob("*.parquet") if "_delta_log" not in path.parts}


def _create(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id int) using {format_} tblproperties ('rowmerge.write.mode' = 'copy-on-write')")
    session.sql("insert into t values (1)")
    session.sql("insert into t values (2)")


@pytest.mark.parametrize("format_", FORMATS)
def test_lite_deletes_removed_files_and_full_also_unknown_ones(retained: rowmerge.Session, format_: str) -> None:
    _create(retained, format_)
    old_files = _data_files(retained)
    retained.sql("delete from t where id = 1")
    orphan = next(_folder(retained).rglob("*.parquet")).parent / "orphan.parquet"
    orphan.write_bytes(b"orphan")
    listed = retained.sql("vacuum t lite retain 0 hours dry run").collect()
    assert {path.rpartition("/")[2] for (path,) in listed} & old_files == old_files - _live_names(retained)
    assert _data_files(retained) == old_files | {"orphan.parquet"}
    retained.sql("vacuum t lite retain 0 hours")
    assert _data_files(retained) == _live_names(retained) | {"orphan.parquet"}
    retained.sql("vacuum t full retain 0 hours")
    assert _data_files(retained) == _live_names(retained)
    assert retained.sql("select * from t").collect() == [(2,)]


def _live_names(session: rowmerge.Session) -> set[str]:
    return {path.rpartition("/")[2] for path in session.table("t").inputFiles()}


def test_lite_reads_only_versions_since_the_last_vacuum(bare_session: rowmerge.Session) -> None:
    retained = bare_session  # other readers need the deleted version
    retained.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    _create(retained, "delta")
    retained.sql("delete from t where id = 1")
    retained.sql("vacuum t retain 0 hours")
    log = _folder(retained) / "_delta_log"
    recorded = json.loads((log / "_last_vacuum_info").read_text())["latestCommitVersionOutsideOfRetentionWindow"]
    assert recorded == 3
    (log / "00000000000000000001.json").unlink()  # as a cleanup does
    retained.sql("delete from t where id = 2")
    retained.sql("vacuum t lite retain 0 hours")
    assert _data_files(retained) == set()
    (log / "_last_vacuum_info").unlink()
    with pytest.raises(PlanError, match=r"no longer has the version 0.*FULL"):
        retained.sql("vacuum t lite retain 0 hours")
    retained.sql("reset spark.databricks.delta.retentionDurationCheck.enabled")


@pytest.mark.parametrize("format_", FORMATS)
def test_an_inventory_replaces_the_listing(retained: rowmerge.Session, format_: str) -> None:
    _create(retained, format_)
    folder = _folder(retained)
    live = next(path for path in folder.rglob("*.parquet") if path.name in _data_files(retained))
    for name in ("listed.parquet", "unlisted.parquet"):
        (live.parent / name).write_bytes(b"orphan")
    files = f"'{live}', 'file:{live.parent}/listed.parquet', '/elsewhere/x.parquet'"
    query = f"(select explode(array({files})) as path, 1 as length, false as isDir, 1000 as modificationTime)"
    retained.sql(f"vacuum t using inventory {query} retain 0 hours dry run")
    assert "listed.parquet" in _data_files(retained)
    retained.sql(f"vacuum t using inventory {query} retain 0 hours")
    assert _data_files(retained) == _live_names(retained) | {"unlisted.parquet"}
    retained.sql("select 'x' as path, 1 as length, false as isDir").createOrReplaceTempView("inventory")
    with pytest.raises(PlanError, match="modificationTime"):
        retained.sql("vacuum t using inventory inventory")
    with pytest.raises(Unparsable, match="takes no inventory"):
        retained.sql("vacuum t lite using inventory inventory")
    retained.sql("vacuum t retain 0 hours")


@pytest.mark.parametrize("format_", FORMATS)
def test_repair_removes_files_that_do_not_exist(session: rowmerge.Session, format_: str) -> None:
    _create(session, format_)
    assert session.sql("fsck repair table t").collect() == []
    version = session.describe("default", "t").version
    (lost,) = session.table("t", "id = 1").inputFiles()
    Path(lost.removeprefix("file://")).unlink()
    assert session.sql("fsck repair table t dry run").collect() == [(lost, True, None, False)]
    assert session.describe("default", "t").version == version
    assert session.sql("fsck repair table t").collect() == [(lost, True, None, False)]
    assert session.sql("select * from t").collect() == [(2,)]
    assert session.sql("describe history t").collect()[0]["operation"] == "FSCK"
    assert session.sql("fsck repair table t").collect() == []


def test_repair_removes_files_whose_deletion_vector_does_not_exist(session: rowmerge.Session) -> None:
    session.sql("create table t (id int) using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    session.sql("insert into t values (1), (2)")
    session.sql("insert into t values (3)")
    session.sql("delete from t where id = 1")
    (vector,) = _folder(session).glob("*.bin")
    vector.unlink()
    ((path, is_missing, vector_path, is_vector_missing),) = session.sql("fsck repair table t").collect()
    assert (is_missing, is_vector_missing, vector_path) == (False, True, f"file://{vector}")
    assert path.endswith(".parquet")
    assert session.sql("select * from t").collect() == [(3,)]


def test_missing_delete_files_of_iceberg_are_reported(session: rowmerge.Session) -> None:
    session.sql("create table t (id int) using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    session.sql("insert into t values (1), (2)")
    session.sql("delete from t where id = 1")
    (deletes,) = _folder(session).rglob("*deletes*")
    rows = deletes.read_bytes()
    deletes.unlink()
    with pytest.raises(MissingDataFile, match="deletes"):
        session.sql("fsck repair table t")
    deletes.write_bytes(rows)
