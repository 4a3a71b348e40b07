"""The job that evaluates the source of an upsert also writes it. Files that cannot be committed are deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings, strategies as st
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.execution.ways import by_keys, write_first
from rowmerge.spark.source import source, writing as source_writing
from tests.support.readers import read_with_delta_rs, read_with_pyiceberg
from tests.support.suites import examples

pytestmark = pytest.mark.one_of("kept", "tasks", "last", "case")

UPSERT = "on t.id = s.id when matched then update set * when not matched then insert *"
VECTORS = {
    "delta": "using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read')",
    "iceberg": "using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read')",
}
READERS = {"delta": read_with_delta_rs, "iceberg": read_with_pyiceberg}


@pytest.fixture(params=["delta", "iceberg"])
def kept_format(request: pytest.FixtureRequest, session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a table of 1000 rows, and return its format. Its sources count as large."""
    monkeypatch.setattr(write_first, "reads_few_bytes", lambda _: False)
    session.sql(f"create table kept {VECTORS[request.param]} as select id, 'old' as name from range(1000)")
    return str(request.param)


@pytest.fixture
def not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every statement fail that persists its source."""

    def stopped(*_: object, **__: object) -> source.Source:
        raise AssertionError("the source is kept")

    monkeypatch.setattr(source, "evaluate_source", stopped)


def _files(session: rowmerge.Session) -> set[str]:
    """Return the names of the table's data files, listed in the table or not."""
    location = session.sql("describe detail kept").collect()[0]["location"].removeprefix("file:")
    return {path.name for path in Path("/" + location.lstrip("/")).rglob("part-*.parquet")}


def _rows(session: rowmerge.Session, kept_format: str) -> dict[int, str]:
    """Return the rows that an independent reader reads. Their ids are unique."""
    location = session.sql("describe detail kept").collect()[0]["location"]
    rows = READERS[kept_format](location).to_pylist()
    names = {row["id"]: row["name"] for row in rows}
    assert len(names) == len(rows)
    return names


@pytest.mark.parametrize("tasks", [1, 2, 40, 100])
@pytest.mark.usefixtures("not_kept")
def test_few_rows_in_many_tasks_become_one_file(session: rowmerge.Session, kept_format: str, tasks: int) -> None:
    """The driver writes the rows of the first tasks. The last of a hundred tasks write small files, which are combined."""
    old_files = _files(session)
    counts = session.execute(f"merge into kept t using (select id, 'new' as name from range(500, 1900, 1, {tasks})) s {UPSERT}").changes
    assert (counts.updated, counts.inserted, counts.files_added) == (500, 900, 1)
    assert _rows(session, kept_format) == {n: "old" if n < 500 else "new" for n in range(1900)}
    assert len(_files(session) - old_files) == 1


@pytest.mark.usefixtures("not_kept")
def test_a_task_with_many_rows_writes_its_own_file(session: rowmerge.Session, kept_format: str) -> None:
    source_rows = "(select id, 'new' as name from range(900, 200900, 1, 2))"
    counts = session.execute(f"merge into kept t using {source_rows} s {UPSERT}").changes
    assert (counts.updated, counts.inserted, counts.files_added) == (100, 199_900, 2)
    assert _rows(session, kept_format) == {n: "old" if n < 900 else "new" for n in range(200_900)}


@pytest.mark.usefixtures("not_kept")
def test_rows_are_replaced_by_keys(session: rowmerge.Session, kept_format: str) -> None:
    """One key can have many new rows."""
    new = "select id, 'new' as name from range(900, 1100) union all select 950L, 'newer' union all select null, 'none'"
    session.sql(f"insert into kept replace using (id) {new}")
    rows = sorted(map(tuple, session.sql("select coalesce(id, -1), name from kept").collect()))
    assert rows == sorted([(n, "old") for n in range(900)] + [(n, "new") for n in range(900, 1100)] + [(950, "newer"), (-1, "none")])


