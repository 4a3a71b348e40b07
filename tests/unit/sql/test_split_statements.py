"""SQL text with several statements is split at its semicolons."""

from __future__ import annotations

from rowmerge import split_statements


def split(text: str) -> list[str]:
    return list(split_statements(text))


def test_statements_end_at_semicolons() -> None:
    assert split("set a = 1; select 2;") == ["set a = 1", " select 2"]


def test_semicolons_in_strings_names_and_comments_do_not_split() -> None:
    text = "select ';', \";\", 'it\\';s', `a;``;b` -- ; here\n/* ; and ; here */ from t"
    assert split(text) == [text]


def test_pieces_with_only_comments_are_not_statements() -> None:
    assert split("-- nothing\n;/* no */; ") == []


def test_a_statement_keeps_its_line_number() -> None:
    assert split("set a = 1;\n\nselect x") == ["set a = 1", "\n\nselect x"]
    assert split("set\na = 1;select\nx; select y")[1:] == ["\nselect\nx", "\n\n select y"]


def test_quotes_in_comments_start_no_string() -> None:
    assert split("-- it's\nselect 1; select 2") == ["-- it's\nselect 1", "\n select 2"]


def test_a_backslash_at_the_end_of_a_raw_string_is_no_escape() -> None:
    assert split("select r'\\'; select R\"\\\", 'a;b'; select bar'\\';'") == ["select r'\\'", " select R\"\\\", 'a;b'", " select bar'\\';'"]


def test_comments_nest() -> None:
    assert split("select /* a /* ; */ ; */ 1; /* /* */ ; */; select 2") == ["select /* a /* ; */ ; */ 1", " select 2"]
    assert split("select 1; /* never closed ; select 2") == ["select 1"]


def test_the_body_of_a_function_is_not_split() -> None:
    body = "create function f() returns int as $$ a; 'b $$"
    assert split(f"{body}; select 1") == [body, " select 1"]
    assert split("select $py$ ; $$ ; $py$; select 2") == ["select $py$ ; $$ ; $py$", " select 2"]
