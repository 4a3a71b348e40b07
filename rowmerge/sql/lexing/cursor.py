"""A cursor over the tokens of a statement, with the methods that all grammar rules use."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher, get_close_matches
from typing import TypeVar

from rowmerge.commands.names import CATALOGS, SqlText, TableName
from rowmerge.errors import Unparsable, UnsupportedStatement
from rowmerge.sql.lexing.lexer import CLOSING, Kind, Token, Tokens, string_value, unparsable

_Item = TypeVar("_Item")
_KEYWORDS = re.compile("[A-Z]{2,}")


class TokenCursor:
    """A cursor that steps over the tokens of a statement. `index` is the index of the next token.

    `catalogs`: the names of the catalogs that can precede a schema, in lower case. It is empty if the session has only one catalog.

    The parameter `ahead` counts tokens from the next one, which is 0. The previous token is -1.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.text, self.tokens, self.index = tokens.text, tokens, 0
        self.catalogs: tuple[str, ...] = ()

    def token(self, ahead: int = 0) -> Token:
        """Return the token `ahead` positions after the next one. Beyond the end of the text, return the END token."""
        return self.tokens[min(max(self.index + ahead, 0), len(self.tokens) - 1)]

    def key(self, ahead: int = 0) -> str:
        """Return the key of a token: the text of a symbol, or the upper-case text of a word."""
        keys = self.tokens.keys
        return keys[min(max(self.index + ahead, 0), len(keys) - 1)]

    @property
    def at_end(self) -> bool:
        """Return whether the cursor is at the END token, after the last token of the text."""
        return self.index >= len(self.tokens) - 1

    @property
    def leading_parentheses(self) -> int:
        """Return the number of consecutive opening parentheses that come next."""
        return self.tokens.after_parentheses[self.index] - self.index if self.next_is("(") else 0

    def next_is(self, *keys: str) -> bool:
        """Return whether the next tokens are these words or symbols, in this order."""
        return all(self.key(ahead) == key for ahead, key in enumerate(keys))

    def next_is_keyword(self, *keys: str) -> bool:
        """Return whether the next token is one of these words and is not a field name after a dot."""
        return self.key() in keys and self.key(-1) != "."

    def accept(self, *keys: str) -> bool:
        """Step over these words or symbols if all of them come next, and return whether they do."""
        if not self.next_is(*keys):
            return False
        self.index += len(keys)
        return True

    def accept_any(self, *keys: str) -> str:
        """Step over one of these words or symbols and return it. Return an empty string if none of them comes next."""
        key = self.key()
        if key not in keys:
            return ""
        self.index += 1
        return key

    def accept_before_name(self, *keys: str) -> str:
        """Step over one of these words like `accept_any`, but only if an identifier follows. Otherwise, the word itself is the name."""
        return self.accept_any(*keys) if self.token(1).is_name else ""

    def expect(self, *keys: str) -> None:
        """Step over these words or symbols.

        Raises:
            Unparsable: The next tokens are not these words or symbols.
        """
        for key in keys:
            if not self.accept(key):
                raise self.expected(key)

    def expect_any(self, description: str) -> str:
        """Step over one of the keywords in the description, such as `FIRST or LAST`, and return it.

        Raises:
            Unparsable: None of the keywords comes next.
        """
        key = self.accept_any(*_KEYWORDS.findall(description))
        if not key:
            raise self.expected(description)
        return key

    def skip_group(self) -> None:
        """Step over an opening bracket and everything up to its closing bracket.

        Raises:
            Unparsable: The bracket, or a bracket inside it, is not closed.
        """
        opening = self.token()
        expected_closings: list[str] = []
        while not self.at_end:
            key = self.key()
            if key in CLOSING:
                expected_closings.append(CLOSING[key])
            elif key == expected_closings[-1]:
                expected_closings.pop()
            elif key in CLOSING.values():  # a closing bracket of another kind
                break
            self.index += 1
            if not expected_closings:
                return
        raise self.error(f"The {opening.text} that opens here is not closed. Close it", opening)

    def skip_token_or_group(self) -> None:
        """Step over one token, or over an opening bracket up to its closing bracket."""
        if self.key() in CLOSING:
            self.skip_group()
        else:
            self.index += 1

    def expect_end(self, preceding: str) -> None:
        """Raise an error unless the statement ends here. `preceding` is the error message's noun for the last clause.

        Raises:
            Unparsable: Another token comes next.
        """
        if not self.at_end:
            raise self.expected(f"the end of the statement after {preceding}")

    def text_from(self, start: int) -> SqlText:
        """Return the user's text from the token with index `start` up to, but not including, the next token."""
        first, last = self.tokens[start], self.tokens[self.index - 1]
        return SqlText(self.text[first.start : last.end], *self.tokens.place(first.start))

    def take_rest(self) -> SqlText:
        """Step to the end of the statement, and return the remaining text."""
        start, self.index = self.index, len(self.tokens) - 1
        return self.text_from(start)

    def error(self, reason: str, token: Token | None = None) -> Unparsable:
        """Return the error for a statement that does not follow the grammar.

        Args:
            reason: What is wrong and how to correct it, without a full stop at the end.
            token: The wrong token, whose line and column the error shows, or None for the next token.
        """
        return unparsable(self.text, (token or self.token()).start, reason)

    def unsupported(self, reason: str, token: Token | None = None) -> UnsupportedStatement:
        """Return the error for a form of a statement that the engine does not support.

        Args:
            reason: What is not supported and what to use instead, without a full stop at the end.
            token: The unsupported token, whose line and column the error shows, or None for the next token.
        """
        line, column = self.tokens.place((token or self.token()).start)
        return UnsupportedStatement(reason, text=self.text, line=line, column=column)

    def expected(self, description: str) -> Unparsable:
        """Return the error `Expected <description>, found <token>` for the next token."""
        token, previous = self.token(), self.token(-1)
        keywords = _KEYWORDS.findall(description)
        # A misspelled keyword before the next token was parsed as an alias: the error shows the misspelled word.
        if not _is_misspelled(token, keywords) and _is_misspelled(previous, keywords):
            token = previous
        short_text = token.text if len(token.text) <= 40 else f"{token.text[:40]}…"
        token_text = "the end of the statement" if token.kind is Kind.END else f"`{short_text}`"
        return self.error(f"Expected {description}, found {token_text}", token)


