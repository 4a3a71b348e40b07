"""The names in a query are a superset of the columns that it uses, unless it uses columns without their names."""

from __future__ import annotations

import pytest

from rowmerge.sql import column_names, parse_query, tables_below_result, tables_with_own_names


@pytest.mark.parametrize(
    "text",
    [
        "select * from t",
        "select distinct * from t",
        "select all * from t",
        "select a, * from t",
        "select t.* from t",
        "select * except (a) from t",
        "select count(distinct *) from t",
        "select count(* except (a)) from t",
        "select s.count(*) from t",
        "select hash(*) from t",
        "select struct(a, t.*) from t",
        "select a from t where 1 in (select count(t.*) from u)",
        "select /*+ repartition(3, b) */ a from t",
        "select a from t natural join u",
        "select a from identifier('t')",
        "select identifier('b') from t",
        "select ${b} from t",
        "select a from explode(table(t))",
        "from t |> where a > 1",
        "select `a|b` from t",
        "select `.*` from t",
        "*",
    ],
)
def test_a_text_that_can_use_columns_without_their_names_has_no_superset(text: str) -> None:
    assert column_names(text) is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("count(*)", {"count"}),
        ("COUNT ( * ) over (partition by A)", {"count", "over", "partition", "by", "a"}),
        ("a * b * (c) * 2 * -d * 'e' * `f`", {"a", "b", "c", "2", "d", "f"}),
        ("f(a) * x[1] * 3", {"f", "a", "x", "1", "3"}),
        ("t.A.`odd, name`", {"t", "a", "odd, name"}),
        ("'literal' || r'raw' -- comment\n || /* b */ x", {"x"}),
        ('"Name ""x"""', {'name "x"'}),
        ("t.1d + .5", {"t", "1d", "5"}),
        ("Straße", {"strasse"}),
    ],
)
def test_names_of_a_text_are_all_its_identifiers(text: str, names: set[str]) -> None:
    assert column_names(text) == names


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("select a from t", "t"),
        ("select a from t as x join u using (a) left join (v cross join w) on true", "t u v w"),
        ("with q as (select a from t) select a from q join u on exists (select 1 from v)", "t u v"),
        ("select a from t where a in (select b from u) union all select c from v", "t u v"),
        ("select a from t, lateral (select b from u) x", "t u"),
        ("a > (select max(b) from t)", "t"),
        ("select a from t as x (a, b)", ""),
        ("select a from t pivot (sum(b) for c in (1, 2))", ""),
        ("select a from t tablesample (10 percent) as x (a, b)", ""),
        ("select a from (t join u) as x (a, b)", ""),
        ("from t select a", ""),
    ],
)
def test_tables_keep_their_column_names_unless_the_query_renames_them_or_is_opaque(text: str, tables: str) -> None:
    assert set(tables_with_own_names(parse_query(text))) == set(tables.split())


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("select a from t where a in (select b from u) order by a limit 3", "t"),
        ("(select a from (t join u on t.a = u.a) left join v on u.b = v.b)", "t u v"),
        ("select sum(a) over (partition by b) from t", "t"),
        ("select (select max(b) from u) as m from t", "t"),
        ("select coalesce(max(a), 0) from t", ""),
        ("select a, any_value(b) from t group by a", ""),
        ("select a from (select a from t) as q join u on q.a = u.a", "u"),
        ("select a from t union all select a from u", ""),
    ],
)
def test_tables_of_the_outermost_query_without_groups_are_below_its_result(text: str, tables: str) -> None:
    assert sorted(tables_below_result(parse_query(text))) == tables.split()
