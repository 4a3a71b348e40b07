"""The query shapes whose opened files are counted. Names of tables are those of `benchmarks.reads.tables`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from benchmarks.reads.tables import Size

BOTH = ("delta", "iceberg")
TARGET = "target"
"""The table that a shape creates, in place of `{target}` of its statement."""


@dataclass(frozen=True)
class Shape:
    """A query whose opened files are counted.

    Attributes:
        group: The heading on the page.
        name: What the page calls the shape.
        statement: The SQL. `{past}` is the first version of the table `versions`, `{format}` the format of a new table.
        formats: The formats that have the tables of the shape.
        setup: The statements that run first, whose files do not count.
        any_rows: Whether engines may return different rows.
        rejected_by: The engines that do not support the statement.
    """

    group: str
    name: str
    statement: str
    formats: tuple[str, ...] = BOTH
    setup: tuple[str, ...] = ()
    any_rows: bool = False
    rejected_by: tuple[str, ...] = ()

    @property
    def creates_target(self) -> bool:
        return TARGET in "".join([self.statement, *self.setup])


def shapes(size: Size) -> list[Shape]:
    """Return all shapes, in the order of the page."""
    return [
        *_comparisons(size),
        *_functions(size),
        *_partitions(),
        *_compositions(size),
        *_joins(size),
        *_dynamic(size),
        *_metadata(),
        *_dml(size),
    ]


def _comparisons(size: Size) -> list[Shape]:
    key, group, rows = size.rows * 42 // 100 + 7, "Comparisons", size.rows
    few = ", ".join(str(rows * share // 100 + 3) for share in (5, 50, 95))
    many = ", ".join(str(rows // 2 + 3 * number) for number in range(1000))
    select = "select k, name, amount from bench.events where"
    return [
        Shape(group, "a point lookup", f"{select} k = {key}"),
        Shape(group, "a range", f"{select} k >= {key} and k < {key + size.rows_of_a_file // 10}"),
        Shape(group, "`IN` of 3 values", f"{select} k in ({few})"),
        Shape(group, "`IN` of 1,000 values", f"{select} k in ({many})"),
        Shape(group, "`BETWEEN` of decimals", f"{select} amount between {key / 100} and {key / 100 + 1}"),
        Shape(group, "`IS NULL`", "select count(k), sum(k) from bench.events where often is null and k > 0"),
        Shape(group, "`IS NOT NULL`", "select sum(k), max(name) from bench.events where seldom is not null"),
        Shape(group, "`<=>`", f"{select} k <=> {key}"),
        Shape(group, "`LIKE 'prefix%'`", f"{select} name like 'cust-{key // 100:05d}%'"),
        Shape(group, "`OR` of two columns", f"{select} k = {key} or other = {key}"),
        Shape(group, "`NOT`", f"{select} not (k > 50 or name is null)"),
        Shape(group, "a field of a struct", f"{select} point.x = {key}"),
        Shape(group, "a string", f"{select} name = 'cust-{key:07d}'"),
        Shape(group, "a date", f"{select} d = date'2022-05-05'"),
        Shape(
            group,
            "a timestamp with a zone",
            f"{select} ts >= timestamp'2022-05-05 10:00:00+02:00' and ts < timestamp'2022-05-05 14:00:00+02:00'",
        ),
    ]


def _functions(size: Size) -> list[Shape]:
    key, group = size.rows * 42 // 100 + 7, "Functions and casts"
    select = "select k, name, amount from bench.events where"
    return [
        Shape(group, "`year(d) = 2022`", "select count(k), sum(k) from bench.events where year(d) = 2022"),
        Shape(
            group,
            "`date_trunc('month', ts) = …`",
            "select count(k), sum(k) from bench.events where date_trunc('month', ts) = timestamp'2022-05-01'",
        ),
        Shape(group, "`cast(ts AS date) = …`", f"{select} cast(ts as date) = date'2022-05-05'"),
        Shape(group, "`cast(k AS double) = …`", f"{select} cast(k as double) = {key}"),
        Shape(group, "a number in quotes", f"{select} k = '{key}'"),
        Shape(group, "arithmetic of constants", f"{select} k = {key - 7} + 7"),
        Shape(group, "`current_date() - 7`", "select count(k), sum(k) from bench.by_day where d >= current_date() - 7"),
    ]


def _partitions() -> list[Shape]:
    group, today = "Partitions", datetime.now(timezone.utc)
    day, next_day = (f"{today - timedelta(days=days):%Y-%m-%d}" for days in (10, 9))
    hour, next_hour = "2024-03-02 10:00:00", "2024-03-02 11:00:00"
    select = "select count(k), sum(k) from bench."
    month = "where ts >= timestamp'2023-05-01' and ts < timestamp'2023-06-01'"
    return [
        Shape(group, "by a column", f"{select}by_region where region = 21"),
        Shape(group, "by a column and a range inside", f"{select}by_region where region in (21, 22) and name < 'cust-0042500'"),
        Shape(group, "by day, filter on `ts`", f"{select}by_day where ts >= timestamp'{day}' and ts < timestamp'{next_day}'"),
        Shape(group, "by month, filter on `ts`", f"{select}by_month {month}"),
        Shape(group, "by hour, filter on `ts`", f"{select}by_hour where ts >= timestamp'{hour}' and ts < timestamp'{next_hour}'"),
        Shape(group, "by prefix, filter on the name", f"{select}by_prefix where name = 'cust-0042007'"),
        Shape(group, "by `bucket(50, k)`", "select k, name from bench.by_bucket where k = 42007", formats=("iceberg",)),
        Shape(group, "by `bucket(50, k)`, `IN`", "select k, name from bench.by_bucket where k in (7, 42007)", formats=("iceberg",)),
        Shape(group, "by month since a change of the partitioning", f"{select}evolved {month}", formats=("iceberg",)),
    ]


def _compositions(size: Size) -> list[Shape]:
    key, group = size.rows * 42 // 100 + 7, "Views, subqueries and unions"
    view = "create or replace temporary view recent_events as select k as key, name as title, d as day from bench.events where k > 5"
    ranked = "select k, name, region, row_number() over (partition by region order by k desc) as place from bench.by_region"
    return [
        Shape(group, "a filter on a view", f"select * from recent_events where key = {key}", setup=(view,)),
        Shape(
            group,
            "a CTE",
            f"with recent as (select * from bench.events where d > date'2021-01-01') select k, name from recent where k = {key}",
        ),
        Shape(group, "a subquery with aliases", f"select * from (select k as key, name from bench.events as e) as q where q.key = {key}"),
        Shape(
            group,
            "a cast in a subquery",
            f"select * from (select cast(k as decimal(20, 0)) as key, name from bench.events) as q where key = {key}",
        ),
        Shape(
            group,
            "`UNION ALL`",
            f"select * from (select k, name from bench.events union all select k, name from bench.by_region) as u where k = {key}",
        ),
        Shape(group, "`GROUP BY` and `HAVING` on the key", "select d, count(*) from bench.events group by d having d = date'2022-05-05'"),
        Shape(group, "a window and a filter outside", f"select k, name from ({ranked}) as r where region = 21 and place = 1"),
        Shape(
            group,
            "one table twice with two filters",
            "select a.k, b.name from bench.events as a cross join bench.events as b"
            f" where a.k = {key} and b.k = {key + 10 * size.rows_of_a_file}",
        ),
        Shape(group, "an older version", f"select k, name from bench.versions {{past}} where k = {key}"),
    ]


def _joins(size: Size) -> list[Shape]:
    key, group = size.rows * 42 // 100 + 7, "Joins"
    return [
        Shape(
            group,
            "an inferred filter: `a.k = b.k AND b.k = …`",
            f"select a.k, b.name from bench.events as a join bench.by_region as b on a.k = b.k where b.k = {key}",
        ),
        Shape(
            group,
            "`LEFT JOIN`, filter on the left",
            f"select a.k, b.title from bench.events as a left join bench.regions as b on a.region = b.region where a.k = {key}",
        ),
        Shape(
            group,
            "`LEFT JOIN`, condition on the right in `ON`",
            "select r.region, e.k from bench.regions as r left join bench.events as e"
            f" on r.k = e.k and e.k between {key} and {key + size.rows_of_a_file}",
        ),
        Shape(
            group,
            "`LEFT JOIN`, filter on the right",
            f"select r.region, e.k from bench.regions as r left join bench.events as e on r.region = e.region where e.k = {key}",
        ),
        Shape(
            group,
            "`LEFT ANTI JOIN` of a part",
            f"select r.region from bench.regions as r left anti join bench.events as e on r.k = e.k and e.k < {size.rows // 2}",
        ),
        Shape(
            group,
            "`NOT EXISTS`, filter outside",
            f"select a.k from bench.by_region as a where a.k = {key} and not exists"
            " (select 1 from bench.events as b where b.k = a.k and b.name = 'none')",
        ),
        Shape(
            group,
            "a correlated scalar subquery, filter outside",
            f"select a.k from bench.by_region as a where a.k = {key} and a.k = (select max(b.k) from bench.events as b where b.k = a.k)",
        ),
    ]


def _dynamic(size: Size) -> list[Shape]:
    group = "Dynamic filters"
    in_region = "select region from bench.regions where title = 'region 21'"
    join = "join bench.regions as r on e.{0} = r.{0} where r.title = 'region 21'"
    return [
        Shape(group, "a join with a filtered dimension", f"select e.k, e.name, r.title from bench.events as e {join.format('k')}"),
        Shape(
            group,
            "the same, joined on the partition column",
            f"select count(e.k), sum(e.k) from bench.by_region as e {join.format('region')}",
        ),
        Shape(
            group,
            "`k IN (SELECT …)`",
            "select k, name from bench.events where k in (select k from bench.regions where title = 'region 21')",
        ),
        Shape(
            group,
            "`region IN (SELECT …)`, a partition column",
            f"select count(k), sum(k) from bench.by_region where region in ({in_region})",
        ),
        Shape(
            group, "`ts > (SELECT max(ts) …)`", "select count(k), sum(k) from bench.events where ts > (select max(ts) from bench.loaded)"
        ),
        Shape(
            group,
            "`EXISTS`",
            "select k, name from bench.events as e"
            " where exists (select 1 from bench.regions as r where r.k = e.k and r.title = 'region 21')",
        ),
    ]


def _metadata() -> list[Shape]:
    group = "Answers from metadata"
    return [
        Shape(group, "`count(*)`", "select count(*) from bench.events"),
        Shape(group, "`count(*)` of a partition", "select count(*) from bench.by_region where region = 21"),
        Shape(group, "`min` and `max`", "select min(k), max(k), max(d) from bench.events"),
        Shape(group, "`DISTINCT` of a partition column", "select distinct region from bench.by_region"),
        Shape(group, "`LIMIT 10`", "select k, name from bench.events limit 10", any_rows=True),
    ]


def _dml(size: Size) -> list[Shape]:
    key, group = size.rows * 42 // 100 + 7, "Statements that write"
    create = f"create table bench.{TARGET} using {{format}} as"
    some = "select k, name from bench.events where"
    return [
        Shape(group, "`CREATE TABLE … AS`", f"{create} {some} k = {key}"),
        Shape(group, "`INSERT … SELECT`", f"insert into bench.{TARGET} {some} d = date'2022-05-05'", setup=(f"{create} {some} k = 7",)),
        Shape(
            group,
            "the source of a `MERGE`",
            f"merge into bench.{TARGET} as t using ({some} d = date'2022-05-05') as s on t.k = s.k when not matched then insert *",
            setup=(f"{create} {some} k = 7",),
        ),
        Shape(
            group,
            "a subquery of a `DELETE`",
            f"delete from bench.{TARGET} where k in ({some.replace('k, name', 'k')} k = {key})",
            setup=(f"{create} {some} k between {key - 10} and {key + 10}",),
            rejected_by=("delta-spark",),
        ),
    ]
