"""Concurrent statements: one is planned and writes its files, another commits first, then the first one commits.

`together`: both commits stay unchanged. `rebased`: the second one's deletion vectors include the first one's. `again`: it is planned
and run again. The final rows always equal those of one statement after the other.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import ConcurrentDeleteDelete, MetadataChanged, TableNotFound
from tests.engine.interleaving import overtaken

TWELVE = "insert into t select cast(id as int), 0 as n, concat('k', id) as k from range(1, 13) distribute by 1"


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """Return the folder with the tables of the `session` fixture."""
    return str(tmp_path / "warehouse")


def prepared(session: rowmerge.Session, mode: str, level: str = "WriteSerializable", format_: str = "delta") -> None:
    isolation = f"'delta.isolationLevel' = '{level}'" if format_ == "delta" else f"'write.merge.isolation-level' = '{level}'"
    properties = f"'rowmerge.write.mode' = '{mode}', {isolation}, 'rowmerge.commit.retry.min-wait-ms' = '1'"
    session.sql(f"create table t (id int, n int, k string) using {format_} tblproperties ({properties})")
    session.sql(TWELVE)


def values(*rows: str) -> str:
    return f"(values {', '.join(f'({row})' for row in rows)}) s (id, n)"


def rows_of(session: rowmerge.Session) -> dict[int, int]:
    rows = session.sql("select id, n from t").collect()
    assert len({row[0] for row in rows}) == len(rows), "a row was doubled"
    return {row[0]: row[1] for row in rows}


UPSERT = "merge into t using {} on t.id = s.id when matched then update set n = s.n when not matched then insert (id, n) values (s.id, s.n)"
ROWS = [
    # winner, loser, outcome with deletion vectors, the rows that are no longer (id, 0)
    ("update t set n = 1 where id = 1", "update t set n = 2 where id = 2", "rebased", {1: 1, 2: 2}),
    ("update t set n = 1 where id = 1", "update t set n = 2 where id = 1", "again", {1: 2}),
    ("delete from t where id < 4", "update t set n = n + 1 where id in (3, 4)", "again", {1: None, 2: None, 3: None, 4: 1}),
    ("update t set n = n + 1 where id % 2 = 0 and id < 5", "update t set n = n + 1 where id % 2 = 1 and id < 5", "rebased",
     {1: 1, 2: 1, 3: 1, 4: 1}),
    (UPSERT.format(values("1, 1", "13, 1")), UPSERT.format(values("2, 2", "14, 2")), "rebased", {1: 1, 2: 2, 13: 1, 14: 2}),
    (UPSERT.format(values("1, 1", "9, 1")), UPSERT.format(values("2, 2", "8, 2", "20, 2")), "rebased", {1: 1, 9: 1, 2: 2, 8: 2, 20: 2}),
    (UPSERT.format(values("1, 1", "13, 1")), UPSERT.format(values("2, 2", "13, 2")), "again", {1: 1, 2: 2, 13: 2}),
    # The source row of a matched row is not inserted, even if no clause applies to the row.
    ("delete from t where id = 5",
     "merge into t using {} on t.id = s.id when matched and s.n > 5 then update set n = s.n when not matched then insert (id, n) "
     "values (s.id, s.n)".format(values("5, 1", "6, 7")), "again", {5: 1, 6: 7}),
    ("delete from t where id = 4",
     "merge into t using {} on t.id = s.id when matched and s.n > 5 then update set n = s.n when not matched then insert (id, n) "
     "values (s.id, s.n)".format(values("5, 1", "6, 7")), "rebased", {4: None, 6: 7}),
    # The same deleted row is no conflict for a MERGE without an INSERT.
    ("delete from t where id = 5", "merge into t using {} on t.id = s.id when matched and s.n > 5 then update set n = s.n"
     .format(values("5, 1", "6, 7")), "rebased", {5: None, 6: 7}),
    ("delete from t where id = 5", "merge into t using {} on t.id = s.id when not matched then insert (id, n) values (s.id, s.n)"
     .format(values("5, 1", "20, 1")), "again", {5: 1, 20: 1}),
    ("delete from t where id = 4", "merge into t using {} on t.id = s.id when not matched then insert (id, n) values (s.id, s.n)"
     .format(values("5, 1", "20, 1")), "together", {4: None, 20: 1}),
    # WHEN NOT MATCHED BY SOURCE
    ("update t set n = 1 where id = 12", "merge into t using {} on t.id = s.id when matched then update set n = s.n "
     "when not matched by source and t.id > 11 then delete".format(values("1, 9")), "again", {1: 9, 12: None}),
    ("update t set n = 1 where id = 3", "merge into t using {} on t.id = s.id when matched then update set n = s.n "
     "when not matched by source and t.id > 11 then delete".format(values("1, 9")), "rebased", {1: 9, 3: 1, 12: None}),
    # A statement with a subquery on its target reads all rows of the target.
    ("update t set n = 1 where id = 3", "update t set n = (select max(n) + 1 from t) where id = 4", "again", {3: 1, 4: 2}),
    ("update t set n = 1 where id = 3", "delete from t where id in (select id + 1 from t where n = 0 and id = 3)", "again", {3: 1}),
    # Replacements also conflict by row.
    ("update t set n = 1 where id = 3", "insert into t replace where id = 4 values (4, 5, 'x')", "rebased", {3: 1, 4: 5}),
    ("update t set n = 1 where id = 3", "insert into t (id, n) replace using (id) values (3, 5)", "again", {3: 5}),
    ("update t set n = 1 where id = 3", "insert overwrite t values (1, 5, 'x')", "again", {1: 5, **dict.fromkeys(range(2, 13))}),
    ("truncate table t", "update t set n = 1 where id = 3", "again", dict.fromkeys(range(1, 13))),
    # The winner adds files with matching bounds but without a matching row.
    ("update t set n = 1 where k in ('k1', 'k9')", "update t set n = 2 where k = 'k5'", "rebased", {1: 1, 9: 1, 5: 2}),
    ("update t set n = 1 where upper(k) = 'K1'", "delete from t where upper(k) = 'K2'", "rebased", {1: 1, 2: None}),
]  # fmt: skip


@pytest.mark.one_of("format_", "level")
@pytest.mark.parametrize(("format_", "level"), [("delta", "WriteSerializable"), ("iceberg", "serializable")], ids=["delta", "iceberg"])
@pytest.mark.parametrize(("winner", "loser", "how", "changed"), ROWS, ids=[f"{n:02}-{row[2]}" for n, row in enumerate(ROWS)])
def test_only_changes_of_the_same_rows_conflict(
    session: rowmerge.Session,
    spark: SparkSession,
    warehouse: str,
    winner: str,
    loser: str,
    how: str,
    changed: dict[int, int | None],
    format_: str,
    level: str,
) -> None:
    prepared(session, "merge-on-read", level, format_)
    result, _ = overtaken(spark, warehouse, loser, winner)
    outcome = "again" if result.attempts > 1 else "rebased" if result.rebases else "together"
    assert outcome == how, result
    expected = dict.fromkeys(range(1, 13), 0) | changed
    assert rows_of(session) == {id_: n for id_, n in expected.items() if n is not None}


@pytest.mark.parametrize(
    ("format_", "level"), [("delta", "WriteSerializable"), ("delta", "Serializable"), ("iceberg", "serializable")], ids=lambda text: text
)
@pytest.mark.one_of("mode")
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_two_insert_only_merges_of_one_new_key_insert_it_once(
    session: rowmerge.Session, spark: SparkSession, warehouse: str, mode: str, level: str, format_: str
) -> None:
    prepared(session, mode, level, format_)
    text = "merge into t using (values (1, {0}), (50, {0})) s (id, n) on t.id = s.id when not matched then insert (id, n) values (id, n)"
    result, _ = overtaken(spark, warehouse, text.format(2), text.format(1))
    assert (result.attempts, result.changes) == (2, rowmerge.RowCounts())
    assert rows_of(session) == dict.fromkeys(range(1, 13), 0) | {50: 1}


def test_a_blind_append_conflicts_only_with_serializable_statements(session: rowmerge.Session, spark: SparkSession, warehouse: str) -> None:
    merge = "merge into t using (values (50, 2)) s (id, n) on t.id = s.id when not matched then insert (id, n) values (s.id, s.n)"
    prepared(session, "merge-on-read")
    result, _ = overtaken(spark, warehouse, merge, "insert into t values (50, 1, 'x')")
    assert (result.attempts, result.changes.inserted) == (1, 1)  # type: ignore[union-attr]
    session.sql("delete from t where id = 50")
    session.sql("alter table t set tblproperties ('delta.isolationLevel' = 'Serializable')")
    result, _ = overtaken(spark, warehouse, merge, "insert into t values (50, 1, 'x')")
    assert (result.attempts, result.changes.inserted) == (2, 0)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("operation", "statement"),
    [
        ("merge", "merge into t using (values (50, 2)) s (id, n) on t.id = s.id when not matched then insert (id, n) values (s.id, s.n)"),
        ("update", "update t set n = 2 where id in (1, 50)"),
        ("delete", "delete from t where id in (1, 50)"),
    ],
)
def test_appends_to_an_iceberg_table_conflict_by_the_isolation_level_of_the_operation(
    session: rowmerge.Session, spark: SparkSession, warehouse: str, operation: str, statement: str
) -> None:
    session.sql("create table t (id int, n int, k string) using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    for level, attempts, rows_of_50 in (
        ("snapshot", 1, {"merge": [1, 2], "update": [1], "delete": [1]}),
        ("serializable", 2, {"merge": [1], "update": [2], "delete": []}),
    ):
        session.sql("insert overwrite t select cast(id as int), 0 as n, concat('k', id) as k from range(1, 13) distribute by 1")
        session.sql(f"alter table t set tblproperties ('write.{operation}.isolation-level' = '{level}')")
        result, _ = overtaken(spark, warehouse, statement, "insert into t values (50, 1, 'x')")
        assert result.attempts == attempts
        assert [row.n for row in session.sql("select n from t where id = 50 order by n").collect()] == rows_of_50[operation]


def test_a_large_source_conflicts_with_changes_of_any_row_in_its_files(
    session: rowmerge.Session, spark: SparkSession, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The join does not return which target rows match a source row, so each row deleted from a read file counts as a match."""
    monkeypatch.setattr("rowmerge.spark.source.source.MAX_BROADCAST_BYTES", -1)
    prepared(session, "merge-on-read")
    merge = "merge into t using (values (5, 2), (60, 2)) s (id, n) on t.id = s.id when not matched then insert (id, n) values (s.id, s.n)"
    result, _ = overtaken(spark, warehouse, merge, "delete from t where id = 5")
    assert (result.attempts, result.changes.inserted) == (2, 2)  # type: ignore[union-attr]
    assert rows_of(session) == dict.fromkeys(range(1, 13), 0) | {5: 2, 60: 2}


