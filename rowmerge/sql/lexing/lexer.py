"""Spark SQL text cut into tokens that know their place in the text.

The lexer follows Spark's grammar. sqlglot's tokenizer and trees differ from Spark where the engine searches for names: hints, `TABLE t`,
SHOW, EXPLAIN and `'it''s'`. Only `rowmerge.plan` uses sqlglot, for conditions. A condition that sqlglot cannot parse prunes no file.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import overload

from rowmerge.errors import Unparsable

CLOSING = {"(": ")", "[": "]", "{": "}"}
HINT = "/*+"
"""How a hint begins."""


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


class Tokens(Sequence[Token]):
    """The tokens of a text without space, comments and hints, an END token last.

    `keys`, `kinds`, `starts` and `ends` have an item for each token. A Token is made when somebody asks for it: Python's garbage collector
    visits objects again and again, and lists of texts and numbers once.
    """

    def __init__(self, text: str, keys: list[str], kinds: list[Kind], starts: list[int], ends: list[int]) -> None:
        """Take the tokens before END."""
        end = ends[-1] if ends else len(text)
        self.text = text
        self.keys, self.kinds, self.starts, self.ends = [*keys, ""], [*kinds, Kind.END], [*starts, end], [*ends, end]

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, at: int) -> Token: ...

    @overload
    def __getitem__(self, at: slice) -> list[Token]: ...

    def __getitem__(self, at: int | slice) -> Token | list[Token]:
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(len(self)))]
        start, end = self.starts[at], self.ends[at]
        return Token(self.kinds[at], self.text[start:end], start, end, self.keys[at])

    def __iter__(self) -> Iterator[Token]:
        return map(self.__getitem__, range(len(self)))

    def is_name(self, at: int) -> bool:
        """Whether a token is an identifier."""
        return self.kinds[at] is Kind.WORD or self.kinds[at] is Kind.QUOTED

    def between(self, first: int, last: int) -> Tokens:
        """The tokens from `first` up to, not including, `last`, and an END token after them."""
        return Tokens(self.text, self.keys[first:last], self.kinds[first:last], self.starts[first:last], self.ends[first:last])

    def without_semicolons(self) -> Tokens:
        """The tokens before the semicolons at the end."""
        last = len(self) - 1
        while last and self.keys[last - 1] == ";":
            last -= 1
        return self.between(0, last)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect_left(self._line_feeds, offset)
        return line + 1, offset - (self._line_feeds[line - 1] if line else -1)

    @cached_property
    def _line_feeds(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    @cached_property
    def closings(self) -> dict[int, int]:
        """For each opening bracket the index of its closing one; of the END token where there is none."""
        closing: dict[int, int] = {}
        opened: list[int] = []
        for at, key in enumerate(self.keys):
            if key in CLOSING:
                opened.append(at)
            elif opened and key == CLOSING[self.keys[opened[-1]]]:
                closing[opened.pop()] = at
        return closing | dict.fromkeys(opened, len(self) - 1)

    @cached_property
    def after_parentheses(self) -> list[int]:
        """For each token the index of the first one from there on that is no opening parenthesis."""
        after = list(range(len(self)))
        for at in range(len(self) - 2, -1, -1):
            if self.keys[at] == "(":
                after[at] = after[at + 1]
        return after


_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\r\n\\]*(?:\\\n?[^\r\n\\]*)*)
    | (?P<bracketed>/\*)
    | (?P<string>[rR]'[^']*' | [rR]"[^"]*"
        | '[^'\\]*(?:(?:\\.|'')[^'\\]*)*' | "[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
    | (?P<dollars>\$\w*\$)
    | (?P<quoted>`[^`]*(?:``[^`]*)*`)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?(?:bd|[lsyfd])?(?!\w))
    | (?P<word>\w+)
    | (?P<unclosed>['"`])
    | (?P<symbol><=>|<>|<=|>=|==|!=|\|\||\|>|::|->|=>|:=|.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""An alternative looks at no character more than a few times, and none that fails is followed by a short token again and again."""
_KINDS: dict[str | None, Kind] = {kind.value: kind for kind in Kind}
_BRACKET = re.compile(r"/\*|\*/")
_NAMES = {"'": "string", '"': "string", "$": "string", "`": "quoted name", "/": "comment"}


