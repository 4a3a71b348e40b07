"""Spark SQL text cut into tokens that know their place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from rowmerge.errors import Unparsable


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    """An identifier or keyword without quotes; almost every keyword of Spark is a legal name."""
    QUOTED = "quoted"
    """A name in backquotes."""
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `text` as written at `start` (first character) to `end` (one past the last).

    `key` is what grammar rules compare: the text of a symbol, the upper-case text of a word, else empty.
    """

    kind: Kind
    text: str
    start: int
    end: int
    key: str = ""

    @property
    def is_name(self) -> bool:
        return self.kind is Kind.WORD or self.kind is Kind.QUOTED

    @property
    def name(self) -> str:
        """The identifier that this token means."""
        return self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED else self.text


_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--(?:\\\n|[^\r\n])*)
    | (?P<bracketed>/\*)
    | (?P<string>[rR]'[^']*' | [rR]"[^"]*"
        | '[^'\\]*(?:(?:\\.|'')[^'\\]*)*' | "[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
    | (?P<dollars>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    | (?P<quoted>`[^`]*(?:``[^`]*)*`)
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?:bd|[lsyfd])?(?!\w))
    | (?P<word>\w+)
    | (?P<symbol><=>|<>|<=|>=|==|!=|\|\||\|>|::|->|=>|:=|.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_BRACKET = re.compile(r"/\*|\*/")
_UNCLOSED = {"'": "string", '"': "string", "`": "quoted name"}


def tokenize(text: str) -> list[Token]:
    """The tokens of `text` without space, comments and hints, an END token last.

    Follows Spark's lexer (SqlBaseLexer.g4): bracketed comments nest, names may begin with a digit, `'it''s'` is one string, and so is all
    between `$$` and `$$`, or `$tag$` and `$tag$`.
    `<` and `>` always stand alone so that types nest. Raises Unparsable where a string, a quoted name or a comment is not closed.
    """
    tokens: list[Token] = []
    at, size, match = 0, len(text), _TOKEN.match
    while at < size:
        found = match(text, at)
        assert found is not None  # the last alternative takes any character
        group, end = found.lastgroup, found.end()
        if group == "word":
            word = found.group()
            tokens.append(Token(Kind.WORD, word, at, end, word.upper()))
        elif group == "symbol":
            symbol = found.group()
            if symbol in _UNCLOSED:
                _unclosed(text, at, _UNCLOSED[symbol])
            tokens.append(Token(Kind.SYMBOL, symbol, at, end, symbol))
        elif group == "bracketed":
            end = _comment_end(text, at)
        elif group == "dollars":
            tokens.append(Token(Kind.STRING, found.group(), at, end))
        elif group in ("string", "quoted", "number"):
            tokens.append(Token(Kind(group), found.group(), at, end))
        at = end
    last = tokens[-1].end if tokens else size
    tokens.append(Token(Kind.END, "", last, last))
    return tokens


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def first_word(text: str) -> str:
    """The first word of `text` in upper case, empty where it begins with anything else; looks no further than that."""
    at = 0
    while found := _TOKEN.match(text, at):
        if found.lastgroup == "bracketed":
            at = _comment_end(text, at)
        elif found.lastgroup in ("space", "comment"):
            at = found.end()
        else:
            return found.group().upper() if found.lastgroup == "word" else ""
    return ""


def string_value(literal: str) -> str:
    """What a string literal of Spark SQL means: escapes undone, `r'…'` and `$$…$$` taken as they are, a doubled quote is one."""
    if literal[0] == "$":
        tag = literal[: literal.index("$", 1) + 1]
        return literal[len(tag) : -len(tag)]
    if literal[0] in "rR":
        return literal[2:-1]
    quote, body = literal[0], literal[1:-1]
    if "\\" in body or quote in body:
        body = _ESCAPES[quote].sub(_unescape, body)
        body = body.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return body


_ESCAPES = {
    quote: re.compile(rf"\\u([0-9a-fA-F]{{4}})|\\U([0-9a-fA-F]{{8}})|\\([01][0-7]{{2}})|\\(.)|{quote}{quote}", re.DOTALL) for quote in "'\""
}
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unescape(match: re.Match[str]) -> str:
    four, eight, octal, plain = match.groups()
    if plain is not None:
        return _CONTROLS.get(plain, plain)
    if octal is not None:
        return chr(int(octal, 8))
    if four is None and eight is None:
        return match.group()[0]
    code = int(four or eight, 16)
    return chr(code) if code <= 0x10FFFF else "\ufffd"


def _comment_end(text: str, start: int) -> int:
    depth, at = 1, start + 2
    while depth:
        bracket = _BRACKET.search(text, at)
        if bracket is None:
            _unclosed(text, start, "comment")
        depth += 1 if bracket.group() == "/*" else -1
        at = bracket.end()
    return at


def _unclosed(text: str, at: int, what: str) -> NoReturn:
    line, column = position(text, at)
    closing = "*/" if what == "comment" else text[at]
    raise Unparsable(f"The {what} that begins here is not closed. Close it with {closing}", text=text, line=line, column=column)
