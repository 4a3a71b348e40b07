"""The steps of lexing and parsing grow linearly with the text, and too deep nesting is rejected."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from rowmerge import split_statements
from rowmerge.errors import StatementError, UnsupportedStatement
from rowmerge.sql import bind, bind_expression, find_defaults, idempotency_key, parse, references
from rowmerge.sql.lexing.lexer import Tokens, tokenize
from rowmerge.sql.queries.relations import DEEPEST

ODD_TEXTS: dict[str, Callable[[int], str]] = {
    "a word of digits": lambda n: "1" * n + "x",
    "a fraction of digits": lambda n: "1." + "1" * n + "x",
    "an exponent of digits": lambda n: "1e" + "1" * n + "x",
    "numbers and points": lambda n: "1." * (n // 2) + "x",
    "tags that close each other": lambda n: "$a" * (n // 2),
    "tags that are not closed": lambda n: "".join(f"$a{at}$ " for at in range(n // 8)),
    "a tag that is not closed": lambda n: "$" + "a" * n,
    "doubled quotes, closed": lambda n: "'" + "''" * (n // 2) + "'",
    "doubled quotes, not closed": lambda n: "'" + "''" * (n // 2),
    "escaped quotes, not closed": lambda n: "'" + "\\'" * (n // 2),
    "double quotes, not closed": lambda n: '"' + '""' * (n // 2),
    "backquotes, not closed": lambda n: "`" + "``" * (n // 2),
    "raw strings": lambda n: "r'" + "\\" * n,
    "parentheses": lambda n: "(" * n,
    "closed parentheses": lambda n: "(" * (n // 2) + ")" * (n // 2),
    "brackets of all kinds": lambda n: "([{" * (n // 3),
    "comments, not closed": lambda n: "/*" * (n // 2),
    "nested comments": lambda n: "/*" * (n // 4) + "*/" * (n // 4),
    "comments one after the other": lambda n: "/**/" * (n // 4) + "x",
    "lines of comment": lambda n: "--\n" * (n // 3) + "x",
    "a comment of backslashes": lambda n: "--" + "\\" * n,
    "hints": lambda n: "/*+" * (n // 3),
    "hints in a wrong place": lambda n: "/*a*/" * (n // 5) + "select 1, /*+ IDEMPOTENCY_KEY('k') */ 2",
    "blanks before a hint": lambda n: "-- " + " " * n + "\nselect 1, /*+ IDEMPOTENCY_KEY('k') */ 2",
    "space": lambda n: " " * n + "x",
    "a long word": lambda n: "a" * n,
    "words": lambda n: "a " * (n // 2),
    "a dotted name": lambda n: "a." * (n // 2) + "a",
    "stars": lambda n: "a.*," * (n // 4),
    "signs": lambda n: "-+" * (n // 2) + "1",
    "negations": lambda n: "not " * (n // 4) + "x",
    "semicolons": lambda n: ";" * n,
    "angles": lambda n: "cast(a as " + "array<" * (n // 6),
    "cases": lambda n: "case when " * (n // 10),
    "a list of values": lambda n: "insert into t values " + ", ".join("(1, 'abc', null)" for _ in range(n // 18)),
    "a list of defaults": lambda n: "insert into t values " + ", ".join("(default, 1)" for _ in range(n // 14)),
    "an IN list": lambda n: "delete from t where id in (" + ", ".join(map(str, range(n // 7))) + ")",
    "calls": lambda n: "select " + "f(a), " * (n // 6) + "1",
    "nested calls": lambda n: "select " + "f(" * (n // 3) + "1" + ")" * (n // 3),
    "joins": lambda n: "select * from a.b.c" + " join t using (id)" * (n // 18),
    "names of WITH": lambda n: "with " + ", ".join(f"a{at} as (select 1)" for at in range(n // 22)) + " select * from t",
    "assignments": lambda n: "update t set " + ", ".join(f"a{at} = 1" for at in range(n // 12)),
    "clauses of MERGE": lambda n: "merge into t using s on t.a = s.a" + " when matched and t.a = 1 then delete" * (n // 37),
    "subqueries side by side": lambda n: "select * from t where a in " + " or a in ".join("(select b from s)" for _ in range(n // 27)),
}


def bound(text: str) -> str:
    return bind(text, lambda reference: "`v`", lambda name: None)


def statements_of(text: str) -> list[str]:
    return list(split_statements(text))


def read(text: str, *steps: Callable[[str], object]) -> None:
    """Process a statement as before Spark receives it. Invalid SQL can be rejected."""
    for step in steps or (tokenize, parse, references, bound, bind_expression_alone, idempotency_key, find_defaults, statements_of):
        with suppress(StatementError):
            step(text)


def bind_expression_alone(text: str) -> str:
    return bind_expression(text, lambda reference: None)


def steps_of(function: Callable[[str], object], text: str) -> int:
    """Return the number of calls of Python and C functions."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        function(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_twice_the_text_takes_at_most_twice_the_steps(text: str) -> None:
    """Steps inside one call of a regular expression do not count here; the next test covers them."""
    single, double = (steps_of(read, ODD_TEXTS[text](size)) for size in (4_000, 8_000))
    assert double <= 2.2 * single + 2_000