@pytest.mark.usefixtures("not_kept")
@pytest.mark.parametrize("rows", ["where false", "where id < 0", "where id >= 5000"])
def test_an_empty_source_and_a_source_of_new_rows(session: rowmerge.Session, kept_format: str, rows: str) -> None:
    counts = session.execute(f"merge into kept t using (select id, 'new' as name from range(6000) {rows}) s {UPSERT}").changes
    new = 1000 if "5000" in rows else 0
    assert (counts.updated, counts.inserted) == (0, new)
    assert len(_rows(session, kept_format)) == 1000 + new


THROWN_AWAY = {
    "target": ("insert into kept values (7, 'twice')", "select id, 'new' as name from range(900, {last}) union all select 7, 'new'", 2),
    "source": ("select 1", "select id, 'new' as name from range(900, {last}) union all select -1, 'new' union all select -1, 'new'", 0),
    "many": ("select 1", "select id - 1 as id, 'new' as name from range(901, {last} + 1, 1, 3)", 0),
}


@pytest.mark.parametrize("case", THROWN_AWAY)
@pytest.mark.parametrize("last", [1100, 90_000])
def test_files_of_an_abandoned_attempt_are_deleted(
    session: rowmerge.Session, kept_format: str, monkeypatch: pytest.MonkeyPatch, case: str, last: int
) -> None:
    """Duplicate keys in table or source, or too many keys that are not inserted: the source is evaluated again and persisted."""
    before_it, rows, more = THROWN_AWAY[case]
    session.sql(before_it)
    if case == "many":
        monkeypatch.setattr(source, "MAX_KEYS_WITHOUT_JOIN", 500 if last > 1100 else 100)
    attempts: list[object] = []
    insert_rows = source_writing.insert_every_source_row
    monkeypatch.setattr(write_first, "insert_every_source_row", _recorded(insert_rows, attempts))
    old_files = _files(session)
    on = UPSERT.replace("t.id = s.id", "t.id = s.id + 0") if case == "many" else UPSERT
    counts = session.execute(f"merge into kept t using ({rows.format(last=last)}) s {on}").changes
    assert [attempt is None for attempt in attempts] == [case == "many"]
    assert counts.updated == 100 + more
    assert counts.inserted == last - 1000 + (2 if case == "source" else 0)
    assert len(_files(session) - old_files) == counts.files_added
    assert session.sql("select count(*) from kept").collect()[0][0] == last + {"target": 1, "source": 2, "many": 0}[case]


def _recorded(function: Callable[..., object], results: list[object]) -> Callable[..., object]:
    """Return a function that calls another one, and appends each result to a list."""

    def call(*arguments: object, **keywords: object) -> object:
        results.append(function(*arguments, **keywords))
        return results[-1]

    return call


