"""Conditions of queries that hold for all needed rows of a table, and conditions that do not."""

from __future__ import annotations

from time import process_time

import pytest

from rowmerge.plan.queries.outputs import Source, View
from rowmerge.plan.queries.push_down import push_down
from rowmerge.plan.queries.subqueries import has_query
from rowmerge.sql import parse_query
from rowmerge.table.metadata.schema import Field, Primitive, Struct

INT, LONG, STRING, DOUBLE = Primitive("integer"), Primitive("long"), Primitive("string"), Primitive("double")
T = Struct(
    (Field("k", INT), Field("v", INT), Field("s", STRING), Field("x", DOUBLE), Field("st", Struct((Field("k", INT), Field("a", INT)))))
)
U = Struct((Field("k", INT), Field("w", INT)))
Y = Struct((Field("k", INT), Field("z", INT)))
BIG = Struct((Field("k", LONG), Field("w", INT)))
R = Struct((Field("a", DOUBLE),))
R2 = Struct((Field("b", DOUBLE), Field("st", Struct((Field("k", INT), Field("a", INT))))))
TABLES: dict[str, Source] = {"t": T, "u": U, "y": Y, "big": BIG, "r": R, "r2": R2}


def pushed(query: str, views: dict[str, Source] | None = None, *, case_sensitive: bool = False) -> str:
    """Return the conditions without subqueries as `table: condition; condition | table: …`, without quotes and the table's name."""
    by_table = push_down(parse_query(query), {**TABLES, **(views or {})}, case_sensitive=case_sensitive).by_table
    texts = {
        name: [text.replace(f"`{name}`.", "").replace("`", "") for text in texts if not has_query(text)] for name, texts in by_table.items()
    }
    return " | ".join(f"{name}: {'; '.join(texts[name])}" for name in sorted(texts) if texts[name])


