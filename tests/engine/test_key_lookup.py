"""Spark does not read the target of a MERGE whose keys can be looked up, and the result equals that of a join."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame

import rowmerge
from rowmerge.execution.ways import row_writing
from rowmerge.execution.ways.way import RowChangeRequest
from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.spark.matching import key_lookup
from rowmerge.spark.source import keys, source

pytestmark = pytest.mark.one_of("kind")


@pytest.fixture(params=["driver", "executors"], autouse=True)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the driver or executors look up the keys, whatever the size of the table. In local mode, only the driver would."""
    monkeypatch.setattr(key_lookup, "_executors_look_up", lambda spark, files: request.param == "executors")
    return str(request.param)


COLUMNS = (
    "id, 'k' || id as name, cast(id % 7 as int) as part, date_add(date'2026-01-01', int(id)) as day, "
    "cast(id / 4 as decimal(12, 2)) as amount"
)
VECTORS = "using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read')"
TABLES = {
    "delta": "using delta",
    "delta by parts": "using delta partitioned by (part)",
    "delta, columns mapped": "using delta tblproperties ('delta.columnMapping.mode' = 'name')",
    "iceberg": "using iceberg",
    "iceberg by buckets": "using iceberg partitioned by (bucket(3, id))",
    "iceberg 3": "using iceberg tblproperties ('format-version' = '3')",
}


@pytest.fixture
def no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every MERGE fail that reads its table with Spark."""

    def stopped(*_: object, **__: object) -> DataFrame:
        raise AssertionError("Spark reads the table")

    monkeypatch.setattr(RowChangeRequest, "read_target", stopped)


@pytest.fixture
def no_jobs_for_rows(no_scan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every MERGE fail that uses Spark to match rows."""

    def stopped(*_: object, **__: object) -> DataFrame:
        raise AssertionError("Spark joins rows")

    monkeypatch.setattr(row_writing, "merge_outcomes", stopped)


@pytest.mark.parametrize("kind", TABLES)
def test_rows_are_looked_up_by_several_keys_without_a_scan(session: rowmerge.Session, request: pytest.FixtureRequest, kind: str) -> None:
    """Some rows were deleted or updated before, and unassigned columns require more than the keys."""
    session.sql(f"create table kept {TABLES[kind]} as select {COLUMNS} from range(1000)")
    session.sql("delete from kept where id % 10 = 3")
    session.sql("update kept set name = 'moved ' || name where id % 10 = 4")
    request.getfixturevalue("no_scan")
    on = "t.id = s.id and t.name = s.name and t.day = s.day and t.amount <=> s.amount"
    source = f"(select {COLUMNS} from range(0, 1200, 2) union all select {COLUMNS} from range(3, 1003, 10))"
    counts = session.sql(
        f"merge into kept t using {source} s on {on} when matched and t.part = 1 then delete "
        "when matched then update set part = s.part + 100 when not matched and s.id % 10 <> 4 then insert *"
    ).collect()[0]
    matched = [n for n in range(0, 1000, 2) if n % 10 != 4]
    deleted_ids = [n for n in matched if n % 7 == 1]
    new = [n for n in range(1000, 1200, 2) if n % 10 != 4] + list(range(3, 1003, 10))
    assert (counts["num_deleted_rows"], counts["num_updated_rows"], counts["num_inserted_rows"]) == (
        len(deleted_ids), len(matched) - len(deleted_ids), len(new),
    )  # fmt: skip
    rows = session.sql("select id, name, part from kept").collect()
    parts = {row["id"]: row["part"] for row in rows}
    assert len(rows) == len(parts) == 900 - len(deleted_ids) + len(new)
    assert all(parts[n] == n % 7 + 100 for n in matched if n not in set(deleted_ids))
    assert all(parts[n] == n % 7 for n in new)
    assert sum(row["name"].startswith("moved") for row in rows) == 100


