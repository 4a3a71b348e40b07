"""EXPLAIN of queries: the files of each table that a query reads, and why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rowmerge
from rowmerge.session.names import file_selection
from rowmerge.spark.spark_session import SKIP_FILES

NO_CONDITION = "the query has no condition"
NOT_ALONE = "no condition of the query restricts the rows of this table alone"
OPAQUE = "the part of the query that reads the table is not analysed"


@pytest.fixture(params=["delta", "iceberg"])
def tables(session: rowmerge.Session, request: pytest.FixtureRequest) -> rowmerge.Session:
    """Create `t` with three files: ids 1 and 2 in partition a, then 3 and 10 in partition b. Create `s` with one file, and the view `v`."""
    session.sql(f"create table t (id int, p string, x double) using {request.param} partitioned by (p)")
    for rows in ("(1, 'a', 1), (2, 'a', 2)", "(3, 'b', 3)", "(10, 'b', 30)"):
        session.sql(f"insert into t values {rows}")
    session.sql(f"create table s using {request.param} as select /*+ coalesce(1) */ int(id) as id, id * 2 as y from range(3)")
    session.sql("create view v as select id as k, p from t where id < 10")
    return session


def explain(session: rowmerge.Session, query: str, mode: str = "") -> list[str]:
    """Return the lines about tables, without versions and sizes in bytes."""
    ((text,),) = session.sql(f"explain {mode} {query}").collect()
    lines = text.partition("\n\n== ")[0].split("\n")
    return [_without_version_and_bytes(line) for line in lines]


def _without_version_and_bytes(line: str) -> str:
    if ", version " not in line:
        return line
    table, _, counts = line.partition(", version ")
    files, _, size = counts.partition(": ")[2].partition(", ")
    return f"{table}: {files}{size.partition(' bytes')[2]}"


def test_explain_shows_the_files_that_each_condition_excludes(tables: rowmerge.Session) -> None:
    assert explain(tables, "select * from t where p = 'b' and id > 5 and hash(p) <> 0 and x < 99") == [
        "tables that the query reads:",
        "  default.t: 1 of 3 files",
        "    `p` = 'b': excludes 1 by partition values",
        "    `id` > 5: excludes 2 by statistics",
        "    hash(`p`) <> 0: cannot exclude files",
        "    `x` < 99: excludes none",
    ]


def test_explain_prints_sparks_plan_of_the_files_to_read_below_the_tables(tables: rowmerge.Session) -> None:
    for mode, heading in (("", "== Physical Plan =="), ("extended", "== Optimized Logical Plan =="), ("formatted", "(1) Scan parquet")):
        ((text,),) = tables.sql(f"explain {mode} select x from t where id > 5").collect()
        section, _, plan = text.partition("\n\n")
        assert section.startswith("tables that the query reads:\n  default.t, version ")
        assert heading in plan and plan.startswith("== ") and "InMemoryFileIndex(3 paths)" not in plan


def test_explain_follows_conditions_through_views_joins_and_with_lists(tables: rowmerge.Session) -> None:
    joined = explain(tables, "with w as (select * from v) select * from w join s on w.k = s.id where s.id = 2")
    assert [line for line in joined if " IN (" not in line] == [
        "tables that the query reads:",
        "  default.s: 1 of 1 files",
        "    `id` = 2: excludes none",
        "    `id` < 10: excludes none",
        "  default.t: 1 of 3 files",
        "    `id` = 2: excludes 2 by statistics",
        "    `id` < 10: excludes 1 by statistics",
    ]
    assert explain(tables, "select * from t union all (select * from t where id = 3)")[1:] == [
        f"  default.t: 3 of 3 files; {NOT_ALONE}",
        "  default.t: 1 of 3 files",
        "    `id` = 3: excludes 2 by statistics",
    ]
    assert explain(tables, "select * from t left join s on t.x = s.id and t.p = 'a' and s.y > 100")[1:] == [
        f"  default.t: 3 of 3 files; {NOT_ALONE}",
        "  default.s: 0 of 1 files",
        "    `y` > 100: excludes 1 by statistics",
    ]


def test_explain_says_why_all_files_are_read(tables: rowmerge.Session) -> None:
    assert explain(tables, "select * from t")[1:] == [f"  default.t: 3 of 3 files; {NO_CONDITION}"]
    assert explain(tables, "table t")[1:] == [f"  default.t: 3 of 3 files; {NO_CONDITION}"]
    assert explain(tables, "from t select id where id = 1")[1:] == [f"  default.t: 3 of 3 files; {OPAQUE}"]
    assert explain(tables, "select * from t where rand() < x and p not in (select p from v)")[1:] == [
        f"  default.t: 3 of 3 files; {NOT_ALONE}",
        "  default.t: 2 of 3 files",
        "    `id` < 10: excludes 1 by statistics",
        "  not used to exclude files: rand() < x",
        "  not used to exclude files: p not in (select p from default.v AS `v`)",
    ]


def test_explain_shows_dynamic_filters_and_does_not_evaluate_them(tables: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    newer, keys = "select * from t where id > (select max(id) from s)", "select * from t where id in (select id from s where y = 2)"
    maximum = "    `id` > (select max(id) from default.s AS `s`): "
    assert explain(tables, newer)[2].startswith(f"{maximum}not evaluated, because it could exclude at most ")
    monkeypatch.setattr(file_selection, "MIN_DYNAMIC_COST", 0)
    monkeypatch.setattr(file_selection, "evaluate", None)
    monkeypatch.setattr(file_selection, "distinct_values", None)
    assert explain(tables, newer)[1:3] == [
        "  default.t: 3 of 3 files",
        f"{maximum}evaluated when the query runs (dynamic filter)",
    ]
    effect = "not evaluated, because the files of default.s are not much smaller"
    assert f"    `id` IN (SELECT `id` FROM default.s): {effect}" in explain(tables, keys)
    monkeypatch.setattr(file_selection, "MAX_KEY_SHARE", 1)
    assert "    `id` IN (SELECT `id` FROM default.s): evaluated when the query runs (dynamic filter)" in explain(tables, keys)
    tables.sql(f"explain insert into s {newer.replace('*', 'id, id')}").collect()
    monkeypatch.setattr(file_selection, "MIN_DYNAMIC_COST", 1)
    tables.sql("create table alike (id int)")
    for _ in range(2):
        tables.sql("insert into alike values (1), (99)")
    alike = "    `id` IN (SELECT `id` FROM default.s): not evaluated, because the files have much the same range of `id`"
    assert alike in explain(tables, keys.replace("from t", "from alike"))


def test_explain_shows_constants_as_their_values(tables: rowmerge.Session) -> None:
    assert explain(tables, "select * from t where id > 2 + abs(-3)")[2] == "    `id` > cast('5' as int): excludes 2 by statistics"


def test_explain_says_that_metadata_or_few_files_answer_a_query(tables: rowmerge.Session) -> None:
    count = explain(tables, "select count(*) from t")
    assert count[1:] == ["  default.t: 0 of 3 files; the metadata of the table contain the result"]
    limited = explain(tables, "select x from t limit 1")
    assert limited[1:] == ["  default.t: 1 of 3 files; according to the metadata, these files contain all rows of the result"]


def test_explain_shows_conditions_whose_columns_are_unknown_because_of_a_table_of_spark(tables: rowmerge.Session) -> None:
    tables.spark.range(5).createOrReplaceTempView("only_in_spark")
    assert explain(tables, "select * from t, only_in_spark o where o.id = t.x and t.id = 1")[1:] == [
        "  default.t: 1 of 3 files",
        "    `id` = 1: excludes 2 by statistics",
        "  not used to exclude files: o.id = t.x",
    ]


def test_explain_says_that_bounds_are_unknown(tables: rowmerge.Session) -> None:
    key = "delta.dataSkippingNumIndexedCols" if tables.relation("default", "t").format == "delta" else "write.metadata.metrics.default"
    value = "0" if key.startswith("delta") else "none"
    tables.sql(f"alter table t set tblproperties ('{key}' = '{value}')")
    tables.sql("insert into t values (20, 'c', 20)")
    assert explain(tables, "select * from t where id > 0")[1:] == [
        "  default.t: 4 of 4 files",
        "    `id` > 0: excludes none; bounds are unknown in 1 of 4 files",
    ]


def test_explain_says_that_skipping_is_off_by_setting(tables: rowmerge.Session, switched_off: None) -> None:
    expected = f"  default.t: 3 of 3 files; files are not skipped, because {SKIP_FILES} is false"
    assert explain(tables, "select * from t where id = 1")[1:] == [expected]


@pytest.fixture
def switched_off(session: rowmerge.Session) -> Iterator[None]:
    session.spark.conf.set(SKIP_FILES, "false")
    yield
    session.spark.conf.unset(SKIP_FILES)


def test_explain_of_statements_that_write_shows_the_tables_of_their_queries(tables: rowmerge.Session) -> None:
    one_of_three = ["  tables that its queries read:", "    default.t: 1 of 3 files", "      `id` = 3: excludes 2 by statistics"]
    query = "select id, x as y from t where id = 3"
    for statement in (
        f"create table u as {query}",
        f"insert into s {query}",
        f"insert into s replace using (id) {query}",
        f"merge into s using ({query}) q on s.id = q.id when matched then delete",
        "delete from s where id in (select id from t where id = 3)",
        "update s set y = 1 where id in (select id from t where id = 3)",
    ):
        assert explain(tables, statement)[-3:] == one_of_three, statement
        tables.sql(f"explain {statement}").collect()
    assert "tables that" not in "".join(explain(tables, "insert into s values (1, 2)"))


def test_explain_of_a_query_without_tables_is_sparks_alone(tables: rowmerge.Session) -> None:
    for query in ("select 1", "(select 1)", "values (1)", "with a as (select 1) select * from a"):
        assert tables.sql(f"explain {query}").collect()[0][0].startswith("== Physical Plan ==")
