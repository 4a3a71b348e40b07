"""The idempotency key in a statement's hint."""

from __future__ import annotations

import pytest

from rowmerge.errors import Unparsable
from rowmerge.sql import idempotency_key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("insert /*+ IDEMPOTENCY_KEY('a b') */ into t values (1)", "a b"),
        ("  -- why\n /* what */ merge\n/*+ idempotency_key ( 'it''s' , 7 ) */ into t", ("it's", 7)),
        ('/*+ Idempotency_Key("k") */ delete from t', "k"),
        ("update /*+ other(1), idempotency_key('k') */ t set a = 1", "k"),
        ("select /*+ broadcast(t) */ * from t", None),
        ("insert into t values ('idempotency_key')", None),
        ("insert /* idempotency_key('k') */ into t values (1)", None),
    ],
)
def test_a_key_is_parsed(text: str, key: object) -> None:
    assert idempotency_key(text) == key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("insert /*+ idempotency_key() */ into t values (1)", r"takes a string.*line 1, column 12"),
        ("insert /*+ idempotency_key(k) */ into t values (1)", "takes a string"),
        ("insert /*+ idempotency_key('k', 1.5) */ into t values (1)", "takes a string"),
        ("insert /*+ idempotency_key('k', 'l') */ into t values (1)", "takes a string"),
        ("insert into /*+ idempotency_key('k') */ t values (1)", r"after the first word.*line 1, column 13"),
    ],
)
def test_a_malformed_key_is_rejected(text: str, message: str) -> None:
    with pytest.raises(Unparsable, match=message):
        idempotency_key(text)


def test_long_whitespace_is_parsed_in_linear_time() -> None:
    assert idempotency_key(" " * 100_000 + "x /*+ idempotency_key('k') */") == "k"
    with pytest.raises(Unparsable):
        idempotency_key(" " * 20_000 + "( /*+ idempotency_key('k') */")
