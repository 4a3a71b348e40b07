"""Tables outside the warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import PlanError, TableNotFound

pytestmark = pytest.mark.one_of("format_")


def test_the_files_of_a_table_with_a_location_remain_after_drop(session: rowmerge.Session, tmp_path: Path) -> None:
    place = tmp_path / "else where" / "orders"
    session.sql(f"create table orders (id int) using delta location '{place}'")
    session.sql("insert into orders values (1), (2)")
    assert list(place.glob("*.parquet"))
    session.sql("drop table orders")
    with pytest.raises(TableNotFound):
        session.sql("select * from orders")
    session.sql(f"create table again using delta location '{place}'")
    session.sql("delete from again where id = 1")
    assert session.sql("select id from again").collect() == [(2,)]
    assert session.describe("default", "again").location == place.as_uri().replace("%20", " ")


def test_a_table_without_columns_is_rejected(session: rowmerge.Session, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no columns"):
        session.sql("create table t using delta")
    with pytest.raises(PlanError, match="no columns"):
        session.sql(f"create table t using delta location '{tmp_path / 'nothing'}'")
    assert session.relations("default") == []


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("name", ["we[ir]d", "a*b?", "{c,d}", "back\\slash"])
def test_a_folder_name_can_contain_glob_characters(spark: SparkSession, tmp_path: Path, name: str, format_: str) -> None:
    session = rowmerge.connect(str(tmp_path / name), spark=spark)
    session.sql(f"create table t (id int, p string) using {format_} partitioned by (p)")
    session.sql("insert into t values (1, '*'), (2, '[a]')")
    session.sql("insert into t values (3, '*'), (4, 'plain')")
    source = "(values (2, 'x'), (5, '{y}')) s (id, p)"
    session.sql(f"merge into t using {source} on t.id = s.id when matched then update set * when not matched then insert *")
    table_rows = sorted(tuple(row) for row in session.sql("select * from t").collect())
    assert table_rows == [(1, "*"), (2, "x"), (3, "*"), (4, "plain"), (5, "{y}")]


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("space", ["\u00a0", "\u3000"])
def test_a_folder_name_can_contain_other_spaces(spark: SparkSession, tmp_path: Path, space: str, format_: str) -> None:
    """`java.net.URI` encodes them in the paths by which rows are joined with their partition values and with deleted rows."""
    session = rowmerge.connect(str(tmp_path / f"a{space}b"), spark=spark)
    mode = "'rowmerge.write.mode' = 'merge-on-read'"
    session.sql(f"create table t (id int, x double) using {format_} partitioned by (x) tblproperties ({mode})")
    session.sql("insert into t select id, 1.5D from range(4)")
    session.sql("delete from t where id = 1")
    session.sql("update t set id = 30 where id = 3")
    assert sorted(tuple(row) for row in session.sql("select * from t").collect()) == [(0, 1.5), (2, 1.5), (30, 1.5)]
