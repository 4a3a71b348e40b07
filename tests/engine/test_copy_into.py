"""COPY INTO loads each file once, also beside other statements, after a kill, and after logs and snapshots are cleaned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import deltalake
import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import (
    ConfigurationError,
    ConstraintViolated,
    FilesNotFound,
    PlanError,
    TypeMismatch,
    UnknownColumn,
    UnsupportedStatement,
    ValueOutOfRange,
)
from tests.engine.interleaving import overtaken

ROOT = Path(__file__).parents[2]
DYING = """
import sys
from rowmerge.catalog import DirectoryCatalog
from rowmerge.session.startup.embedded import start_spark
from rowmerge.session.session import Session
from tests.support.jvm import SPARK_SETTINGS
from tests.support.faulty_storage import Fault, FaultyStorage, Kind
fault = Fault(Kind.KILLED)
session = Session(DirectoryCatalog(FaultyStorage(sys.argv[1], fault)), start_spark(SPARK_SETTINGS), "default", "delta", owns_spark=True)
for name in ("first", "second"):
    fault.calls.clear()
    session.sql(f"copy into {sys.argv[4]} from '{sys.argv[2]}/{name}.json' fileformat = json")
fault.at = len(fault.calls) + int(sys.argv[3])
fault.calls.clear()
session.sql(f"copy into {sys.argv[4]} from '{sys.argv[2]}' fileformat = json")
"""
FORMATS = ["delta", "iceberg"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two files, whose names are also patterns."""
    folder = tmp_path / "landing"
    folder.mkdir()
    _write(folder / "a [1].csv", "1,x", "2,y")
    _write(folder / "b.csv", "3,z")
    return folder


def _write(path: Path, *rows: str, header: str = "id,name") -> None:
    path.write_text("\n".join([header, *rows, ""]))


def _copy(folder: Path, clauses: str = "") -> str:
    return f"copy into t from '{folder}' fileformat = csv {clauses} format_options ('header' = 'true', inferSchema = true)"


def _create(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint, name string) using {format_}")


def _ids(session: rowmerge.Session) -> list[int]:
    return [row[0] for row in session.sql("select id from t order by id").collect()]


@pytest.mark.parametrize("format_", FORMATS)
def test_each_file_is_loaded_once_unless_forced(session: rowmerge.Session, folder: Path, format_: str) -> None:
    _create(session, format_)
    assert session.sql(_copy(folder)).collect() == [(3, 3, 0)]
    assert session.sql(_copy(folder)).collect() == [(0, 0, 0)]
    _write(folder / "b.csv", "30,changed")  # a changed file counts as loaded
    _write(folder / "c.csv", "4,w")
    assert session.sql(_copy(folder)).collect() == [(1, 1, 0)]
    assert session.sql(_copy(folder, "pattern = '[bc].csv'") + " copy_options ('force' = 'true')").collect() == [(2, 2, 0)]
    assert _ids(session) == [1, 2, 3, 4, 4, 30]
    assert session.sql("show tblproperties t").where("key like 'rowmerge.%'").count() == 0
    session.sql(f"create or replace table t (id bigint, name string) using {format_}")
    assert session.sql(_copy(folder)).collect() == [(4, 4, 0)]
    assert session.sql(_copy(folder)).collect() == [(0, 0, 0)]


@pytest.mark.parametrize("format_", FORMATS)
def test_files_select_and_columns_choose_what_is_loaded(session: rowmerge.Session, folder: Path, format_: str) -> None:
    _create(session, format_)
    source = f"(select f.id + 10 as id, upper(_metadata.file_name) as name from '{folder}' f)"
    session.sql(f"copy into t from {source} fileformat = csv files = ('b.csv') format_options (header = true, inferSchema = true)")
    assert session.sql("select * from t").collect() == [(13, "B.CSV")]
    (folder / "plain.csv").write_text("seven,7\n")
    columns = f"from (select _c0, cast(_c1 as bigint) from '{folder}') fileformat = csv files = ('plain.csv')"
    assert session.sql(f"copy into t (name, id) {columns}").collect() == [(1, 1, 0)]
    (folder / "other.csv").write_text("8\n")
    by_position = f"from (select cast(_c0 as bigint), 'eight' from '{folder}') fileformat = csv pattern = 'oth*'"
    assert session.sql(f"copy into t by position {by_position}").collect() == [(1, 1, 0)]
    assert session.sql("select * from t order by id").collect() == [(7, "seven"), (8, "eight"), (13, "B.CSV")]