def test_without_retries_the_error_names_the_concurrent_commit(session: rowmerge.Session, spark: SparkSession, warehouse: str) -> None:
    prepared(session, "merge-on-read")
    with pytest.raises(ConcurrentDeleteDelete) as caught:
        overtaken(spark, warehouse, "update t set n = 2 where id = 1", "delete from t where id < 3", commit_retries=0)
    error = caught.value
    assert (error.table, error.operation, error.version) == ("default.t", "DELETE", 2)
    assert "DELETE committed version 2 first and deleted or updated rows that this statement changes: row 0 of file:" in error.message
    assert error.message.endswith("Nothing was written. Run the statement again.")


def test_a_rebased_statement_writes_only_its_own_change_rows(session: rowmerge.Session, spark: SparkSession, warehouse: str) -> None:
    prepared(session, "merge-on-read")
    session.sql("alter table t set tblproperties ('delta.enableChangeDataFeed' = 'true')")
    result, _ = overtaken(spark, warehouse, "update t set n = 2 where id = 2", "update t set n = 1 where id = 1")
    assert (result.version, result.rebases) == (4, 1)
    changes = session.sql("select _commit_version, id, n, _change_type from table_changes('default.t', 3, 4) order by 1, 3").collect()
    assert [tuple(row) for row in changes] == [
        (3, 1, 0, "update_preimage"),
        (3, 1, 1, "update_postimage"),
        (4, 2, 0, "update_preimage"),
        (4, 2, 2, "update_postimage"),
    ]


