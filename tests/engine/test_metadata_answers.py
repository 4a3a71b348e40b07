"""Counts, minima, maxima and keys come from metadata, or from the few files that can contain them. Rows equal those of all files."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

import rowmerge
from rowmerge.spark.spark_session import SKIP_FILES
from tests.engine.test_foreign_tables import add, definition, field, log, struct
from tests.engine.test_golden import GOLDEN, TABLES
from tests.golden.iceberg.tables import NAMES, copied
from tests.support.iceberg_lake import Lake

pytestmark = pytest.mark.one_of("mode")

FORMATS = ("delta", "iceberg")
NOT_ORDERED = ("array", "map", "struct", "binary", "variant")
COLUMNS = "id int, big bigint, d date, ts timestamp, amount decimal(10,2), x double, s string, nothing int, day string"
ROWS = """
    (1, 10, date'2024-01-01', timestamp'2024-01-01 00:00:00.123456', 1.25, 1.0, 'a', null, 'mon'),
    (2, null, date'2024-01-02', timestamp'2024-01-02 00:00:00.123456', -7.00, double('NaN'), 'b', null, 'tue'),
    (3, -30, date'1500-03-01', null, 100.10, -0.0, repeat('z', 50), null, 'tue'),
    (4, 40, null, timestamp'1960-05-05 00:00:00', null, null, null, null, null)
