"""The names in a query are a superset of the columns that it uses, unless it uses columns without their names."""

from __future__ import annotations

import pytest

from rowmerge.errors import UnsupportedStatement
from rowmerge.sql import (
    column_names,
    hidden_columns_in,
    hidden_columns_of_target,
    parse_query,
    tables_below_result,
    tables_with_own_names,
    without_hidden_columns,
)


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


HIDDEN = {"t": ("_file", "_pos"), "u": ("_file",)}


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("select _file from t as a", {"t": {"_file"}}),
        ("select a.`_FILE`, x._pos, s.x._pos from t as a", {"t": {"_file"}}),
        ("select id as _file from t as a", {}),
        ("select _file from t", {}),
        ("select _file from t as a (b)", {}),
        ("select _file from t as a, u as b", {"t": {"_file"}, "u": {"_file"}}),
        ("select b._file from t as a join u as b on a._pos = b._pos", {"t": {"_pos"}, "u": {"_file"}}),
        ("select 1 from t as a where id in (select id from u as b where _file = 'x')", {"u": {"_file"}}),
        ("select 1 from t as a where id in (select id from u as b where _pos = 1)", {"t": {"_pos"}}),
        ("select 1 from t as a where id in (select id from u as b where b._file = a._file)", {"t": {"_file"}, "u": {"_file"}}),
        ("select id from t as a union all select _file from u as b", {"u": {"_file"}}),
        ("select * except (id), _file from t as a except select id from u as b", {"t": {"_file"}}),
        ("with c as (select _pos from t as a) select * from c join u as b", {"t": {"_pos"}}),
        ("select '_file' from t as a", {}),
    ],
)
def test_a_hidden_column_belongs_to_the_innermost_query_that_can_have_it(text: str, uses: dict[str, set[str]]) -> None:
    assert hidden_columns_in(text, HIDDEN) == uses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select *, _file from t as a", "select * EXCEPT (`_file`, `_pos`), _file from t as a"),
        ("select a.* from t as a", "select a.* EXCEPT (`_file`, `_pos`) from t as a"),
        ("select * except (id) from t as a", "select * except (id, `_file`, `_pos`) from t as a"),
        ("select * from t as a, x", "select * EXCEPT (`a`.`_file`, `a`.`_pos`) from t as a, x"),
        (
            "select *, b.*, x.* from t as a join u as b using (id) join x",
            "select * EXCEPT (`a`.`_file`, `a`.`_pos`, `b`.`_file`), b.* EXCEPT (`_file`), x.* from t as a join u as b using (id) join x",
        ),
        ("select * from (select * from u as b)", "select * from (select * EXCEPT (`_file`) from u as b)"),
        ("select count(*), 2 * 3, f(*) from u as b", "select count(*), 2 * 3, f(* EXCEPT (`_file`)) from u as b"),
        ("select * from x union select * from u as b", "select * from x union select * EXCEPT (`_file`) from u as b"),
        ("select * from u as b where id in (select * from x)", "select * EXCEPT (`_file`) from u as b where id in (select * from x)"),
        ("select * from (x join u as b)", "select * EXCEPT (`b`.`_file`) from (x join u as b)"),
        ("((select * from u as b) union all select 1)", "((select * EXCEPT (`_file`) from u as b) union all select 1)"),
    ],
)
def test_a_star_excludes_the_hidden_columns_of_its_own_block(text: str, expected: str) -> None:
    assert without_hidden_columns(text, HIDDEN) == expected


@pytest.mark.parametrize("after", ["natural join x", "|> limit 1", "pivot (max(a) for k in (1))"])
def test_a_query_that_uses_all_columns_without_a_star_cannot_hide_columns(after: str) -> None:
    with pytest.raises(UnsupportedStatement, match="_file of b"):
        without_hidden_columns(f"select 1 from u as b {after}", HIDDEN)


def test_an_expression_refers_to_hidden_columns_of_the_target_with_its_qualifiers_or_without() -> None:
    text = "_file = 'x' and s._pos = 1 and T._spec_id and db.t._row_id = 1 and v = _v and k in (select _deleted where t._partition = 1)"
    hidden = ("_file", "_pos", "_spec_id", "_deleted", "_partition", "_row_id", "_v")
    assert hidden_columns_of_target(text, hidden, ("t",), ("_V",)) == {"_file", "_spec_id", "_partition", "_row_id"}