CASES = {
    # Projections
    "a condition of WHERE": ("select * from t where k = 5 and v > 3", "t: k = 5; v > 3"),
    "an OR of one table": ("select * from t where k = 5 or v = 3", "t: (k = 5 or v = 3)"),
    "a condition through a query": ("select * from (select v as k, k as v from t) where k = 5", "t: v = 5"),
    "an expression": ("select * from (select k + 1 as z from t) where z = 5", "t: (k + 1) = 5"),
    "a qualified name": ("select * from t as a where a.k = 5", "t: k = 5"),
    "a field": ("select * from t where st.a = 5", "t: st.a = 5"),
    "columns of an alias": ("select * from (select k, v from t) as a(b, c) where c = 5", "t: v = 5"),
    "a column precedes a lateral alias": ("select k + 1 as v, v as z from t where v = 5", "t: v = 5"),
    "a name that is no column is a variable": ("select k as q from t where v = q", "t: v = system.session.q"),
    "a function without parentheses is no variable": ("select k as q from t where s = user", ""),
    "a name in a subquery can be a column outside": ("select * from u where exists (select 1 from t where v = q)", ""),
    "a column in parentheses": ("select * from (select (k), (t.v) from t) where k = 5 and v = 3", "t: k = 5; v = 3"),
    "a function without parentheses can be a column": ("select * from (select v as current_date from t) where current_date = 5", ""),
    "a literal is no column": ("select * from (select null, v from t) where `null` = 5", "t: (null) = 5"),
    "a star without a column": ("select * from (select * except (v) from t) where k = 5", "t: k = 5"),
    "a star without a field has unknown columns": ("select * from (select * except (st.k) from t) where k = 5", ""),
    "a star of a struct that has the name of a table": ("select * from (select t.st.* from t join u st on t.v = st.w) where k = 5", ""),
    "a star of a struct": ("select * from (select st.* from t) where k = 5", ""),
    "a name with a doubled quote": ("select * from u where exists (select 1 from (select `a``k` from t) where k = 5)", ""),
    "an expression that ends with a name": ("select * from (select v + t.k from t) where k = 5", ""),
    "two columns of one name": ("select * from (select k, v as k from t) where k = 5", ""),
    "a generator with unknown columns": ("select * from (select inline(a), k from t) where k = 5", ""),
    "a pipe of one character": ("select * from (select k, v from t where v > 0 | select v as k) where k = 5", ""),
    "an operator of bits": ("select k | v as z from t where v | left(s, 1) = 3 and k = 5", "t: v | left(s, 1) = 3; k = 5"),
    "a nondeterministic column": ("select * from (select k, rand() as r from t) where k = 5", ""),
    "a nondeterministic condition": ("select * from t where rand() < 0.5 and k = 5", "t: k = 5"),
    "a comment that goes on in the next line": ("select * from t where v > 3 -- \\\n and k = 5\n and s = 'a'", ""),
    # Limits
    "a limit": ("select * from (select * from t limit 5) where k = 5", ""),
    "an offset": ("select * from (select * from t order by v offset 5) where k = 5", ""),
    "a limit of a branch": ("(select k from t where v = 1 limit 5) union all select k from u where k = 5", "t: v = 1 | u: k = 5"),
    "a limit of a query in parentheses": ("select * from ((select k from t limit 5)) where k = 5", ""),
    "a condition below a limit": ("select * from t where k = 5 order by v limit 3", "t: k = 5"),
    "a sample": ("select * from t tablesample (5 rows) where k = 5", ""),
    # Groups
    "a grouping column in HAVING": ("select k, count(*) from t group by k having k = 5", "t: k = 5"),
    "a grouping column outside": ("select * from (select k, count(*) as c from t group by k) where k = 5 and c > 1", "t: k = 5"),
    "an aggregate in HAVING": ("select k from t group by k having max(v) = 5", ""),
    "an aggregate that only Spark knows": ("select k from t group by k having try_sum(1) = 5", ""),
    "rows that only Spark knows": ("select * from (select inline_outer(array(struct(1), struct(2))) as k from t) where k = 2", ""),
    "an alias in HAVING": ("select max(v) as k from t group by t.k having k = 5", ""),
    "a field in HAVING with the name of a column": ("select st.k, count(*) from t group by st.k having k = 5", ""),
    "a cast in HAVING with the name of a column": ("select cast(st.k as int), count(*) from t group by st.k having k = 5", ""),
    "a name in parentheses in HAVING": ("select (st.k) from t group by st.k having k = 5", ""),
    "grouping sets": ("select k, v from t group by grouping sets ((k), (v)) having k = 5", ""),
    "ROLLUP": ("select * from (select k, v, count(*) from t group by rollup (k, v)) where k = 5", ""),
    "CUBE": ("select k, v from t where v = 3 group by k, v with cube having k is null", "t: v = 3"),
    "DISTINCT": ("select * from (select distinct k, v from t) where v = 5", "t: v = 5"),
    # Windows
    "a column of all partitions": (
        "select * from (select k, v, sum(v) over (partition by k order by v) a, max(v) over (partition by v, k) b from t) where k = 5",
        "t: k = 5",
    ),
    "a column of some partitions": (
        "select * from (select v, sum(v) over (partition by k) a, max(v) over (partition by v, k) b from t) where v = 5",
        "",
    ),
    "a window without partitions": ("select * from (select k, row_number() over (order by k) r from t) where k = 5", ""),
    "a named window": ("select * from (select k, max(v) over w as m from t window w as (partition by k)) where k = 5", ""),
    "a window in QUALIFY": ("select * from (select k from t qualify row_number() over (order by v) = 1) where k = 5", ""),
    "QUALIFY itself": ("select k, max(v) over (partition by k) from t qualify k = 5", ""),
    "WHERE below a window": ("select k, max(v) over () from t where k = 5", "t: k = 5"),
    # Set operations
    "UNION ALL of doubles": ("select * from (select x from t union all select a from r) where x > 5", "r: a > 5 | t: x > 5"),
    "UNION of doubles": ("select * from (select x from t union select a from r) where x > 5", ""),
    "UNION ALL and UNION of doubles": ("select * from (select x from t union all select a from r union select b from r2) where x > 5", ""),
    "UNION ALL in UNION of doubles": (
        "select * from (select x from t union (select a from r where a > 1 union all select b from r2)) where x > 5",
        "r: a > 1",
    ),
    "UNION ALL of columns of unknown types": ("select * from (select st from t union all select st from r2) where st.a > 5", ""),
    "UNION ALL": ("select * from (select k, v from t union all select k, w from u) where v = 5", "t: v = 5 | u: w = 5"),
    "EXCEPT": ("select * from (select k from t except all select w from u) where k = 5", "t: k = 5 | u: w = 5"),
    "INTERSECT": ("select * from (select k from t intersect select w from u) where k = 5", "t: k = 5 | u: w = 5"),
    "branches of other types": (
        "select * from (select k, w from big union all select k, w from u) where k = 5 and w = 3",
        "big: w = 3 | u: w = 3",
    ),
    "a branch of unknown columns": ("select * from (select k from t union all select a.* from values (1) as a) where k = 5", ""),
    "WHERE of one branch": ("select k from t where v = 5 union all select k from u", "t: v = 5"),
    # Inner joins
    "conditions of both sides": ("select * from t join u on t.k = u.k and u.w = 3 where v = 5", "t: v = 5 | u: w = 3"),
    "an equality transfers a condition": ("select * from t join u on t.k = u.k where u.k = 5", "t: k = 5 | u: k = 5"),
    "equalities in a chain": (
        "select * from t, u, y where t.k = u.k and u.k = y.z and y.z in (1, 2)",
        "t: k in (1, 2) | u: k in (1, 2) | y: z in (1, 2)",
    ),
    "equalities in a chain of joins": (
        "select * from t join u on t.k = u.k join y on u.k = y.z where y.z = 5",
        "t: k = 5 | u: k = 5 | y: z = 5",
    ),
    "WHERE of a joined query": ("select * from t join (select k as q from u where k = 5) x on t.k = x.q", "t: k = 5 | u: k = 5"),
    "WHERE of a joined group": (
        "select * from t join (select k, max(w) as m from u where k = 5 group by k) x on t.k = x.k",
        "t: k = 5 | u: k = 5",
    ),
    "WHERE of a joined grouping set": (
        "select * from t join (select k, max(w) as m from u where k = 5 group by cube (k)) x on t.k = x.k",
        "u: k = 5",
    ),
    "WHERE of the preserved side of LEFT": (
        "select * from (select k from u where k = 5) x left join t on t.k = x.k",
        "t: k = 5 | u: k = 5",
    ),
    "WHERE of the other side of LEFT": ("select * from t left join (select k from u where k = 5) x on t.k = x.k", "u: k = 5"),
    "WHERE of a side of a FULL join that is joined": (
        "select * from y join (t full join (select k from u where k = 5) x on t.k = x.k) on y.z = t.k",
        "u: k = 5",
    ),
    "ON of a LEFT join that is joined": ("select * from y join (t left join u on t.k = 5 and t.k = u.k) on y.z = t.k", "u: k = 5"),
    "WHERE of a joined WITH query": ("with a as (select k from u where k = 5) select * from t join a on t.k = a.k", "t: k = 5 | u: k = 5"),
    "WHERE of a column with another name in the query": (
        "select * from t join (select w as k from u where k = 5) x on t.k = x.k",
        "u: k = 5",
    ),
    "an equality of other types": ("select * from big join u on big.k = u.k where u.k = 5", "u: k = 5"),
    "a condition on both sides": ("select * from t join u on t.k = u.k where t.v = 5 or u.w = 5", ""),
    "USING": ("select * from t join u using (k) where k = 5", "t: k = 5 | u: k = 5"),
    "NATURAL": ("select * from t natural join u where k = 5", "t: k = 5 | u: k = 5"),
    "an ambiguous name": ("select * from t join u on t.v = u.w where k = 5", ""),
    "one alias of two tables": ("select * from t a join u a on v = w where a.w = 5", "t: v = 5 | u: w = 5"),
    "SEMI": ("select * from t semi join u on t.k = u.k and t.v = 1 and u.w = 2 where t.k = 5", "t: k = 5; v = 1 | u: w = 2; k = 5"),
    # Outer joins
    "ON of LEFT": ("select * from t left join u on t.k = u.k and t.v = 1 and u.w = 2", "u: w = 2"),
    "ON of RIGHT": ("select * from t right join u on t.k = u.k and t.v = 1 and u.w = 2", "t: v = 1"),
    "ON of FULL": ("select * from t full join u on t.k = u.k and t.v = 1 and u.w = 2", ""),
    "ON of ANTI": ("select * from t anti join u on t.k = u.k and t.v = 1 and u.w = 2", "u: w = 2"),
    "WHERE of the preserved side": ("select * from t left join u on t.k = u.k where t.k = 5", "t: k = 5 | u: k = 5"),
    "WHERE of the preserved side of ANTI": ("select * from t anti join u on t.k = u.k where t.k = 5", "t: k = 5 | u: k = 5"),
    "WHERE that needs a value of the other side": (
        "select * from t left join u on t.k = u.k and t.v = 1 where u.w = 5",
        "t: v = 1 | u: w = 5",
    ),
    "WHERE of the other side that NULL satisfies": ("select * from t left join u on t.k = u.k where u.w is null", ""),
    "WHERE of the other side with <=>": ("select * from t left join u on t.k = u.k where not u.w <=> 5", ""),
    "WHERE of the other side with coalesce": ("select * from t left join u on t.k = u.k where coalesce(u.w, 5) = 5", ""),
    "a FULL join that WHERE makes a LEFT join": (
        "select * from t full join u on t.k = u.k and u.w = 2 where t.k = 5",
        "t: k = 5 | u: w = 2; k = 5",
    ),
    "a FULL join that WHERE makes a RIGHT join": (
        "select * from t full join u on t.k = u.k and t.v = 2 where u.k = 5",
        "t: v = 2; k = 5 | u: k = 5",
    ),
    "a FULL join that WHERE makes an INNER join": (
        "select * from t full join u on t.k = u.k and t.v = 2 where u.k = 5 and t.s = 'a'",
        "t: s = 'a'; v = 2; k = 5 | u: k = 5",
    ),
    "USING of LEFT": ("select * from t left join u using (k) where k = 5", "t: k = 5 | u: k = 5"),
    "USING of RIGHT": ("select * from t right join u using (k) where k = 5", "t: k = 5 | u: k = 5"),
    "USING after RIGHT": ("select * from t right join u using (k) join y using (k) where k = 5", "t: k = 5 | u: k = 5 | y: k = 5"),
    "USING of RIGHT after LEFT": (
        "select * from t left join u using (k) right join y using (k) where k = 5",
        "t: k = 5 | u: k = 5 | y: k = 5",
    ),
    "USING of RIGHT whose right side is a join": (
        "select * from t right join (u right join y using (k)) using (k) where k = 5",
        "t: k = 5 | u: k = 5 | y: k = 5",
    ),
    "a star over USING of RIGHT has the type of the right column": (
        "select * from (select k from (select * from big right join u using (k)) z) x join y on x.k = y.k where y.k = 5",
        "u: k = 5 | y: k = 5",
    ),
    "a star over USING of RIGHT has not the type of the left column": (
        "select * from (select k from (select * from u right join big using (k)) z) x join y on x.k = y.k where y.k = 5",
        "y: k = 5",
    ),
    "NATURAL RIGHT": ("select * from t natural right join u where k is null", "t: k is null | u: k is null"),
    "USING of FULL": ("select * from t full join u using (k) where k = 5", ""),
    "USING after FULL": ("select * from t full join u using (k) join y using (k) where k = 5", ""),
    "USING of FULL in parentheses in ON": (
        "select * from y a join (t full join range(9) as r(k) using (k)) on a.z = 1 and k = 5",
        "y: z = 1",
    ),
    "NATURAL FULL": ("select * from t natural full join u where k = 5", ""),
    "NATURAL FULL with unknown columns": ("select * from t natural full join range(9) where k = 5", ""),
    "ON FALSE": ("select * from t left join u on 1 = 0", "u: 1 = 0"),
    "a join after a comma": ("select * from t, u left join y on u.k = y.k and y.z = 1 where u.w = 5", "u: w = 5 | y: z = 1"),
    "joins in parentheses": ("select * from t left join (u join y on u.k = y.k and u.w = 1) on t.k = u.k", "u: w = 1"),
    "LATERAL VIEW": ("select * from t lateral view outer explode(a) e as q where k = 5 and q = 1", "t: k = 5"),
    "LATERAL VIEW and PIVOT": ("select * from t lateral view explode(a) e as q pivot (max(k) for q in (1 as k)) where k = 5", ""),
    "PIVOT": ("select * from t pivot (max(v) for k in (1, 2)) where s = 'a'", ""),
    "an alias of unknown columns": ("select * from t, range(3) as st where st.a = 5", ""),
    # Subqueries
    "a subquery": ("select * from t where k not in (select k from u where w = 5)", "u: w = 5"),
    "a correlated subquery": ("select * from t where exists (select 1 from u where u.k = t.k and w = 5 and t.v = 1)", "u: w = 5"),
    "a name inside and outside": ("select * from t where exists (select 1 from u where k = 5)", "u: k = 5"),
    "a LATERAL query": ("select * from t, lateral (select max(w) from u where k = 5 and u.w = t.v) where t.k = 1", "t: k = 1 | u: k = 5"),
    "an expression with a subquery": ("k in (select k from u where w = 5) and k = 3", "u: w = 5"),
    # WITH
    "a WITH query": ("with a as (select * from t) select * from a where k = 5", "t: k = 5"),
    "two reads of a WITH query": (
        "with a as (select * from t) select * from a where k = 5 union all select * from a where v = 3 and k = 1",
        "t: ((k = 5)) OR ((v = 3) AND (k = 1))",
    ),
    "a read without conditions": ("with a as (select * from t) select * from a where k = 5 union all select * from a", ""),
    "a read in a WITH query": (
        "with a as (select * from t), b as (select * from a where v = 3) select * from b where k = 5",
        "t: k = 5; v = 3",
    ),
    "columns of a WITH query": ("with a(b, c, d, e, f) as (select * from t) select * from a where c = 5", "t: v = 5"),
    "a WITH query with the name of a table": ("with u as (select k from t where v = 3) select * from u where k = 5", "t: k = 5; v = 3"),
    "a name in an inner and an outer list": (
        "with a as (select * from t) select * from (with a as (select * from u) select * from a where k = 1) as b, a where a.v = 5",
        "t: v = 5 | u: k = 1",
    ),
    "an inner list of an opaque query hides an outer one": (
        "with a as (select k from t) select * from (with a as (select k from u) select 1 from a pivot (max(k) for k in (1)) "
        "where 1 in (select k from a where k = 1))",
        "",
    ),
    "a recursive list": ("with recursive a as (select k from t union all select k from a) select * from a where k = 5", ""),
    "a WITH query that is read in an opaque part": (
        "with a as (select * from t) select * from a where k = 5 and 1 in (from a |> select 1)",
        "",
    ),
    "a WITH query in double quotes": ('with a as (select * from t) select * from a where k = 5 and 1 in (select k from "a")', ""),
    "a WITH query in IDENTIFIER": ("with a as (select * from t) select * from a where k = 5 and 1 in (select k from identifier('a'))", ""),
}


