"""Search of a statement for the tables that it reads, by Spark's grammar of relations. Other clauses are stepped over."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from rowmerge.commands.names import FileSource, SqlText
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING, tokenize
from rowmerge.sql.queries.read_files import parse_file_source

_ENDS_FROM = frozenset({"WHERE", "HAVING", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "UNION", "EXCEPT", "MINUS", "INTERSECT", "SELECT", "|>"})
_BEFORE_QUERY = frozenset("AS UNION EXCEPT MINUS INTERSECT ALL DISTINCT EXPLAIN EXTENDED FORMATTED COST CODEGEN QUERY".split())
_READING = frozenset(
    "SELECT WITH FROM TABLE VALUES ( INSERT MERGE UPDATE DELETE CREATE REPLACE CACHE EXPLAIN DESCRIBE DESC SET DECLARE ALTER BEGIN".split()
)
"""What a statement that may hold a query begins with."""
_NOT_DESCRIBED = frozenset({"FUNCTION", "QUERY", "PROCEDURE", "CATALOG", "SCHEMA", "DATABASE", "NAMESPACE"})
DEEPEST = 100
"""So many levels deep may queries, and relations in parentheses, be nested."""


@dataclass(frozen=True)
class Read:
    """One table that a query reads: its name as tokens `first` up to, not including, `last`.

    `end` is the token after the name and its time travel, `tail` the one before which an alias would stand. `block` is the span of
    tokens of the query in which the table's columns can be named. `takes_alias`: the grammar takes an alias here, and none stands there.
    `arguments` are those of the table function TABLE_CHANGES, whose first argument names the table; `files` those of READ_FILES.
    """

    first: int
    last: int
    end: int
    tail: int
    takes_alias: bool
    block: tuple[int, int]
    travel: expressions.TimeTravel | None = None
    arguments: tuple[SqlText, ...] | None = None
    files: FileSource | None = None

    def has_in_block(self, index: int) -> bool:
        """Return whether a token is in the query in which the table's columns can be named."""
        start, end = self.block
        return start <= index < end


def find_reads(cursor: Cursor) -> list[Read]:
    """Return the tables that a statement reads, in the order of the text, without names of WITH lists and the target of a write."""
    finder = _ReadFinder(cursor)
    if cursor.key() in _READING:
        finder.find_in_statement()
    return finder.reads


def find_reads_of_expression(cursor: Cursor) -> list[Read]:
    """Return the tables that the subqueries of an expression read."""
    finder = _ReadFinder(cursor)
    finder.find_in_expression(finder.size, frozenset())
    return finder.reads


def names_of_with(text: str) -> frozenset[str]:
    """Return the names that a WITH list gives to its queries, in lower case."""
    finder = _ReadFinder(Cursor(tokenize(text)))
    return frozenset(finder.find_in_with_list(frozenset()) or ())


@dataclass(frozen=True)
class _Scope:
    """The scope of a query: the names of WITH lists that the query sees, in lower case, and the span of the query's tokens."""

    names: Set[str]
    block: tuple[int, int]