NESTED_COLUMNS = (
    "case when id % 50 = 9 then null else named_struct('id', id, 'origin', named_struct('name', if(id % 40 = 7, null, 'k' || id % 9), "
    "'tags', array(id))) end as key, cast(id % 7 as int) as part, id as v"
)
NESTED_MERGES = {
    "upsert": "when matched then update set * when not matched then insert *",
    "clauses": "when matched and t.v % 3 = 0 then delete when matched then update set v = t.v + s.v when not matched then insert *",
    "delete": "when matched then delete",
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("statement", NESTED_MERGES)
def test_a_lookup_of_nested_fields_equals_a_join(
    session: rowmerge.Session, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str, statement: str
) -> None:
    """Fields and structs around them are NULL in some rows, and older files lack one of the fields."""
    columns = NESTED_COLUMNS.replace("'name', ", "'place', 'new', 'name', ").replace("id as v", "-id as v")
    source = f"(select {columns} from range(0, 1200, 3))"
    for table in ("joined", "looked_up"):
        session.sql(f"create table {table} {TABLES[kind].replace('3, id', '3, v')} as select {NESTED_COLUMNS} from range(1000)")
        session.sql(f"alter table {table} add column key.origin.place string first")
        session.sql(f"delete from {table} where v % 10 = 3")
        session.sql(f"update {table} set key.origin.place = 'moved' where v % 10 = 4")
    on = "t.Key.origin.name <=> s.key.origin.name and s.key.id = t.key.id"
    merge = f"merge into {{}} t using {source} s on {on} {NESTED_MERGES[statement]}"
    with monkeypatch.context() as patch:
        patch.setattr(key_lookup, "_lookup_keys", lambda snapshot, source: None)
        expected = session.sql(merge.format("joined")).collect()
    request.getfixturevalue("no_scan")
    assert session.sql(merge.format("looked_up")).collect() == expected
    assert expected[0]["num_affected_rows"] > 250
    rows = [sorted(map(str, session.sql(f"select * from {table}").collect())) for table in ("joined", "looked_up")]
    assert rows[0] == rows[1]


def test_a_name_that_is_no_field_of_a_struct_is_unknown(session: rowmerge.Session) -> None:
    session.sql("create table t (key struct<id: bigint>, v int)")
    with pytest.raises(rowmerge.errors.UnknownColumn, match="nope"):
        session.sql("merge into t using (select 1L as id) s on t.key.nope = s.id when matched then delete")


def test_keys_too_large_for_a_request_to_a_server_are_joined(
    session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(key_lookup, "analyses_later", lambda spark: True)
    session.sql("create table t as select id, 0 as v, 'x' as w from range(100)")
    read_target, scans = RowChangeRequest.read_target, []

    def scanned(request: RowChangeRequest, *arguments: Any, **options: Any) -> DataFrame:
        scans.append(request)
        return read_target(request, *arguments, **options)

    monkeypatch.setattr(RowChangeRequest, "read_target", scanned)
    merge = "merge into t using (select id, 1 as v from range(50)) s on t.id = s.id when matched then update set v = t.v + s.v"
    for limit, is_joined in ((400, False), (399, place == "executors")):  # 50 keys of 8 bytes
        monkeypatch.setattr(key_lookup, "MAX_CONNECT_KEY_BYTES", limit)
        scans.clear()
        session.sql(merge)
        assert bool(scans) == is_joined
    assert session.sql("select sum(v), count(*) from t").collect() == [(100, 100)]


def test_a_duplicate_source_key_is_reported(session: rowmerge.Session) -> None:
    session.sql("create table twice as select id, 0 as v from range(100)")
    merge = (
        "merge into twice t using (select id, 1 as v from range(50) union all select 7L, 2) s on t.id = s.id when matched then update set *"
    )
    with pytest.raises(rowmerge.errors.MultipleSourceRowsMatch, match="id = 7"):
        session.sql(merge)
    assert session.sql("select sum(v) from twice").collect()[0][0] == 0


KEYS = {
    "one": ("t.id = s.id", "select id + 0 as id from range(0, 1200, 2)"),
    "two": ("t.day = s.day and t.name = s.name", f"select {COLUMNS} from range(0, 1200, 2)"),
    "partitions": ("t.id = s.id and s.part = t.part", f"select {COLUMNS} from range(0, 1200, 2) union all select 5, '', 6, null, 0"),
    "few": ("t.id = s.id", "select explode(sequence(0, 998, 2)) as id where 1 = 1"),
    "twice": ("t.id <=> s.id", "select id from range(0, 1200, 2) union all select id from range(0, 500, 4) union all select null"),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("by", KEYS)
def test_rows_are_deleted_by_keys_without_a_matching_job(
    session: rowmerge.Session, request: pytest.FixtureRequest, kind: str, by: str
) -> None:
    session.sql(f"create table kept {TABLES[kind]} as select {COLUMNS} from range(1000)")
    session.sql("delete from kept where id % 10 = 3 or id % 10 = 6")
    request.getfixturevalue("no_jobs_for_rows")
    on, keys = KEYS[by]
    counts = session.sql(f"merge into kept t using ({keys}) s on {on} when matched then delete").collect()[0]
    deleted_ids = {n for n in range(0, 1000, 2) if n % 10 != 6}
    assert (counts["num_affected_rows"], counts["num_deleted_rows"]) == (len(deleted_ids), len(deleted_ids))
    remaining_ids = {row["id"] for row in session.sql("select id from kept").collect()}
    assert remaining_ids == {n for n in range(1000) if n % 10 not in (3, 6)} - deleted_ids


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_are_replaced_by_keys_without_a_matching_job(session: rowmerge.Session, request: pytest.FixtureRequest, kind: str) -> None:
    """dbt's delete+insert."""
    session.sql(f"create table kept {TABLES[kind]} as select {COLUMNS} from range(1000)")
    request.getfixturevalue("no_jobs_for_rows")
    session.sql(
        "insert into kept replace using (part, id) "
        f"select id, 'new', part, day, amount from (select {COLUMNS} from range(500, 1500)) where id % 2 = 0"
    )
    rows = {row["id"]: row["name"] for row in session.sql("select id, name from kept").collect()}
    assert len(rows) == 1000 + 250
    assert all((name == "new") == (id_ >= 500 and id_ % 2 == 0) for id_, name in rows.items())


@pytest.mark.parametrize("kind", [kind for kind in TABLES if kind != "iceberg 3"])
def test_an_upsert_writes_the_source_rows_directly(session: rowmerge.Session, request: pytest.FixtureRequest, kind: str) -> None:
    """The driver writes few rows and executors write many. With row tracking, updated rows keep their ids."""
    session.sql(f"create table kept {TABLES[kind]} as select {COLUMNS} from range(1000)")
    session.sql("delete from kept where id % 10 = 3")
    request.getfixturevalue("no_jobs_for_rows")
    for first, last, tasks in ((500, 1500, 4), (900, 7000, 1)):
        source = f"(select {COLUMNS.replace('k', 'n')} from range({first}, {last}, 1, {tasks}))"
        old_count = session.sql("select count(*) from kept").collect()[0][0]
        counts = session.sql(
            f"merge into kept t using {source} s on t.id = s.id when matched then update set * when not matched then insert *"
        ).collect()[0]
        totals = session.sql("select count(*), count_if(startswith(name, 'n')) from kept").collect()[0]
        assert counts["num_updated_rows"] + counts["num_inserted_rows"] == counts["num_affected_rows"] == last - first
        assert counts["num_deleted_rows"] == 0
        assert totals[0] == old_count + counts["num_inserted_rows"]
        assert totals[1] == last - 500
    assert session.sql("select count(distinct id), sum(id) from kept").collect()[0][0] == totals[0]


@pytest.mark.parametrize("kind", [kind for kind in TABLES if kind != "iceberg 3"])
@pytest.mark.parametrize(("last", "max_prepared_rows"), [(1500, 100_000), (6500, 100_000), (1500, 100), (6500, 100)])
def test_clauses_that_read_only_the_source_need_no_join(
    session: rowmerge.Session, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str, last: int, max_prepared_rows: int
) -> None:
    """Compare the result with the clauses. Rows are computed before it is known which of them are needed."""
    monkeypatch.setattr(source, "MAX_PREPARED_ROWS", max_prepared_rows)
    session.sql(f"create table kept {TABLES[kind]} as select {COLUMNS} from range(1000)")
    session.sql("delete from kept where id % 10 = 3")
    rows = f"(select {COLUMNS.replace('k', 'n')} from range(500, {last}, 1, 2))"
    expected = {n: f"k{n}" for n in range(1000) if n % 10 != 3}
    request.getfixturevalue("no_jobs_for_rows")
    clauses = (
        ("when not matched and s.part > 3 then insert (id, name) values (s.id, s.name)", 0, 0, lambda n: n % 7 > 3),
        (
            "when matched and s.part = 0 then delete when matched and s.part < 3 then update set * when not matched and s.part = 2 "
            "then insert *",
            1, 3, lambda n: n % 7 == 2,
        ),
        ("when matched then delete when not matched then insert *", 7, 7, lambda n: True),
        ("when not matched then insert *", 0, 0, lambda n: True),
    )  # fmt: skip
    for text, deleted, changed, is_new in clauses:
        matched_ids = {n for n in range(500, last) if n in expected}
        deleted_ids, updated = {n for n in matched_ids if n % 7 < deleted}, {n for n in matched_ids if deleted <= n % 7 < changed}
        new = {n for n in range(500, last) if n not in matched_ids and is_new(n)}
        counts = session.sql(f"merge into kept t using {rows} s on t.id = s.id {text}").collect()[0]
        expected |= {n: f"n{n}" for n in updated | new}
        expected = {n: name for n, name in expected.items() if n not in deleted_ids}
        assert (counts["num_updated_rows"], counts["num_deleted_rows"], counts["num_inserted_rows"]) == (
            len(updated), len(deleted_ids), len(new),
        )  # fmt: skip
        table_rows = session.sql("select id, name from kept").collect()
        assert len(table_rows) == len(expected)
        assert {row["id"]: row["name"] for row in table_rows} == expected


def test_values_of_clauses_that_do_not_apply_raise_no_error(session: rowmerge.Session) -> None:
    """Rows are computed before it is known which are needed, so an error in an unneeded row must not fail the statement."""
    session.sql(f"create table kept {VECTORS} as select id, 'old' as name from range(100)")
    name = "if(s.id < 100, raise_error('met'), 'new')"
    source_rows = "(select id from range({}, 200)) s"
    merge = f"merge into kept t using {source_rows} on t.id = s.id when not matched then insert (id, name) values (s.id, {{}})"
    session.sql(merge.format(50, name))
    assert sorted(session.sql("select name, count(*) from kept group by name").collect()) == [("new", 100), ("old", 100)]
    with pytest.raises(rowmerge.errors.SparkFailed, match="wanted"):
        session.sql(merge.format(-1, "if(s.id < 0, raise_error('wanted'), 'new')"))
    assert session.sql("select count(*) from kept").collect()[0][0] == 200


CASES = {
    "rows of the target that have the same key": (
        "select id % 50 as id, cast(id as string) as name from range(100)",
        "select id, 'new' as name from range(10)",
    ),
    "rows of the source that meet nothing": (
        "select id, cast(id as string) as name from range(100)",
        "select 200L as id, 'new' as name union all select 200L, 'newer' union all select 1L, 'new'",
    ),
    "NULLs": (
        "select if(id = 3, null, id) as id, cast(id as string) as name from range(100)",
        "select cast(null as bigint) as id, 'new' as name union all select null, 'newer' union all select 1L, 'new'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_upsert_with_duplicate_target_keys_equals_a_join(session: rowmerge.Session, case: str) -> None:
    target, source_rows = CASES[case]
    session.sql(f"create table kept {VECTORS} as {target}")
    old_rows = [tuple(row) for row in session.sql("select id, name from kept").collect()]
    news = [tuple(row) for row in session.sql(f"select id, name from ({source_rows})").collect()]
    counts = session.sql(
        f"merge into kept t using ({source_rows}) s on t.id = s.id when matched then update set * when not matched then insert *"
    ).collect()[0]
    updated_rows = [new for id_, _ in old_rows for new in news if id_ is not None and new[0] == id_]
    unmatched_rows = [row for row in old_rows if row[0] is None or row[0] not in {new[0] for new in news}]
    added = [new for new in news if new[0] is None or new[0] not in {id_ for id_, _ in old_rows}]
    assert sorted(map(str, (tuple(row) for row in session.sql("select id, name from kept").collect()))) == sorted(
        map(str, [*unmatched_rows, *updated_rows, *added])
    )
    assert (counts["num_updated_rows"], counts["num_inserted_rows"]) == (len(updated_rows), len(added))


def test_residual_conditions_are_evaluated_for_each_row(session: rowmerge.Session) -> None:
    session.sql(f"create table kept using delta as select {COLUMNS} from range(100)")
    for more in ("t.part = 1", "s.part = 1", "t.part + s.part = 2"):
        session.sql(f"merge into kept t using (select {COLUMNS} from range(100)) s on t.id = s.id and {more} when matched then delete")
        assert session.sql("select count(*) from kept").collect()[0][0] == 100 - len(range(1, 100, 7))


def test_a_large_source_of_one_task_is_divided_between_tasks(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each source row is evaluated once, and there are as many files as tasks."""
    monkeypatch.setattr(source, "MIN_ROWS_PER_FILE", 1_000)
    monkeypatch.setattr(source, "MAX_PREPARED_ROWS", 100)
    monkeypatch.setattr(source.os, "cpu_count", lambda: 3)
    session.sql(f"create table kept {VECTORS} as select id, 0 as v from range(300000)")
    session.sql("create table given using delta as select id, 1 as v from range(299000, 306000, 1, 1)")
    counts = session.execute(
        "merge into kept t using given s on t.id = s.id when matched and s.v = 1 then update set * when not matched then insert *"
    ).changes
    assert (counts.updated, counts.inserted, counts.files_marked, counts.files_added) == (1000, 6000, 1, 3)
    totals = session.sql("select count(*), count(distinct id), sum(v), sum(id) from kept").collect()[0]
    assert tuple(totals) == (306_000, 306_000, 7_000, sum(range(306_000)))


@pytest.mark.parametrize("tasks", [1, 3, 70])
def test_keys_of_many_rows_are_collected_completely(session: rowmerge.Session, tasks: int) -> None:
    """70,000 rows are in one task, mostly in one of three tasks, or in more tasks than may return complete rows."""
    rows = {
        1: "select id from range(0, 70000, 1, 1)",
        3: "select id from range(0, 69998, 1, 1) union all select 69998L union all select 69999L",
        70: "select id from range(0, 70000, 1, 70)",
    }[tasks]
    evaluated = source.evaluate_source(session.spark.sql(rows), "s", (KeyPair("id", "=", "s.id"),))
    (key,) = evaluated.keys
    assert evaluated.row_count == evaluated.frame.count() == 70_000
    assert key.values is not None
    assert key.values.to_pylist() == list(range(70_000))


def test_many_short_keys_are_collected_instead_of_a_join(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, pair = session.spark.sql("select id, cast(id as string) as name from range(5000)"), KeyPair("id", "=", "s.id")
    monkeypatch.setattr(source, "MAX_COLLECTED_KEYS", 1_000)
    monkeypatch.setattr(source, "MAX_UNMEASURED_KEYS", 100)
    monkeypatch.setattr(source, "_RETURNED_KEY_SQL", "false")

    def collects_keys(pair: KeyPair, max_keys: int) -> bool:
        (key,) = source.evaluate_source(rows, "s", (pair,), max_keys=max_keys).keys
        assert key.values is not None or (str(key.low), str(key.high)) == ("0", "4999" if pair.column == "id" else "999")
        return key.values is not None

    assert collects_keys(pair, 5_000)
    assert not collects_keys(pair, 0)
    assert not collects_keys(pair, 4_999)
    text = KeyPair("name", "=", "s.name")
    monkeypatch.setattr(keys, "MAX_KEY_BYTES", 10 + 90 * 2 + 900 * 3 + 4_000 * 4 + 5_000 * 8)
    assert collects_keys(text, 5_000)
    monkeypatch.setattr(keys, "MAX_KEY_BYTES", keys.MAX_KEY_BYTES - 1)
    assert not collects_keys(text, 5_000)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_large_snapshot_step_looks_up_rows_by_string_keys(
    session: rowmerge.Session, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The change of a row depends on the row, so keys do not suffice. The source has more rows than the driver collects."""
    monkeypatch.setattr(source, "MAX_COLLECTED_KEYS", 100)
    monkeypatch.setattr(source, "MAX_UNMEASURED_KEYS", 100)
    session.sql(f"create table history {TABLES[kind]} as select md5('k' || id) as key, id, cast(null as int) as until from range(2000)")
    session.sql("update history set until = 1 where id % 10 = 0")
    request.getfixturevalue("no_scan")
    counts = session.sql(
        "merge into history t using (select md5('k' || id) as key, id, 2 as until from range(1000, 3000)) s on t.key = s.key "
        "when matched and t.until is null then update set until = s.until when not matched then insert (key, id) values (s.key, s.id)"
    ).collect()[0]
    assert (counts["num_updated_rows"], counts["num_inserted_rows"]) == (900, 1000)
    rows = session.sql("select until, count(*), min(id), max(id) from history group by until order by until nulls first").collect()
    assert [tuple(row) for row in rows] == [(None, 1900, 1, 2999), (1, 200, 0, 1990), (2, 900, 1001, 1999)]