ANEW = ("drop table t", "create table t (id int, n int, k string) using {}", "insert into t values (7, 7, 'new')")


@pytest.mark.one_of("format_", "statement")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("insert into t values (100, 1, 'late')", {7: 7, 100: 1}),
        ("update t set n = n + 1 where id in (1, 7)", {7: 8}),
        ("delete from t where id < 8", {}),
        (UPSERT.format(values("7, 9", "1, 9")), {7: 9, 1: 9}),
    ],
)
def test_a_statement_runs_on_a_table_created_after_a_concurrent_drop(
    session: rowmerge.Session, spark: SparkSession, warehouse: str, format_: str, statement: str, expected: dict[int, int]
) -> None:
    """The statement has the result of a run after the DROP and the CREATE. Without another attempt it is a conflict."""
    prepared(session, "merge-on-read", "Serializable" if format_ == "delta" else "serializable", format_)
    result, _ = overtaken(spark, warehouse, statement, together=[text.format(format_) for text in ANEW])
    assert result.attempts == 2  # type: ignore[union-attr]
    assert rows_of(session) == expected
    session.sql("insert into t values (1, 1, 'old')")
    with pytest.raises(MetadataChanged, match="another table|dropped"):
        overtaken(spark, warehouse, statement, together=[text.format(format_) for text in ANEW], commit_retries=0)
    assert rows_of(session) == {7: 7}


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_statement_on_a_concurrently_dropped_table_fails_with_table_not_found(
    session: rowmerge.Session, spark: SparkSession, warehouse: str, format_: str
) -> None:
    prepared(session, "merge-on-read", "Serializable" if format_ == "delta" else "serializable", format_)
    with pytest.raises(TableNotFound):
        overtaken(spark, warehouse, "insert into t values (100, 1, 'late')", together=["drop table t"])
    session.sql(ANEW[1].format(format_))
    assert rows_of(session) == {}
