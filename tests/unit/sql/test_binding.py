"""Names are replaced by position: in queries and statements (fixtures/binding.sql), in expressions and in relations."""

from __future__ import annotations

from time import process_time

import pytest

from rowmerge.commands.names import TableName
from rowmerge.errors import StatementError, UnsupportedStatement
from rowmerge.sql import TableReference, bind, bind_expression, references
from tests.unit.sql import printed

TABLES = [case for case in printed.cases("binding.sql") if "not closed" not in case.claim]


def resolve(reference: TableReference) -> str | None:
    """Return `<name@version>`, or None for names in the schema `foreign`."""
    if reference.name.parts[0] == "foreign":
        return None
    at = "".join(f"@{version}" for version in (reference.version, reference.timestamp, reference.branch_or_tag) if version is not None)
    arguments = "" if reference.changes is None else f"({'; '.join(argument.text for argument in reference.changes)})"
    return f"<{reference.name}{at}{arguments}>"


@pytest.mark.parametrize("case", printed.cases("binding.sql"), ids=lambda case: case.claim)
def test_a_statement_reads_the_relations_bound_to_its_names(case: printed.Case) -> None:
    try:
        outcome = bind(case.text, resolve)
    except StatementError as problem:
        outcome = printed.error(problem)
    assert outcome == case.expected


@pytest.mark.parametrize("case", TABLES, ids=lambda case: case.claim)
def test_unknown_names_leave_the_statement_unchanged(case: printed.Case) -> None:
    assert bind(case.text, lambda reference: None) == case.text


@pytest.mark.parametrize("case", TABLES, ids=lambda case: case.claim)
def test_a_reference_has_its_position(case: printed.Case) -> None:
    for reference in references(case.text):
        reference_text = case.text[reference.start : reference.end]
        timed = reference.has_time_travel or reference.changes is not None
        assert reference_text.startswith(("`", reference.name.parts[0]))
        assert timed or " as of " in reference_text or reference_text.endswith(("`", reference.name.parts[-1]))
        if reference.timestamp is not None and "@" not in reference_text:
            remaining_text = "\n".join(case.text.split("\n")[reference.timestamp.line - 1 :])
            assert remaining_text[reference.timestamp.column - 1 :].startswith(reference.timestamp.text)


def test_a_repeated_name_is_resolved_each_time() -> None:
    resolved_references = []

    def remember(reference: TableReference) -> None:
        resolved_references.append(reference)

    bind("select * from a.b, c version as of 2 where x in (select y from `a`.b)", remember)
    assert [(r.name, r.version, r.start, r.end) for r in resolved_references] == [
        (TableName(("a", "b")), None, 14, 17),
        (TableName(("c",)), 2, 19, 36),
        (TableName(("a", "b")), None, 63, 68),
    ]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a = 1 and b.from = 'select x from y'", "a = 1 and b.from = 'select x from y'"),
        ("extract(year from d) = 2024", "extract(year from d) = 2024"),
        ("a is distinct from b", "a is distinct from b"),
        ("a in (select a from t)", "a in (select a from <t> AS `t`)"),
        (
            "exists (with c as (select * from t) select * from c, s.u)",
            "exists (with c as (select * from <t> AS `t`) select * from c, <s.u> AS `u`)",
        ),
        ("(select max(s.t.a) from s.t version as of 1) > 3", "(select max(t.a) from <s.t@1> AS `t`) > 3"),
        ("a in (table t)", "a in (table <t>)"),
        ("struct(select, from)", "struct(select, from)"),
        ("-- from\n a = 1", "-- from\n a = 1"),
    ],
)
def test_only_subqueries_of_an_expression_read_tables(text: str, bound: str) -> None:
    assert bind_expression(text, resolve) == bound


def test_an_expression_without_a_subquery_is_unchanged() -> None:
    text = "a = 'x"
    assert bind_expression(text, resolve) is text


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("analytics.updates", "<analytics.updates> AS `updates`"),
        ("u version as of 3", "<u@3> AS `u`"),
        ("u tablesample (1 rows)", "<u> tablesample (1 rows) AS `u`"),
        ("u tablesample bernoulli (1 percent)", "<u> tablesample bernoulli (1 percent) AS `u`"),
        ("t join u exact nearest 1 by distance t.a", "<t> AS `t` join <u> AS `u` exact nearest 1 by distance t.a"),
        ("u x", "<u> x"),
        ("(select * from u)", "(select * from <u> AS `u`)"),
        ("(a join s.b)", "(<a> AS `a` join <s.b> AS `b`)"),
        ("a join s.b on a.id = s.b.id", "<a> AS `a` join <s.b> AS `b` on a.id = b.id"),
        ("values (1, 2), (3, 4)", "values (1, 2), (3, 4)"),
        ("values ((select a from t), 2)", "values ((select a from <t> AS `t`), 2)"),
        ("table_changes('t', 1)", "<table_changes('t'; 1)> AS `table_changes`"),
        ("lateral (select * from u)", "lateral (select * from <u> AS `u`)"),
        ("foreign.t", "foreign.t"),
        ("", ""),
    ],
)
def test_a_relation_is_bound(text: str, bound: str) -> None:
    assert bind(f"select * from {text}", resolve) == f"select * from {bound}"


def test_deep_parentheses_are_bound_and_deep_queries_rejected() -> None:
    depth = 2_000
    assert bind(f"select {'(' * depth}a{')' * depth} from t", resolve).endswith(" from <t> AS `t`")
    with pytest.raises(UnsupportedStatement, match="nested more than 100 levels deep"):
        bind(f"select * from {'(select * from ' * depth}t{')' * depth}", resolve)


def test_a_long_query_is_bound() -> None:
    rows = ", ".join(f"({number}, 'row {number}', cast(null as string))" for number in range(20_000))
    began = process_time()
    assert bind(f"select * from (values {rows}) v join t", resolve).endswith(") v join <t> AS `t`")
    assert process_time() - began < 10