@pytest.mark.parametrize(("query", "expected"), CASES.values(), ids=CASES.keys())
def test_conditions_of_each_table(query: str, expected: str) -> None:
    assert pushed(query) == expected


def test_conditions_of_hundreds_of_relations() -> None:
    numbers = range(1, 200)
    chain = "select * from t t0" + "".join(f" join t{n} on t{n}.k = t{n - 1}.k" for n in numbers) + " where t0.k = 5"
    tables: dict[str, Source] = {f"t{n}": T for n in numbers}
    assert pushed(chain, tables).count(": k = 5") == 200
    union = " union all ".join(f"select * from t{n} where k = {n}" for n in numbers)
    assert pushed(union, tables).count(": k = ") == 199
    lists = "with a0 as (select * from t)" + "".join(f", a{n} as (select * from a{n - 1})" for n in range(1, 400))
    assert pushed(f"{lists} select * from a399 where k = 5") == "t: k = 5"


def test_a_chain_of_joins_with_using_takes_no_exponential_time() -> None:
    joins = "".join(f" join u as u{n} using (k, w)" for n in range(40))
    start = process_time()
    assert "k = 5" in pushed(f"select * from u{joins} where k = 5")
    assert process_time() - start < 5


def test_too_many_joins_read_all_files() -> None:
    assert pushed("select * from t" + "".join(f", u as u{n}" for n in range(2000)) + " where v = 5") == ""