class Cursor(TokenCursor):
    """A cursor that reads the names, literals and lists of Spark's grammar.

    The parameter `description` is the noun for the expected tokens in error messages.
    """

    def identifier(self, description: str) -> str:
        """Read an identifier, and return it without quotes.

        Raises:
            Unparsable: The next token is not an identifier, or an unquoted identifier contains a hyphen.
        """
        token = self.token()
        if not token.is_name:
            raise self.expected(description)
        self.index += 1
        hyphen, next_part = self.token(), self.token(1)
        has_no_spaces = token.end == hyphen.start and hyphen.end == next_part.start  # otherwise, the hyphen is a minus sign
        if hyphen.key == "-" and next_part.is_name and has_no_spaces:
            raise self.error(f"A name with a hyphen needs backquotes: `{token.name}-{next_part.name}`", token)
        return token.name

    def path(self, description: str) -> tuple[str, ...]:
        """Read identifiers separated by dots."""
        names = [self.identifier(description)]
        while self.accept("."):
            names.append(self.identifier(f"{description} after the dot"))
        return tuple(names)

    def schema_name(self) -> str:
        """Read the name of a schema. After a catalog's name, return both with a dot between them if the session has several catalogs.

        Raises:
            Unparsable: The next token is not a name.
            UnsupportedStatement: The name has more than one level, or there is no such catalog.
        """
        token = self.token()
        path = self.path("the name of a schema")
        catalog = path[0].lower()
        if len(path) == 2 and catalog in self.catalogs:
            return f"{catalog}.{path[1]}"
        if len(path) == 2 and self.catalogs:
            raise self.unsupported(f"There is no catalog `{path[0]}`. The catalogs are {', '.join(self.catalogs)}", token)
        if len(path) == 1 or (len(path) == 2 and catalog in CATALOGS):
            return path[-1]
        raise self.unsupported(f"Schemas have one level. Write only the schema's name `{path[-1]}`", token)

    def table_name(self, description: str = "the name of a table") -> TableName:
        """Read the name of a table, a view or a function.

        Raises:
            Unparsable: The next token is not a name.
            UnsupportedStatement: `IDENTIFIER(…)` comes next.
        """
        if self.next_is("IDENTIFIER", "("):
            raise self.unsupported("IDENTIFIER(…) is not supported here. Write the name itself")
        return TableName(self.path(description))

    def table_or_path(self) -> TableName:
        """Read the name of a table, or the path of its folder as a string literal, which becomes the name `path` and the path.

        Raises:
            Unparsable: The next token is neither a name nor an absolute path.
        """
        if self.token().kind is not Kind.STRING:
            return self.table_name()
        token, path = self.token(), self.string("a path")
        if not path.startswith("/") and "://" not in path:
            raise self.error("The path of a table is absolute, or a URL. Write the name of a table, or a path that begins with /", token)
        return TableName(("path", path))

    def string(self, description: str) -> str:
        """Read a string literal, and return its value.

        Raises:
            Unparsable: The next token is not a string.
        """
        token = self.token()
        if token.kind is not Kind.STRING:
            raise self.expected(f"{description} as a string literal")
        self.index += 1
        return string_value(token.text)

    def optional_string(self, keyword: str, description: str) -> str | None:
        """Read `keyword 'string'` and return the string, or return None if the keyword does not come next.

        Args:
            keyword: The word before the string, in upper case.
            description: The noun for the string in error messages.
        """
        return self.string(description) if self.accept(keyword) else None

    def integer(self, description: str) -> int:
        """Read a whole number without a sign.

        Raises:
            Unparsable: The next token is not a whole number without a sign.
        """
        token = self.token()
        if token.kind is not Kind.NUMBER or not token.text.isdecimal():
            raise self.expected(f"{description} as a whole number")
        self.index += 1
        return int(token.text)

    def comma_separated(self, read_item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Read `item, item, …` with at least one item. `read_item` reads one item."""
        items = [read_item()]
        while self.accept(","):
            items.append(read_item())
        return tuple(items)

    def parenthesized(self, read_item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Read `(item, item, …)` with at least one item. `read_item` reads one item.

        Raises:
            Unparsable: A parenthesis is missing.
        """
        self.expect("(")
        items = self.comma_separated(read_item)
        if not self.accept(")"):
            raise self.expected("a comma or )")
        return items

    def list_with_or_without_parentheses(self, read_item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Read `(item, item, …)` or `item, item, …` with at least one item. `read_item` reads one item."""
        return self.parenthesized(read_item) if self.next_is("(") else self.comma_separated(read_item)

    def identifiers(self, description: str) -> tuple[str, ...]:
        """Read `(a, b, …)`, a list of identifiers in parentheses."""
        return self.parenthesized(lambda: self.identifier(description))


def suggest(name: str, candidates: tuple[str, ...]) -> str:
    """Return a suggestion for an error message: a question with the similar candidates or, if there are none, a list of all candidates.

    Args:
        name: The misspelled name in the statement. Case is ignored.
        candidates: The valid names in lower case.
    """
    similar_names = get_close_matches(name.lower(), candidates, n=2, cutoff=0.7)
    return f"Did you mean {' or '.join(similar_names)}?" if similar_names else f"There are: {', '.join(candidates)}"


def _is_misspelled(token: Token, keywords: list[str]) -> bool:
    """Return whether a word resembles one of the keywords, but is not equal to it."""
    # A word that is much longer than a keyword cannot resemble it, and would take long to compare.
    candidates = [keyword for keyword in keywords if len(token.key) <= 3 * len(keyword)]
    return token.kind is Kind.WORD and any(0.65 < SequenceMatcher(None, token.key, keyword).ratio() < 1 for keyword in candidates)
