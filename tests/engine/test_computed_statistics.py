"""ANALYZE TABLE … COMPUTE DELTA STATISTICS: new statistics in the log, which no other commit makes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import rowmerge
from rowmerge.execution import table_change
from tests.engine.conftest import assert_independent_readers_agree


def actions(location: str) -> pa.RecordBatch:
    return DeltaTable(location).get_add_actions(flatten=True)


def test_delta_rs_finds_the_statistics_and_the_log_keeps_its_totals(session: rowmerge.Session) -> None:
    session.sql(
        "create table t (id bigint, s struct<a: string>, p int) using delta partitioned by (p) tblproperties "
        "('delta.dataSkippingNumIndexedCols' = '0', 'rowmerge.write.mode' = 'merge-on-read', 'delta.columnMapping.mode' = 'name')"
    )
    session.sql("insert into t select id, named_struct('a', if(id = 4, null, concat('v', id))), id % 2 from range(0, 10, 1, 1)")
    session.sql("delete from t where id in (8, 9)")
    session.sql("alter table t set tblproperties ('delta.dataSkippingNumIndexedCols' = '-1')")
    location = session.describe("default", "t").location
    session.sql("analyze table t compute delta statistics")
    log = Path(location.removeprefix("file://"), "_delta_log")
    added = [json.loads(line)["add"] for line in (log / f"{4:020}.json").read_text().splitlines() if '"add"' in line]
    assert {add["dataChange"] for add in added} == {False}
    statistics = [json.loads(add["stats"]) for add in added]
    assert sorted(next(iter(each["maxValues"].values())) for each in statistics) == [6, 7]
    assert {each["numRecords"] for each in statistics} == {5}
    assert all("deletionVector" in add for add in added)
    checksum = json.loads((log / f"{4:020}.crc").read_text())
    assert (checksum["numFiles"], checksum["tableSizeBytes"]) == (2, sum(add["size"] for add in added))
    assert session.sql("select count(*) from t").collect()[0][0] == 8
    session.sql("insert into t values (100, null, 0)")
    assert [row.id for row in session.sql("select id from t where s.a is null order by id").collect()] == [4, 100]


def test_a_table_of_another_writer_without_statistics_gets_them(bare_session: rowmerge.Session, tmp_path: Path) -> None:
    folder = str(tmp_path / "foreign")
    rows = pa.table({"id": [3, 1, 2], "t": pa.array([1, None, 2], pa.timestamp("us", tz="UTC"))})
    write_deltalake(folder, rows, configuration={"delta.dataSkippingNumIndexedCols": "0"})
    bare_session.sql(f"create table t using delta location '{folder}'")
    bare_session.sql("alter table t unset tblproperties ('delta.dataSkippingNumIndexedCols')")
    bare_session.sql("analyze table t compute delta statistics")
    batch = actions(folder)
    assert (batch["min.id"].to_pylist(), batch["max.id"].to_pylist(), batch["null_count.t"].to_pylist()) == ([1], [3], [1])


def test_statistics_of_a_file_that_a_concurrent_commit_changes_are_computed_again(
    session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("create table t (id bigint) using delta tblproperties ('rowmerge.write.mode' = 'copy-on-write')")
    session.sql("insert into t select id from range(0, 10, 1, 1)")
    compute, calls = table_change.computed_statistics, []

    def compute_and_lose_the_race(*arguments: object) -> object:
        files = compute(*arguments)
        if not calls:
            session.sql("delete from t where id > 5")
        calls.append(files)
        return files

    monkeypatch.setattr(table_change, "computed_statistics", compute_and_lose_the_race)
    session.sql("analyze table t compute delta statistics")
    assert len(calls) == 2
    assert sorted(row.id for row in session.sql("select id from t").collect()) == [0, 1, 2, 3, 4, 5]
    assert_independent_readers_agree(session)
