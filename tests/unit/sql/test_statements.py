"""The fixtures of statements: each results in the printed command, or in the error at its line and column."""

from __future__ import annotations

from time import process_time

import pytest

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Delete, Insert
from rowmerge.errors import StatementError, Unparsable
from rowmerge.sql import parse
from tests.unit.sql import printed

CASES = printed.cases(
    "merge.sql",
    "rows.sql",
    "tables.sql",
    "schemas_and_views.sql",
    "alter.sql",
    "partitioning.sql",
    "describe.sql",
    "functions.sql",
    "maintenance.sql",
    "procedures.sql",
    "snapshot_references.sql",
    "queries.sql",
    "names_and_literals.sql",
)
COMPLETE = [case for case in CASES if not case.expected.startswith(("Query", "!> "))]


def outcome(text: str) -> str:
    try:
        return printed.command(parse(text))
    except StatementError as problem:
        return printed.error(problem)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_a_statement_becomes_its_command(case: printed.Case) -> None:
    assert outcome(case.text) == case.expected


@pytest.mark.parametrize("case", COMPLETE, ids=lambda case: case.claim)
def test_trailing_semicolons_space_and_comments_are_ignored(case: printed.Case) -> None:
    assert outcome(f"{case.text}\n ;\n-- done\n; /* really */") == case.expected


def test_an_error_shows_the_line_and_marks_the_position() -> None:
    with pytest.raises(Unparsable) as caught:
        parse("merge into t\nusing s oh t.id = s.id")
    assert caught.value.text == "merge into t\nusing s oh t.id = s.id"
    assert str(caught.value) == "Expected ON, found `t` (line 2, column 12)\n  using s oh t.id = s.id\n             ^"


def test_the_marker_is_below_the_position_after_tabs_and_line_ends() -> None:
    with pytest.raises(Unparsable) as caught:
        parse("delete from t -- \u2028\x0b\r\n\twhere\r\n")
    assert str(caught.value).split("\n")[1:] == ["  \twhere", "  \t     ^"]


def test_line_ends_of_windows_count_once() -> None:
    with pytest.raises(Unparsable) as caught:
        parse("update t\r\nset a = 1\r\nwhere\r\n")
    assert (caught.value.line, caught.value.column) == (3, 6)


def test_unicode_spaces_separate_words() -> None:
    assert parse("delete\u00a0from\u3000t where\u2003a") == Delete(TableName(("t",)), None, SqlText("a", 1, 21))


@pytest.mark.parametrize("text", ["", " \n\t", "/* a */", "-- a", ";"])
def test_sql_text_without_a_statement_is_rejected(text: str) -> None:
    with pytest.raises(Unparsable, match="The text contains no statement"):
        parse(text)


def test_a_long_statement_is_parsed() -> None:
    rows = ", ".join(f"({number}, 'row {number}', cast(null as string))" for number in range(20_000))
    began = process_time()
    command = parse(f"insert into t values {rows}")
    assert isinstance(command, Insert) and command.query.text.endswith("(19999, 'row 19999', cast(null as string))")
    assert process_time() - began < 10


def test_deep_nesting_is_parsed() -> None:
    depth = 2_000
    command = parse(f"delete from t where {'(' * depth}a{')' * depth}")
    assert isinstance(command, Delete) and command.condition is not None and len(command.condition.text) == 2 * depth + 1