def _use_large_sources(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Let each source count as large, and the driver accept this number of keys."""
    monkeypatch.setattr(write_first, "reads_few_bytes", lambda _: False)
    monkeypatch.setattr(source_writing, "max_collected_keys", lambda _: limit)


@pytest.fixture
def few_keys(monkeypatch: pytest.MonkeyPatch, not_kept: None) -> None:
    """Let the driver accept only 100 keys, so that a join must read the keys from the written files."""
    _use_large_sources(monkeypatch, 100)


@pytest.mark.usefixtures("few_keys")
@pytest.mark.parametrize("tasks", [1, 3, 40])
def test_too_many_keys_for_the_driver_are_read_from_the_written_files(session: rowmerge.Session, kept_format: str, tasks: int) -> None:
    old_files = _files(session)
    counts = session.execute(f"merge into kept t using (select id, 'new' as name from range(500, 61900, 1, {tasks})) s {UPSERT}").changes
    assert (counts.updated, counts.inserted, counts.deleted) == (500, 60_900, 0)
    assert _rows(session, kept_format) == {n: "old" if n < 500 else "new" for n in range(61_900)}
    assert len(_files(session) - old_files) == counts.files_added


@pytest.mark.usefixtures("few_keys")
@pytest.mark.parametrize("format_", VECTORS)
def test_written_keys_of_several_columns_match_with_nulls(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    """The table's columns have other physical names than logical ones, and one comparison treats NULL as a value."""
    mapping = "using delta tblproperties ('delta.columnMapping.mode' = 'name')" if format_ == "delta" else "using iceberg"
    old_rows = (
        "select id as n, if(id % 10 = 0, null, concat('k', id)) as `the key`, date'2020-01-01' as day, 'old' as name from range(1000)"
    )
    session.sql(f"create table pairs {mapping} as {old_rows}")
    session.sql("alter table pairs rename column n to number")
    new_rows = "select id as number, if(id % 10 = 0, null, concat('k', id)) as `the key`, date'2024-01-01' as day, 'new' as name"
    upsert = UPSERT.replace("t.id = s.id", "t.`the key` <=> s.`the key` and s.number = t.NUMBER")
    counts = session.execute(f"merge into pairs t using ({new_rows} from range(500, 1500)) s {upsert}").changes
    assert (counts.updated, counts.inserted) == (500, 500)
    rows = session.sql("select number, `the key`, year(day), name from pairs").collect()
    keys = {n: None if n % 10 == 0 else f"k{n}" for n in range(1500)}
    assert sorted(map(tuple, rows)) == [(n, keys[n], 2020 if n < 500 else 2024, "old" if n < 500 else "new") for n in range(1500)]


@pytest.mark.usefixtures("few_keys")
@pytest.mark.parametrize("last", [1100, 90_000])
def test_written_keys_that_match_twice_are_an_error_without_files(session: rowmerge.Session, kept_format: str, last: int) -> None:
    old_files = _files(session)
    rows = f"select id, 'new' as name from range(900, {last}) union all select 950, 'twice'"
    with pytest.raises(rowmerge.errors.MultipleSourceRowsMatch, match="id = 950"):
        session.sql(f"merge into kept t using ({rows}) s {UPSERT}")
    assert _files(session) == old_files
    assert _rows(session, kept_format) == dict.fromkeys(range(1000), "old")


def test_a_written_key_that_two_target_rows_have_replaces_both(
    session: rowmerge.Session, kept_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two rows is updated, so the source row must become two rows."""
    _use_large_sources(monkeypatch, 100)
    session.sql("insert into kept values (7, 'twice')")
    old_files = _files(session)
    rows = "select id, 'new' as name from range(900, 1100) union all select 7, 'new'"
    counts = session.execute(f"merge into kept t using ({rows}) s {UPSERT}").changes
    assert (counts.updated, counts.inserted) == (102, 100)
    assert len(_files(session) - old_files) == counts.files_added
    rows = session.sql("select id, name from kept").collect()
    assert sorted(map(tuple, rows)) == sorted([(n, "new" if n == 7 or n >= 900 else "old") for n in range(1100)] + [(7, "new")])


def test_written_keys_are_read_from_a_table_with_a_name_mapping(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new files are not in the snapshot whose files have layouts by name."""
    _use_large_sources(monkeypatch, 100)
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]'
    properties = f"tblproperties ('schema.name-mapping.default' = '{mapping}')"
    session.sql(f"create table kept using iceberg {properties} as select id, 'old' as name from range(1000)")
    counts = session.execute(f"merge into kept t using (select id, 'new' as name from range(500, 1900)) s {UPSERT}").changes
    assert (counts.updated, counts.inserted) == (500, 900)
    assert _rows(session, "iceberg") == {n: "old" if n < 500 else "new" for n in range(1900)}


def test_an_append_to_a_table_with_a_name_mapping_is_a_conflict(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of a concurrent commit are read from its files, which are not in the snapshot of the statement."""
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]'
    properties = f"tblproperties ('schema.name-mapping.default' = '{mapping}')"
    session.sql(f"create table kept using iceberg {properties} as select id, 'old' as name from range(1000)")
    find = by_keys.find_matches

    def append_first(*arguments: Any) -> Any:
        monkeypatch.undo()
        session.sql("insert into kept values (1500, 'appended')")
        return find(*arguments)

    monkeypatch.setattr(by_keys, "find_matches", append_first)
    result = session.execute(f"merge into kept t using (select id, 'new' as name from range(1400, 1600)) s {UPSERT}")
    assert (result.attempts, result.changes.updated, result.changes.inserted) == (2, 1, 199)
    assert _rows(session, "iceberg") == {n: "old" if n < 1000 else "new" for n in (*range(1000), *range(1400, 1600))}


def test_keys_that_a_column_stores_in_another_form_are_compared_as_they_are(
    session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A varchar has no spaces beyond its length. The number of keys does not change the result."""
    rows = []
    for name, limit in (("few", 10_000_000), ("many", 0)):
        _use_large_sources(monkeypatch, limit)
        session.sql(f"create table {name} (n int, k varchar(3)) using delta")
        session.sql(f"insert into {name} values (1, 'abc')")
        upsert = UPSERT.replace("t.id = s.id", "t.k = s.k")
        session.sql(f"merge into {name} t using (select 2 as n, 'abc  ' as k) s {upsert}")
        rows.append(sorted(map(tuple, session.sql(f"select n, k from {name}").collect())))
    assert rows[0] == rows[1] == [(1, "abc"), (2, "abc")]


KEYS = st.none() | st.integers(0, 6)
ROWS = st.lists(st.tuples(KEYS, KEYS), max_size=8)
STATEMENTS = (
    "merge into {table} t using {source} s on t.a = s.a when matched then update set * when not matched then insert *",
    "merge into {table} t using {source} s on t.a <=> s.a and s.b = t.b when matched then update set * when not matched then insert *",
    "insert into {table} replace using (a) select a, b, c from {source}",
    "insert into {table} replace on ({table}.a <=> source.a and {table}.b = source.b) select a, b, c from {source} as source",
)


@pytest.mark.parametrize("format_", VECTORS)
@settings(max_examples=examples(gate=3, full=10, soak=150), deadline=None, suppress_health_check=list(HealthCheck))
@given(old=ROWS, new=ROWS, statement=st.sampled_from(STATEMENTS), tasks=st.sampled_from([1, 3]))
def test_random_statements_give_the_same_rows_with_few_and_with_many_keys(
    spark: SparkSession, tmp_path_factory: Any, format_: str, old: list[Any], new: list[Any], statement: str, tasks: int
) -> None:
    """Few keys are looked up, and many are read from the written files. Errors and counts are the same, too."""
    session = rowmerge.connect(str(tmp_path_factory.mktemp("keys")), spark=spark)
    schema = "a bigint, b int"
    rows = spark.createDataFrame(new, schema).repartition(tasks).selectExpr("a", "b", "'new' as c")
    rows.createOrReplaceTempView("new_rows")
    outcomes: list[Any] = []
    for table, limit in (("few", 10_000_000), ("many", 0)):
        session.sql(f"create table {table} (a bigint, b int, c string) {VECTORS[format_]}")
        if old:
            session.write(spark.createDataFrame(old, schema).selectExpr("a", "b", "'old' as c"), table)
        with pytest.MonkeyPatch.context() as patch:
            _use_large_sources(patch, limit)
            join = write_first._join_written_rows
            patch.setattr(write_first, "_join_written_rows", lambda *arguments, join=join: event("keys are joined") or join(*arguments))
            try:
                changes = session.execute(statement.format(table=table, source="new_rows")).changes
                outcome: Any = (changes.updated, changes.inserted, changes.deleted)
            except rowmerge.errors.MultipleSourceRowsMatch as error:
                outcome = str(error).replace(table, "")
        outcomes.append((outcome, sorted(map(repr, session.sql(f"select * from {table}").collect()))))
    assert outcomes[0] == outcomes[1]


@pytest.mark.usefixtures("few_keys")
def test_rows_are_replaced_by_written_keys(session: rowmerge.Session, kept_format: str) -> None:
    """One key can have many new rows, and an old row that several new rows replace is deleted once."""
    new = "select id, 'new' as name from range(900, 1100) union all select 950L, 'newer' union all select null, 'none'"
    counts = session.execute(f"insert into kept replace using (id) {new}").changes
    assert (counts.deleted, counts.inserted) == (100, 202)
    rows = sorted(map(tuple, session.sql("select coalesce(id, -1), name from kept").collect()))
    assert rows == sorted([(n, "old") for n in range(900)] + [(n, "new") for n in range(900, 1100)] + [(950, "newer"), (-1, "none")])


@pytest.mark.parametrize(("appended", "attempts"), [(70_000, 1), (60_000, 2)])
def test_rows_of_a_concurrent_commit_are_found_by_written_keys(
    session: rowmerge.Session, kept_format: str, monkeypatch: pytest.MonkeyPatch, appended: int, attempts: int
) -> None:
    """An append of other keys is no conflict. One of the same keys is, so the statement runs again with the rows of the append."""
    _use_large_sources(monkeypatch, 100)
    if kept_format == "delta":  # otherwise, an append counts as later
        session.sql("alter table kept set tblproperties ('delta.isolationLevel' = 'Serializable')")
    join, joins = write_first._join_written_rows, []

    def append_after_join(*arguments: Any) -> object:
        joins.append(join(*arguments))
        session.sql(f"insert into kept values ({appended}, 'appended')")
        return joins[-1]

    monkeypatch.setattr(write_first, "_join_written_rows", append_after_join)
    result = session.execute(f"merge into kept t using (select id, 'new' as name from range(500, 61000)) s {UPSERT}")
    assert (len(joins), result.attempts) == (1, attempts)
    assert _rows(session, kept_format) == {appended: "appended"} | {n: "old" if n < 500 else "new" for n in range(61_000)}


def test_keys_of_another_type_than_their_column_are_not_read_from_files(
    session: rowmerge.Session, kept_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark compares an int with a long as longs, and the written rows have longs. The rule is strict for all types."""
    _use_large_sources(monkeypatch, 100)
    attempts: list[object] = []
    monkeypatch.setattr(write_first, "insert_every_source_row", _recorded(source_writing.insert_every_source_row, attempts))
    counts = session.execute(f"merge into kept t using (select int(id) as id, 'new' as name from range(500, 1900)) s {UPSERT}").changes
    assert (counts.updated, counts.inserted) == (500, 900)
    assert attempts == [None]
    assert _rows(session, kept_format) == {n: "old" if n < 500 else "new" for n in range(1900)}


def test_a_failed_source_row_leaves_no_files(session: rowmerge.Session, kept_format: str) -> None:
    old_files = _files(session)
    rows = "select id, if(id = 80000, raise_error('no such row'), 'new') as name from range(0, 90000, 1, 2)"
    with pytest.raises(rowmerge.errors.SparkFailed, match="no such row"):
        session.sql(f"merge into kept t using ({rows}) s {UPSERT}")
    assert _files(session) == old_files
    assert _rows(session, kept_format) == dict.fromkeys(range(1000), "old")


def test_a_nondeterministic_source_is_evaluated_once(session: rowmerge.Session, kept_format: str) -> None:
    """The keys that are looked up are those of the written rows."""
    rows = "select cast(rand() * 1e15 as bigint) as id, 'new' as name from range(60000) union all select cast(rand() * 10 as bigint), 'new'"
    counts = session.execute(f"merge into kept t using ({rows}) s {UPSERT}").changes
    names = _rows(session, kept_format)
    assert counts.updated == 1
    assert len(names) == 1000 + counts.inserted
    assert sum(name == "new" for name in names.values()) == counts.inserted + 1


def test_the_size_of_a_source_is_estimated_from_its_inputs(
    session: rowmerge.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small source needs no Python on executors."""
    spark = session.spark
    session.sql("create table given using delta as select id, uuid() as name from range(50000)")
    folder = tmp_path / "some rows, 100 %"
    spark.range(1000).write.parquet(str(folder))
    assert source_writing.reads_few_bytes(spark.sql("values (1), (2)"))
    assert source_writing.reads_few_bytes(session.table("given").groupBy("name").count())
    monkeypatch.setattr(source_writing, "FEW_BYTES", 100_000)
    assert not source_writing.reads_few_bytes(session.table("given").groupBy("name").count())
    assert source_writing.reads_few_bytes(spark.read.parquet(str(folder)))
    monkeypatch.setattr(source_writing, "FEW_BYTES", 1_000)
    assert not source_writing.reads_few_bytes(spark.read.parquet(str(folder)))