@pytest.mark.parametrize("format_", FORMATS)
def test_files_beside_partition_folders_are_not_left_out(session: rowmerge.Session, folder: Path, format_: str) -> None:
    _create(session, format_)
    (folder / "day=2024-01-01").mkdir()
    _write(folder / "day=2024-01-01" / "c.csv", "4,w")
    with pytest.raises(UnsupportedStatement, match=r"partition folders day=….*recursiveFileLookup"):
        session.sql(_copy(folder))
    session.sql(_copy(folder, "pattern = '*.csv'"))
    assert _ids(session) == [1, 2, 3]
    session.sql(f"copy into t from '{folder}' fileformat = csv format_options ('header' = 'true', 'recursiveFileLookup' = 'true')")
    assert _ids(session) == [1, 2, 3, 4]


@pytest.mark.parametrize("format_", FORMATS)
def test_validate_checks_rows_and_loads_none(session: rowmerge.Session, folder: Path, format_: str) -> None:
    session.sql(f"create table t (id bigint not null, name string) using {format_}")
    assert sorted(session.sql(_copy(folder, "validate")).collect()) == [(1, "x"), (2, "y"), (3, "z")]
    assert len(session.sql(_copy(folder, "validate 2 rows")).collect()) == 2
    _write(folder / "c.csv", ",no id")
    with pytest.raises(ConstraintViolated):
        session.sql(_copy(folder, "validate all"))
    with pytest.raises(ConstraintViolated):
        session.sql(_copy(folder))
    table = Path(session.describe("default", "t").location.removeprefix("file://"))
    assert not list(table.rglob("*.parquet"))
    assert session.sql(_copy(folder, "files = ('b.csv')")).collect() == [(1, 1, 0)]


@pytest.mark.parametrize("format_", FORMATS)
def test_new_columns_are_added_only_with_merge_schema(session: rowmerge.Session, folder: Path, format_: str) -> None:
    _create(session, format_)
    session.sql(_copy(folder))
    _write(folder / "c.csv", "4,w,9", header="id,name,extra")
    with pytest.raises(UnknownColumn, match="extra"):
        session.sql(_copy(folder))
    assert session.sql(_copy(folder) + " copy_options ('mergeSchema' = 'true')").collect() == [(1, 1, 0)]
    assert session.sql("select * from t where id >= 3 order by id").collect() == [(3, "z", None), (4, "w", 9)]


@pytest.mark.parametrize("format_", FORMATS)
def test_files_that_cannot_be_loaded_are_reported(session: rowmerge.Session, folder: Path, format_: str) -> None:
    _create(session, format_)
    with pytest.raises(FilesNotFound, match=r"missing\.csv"):
        session.sql(_copy(folder, "files = ('b.csv', 'missing.csv')"))
    _write(folder / "c.csv", "four,w")
    with pytest.raises(ValueOutOfRange, match="four"):
        session.sql(f"copy into t from '{folder}' fileformat = csv format_options (header = true)")
    with pytest.raises(TypeMismatch, match="name"):
        session.sql(f"copy into t from (select struct(1) as name from '{folder}') fileformat = csv")
    assert _ids(session) == []
    if format_ == "iceberg":
        session.sql("insert into t values (1, 'x')")
        session.sql("alter table t create branch b")
        with pytest.raises(PlanError, match="branch"):
            session.sql(_copy(folder).replace("into t", "into default.t.branch_b"))
        with pytest.raises(ConfigurationError, match="COPY INTO records"):
            session.sql("alter table t set tblproperties ('rowmerge.copy-into.1' = 'x')")


