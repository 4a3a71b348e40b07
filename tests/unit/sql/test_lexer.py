"""Tokens: their positions and values, and that all text between them is whitespace and comments."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rowmerge.errors import Unparsable
from rowmerge.sql.lexing.lexer import Kind, first_word, position, string_value, tokenize


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind.value, token.text) for token in tokenize(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a.1b.`c``d`", [("word", "a"), ("symbol", "."), ("word", "1b"), ("symbol", "."), ("quoted", "`c``d`")]),
        ("1 1L .5 1.5e-3BD 2e5f 1.", [("number", text) for text in ("1", "1L", ".5", "1.5e-3BD", "2e5f", "1.")]),
        ("1a 2_3", [("word", "1a"), ("word", "2_3")]),
        ("'it''s' 'a\\'b' \"c\"\"d\"", [("string", "'it''s'"), ("string", "'a\\'b'"), ("string", '"c""d"')]),
        ("r'a\\' R\"b\" bar'c'", [("string", "r'a\\'"), ("string", 'R"b"'), ("word", "bar"), ("string", "'c'")]),
        ("a<=>b>>c<>d!=e==f||g::h->i=>j|>k", None),
        (
            "array<map<a,b>>",
            [("word", "array"), ("symbol", "<"), ("word", "map"), ("symbol", "<"), ("word", "a"), ("symbol", ","), ("word", "b")]
            + [("symbol", ">")] * 2,
        ),
        ("a -- 'b\n/* c /* d */ e */f /*+ hint(g) */ h", [("word", "a"), ("word", "f"), ("word", "h")]),
        ("-- a \\\nb\nc", [("word", "c")]),
        ("a--b", [("word", "a")]),
        ("größe 名前 é_1", [("word", "größe"), ("word", "名前"), ("word", "é_1")]),
    ],
)
def test_tokens_equal_those_of_spark(text: str, tokens: list[tuple[str, str]] | None) -> None:
    token_kinds = kinds(text)
    if tokens is None:
        tokens = [
            ("symbol" if not part.isalnum() else "word", part) for part in "a <=> b > > c <> d != e == f || g :: h -> i => j |> k".split()
        ]
    assert token_kinds == tokens


@given(st.text(alphabet="ab1_ .'\"`\\-/*\n;(,)<>=é😀", max_size=40))
def test_tokens_are_in_order_with_only_space_and_comments_between(text: str) -> None:
    try:
        tokens = tokenize(text)
    except Unparsable:
        return
    at = 0
    for token in tokens:
        assert at <= token.start <= token.end
        assert text[token.start : token.end] == token.text
        between = text[at : token.start].strip()
        assert not between or between.startswith(("--", "/*"))
        at = token.end
    assert tokens[-1].kind is Kind.END


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it''s'", "it's"),
        ("\"it''s\"", "it''s"),
        ("'a\"\"b'", 'a""b'),
        (r"'\n\t\r\b\0\Z\\'", "\n\t\r\b\0\x1a\\"),
        (r"'100\% \_x'", r"100\% \_x"),
        (r"'\q\''", "q'"),
        (r"'\101\u00e9\U0001F600'", "Aé😀"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'\ud83d'", "\ufffd"),
        (r"'\uZZZZ\8'", "uZZZZ8"),
        (r"r'\n'", r"\n"),
        ("''", ""),
    ],
)
def test_string_literals_have_the_value_of_spark(literal: str, value: str) -> None:
    assert string_value(literal) == value


@pytest.mark.parametrize(
    ("text", "word"),
    [("/* a */ -- b\n Select", "SELECT"), ("(select", ""), ("", ""), ("set x = '", "SET"), ("/* a", None)],
)
def test_the_first_word_is_read_without_lexing_the_rest(text: str, word: str | None) -> None:
    if word is None:
        with pytest.raises(Unparsable):
            first_word(text)
    else:
        assert first_word(text) == word


def test_lines_and_columns_count_characters_from_one() -> None:
    text = "é😀\n\tx"
    assert [position(text, at) for at in range(5)] == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]