"""


def create(session: rowmerge.Session, format_: str, mode: str = "copy-on-write", columns: str = COLUMNS) -> None:
    properties = f"'rowmerge.write.mode' = '{mode}'" + ("" if format_ == "delta" else ", 'format-version' = '2'")
    session.sql(f"create table t ({columns}) using {format_} partitioned by (day) tblproperties ({properties})")


@contextmanager
def all_files(session: rowmerge.Session) -> Iterator[None]:
    session.spark.conf.set(SKIP_FILES, "false")
    try:
        yield
    finally:
        session.spark.conf.unset(SKIP_FILES)


def rows_of(frame: DataFrame) -> tuple[list[Any], list[str]]:
    """Return the columns of a result with their types, and its rows in any order."""
    columns = [(column.name, column.dataType, column.nullable) for column in frame.schema]
    names = [f"c{index}" for index in range(len(frame.columns))]  # a query may have two columns of one name
    texts = frame.toDF(*names).selectExpr(*(f"cast({name} as string)" for name in names))  # Python has no year 0, but a time zone may
    return columns, sorted(map(repr, texts.collect()))


def assert_same(session: rowmerge.Session, query: str) -> DataFrame:
    """Verify that a query has the same columns and rows as with all files. Return its result."""
    with all_files(session):
        expected = rows_of(session.sql(query))
    frame = session.sql(query)
    assert rows_of(frame) == expected, query
    return frame


def data_files(session: rowmerge.Session, table: str = "t") -> list[Path]:
    location = Path(session.describe("default", table).location.removeprefix("file://"))
    return [path for path in location.rglob("*.parquet") if "_delta_log" not in path.parts and "metadata" not in path.parts]


def assert_no_file_read(session: rowmerge.Session, queries: Sequence[str]) -> None:
    """Verify that queries have the same rows after all data files are gone."""
    results = {}
    with all_files(session):
        for query in queries:
            results[query] = rows_of(session.sql(query))
    files = data_files(session)
    assert files
    for path in files:
        path.rename(path.with_suffix(".gone"))
    try:
        for query in queries:
            assert rows_of(session.sql(query)) == results[query], query
    finally:
        for path in files:
            path.with_suffix(".gone").rename(path)


def write_rows(folder: Path, name: str, columns: dict[str, list[Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def opened(frame: DataFrame) -> int:
    return len(frame.inputFiles())


ANSWERED = (
    "select count(*) from t",
    "select count(1) as n, COUNT('x'), count(0) `how many` from default.t",
    "select count(nothing), count(s), count(T.day), count(big) from t",
    "select min(id), max(id) as Top, min(big) least, max(`big`) from rowmerge.default.t as x",
    "select min(nothing), max(nothing) from t",
    "select min(day), max(day) from t",
    "select distinct day from t",
    "select distinct day as k, day from t order by k desc nulls first limit 2",
    "select day from t group by day",
    "select day, count(*), min(id), count(nothing) n from t group by day order by day",
    "select count(*), max(id) from t where day = 'tue'",
    "select count(*), max(id) from t where day = 'sun'",
    "select count(*) from t where day is null",
    "select count(*) from t where day in ('mon', 'tue') and not day like 'm%'",
    "select day, count(*) from t where day > 'a' group by day",
    "select day, count(*) from t where day = 'sun' group by day",
    "select count(*), min(id) from t version as of 'first'",
    '/* {"app": "dbt"} */ select count(*) from t -- all "rows"',
    "select * from t limit 0",
)


@pytest.mark.parametrize("format_", FORMATS)
def test_metadata_answers_counts_extremes_and_keys(session: rowmerge.Session, format_: str) -> None:
    create(session, format_)
    session.sql(f"insert into t values {ROWS}")
    if format_ == "delta":
        version = session.describe("default", "t").version
        queries = [query.replace("'first'", str(version)) for query in ANSWERED]
    else:
        session.sql("alter table t create tag first")
        queries = [
            *ANSWERED,
            "select max(ts), min(ts), min(d), max(d), min(amount), max(amount) from t",
            "select count(*) from t.tag_first",
        ]
    assert_no_file_read(session, queries)


@pytest.mark.parametrize("format_", FORMATS)
def test_an_empty_table_has_counts_of_zero_and_no_keys(session: rowmerge.Session, format_: str) -> None:
    create(session, format_)
    for query in (
        "select max(id) from t where amount = null",
        "select count(*), count(id), min(id), max(day) from t",
        "select distinct day from t",
        "select day, min(id) from t group by day",
    ):
        assert_same(session, query)
    session.sql(f"insert into t values {ROWS}")
    session.sql("delete from t")
    assert_same(session, "select count(*), min(id) from t")
    assert_same(session, "select distinct day from t")


@pytest.mark.parametrize("format_", FORMATS)
def test_an_extreme_without_exact_bounds_is_read_from_the_files_that_can_contain_it(session: rowmerge.Session, format_: str) -> None:
    create(session, format_)
    for number in range(5):
        time = f"timestamp'2024-01-0{number + 1} 00:00:00.123456'"
        session.sql(
            f"insert into t values ({number}, 0, date'2024-01-01', {time}, {number}.5, {number}, repeat('{number}', 60), null, 'mon')"
        )
    for column in ("ts", "s", "x", "amount"):
        frame = assert_same(session, f"select max({column}) from t")
        assert opened(frame) <= 1, column
    assert opened(assert_same(session, "select min(s), max(s) from t")) == 2
    session.sql("insert into t (id, x, day) values (9, double('NaN'), 'sun')")
    assert opened(assert_same(session, "select max(x) from t")) == 2
    assert assert_same(session, "select min(x), max(id) from t").collect()[0][0] == 0.0


@pytest.mark.parametrize(("format_", "mode"), [(format_, mode) for format_ in FORMATS for mode in ("copy-on-write", "merge-on-read")])
def test_deleted_rows_do_not_count_and_are_no_extremes(session: rowmerge.Session, format_: str, mode: str) -> None:
    create(session, format_, mode)
    session.sql("insert into t select id, id, null, null, null, null, null, null, 'mon' from range(10) r(id)")
    session.sql("insert into t select id, null, null, null, null, null, null, null, 'tue' from range(10, 14) r(id)")
    session.sql("delete from t where id in (0, 9, 13)")
    assert_no_file_read(session, ["select count(*) from t", "select day, count(*), count(nothing), count(id) from t group by day"])
    for query in (
        "select min(id), max(id) from t",
        "select max(id) from t",
        "select count(big) from t",
        "select day, max(id) from t group by day",
    ):
        assert_same(session, query)
    session.sql("delete from t where day = 'tue'")
    assert assert_same(session, "select distinct day from t").collect() == [("mon",)]
    session.sql("delete from t where id > 0")
    assert_same(session, "select distinct day from t")
    assert_same(session, "select max(id), max(day), count(*) from t")


@pytest.mark.parametrize("format_", FORMATS)
def test_limit_opens_the_files_that_suffice(session: rowmerge.Session, format_: str) -> None:
    create(session, format_, "merge-on-read")
    for count in (3, 10, 2):
        session.sql(f"insert into t (id, day) select id, 'd{count}' from range({count}) r(id)")
    for limit, files in ((1, 1), (10, 1), (11, 2), (14, 3), (100, 3)):
        frame = session.sql(f"select id, t.* from t limit {limit}")
        assert (opened(frame), len(frame.collect())) == (files, min(limit, 15))
    session.sql("delete from t where day = 'd10' and id < 8")
    assert len(session.sql("select * from t limit 7").collect()) == 7
    assert opened(session.sql("select * from t limit 2")) == 1
    assert [row.day for row in session.sql("select day from t where day = 'd2' limit 2").collect()] == ["d2", "d2"]
    session.sql("create table copy as select * from t limit 4")
    assert session.table("copy").count() == 4


OTHER_QUERIES = (
    "select count(distinct day) from t",
    "select count(null) from t",
    "select count(*) as failures, count(*) != 0 as should_warn from (select id from t where id is null) dbt_internal_test",
    "select count(*) from t where id > 1",
    "select count(*) from t where day = 'tue' or id = 1",
    "select count(*) from t where rand() < 2",
    "select count(*), sum(id) from t",
    "select max(id) from t having count(*) > 100",
    "select day, count(*) from t group by day having count(*) > 1",
    "select day, count(*) from t group by rollup(day)",
    "select day, count(*) from t group by day with cube",
    "select day, id from t group by day, id",
    "select distinct id from t",
    "select distinct x from t",
    "select count(*) from t union all select 7L",
    "select count(*) from t a, t b",
    "select max(id) from t tablesample (100 percent)",
    "select min(x), max(x) from t",
    "select count(*) over () from t",
    "select max(struct(id, day)) from t",
    "select count(*) from t where day = 'tue' limit 1 offset 1",
    "select explode(array()) from t limit 1",
    "with t as (select 1 id) select count(*), max(id) from t",
    "select max(id) filter (where id < 3) from t",
)


@pytest.mark.parametrize("format_", FORMATS)
def test_other_queries_have_the_same_rows_as_with_all_files(session: rowmerge.Session, format_: str) -> None:
    create(session, format_)
    session.sql(f"insert into t values {ROWS}")
    for query in OTHER_QUERIES:
        assert_same(session, query)


def test_a_temporary_view_and_a_view_are_not_mistaken_for_a_table(session: rowmerge.Session) -> None:
    create(session, "delta")
    session.sql(f"insert into t values {ROWS}")
    session.sql("create view v as select * from default.t where id < 3")
    session.sql("create temporary view t as select 5 as id union all select 6")
    session.spark.range(3).createOrReplaceTempView("r")
    assert session.sql("select count(*), max(id) from t").collect() == [(2, 6)]
    assert session.sql("select count(*), max(id) from v").collect() == [(2, 2)]
    assert session.sql("select count(*), max(id) from r").collect() == [(3, 2)]
    assert session.sql("select count(*), max(id) from default.t").collect() == [(4, 4)]


def test_a_view_of_an_answer_reads_newer_versions(session: rowmerge.Session) -> None:
    create(session, "delta")
    session.sql("create view n as select count(*) as n, max(id) as top from t")
    session.sql(f"insert into t values {ROWS}")
    assert session.sql("select * from n").collect() == [(4, 4)]
    session.sql("create table copy as select count(*) as n, max(day) as top from t")
    assert session.table("copy").collect() == [(4, "tue")]
    session.sql("insert into copy select count(id), min(day) from t")
    assert sorted(session.table("copy").collect()) == [(4, "mon"), (4, "tue")]


def test_names_that_differ_in_case_resolve_as_in_spark(session: rowmerge.Session) -> None:
    create(session, "delta")
    session.sql(f"insert into t values {ROWS}")
    assert session.sql("select MIN(Id), max(T.ID) from t").columns == ["min(Id)", "max(ID)"]
    session.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(Exception, match="Id"):
            session.sql("select min(Id) from t")
        assert_same(session, "select min(id) from t")
    finally:
        session.spark.conf.unset("spark.sql.caseSensitive")
    with pytest.raises(Exception, match="missing"):
        session.sql("select max(missing) from t")


def test_statistics_of_other_writers_are_used_only_if_they_are_exact(bare_session: rowmerge.Session, tmp_path: Path) -> None:
    schema = struct(field("id", "long"), field("s", "string"))
    files = [write_rows(tmp_path / "f", f"{number}.parquet", {"id": [number, number + 1], "s": ["a", "b"]}) for number in (10, 20, 30)]
    exact = {"minValues": {"id": 10}, "maxValues": {"id": 11}, "nullCount": {"id": 0, "s": 0}}
    wide = {"minValues": {"id": 1}, "maxValues": {"id": 99}, "nullCount": {"id": 0}, "tightBounds": False}
    log(tmp_path / "f", [*definition(schema), add("10.parquet", files[0], **exact), add("20.parquet", files[1], **wide)])
    bare_session.sql(f"create table t using delta location '{tmp_path / 'f'}'")
    assert assert_same(bare_session, "select count(*), max(id), min(id) from t").collect() == [(4, 21, 10)]
    assert assert_same(bare_session, "select count(id), count(s) from t").collect() == [(4, 4)]
    without = add("30.parquet", files[2])
    without["add"]["stats"] = None
    log(tmp_path / "f", [*definition(schema), add("10.parquet", files[0], **exact), without])
    bare_session.sql("drop table t")
    bare_session.sql(f"create table u using delta location '{tmp_path / 'f'}'")
    assert assert_same(bare_session, "select count(*), max(id) from u").collect() == [(4, 31)]
    assert opened(assert_same(bare_session, "select id from u limit 2")) == 1
    assert len(assert_same(bare_session, "select id from u limit 3").collect()) == 3


def test_rows_that_equality_deletes_delete_are_not_counted(bare_session: rowmerge.Session) -> None:
    session = bare_session  # pyiceberg does not read equality deletes
    session.sql("create table t (id bigint, name string) using iceberg")
    session.sql("insert into t select /*+ coalesce(1) */ id, 'a' from range(5)")
    lake = Lake(Path(session.describe("default", "t").location.removeprefix("file://")))
    lake.add_deletes(lake.equality_deletes(0, 1, 4, 7))
    session.sql("insert into t values (3, 'again')")
    assert assert_same(session, "select count(*), min(id), max(id) from t").collect() == [(3, 2, 3)]
    assert assert_same(session, "select max(id) from t").collect() == [(3,)]
    assert len(session.sql("select id from t limit 3").collect()) == 3
    assert opened(session.sql("select id from t limit 1")) == 1


def test_a_position_that_two_delete_files_delete_counts_once(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint, name string) using iceberg tblproperties ('format-version' = '2')")
    session.sql("insert into t select /*+ coalesce(1) */ id, 'a' from range(5)")
    lake = Lake(Path(session.describe("default", "t").location.removeprefix("file://")))
    lake.add_deletes(lake.shared_deletes(1, 2))
    lake.add_deletes(lake.shared_deletes(2, 3))
    assert_no_file_read(session, ["select count(*), count(name) from t"])
    assert session.sql("select count(*) from t").collect() == [(2,)]


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_iceberg_table_has_the_same_counts_and_extremes(bare_session: rowmerge.Session, tmp_path: Path, name: str) -> None:
    copied(name, tmp_path / "warehouse" / "default" / name)
    columns = [column for column in bare_session.table(name).schema if column.dataType.typeName() not in NOT_ORDERED]
    for calls in ([f"count(`{column.name}`)" for column in columns], *([f"max(`{c.name}`)", f"min(`{c.name}`)"] for c in columns)):
        assert_same(bare_session, f"select {', '.join(['count(*)', *calls])} from {name}")
        assert_same(bare_session, f"select {', '.join(calls)} from {name}")
    if partition := bare_session.describe("default", name).partition_columns:
        assert_same(bare_session, f"select distinct {', '.join(f'`{column}`' for column in partition)} from {name}")


@pytest.mark.skipif(not TABLES, reason="the golden tables beside the repository are not here")
@pytest.mark.parametrize("name", TABLES)
def test_a_golden_table_has_the_same_counts_and_extremes(bare_session: rowmerge.Session, name: str) -> None:
    bare_session.sql(f"create table golden using delta location '{GOLDEN / name / 'delta'}'")
    schema = bare_session.table("golden").schema
    names = [f"`{column.name}`" for column in schema if column.dataType.typeName() not in NOT_ORDERED]
    assert_same(bare_session, "select count(*) from golden")
    for column in names:
        assert_same(bare_session, f"select count({column}), min({column}), max({column}) from golden")
        assert_same(bare_session, f"select max({column}) from golden")
    if partition := bare_session.describe("default", "golden").partition_columns:
        assert_same(bare_session, f"select distinct {', '.join(f'`{column}`' for column in partition)} from golden")


@pytest.mark.parametrize("seed", range(4))
def test_random_queries_of_random_tables_have_the_same_rows(session: rowmerge.Session, seed: int) -> None:
    chosen = random.Random(seed)
    create(session, chosen.choice(FORMATS), chosen.choice(["copy-on-write", "merge-on-read"]))
    for _ in range(4):
        values = ", ".join(_random_row(chosen) for _ in range(chosen.randint(1, 4)))
        session.sql(f"insert into t values {values}")
        if chosen.random() < 0.5:
            session.sql(f"delete from t where id % {chosen.randint(2, 9)} = 0 or day = 'p{chosen.randint(0, 9)}'")
    for _ in range(12):
        assert_same(session, _random_query(chosen))


def _random_row(chosen: random.Random) -> str:
    value = chosen.randint(-9, 9)
    columns = [
        str(value),
        str(value * 10**9),
        f"date'20{value + 20}-01-01'",
        f"timestamp'2024-01-01 00:00:0{abs(value)}.{chosen.randint(0, 999_999):06}'",
        f"{value}.25",
        chosen.choice([f"{value}d", "double('NaN')", "-0.0d"]),
        f"repeat('{abs(value)}', {chosen.choice([1, 16, 17, 32, 33])})",
        "null",
        f"'p{chosen.randint(0, 2)}'",
    ]
    return f"({', '.join('null' if chosen.random() < 0.2 else column for column in columns)})"


def _random_query(chosen: random.Random) -> str:
    names = ["id", "big", "d", "ts", "amount", "s", "nothing", "day"]
    calls = [
        chosen.choice([f"min({name})", f"max({name})", f"count({name})", "count(*)"]) for name in chosen.sample(names, chosen.randint(1, 3))
    ]
    if chosen.random() < 0.5:
        kind = chosen.choice(["min", "max"])
        calls = [f"{kind}({name})" for name in chosen.sample(names, chosen.randint(1, 2))]
    condition = chosen.choice(
        ["", "", " where day = 'p1'", " where day is not null", " where day <> 'p0'", " where day is null or day > 'p0'"]
    )
    if chosen.random() < 0.3:
        return f"select day, {', '.join(calls)} from t{condition} group by day"
    return f"select {', '.join(calls)} from t{condition}"
