"""The structure of each form of a query."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import pytest

from rowmerge.commands import queries as q
from rowmerge.sql import parse_query


def text_of(query: q.Query) -> str:
    """Return the structure of a query in one line: `select k, * from t a where (k = 5)`. An opaque part is `?`, with its queries."""
    lists = "".join(
        f"with {named_query.name}{list(named_query.columns) or ''}{'!' * named_query.has_other_reads} ({text_of(named_query.query)}) "
        for named_query in query.named_queries
    )
    match query.body:
        case q.SetOperation(branches=branches):
            body = " union ".join(f"({text_of(branch)})" for branch in branches)
        case q.OpaqueQuery(queries=queries):
            body = _opaque(queries)
        case q.SelectBlock():
            body = _block(query.body)
    return lists + body + (" limit" if query.is_limited else "")


def _opaque(queries: tuple[q.Query, ...]) -> str:
    return "?" + "".join(f"({text_of(query)})" for query in queries)


def _block(block: q.SelectBlock) -> str:
    parts = ["select", "?" if block.items is None else ", ".join(map(_item, block.items))]
    parts += [] if block.relation is None else ["from", _relation(block.relation)]
    parts += [f"{name} ({clause.text})" for name, clause in (("where", block.where), ("having", block.having)) if clause is not None]
    parts += ["sets"] * block.has_grouping_sets
    parts += [f"over {[clause.text for clause in window]}" for window in block.windows]
    parts += [f"sub ({text_of(query)})" for query in block.subqueries]
    return " ".join(parts)


def _item(item: q.SelectItem) -> str:
    except_ = f" except {list(item.excluded)}" if item.excluded else ""
    return item.expression.text + ("" if item.alias is None else f" as {item.alias}") + except_


def _relation(relation: q.Relation) -> str:
    match relation:
        case q.Join():
            condition = (
                f" on ({relation.condition.text})"
                if relation.condition is not None
                else f" using {list(relation.using)}" * bool(relation.using)
            )
            natural = "NATURAL " * relation.is_natural
            queries = "".join(f" sub ({text_of(query)})" for query in relation.queries)
            return f"({_relation(relation.left_side)} {natural}{relation.kind} {_relation(relation.right_side)}{condition}{queries})"
        case q.OpaqueRelation(queries=queries):
            return _opaque(queries)
        case q.TableRead():
            name = ".".join(relation.name)
        case q.Subquery(query=query):
            name = f"({text_of(query)})"
        case q.NamedQueryRead():
            name = f"{relation.named_query.name}@"
    return f"{name} {relation.alias or '-'}{list(relation.columns) or ''}"


FORMS = {
    # Clauses
    "select k, t.v as w, s x, v + 1 from t where k = 5": "select k, t.v as w, s as x, v + 1 from t t where (k = 5)",
    "select distinct k from t": "select k from t t",
    "select 1": "select 1",
    "table t": "select * from t t",
    "select k from t where k = 5 group by k having max(v) > 1 order by k limit 3": (
        "select k from t t where (k = 5) having (max(v) > 1) limit"
    ),
    "select k from t order by k": "select k from t t",
    "select k from t offset 3": "select k from t t limit",
    "select k, v from t group by cube (k, v) having k = 5": "select k, v from t t having (k = 5) sets",
    "select k from t group by grouping sets ((k))": "select k from t t sets",
    "select k from t where k is distinct from 3": "select k from t t where (k is distinct from 3)",
    "select k from t where extract(day from d) = 3": "select k from t t where (extract(day from d) = 3)",
    "select k from t where 'a where b' = s -- where c\n and k = 1": "select k from t t where ('a where b' = s -- where c\n and k = 1)",
    "select case when k = 1 then 2 end, interval 5 day, x is null, not y from t": (
        "select case when k = 1 then 2 end, interval 5 day, x is null, not y from t t"
    ),
    # Stars
    "select *, t.* from t": "select *, t.* from t t",
    "select * except (k, v) from t": "select * except ['k', 'v'] from t t",
    "select * except (st.k) from t": "select ? from t t",
    "select count(*), a * b from t": "select count(*), a * b from t t",
    "select explode(m) from t": "select ? from t t",
    "select explode(m) as e from t": "select explode(m) as e from t t",
    "select stack(1, 2, 3) as (a, b) from t": "select ? from t t",
    # Windows
    "select max(v) over (partition by k, v + 1 order by s) from t": (
        "select max(v) over (partition by k, v + 1 order by s) from t t over ['k', 'v + 1']"
    ),
    "select max(v) over w from t window w as (partition by k)": "select max(v) over w from t t over []",
    "select k from t qualify row_number() over (order by v) = 1": "select k from t t over []",
    # Relations
    "select * from t as a(b, c)": "select * from t a['b', 'c']",
    "select * from a.b.c": "select * from a.b.c c",
    "select * from (select k from t) as x": "select * from (select k from t t) x",
    "select * from (select k from t)": "select * from (select k from t t) -",
    "select * from a, b join c on b.k = c.k": "select * from (a a INNER (b b INNER c c on (b.k = c.k)))",
    "select * from a left join b using (k, v)": "select * from (a a LEFT b b using ['k', 'v'])",
    "select * from a natural right outer join b": "select * from (a a NATURAL RIGHT b b)",
    "select * from a left semi join b on left(s, 1) = 'x' anti join c on true": (
        "select * from ((a a SEMI b b on (left(s, 1) = 'x')) ANTI c c on (true))"
    ),
    "select * from a cross join b full join c on a.k = c.k where a.k = 1": (
        "select * from ((a a INNER b b) FULL c c on (a.k = c.k)) where (a.k = 1)"
    ),
    "select * from a join b on a.k = b.natural join c on b.left = c.k": (
        "select * from ((a a INNER b b on (a.k = b.natural)) INNER c c on (b.left = c.k))"
    ),
    "select * from (a join b on a.k = b.k) left join (c)": "select * from ((a a INNER b b on (a.k = b.k)) LEFT c c)",
    "select * from t lateral view explode(a) e as q where k = 1": "select * from (t t INNER ?) where (k = 1)",
    "select * from t, lateral (select * from u) x": "select * from (t t INNER ?(select * from u u))",
    "select * from range(5) r where id = 1": "select * from ? where (id = 1)",
    # Subqueries
    "select (select max(k) from u) from t where k in (select v from u)": (
        "select (select max(k) from u) from t t where (k in (select v from u)) sub (select max(k) from u u) sub (select v from u u)"
    ),
    "select * from a join b on exists (select 1 from c)": (
        "select * from (a a INNER b b on (exists (select 1 from c)) sub (select 1 from c c))"
    ),
    # Set operations
    "select k from a union all select k from b except (select k from c limit 1) order by k": (
        "(select k from a a) union (select k from b b) union (select k from c c limit)"
    ),
    "(select k from a) limit 5": "select k from a a limit",
    # WITH
    "with a as (select 1), b(c) as (select * from a) select * from b": (
        "with a (select 1) with b['c'] (select * from a@ a) select * from b@ b"
    ),
    "with a as (select 1) select a from a": "with a! (select 1) select a from a@ a",
    "with a as (select 1) select a.k from a": "with a (select 1) select a.k from a@ a",
    "with a as (select 1) select * from t, (from a |> limit 1)": "?(select 1)(?)",
    # Opaque parts
    "select * from t pivot (max(v) for k in (1)) where k in (select k from u)": "?(select k from u u)",
    "select * from t tablesample (5 rows)": "?",
    "select * from a join b on a.k = b.k bin by (range x to y) where v = 1": "?",
    "select * from t version as of 3": "?",
    "from t select k": "?",
    "from t |> where k = 1": "?",
    "select * from t |> where k = 1": "?",
    "select v from t order by v | set v = 1": "?",
    "values (1), (2)": "?",
    "select transform(k) using 'cat' from t": "?",
    "with recursive a as (select 1) select * from a": "?(select 1)",
    "k in (select v from u) and k = 3": "?(select v from u u)",
    "select * from t where": "?",
}


@pytest.mark.parametrize(("text", "structure"), FORMS.items(), ids=FORMS.keys())
def test_structure(text: str, structure: str) -> None:
    assert text_of(parse_query(text)) == structure


def test_clauses_have_their_offsets() -> None:
    text = "select k from t where k = 5 having max(v) = 3"
    body = parse_query(text).body
    assert isinstance(body, q.SelectBlock)
    for clause in (body.where, body.having):
        assert clause is not None
        assert text[clause.start : clause.end] == clause.text


@pytest.mark.parametrize(
    "nest",
    [
        lambda query: f"select * from ({query}) pivot (max(v) for k in (1, 2))",
        lambda query: f"with a as ({query}) select * from a tablesample (5 rows)",
        lambda query: f"select * from t where k in ({query})",
        lambda query: f"select * from ({query})",
    ],
)
def test_nested_queries_take_no_exponential_time(nest: Callable[[str], str]) -> None:
    text = "select * from t where k = 5"
    for _ in range(25):
        text = nest(text)
    start = process_time()
    parse_query(text)
    assert process_time() - start < 2


def test_too_deep_queries_are_opaque() -> None:
    assert text_of(parse_query("select * from (" * 70 + "select 1" + ")" * 70)).endswith("?" + ") -" * 60)
