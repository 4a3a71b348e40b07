"""A place in a statement's tokens, with the moves that grammar rules are made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import TypedDict, TypeVar

from rowmerge.commands.names import SqlText, TableName
from rowmerge.errors import Unparsable, UnsupportedStatement
from rowmerge.sql.lexing.lexer import CLOSING, Kind, Token, Tokens, string_value

_Item = TypeVar("_Item")
_KEYWORDS = re.compile("[A-Z]{2,}")


class Place(TypedDict):
    """Where a statement went wrong, as StatementError takes it."""

    text: str
    line: int
    column: int


class TokenCursor:
    """Steps over tokens from left to right. `at`: the index of the next token. `text`: the text of the tokens.

    A method that does not find what the grammar requires raises Unparsable at the token that stands there.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.text, self.tokens, self.at = tokens.text, tokens, 0

    # -------------------------------------------------------------- looking

    def token(self, ahead: int = 0) -> Token:
        return self.tokens[min(max(self.at + ahead, 0), len(self.tokens) - 1)]

    def key(self, ahead: int = 0) -> str:
        keys = self.tokens.keys
        return keys[min(max(self.at + ahead, 0), len(keys) - 1)]

    @property
    def ended(self) -> bool:
        return self.at >= len(self.tokens) - 1

    @property
    def parentheses(self) -> int:
        """How many parentheses open here, one behind the other."""
        if not self.sees("("):
            return 0
        return self.tokens.after_parentheses[self.at] - self.at if self.key(1) == "(" else 1

    def sees(self, *keys: str) -> bool:
        """Whether the next tokens are these words or symbols."""
        return all(self.key(ahead) == key for ahead, key in enumerate(keys))

    def sees_keyword(self, keys: frozenset[str] | set[str]) -> bool:
        """Whether the next token is one of these words, and not a field name after a dot."""
        return self.key() in keys and (self.at == 0 or self.key(-1) != ".")

    # -------------------------------------------------------------- moving

    def accept(self, *keys: str) -> bool:
        """Step over these words or symbols if all of them come next."""
        if not self.sees(*keys):
            return False
        self.at += len(keys)
        return True

    def accept_any(self, *keys: str) -> str:
        """Step over one of these words or symbols and say which, or stay and return an empty text."""
        key = self.key()
        if key not in keys:
            return ""
        self.at += 1
        return key

    def expect(self, *keys: str) -> None:
        for key in keys:
            if not self.accept(key):
                raise self.expected(key)

    def skip_group(self) -> None:
        """Step over a bracket and everything up to its closing one."""
        opened = self.at
        awaited: list[str] = []
        while not self.ended:
            key = self.key()
            if key in CLOSING:
                awaited.append(CLOSING[key])
            elif key in CLOSING.values() and key != awaited.pop():
                break
            self.at += 1
            if not awaited:
                return
        raise self.error(f"The {self.tokens[opened].text} that opens here is not closed. Close it", self.tokens[opened])

    def finish(self, after: str) -> None:
        """The statement must end here."""
        if not self.ended:
            raise self.expected(f"the end of the statement after {after}")

    # -------------------------------------------------------------- texts

    def slice(self, start: int, end: int | None = None) -> SqlText:
        """The user's text from token `start` up to, not including, token `end` (the next token when None)."""
        first, last = self.tokens[start], self.tokens[(self.at if end is None else end) - 1]
        return SqlText(self.text[first.start : last.end], *self.tokens.place(first.start))

    def rest(self) -> SqlText:
        """The text from here to the end of the statement."""
        start, self.at = self.at, len(self.tokens) - 1
        return self.slice(start)

    # -------------------------------------------------------------- errors

    def error(self, reason: str, token: Token | None = None) -> Unparsable:
        return Unparsable(reason, **self._place(token))

    def unsupported(self, reason: str, token: Token | None = None) -> UnsupportedStatement:
        return UnsupportedStatement(reason, **self._place(token))

    def expected(self, what: str) -> Unparsable:
        """The error that `what` was expected here, or one token before, where a keyword of `what` misspelled was taken for an alias."""
        token, before = self.token(), self.token(-1)
        keywords = _KEYWORDS.findall(what)
        if not _misspelled(token, keywords) and _misspelled(before, keywords):
            token = before
        found = "the end of the statement" if token.kind is Kind.END else f"`{_shortened(token.text)}`"
        return self.error(f"Expected {what}, found {found}", token)

    def _place(self, token: Token | None) -> Place:
        line, column = self.tokens.place((token or self.token()).start)
        return {"text": self.text, "line": line, "column": column}


class Cursor(TokenCursor):
    """Reads the names, literals and lists of Spark's grammar."""

    def identifier(self, what: str) -> str:
        token = self.token()
        if not token.is_name:
            raise self.expected(what)
        self.at += 1
        self._no_hyphen()
        return token.name

    def path(self, what: str) -> tuple[str, ...]:
        """Identifiers joined with dots."""
        parts = [self.identifier(what)]
        while self.accept("."):
            parts.append(self.identifier(f"{what} after the dot"))
        return tuple(parts)

    def table_name(self, what: str = "the name of a table") -> TableName:
        if self.sees("IDENTIFIER", "("):
            raise self.unsupported("IDENTIFIER(…) is not supported here. Write the name itself")
        return TableName(self.path(what))

    def string(self, what: str) -> str:
        token = self.token()
        if token.kind is not Kind.STRING:
            raise self.expected(f"{what}, a string in quotes")
        self.at += 1
        return string_value(token.text)

    def integer(self, what: str) -> int:
        token = self.token()
        if token.kind is not Kind.NUMBER or not token.text.isdecimal():
            raise self.expected(f"{what}, a whole number")
        self.at += 1
        return int(token.text)

    def listed(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """`(item, item, …)`, at least one."""
        self.expect("(")
        items = [item()]
        while self.accept(","):
            items.append(item())
        if not self.accept(")"):
            raise self.expected("a comma or )")
        return tuple(items)

    def identifiers(self, what: str) -> tuple[str, ...]:
        """`(a, b, …)`."""
        return self.listed(lambda: self.identifier(what))

    def _no_hyphen(self) -> None:
        before, hyphen, after = self.token(-1), self.token(), self.token(1)
        if hyphen.key == "-" and after.is_name and before.end == hyphen.start and hyphen.end == after.start:
            raise self.error(f"A name with a hyphen needs backquotes: `{before.name}-{after.name}`", before)


def _misspelled(token: Token, keywords: list[str]) -> bool:
    """Whether a word is nearly a keyword; a word that is much longer cannot be one, and would take long to compare."""
    near = [keyword for keyword in keywords if len(token.key) <= 3 * len(keyword)]
    return token.kind is Kind.WORD and any(0.65 < SequenceMatcher(None, token.key, keyword).ratio() < 1 for keyword in near)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
