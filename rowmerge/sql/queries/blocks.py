"""The structure of a query: blocks, relations and clauses. File skipping needs it to push conditions down to tables.

The parser is strict: a query with a clause or an order of clauses that it does not know is opaque. A wrong structure could skip files with
rows of the result, whereas an opaque query only reads more files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rowmerge.commands import queries as q
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING, tokenize
from rowmerge.sql.queries.clauses import LIMITS, SET_OPERATORS, OpaqueQueryError
from rowmerge.sql.queries.from_clauses import NamedQueries, RelationParser
from rowmerge.sql.queries.select_lists import clause, parse_select_list, window_partitions

_GROUPING_SETS = frozenset({"ROLLUP", "CUBE", "GROUPING"})
_DEEPEST = 60
"""The maximum nesting depth of queries and relations. Deeper ones are opaque."""
_MOST_PASSES = 100
"""The maximum number of times that the parser reads the text on average. An opaque query is read twice on each level around it."""
_STAR = q.SelectItem(q.Clause("*", 0))


def parse_query(text: str) -> q.Query:
    """Parse the structure of a query.

    Args:
        text: The text of a query, or of any other statement or expression, which is opaque except for the queries in its brackets.

    Raises:
        Unparsable: A string, a quoted name or a comment is not closed.
    """
    parser = _QueryParser(Cursor(tokenize(text).without_semicolons()))
    query = parser.parse_query(parser.text_end, {})
    parser.mark_other_reads()
    return query


class _QueryParser(RelationParser):
    """A parser of queries. `depth`: the nesting depth. `tokens_left`: the number of tokens that it may still read, also repeatedly."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self.depth = 0
        self.tokens_left = _MOST_PASSES * len(self.tokens)

    def parse_query(self, end: int, visible: NamedQueries) -> q.Query:
        """Parse the query from the cursor to `end`. If its structure is unknown, only the queries in its brackets are parsed."""
        start, explained_count = self.cursor.index, len(self.explained)
        self.depth += 1
        self.tokens_left -= end - start
        try:
            if self._is_too_deep():
                raise OpaqueQueryError
            query = self._parse_known_query(end, visible)
        except OpaqueQueryError:
            del self.explained[explained_count:]
            # A WITH list that is not analysed hides queries of outer lists with the same names.
            visible = {} if self.tokens.keys[start] == "WITH" else visible
            query = q.Query(q.OpaqueQuery(self.queries_between(start, end, visible)))
        self.depth -= 1
        self.cursor.index = end
        return replace(query, text=clause(self.tokens, start, end).text) if start < end else query

    def queries_between(self, start: int, end: int, visible: NamedQueries) -> tuple[q.Query, ...]:
        """Parse the queries in brackets between two tokens. The cursor does not move."""
        return () if self._is_too_deep() else tuple(self._bracketed_queries(start, end, visible))

    def _is_too_deep(self) -> bool:
        return self.depth > _DEEPEST or self.tokens_left < 0

    def _bracketed_queries(self, start: int, end: int, visible: NamedQueries) -> Iterator[q.Query]:
        cursor, index = self.cursor, self.cursor.index
        position = start
        while position < end:
            if self.tokens.keys[position] in CLOSING:
                cursor.index = position + 1
                if expressions.begins_query(cursor) and (not cursor.next_is("(") or self._goes_on_after_brackets()):
                    yield self.parse_query(self.closings[position], visible)
                    position = self.closings[position]
            position += 1
        cursor.index = index

    def _goes_on_after_brackets(self) -> bool:
        """Return whether a set operator, a pipe, ORDER BY or LIMIT follows the brackets that open at the cursor, which does not move."""
        start = self.cursor.index
        self.cursor.index = self.closings[start] + 1
        goes_on = self.cursor.key() in SET_OPERATORS or self.cursor.next_is("|>") or self._begins_organization()
        self.cursor.index = start
        return goes_on

    def _parse_known_query(self, end: int, visible: NamedQueries) -> q.Query:
        """Parse `[WITH …] term [UNION term …] [ORDER BY …] [LIMIT …]`."""
        named_queries: tuple[q.NamedQuery, ...] = ()
        if self.cursor.next_is("WITH"):
            named_queries = self._parse_with_list(visible)
            visible = {**visible, **{query.name.lower(): query for query in named_queries}}
        terms = [self._parse_term(end, visible)]
        is_union_all = True
        while self.cursor.index < end and (operator := self.cursor.accept_any(*SET_OPERATORS)):
            is_union_all &= operator == "UNION" and self.cursor.next_is("ALL")
            self.cursor.accept_any("ALL", "DISTINCT")
            terms.append(self._parse_term(end, visible))
        is_limited = self._skip_organization(end)
        if len(terms) > 1 or terms[0].named_queries:
            return q.Query(q.SetOperation(tuple(terms), is_union_all), named_queries, is_limited)
        return replace(terms[0], named_queries=named_queries, is_limited=is_limited or terms[0].is_limited)

    def _parse_with_list(self, visible: NamedQueries) -> tuple[q.NamedQuery, ...]:
        """Parse `WITH name [(columns)] [AS] (query), …`. Each query sees the queries before it."""
        cursor, visible, queries = self.cursor, dict(visible), list[q.NamedQuery]()
        cursor.index += 1
        if expressions.accept_recursive(cursor):
            raise OpaqueQueryError
        while not queries or cursor.accept(","):
            self._expect_name()
            self.explained.append(cursor.index)
            name = cursor.token().name
            cursor.index += 1
            has_columns = cursor.next_is("(") and self.tokens.keys[min(self.closings[cursor.index] + 1, self.text_end)] in ("AS", "(")
            columns = self._parse_columns() if has_columns else ()
            cursor.accept("AS")
            query = q.NamedQuery(name, self.parse_bracketed_query(visible), columns)
            queries.append(query)
            visible[name.lower()] = query
        self.named_queries += queries
        return tuple(queries)

    def parse_bracketed_query(self, visible: NamedQueries) -> q.Query:
        """Parse `(query)`."""
        if not self.cursor.next_is("("):
            raise OpaqueQueryError
        closing = self.closings[self.cursor.index]
        self.cursor.index += 1
        query = self.parse_query(closing, visible)
        self.cursor.index = closing + 1
        return query

    def _parse_term(self, end: int, visible: NamedQueries) -> q.Query:
        """Parse one operand of a set operation: a SELECT block, `(query)` or `TABLE name`."""
        cursor = self.cursor
        if cursor.next_is("("):
            return self.parse_bracketed_query(visible)
        if cursor.next_is("TABLE") and cursor.token(1).is_name:
            cursor.index += 1
            return q.Query(q.SelectBlock((_STAR,), self._parse_table(end, visible)))
        if cursor.index >= end or not cursor.accept("SELECT"):
            raise OpaqueQueryError
        return q.Query(self._parse_select(end, visible))

    def _skip_organization(self, end: int) -> bool:
        """Skip ORDER BY, LIMIT and similar clauses up to `end`. Return whether one of them chooses rows.

        A query in such a clause is not searched for reads, so it makes the whole query opaque.
        """
        cursor, is_limited = self.cursor, False
        if cursor.index < end and not self._begins_organization():
            raise OpaqueQueryError
        while cursor.index < end:
            key = cursor.key()
            if key in SET_OPERATORS or key == "|>" or (key in CLOSING and "SELECT" in self._keys_in_brackets()):
                raise OpaqueQueryError
            is_limited |= cursor.next_is_keyword(*LIMITS)
            self._skip_token_or_brackets()
        return is_limited

    def _keys_in_brackets(self) -> list[str]:
        return self.tokens.keys[self.cursor.index : self.closings[self.cursor.index]]

    def _parse_select(self, end: int, visible: NamedQueries) -> q.SelectBlock:
        """Parse a SELECT block after the word SELECT."""
        cursor, start = self.cursor, self.cursor.index
        cursor.accept_any("ALL", "DISTINCT")
        if cursor.next_is("TRANSFORM", "(") or cursor.key() in ("MAP", "REDUCE"):
            raise OpaqueQueryError
        items_start = cursor.index
        self._skip_to_clause(end, in_select_list=True)
        items_end = cursor.index
        relation = self._parse_from(end, visible) if cursor.index < end and cursor.accept("FROM") else None
        relation_end = cursor.index
        where = self._parse_clause(end, "WHERE")
        grouping = self._parse_clause(end, "GROUP", "BY")
        having = self._parse_clause(end, "HAVING")
        self._parse_clause(end, "QUALIFY")
        self._parse_clause(end, "WINDOW")
        if cursor.index < end and not (cursor.key() in SET_OPERATORS or self._begins_organization()):
            raise OpaqueQueryError
        subqueries = self.queries_between(start, items_end, visible) + self.queries_between(relation_end, cursor.index, visible)
        has_grouping_sets = grouping is not None and not _GROUPING_SETS.isdisjoint(self.tokens.keys[relation_end : cursor.index])
        windows = tuple(window_partitions(self.tokens, start, cursor.index))
        items = parse_select_list(self.tokens, items_start, items_end)
        return q.SelectBlock(items, relation, where, having, grouping is not None, has_grouping_sets, windows, subqueries)