REGULAR = [name for name in ODD_TEXTS if any(word in name for word in ("digits", "tag", "quotes", "comment", "hint", "word", "raw"))]


def test_long_texts_are_lexed() -> None:
    """A pattern that backtracks over the text would take a quarter of an hour or more."""
    script = f"""
from tests.unit.sql.test_linear_time import ODD_TEXTS, bind_expression_alone, idempotency_key, read, statements_of, tokenize
for name in {REGULAR}:
    read(ODD_TEXTS[name](400_000), tokenize, idempotency_key, statements_of, bind_expression_alone)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=900)


# ------------------------------------------------------------------ depth


NESTED: dict[str, tuple[str, str, str]] = {
    "parentheses": ("(", "1", ")"),
    "cases": ("case when a = 1 then ", "1", " else 0 end"),
    "negations": ("not ", "a", ""),
    "signs": ("- ", "1", ""),
    "arrays": ("array(", "1", ")"),
    "structs": ("struct(", "1", ")"),
    "subscripts": ("a[", "1", "]"),
    "types": ("cast(null as array<", "int", ">)"),
    "sums": ("1 + ", "1", ""),
    "conjunctions": ("a = 1 and ", "a = 1", ""),
    "dots": ("a.", "a", ""),
}


def statements(value: str) -> Iterator[str]:
    yield f"select {value} from t"
    yield f"delete from t where {value}"
    yield f"update t set a = {value}"
    yield f"insert into t select {value}"
    yield f"merge into t using s on {value} when matched then update set a = {value}"
    yield f"create table u (a int default {value}) using delta"


def test_comments_can_be_nested_deeply() -> None:
    comment = "/* " * 10_000 + "*/ " * 10_000
    assert parse(f"delete from t where {comment} a = 1 {comment}") == parse("delete from t where" + " " * (len(comment) + 2) + "a = 1")


@pytest.mark.parametrize("name", NESTED)
def test_expressions_can_be_nested_as_deeply_as_in_spark(name: str) -> None:
    opening, inner, closing = NESTED[name]
    value = opening * 10_000 + inner + closing * 10_000
    for text in statements(value):
        parse(text)
        assert value in bind(text, lambda reference: "`v`")


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("select * from (", ")"),
        ("select (", ")"),
        ("select * from t where a in (", ")"),
        ("with a as (", ") select 1"),
        ("select f((((", "))))"),
    ],
)
def test_queries_can_be_nested_up_to_a_documented_depth(opening: str, closing: str) -> None:
    def nested(depth: int) -> str:
        return opening * depth + "select a from t" + closing * depth

    assert "`v`" in bind(nested(DEEPEST - 1), lambda reference: "`v`")
    with pytest.raises(UnsupportedStatement, match=f"nested more than {DEEPEST} levels deep"):
        bind(nested(DEEPEST + 1), lambda reference: "`v`")


def test_parenthesized_relations_can_be_nested_up_to_a_documented_depth() -> None:
    def nested(depth: int) -> str:
        return "select * from " + "(" * depth + "t" + " join t using (a))" * depth

    assert bind(nested(DEEPEST - 1), lambda reference: "`v`").count("`v`") == DEEPEST
    with pytest.raises(UnsupportedStatement, match=f"nested more than {DEEPEST} levels deep"):
        bind(nested(DEEPEST), lambda reference: "`v`")


def test_an_error_message_shortens_a_long_line() -> None:
    with pytest.raises(StatementError) as raised:
        parse("delete from t where " + "a = 1 and " * 10_000 + "'")
    assert len(str(raised.value)) < 500
    assert str(raised.value).endswith("^")


def test_tokens_reproduce_the_text() -> None:
    tokens = tokenize("select 'a' -- b\n from `c`;")
    assert isinstance(tokens, Tokens)
    assert [token.text for token in tokens] == ["select", "'a'", "from", "`c`", ";", ""]
    assert [token.text for token in tokens[1:3]] == ["'a'", "from"]
    assert [token.text for token in tokens.without_semicolons()] == ["select", "'a'", "from", "`c`", ""]
    assert tokens.place(tokens.starts[2]) == (2, 2)
