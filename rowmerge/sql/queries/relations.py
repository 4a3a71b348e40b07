"""Functions that find the tables that a statement reads. They follow Spark's grammar of relations and skip all other clauses."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, replace

from rowmerge.commands.names import FileSource, SqlText, TableName
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING, tokenize
from rowmerge.sql.queries import keywords
from rowmerge.sql.queries.read_files import parse_file_source, parse_table_changes_arguments

FLINK_HINT = re.compile(r"\s*/\*\+\s*OPTIONS\s*\(", re.IGNORECASE)
_READING = frozenset(
    "SELECT WITH FROM TABLE VALUES ( INSERT MERGE UPDATE DELETE CREATE REPLACE CACHE EXPLAIN DESCRIBE DESC SET DECLARE ALTER BEGIN".split()
)
"""The first tokens of the statements that can contain a query."""
_NOT_DESCRIBED = frozenset({"FUNCTION", "QUERY", "PROCEDURE", "CATALOG", "SCHEMA", "DATABASE", "NAMESPACE"})
DEEPEST = 100
"""The maximum nesting depth of queries and relations in parentheses."""


@dataclass(frozen=True)
class Read:
    """One table or table function that a query reads.

    The tokens from `start` up to, but not including, `end` are the name with its time travel or arguments. `query_span`: the first token of
    the query that reads the table, and the token after the query. `new_alias_index`: the token before which an alias is added, or None
    if the table has an alias or cannot have one. `arguments`: the arguments of the table function TABLE_CHANGES, of which
    the first names the table. `files`: the files of READ_FILES. `read_option`: the name of the first option in WITH (…), or `OPTIONS` for
    Flink's hint after the table.
    """

    name: TableName
    start: int
    end: int
    query_span: tuple[int, int]
    new_alias_index: int | None = None
    time_travel: expressions.TimeTravel | None = None
    arguments: tuple[SqlText, ...] | None = None
    files: FileSource | None = None
    read_option: str | None = None

    def is_read_by_query_of(self, token_index: int) -> bool:
        """Return whether a token is in the query that reads the table and can therefore refer to a column of the table."""
        start, end = self.query_span
        return start <= token_index < end


def find_reads(cursor: Cursor) -> list[Read]:
    """Return the tables that a statement reads, in text order, without the names of WITH lists and the target of a write."""
    finder = _ReadFinder(cursor)
    if cursor.key() in _READING:
        finder.find_reads_in_statement()
    return finder.reads


def find_reads_of_expression(cursor: Cursor) -> list[Read]:
    """Return the tables that the subqueries of an expression read."""
    finder = _ReadFinder(cursor)
    finder.find_reads_in_expression(finder.text_end, frozenset())
    return finder.reads


def names_of_with(text: str) -> frozenset[str]:
    """Return the names of the queries in a WITH list, in lower case."""
    return frozenset(_ReadFinder(Cursor(tokenize(text))).find_reads_in_with_list(frozenset()) or ())


@dataclass(frozen=True)
class _Scope:
    """The scope of a query.

    `cte_names`: the lower-case names from WITH lists (common table expressions) that are visible in the query. `query_span`: the index of
    the query's first token, and the index of the token after the query.
    """

    cte_names: Set[str]
    query_span: tuple[int, int]


class _ReadFinder:
    """A search that adds the tables that a statement reads to `reads`. All methods share one cursor.

    Each method moves the cursor past the tokens that it searches. The parameter `end` is the index of the token after these. `closings`
    maps the index of each opening bracket to the index of its closing bracket. `text_end` is the index of the END token.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor, self.closings = cursor, cursor.tokens.closings
        self.text_end = len(cursor.tokens) - 1
        self.depth = 0
        self.reads: list[Read] = []

    def find_reads_in_statement(self) -> None:
        """Find the tables that a query, an INSERT, another row-level statement, or a DESCRIBE of a table reads."""
        cursor = self.cursor
        if cursor.accept("EXPLAIN"):
            cursor.accept_any("EXTENDED", "FORMATTED", "COST", "CODEGEN", "LOGICAL")
        cte_names = self.find_reads_in_with_list(frozenset()) if cursor.next_is("WITH") else None
        scope = _Scope(cte_names or frozenset(), query_span=(0, self.text_end))
        verb = cursor.key()
        if verb in ("MERGE", "UPDATE", "DELETE") and cursor.key(1) != "(":
            self._find_reads_in_row_statement(scope)
            return
        if verb in ("DESCRIBE", "DESC") and not keywords.accept_describe_query(cursor):
            self._find_described_table(scope)
            return
        if verb == "INSERT":
            self._skip_to_insert_query(scope.cte_names)
        self.find_reads_in_query(self.text_end, scope)

    def _skip_to_insert_query(self, cte_names: Set[str]) -> None:
        """Step from INSERT over the target and the target's clauses to the query whose rows are inserted.

        `cte_names`: the names from WITH lists, which a subquery in the clauses can use.
        """
        cursor = self.cursor
        cursor.expect("INSERT")
        cursor.accept_any("INTO", "OVERWRITE")
        cursor.accept_before_name("TABLE")
        _parse_name(cursor)
        while not cursor.at_end and not expressions.begins_query(cursor):
            if cursor.accept("REPLACE", "WHERE"):
                self._skip_replace_condition(cte_names)
                return
            self._skip_token_or_brackets(cte_names)

    def _skip_replace_condition(self, cte_names: Set[str]) -> None:
        """Step over the condition of REPLACE WHERE. In `id IN (SELECT …) SELECT …`, the first SELECT is part of the condition."""
        while not self.cursor.at_end and not expressions.begins_separate_query(self.cursor):
            self._skip_token_or_brackets(cte_names)

    def _find_described_table(self, scope: _Scope) -> None:
        """Add the table of `DESCRIBE [TABLE] [EXTENDED|FORMATTED] name` to the reads. Ignore other described objects."""
        cursor = self.cursor
        if cursor.key() in _NOT_DESCRIBED:
            return
        cursor.accept_before_name("TABLE")
        cursor.accept_before_name("EXTENDED", "FORMATTED")
        if cursor.token().is_name:
            self._add_table(scope, allows_alias=False)

    def _find_reads_in_row_statement(self, scope: _Scope) -> None:
        """Find the tables that the source of a MERGE and the subqueries of a MERGE, UPDATE or DELETE read."""
        cursor = self.cursor
        verb = cursor.accept_any("MERGE", "UPDATE", "DELETE")
        while cursor.accept_any("WITH", "SCHEMA", "EVOLUTION", "INTO", "FROM"):
            pass  # the parser checks the order of these words
        _parse_name(cursor)  # the target is written, not read
        if verb == "MERGE":
            while not cursor.at_end and not cursor.accept("USING"):  # skips the target's alias
                cursor.index += 1
            self._find_reads_in_relation(scope)
        # The other clauses, such as SET and WHERE, read tables in subqueries only.
        self.find_reads_in_expression(self.text_end, scope.cte_names)

    def find_reads_in_query(self, end: int, scope: _Scope, in_from: bool = False) -> None:
        """Find the tables that a query reads. A query in parentheses is searched by a nested call, up to DEEPEST levels.

        `in_from`: whether the next token is inside a FROM clause, as is the text after `a` in `(a JOIN b, c)`.
        """
        self._enter_level()
        query_start = self.cursor.index
        while self.cursor.index < end:
            # The list is usually at the start of the query, but in `CREATE TABLE a AS WITH b AS (…) SELECT …`, it comes later.
            cte_names = self.find_reads_in_with_list(scope.cte_names) if self.cursor.next_is_keyword("WITH") else None
            if cte_names is None:
                in_from = self._search_at_cursor(scope, query_start, in_from)
            else:  # the query follows its WITH list
                scope, query_start = replace(scope, cte_names=cte_names), self.cursor.index
        self.cursor.index = end
        self._leave_level()

    def _search_at_cursor(self, scope: _Scope, query_start: int, in_from: bool) -> bool:
        """Find the table after the token at the cursor, or the tables in brackets at the cursor, and step over this text.

        For `SELECT id FROM a, b WHERE c`, the calls step over `SELECT`, `id`, `FROM a`, `, b`, `WHERE` and `c`. `in_from`: whether the
        cursor is in a FROM clause, in which a comma also precedes a table.

        Returns:
            Whether the cursor is in a FROM clause after the step. It is after `FROM a` and `, b`, but not after `WHERE`. The words `id` and
            `c` change nothing.
        """
        cursor = self.cursor
        keyword = "" if cursor.key(-1) == "." else cursor.key()  # in `event.from`, `from` is a field, not a keyword
        if keyword == "TABLE" and keywords.begins_table_query(cursor, query_start):
            cursor.index += 1
            self._add_table(scope, allows_alias=False)
            return in_from
        if keywords.precedes_relation(cursor, keyword, in_from):
            cursor.index += 1
            self._find_reads_in_relation(scope)
            return True
        continues_from = in_from and not keywords.ends_from_clause(cursor, keyword)
        self._skip_token_or_brackets(scope.cte_names)
        return continues_from

    def _leave_level(self) -> None:
        """End the level of nesting that the last call of `_enter_level` began."""
        self.depth -= 1

    def _enter_level(self) -> None:
        """Count one more level of nesting. Raise UnsupportedStatement beyond DEEPEST levels, before Python's stack overflows."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.cursor.unsupported(f"Queries are nested more than {DEEPEST} levels deep. Move some of them to a WITH list")

    def find_reads_in_with_list(self, outer_names: Set[str]) -> Set[str] | None:
        """Find the tables that the queries of a WITH list read. Return the lower-case names that are visible to a query after the list.

        These are the names in the list and `outer_names`, the names from the enclosing lists. If WITH does not begin a list, return None
        and do not move the cursor.
        """
        cursor, with_index = self.cursor, self.cursor.index
        if not expressions.accept_with_list(cursor):
            return None
        # The list is complete. Go back to its first name, to search the queries.
        list_end, cursor.index = cursor.index, with_index + 1
        is_recursive = expressions.accept_recursive(cursor)
        visible_names = set(outer_names)
        while cursor.index < list_end:
            name = cursor.token().name.lower()
            cursor.index += 1
            expressions.skip_to_with_query(cursor)
            if is_recursive:  # this query sees its own name
                visible_names.add(name)
            self._find_reads_in_brackets(visible_names, is_query=True)
            visible_names.add(name)  # the queries after this one see its name
            cursor.accept(",")
        return visible_names

    def _find_reads_in_relation(self, scope: _Scope) -> None:
        """Find the tables of one relation, and step over the relation without its alias. Relations in parentheses count as one."""
        cursor = self.cursor
        cursor.accept("LATERAL")
        if cursor.next_is("("):
            self._find_reads_in_parentheses(scope)
        elif cursor.next_is("VALUES") and expressions.begins_query(cursor):
            self._find_reads_in_values_list(scope)
        elif cursor.token().is_name:
            self._add_table(scope, allows_alias=True)

    def _find_reads_in_values_list(self, scope: _Scope) -> None:
        """Find the tables that the subqueries in `VALUES row, row, …` read."""
        cursor, start = self.cursor, self.cursor.index
        expressions.skip_values_list(cursor)  # to know where the list ends
        end, cursor.index = cursor.index, start
        self.find_reads_in_expression(end, scope.cte_names)

    def _find_reads_in_parentheses(self, scope: _Scope) -> None:
        """Find the tables of a relation in parentheses: `(query)` or `(relation JOIN relation …)`."""
        cursor, closing = self.cursor, self.closings[self.cursor.index]
        cursor.index += 1
        if self._is_query(closing):
            self.find_reads_in_query(closing, self._scope_of_subquery(closing, scope.cte_names))
        else:
            self._find_reads_in_joined_relations(closing, scope)
        self._leave_brackets(closing)

    def _find_reads_in_joined_relations(self, end: int, scope: _Scope) -> None:
        """Find the tables of `relation JOIN relation …` or `relation, relation …`. The first relation has no keyword before it."""
        self._enter_level()
        self._find_reads_in_relation(scope)
        self._leave_level()
        # The other relations follow JOIN or a comma, as in the FROM clause of a query.
        self.find_reads_in_query(end, scope, in_from=True)

    def _add_table(self, scope: _Scope, allows_alias: bool) -> None:
        """Parse the next table, and add it to the reads unless its name is that of a query in a WITH list.

        `allows_alias`: whether the grammar allows an alias after the table. `TABLE name` and DESCRIBE do not.
        """
        cursor, start = self.cursor, self.cursor.index
        name = _parse_name(cursor)
        if cursor.next_is("("):
            self._add_table_function(name, start, scope, allows_alias)
            return
        time_travel = expressions.parse_time_travel(cursor)
        end = cursor.index  # the options and TABLESAMPLE after it stay in the text
        read_option = "OPTIONS" if FLINK_HINT.match(cursor.text, cursor.tokens.ends[end - 1]) else None
        if cursor.next_is("WITH", "("):  # options of the read
            read_option = cursor.token(2).text
            cursor.index += 1
            cursor.skip_group()
        expressions.skip_tablesample(cursor)
        is_query_of_with_list = len(name.parts) == 1 and name.parts[0].lower() in scope.cte_names
        if not is_query_of_with_list:
            new_alias_index = _alias_index(cursor, allows_alias)
            self.reads.append(Read(name, start, end, scope.query_span, new_alias_index, time_travel, read_option=read_option))

    def _add_table_function(self, name: TableName, start: int, scope: _Scope, allows_alias: bool) -> None:
        """Add a call of TABLE_CHANGES or READ_FILES to the reads. For any other table function, add the tables in the arguments.

        The engine replaces calls of these two functions, which have no schema, in the same way as tables. The cursor is after `name`, which
        begins at token `start`.
        """
        cursor, is_qualified = self.cursor, len(name.parts) > 1
        if not allows_alias and not is_qualified:  # `TABLE name` and DESCRIBE do not accept a table function
            return
        arguments, files = None, None
        if not is_qualified and name.parts[0].upper() in ("TABLE_CHANGES", "TABLE_CHANGES_BY_PATH"):
            arguments = parse_table_changes_arguments(cursor)
        elif not is_qualified and name.parts[0].upper() == "READ_FILES":
            files = parse_file_source(cursor)
        else:
            self._find_tables_in_arguments(scope)
            return
        end = cursor.index
        expressions.skip_tablesample(cursor)
        new_alias_index = _alias_index(cursor, allows_alias)
        self.reads.append(Read(name, start, end, scope.query_span, new_alias_index, arguments=arguments, files=files))

    def _find_tables_in_arguments(self, scope: _Scope) -> None:
        """Find the tables in the arguments of a table function: `TABLE(name)`, `TABLE name`, and the tables that queries read."""
        cursor, closing = self.cursor, self.closings[self.cursor.index]
        cursor.index += 1
        arguments_scope = replace(scope, query_span=(cursor.index, closing))
        while cursor.index < closing:
            if keywords.accept_table_keyword(cursor):
                self._add_table(arguments_scope, allows_alias=False)
            else:
                self._skip_token_or_brackets(scope.cte_names)
        self._leave_brackets(closing)

    def find_reads_in_expression(self, end: int, cte_names: Set[str]) -> None:
        """Find the tables that the subqueries of an expression or of several clauses read. Subqueries are always in brackets."""
        cursor = self.cursor
        while cursor.index < end:
            closing = self.closings[cursor.index] if cursor.key() in CLOSING else 0
            cursor.index += 1
            if closing and self._is_query(closing):
                self.find_reads_in_query(closing, self._scope_of_subquery(closing, cte_names))
                self._leave_brackets(closing)
        cursor.index = end

    def _skip_token_or_brackets(self, cte_names: Set[str]) -> None:
        """Step over one token, or over brackets. Find the tables that queries in the brackets read."""
        if self.cursor.key() in CLOSING:
            self._find_reads_in_brackets(cte_names)
        else:
            self.cursor.index += 1

    def _find_reads_in_brackets(self, cte_names: Set[str], is_query: bool = False) -> None:
        """Find the tables that queries in brackets read, and step over the brackets. `is_query`: whether only a query is allowed here."""
        cursor, closing = self.cursor, self.closings[self.cursor.index]
        cursor.index += 1
        end = self._enter_inner_parentheses(closing)
        if is_query or self._is_query(end):
            self.find_reads_in_query(end, self._scope_of_subquery(end, cte_names))
        else:
            self.find_reads_in_expression(end, cte_names)
        self._leave_brackets(closing)

    def _enter_inner_parentheses(self, closing: int) -> int:
        """Step from `((query))` into `query`, which counts as one nesting level. Return the index of its closing parenthesis."""
        while self.cursor.next_is("(") and self.closings[self.cursor.index] == closing - 1:
            closing -= 1
            self.cursor.index += 1
        return closing

    def _leave_brackets(self, closing: int) -> None:
        """Step over a closing bracket. A bracket that is not closed ends with the text."""
        self.cursor.index = min(closing + 1, self.text_end)

    def _scope_of_subquery(self, end: int, cte_names: Set[str]) -> _Scope:
        """Return the scope of the query that begins at the next token and ends before token `end`, its closing bracket."""
        return _Scope(cte_names, (self.cursor.index, end))

    def _is_query(self, end: int) -> bool:
        """Return whether the tokens up to `end`, inside brackets, form a query rather than an expression with a subquery."""
        cursor = self.cursor
        if not expressions.begins_query(cursor):
            return False
        if not cursor.next_is("("):
            return True
        following_index = min(self.closings[cursor.index] + 1, end)  # after the parentheses with which the tokens begin
        following = cursor.tokens.keys[following_index]
        return following_index in (end, self.text_end) or following in keywords.ENDS_FROM or following in expressions.BEFORE_BY


def _parse_name(cursor: Cursor) -> TableName:
    """Parse a dotted name. If no name comes next, return a name without parts."""
    start = cursor.index
    if cursor.token().is_name:
        cursor.index += 1
    while cursor.next_is(".") and cursor.token(1).is_name:
        cursor.index += 2
    return TableName(tuple(token.name for token in cursor.tokens[start : cursor.index : 2]))


def _alias_index(cursor: Cursor, allows_alias: bool) -> int | None:
    """Return the index of the next token if a table's alias has to be added before it, otherwise None."""
    return cursor.index if allows_alias and not expressions.alias_follows(cursor) else None
