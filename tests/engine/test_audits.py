"""Write, audit, publish: `spark.wap.branch` and `spark.wap.id` on Iceberg tables, and the procedures that publish snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import rowmerge
from rowmerge.errors import ConfigurationError, PlanError, VersionNotFound
from tests.support.readers import newest_metadata

BRANCH, ID = "spark.wap.branch", "spark.wap.id"


@pytest.fixture
def audits(session: rowmerge.Session) -> Iterator[rowmerge.Session]:
    """Create the table `t`, which is partitioned by `p` and has a row. Afterwards, remove the settings of the test."""
    session.sql("create table t (p int, v string) using iceberg partitioned by (p) tblproperties ('write.wap.enabled' = 'true')")
    session.sql("insert into t values (1, 'old')")
    yield session
    for name in (BRANCH, ID):
        session.spark.conf.unset(name)


def rows(session: rowmerge.Session, table: str = "t") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(f"select p, v from {table} order by p, v").collect()]


def published(session: rowmerge.Session) -> list[str]:
    """Return the values of `v` on the main branch as pyiceberg reads them."""
    table = StaticTable.from_metadata(newest_metadata(session.describe("default", "t").location))
    return sorted(table.scan().to_arrow()["v"].to_pylist())


def stage(session: rowmerge.Session, id_: str, statement: str) -> None:
    session.spark.conf.set(ID, id_)
    session.sql(statement)
    session.spark.conf.unset(ID)


def stage_overwrite(session: rowmerge.Session, id_: str, values: str) -> None:
    """Stage an INSERT OVERWRITE that replaces the partitions of its rows."""
    stage(session, id_, f"insert overwrite t with ('partitionOverwriteMode' = 'dynamic') values {values}")


def test_a_branch_receives_all_changes_and_is_read_by_the_plain_name(audits: rowmerge.Session) -> None:
    audits.spark.conf.set(BRANCH, "audit")
    audits.sql("insert into t select max(p) + 1, 'new' from t")
    audits.sql("merge into t using (select 1 as p) s on s.p = t.p when matched then update set v = 'merged'")
    audits.sql("update t set v = concat(v, '!') where p in (select max(p) from t)")
    assert rows(audits) == [(1, "merged"), (2, "new!")]
    assert published(audits) == ["old"]
    audits.spark.conf.unset(BRANCH)
    assert rows(audits) == [(1, "old")]
    assert rows(audits, "t.branch_audit") == [(1, "merged"), (2, "new!")]
    audits.sql("call system.fast_forward('t', 'main', 'audit')")
    assert rows(audits) == [(1, "merged"), (2, "new!")]
    assert published(audits) == ["merged", "new!"]


def test_a_missing_branch_is_read_as_main_and_begins_there(audits: rowmerge.Session) -> None:
    audits.spark.conf.set(BRANCH, "later")
    assert rows(audits) == [(1, "old")]
    audits.sql("delete from t")
    assert rows(audits) == []
    audits.spark.conf.set(BRANCH, " ")
    assert rows(audits) == [(1, "old")], "an empty setting is no branch"


def test_a_branch_of_an_empty_table_leaves_main_empty(audits: rowmerge.Session) -> None:
    audits.sql("create table u (p int, v string) using iceberg tblproperties ('write.wap.enabled' = 'true')")
    audits.spark.conf.set(BRANCH, "audit")
    audits.sql("insert into u values (1, 'a')")
    assert rows(audits, "u") == [(1, "a")]
    audits.spark.conf.unset(BRANCH)
    assert rows(audits, "u") == []


def test_other_tables_ignore_the_settings(audits: rowmerge.Session) -> None:
    for format_ in ("iceberg", "delta"):
        audits.sql(f"create table {format_}_table (p int, v string) using {format_}")
    audits.spark.conf.set(BRANCH, "audit")
    for format_ in ("iceberg", "delta"):
        audits.sql(f"insert into {format_}_table values (1, 'a')")
    audits.spark.conf.unset(BRANCH)
    assert rows(audits, "iceberg_table") == rows(audits, "delta_table") == [(1, "a")]


def test_contradicting_settings_are_refused(audits: rowmerge.Session) -> None:
    audits.sql("alter table t create branch b")
    audits.sql("alter table t create tag x")
    audits.spark.conf.set(BRANCH, "audit")
    with pytest.raises(PlanError, match=r"writes to the branch b of .*spark\.wap\.branch is audit"):
        audits.sql("delete from t.branch_b")
    audits.spark.conf.set(ID, "w1")
    with pytest.raises(ConfigurationError, match="Set only one of them"):
        audits.sql("delete from t")
    audits.spark.conf.unset(ID)
    audits.spark.conf.set(BRANCH, "x")
    with pytest.raises(PlanError, match="x of .* is a tag"):
        audits.sql("delete from t")


def test_a_staged_snapshot_is_invisible_until_it_is_published(audits: rowmerge.Session) -> None:
    stage(audits, "w1", "insert into t values (2, 'staged')")
    assert rows(audits) == [(1, "old")]
    assert published(audits) == ["old"]
    (row,) = audits.sql("call system.publish_changes('t', 'w1')").collect()
    assert row.source_snapshot_id == row.current_snapshot_id == audits.describe("default", "t").version, "a fast-forward"
    assert published(audits) == ["old", "staged"]
    with pytest.raises(PlanError, match=r"already|published"):
        audits.sql("call system.publish_changes('t', 'w1')")
    with pytest.raises(VersionNotFound, match=r"staged as w2\. Its staged snapshots are: w1"):
        audits.sql("call system.publish_changes('t', 'w2')")


def test_appends_are_published_in_any_order_and_only_once(audits: rowmerge.Session) -> None:
    stage(audits, "a", "insert into t values (2, 'a')")
    stage(audits, "b", "insert into t values (3, 'b')")
    audits.sql("insert into t values (4, 'main')")
    audits.sql("alter table t add partition field bucket(2, v)")
    for id_ in ("b", "a"):
        (row,) = audits.sql(f"call system.publish_changes(table => 't', wap_id => '{id_}')").collect()
        assert row.source_snapshot_id != row.current_snapshot_id
    assert published(audits) == ["a", "b", "main", "old"]
    assert rows(audits) == [(1, "old"), (2, "a"), (3, "b"), (4, "main")]
    for call in ("publish_changes('t', 'a')", f"cherrypick_snapshot('t', {row.source_snapshot_id})"):
        with pytest.raises(PlanError, match="published already"):
            audits.sql(f"call system.{call}")
    audits.sql("delete from t where v = 'a'")
    assert published(audits) == ["b", "main", "old"]


def test_a_staged_merge_is_published_only_while_its_parent_is_current(audits: rowmerge.Session) -> None:
    merge = "merge into t using (select 1 as p) s on s.p = t.p when matched then update set v = '{}'"
    stage(audits, "first", merge.format("first"))
    stage(audits, "second", merge.format("second"))
    audits.sql("call system.publish_changes('t', 'first')")
    assert published(audits) == ["first"]
    with pytest.raises(PlanError, match="cannot be published. Only appends, dynamic overwrites"):
        audits.sql("call system.publish_changes('t', 'second')")
    assert rows(audits) == [(1, "first")]


def test_a_staged_dynamic_overwrite_is_published_unless_its_partitions_changed(audits: rowmerge.Session) -> None:
    audits.sql("insert into t values (2, 'old')")
    stage_overwrite(audits, "one", "(1, 'replaced')")
    stage_overwrite(audits, "two", "(2, 'replaced')")
    audits.sql("insert into t values (2, 'later')")
    audits.sql("call system.publish_changes('t', 'one')")
    assert rows(audits) == [(1, "replaced"), (2, "later"), (2, "old")]
    assert published(audits) == ["later", "old", "replaced"]
    with pytest.raises(PlanError, match="A later commit changed a partition that it replaces"):
        audits.sql("call system.publish_changes('t', 'two')")


def test_a_snapshot_of_a_branch_can_be_published(audits: rowmerge.Session) -> None:
    audits.sql("alter table t create branch b")
    audits.sql("insert into t.branch_b values (2, 'b')")
    audits.sql("insert into t values (3, 'main')")
    metadata = StaticTable.from_metadata(newest_metadata(audits.describe("default", "t").location)).metadata
    audits.sql(f"call system.cherrypick_snapshot('t', {metadata.refs['b'].snapshot_id})")
    assert rows(audits) == [(1, "old"), (2, "b"), (3, "main")]


def test_rows_of_dataframes_are_written_to_the_branch(audits: rowmerge.Session) -> None:
    audits.spark.conf.set(BRANCH, "audit")
    audits.write(audits.spark.sql("select 2 as p, 'frame' as v"), "t", mode="append")
    assert [row.v for row in audits.table("t", where="p = 2").collect()] == ["frame"]
    assert published(audits) == ["old"]


def test_arguments_of_a_statement_override_the_settings(audits: rowmerge.Session) -> None:
    audits.spark.conf.set(BRANCH, "audit")
    audits.execute("insert into t values (2, 'other')", wap_branch="other")
    audits.execute("insert into t values (3, 'staged')", wap_id="w1")
    assert rows(audits) == [(1, "old")]
    frame = audits.execute("select v from t where p = 2", wap_branch="other").frame
    assert [row.v for row in frame.collect()] == ["other"]
    audits.sql("call system.publish_changes('t', 'w1')")
    assert published(audits) == ["old", "staged"]


def test_publication_needs_an_iceberg_table(session: rowmerge.Session) -> None:
    session.sql("create table d (p int) using delta")
    with pytest.raises(PlanError, match="RESTORE TABLE"):
        session.sql("call system.publish_changes('d', 'w1')")


def test_an_overwrite_of_a_new_partition_is_not_published_next_to_later_rows(audits: rowmerge.Session) -> None:
    stage_overwrite(audits, "one", "(2, 'run 1')")
    stage_overwrite(audits, "two", "(2, 'run 2')")
    audits.sql("call system.publish_changes('t', 'one')")
    with pytest.raises(PlanError, match="A later commit changed a partition that it replaces"):
        audits.sql("call system.publish_changes('t', 'two')")
    assert rows(audits) == [(1, "old"), (2, "run 1")]


@pytest.mark.parametrize(
    "statement",
    [
        "merge into t using (select 5 as p) s on s.p = t.p when matched then delete when not matched then insert (p) values (5)",
        "insert into t replace where p = 7 select 7, 'r'",
    ],
)
def test_statements_that_removed_no_row_are_no_appends(audits: rowmerge.Session, statement: str) -> None:
    stage(audits, "w", statement)
    audits.sql("insert into t values (9, 'main')")
    with pytest.raises(PlanError, match="cannot be published"):
        audits.sql("call system.publish_changes('t', 'w')")


def test_an_id_with_several_snapshots_is_refused(audits: rowmerge.Session) -> None:
    stage(audits, "w", "insert into t values (2, 'a')")
    stage(audits, "w", "insert into t values (3, 'b')")
    with pytest.raises(PlanError, match=r"several snapshots that were staged as w: \d+, \d+\. Publish each"):
        audits.sql("call system.publish_changes('t', 'w')")


def test_an_idempotency_key_counts_when_its_snapshot_is_published(audits: rowmerge.Session) -> None:
    statement = "insert into t values (2, 'a')"
    audits.execute(statement, idempotency_key=("job", 1), wap_id="failed")
    audits.execute(statement, idempotency_key=("job", 1))
    assert rows(audits) == [(1, "old"), (2, "a")]
    audits.execute("insert into t values (3, 'b')", idempotency_key=("job", 2), wap_id="good")
    audits.sql("insert into t values (4, 'main')")
    audits.sql("call system.publish_changes('t', 'good')")
    audits.execute("insert into t values (3, 'b')", idempotency_key=("job", 2))
    assert rows(audits) == [(1, "old"), (2, "a"), (3, "b"), (4, "main")]


def test_an_idempotency_key_of_a_dropped_branch_does_not_count(audits: rowmerge.Session) -> None:
    def insert(branch: str | None) -> bool:
        return audits.execute("insert into t values (2, 'x')", idempotency_key="load", wap_branch=branch).replayed

    assert [insert("audit"), insert("audit"), insert(None)] == [False, True, True], "a branch that exists may be published"
    audits.sql("alter table t drop branch audit")
    assert [insert(None), insert(None)] == [False, True]
    assert published(audits) == ["old", "x"]
    audits.sql("create or replace table t (p int, v string) using iceberg tblproperties ('write.wap.enabled' = 'true')")
    assert insert(None), "keys stay when the table is replaced"


def test_a_snapshot_is_not_published_on_a_replaced_table(audits: rowmerge.Session) -> None:
    audits.sql("create table r (id int) using iceberg tblproperties ('write.wap.enabled' = 'true')")
    stage(audits, "w", "insert into r values (1)")
    audits.sql("create or replace table r (v int not null) using iceberg")
    with pytest.raises(PlanError, match="no values of the column v, which is NOT NULL"):
        audits.sql("call system.publish_changes('r', 'w')")


@pytest.mark.parametrize("statement", ["create table", "create or replace table"])
@pytest.mark.parametrize("audit", [{"wap_branch": "audit"}, {"wap_id": "first"}])
def test_a_new_table_has_no_rows_until_they_are_published(audits: rowmerge.Session, statement: str, audit: dict[str, str]) -> None:
    properties = "using iceberg tblproperties ('write.wap.enabled' = 'true')"
    audits.execute(f"{statement} n {properties} as select 1 as id", **audit)
    assert audits.sql("select * from n").collect() == []
    audits.execute("insert into n values (2)", wap_branch="later")
    if "wap_branch" in audit:
        audits.execute("insert into n values (3)", wap_branch="audit")
        assert sorted(audits.sql("select id from n version as of 'audit'").collect()) == [(1,), (3,)]
        assert audits.sql("select * from n").collect() == []
        audits.sql("call system.fast_forward('n', 'main', 'audit')")
    else:
        audits.sql("call system.publish_changes('n', 'first')")
    assert sorted(audits.sql("select id from n").collect()) == ([(1,), (3,)] if "wap_branch" in audit else [(1,)])
    audits.execute(f"create or replace table n {properties} as select 9 as id", **audit)
    assert audits.sql("select id from n").collect() == [(9,)], "the replacement of a table changes main"


def test_a_new_table_without_the_property_is_visible_at_once(audits: rowmerge.Session) -> None:
    audits.execute("create table n using iceberg as select 1 as id", wap_branch="audit")
    audits.execute("create table d using delta as select 1 as id", wap_branch="audit")
    audits.spark.conf.set(BRANCH, "audit")
    audits.write(audits.sql("select 1 as id"), "w", mode="replace", format="iceberg", properties={"write.wap.enabled": "true"})
    audits.spark.conf.unset(BRANCH)
    assert audits.sql("select id from w").collect() == [] and audits.sql("select id from w.branch_audit").collect() == [(1,)]
    audits.write(audits.sql("select 2 as id"), "x", mode="replace", format="iceberg", properties={"write.wap.enabled": "true"})
    assert audits.sql("select id from x").collect() == [(2,)]
    audits.execute("create table e (id int) using iceberg tblproperties ('write.wap.enabled' = 'true')", wap_branch="audit")
    assert audits.sql("select id from n").collect() == audits.sql("select id from d").collect() == [(1,)]
    assert audits.sql("select id from e").collect() == []
