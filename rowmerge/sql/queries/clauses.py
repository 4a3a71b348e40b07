"""Names, column lists and clauses of a query. They are the parts of which the parsers of FROM and of queries consist."""

from __future__ import annotations

from collections.abc import Iterator

from rowmerge.commands import queries as q
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING
from rowmerge.sql.queries import keywords
from rowmerge.sql.queries.select_lists import clause

SET_OPERATORS = frozenset({"UNION", "EXCEPT", "MINUS", "SETMINUS", "INTERSECT"})
LIMITS = frozenset({"LIMIT", "OFFSET"})
_CLAUSES = frozenset({"WHERE", "HAVING", "QUALIFY", "WINDOW"}) | SET_OPERATORS | LIMITS


class OpaqueQueryError(Exception):
    """Raised when the structure of a query is unknown.

    Remedy: No action is needed. The query reads all files of the tables whose place in it is unknown.
    """


class ClauseParser:
    """A parser of the parts of one text. Each method moves the cursor. The parameter `end` is the index of the token after the query.

    `explained`: the indices of name tokens whose meaning is known. A name of a query of a WITH list at any other token may be a read of
    this query. `named_queries`: all queries of WITH lists in the text.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor, self.tokens, self.closings = cursor, cursor.tokens, cursor.tokens.closings
        self.text_end = len(cursor.tokens) - 1
        self.named_queries: list[q.NamedQuery] = []
        self.explained: list[int] = []

    def mark_other_reads(self) -> None:
        """Set `has_other_reads` of each query of a WITH list whose name is in the text at a token of unknown meaning."""
        if not self.named_queries:
            return
        names = set(self._unexplained_names())
        for named_query in self.named_queries:
            # IDENTIFIER('name') reads a query through a string.
            named_query.has_other_reads |= named_query.name.lower() in names or "identifier" in names

    def _unexplained_names(self) -> Iterator[str]:
        """Yield the undotted names of unknown meaning in lower case. Text in double quotes can be a name, by a setting of Spark."""
        explained, keys = set(self.explained), self.tokens.keys
        for index in range(self.text_end):
            if index not in explained and keys[index - 1] != "." and keys[index + 1] != ".":
                token = self.tokens[index]
                if token.is_name or token.text.startswith('"'):
                    yield token.name.strip('"').lower()

    def _expect_name(self) -> None:
        if not self.cursor.token().is_name:
            raise OpaqueQueryError

    def _parse_columns(self) -> tuple[str, ...]:
        """Parse `(a, b)`."""
        first, closing = self.cursor.index + 1, self.closings[self.cursor.index]
        are_names = all(self.tokens.is_name(index) for index in range(first, closing, 2))
        if not are_names or any(key != "," for key in self.tokens.keys[first + 1 : closing : 2]):
            raise OpaqueQueryError
        self.explained += range(first, closing, 2)
        self.cursor.index = closing + 1
        return tuple(token.name for token in self.tokens[first:closing:2])

    def _skip_token_or_brackets(self) -> None:
        index = self.cursor.index
        self.cursor.index = self.closings[index] + 1 if self.tokens.keys[index] in CLOSING else index + 1

    def _begins_organization(self) -> bool:
        """Return whether ORDER BY, LIMIT or a similar clause begins at the cursor."""
        key = self.cursor.key()
        return key in LIMITS or (key in expressions.BEFORE_BY - {"GROUP"} and self.cursor.key(1) == "BY")

    def _parse_clause(self, end: int, *words: str) -> q.Clause | None:
        """Parse the text of a clause that begins with these words, or return None if it does not come next."""
        if self.cursor.index >= end or not self.cursor.accept(*words):
            return None
        start = self.cursor.index
        self._skip_to_clause(end)
        if start == self.cursor.index:
            raise OpaqueQueryError
        return clause(self.tokens, start, self.cursor.index)

    def _skip_to_clause(self, end: int, *, in_select_list: bool = False) -> None:
        """Skip tokens up to the next clause of the query."""
        while self.cursor.index < end and not self._begins_clause(in_select_list=in_select_list):
            self._skip_token_or_brackets()

    def _begins_clause(self, *, in_select_list: bool = False) -> bool:
        """Return whether a clause or a set operator begins at the cursor, outside all brackets."""
        cursor = self.cursor
        key = "" if cursor.key(-1) == "." else cursor.key()
        if key == "|>":
            raise OpaqueQueryError
        if key == "FROM":
            return keywords.precedes_relation(cursor, key, in_from=False)
        if key == "EXCEPT" and in_select_list and cursor.key(-1) == "*":
            return False  # `* EXCEPT (a)`
        return key in _CLAUSES or (key in expressions.BEFORE_BY and cursor.key(1) == "BY") or (key == "LATERAL" and cursor.key(1) == "VIEW")
