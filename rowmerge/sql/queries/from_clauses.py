"""The relations of a FROM clause and their joins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from rowmerge.commands import queries as q
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.queries.clauses import ClauseParser, OpaqueQueryError
from rowmerge.sql.queries.select_lists import clause

_JOIN_KINDS = {
    ("LEFT", "SEMI"): "SEMI",
    ("LEFT", "ANTI"): "ANTI",
    ("LEFT", "OUTER"): "LEFT",
    ("RIGHT", "OUTER"): "RIGHT",
    ("FULL", "OUTER"): "FULL",
    ("INNER",): "INNER",
    ("CROSS",): "INNER",
    ("LEFT",): "LEFT",
    ("RIGHT",): "RIGHT",
    ("FULL",): "FULL",
    ("SEMI",): "SEMI",
    ("ANTI",): "ANTI",
    (): "INNER",
}
"""The kind of a join by the words before JOIN."""
_BEFORE_JOIN = frozenset(word for words in _JOIN_KINDS for word in words) | {"NATURAL"}
_EXTENSIONS = frozenset({"PIVOT", "UNPIVOT", "TABLESAMPLE", "REPEATABLE", "MATCH_RECOGNIZE", "STREAM"})
NamedQueries = Mapping[str, q.NamedQuery]
"""The visible queries of WITH lists by lower-case name."""


class RelationParser(ClauseParser):
    """A parser of FROM clauses. The parameter `visible` contains the visible queries of WITH lists."""

    @abstractmethod
    def parse_bracketed_query(self, visible: NamedQueries) -> q.Query:
        """Parse `(query)`."""

    @abstractmethod
    def queries_between(self, start: int, end: int, visible: NamedQueries) -> tuple[q.Query, ...]:
        """Parse the queries in brackets between two tokens. The cursor does not move.

        Args:
            start: The index of the first token.
            end: The index after the last token.
            visible: The visible queries of WITH lists.
        """

    def _parse_from(self, end: int, visible: NamedQueries) -> q.Relation:
        """Parse the relations of FROM and the LATERAL VIEWs after them. Commas join like CROSS JOIN, after all other joins."""
        relation = self._parse_joined_relation(end, visible)
        while self.cursor.index < end and self.cursor.accept(","):
            relation = q.Join("INNER", relation, self._parse_joined_relation(end, visible))
        while self.cursor.index < end and self.cursor.accept("LATERAL", "VIEW"):
            start = self.cursor.index
            self._skip_to_clause(end)
            if not _EXTENSIONS.isdisjoint(self.tokens.keys[start : self.cursor.index]):  # PIVOT after it
                raise OpaqueQueryError
            relation = q.Join("INNER", relation, q.OpaqueRelation(self.queries_between(start, self.cursor.index, visible)))
        return relation

    def _parse_joined_relation(self, end: int, visible: NamedQueries) -> q.Relation:
        """Parse `relation [JOIN relation [ON …] …]`."""
        relation = self._parse_relation(end, visible)
        while self.cursor.index < end and (join := _accept_join(self.cursor)) is not None:
            kind, is_natural = join
            right = self._parse_relation(end, visible)
            if self.cursor.index < end and self.cursor.accept("USING"):
                relation = q.Join(kind, relation, right, using=self._parse_columns())
                continue
            start = self.cursor.index
            condition = self._parse_on_condition(end)
            queries = self.queries_between(start, self.cursor.index, visible)
            relation = q.Join(kind, relation, right, condition, is_natural=is_natural, queries=queries)
        return relation

    def _parse_on_condition(self, end: int) -> q.Clause | None:
        """Parse ON and the condition after it, or return None if ON does not come next."""
        cursor = self.cursor
        if cursor.index >= end or not cursor.accept("ON"):
            return None
        start = cursor.index
        while cursor.index < end and not self._ends_on_condition():
            self._skip_token_or_brackets()
        if start == cursor.index:
            raise OpaqueQueryError
        return clause(self.tokens, start, cursor.index)

    def _ends_on_condition(self) -> bool:
        key = self.cursor.key()
        if self.cursor.key(-1) == ".":  # a column, such as `left` in `x.left`
            return False
        if key in _EXTENSIONS or self.cursor.next_is("BIN", "BY"):
            raise OpaqueQueryError
        return key == "," or _begins_join(self.cursor) or self._begins_clause()

    def _parse_relation(self, end: int, visible: NamedQueries) -> q.Relation:
        """Parse one relation of FROM with its alias: a table, a query, or joined relations in parentheses."""
        cursor = self.cursor
        if cursor.index >= end:
            raise OpaqueQueryError
        is_lateral = cursor.accept("LATERAL")
        if cursor.next_is("("):
            relation = self._parse_bracketed_relation(visible)
            return q.OpaqueRelation((relation.query,)) if is_lateral and isinstance(relation, q.Subquery) else relation
        if cursor.next_is("VALUES") or not cursor.token().is_name:
            raise OpaqueQueryError
        return self._parse_table(end, visible)

    def _parse_bracketed_relation(self, visible: NamedQueries) -> q.Relation:
        """Parse `(query) [alias]` or `(relation JOIN …)`."""
        cursor, closing = self.cursor, self.closings[self.cursor.index]
        is_query = self.tokens.keys[self.tokens.after_parentheses[cursor.index]] in ("SELECT", "WITH")
        if is_query:
            query = self.parse_bracketed_query(visible)
            if self._follows_extension():
                return q.OpaqueRelation((query,))
            alias, columns = self._parse_alias()
            return q.Subquery(query, alias, columns)
        cursor.index += 1
        relation = self._parse_from(closing, visible)
        if cursor.index != closing:
            raise OpaqueQueryError
        cursor.index += 1
        if self._follows_extension() or expressions.alias_follows(cursor):
            raise OpaqueQueryError
        return relation

    def _parse_table(self, end: int, visible: NamedQueries) -> q.Relation:
        """Parse a table name with its alias, or a call of a table function, whose columns are unknown."""
        cursor, start = self.cursor, self.cursor.index
        cursor.index += 1
        while cursor.next_is(".") and cursor.token(1).is_name:
            cursor.index += 2
        name = tuple(token.name for token in self.tokens[start : cursor.index : 2])
        if cursor.index < end and cursor.next_is("("):
            queries = self.queries_between(cursor.index, self.closings[cursor.index] + 1, visible)
            cursor.index = self.closings[cursor.index] + 1
            self._parse_alias()
            return q.OpaqueRelation(queries)
        if cursor.next_is("WITH", "("):  # options of the read
            cursor.index = self.closings[cursor.index + 1] + 1
        if self._follows_extension():
            raise OpaqueQueryError
        alias, columns = self._parse_alias()
        named_query = visible.get(name[0].lower()) if len(name) == 1 else None
        if named_query is None:
            return q.TableRead(name, alias or name[-1], columns)
        self.explained.append(start)
        return q.NamedQueryRead(named_query, alias or name[0], columns)

    def _follows_extension(self) -> bool:
        """Return whether TABLESAMPLE, PIVOT, time travel or a similar extension follows a relation."""
        return self.cursor.key() in _EXTENSIONS or self.cursor.next_is("@") or expressions.parse_time_travel(self.cursor) is not None

    def _parse_alias(self) -> tuple[str | None, tuple[str, ...]]:
        """Parse `[AS] alias [(a, b)]`. The alias is None if there is none."""
        cursor = self.cursor
        if not expressions.alias_follows(cursor):
            return None, ()
        cursor.accept("AS")
        self._expect_name()
        self.explained.append(cursor.index)
        alias = cursor.token().name
        cursor.index += 1
        columns = self._parse_columns() if cursor.next_is("(") else ()
        if self._follows_extension():
            raise OpaqueQueryError
        return alias, columns


def _accept_join(cursor: Cursor) -> tuple[str, bool] | None:
    """Step over the words of a join. Return its kind and whether it is natural, or None if no join comes next."""
    start = cursor.index
    is_natural = cursor.accept("NATURAL")
    for words, kind in _JOIN_KINDS.items():
        if cursor.accept(*words, "JOIN"):
            return kind, is_natural
    cursor.index = start
    return None


def _begins_join(cursor: Cursor) -> bool:
    """Return whether a join begins at the cursor. `left(s, 2)` is a call."""
    index, keys = cursor.index, cursor.tokens.keys
    while keys[index] in _BEFORE_JOIN:
        index += 1
    return keys[index] == "JOIN"
