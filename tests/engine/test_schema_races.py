"""Statements that change a table's schema with concurrent statements: the result equals that of a serial order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.catalog import DirectoryCatalog
from rowmerge.errors import PlanError, UnknownColumn, ValueOutOfRange
from tests.engine.interleaving import TakingTurns, Turns, overtaken

PLAIN = "merge into t using (values {}) s (id, {}) on t.id = s.id when matched then update set * when not matched then insert *"
ADDS = PLAIN.replace("merge", "merge with schema evolution", 1)


@pytest.fixture
def warehouse(session: rowmerge.Session, tmp_path: Path) -> str:
    """Create a warehouse with a table of two columns and rows 1 to 4 in one file."""
    properties = "'rowmerge.write.mode' = 'merge-on-read', 'rowmerge.commit.retry.min-wait-ms' = '1'"
    session.sql(f"create table t (id int, n int) using delta tblproperties ({properties})")
    session.sql("insert into t values (1, 0), (2, 0), (3, 0), (4, 0)")
    return str(tmp_path / "warehouse")


def rows_of(session: rowmerge.Session) -> list[dict[str, Any]]:
    """Return the changed rows without NULL values."""
    rows = [row.asDict() for row in session.sql("select * from t order by id").collect()]
    return [{name: value for name, value in row.items() if value is not None} for row in rows if row["n"] != 0 or len(row) > 2]


@pytest.mark.parametrize(
    ("winner", "loser", "columns", "changed"),
    [
        pytest.param(
            "alter table t add columns (other string)", ADDS.format("(1, 1, 'x'), (9, 9, 'y')", "n, extra"), ["id", "n", "other", "extra"],
            [{"id": 1, "n": 1, "extra": "x"}, {"id": 9, "n": 9, "extra": "y"}], id="another column",
        ),
        pytest.param(
            ADDS.format("(1, 1, 'x'), (9, 9, 'y')", "n, extra"), ADDS.format("(2, 2, 'z'), (9, 8, 'w')", "n, EXTRA"), ["id", "n", "extra"],
            [{"id": 1, "n": 1, "extra": "x"}, {"id": 2, "n": 2, "extra": "z"}, {"id": 9, "n": 8, "extra": "w"}], id="the same column",
        ),
        pytest.param(
            "insert with schema evolution into t by name select 9 as id, 9 as n, 'x' as a",
            "insert with schema evolution into t by name select 8 as id, 8 as n, 'y' as b",
            ["id", "n", "a", "b"], [{"id": 8, "n": 8, "b": "y"}, {"id": 9, "n": 9, "a": "x"}], id="two inserts by name",
        ),
        pytest.param(
            "alter table t add columns (extra string)", PLAIN.format("(1, 1, 'x')", "n, extra"), ["id", "n", "extra"],
            [{"id": 1, "n": 1, "extra": "x"}], id="a plain merge takes the column that came meanwhile",
        ),
    ],
)  # fmt: skip
def test_a_concurrent_schema_change_restarts_the_statement(
    session: rowmerge.Session, spark: SparkSession, warehouse: str, winner: str, loser: str, columns: list[str], changed: list[Any]
) -> None:
    result, _ = overtaken(spark, warehouse, loser, winner)
    assert result.attempts == 2
    assert session.table("t").columns == columns
    untouched = {1, 2, 3, 4} - {row["id"] for row in changed}
    assert [row for row in rows_of(session) if row["id"] not in untouched] == changed
    assert session.table("t").where("n = 0").count() == len(untouched)


def test_concurrent_row_changes_do_not_conflict_with_a_new_column(session: rowmerge.Session, spark: SparkSession, warehouse: str) -> None:
    result, _ = overtaken(spark, warehouse, ADDS.format("(1, 1, 'x')", "n, extra"), "update t set n = 2 where id = 2")
    assert (result.attempts, result.rebases) == (1, 1)
    table_rows = [tuple(row) for row in session.sql("select * from t order by id").collect()]
    assert table_rows == [(1, 1, "x"), (2, 2, None), (3, 0, None), (4, 0, None)]


def test_a_source_keeps_the_schema_of_its_first_read(session: rowmerge.Session, spark: SparkSession, warehouse: str) -> None:
    session.sql("create table s using delta as select 1 as id, 1 as n, 'x' as extra")

    def change_both() -> None:
        session.sql("alter table s add columns (late int)")
        session.sql("alter table t add columns (other int)")

    catalog = DirectoryCatalog(TakingTurns(warehouse, turns=Turns([change_both])))
    overtaken_session = rowmerge.Session(catalog, spark, "default", "delta", owns_spark=False)
    text = "merge with schema evolution into t using s on t.id = s.id when matched then update set *"
    assert overtaken_session.execute(text).attempts == 2
    assert session.table("t").columns == ["id", "n", "other", "extra"]
    assert [tuple(row) for row in session.table("t").where("id = 1").collect()] == [(1, 1, None, "x")]


def test_a_concurrent_column_of_another_type_is_reported(session: rowmerge.Session, spark: SparkSession, warehouse: str) -> None:
    with pytest.raises(ValueOutOfRange, match="`extra`"):
        overtaken(spark, warehouse, ADDS.format("(1, 1, 'x')", "n, extra"), "alter table t add columns (extra int)")
    assert session.table("t").where("n <> 0").count() == 0


def test_an_insert_by_position_into_a_concurrently_widened_table_fails(
    session: rowmerge.Session, spark: SparkSession, warehouse: str
) -> None:
    with pytest.raises(PlanError, match=r"has 2 column"):
        overtaken(spark, warehouse, "insert into t values (9, 9)", "alter table t add columns (extra int)")


def test_a_merge_without_evolution_reports_a_missing_concurrent_column(
    session: rowmerge.Session, spark: SparkSession, warehouse: str
) -> None:
    with pytest.raises(UnknownColumn, match="WITH SCHEMA EVOLUTION"):
        overtaken(spark, warehouse, PLAIN.format("(1, 1)", "n"), "alter table t add columns (extra int)")
    assert session.table("t").where("n <> 0").count() == 0


def test_schema_and_rows_are_one_commit(session: rowmerge.Session, warehouse: str) -> None:
    session.sql(ADDS.format("(1, 1, 'x')", "n, extra"))
    session.sql(ADDS.format("(1, 2, 'y')", "n, extra"))
    log = Path(warehouse) / "default" / "t" / "_delta_log"
    texts = {version: (log / f"{version:020d}.json").read_text() for version in (2, 3)}
    assert ('"metaData"' in texts[2], '"add"' in texts[2]) == (True, True)
    assert '"metaData"' not in texts[3]
