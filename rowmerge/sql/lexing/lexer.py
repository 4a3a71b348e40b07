"""Spark SQL text cut into tokens that know their place in the text.

sqlglot's tokenizer differs from Spark where the engine searches for names: hints, `TABLE t`, SHOW, EXPLAIN and `'it''s'`.
Only `rowmerge.plan` uses sqlglot, for conditions.
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

    `keys`, `kinds`, `starts` and `ends` have an item for each token. A Token is made only on access, to spare the garbage collector.
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

    def is_name(self, at: int) -> bool:
        """Return whether a token is an identifier."""
        return self.kinds[at] is Kind.WORD or self.kinds[at] is Kind.QUOTED

    def between(self, first: int, last: int) -> Tokens:
        """Return the tokens from `first` up to, not including, `last`, and an END token after them."""
        return Tokens(self.text, self.keys[first:last], self.kinds[first:last], self.starts[first:last], self.ends[first:last])

    def without_semicolons(self) -> Tokens:
        """Return the tokens before the semicolons at the end."""
        last = len(self) - 1
        while last and self.keys[last - 1] == ";":
            last -= 1
        return self.between(0, last)

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of a character, both from 1."""
        line = bisect_left(self._line_feeds, offset)
        return line + 1, offset - (self._line_feeds[line - 1] if line else -1)

    @cached_property
    def _line_feeds(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    @cached_property
    def closings(self) -> dict[int, int]:
        """Map the index of each opening bracket to that of its closing bracket, or to that of the END token if it is not closed."""
        closings: dict[int, int] = {}
        open_brackets: list[int] = []
        for index, key in enumerate(self.keys):
            if key in CLOSING:
                open_brackets.append(index)
            elif open_brackets and key == CLOSING[self.keys[open_brackets[-1]]]:
                closings[open_brackets.pop()] = index
        return closings | dict.fromkeys(open_brackets, len(self) - 1)

    @cached_property
    def after_parentheses(self) -> list[int]:
        """For each token, the index of the first token from there on that is no opening parenthesis."""
        after = list(range(len(self)))
        for index in range(len(self) - 2, -1, -1):
            if self.keys[index] == "(":
                after[index] = after[index + 1]
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
_KINDS: dict[str | None, Kind] = {**{kind.value: kind for kind in Kind}, "dollars": Kind.STRING}
_SPACE = frozenset(["space", "comment", "bracketed"])
_OPENING = frozenset(["bracketed", "dollars", "unclosed"])
"""Matches that are only the beginning of a comment or a string."""
_KEYED = frozenset(["symbol", "word"])
_BRACKET = re.compile(r"/\*|\*/")
_NAMES = {"'": "string", '"': "string", "$": "string", "`": "quoted name", "/": "comment"}


def tokenize(text: str) -> Tokens:
    """Cut a text into tokens, as Spark's lexer does (SqlBaseLexer.g4). Raise Unparsable for an unclosed string, quoted name or comment.

    Bracketed comments nest, names may begin with a digit, `'it''s'` is one string, and so is all between `$$` and `$$`, or `$tag$` and
    `$tag$`. `<` and `>` are always tokens of their own so that types nest.
    """
    tokens, unclosed_at = _lex(text)
    if unclosed_at is not None:
        raise _unclosed_error(text, unclosed_at)
    return tokens


def split_statements(text: str) -> Iterator[str]:
    """Split a text at its semicolons and yield the statements. Skip a statement that has only whitespace and comments.

    A statement begins with a line feed for each line before it, which keeps its line number. The last one may have an unclosed string.
    """
    tokens, unclosed_at = _lex(text)
    # An unclosed string or name gives no token, but belongs to a statement. An unclosed comment does not.
    has_unclosed_string = unclosed_at is not None and text[unclosed_at] != "/"
    end_token = len(tokens) - 1
    start = first_token = line_feeds = 0
    semicolons = [index for index, key in enumerate(tokens.keys) if key == ";"]
    for separator in [*semicolons, end_token]:
        is_last = separator == end_token
        end = len(text) if is_last else tokens.starts[separator]
        if separator > first_token or (is_last and has_unclosed_string):
            yield "\n" * line_feeds + text[start:end]
        line_feeds += text.count("\n", start, end)
        start, first_token = end + 1, separator + 1


def first_word(text: str) -> str:
    """Return the first word of `text` in upper case, or an empty text if it begins with anything else. Read no further than that."""
    match = _TOKEN.match(text, skip_space(text))
    return match.group().upper() if match is not None and match.lastgroup == "word" else ""


def skip_space(text: str, offset: int = 0, *, over_hints: bool = True) -> int:
    """Return the offset after the space and the comments at `offset`. Raises Unparsable for a comment that is not closed."""
    while match := _TOKEN.match(text, offset):
        is_hint = not over_hints and text.startswith(HINT, offset)
        if match.lastgroup not in _SPACE or is_hint:
            break
        end = _unit_end(text, match)
        if end is None:
            raise _unclosed_error(text, offset)
        offset = end
    return offset


def _lex(text: str) -> tuple[Tokens, int | None]:
    """Return the tokens of a text up to its end, or up to a string, a quoted name or a comment that is not closed, with its offset."""
    keys: list[str] = []
    kinds: list[Kind] = []
    starts: list[int] = []
    ends: list[int] = []
    offset, size, match_at = 0, len(text), _TOKEN.match
    while offset < size:
        match = match_at(text, offset)
        assert match is not None, "the last alternative takes any character"
        group = match.lastgroup
        end = _unit_end(text, match) if group in _OPENING else match.end()
        if end is None:
            return Tokens(text, keys, kinds, starts, ends), offset
        kind = _KINDS.get(group)
        if kind is not None:  # neither space nor a comment
            keys.append(match.group().upper() if group in _KEYED else "")
            kinds.append(kind)
            starts.append(offset)
            ends.append(end)
        offset = end
    return Tokens(text, keys, kinds, starts, ends), None


def _unit_end(text: str, match: re.Match[str]) -> int | None:
    """Return the offset after the token or comment that begins with a match, or None if it is not closed."""
    if match.lastgroup not in _OPENING:
        return match.end()
    if match.lastgroup == "bracketed":
        return _comment_end(text, match.start())
    closing_tag = text.find(match.group(), match.end()) if match.lastgroup == "dollars" else -1
    return None if closing_tag < 0 else closing_tag + len(match.group())


def _comment_end(text: str, start: int) -> int | None:
    """Return the offset after a bracketed comment, or None if it is not closed."""
    depth = 1
    for bracket in _BRACKET.finditer(text, start + 2):
        depth += 1 if bracket.group() == "/*" else -1
        if not depth:
            return bracket.end()
    return None


def _unclosed_error(text: str, offset: int) -> Unparsable:
    opening, match = text[offset], _TOKEN.match(text, offset)
    closing = "*/" if opening == "/" else opening
    if match is not None and match.lastgroup == "dollars":
        closing = match.group()
    return unparsable(text, offset, f"The {_NAMES[opening]} that begins here is not closed. Close it with {closing}")


def unparsable(text: str, offset: int, reason: str) -> Unparsable:
    """Return the error that a text does not follow the grammar at an offset."""
    line, column = position(text, offset)
    return Unparsable(reason, text=text, line=line, column=column)


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of a character, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def string_value(literal: str) -> str:
    """Return the value of a string literal of Spark SQL. Escapes and doubled quotes are resolved, except in `r'…'` and `$$…$$`."""
    if literal[0] == "$":
        tag = literal[: literal.index("$", 1) + 1]
        return literal[len(tag) : -len(tag)]
    if literal[0] in "rR":
        return literal[2:-1]
    quote, body = literal[0], literal[1:-1]
    if "\\" in body or quote in body:
        body = _ESCAPES[quote].sub(_unescape, body)
        # Two escapes `\ud83d\ude00` are the surrogates of one character: decoding joins them, and replaces single ones.
        body = body.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return body


_ESCAPES = {
    quote: re.compile(rf"\\u([0-9a-fA-F]{{4}})|\\U([0-9a-fA-F]{{8}})|\\([01][0-7]{{2}})|\\(.)|{quote}{quote}", re.DOTALL) for quote in "'\""
}
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unescape(match: re.Match[str]) -> str:
    """Return the character that an escape or a doubled quote stands for."""
    four_digits, eight_digits, octal_digits, character = match.groups()
    if character is not None:
        return _CONTROLS.get(character, character)
    if octal_digits is not None:
        return chr(int(octal_digits, 8))
    if four_digits is None and eight_digits is None:
        return match.group()[0]
    code = int(four_digits or eight_digits, 16)
    return chr(code) if code <= 0x10FFFF else "\ufffd"
