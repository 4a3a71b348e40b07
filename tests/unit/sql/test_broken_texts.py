"""Any input results in a command, in bound SQL, or in a StatementError with a position in the input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import given, settings, strategies as st

from rowmerge.errors import StatementError
from rowmerge.sql import TableReference, bind, bind_expression, parse, references
from rowmerge.sql.lexing.lexer import tokenize
from tests.support.suites import examples
from tests.unit.sql import printed

CASES = printed.cases(
    "merge.sql",
    "rows.sql",
    "tables.sql",
    "schemas_and_views.sql",
    "alter.sql",
    "describe.sql",
    "queries.sql",
    "names_and_literals.sql",
    "binding.sql",
)
LEXABLE = [case for case in CASES if "not closed" not in case.claim and "takes any text" not in case.claim]
CUT = LEXABLE[:: examples(gate=4, full=1)]
TEXTS = [case.text for case in CASES]
WORDS = sorted({text for case in CASES if "not closed" not in case.claim for text in case.text.split()} | set("()[]<>,.;'\"`"))


def problem_of(reader: Callable[[str], object], text: str) -> StatementError | None:
    try:
        reader(text)
    except StatementError as problem:
        return problem
    return None


def check(text: str) -> None:
    lines = text.split("\n")
    for reader in (parse, references, partial(bind, resolve_table=bound)):
        problem = problem_of(reader, text)
        if problem is not None:
            assert problem.text == text
            assert 1 <= problem.line <= len(lines)
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1


def bound(reference: TableReference) -> str:
    return "`v`"


def test_statements_truncated_after_any_token_parse_or_raise() -> None:
    for case in CUT:
        for token in tokenize(case.text):
            check(case.text[: token.start])
            check(case.text[token.start :])


def test_statements_without_one_token_parse_or_raise() -> None:
    for case in CUT:
        for token in tokenize(case.text):
            check(case.text[: token.start] + case.text[token.end :])


@settings(max_examples=examples(gate=100, full=300), deadline=None)
@given(st.sampled_from(TEXTS), st.integers(0, 400), st.integers(0, 400))
def test_statements_truncated_at_any_character_parse_or_raise(text: str, start: int, end: int) -> None:
    check(text[:end])
    check(text[start:])
    check(text[:start] + text[end:])


@settings(max_examples=examples(gate=100, full=300), deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_shuffled_statements_parse_or_raise(words: list[str]) -> None:
    check(" ".join(words))
    for verb in ("merge into t using", "create table t (", "insert into t", "select * from", "alter table t", "with a as ("):
        check(f"{verb} {' '.join(words)}")


@settings(max_examples=examples(gate=70, full=200), deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=15))
def test_random_expressions_parse_or_raise(words: list[str]) -> None:
    text = " ".join(words)
    problem = problem_of(partial(bind_expression, resolve_table=bound), text)
    assert problem is None or problem.text == text
