"""CONVERT TO DELTA makes Delta tables of folders of Parquet files, which every reader reads."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowmerge
from rowmerge.delta import DeltaTable
from rowmerge.errors import AlreadyExists, FilesNotFound, PlanError, TypeMismatch, UnreadableDataFile, ValueOutOfRange
from rowmerge.storage.store import Storage
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of


@pytest.fixture
def folder(session: rowmerge.Session, tmp_path: Path) -> Path:
    """Return a folder that Spark wrote, with nested columns, and partitions whose values have special characters and are NULL."""
    rows = session.spark.range(20).selectExpr(
        "id",
        "named_struct('a', id, 'b', cast(id as decimal(10, 2))) as s",
        "array(id) as list",
        "date_add(date'2024-01-01', cast(id as int)) as d",
        "if(id = 7, double('NaN'), id / 2) as x",
        "cast(id % 3 as int) as p",
        "case when id % 2 = 0 then 'a b/c%' else null end as q",
    )
    rows.coalesce(1).write.partitionBy("p", "q").parquet(str(tmp_path / "files"))
    return tmp_path / "files"


def _convert(session: rowmerge.Session, folder: Path, clauses: str = "partitioned by (p int, q string)") -> None:
    session.sql(f"convert to delta parquet.`{folder}` {clauses}")
    session.sql(f"create table if not exists t using delta location '{folder}'")


def test_all_readers_read_the_converted_rows(session: rowmerge.Session, folder: Path) -> None:
    files = sorted(path.name for path in folder.rglob("*.parquet"))
    expected = session.spark.read.parquet(str(folder)).orderBy("id").select("id", "s.b", "list", "d", "p", "q").collect()
    _convert(session, folder)
    assert session.sql("select id, s.b, list, d, p, q from t order by id").collect() == expected
    assert sorted(path.name for path in folder.rglob("*.parquet")) == files
    for rows in (read_with_delta_rs(str(folder), "id"), read_with_duckdb(str(folder), "id")):
        assert rows_of(rows.select(["id", "d", "p", "q"])) == [(row.id, row.d, row.p, row.q) for row in expected]
    history = session.sql("describe history t").collect()[0]
    assert (history["operation"], history["operationMetrics"]["numConvertedFiles"]) == ("CONVERT", str(len(files)))
    session.sql(f"convert to delta parquet.`{folder}` partitioned by (p int, q string)")  # does nothing
    session.sql("merge into t using (select 3 as id) s on t.id = s.id when matched then update set p = 9")
    assert session.sql("select count(*), max(p) from t").collect() == [(20, 9)]


def test_statistics_exclude_files_but_not_those_with_nan(session: rowmerge.Session, folder: Path) -> None:
    _convert(session, folder)
    assert session.execute("select * from t where s.a = 19").scans[0].files == 1
    assert session.sql("select id from t where x > 1000").collect() == [(7,)]
    adds = pa.table(deltalake.DeltaTable(str(folder)).get_add_actions(flatten=True)).to_pylist()
    bounds = {(add["min.id"], add["max.id"], add["min.s.b"], add["null_count.d"]) for add in adds}
    assert (0, 18, Decimal("0.00"), 0) in bounds
    assert {add["min.d"] for add in adds} >= {datetime.date(2024, 1, 1)}
    assert all(add.get("max.x") is None for add in adds)


def test_files_without_statistics_are_all_read(session: rowmerge.Session, folder: Path) -> None:
    _convert(session, folder, "no statistics partitioned by (p int, q string)")
    files = session.execute("select * from t where s.a = 4").scans[0].files
    assert files == 6
    assert session.sql("select id from t where s.a = 4").collect() == [(4,)]


def test_columns_of_all_files_are_merged(session: rowmerge.Session, tmp_path: Path) -> None:
    folder = tmp_path / "merged"
    (folder / "nested").mkdir(parents=True)
    (folder / "_hidden").mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "one.parquet")
    pq.write_table(pa.table({"id": [2], "extra": ["x"]}), folder / "two.parquet")
    (folder / "_SUCCESS").touch()
    pq.write_table(pa.table({"other": [1]}), folder / "_hidden" / "file.parquet")
    (folder / "nested").rmdir()
    _convert(session, folder, "")
    assert session.sql("select * from t order by id").collect() == [(1, None), (2, "x")]


def test_wrong_folders_are_reported_and_stay_as_they_are(session: rowmerge.Session, folder: Path, tmp_path: Path) -> None:
    for clauses, error, message in (
        ("", PlanError, r"has the partition columns \(p, q\)"),
        ("partitioned by (q string, p int)", PlanError, "but the statement has"),
        ("partitioned by (p int, q date)", ValueOutOfRange, "q"),
        ("partitioned by (p int, q timestamp)", TypeMismatch, "timestamp_ntz"),
    ):
        with pytest.raises(error, match=message):
            session.sql(f"convert to delta parquet.`{folder}` {clauses}")
    with pytest.raises(FilesNotFound):
        session.sql(f"convert to delta parquet.`{tmp_path}/missing`")
    (folder / "p=0" / "q=a b" / "text").mkdir(parents=True)
    (folder / "p=0" / "q=a b" / "text" / "note.parquet").write_text("not Parquet")
    with pytest.raises(UnreadableDataFile, match="note"):
        session.sql(f"convert to delta parquet.`{folder}` partitioned by (p int, q string)")
    assert not (folder / "_delta_log").exists()
    session.sql("create table i (id int) using iceberg")
    location = session.describe("default", "i").location
    pq.write_table(pa.table({"id": [1]}), f"{location.removeprefix('file://')}/one.parquet")
    with pytest.raises(AlreadyExists):
        session.sql(f"convert to delta parquet.`{location}`")


def test_a_table_that_another_writer_creates_first_wins(session: rowmerge.Session, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = DeltaTable.create

    def create_second(table, *arguments):
        deltalake.write_deltalake(str(folder), pa.table({"id": [5]}))
        return create(table, *arguments)

    monkeypatch.setattr(DeltaTable, "create", create_second)
    with pytest.raises(AlreadyExists, match="concurrent"):
        session.sql(f"convert to delta parquet.`{folder}` partitioned by (p int, q string)")
    assert DeltaTable(Storage(str(folder)), "t").snapshot().version == 0
    assert deltalake.DeltaTable(str(folder)).to_pyarrow_table().to_pylist() == [{"id": 5}]