class _ReadFinder:
    """Adds the tables that a statement reads to `reads`. One cursor moves over the tokens.

    Each method steps over the part of the statement that it searches. `end` is the token after this part.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor, self.closing = cursor, cursor.tokens.closings
        self.size = len(cursor.tokens) - 1
        self.depth = 0
        self.reads: list[Read] = []

    def find_in_statement(self) -> None:
        """Search a whole statement: a query, an INSERT, another row-level statement, or a DESCRIBE of a table."""
        cursor = self.cursor
        if cursor.accept("EXPLAIN"):
            cursor.accept_any("EXTENDED", "FORMATTED", "COST", "CODEGEN", "LOGICAL")
        names = self.find_in_with_list(frozenset()) if cursor.next_is("WITH") else None
        scope = _Scope(names or frozenset(), (0, self.size))
        verb = cursor.key()
        if verb in ("MERGE", "UPDATE", "DELETE") and cursor.key(1) != "(":
            self._find_in_row_statement(scope)
            return
        if verb in ("DESCRIBE", "DESC") and not _accept_describe_query(cursor):
            self._find_described_table(scope)
            return
        if verb == "INSERT":
            self._skip_insert_header(scope)
        self.find_in_query(self.size, scope)

    def _skip_insert_header(self, scope: _Scope) -> None:
        """Step from INSERT to its query. After REPLACE WHERE, subqueries of the condition come before the query."""
        cursor = self.cursor
        cursor.index += 1
        cursor.accept_any("INTO", "OVERWRITE")
        cursor.accept_before_name("TABLE")
        _skip_name(cursor)
        at_query = expressions.begins_query
        while not cursor.at_end and not at_query(cursor):
            if cursor.accept("REPLACE", "WHERE"):  # from here on, parentheses with a query can be part of the condition
                at_query = expressions.begins_separate_query
            self._skip(scope.names)

    def _find_described_table(self, scope: _Scope) -> None:
        cursor = self.cursor
        if cursor.key() in _NOT_DESCRIBED:
            return
        cursor.accept_before_name("TABLE")
        cursor.accept_before_name("EXTENDED", "FORMATTED")
        if cursor.token().is_name:
            self._find_table(scope, aliasable=False)

    def _find_in_row_statement(self, scope: _Scope) -> None:
        """Search the source of a MERGE, and the subqueries of MERGE, UPDATE or DELETE."""
        cursor = self.cursor
        verb = cursor.key()
        cursor.index += 1
        while cursor.accept_any("WITH", "SCHEMA", "EVOLUTION", "INTO", "FROM"):
            pass
        _skip_name(cursor)
        if verb == "MERGE":
            self._find_in_merge_source(scope)
        self.find_in_expression(self.size, scope.names)

    def _find_in_merge_source(self, scope: _Scope) -> None:
        """Step over the target's alias, and search the relation after USING."""
        cursor = self.cursor
        while not cursor.at_end and not cursor.next_is("USING"):
            cursor.index += 1
        if cursor.accept("USING"):
            self._find_in_relation(scope)

    def find_in_query(self, end: int, scope: _Scope, in_from: bool = False) -> None:
        """Search a query. With `in_from`, the query begins inside its FROM clause."""
        self._enter_level()
        cursor, query_start = self.cursor, self.cursor.index
        while cursor.index < end:
            key = "" if cursor.key(-1) == "." else cursor.key()  # a field name is no keyword
            if key == "WITH" and (names := self.find_in_with_list(scope.names)) is not None:
                scope, query_start = replace(scope, names=names), cursor.index
            elif key == "TABLE" and _begins_table_query(cursor, query_start):
                cursor.index += 1
                self._find_table(scope, aliasable=False)
            elif _begins_relation(cursor, key, in_from):
                in_from = True
                cursor.index += 1
                self._find_in_relation(scope)
            else:
                in_from = in_from and not _ends_from(cursor, key)
                self._skip(scope.names)
        cursor.index = end
        self.depth -= 1

    def _enter_level(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.cursor.unsupported(f"Queries are nested more than {DEEPEST} levels deep. Name some of them in a WITH list")

    def find_in_with_list(self, names: Set[str]) -> Set[str] | None:
        """Search the queries of a WITH list, and return `names` with those of the list. Return None, and stay, if WITH begins no list."""
        cursor, start = self.cursor, self.cursor.index
        if not expressions.accept_with_list(cursor):
            return None
        list_end, cursor.index = cursor.index, start + 1
        is_recursive = expressions.accept_recursive(cursor)
        visible_names = set(names)  # of the query that is searched next: those before it, and its own if the list is recursive
        while cursor.index < list_end:
            name = cursor.token().name.lower()
            cursor.index += 1
            expressions.skip_to_with_query(cursor)
            if is_recursive:
                visible_names.add(name)
            self._find_in_group(visible_names, is_query=True)
            visible_names.add(name)
            cursor.accept(",")
        return visible_names

    def _find_in_relation(self, scope: _Scope) -> None:
        """Search one relation without its alias. Relations in parentheses are one relation."""
        cursor = self.cursor
        cursor.accept("LATERAL")
        if cursor.next_is("("):
            self._find_in_parentheses(scope)
        elif cursor.next_is("VALUES") and expressions.begins_query(cursor):
            self._find_in_values_list(scope)
        elif cursor.token().is_name:
            self._find_table(scope, aliasable=True)

    def _find_in_values_list(self, scope: _Scope) -> None:
        """Search the subqueries in `VALUES row, row, …`."""
        cursor, start = self.cursor, self.cursor.index
        expressions.skip_values_list(cursor)  # to know where the list ends
        end, cursor.index = cursor.index, start
        self.find_in_expression(end, scope.names)

    def _find_in_parentheses(self, scope: _Scope) -> None:
        """Search `(query)` or `(relation JOIN relation …)`."""
        cursor, end = self.cursor, self.closing[self.cursor.index]
        cursor.index += 1
        if self._holds_query(end):
            self.find_in_query(end, _Scope(scope.names, (cursor.index, end)))
        else:
            self._enter_level()
            self._find_in_relation(scope)
            self.depth -= 1
            self.find_in_query(end, scope, in_from=True)
        cursor.index = min(end + 1, self.size)

    def _find_table(self, scope: _Scope, aliasable: bool) -> None:
        """Add the table or the table function that comes next to the reads, unless its name is one of a WITH list."""
        cursor, first = self.cursor, self.cursor.index
        last = _skip_name(cursor)
        if cursor.next_is("("):
            self._find_in_table_function(first, last, scope, aliasable)
            return
        travel = expressions.parse_time_travel(cursor)
        end = cursor.index
        if cursor.next_is("WITH", "("):
            cursor.index += 1
            cursor.skip_group()
        expressions.skip_sample(cursor)
        is_with_name = last - first == 1 and cursor.tokens[first].name.lower() in scope.names
        if not is_with_name:
            takes_alias = aliasable and not expressions.alias_follows(cursor)
            self.reads.append(Read(first, last, end, cursor.index, takes_alias, scope.block, travel))

    def _find_in_table_function(self, first: int, last: int, scope: _Scope, aliasable: bool) -> None:
        """Add TABLE_CHANGES(…) or READ_FILES(…) to the reads, or search the arguments of another table function."""
        cursor = self.cursor
        is_qualified = last - first > 1
        if not aliasable and not is_qualified:
            return
        name = "" if is_qualified else cursor.tokens[first].name.upper()
        arguments = _parse_changes_arguments(cursor) if name == "TABLE_CHANGES" else None
        files = parse_file_source(cursor) if name == "READ_FILES" else None
        if arguments is None and files is None:
            self._find_in_arguments(scope)
            return
        end = cursor.index
        expressions.skip_sample(cursor)
        takes_alias = not expressions.alias_follows(cursor)
        self.reads.append(Read(first, last, end, cursor.index, takes_alias, scope.block, None, arguments, files))

    def _find_in_arguments(self, scope: _Scope) -> None:
        """Search the arguments of a table function: their queries, and the tables in `TABLE(name)` and `TABLE name`."""
        cursor, closing = self.cursor, self.closing[self.cursor.index]
        cursor.index += 1
        arguments_scope = replace(scope, block=(cursor.index, closing))
        while cursor.index < closing:
            if _accept_before_table_argument(cursor):
                self._find_table(arguments_scope, aliasable=False)
            else:
                self._skip(scope.names)
        cursor.index = min(closing + 1, self.size)

    def find_in_expression(self, end: int, names: Set[str]) -> None:
        """Search anything that holds tables only in the subqueries inside its brackets."""
        cursor = self.cursor
        while cursor.index < end:
            closing = self.closing[cursor.index] if cursor.key() in CLOSING else 0
            cursor.index += 1
            if closing and self._holds_query(closing):
                self.find_in_query(closing, _Scope(names, (cursor.index, closing)))
                cursor.index = min(closing + 1, self.size)
        cursor.index = end

    def _skip(self, names: Set[str]) -> None:
        """Step over one token, or over a bracket whose queries are searched."""
        if self.cursor.key() in CLOSING:
            self._find_in_group(names)
        else:
            self.cursor.index += 1

    def _find_in_group(self, names: Set[str], is_query: bool = False) -> None:
        """Search a bracket. Parentheses that directly enclose other parentheses count as one level."""
        cursor = self.cursor
        end = inner_end = self.closing[cursor.index]
        cursor.index += 1
        while cursor.next_is("(") and self.closing[cursor.index] == inner_end - 1:
            inner_end -= 1
            cursor.index += 1
        if is_query or self._holds_query(inner_end):
            self.find_in_query(inner_end, _Scope(names, (cursor.index, inner_end)))
        else:
            self.find_in_expression(inner_end, names)
        cursor.index = min(end + 1, self.size)

    def _holds_query(self, end: int) -> bool:
        """Return whether the bracket that the cursor is in, up to token `end`, is a query rather than an expression with a subquery."""
        cursor = self.cursor
        if not expressions.begins_query(cursor):
            return False
        if not cursor.next_is("("):
            return True
        after = min(self.closing[cursor.index] + 1, end)
        key = cursor.tokens.keys[after]
        return after in (end, self.size) or key in _ENDS_FROM or key in expressions.BEFORE_BY


def _accept_describe_query(cursor: Cursor) -> bool:
    """Step over DESCRIBE [QUERY], and return whether a query follows."""
    cursor.index += 1
    return (not cursor.next_is("TABLE") and expressions.begins_query(cursor)) or cursor.accept("QUERY")


def _begins_table_query(cursor: Cursor, query_start: int) -> bool:
    """Return whether the keyword TABLE begins the query `TABLE name`, rather than being part of another clause."""
    can_begin_query = cursor.index == query_start or cursor.key(-1) in _BEFORE_QUERY
    return can_begin_query and cursor.token(1).is_name


def _begins_relation(cursor: Cursor, key: str, in_from: bool) -> bool:
    """Return whether a relation follows FROM, JOIN or a comma, rather than FROM being part of DELETE FROM or IS [NOT] DISTINCT FROM."""
    if key != "FROM":
        return key == "JOIN" or (key == "," and in_from)
    is_comparison = cursor.key(-1) == "DISTINCT" and cursor.key(-2) in ("IS", "NOT", "!")
    return cursor.key(-1) != "DELETE" and not is_comparison


def _ends_from(cursor: Cursor, key: str) -> bool:
    """Return whether a keyword ends a FROM clause, rather than being an alias."""
    if cursor.key(-1) == "AS":
        return False
    if key in expressions.BEFORE_BY or key == "LATERAL":
        return cursor.key(1) in ("BY", "VIEW")
    return key in _ENDS_FROM


def _parse_changes_arguments(cursor: Cursor) -> tuple[SqlText, ...]:
    """Parse `(name, start [, end])`, whose arguments are constants."""
    cursor.expect("(")
    arguments = []
    while not cursor.at_end and not cursor.next_is(")"):
        arguments.append(expressions.parse_expression(cursor, "an argument of table_changes", expressions.at_comma))
        cursor.accept(",")
    cursor.expect(")")
    return tuple(arguments)


def _skip_name(cursor: Cursor) -> int:
    """Step over a dotted name, and return the index after it."""
    if cursor.token().is_name:
        cursor.index += 1
    while cursor.next_is(".") and cursor.token(1).is_name:
        cursor.index += 2
    return cursor.index


def _accept_before_table_argument(cursor: Cursor) -> bool:
    """Step to the name in an argument `TABLE name` or `TABLE(name)`. Return False, and stay, at other tokens and at `TABLE(select …)`."""
    if cursor.key(-1) not in ("(", ",", "=>"):
        return False
    if cursor.accept_before_name("TABLE"):
        return True
    if not cursor.next_is("TABLE", "(") or not cursor.token(2).is_name:
        return False
    table_index = cursor.index
    cursor.index += 1
    is_query = expressions.begins_query(cursor)
    cursor.index = table_index if is_query else table_index + 2
    return not is_query
