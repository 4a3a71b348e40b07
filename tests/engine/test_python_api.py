"""The Python API of a table: each method has the effect of its statement, on both formats, with local rows and DataFrames."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession, functions as F

import rowmerge
from rowmerge import Table, literal
from rowmerge.errors import (
    ConfigurationError,
    PlanError,
    RowError,
    RowmergeError,
    TableError,
    TableNotFound,
    TypeMismatch,
    UnknownColumn,
    Unparsable,
    UnsupportedStatement,
    VersionNotFound,
)

both_formats = pytest.mark.parametrize("format_", ["delta", "iceberg"])
ROWS = [(1, "open"), (2, "open"), (3, "closed")]
ARROW = pa.table({"id": pa.array([2, 4], pa.int64()), "status": ["shipped", "new"]})
SOURCES: dict[str, Callable[[rowmerge.Session], Any]] = {
    "arrow": lambda session: ARROW,
    "batch": lambda session: ARROW.to_batches()[0],
    "reader": lambda session: ARROW.to_reader(),
    "pandas": lambda session: pd.DataFrame({"id": [2, 4], "status": ["shipped", "new"]}, index=[7, 9]),
    "polars": lambda session: pl.DataFrame({"id": [2, 4], "status": ["shipped", "new"]}, schema_overrides={"status": pl.Categorical}),
    "spark": lambda session: session.spark.createDataFrame([(2, "shipped"), (4, "new")], "id bigint, status string"),
    "table": lambda session: "`staged orders`",
    "query": lambda session: "select id, status from `staged orders` -- the new ones",
}


def orders(session: rowmerge.Session, format_: str, clauses: str = "", name: str = "orders") -> Table:
    session.sql(f"create table {name} (id bigint, status string) using {format_} {clauses}")
    session.sql(f"insert into {name} values (1, 'open'), (2, 'open'), (3, 'closed')")
    return Table.for_name(session, name)


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def test_rows_come_from_each_source(session: rowmerge.Session) -> None:
    table = orders(session, "delta")
    session.sql("create temporary view `staged orders` as select * from values (2L, 'shipped'), (4L, 'new') as t (id, status)")
    for name, source in SOURCES.items():
        assert table.append(source(session)).changes.inserted == 2, name
        assert table.version() == 2 * list(SOURCES).index(name) + 2
        merge = table.merge(source(session), "target.id = source.id").when_matched_delete()
        assert merge.execute().changes.deleted == (3 if name == "arrow" else 2), name
    assert rows(table) == [(1, "open"), (3, "closed")]
    assert [view for view in session.spark.sql("show views").collect() if "source" in view["viewName"]] == []


def test_a_table_of_a_sql_catalog(spark: SparkSession, tmp_path: Path) -> None:
    catalog = {"type": "sql", "name": "lake", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/lake"}
    session = rowmerge.connect(catalog=catalog, spark=spark)
    session.sql("create schema if not exists default")
    table = orders(session, "iceberg", name="lake.default.orders")
    merge = table.merge(ARROW, "target.id = source.id").when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute().changes.affected == 2
    branch = table.create_branch("audit")
    branch.delete("id > 1")
    assert rows(table) == [(1, "open"), (2, "shipped"), (3, "closed"), (4, "new")] and rows(branch) == [(1, "open")]
    assert [column for (column,) in table.files().select("record_count").collect()] == [
        row["record_count"] for row in table.files().collect()
    ]


@both_formats
def test_each_clause_of_merge(session: rowmerge.Session, format_: str) -> None:
    table = orders(session, format_)
    source = pa.table({"id": [1, 2, 7, 8], "status": ["a", "b", "c", "d"], "note": ["x", "y", "z", None]})
    merge = (
        table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete("s.status = 'a'")
        .when_matched_update({"t.status": "upper(s.status)"}, condition="t.status = 'open'")
        .when_not_matched_insert({"id": "s.id", "status": literal("it's, new")}, condition="s.id = 7")
        .when_not_matched_by_source_update({"status": None}, condition="t.id < 0")
        .when_not_matched_by_source_delete("t.id = 3")
    )
    counts = merge.execute().changes
    assert rows(table) == [(2, "B"), (7, "it's, new")]
    assert (counts.inserted, counts.updated, counts.deleted) == (1, 1, 2)
    evolving = table.merge(source, "target.id = source.id").with_schema_evolution().when_not_matched_insert_all()
    assert evolving.execute(idempotency_key="load 1").changes.inserted == 2
    assert table.schema().names == ["id", "status", "note"]
    assert evolving.execute(idempotency_key="load 1").replayed


@both_formats
def test_rows_are_updated_deleted_overwritten_and_read(session: rowmerge.Session, format_: str) -> None:
    table = orders(session, format_, "partitioned by (status)")
    first = table.version()
    assert table.update({"id": "id + 10", "status": literal("it's")}, "id < 3").changes.updated == 2
    assert table.update({"`id`": 3}, where="status = 'closed' -- the last one").changes.updated == 1
    assert table.delete("id > 11").changes.deleted == 1
    assert rows(table) == [(3, "closed"), (11, "it's")]
    table.overwrite(pa.table({"id": [20], "status": ["closed"]}), dynamic=True)
    assert rows(table) == [(11, "it's"), (20, "closed")]
    with pytest.raises(RowError):
        table.overwrite(pa.table({"id": [21], "status": ["open"]}), where="status = 'closed'")
    table.overwrite(pa.table({"id": [22], "status": ["closed"]}), where="status = 'closed'")
    assert rows(table) == [(11, "it's"), (22, "closed")]
    table.overwrite("select 5 as id, 'only' as status")
    assert rows(table) == [(5, "only")]
    assert table.to_arrow(["id"], "id < 3", version=first).to_pydict() == {"id": [1, 2]}
    assert table.to_df(["status"]).collect()[0].asDict() == {"status": "only"}
    assert table.to_pandas(where="id = 5").to_dict("list") == {"id": [5], "status": ["only"]}
    assert table.to_polars().to_dict(as_series=False) == {"id": [5], "status": ["only"]}
    assert table.to_arrow(timestamp=datetime.now(timezone.utc)).num_rows == 1
    assert table.delete().changes.deleted == 1


@both_formats
def test_the_history_is_read_restored_cloned_and_cleaned(bare_session: rowmerge.Session, format_: str, tmp_path: Path) -> None:
    table = orders(bare_session, format_)
    first = table.version()
    table.append(ARROW)
    assert [row["version"] for row in table.history(1).collect()] == [table.version()]
    assert table.history().count() == table.snapshots().count()
    assert table.files().count() == 2 and table.files(version=first).count() == 1
    assert [row["name"] for row in table.refs().collect()] == ["main"]
    assert table.metadata_table("partitions").collect()[0]["record_count"] == 5
    assert table.optimize().changes.files_removed == 2
    assert table.detail().collect()[0]["numFiles"] == 1
    clone = table.clone("copy", version=first, properties={"owner": "o'hara"}, location=str(tmp_path / "copy"))
    assert rows(clone) == ROWS and clone.properties()["owner"] == "o'hara"
    copy = table.clone("deep_copy", version=first, shallow=False)
    own_files = [row["file_path"] for row in copy.files().collect()]
    assert rows(copy) == ROWS and own_files and all("deep_copy" in path for path in own_files)
    assert rows(Table.for_path(bare_session, copy.detail().collect()[0]["location"], format_)) == ROWS
    with pytest.raises(ConfigurationError, match="'parquet' is unknown"):
        Table.for_path(bare_session, str(tmp_path), "parquet")
    table.restore(first)
    assert rows(table) == ROWS
    with pytest.raises(PlanError, match="neither a version nor a timestamp"):
        table.restore()
    assert table.vacuum(dry_run=True).frame.columns == ["path"]
    assert table.vacuum(200.5).operation == "VACUUM"
    table.set_properties({"team": "it's", "checked": True})
    assert table.properties()["team"] == "it's" and table.properties()["checked"] == "true"
    table.unset_properties(["team"])
    table.unset_properties(["team"], if_exists=True)
    assert "team" not in table.properties()


def test_a_branch_is_read_and_written_apart(session: rowmerge.Session) -> None:
    table = orders(session, "iceberg", "tblproperties ('write.wap.enabled' = 'true')")
    branch = table.create_branch("audit-1")
    branch.append(ARROW)
    assert branch.merge(ARROW, "target.id = source.id").when_matched_delete().execute().changes.deleted == 3
    assert (rows(table), rows(table.branch("audit-1"))) == (ROWS, [(1, "open"), (3, "closed")])
    assert branch.version() != table.version() and branch.files().collect() != table.files().collect()
    assert branch.name == "default.orders.`branch_audit-1`"
    with pytest.raises(PlanError, match="vacuum concerns all branches"):
        branch.vacuum()
    with pytest.raises(VersionNotFound):
        table.branch("missing")
    table.delete("id = 1", wap_branch="staged")
    assert rows(table) == ROWS and len(rows(table.branch("staged"))) == 2
    with pytest.raises(PlanError, match="not an Iceberg table"):
        orders(session, "delta", name="flat").branch("audit")


@both_formats
def test_python_values_are_stored_exactly(session: rowmerge.Session, format_: str) -> None:
    values: dict[str, Any] = {
        "n bigint": -(2**63),
        "small int": np.int32(-5),
        "x double": -1.5e-300,
        "nan double": float("nan"),
        "d decimal(10,2)": Decimal("-1.10"),
        "flag boolean": True,
        "day date": date(1, 2, 3),
        "at timestamp": datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2))),
        "local timestamp_ntz": datetime(2024, 3, 31, 2, 30),
        "raw binary": b"\x00'",
        "key string": UUID(int=5),
        "nothing string": None,
    }
    session.sql(f"create table t ({', '.join(values)}) using {format_}")
    session.sql("insert into t (n) values (0)")
    table = Table.for_name(session, "t")
    table.update({name.split()[0]: value for name, value in values.items()})
    (row,) = table.to_arrow().to_pylist()
    assert np.isnan(row.pop("nan"))
    expected = {name.split()[0]: value for name, value in values.items() if not name.startswith("nan")}
    assert row == expected | {"key": str(expected["key"]), "small": -5}
    assert table.delete(
        f"local = {literal(expected['local'])} and n -{literal(-1)} < 0 and raw = {literal(expected['raw'])}"
    ).changes.deleted


@both_formats
def test_rows_behind_an_empty_chunk_of_arrow_are_written(session: rowmerge.Session, format_: str) -> None:
    """Filters of Arrow produce empty chunks. `createDataFrame` of Spark 4 drops the rows behind them."""
    chunks = pa.chunked_array([[], [1], [], [], [2, 3], []], pa.int64())
    session.write(pa.table({"id": chunks}), "t", mode="replace", format=format_)
    table = Table.for_name(session, "t")
    table.append(pa.table({"id": chunks}))
    table.merge(pa.table({"id": pa.chunked_array([[], [], [2]], pa.int64())}), "target.id = source.id").when_matched_delete().execute()
    assert rows(table) == [(1,), (1,), (3,), (3,)]


def test_types_of_arrow_that_spark_lacks_are_widened(session: rowmerge.Session) -> None:
    session.sql("create table t (a bigint, b smallint, c array<string>, d struct<x:binary>, e timestamp, f string) using iceberg")
    source = pa.table(
        {
            "a": pa.array([7], pa.uint64()),
            "b": pa.array([255], pa.uint8()),
            "c": pa.array([["x"]], pa.large_list(pa.large_string())),
            "d": pa.array([{"x": b"12"}], pa.struct([("x", pa.binary(2))])),
            "e": pa.array([datetime(2024, 1, 2)], pa.timestamp("ns", "UTC")),
            "f": pa.nulls(1),
        }
    )
    table = Table.for_name(session, "t")
    table.append(source)
    table.append(source.slice(1))
    assert table.to_arrow(["a", "b", "c", "d", "f"]).to_pylist() == [{"a": 7, "b": 255, "c": ["x"], "d": {"x": b"12"}, "f": None}]
    with pytest.raises(TypeMismatch, match="`a.x` has the type time64"):
        table.append(pa.table({"a": pa.array([{"x": None}], pa.struct([("x", pa.time64("us"))]))}))
    with pytest.raises(TypeMismatch, match="pandas DataFrame"):
        table.append(pd.DataFrame({"a": [1, "x"]}))
    with pytest.raises(UnknownColumn):
        table.append(pa.table({"missing": [1]}))


@both_formats
def test_invalid_calls_are_errors_and_change_nothing(session: rowmerge.Session, format_: str) -> None:
    table = orders(session, format_)
    session.sql("create view v as select 1 as id")
    merge = table.merge(ARROW, "target.id = source.id")
    invalid: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (TableNotFound, "missing", lambda: Table.for_name(session, "missing")),
        (TableError, "view", lambda: Table.for_name(session, "v")),
        (PlanError, "Column of PySpark", lambda: table.update({"id": F.lit(1)})),  # type: ignore[dict-item]
        (PlanError, "Column of PySpark", lambda: table.delete(F.col("id") > 1)),  # type: ignore[arg-type]
        (PlanError, "not the name of a column", lambda: table.update({1: "id"})),  # type: ignore[dict-item]
        (PlanError, "assigns no column", lambda: table.update({})),
        (PlanError, "no clause", merge.execute),
        (PlanError, "not a constant", lambda: table.update({"id": timedelta(1)})),  # type: ignore[dict-item]
        (Unparsable, "", lambda: table.delete("id = 1) or (true")),
        (Unparsable, "", lambda: table.update({"id": "1, status = 'x'", "status": "'y"})),
        (Unparsable, "", lambda: table.update({"id = 1, status": "'x'"})),
        (RowmergeError, "", lambda: table.update({"id": "1 where id = 2"})),
        (UnsupportedStatement, "", lambda: table.delete("id = 1; drop table orders")),
        (Unparsable, "not a statement", lambda: table.append("with x as (select 1 as id) insert into orders select * from x")),
        (UnknownColumn, "x", lambda: merge.when_matched_update({"x": 1}).execute()),
        (UnsupportedStatement, "ZORDER", lambda: table.optimize(zorder_by=["id"])),
        (ConfigurationError, "list is not a type of rows", lambda: table.append([{"id": 1}])),  # type: ignore[arg-type]
        (PlanError, "only one of them", lambda: table.to_arrow(version=1, timestamp="2024-01-01")),
        (PlanError, "at least one name", lambda: table.to_arrow("id")),
        (PlanError, "exclude each other", lambda: table.overwrite(ARROW, "id = 1", dynamic=True)),
        (VersionNotFound, "", lambda: table.to_arrow(version=987654)),
    ]
    for error, message, call in invalid:
        with pytest.raises(error, match=message or None):
            call()
    assert rows(table) == ROWS


def test_polars_is_optional(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(session, "delta")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigurationError, match="pip install polars"):
        table.to_polars()


def test_a_table_keeps_its_schema_after_use(session: rowmerge.Session) -> None:
    table = orders(session, "delta")
    session.sql("create schema other")
    session.sql("use other")
    assert table.name == "default.orders" and rows(table) == ROWS