def tokenize(text: str) -> Tokens:
    """Cut a text into tokens.

    Follows Spark's lexer (SqlBaseLexer.g4): bracketed comments nest, names may begin with a digit, `'it''s'` is one string, and so is all
    between `$$` and `$$`, or `$tag$` and `$tag$`.
    `<` and `>` always stand alone so that types nest. Raises Unparsable where a string, a quoted name or a comment is not closed.
    """
    tokens, unclosed = _lex(text)
    if unclosed is not None:
        raise _not_closed(text, unclosed)
    return tokens


def split_statements(text: str) -> Iterator[str]:
    """Cut a text of several statements at its semicolons, and leave out pieces of nothing but space and comments.

    Each statement keeps its line number: it begins with as many line feeds as stood before it. A string or a quoted name that is not
    closed is part of the last statement.
    """
    tokens, unclosed = _lex(text)
    last = len(tokens) - 1
    start = first = line_feeds = 0
    for end in [*(at for at, key in enumerate(tokens.keys) if key == ";"), last]:
        stop = len(text) if end == last else tokens.starts[end]
        if end > first or (end == last and unclosed is not None and text[unclosed] != "/"):
            yield "\n" * line_feeds + text[start:stop]
        line_feeds += text.count("\n", start, stop)
        start, first = stop + 1, end + 1


def first_word(text: str) -> str:
    """The first word of `text` in upper case, empty where it begins with anything else; looks no further than that."""
    match = _TOKEN.match(text, after_space(text))
    return match.group().upper() if match is not None and match.lastgroup == "word" else ""


def after_space(text: str, at: int = 0, *, over_hints: bool = True) -> int:
    """The offset of what follows the space and the comments at an offset. Raises Unparsable for a comment that is not closed."""
    while match := _TOKEN.match(text, at):
        if match.lastgroup == "bracketed" and (over_hints or not text.startswith(HINT, at)):
            if (end := _comment_end(text, at)) is None:
                raise _not_closed(text, at)
            at = end
        elif match.lastgroup in ("space", "comment"):
            at = match.end()
        else:
            break
    return at


def _lex(text: str) -> tuple[Tokens, int | None]:
    """The tokens of a text, and where a string, a quoted name or a comment begins that is not closed: nothing is read from there on."""
    keys: list[str] = []
    kinds: list[Kind] = []
    starts: list[int] = []
    ends: list[int] = []
    at, size, match_at = 0, len(text), _TOKEN.match
    while at < size:
        match = match_at(text, at)
        assert match is not None, "the last alternative takes any character"
        group, end, key = match.lastgroup, match.end(), ""
        if group == "symbol":
            key = match.group()
        elif group == "word":
            key = match.group().upper()
        elif group == "space" or group == "comment":
            at = end
            continue
        elif group == "bracketed" or group == "dollars" or group == "unclosed":
            close = _comment_end(text, at) if group == "bracketed" else _dollars_end(text, match)
            if close is None:
                return Tokens(text, keys, kinds, starts, ends), at
            if group == "bracketed":
                at = close
                continue
            group, end = "string", close
        keys.append(key)
        kinds.append(_KINDS[group])
        starts.append(at)
        ends.append(end)
        at = end
    return Tokens(text, keys, kinds, starts, ends), None


def _comment_end(text: str, start: int) -> int | None:
    """The offset behind a bracketed comment, None if it is not closed."""
    depth = 1
    for bracket in _BRACKET.finditer(text, start + 2):
        depth += 1 if bracket.group() == "/*" else -1
        if not depth:
            return bracket.end()
    return None


def _dollars_end(text: str, tag: re.Match[str]) -> int | None:
    """The offset behind the string that begins with a tag like `$$` or `$a$`, None if it is not closed."""
    close = text.find(tag.group(), tag.end()) if tag.lastgroup == "dollars" else -1
    return None if close < 0 else close + len(tag.group())


def _not_closed(text: str, at: int) -> Unparsable:
    line, column = position(text, at)
    tag = _TOKEN.match(text, at)
    closing = "*/" if text[at] == "/" else tag.group() if tag and tag.lastgroup == "dollars" else text[at]
    reason = f"The {_NAMES[text[at]]} that begins here is not closed. Close it with {closing}"
    return Unparsable(reason, text=text, line=line, column=column)


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


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
