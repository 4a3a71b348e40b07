"""Statements that import, copy, describe or rename tables, while another session renames, drops, replaces or cleans these tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import AlreadyExists, CommitStateUnknown, MissingDataFile, PlanError, TableNotFound
from rowmerge.table.commits import copies
from tests.engine.interleaving import overtaken

pytestmark = pytest.mark.one_of("format_")
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
ADD = "call system.add_files('t', 'parquet.`{folder}`')"
COPY = "copy into t from '{folder}' fileformat = parquet"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    pq.write_table(pa.table({"id": pa.array([100, 101], pa.int64())}), folder / "x.parquet")
    return folder


def ids(session: rowmerge.Session, table: str) -> list[Any]:
    return sorted(row[0] for row in session.sql(f"select id from {table}").collect())


@FORMATS
def test_files_are_added_once_to_the_table_that_has_them_in_the_end(
    bare_session: rowmerge.Session, spark: SparkSession, tmp_path: Path, folder: Path, format_: str
) -> None:
    warehouse, add, copy = str(tmp_path / "warehouse"), ADD.format(folder=folder), COPY.format(folder=folder)

    def create() -> None:
        bare_session.sql(f"create table t (id bigint) using {format_}")
        bare_session.sql("insert into t values (1)")

    create()
    with pytest.raises(PlanError, match="already contains"):
        overtaken(spark, warehouse, add, add)
    assert ids(bare_session, "t") == [1, 100, 101]
    overtaken(spark, warehouse, copy, "alter table t rename to renamed")
    assert ids(bare_session, "renamed") == [1, 100, 100, 101, 101]
    for statement in (add, copy):
        create()
        with pytest.raises(TableNotFound):
            overtaken(spark, warehouse, statement, "drop table t")
        assert [table.name for table in bare_session.relations("default")] == ["renamed"] and (folder / "x.parquet").exists()


@FORMATS
def test_files_are_not_added_to_a_table_with_another_partitioning(
    bare_session: rowmerge.Session, spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    """The files lack the partition column, so a table without partitions would read NULL."""
    files = tmp_path / "files"
    spark.sql("select 1L as id, 'x' as p").write.partitionBy("p").parquet(str(files))
    bare_session.sql(f"create table t (id bigint, p string) using {format_} partitioned by (p)")
    replace = f"create or replace table t (id bigint, p string) using {format_}"
    with pytest.raises(PlanError, match="changed the partitioning"):
        overtaken(spark, str(tmp_path / "warehouse"), ADD.format(folder=files), replace)
    assert bare_session.sql("select * from t").collect() == []


@FORMATS
def test_a_clone_whose_source_loses_its_files_is_not_created(
    bare_session: rowmerge.Session, spark: SparkSession, tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VACUUM of the source runs after the clone has read the version, and before it copies the files."""
    bare_session.sql(f"create table t using {format_} as select id from range(3)")
    other = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    monkeypatch.setattr(copies, "copy_objects", preceded(lambda: _rewrite_and_vacuum(other), copies.copy_objects))
    with pytest.raises(MissingDataFile):
        bare_session.sql("create table c clone t")
    monkeypatch.undo()
    bare_session.sql("create table c clone t")
    assert ids(bare_session, "c") == [10, 11, 12]


def _rewrite_and_vacuum(session: rowmerge.Session) -> None:
    session.sql("update t set id = id + 10")
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    session.sql("vacuum t retain 0 hours")


def preceded(action: Callable[[], object], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `action` before its first call of `function`."""
    waiting = [action]

    def call(*arguments: Any, **options: Any) -> Any:
        while waiting:
            waiting.pop()()
        return function(*arguments, **options)

    return call


@pytest.fixture(params=[True, False], ids=["catalog folder", "session folder"])
def connect(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Callable[[], rowmerge.Session]:
    """Return a function that connects with a SQL catalog. Either the catalog or the session has the folder of new tables."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    if request.param:
        catalog["warehouse"] = f"file://{tmp_path}/w"
    location = None if request.param else str(tmp_path / "w")
    rowmerge.connect(location, catalog=catalog, spark=spark).sql("create schema raw")
    return lambda: rowmerge.connect(location, catalog=catalog, spark=spark, schema="raw")


@pytest.mark.parametrize(
    ("statement", "winner", "error", "tables"),
    [
        (ADD, ADD, PlanError, {"t": [1, 100, 101]}),
        (ADD, "drop table t", CommitStateUnknown, {}),
        (COPY, COPY, None, {"t": [1, 100, 101]}),
        (COPY, "alter table t rename to u", CommitStateUnknown, {"u": [1]}),
        ("create table c like t", "create table c (id int)", AlreadyExists, {"t": [1], "c": []}),
        ("alter table t rename to u", "drop table t", TableNotFound, {}),
        ("alter table t rename to u", "create table u (id int)", AlreadyExists, {"t": [1], "u": []}),
        ("alter table t set identifier fields id", "insert into t values (5)", None, {"t": [1, 5]}),
    ],
)
def test_statements_in_a_sql_catalog(
    connect: Callable[[], rowmerge.Session], folder: Path, statement: str, winner: str, error: type | None, tables: dict[str, list[int]]
) -> None:
    session, other, reader = connect(), connect(), connect()
    session.sql("create table t (id bigint not null)")
    session.sql("insert into t values (1)")
    client = session._context.catalog._client.catalog  # type: ignore[attr-defined]
    overtake = preceded(lambda: other.sql(winner.format(folder=folder)), lambda: None)

    def wait(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: (overtake(), call(*arguments))[1]

    client.commit_table, client.rename_table = wait(client.commit_table), wait(client.rename_table)
    if error is None:
        session.sql(statement.format(folder=folder))
    else:
        with pytest.raises(error):
            session.sql(statement.format(folder=folder))
    assert {table.name: ids(reader, table.name) for table in reader.relations("raw")} == tables