@pytest.mark.parametrize("format_", FORMATS)
def test_of_two_statements_only_one_loads_a_file(spark: SparkSession, tmp_path: Path, folder: Path, format_: str) -> None:
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    _create(session, format_)
    loser, winners = overtaken(spark, str(tmp_path / "warehouse"), _copy(folder), _copy(folder, "files = ('b.csv')"))
    assert [winners[0].frame.collect(), loser.frame.collect()] == [[(1, 1, 0)], [(2, 2, 0)]]
    assert (_ids(session), loser.attempts) == ([1, 2, 3], 2)
    _write(folder / "c.csv", "4,w")
    _write(folder / "d.csv", "5,v")
    other_file, _ = overtaken(spark, str(tmp_path / "warehouse"), _copy(folder, "files = ('c.csv')"), _copy(folder, "files = ('d.csv')"))
    beside, _ = overtaken(
        spark, str(tmp_path / "warehouse"), "insert into t values (6, 'u')", _copy(folder) + " copy_options (force = true)"
    )
    assert (other_file.attempts, beside.attempts) == (1, 1)
    assert session.sql(_copy(folder)).collect() == [(0, 0, 0)]
    assert len(_ids(session)) == 11


@pytest.mark.parametrize("format_", FORMATS)
def test_loaded_files_survive_the_cleanup_of_logs_and_snapshots(session: rowmerge.Session, folder: Path, format_: str) -> None:
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    _create(session, format_)
    session.sql(_copy(folder))
    session.sql("delete from t where id = 1")
    location = session.describe("default", "t").location
    if format_ == "delta":
        log = Path(location.removeprefix("file://")) / "_delta_log"
        session.sql("alter table t set tblproperties ('delta.logRetentionDuration' = 'interval 0 hours')")
        table = deltalake.DeltaTable(location)
        table.create_checkpoint()
        for commit in log.glob("*.json"):
            commit.unlink()
    else:
        session.sql("call system.expire_snapshots(table => 't', older_than => current_timestamp(), retain_last => 1)")
    session.sql("vacuum t retain 0 hours")
    session.sql("reset spark.databricks.delta.retentionDurationCheck.enabled")
    fresh = rowmerge.connect(str(Path(location.removeprefix("file://")).parents[1]), spark=session.spark)
    assert fresh.sql(_copy(folder)).collect() == [(0, 0, 0)]
    assert _ids(fresh) == [2, 3]


def test_a_sql_catalog_loads_each_file_once(spark: SparkSession, tmp_path: Path, folder: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/w"}
    session = rowmerge.connect(catalog=catalog, spark=spark)
    session.sql("create schema default")
    _create(session, "iceberg")
    others = [rowmerge.connect(catalog=catalog, spark=spark) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        loaded = list(pool.map(lambda other: other.sql(_copy(folder)).collect()[0][0], others))
    assert (sorted(loaded), _ids(session)) == ([0, 3], [1, 2, 3])


@pytest.mark.one_of("format_", "point")
@pytest.mark.parametrize(("format_", "point"), [("delta", -2), ("delta", 0), ("iceberg", -1), ("iceberg", 0)])
def test_a_killed_statement_loads_all_files_or_none(spark: SparkSession, tmp_path: Path, format_: str, point: int) -> None:
    """Kill at a storage call near the put of the commit, and run the statement again."""
    folder = tmp_path / "landing"
    folder.mkdir()
    for number, name in enumerate(("first", "second", "third", "fourth")):
        (folder / f"{name}.json").write_text(f'{{"id": {number}}}\n')
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    session.sql(f"create table t (id bigint) using {format_}")
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    arguments = [sys.executable, "-c", DYING, str(tmp_path / "warehouse"), str(folder), str(point), "t"]
    # The process that dies starts its own Spark, also if this one uses a server.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    process = subprocess.run(arguments, env={**variables, "PYTHONPATH": path}, capture_output=True, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    killed_with = _ids(session)
    assert killed_with in ([0, 1], [0, 1, 2, 3])
    again = session.sql(f"copy into t from '{folder}' fileformat = json").collect()
    assert again == [(4 - len(killed_with), 4 - len(killed_with), 0)]
    assert _ids(session) == [0, 1, 2, 3]
