"""Division of Spark SQL text into tokens with their positions in the text.

sqlglot's tokenizer differs from Spark's lexer where the engine searches for names: hints, `TABLE t`, SHOW, EXPLAIN and `'it''s'`.
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
"""The first characters of a hint."""


class Kind(Enum):
    """The lexical kind of a token."""

    WORD = "word"
    """An identifier or keyword without quotes. Almost every keyword of Spark can be a name."""
    QUOTED = "quoted"
    """A name in backquotes."""
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a statement: its verbatim text, and the half-open range of offsets from `start` to `end`.

    Grammar rules compare `key`: the text of a symbol, the upper-case text of a word, and an empty string for other tokens.
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
        """Return the identifier without its quotes."""
        return self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED else self.text


class Tokens(Sequence[Token]):
    """The tokens of SQL text without whitespace, comments and hints. The last token is END.

    `keys`, `kinds`, `starts` and `ends` contain one item per token. A Token object is created only on access, to relieve the garbage
    collector.
    """

    def __init__(self, text: str, keys: list[str], kinds: list[Kind], starts: list[int], ends: list[int]) -> None:
        """Store the four lists that describe the tokens, and append the END token to them."""
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
        """Return a range of the tokens, followed by an END token.

        Args:
            first: The index of the first token.
            last: The index after the last token.
        """
        return Tokens(self.text, self.keys[first:last], self.kinds[first:last], self.starts[first:last], self.ends[first:last])

    def without_semicolons(self) -> Tokens:
        """Return the tokens without the semicolons at the end."""
        last = len(self) - 1
        while last and self.keys[last - 1] == ";":
            last -= 1
        return self.between(0, last)

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of the character at an offset, both counted from 1."""
        line = bisect_left(self._line_feeds, offset)
        return line + 1, offset - (self._line_feeds[line - 1] if line else -1)

    @cached_property
    def _line_feeds(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    @cached_property
    def closings(self) -> dict[int, int]:
        """Map the index of each opening bracket to the index of its closing bracket, or of the END token if it is not closed."""
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
        """Return for each token its own index or, for an opening parenthesis, the index of the next token that is not one."""
        indexes = list(range(len(self)))
        for index in range(len(self) - 2, -1, -1):
            if self.keys[index] == "(":
                indexes[index] = indexes[index + 1]
        return indexes


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
"""The pattern takes linear time for any text: each alternative reads a character at most a few times and does not fail repeatedly."""
_PIPE_OPERATORS = frozenset(
    """SELECT EXTEND SET DROP AS WHERE PIVOT UNPIVOT TABLESAMPLE AGGREGATE BIN QUALIFY WINDOW JOIN INNER CROSS LEFT RIGHT FULL SEMI ANTI
    NATURAL ASOF UNION EXCEPT MINUS SETMINUS INTERSECT ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET""".split()
)
"""The words after a pipe, which newer versions of Spark also read as `|` instead of `|>`."""
_KINDS: dict[str | None, Kind] = {**{kind.value: kind for kind in Kind}, "dollars": Kind.STRING}
_SKIPPED_GROUPS = frozenset(["space", "comment", "bracketed"])
_OPENINGS = frozenset(["bracketed", "dollars", "unclosed"])
"""The groups of `_TOKEN` that match only the beginning of a comment or a string."""
_GROUPS_WITH_KEY = frozenset(["symbol", "word"])
_BRACKET = re.compile(r"/\*|\*/")
_NAMES = {"'": "string", '"': "string", "$": "string", "`": "quoted name", "/": "comment"}


def tokenize(text: str) -> Tokens:
    """Divide SQL text into tokens as Spark's lexer does (SqlBaseLexer.g4).

    Bracketed comments can be nested, and names can begin with a digit. `'it''s'` is one string, as is any text between `$$` and `$$` or
    between `$tag$` and `$tag$`. `<` and `>` are always separate tokens, so that nested types can be parsed.

    Raises:
        Unparsable: A string, a quoted name or a comment is not closed.
    """
    tokens, unclosed_offset = _tokens_before_unclosed(text)
    if unclosed_offset is not None:
        raise _unclosed_error(text, unclosed_offset)
    return tokens


def split_statements(text: str) -> Iterator[str]:
    """Split SQL text at its semicolons and yield the statements. Skip statements that contain only whitespace and comments.

    Each statement is prefixed with one line feed per preceding line, so that line numbers stay correct. The last statement may contain an
    unclosed string.
    """
    tokens, unclosed_offset = _tokens_before_unclosed(text)
    start = 0  # the index of the first token of the next statement
    for semicolon in [index for index, key in enumerate(tokens.keys) if key == ";"]:
        has_tokens = start < semicolon
        if has_tokens:
            yield _text_on_its_line(tokens, _offset_of_statement(tokens, start), tokens.starts[semicolon])
        start = semicolon + 1
    # After the last semicolon, an unclosed string or name has no token, but belongs to a statement, unlike an unclosed comment.
    has_tokens = tokens.kinds[start] is not Kind.END  # the last of the tokens is always END
    has_unclosed_string = unclosed_offset is not None and not text.startswith("/*", unclosed_offset)
    if has_tokens or has_unclosed_string:
        yield _text_on_its_line(tokens, _offset_of_statement(tokens, start), len(text))


def _offset_of_statement(tokens: Tokens, start: int) -> int:
    """Return the offset after the semicolon before token `start`, or 0 for the first statement. Leading comments are included."""
    return tokens.ends[start - 1] if start else 0


def _text_on_its_line(tokens: Tokens, start: int, end: int) -> str:
    """Return the text between two offsets, prefixed with as many line feeds as precede the text."""
    line, _ = tokens.place(start)
    return "\n" * (line - 1) + tokens.text[start:end]


def first_word(text: str) -> str:
    """Return the first word of SQL text in upper case, or an empty string if the text does not begin with a word."""
    match = _TOKEN.match(text, skip_space(text))
    return match.group().upper() if match is not None and match.lastgroup == "word" else ""


def has_double_quotes(text: str) -> bool:
    """Return whether a text has double quotes outside of comments. By a setting of Spark, they enclose strings or names."""
    return '"' in text and any(token.kind is Kind.STRING and '"' in token.text for token in tokenize(text))


def skip_space(text: str, offset: int = 0, *, over_hints: bool = True) -> int:
    """Return the offset after the whitespace and the comments at an offset.

    Args:
        text: The whole text.
        offset: The offset at which whitespace can begin.
        over_hints: Whether hints are skipped like comments.

    Raises:
        Unparsable: A comment is not closed.
    """
    while match := _TOKEN.match(text, offset):
        is_hint = not over_hints and text.startswith(HINT, offset)
        if match.lastgroup not in _SKIPPED_GROUPS or is_hint:
            break
        end = _token_end(text, match)
        if end is None:
            raise _unclosed_error(text, offset)
        offset = end
    return offset


def _tokens_before_unclosed(text: str) -> tuple[Tokens, int | None]:
    """Return the tokens before the first unclosed string, quoted name or comment, and its offset. If all are closed, return all and None.

    The loop creates no `Token` objects and makes few calls, because a statement can have many thousands of tokens.
    """
    keys, kinds, starts, ends = list[str](), list[Kind](), list[int](), list[int]()
    offset, size, match_token = 0, len(text), _TOKEN.match
    while offset < size:
        match = match_token(text, offset)
        assert match is not None, "the last alternative takes any character"
        group = match.lastgroup
        end = _token_end(text, match) if group in _OPENINGS else match.end()
        if end is None:
            return Tokens(text, keys, kinds, starts, ends), offset
        kind = _KINDS.get(group)
        if kind is not None:  # neither whitespace nor a comment
            keys.append(match.group().upper() if group in _GROUPS_WITH_KEY else "")
            kinds.append(kind)
            starts.append(offset)
            ends.append(end)
        offset = end
    if "|" in keys:
        _mark_pipes(keys)
    return Tokens(text, keys, kinds, starts, ends), None


def _mark_pipes(keys: list[str]) -> None:
    """Change the key of each `|` that is a pipe operator to `|>`. The `|` in `a | left(s, 2)` is the bitwise OR."""
    for index, (key, word, following) in enumerate(zip(keys, keys[1:], [*keys[2:], ""], strict=False)):
        if key == "|" and word in _PIPE_OPERATORS and not (word in ("LEFT", "RIGHT") and following == "("):
            keys[index] = "|>"


def _token_end(text: str, match: re.Match[str]) -> int | None:
    """Return the offset after the token or comment that begins with a match, or None if it is not closed."""
    if match.lastgroup not in _OPENINGS:
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
    """Return the error for a string, a quoted name or a comment that begins at an offset and is not closed."""
    opening, match = text[offset], _TOKEN.match(text, offset)
    closing = "*/" if opening == "/" else opening
    if match is not None and match.lastgroup == "dollars":
        closing = match.group()
    return unparsable(text, offset, f"The {_NAMES[opening]} that begins here is not closed. Close it with {closing}")


def unparsable(text: str, offset: int, reason: str) -> Unparsable:
    """Return the error for a statement that does not follow the grammar.

    Args:
        text: The text of the statement.
        offset: The offset of the wrong token, whose line and column the error shows.
        reason: What is wrong, as a sentence without a full stop.
    """
    line, column = position(text, offset)
    return Unparsable(reason, text=text, line=line, column=column)


def position(text: str, offset: int) -> tuple[int, int]:
    """Return the line and the column of a character, both counted from 1.

    Args:
        text: The text that contains the character.
        offset: The offset of the character, counted from 0.
    """
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def string_value(literal: str) -> str:
    """Return the string that a Spark SQL string literal denotes, without its quotes. Escapes are resolved, except in `r'…'` and `$$…$$`."""
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
    """Return the character that an escape sequence or a doubled quote represents."""
    four_digits, eight_digits, octal_digits, character = match.groups()
    if character is not None:
        return _CONTROLS.get(character, character)
    if octal_digits is not None:
        return chr(int(octal_digits, 8))
    if four_digits is None and eight_digits is None:
        return match.group()[0]
    code = int(four_digits or eight_digits, 16)
    return chr(code) if code <= 0x10FFFF else "\ufffd"
