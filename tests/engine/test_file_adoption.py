"""CONVERT TO DELTA and SHALLOW CLONE make Delta tables of the files of Iceberg tables and of Parquet folders, without copying them."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge
from rowmerge.errors import AlreadyExists, FilesNotFound, PlanError, RowmergeError, TypeMismatch, UnsupportedTableFeature
from tests.support.checksums import check_checksums
from tests.support.readers import read_with_delta_rs, rows_of

ROWS = [(number, f"v{number}", number % 2) for number in range(10) if number != 3]


@pytest.fixture
def folder(bare_session: rowmerge.Session, tmp_path: Path) -> Path:
    """Return the folder of an Iceberg table with a partition column, nested columns and a position delete."""
    columns = "id bigint not null, v string, s struct<a: int>, l array<int>, p int"
    bare_session.sql(
        f"create table i ({columns}) using iceberg partitioned by (p, bucket(2, id)) "
        f"location '{tmp_path}/i' tblproperties ('rowmerge.write.mode' = 'merge-on-read') comment 'numbers'"
    )
    bare_session.sql("insert into i select id, concat('v', id), named_struct('a', int(id)), array(int(id)), int(id % 2) from range(10)")
    bare_session.sql("delete from i where id = 3")
    return tmp_path / "i"


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob("data/**/*.parquet")}


def test_the_files_of_an_iceberg_table_become_those_of_a_delta_table(bare_session: rowmerge.Session, folder: Path) -> None:
    """VACUUM of the Delta table deletes files of the Iceberg table, which other readers can then no longer read."""
    files = _files(folder)
    bare_session.sql(f"convert to delta iceberg.`{folder}`")
    table = f"delta.`{folder}`"
    assert bare_session.sql(f"select id, v, p from {table} order by id").collect() == ROWS
    assert bare_session.sql(f"select s.a, l[0] from {table} where id = 4").collect() == [(4, 4)]
    assert _files(folder) == files
    assert rows_of(read_with_delta_rs(str(folder), "id").select(["id", "p", "v"])) == [(id_, p, v) for id_, v, p in ROWS]
    detail = bare_session.sql(f"describe detail {table}").collect()[0]
    assert (detail["partitionColumns"], detail["description"], detail["format"]) == (["p"], "numbers", "delta")
    assert bare_session.execute(f"select * from {table} where id = 9").scans[0].files == 1
    assert bare_session.sql(f"describe history {table}").collect()[0]["operation"] == "CONVERT"
    bare_session.sql(f"convert to delta iceberg.`{folder}`")  # does nothing
    bare_session.sql(f"update {table} set v = 'u' where id = 1")
    bare_session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    bare_session.sql(f"vacuum {table} retain 0 hours")
    assert bare_session.sql(f"select count(*) from {table} where v = 'u'").collect() == [(1,)]
    assert (folder / "metadata/version-hint.text").exists()
    with pytest.raises(PlanError, match=r"gc\.enabled"):
        bare_session.sql("vacuum i")


def test_a_clone_reads_files_whose_columns_had_other_names(bare_session: rowmerge.Session, folder: Path) -> None:
    """The names of two columns are exchanged, and the partition column gets a new name: bounds and values follow the ids.

    delta-rs looks up columns by name in this column mapping mode, so it cannot read the clone. Delta Lake on Spark reads such clones.
    """
    clone = f"create or replace table c shallow clone iceberg.`{folder}`"
    bare_session.sql("alter table i add column w string")
    bare_session.sql("insert into i values (100, 'x', null, null, 0, 'y')")
    bare_session.sql(clone)
    for old, new in (("v", "other"), ("w", "v"), ("other", "w"), ("p", "q")):
        bare_session.sql(f"alter table i rename column {old} to {new}")
    bare_session.sql("alter table i drop column s")
    row = bare_session.sql(clone).collect()[0]
    assert (row["num_removed_files"], row["num_copied_files"]) == (0, 0)
    assert bare_session.sql("select id, v, w, q from c where v = 'y'").collect() == [(100, "y", "x", 0)]
    assert bare_session.sql("select id, w, q from c where id < 100 and w >= 'v' order by id").collect() == ROWS
    assert bare_session.sql("select q, count(*) from c group by q order by q").collect() == [(0, 6), (1, 4)]
    bare_session.sql("alter table c add column s int")
    assert bare_session.sql("select count(s) from c").collect() == [(0,)]  # the id of the dropped column is not used again
    bare_session.sql("update c set v = 'new' where id = 2")
    assert bare_session.sql("select v from c where id = 2").collect() == [("new",)]
    assert bare_session.sql("select count(*) from i").collect() == [(10,)]
    assert bare_session.sql("select id, v, p from c version as of 0 where id = 4").collect() == [(4, "v4", 0)]


def test_a_repeated_clone_keeps_the_files_that_stay(session: rowmerge.Session, folder: Path) -> None:
    clone = f"create or replace table c shallow clone iceberg.`{folder}`"
    session.sql(clone)
    session.sql("insert into i values (20, 'v20', null, null, 0)")
    session.sql("delete from i where id = 4")
    session.sql(clone)
    assert session.sql("select count(*), max(id) from c").collect() == [(9, 20)]
    log = Path(session.sql("describe detail c").collect()[0]["location"].removeprefix("file://")) / "_delta_log"
    actions = (log / f"{1:020d}.json").read_text().splitlines()
    # Those with deleted rows get new deletion vectors. The other files stay.
    assert sum(action.startswith('{"remove"') for action in actions) == 2
    assert check_checksums(str(log.parent)) == 2
    with pytest.raises(AlreadyExists):
        session.sql(f"create table c shallow clone iceberg.`{folder}`")


def test_a_commit_to_the_iceberg_table_during_the_conversion_prevents_it(
    session: rowmerge.Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rowmerge.session.statements import conversion

    files_of_iceberg = conversion.files_of_iceberg

    def insert_meanwhile(source):  # type: ignore[no-untyped-def]
        session.sql("insert into i values (50, 'late', null, null, 0)")
        return files_of_iceberg(source)

    monkeypatch.setattr(conversion, "files_of_iceberg", insert_meanwhile)
    with pytest.raises(AlreadyExists, match="another statement"):
        session.sql(f"convert to delta iceberg.`{folder}`")
    assert not list(folder.glob("_delta_log/*.json"))
    assert session.sql("select count(*) from i").collect() == [(10,)]
    monkeypatch.undo()
    session.sql(f"convert to delta iceberg.`{folder}`")
    assert session.sql(f"select count(*) from delta.`{folder}`").collect() == [(10,)]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("alter table i alter column p type bigint", TypeMismatch),
        ("create or replace table i (id int default 5) using iceberg tblproperties ('format-version' = '3')", None),
    ],
)
def test_tables_that_delta_cannot_have_are_errors_and_stay(
    session: rowmerge.Session, folder: Path, change: str, error: type[RowmergeError] | None
) -> None:
    session.sql(change)
    if error is None:
        session.sql("insert into i values (1)")
        session.sql("alter table i add column d int default 7")
        error = UnsupportedTableFeature
    with pytest.raises(error):
        session.sql(f"convert to delta iceberg.`{folder}`")
    with pytest.raises(error):
        session.sql(f"create table c shallow clone iceberg.`{folder}`")
    assert not (folder / "_delta_log").exists()
    assert session.sql("show tblproperties i ('gc.enabled')").collect()[0]["value"] != "false"


def test_a_clone_of_a_parquet_folder_has_its_partitions(session: rowmerge.Session, tmp_path: Path) -> None:
    rows = session.spark.range(6).selectExpr("id", "if(id % 2 = 0, 'a b', null) as p")
    rows.write.partitionBy("p").parquet(str(tmp_path / "files"))
    source = f"parquet.`{tmp_path}/files`"
    session.sql(f"create table c shallow clone {source} tblproperties ('delta.logRetentionDuration' = '3 days')")
    assert session.sql("select p, count(*) from c group by p order by p").collect() == [(None, 3), ("a b", 3)]
    assert session.sql("show tblproperties c ('delta.logRetentionDuration')").collect()[0]["value"] == "3 days"
    location = session.sql("describe detail c").collect()[0]["location"].removeprefix("file://")
    assert len(read_with_delta_rs(location, "id")) == 6
    rows.where("id = 0").write.mode("append").partitionBy("p").parquet(str(tmp_path / "files"))
    session.sql(f"create or replace table c shallow clone {source}")
    assert session.sql("select count(*) from c").collect() == [(7,)]
    for statement, error in {
        f"create table d clone {source}": PlanError,
        f"create table d shallow clone {source} version as of 1": PlanError,
        f"create table d shallow clone parquet.`{tmp_path}/missing`": FilesNotFound,
        f"create table c shallow clone {source}": AlreadyExists,
    }.items():
        with pytest.raises(error):
            session.sql(statement)
    assert [row["tableName"] for row in session.sql("show tables").collect()] == ["c"]


def test_an_iceberg_session_clones_to_iceberg(iceberg_session: rowmerge.Session, tmp_path: Path) -> None:
    iceberg_session.sql(f"create table i (id int) location '{tmp_path}/i'")
    iceberg_session.sql("insert into i values (1)")
    iceberg_session.sql(f"create table c shallow clone iceberg.`{tmp_path}/i`")
    assert iceberg_session.sql("describe detail c").collect()[0]["format"] == "iceberg"


@pytest.fixture
def iceberg_session(session: rowmerge.Session, tmp_path: Path) -> rowmerge.Session:
    return rowmerge.connect(str(tmp_path / "iceberg"), spark=session.spark, default_format="iceberg")


def test_session_tables_are_converted_and_tables_of_the_catalog_name_their_path(session: rowmerge.Session, tmp_path: Path) -> None:
    session.spark.range(5).write.parquet(str(tmp_path / "plain"))
    session.spark.sql("drop table if exists spark_catalog.default.plain")
    session.spark.sql(f"create table spark_catalog.default.plain using parquet location '{tmp_path}/plain'")
    session.sql("convert to delta default.plain")
    assert session.sql("describe detail plain").collect()[0]["format"] == "delta"
    assert session.sql("select count(*) from plain").collect() == [(5,)]
    assert not session.spark.catalog.tableExists("spark_catalog.default.plain")
    session.sql("convert to delta plain")  # does nothing
    session.sql("create table i (id int) using iceberg")
    session.sql("create view v as select 1 as one")
    for statement, message in {
        "convert to delta i": "CONVERT TO DELTA iceberg",
        "convert to delta v": "is a view",
        f"convert to delta iceberg.`{tmp_path}/x` partitioned by (p int)": "Leave PARTITIONED BY out",
    }.items():
        with pytest.raises(PlanError, match=message):
            session.sql(statement)