def test_a_wide_query_is_analysed_in_a_second() -> None:
    wide = Struct(tuple(Field(f"c{n}", INT) for n in range(1000)))
    columns = ", ".join(wide.names)
    start = process_time()
    assert pushed(f"select * from (select {columns} from (select {columns} from w)) where c7 = 5", {"w": wide}) == "w: c7 = 5"
    assert process_time() - start < 2


VIEWS: dict[str, Source] = {
    "plain": View(parse_query("select k, v from t where v > 3")),
    "renamed": View(parse_query("select k, v from t"), ("a", "b")),
    "limited": View(parse_query("select * from t limit 3")),
    "unknown": View(parse_query("select k, a.* from t, values (1, 2) as a"), ("k", "b", "c")),
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from plain where k = 5", "t: k = 5; v > 3"),
        ("select * from renamed where b = 5", "t: v = 5"),
        ("select * from u where exists (select 1 from renamed where v = 5)", ""),
        ("select * from limited where k = 5", ""),
        ("select * from unknown where k = 5", ""),
        ("select * from u left join plain p on u.k = p.k and u.w = 3 where u.k = 5", "t: k = 5; v > 3 | u: k = 5"),
    ],
)
def test_conditions_pass_views(query: str, expected: str) -> None:
    assert pushed(query, VIEWS) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from t where K = 5", ""),
        ("select * from t join u using (k) where K = 5", ""),
        ("select * from (select * except (K) from (select k, v as K from t)) where k = 5", "t: k = 5"),
        ("select * from (select k, v as K from t) where K = 5", "t: v = 5"),
    ],
)
def test_names_can_be_case_sensitive(query: str, expected: str) -> None:
    assert pushed(query, case_sensitive=True) == expected


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("select * from t where v > (select max(w) from `__rowmerge_read_u` u where k = 1)", 1),
        ("select * from t where v > (select max(w) from `__rowmerge_read_u` u where k = t.v)", 0),
        ("select * from t where exists ( (select max(w) from `__rowmerge_read_u` u))", 0),
        # The text of a query without a table could occur in other places of the statement.
        ("select * from t where v > (select 1)", 0),
        # Evaluated alone, the subquery could read a variable named `s`.
        ("select * from t where v > (select max(w) from `__rowmerge_read_u` u where k = s)", 0),
        ("select * from t where exists (select 1 from y where z > (select max(w) from `__rowmerge_read_u` u where k = s))", 0),
        ("select * from t, range(3) where v > (select max(w) from `__rowmerge_read_u` u where k = id)", 0),
        # A query, an alias or a join hides a column of `u`, so the name is that of a column of `t`. Alone, it could be a variable.
        ("select * from t where v > (select max(w) from (select w from `__rowmerge_read_u`) where w < k)", 0),
        ("with c as (select w from `__rowmerge_read_u`) select * from t where v > (select max(w) from c where w < k)", 0),
        ("select * from t where v > (select max(b) from `__rowmerge_read_u` as u(a, b) where a < k)", 0),
        ("select * from t where v > (select max(z) from y semi join `__rowmerge_read_u` u on z = w)", 1),
        ("select * from big where k > (select max(z) from y semi join `__rowmerge_read_u` u on z = w where z < w)", 0),
        ("select * from t where v > (select max(z) from y join y as b on y.z < k join `__rowmerge_read_u` u on u.k = b.z)", 0),
        # Alone, `session.k` is a variable, and `a.k` is a field of a variable.
        ("select * from t session where v > (select max(w) from `__rowmerge_read_u` u where w < session.k)", 0),
        ("select * from t a where v > (select max(w) from `__rowmerge_read_u` u where w < a.k)", 0),
        ("select * from t a where v > (select max(w) from `__rowmerge_read_u` a where w < a.k)", 1),
        ("select * from t where v > (select max(a.w) from `__rowmerge_read_u` a join y on a.k = y.k where z = 1)", 1),
    ],
)
def test_subqueries_with_more_than_a_value_or_with_columns_around_them_are_not_evaluated(query: str, values: int) -> None:
    assert len(push_down(parse_query(query), {**TABLES, "__rowmerge_read_u": U}).values) == values


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from t where k = 5 and k in (select u.k from {u} u)", "t: k = 5 | u: k = 5"),
        ("select * from t where k = 5 and k in (select u.k from {u} u group by u.k)", "t: k = 5 | u: k = 5"),
        ("select * from t where k = 5 and k in (select u.k from {u} u limit 3)", "t: k = 5"),
        # A NULL among the keys makes NOT IN never true.
        ("select * from t where k = 5 and k not in (select u.k from {u} u)", "t: k = 5"),
        ("select * from t where k = 5 or k in (select u.k from {u} u)", ""),
        ("select * from t where k = 5 and k in (select max(u.k) from {u} u)", "t: k = 5"),
        ("select * from big where k = 5 and k in (select u.k from {u} u)", "big: k = 5"),
        ("select * from t where k = 5 and exists (select 1 from {u} u where u.k = t.k and w = 1)", "t: k = 5 | u: k = 5; w = 1"),
        ("select * from t where k = 5 and not exists (select 1 from {u} u where t.k = u.k)", "t: k = 5 | u: k = 5"),
        ("select * from t where k = 5 and v not in (select w from {u} u where u.k = t.k)", "t: k = 5 | u: k = 5"),
        ("select * from t where k = 5 and v > (select avg(w) from {u} u where u.k = t.k)", "t: k = 5 | u: k = 5"),
        ("select (select max(w) from {u} u where u.k = t.k limit 1) from t where k = 5", "t: k = 5 | u: k = 5"),
        ("select * from t where k = 5 and exists (select 1 from {u} u where u.k = t.k or w = 1)", "t: k = 5"),
        ("select * from t where k = 5 and exists (select 1 from {u} u where u.k < t.k)", "t: k = 5"),
        # `k` is a column of the subquery.
        ("select * from t where k = 5 and exists (select 1 from {u} u where u.w = k)", "t: k = 5 | u: w = k"),
        ("select * from t where k = 5 and exists (select 1 from {u} u left join y on u.w = y.z where y.k = t.k)", "t: k = 5 | y: k = 5"),
        ("select * from t where k = 5 and exists (select 1 from y left join {u} u on u.w = y.z where y.k = t.k)", "t: k = 5 | y: k = 5"),
        ("select * from (select * from t where k = 5) a where exists (select 1 from {u} u where u.k = a.k)", "t: k = 5 | u: k = 5"),
        ("select * from (select * from t a where exists (select 1 from {u} u where u.k = a.k)) where k = 5", "t: k = 5 | u: k = 5"),
        (
            "select * from t join y on t.k = y.k where y.k = 5 and exists (select 1 from {u} u where u.k = t.k)",
            "t: k = 5 | u: k = 5 | y: k = 5",
        ),
        # Rows without a match in `t` are in the result too.
        ("select * from t right join y on t.k = y.k and t.k = 5 where exists (select 1 from {u} u where u.k = t.k)", "t: k = 5"),
        ("select max(k) as k from t where exists (select 1 from {u} u where u.k = t.k) having max(k) = 5", ""),
        (
            "select * from t where k in (select k from y where k = 5 and exists (select 1 from {u} u where u.k = y.k))",
            "u: k = 5 | y: k = 5",
        ),
        # `k` is a column of the subquery: that of a FULL join, or one of two equal columns. `d` is a relation of the subquery.
        ("select * from t where k = 5 and exists (select 1 from {u} u full join y using (k) where u.w = k)", "t: k = 5"),
        ("select * from t where k = 5 and exists (select 1 from {u} u natural full join y where (k) = u.w)", "t: k = 5"),
        ("select * from t where k = 5 and exists (select 1 from (select *, k from {u}) d where w = k)", "t: k = 5"),
        ("select * from t d where d.k = 5 and exists (select 1 from (select *, k from {u}) d where w = d.k)", "t: k = 5"),
        # A query in the first operand of UNION is in the subquery, and so are the queries in the second one.
        (
            "select * from t where k = 5 and exists ((select 1 from u where w = 1) union all "
            "select 1 from y where exists (select 1 from {c} where a = k))",
            "t: k = 5 | u: w = 1",
        ),
        # The query in ORDER BY belongs to the subquery, whose `k` is that of `y`.
        (
            "select * from t where k = 5 and v in ((select k from y) order by (select max(b) from {c} where a = k) limit 1)",
            "t: k = 5",
        ),
        (
            "select * from t where k = 5 and exists (select 1 from (select k as `a``b` from {u}) d where d.`a``b` = t.k)",
            "t: k = 5 | u: k = 5",
        ),
        ("select * from t where k = 5 and exists (select 1 from y full join {u} u using (k) where w = `k`)", "t: k = 5"),
        # A pipe makes the query opaque.
        ("select * from t where k = 5 and exists ((select k from y) |> where exists (select 1 from {c} where a = k))", ""),
        (
            "select * from t where k = 5 and k in "
            "((select k from {u}) except (select k from y where exists (select 1 from {c} where a = z)))",
            "t: k = 5 | u: k = 5 | y: k = 5",
        ),
        # In HAVING and QUALIFY, `k` can be the alias, but `t.k` cannot.
        ("select v as k from t where t.k = 5 having exists (select 1 from {c} where a = k)", "t: k = 5"),
        ("select v as k from t where t.k = 5 qualify exists (select 1 from {c} where a = k)", "t: k = 5"),
        ("select v as k from t where t.k = 5 qualify exists (select 1 from {c} where a = t.k)", "c: a = 5 | t: k = 5"),
        ("select v from t where t.k = 5 and exists (select 1 from {c} where a = k)", "c: a = 5 | t: k = 5"),
        ("with c as (select * from {u}) select * from t, c where t.k = 5 and exists (select 1 from c where c.k = t.k)", "t: k = 5"),
    ],
)
def test_conditions_are_pushed_into_subqueries_through_equal_columns(query: str, expected: str) -> None:
    placeholders = {name: f"`__rowmerge_read_{name}`" for name in "uc"}
    tables: dict[str, Source] = {"__rowmerge_read_u": U, "__rowmerge_read_c": Struct((Field("a", INT), Field("b", INT)))}
    conditions = pushed(query.format(**placeholders), tables).replace("__rowmerge_read_", "").split(" | ")
    assert " | ".join(sorted(conditions)) == expected
