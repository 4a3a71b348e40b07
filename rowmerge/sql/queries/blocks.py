"""The structure of a query: blocks, relations and clauses. File skipping needs it to push conditions down to tables.

The parser is strict: a query with a clause or an order of clauses that it does not know is opaque. A wrong structure could skip files with
rows of the result, whereas an opaque query only reads more files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rowmerge.commands import queries as q
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING, tokenize
from rowmerge.sql.queries import keywords
from rowmerge.sql.queries.joins import accept_join, begins_join
from rowmerge.sql.queries.select_lists import clause, parse_select_list, window_partitions

_SET_OPERATORS = frozenset({"UNION", "EXCEPT", "MINUS", "SETMINUS", "INTERSECT"})
_LIMITS = frozenset({"LIMIT", "OFFSET"})
_GROUPING_SETS = frozenset({"ROLLUP", "CUBE", "GROUPING"})
_EXTENSIONS = frozenset({"PIVOT", "UNPIVOT", "TABLESAMPLE", "REPEATABLE", "MATCH_RECOGNIZE", "STREAM"})
_CLAUSES = frozenset({"WHERE", "HAVING", "QUALIFY", "WINDOW"}) | _SET_OPERATORS | _LIMITS
_DEEPEST = 60
"""The maximum nesting depth of queries and relations. Deeper ones are opaque."""
_MOST_PASSES = 100
"""The maximum number of times that the parser reads the text on average. An opaque query is read twice on each level around it."""

_NamedQueries = Mapping[str, q.NamedQuery]
_STAR = q.SelectItem(q.Clause("*", 0))


class _OpaqueError(Exception):
    """The structure of a query is unknown."""


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


class _QueryParser:
    """A parser of one text. Each method moves the cursor. The parameter `end` is the index of the token after the parsed query.

    The parameter `visible` contains the visible queries of WITH lists by lower-case name. `explained`: the indices of name tokens whose
    meaning is known. A name of a query of a WITH list at any other token may be a read of this query.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor, self.tokens, self.closings = cursor, cursor.tokens, cursor.tokens.closings
        self.text_end = len(cursor.tokens) - 1
        self.named_queries: list[q.NamedQuery] = []
        self.explained: list[int] = []
        self.depth = 0
        self.tokens_left = _MOST_PASSES * len(self.tokens)

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

    def parse_query(self, end: int, visible: _NamedQueries) -> q.Query:
        """Parse the query from the cursor to `end`. If its structure is unknown, only the queries in its brackets are parsed."""
        start, explained_count = self.cursor.index, len(self.explained)
        self.depth += 1
        self.tokens_left -= end - start
        try:
            if self._is_too_deep():
                raise _OpaqueError
            query = self._parse_known_query(end, visible)
        except _OpaqueError:
            del self.explained[explained_count:]
            # A WITH list that is not analysed hides queries of outer lists with the same names.
            visible = {} if self.tokens.keys[start] == "WITH" else visible
            query = q.Query(q.OpaqueQuery(self._queries_between(start, end, visible)))
        self.depth -= 1
        self.cursor.index = end
        return replace(query, text=clause(self.tokens, start, end).text) if start < end else query

    def _queries_between(self, start: int, end: int, visible: _NamedQueries) -> tuple[q.Query, ...]:
        """Parse the queries in brackets between two tokens. The cursor does not move."""
        return () if self._is_too_deep() else tuple(self._bracketed_queries(start, end, visible))

    def _is_too_deep(self) -> bool:
        return self.depth > _DEEPEST or self.tokens_left < 0

    def _bracketed_queries(self, start: int, end: int, visible: _NamedQueries) -> Iterator[q.Query]:
        cursor, index = self.cursor, self.cursor.index
        position = start
        while position < end:
            if self.tokens.keys[position] in CLOSING:
                cursor.index = position + 1
                if expressions.begins_query(cursor) and not cursor.next_is("("):
                    yield self.parse_query(self.closings[position], visible)
                    position = self.closings[position]
            position += 1
        cursor.index = index

    def _parse_known_query(self, end: int, visible: _NamedQueries) -> q.Query:
        """Parse `[WITH …] term [UNION term …] [ORDER BY …] [LIMIT …]`."""
        named_queries: tuple[q.NamedQuery, ...] = ()
        if self.cursor.next_is("WITH"):
            named_queries = self._parse_with_list(visible)
            visible = {**visible, **{query.name.lower(): query for query in named_queries}}
        terms = [self._parse_term(end, visible)]
        while self.cursor.index < end and self.cursor.accept_any(*_SET_OPERATORS):
            self.cursor.accept_any("ALL", "DISTINCT")
            terms.append(self._parse_term(end, visible))
        is_limited = self._skip_organization(end)
        if len(terms) > 1 or terms[0].named_queries:
            return q.Query(q.SetOperation(tuple(terms)), named_queries, is_limited)
        return replace(terms[0], named_queries=named_queries, is_limited=is_limited or terms[0].is_limited)

    def _parse_with_list(self, visible: _NamedQueries) -> tuple[q.NamedQuery, ...]:
        """Parse `WITH name [(columns)] [AS] (query), …`. Each query sees the queries before it."""
        cursor, visible, queries = self.cursor, dict(visible), list[q.NamedQuery]()
        cursor.index += 1
        if expressions.accept_recursive(cursor):
            raise _OpaqueError
        while not queries or cursor.accept(","):
            self._expect_name()
            self.explained.append(cursor.index)
            name = cursor.token().name
            cursor.index += 1
            has_columns = cursor.next_is("(") and self.tokens.keys[min(self.closings[cursor.index] + 1, self.text_end)] in ("AS", "(")
            columns = self._parse_columns() if has_columns else ()
            cursor.accept("AS")
            query = q.NamedQuery(name, self._parse_bracketed_query(visible), columns)
            queries.append(query)
            visible[name.lower()] = query
        self.named_queries += queries
        return tuple(queries)

    def _expect_name(self) -> None:
        if not self.cursor.token().is_name:
            raise _OpaqueError

    def _parse_columns(self) -> tuple[str, ...]:
        """Parse `(a, b)`."""
        first, closing = self.cursor.index + 1, self.closings[self.cursor.index]
        are_names = all(self.tokens.is_name(index) for index in range(first, closing, 2))
        if not are_names or any(key != "," for key in self.tokens.keys[first + 1 : closing : 2]):
            raise _OpaqueError
        self.explained += range(first, closing, 2)
        self.cursor.index = closing + 1
        return tuple(token.name for token in self.tokens[first:closing:2])

    def _parse_bracketed_query(self, visible: _NamedQueries) -> q.Query:
        """Parse `(query)`."""
        if not self.cursor.next_is("("):
            raise _OpaqueError
        closing = self.closings[self.cursor.index]
        self.cursor.index += 1
        query = self.parse_query(closing, visible)
        self.cursor.index = closing + 1
        return query

    def _parse_term(self, end: int, visible: _NamedQueries) -> q.Query:
        """Parse one operand of a set operation: a SELECT block, `(query)` or `TABLE name`."""
        cursor = self.cursor
        if cursor.next_is("("):
            return self._parse_bracketed_query(visible)
        if cursor.next_is("TABLE") and cursor.token(1).is_name:
            cursor.index += 1
            return q.Query(q.SelectBlock((_STAR,), self._parse_table(end, visible)))
        if cursor.index >= end or not cursor.accept("SELECT"):
            raise _OpaqueError
        return q.Query(self._parse_select(end, visible))

    def _skip_organization(self, end: int) -> bool:
        """Skip ORDER BY, LIMIT and similar clauses up to `end`. Return whether one of them chooses rows.

        A query in such a clause is not searched for reads, so it makes the whole query opaque.
        """
        cursor, is_limited = self.cursor, False
        if cursor.index < end and not self._begins_organization():
            raise _OpaqueError
        while cursor.index < end:
            key = cursor.key()
            if key in _SET_OPERATORS or key == "|>" or (key in CLOSING and "SELECT" in self._keys_in_brackets()):
                raise _OpaqueError
            is_limited |= cursor.next_is_keyword(*_LIMITS)
            self._skip_token_or_brackets()
        return is_limited

    def _keys_in_brackets(self) -> list[str]:
        return self.tokens.keys[self.cursor.index : self.closings[self.cursor.index]]

    def _skip_token_or_brackets(self) -> None:
        index = self.cursor.index
        self.cursor.index = self.closings[index] + 1 if self.tokens.keys[index] in CLOSING else index + 1

    def _begins_organization(self) -> bool:
        """Return whether ORDER BY, LIMIT or a similar clause begins at the cursor."""
        key = self.cursor.key()
        return key in _LIMITS or (key in expressions.BEFORE_BY - {"GROUP"} and self.cursor.key(1) == "BY")

    def _parse_select(self, end: int, visible: _NamedQueries) -> q.SelectBlock:
        """Parse a SELECT block after the word SELECT."""
        cursor, start = self.cursor, self.cursor.index
        cursor.accept_any("ALL", "DISTINCT")
        if cursor.next_is("TRANSFORM", "(") or cursor.key() in ("MAP", "REDUCE"):
            raise _OpaqueError
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
        if cursor.index < end and not (cursor.key() in _SET_OPERATORS or self._begins_organization()):
            raise _OpaqueError
        subqueries = self._queries_between(start, items_end, visible) + self._queries_between(relation_end, cursor.index, visible)
        has_grouping_sets = grouping is not None and not _GROUPING_SETS.isdisjoint(self.tokens.keys[relation_end : cursor.index])
        windows = tuple(window_partitions(self.tokens, start, cursor.index))
        items = parse_select_list(self.tokens, items_start, items_end)
        return q.SelectBlock(items, relation, where, having, has_grouping_sets, windows, subqueries)

    def _parse_clause(self, end: int, *words: str) -> q.Clause | None:
        """Parse the text of a clause that begins with these words, or return None if it does not come next."""
        if self.cursor.index >= end or not self.cursor.accept(*words):
            return None
        start = self.cursor.index
        self._skip_to_clause(end)
        if start == self.cursor.index:
            raise _OpaqueError
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
            raise _OpaqueError
        if key == "FROM":
            return keywords.precedes_relation(cursor, key, in_from=False)
        if key == "EXCEPT" and in_select_list and cursor.key(-1) == "*":
            return False  # `* EXCEPT (a)`
        return key in _CLAUSES or (key in expressions.BEFORE_BY and cursor.key(1) == "BY") or (key == "LATERAL" and cursor.key(1) == "VIEW")

    def _parse_from(self, end: int, visible: _NamedQueries) -> q.Relation:
        """Parse the relations of FROM and the LATERAL VIEWs after them. Commas join like CROSS JOIN, after all other joins."""
        relation = self._parse_joined_relation(end, visible)
        while self.cursor.index < end and self.cursor.accept(","):
            relation = q.Join("INNER", relation, self._parse_joined_relation(end, visible))
        while self.cursor.index < end and self.cursor.accept("LATERAL", "VIEW"):
            start = self.cursor.index
            self._skip_to_clause(end)
            if not _EXTENSIONS.isdisjoint(self.tokens.keys[start : self.cursor.index]):  # PIVOT after it
                raise _OpaqueError
            relation = q.Join("INNER", relation, q.OpaqueRelation(self._queries_between(start, self.cursor.index, visible)))
        return relation

    def _parse_joined_relation(self, end: int, visible: _NamedQueries) -> q.Relation:
        """Parse `relation [JOIN relation [ON …] …]`."""
        relation = self._parse_relation(end, visible)
        while self.cursor.index < end and (join := accept_join(self.cursor)) is not None:
            kind, is_natural = join
            right = self._parse_relation(end, visible)
            if self.cursor.index < end and self.cursor.accept("USING"):
                relation = q.Join(kind, relation, right, using=self._parse_columns())
                continue
            start = self.cursor.index
            condition = self._parse_on_condition(end)
            queries = self._queries_between(start, self.cursor.index, visible)
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
            raise _OpaqueError
        return clause(self.tokens, start, cursor.index)

    def _ends_on_condition(self) -> bool:
        key = self.cursor.key()
        if key in _EXTENSIONS and self.cursor.key(-1) != ".":
            raise _OpaqueError
        return key == "," or begins_join(self.cursor) or self._begins_clause()

    def _parse_relation(self, end: int, visible: _NamedQueries) -> q.Relation:
        """Parse one relation of FROM with its alias: a table, a query, or joined relations in parentheses."""
        cursor = self.cursor
        if cursor.index >= end:
            raise _OpaqueError
        is_lateral = cursor.accept("LATERAL")
        if cursor.next_is("("):
            relation = self._parse_bracketed_relation(visible)
            return q.OpaqueRelation((relation.query,)) if is_lateral and isinstance(relation, q.Subquery) else relation
        if cursor.next_is("VALUES") or not cursor.token().is_name:
            raise _OpaqueError
        return self._parse_table(end, visible)

    def _parse_bracketed_relation(self, visible: _NamedQueries) -> q.Relation:
        """Parse `(query) [alias]` or `(relation JOIN …)`."""
        cursor, closing = self.cursor, self.closings[self.cursor.index]
        is_query = self.tokens.keys[self.tokens.after_parentheses[cursor.index]] in ("SELECT", "WITH")
        if is_query:
            query = self._parse_bracketed_query(visible)
            if self._follows_extension():
                return q.OpaqueRelation((query,))
            alias, columns = self._parse_alias()
            return q.Subquery(query, alias, columns)
        cursor.index += 1
        relation = self._parse_from(closing, visible)
        if cursor.index != closing:
            raise _OpaqueError
        cursor.index += 1
        if self._follows_extension() or expressions.alias_follows(cursor):
            raise _OpaqueError
        return relation

    def _parse_table(self, end: int, visible: _NamedQueries) -> q.Relation:
        """Parse a table name with its alias, or a call of a table function, whose columns are unknown."""
        cursor, start = self.cursor, self.cursor.index
        cursor.index += 1
        while cursor.next_is(".") and cursor.token(1).is_name:
            cursor.index += 2
        name = tuple(token.name for token in self.tokens[start : cursor.index : 2])
        if cursor.index < end and cursor.next_is("("):
            queries = self._queries_between(cursor.index, self.closings[cursor.index] + 1, visible)
            cursor.index = self.closings[cursor.index] + 1
            self._parse_alias()
            return q.OpaqueRelation(queries)
        if cursor.next_is("WITH", "("):  # options of the read
            cursor.index = self.closings[cursor.index + 1] + 1
        if self._follows_extension():
            raise _OpaqueError
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
            raise _OpaqueError
        return alias, columns
