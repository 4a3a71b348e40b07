"""An independent parser reads the same queries: sqlglot's trees contain the same tables at the same positions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlglot
from sqlglot import exp

from rowmerge.sql import references
from tests.unit.sql import printed

UNREADABLE = (
    "set operations, each side with its own tables",  # TABLE as a query
    "TABLE takes no alias",
    "pipes",
    "values without parentheses",
    "tables as arguments of table functions",
    "options stand before the alias",
    "VERSION AS OF goes with the name",  # SYSTEM_VERSION
    "Delta's at sign",
    "several inserts from one table",
    "what Spark would not understand is left to Spark",
)
"""Claims of fixtures/binding.sql whose Spark SQL sqlglot does not read."""


def tables(node: exp.Expression, names: frozenset[str] = frozenset()) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Return offset and name of each table in a tree, except for names of WITH lists."""
    with_ = node.args.get("with_")
    for cte in with_.expressions if with_ else ():
        inside = names | {cte.alias.lower()} if with_.args.get("recursive") else names
        yield from tables(cte.this, inside)
        names = names | {cte.alias.lower()}
    is_named = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
    if is_named and (len(node.parts) > 1 or node.name.lower() not in names):
        yield node.parts[0].meta["start"], tuple(part.name for part in node.parts)
    for key, children in node.args.items():
        if key not in ("with_", "hint"):
            for child in children if isinstance(children, list) else [children]:
                if isinstance(child, exp.Expression):
                    yield from tables(child, names)


QUERIES = [
    case
    for case in printed.cases("binding.sql")
    if case.text.lower().startswith(("select", "with", "table", "from")) and not case.expected.startswith("!>")
    if not case.claim.endswith(UNREADABLE) and "delete" not in case.text
]


@pytest.mark.parametrize("case", QUERIES, ids=lambda case: case.claim)
def test_sqlglot_reports_the_same_tables(case: printed.Case) -> None:
    our_tables = sorted((reference.start, reference.name.parts) for reference in references(case.text) if reference.changes is None)
    assert sorted(tables(sqlglot.parse_one(case.text, dialect="spark"))) == our_tables
