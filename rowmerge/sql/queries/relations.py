"""Search of a statement for the tables that it reads, by Spark's grammar of relations. Other clauses are stepped over."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from rowmerge.commands.files import FileSource
from rowmerge.commands.names import SqlText
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import (
    TimeTravel,
    begins_query,
    ends_relation,
    expression,
    query_follows,
    sample,
    time_travel,
    until_comma,
    values_list,
    with_group,
    with_list,
)
from rowmerge.sql.lexing.lexer import CLOSING
from rowmerge.sql.queries.read_files import file_source

TABLE_CHANGES = "TABLE_CHANGES"
READ_FILES = "READ_FILES"
_ENDS_FROM = frozenset({"WHERE", "HAVING", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "UNION", "EXCEPT", "MINUS", "INTERSECT", "SELECT", "|>"})
_BY = frozenset({"GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"})
_BEFORE_QUERY = frozenset(
    {"AS", "UNION", "EXCEPT", "MINUS", "INTERSECT", "ALL", "DISTINCT", "EXPLAIN", "EXTENDED", "FORMATTED", "COST", "CODEGEN", "QUERY"}
)
_READING = frozenset(
    "SELECT WITH FROM TABLE VALUES ( INSERT MERGE UPDATE DELETE CREATE REPLACE CACHE EXPLAIN DESCRIBE DESC SET DECLARE ALTER BEGIN".split()
)
"""What a statement that may hold a query begins with."""
_NOT_DESCRIBED = frozenset({"FUNCTION", "QUERY", "PROCEDURE", "CATALOG", "SCHEMA", "DATABASE", "NAMESPACE"})
DEEPEST = 100
"""So many levels deep may queries, and relations in parentheses, be nested."""
_Names = Set[str]


@dataclass(frozen=True)
class Read:
    """One table that a query reads: its name as tokens `first` up to, not including, `last`.

    `end` is the token after the name and its time travel, `tail` the one before which an alias would stand. `block` is the span of
    tokens of the query in which the table's columns can be named. `aliasable` says whether the grammar takes an alias here.
    `arguments` are there when the name is that of the table function TABLE_CHANGES, which reads a table that its first argument names;
    `files` when it is that of READ_FILES.
    """

    first: int
    last: int
    end: int
    tail: int
    travel: TimeTravel | None
    aliased: bool
    aliasable: bool
    block: tuple[int, int]
    arguments: tuple[SqlText, ...] | None = None
    files: FileSource | None = None


def reads(cursor: Cursor) -> list[Read]:
    """Return the tables that a statement reads, in the order of the text, without names of WITH lists and the target of a write."""
    finder = _Finder(cursor)
    if cursor.key() in _READING:
        finder.statement()
    return finder.reads


def reads_of_expression(cursor: Cursor) -> list[Read]:
    """Return the tables that the subqueries of an expression read."""
    finder = _Finder(cursor)
    finder.expression(finder.size, frozenset())
    return finder.reads


def with_names(cursor: Cursor) -> frozenset[str]:
    """Return the names of a WITH list, in lower case."""
    return frozenset(_Finder(cursor).with_names(frozenset()))


class _Finder:
    """Moves one cursor over the tokens; each method handles the tokens up to `end` at one depth of brackets."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.size = len(cursor.tokens) - 1
        self.depth = 0
        self.reads: list[Read] = []
        self.closing = cursor.tokens.closings

    # -------------------------------------------------------------- statements

    def statement(self) -> None:
        cursor, whole = self.cursor, (0, self.size)
        if cursor.accept("EXPLAIN"):
            cursor.accept_any("EXTENDED", "FORMATTED", "COST", "CODEGEN", "LOGICAL")
        names: _Names = self.with_names(frozenset()) if cursor.sees("WITH") else frozenset()
        verb = cursor.key()
        if verb == "INSERT":
            self._insert_header(names)
        elif verb in ("DESCRIBE", "DESC") and not self._describes_query():
            return
        elif verb in ("MERGE", "UPDATE", "DELETE") and cursor.key(1) != "(":
            self._row_statement(names, whole)
            return
        self.query(self.size, names, whole)

    def _insert_header(self, names: _Names) -> None:
        cursor = self.cursor
        cursor.at += 1
        cursor.accept_any("INTO", "OVERWRITE")
        if cursor.sees("TABLE") and cursor.token(1).is_name:
            cursor.at += 1
        self._name()
        begins = begins_query
        while not cursor.ended and not begins(cursor):
            if cursor.accept("REPLACE", "WHERE"):
                begins = query_follows
            self.skip(names)

    def _describes_query(self) -> bool:
        """Whether a query is described; a table that is described is read here."""
        cursor = self.cursor
        cursor.at += 1
        if not cursor.sees("TABLE") and begins_query(cursor):
            return True
        if cursor.accept("QUERY"):
            return True
        if cursor.key() in _NOT_DESCRIBED:
            return False
        if cursor.sees("TABLE") and cursor.token(1).is_name:
            cursor.at += 1
        if cursor.key() in ("EXTENDED", "FORMATTED") and cursor.token(1).is_name:
            cursor.at += 1
        if cursor.token().is_name:
            self._table(frozenset(), (0, self.size), aliasable=False)
        return False

    def _row_statement(self, names: _Names, block: tuple[int, int]) -> None:
        cursor = self.cursor
        merging = cursor.key() == "MERGE"
        cursor.at += 1
        while not cursor.ended and cursor.key() in ("WITH", "SCHEMA", "EVOLUTION", "INTO", "FROM"):
            cursor.at += 1
        self._name()
        while merging and not cursor.ended:
            if cursor.accept("USING"):
                self.relation(names, block)
                break
            cursor.at += 1
        self.expression(self.size, names)

    # -------------------------------------------------------------- queries

    def query(self, end: int, names: _Names, block: tuple[int, int], in_from: bool = False) -> None:
        """A query up to token `end`; `in_from` says that its FROM clause is open already."""
        self._begin_level()
        cursor, start = self.cursor, self.cursor.at
        starting = True
        while cursor.at < end:
            key = cursor.key() if cursor.at == 0 or cursor.key(-1) != "." else ""
            if key == "WITH" and (known := self.with_names(names)) is not names:
                names, starting = known, True
                continue
            if key == "TABLE" and (starting or cursor.key(-1) in _BEFORE_QUERY) and cursor.token(1).is_name:
                cursor.at += 1
                self._table(names, block, aliasable=False)
            elif self._opens_from(key) or key == "JOIN" or (key == "," and in_from):
                in_from = True
                cursor.at += 1
                self.relation(names, block)
            else:
                if self._ends_from(key):
                    in_from = False
                self.skip(names)
            starting = cursor.at == start
        cursor.at = end
        self.depth -= 1

    def _begin_level(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.cursor.unsupported(f"Queries are nested more than {DEEPEST} levels deep. Name some of them in a WITH list")

    def _opens_from(self, key: str) -> bool:
        if key != "FROM" or self.cursor.key(-1) == "DELETE":
            return False
        return not (self.cursor.key(-1) == "DISTINCT" and self.cursor.key(-2) in ("IS", "NOT", "!"))

    def _ends_from(self, key: str) -> bool:
        if self.cursor.at and self.cursor.key(-1) == "AS":
            return False
        if key in _BY or key == "LATERAL":
            return self.cursor.key(1) in ("BY", "VIEW")
        return key in _ENDS_FROM

    def with_names(self, names: _Names) -> _Names:
        """If the cursor is at a WITH list, search its queries and return `names` with the names of the list. Otherwise return `names`."""
        cursor, start = self.cursor, self.cursor.at
        if not with_list(cursor):
            return names
        after, cursor.at = cursor.at, start + 1
        recursive = cursor.sees("RECURSIVE") and cursor.token(1).is_name and cursor.key(1) != "AS"
        cursor.at += recursive
        known = set(names)  # a query sees the names before it, which are those that are in the set when it is searched
        while cursor.at < after:
            name = cursor.token().name.lower()
            cursor.at += 1
            with_group(cursor)
            if recursive:
                known.add(name)
            self.group(known, is_query=True)
            known.add(name)
            cursor.at += 1
        cursor.at = after
        return known

    # -------------------------------------------------------------- relations

    def relation(self, names: _Names, block: tuple[int, int]) -> None:
        """One relation without its alias, and all that stand in its parentheses."""
        cursor = self.cursor
        cursor.accept("LATERAL")
        if cursor.sees("("):
            end = self.closing[cursor.at]
            cursor.at += 1
            if self._holds_query(end):
                self.query(end, names, (cursor.at, end))
            else:
                self._begin_level()
                self.relation(names, block)
                self.depth -= 1
                self.query(end, names, block, in_from=True)
            cursor.at = min(end + 1, self.size)
        elif cursor.sees("VALUES") and begins_query(cursor):
            self._values(names)
        elif cursor.token().is_name:
            self._table(names, block, aliasable=True)

    def _values(self, names: _Names) -> None:
        cursor, start = self.cursor, self.cursor.at
        values_list(cursor)
        end, cursor.at = cursor.at, start
        self.expression(end, names)

    def _table(self, names: _Names, block: tuple[int, int], aliasable: bool) -> None:
        cursor, first = self.cursor, self.cursor.at
        last = self._name()
        if cursor.sees("("):
            function = cursor.tokens[first].name.upper() if aliasable and first + 1 == last else ""
            if function == TABLE_CHANGES:
                self._changes(first, block)
            elif function == READ_FILES:
                files = file_source(cursor)
                end = cursor.at
                sample(cursor)
                self.reads.append(Read(first, last, end, cursor.at, None, self._aliased(), True, block, files=files))
            elif aliasable or first + 1 != last:
                self._arguments(names)
            return
        travel = time_travel(cursor)
        end = cursor.at
        if cursor.sees("WITH", "("):
            cursor.at += 1
            cursor.skip_group()
        sample(cursor)
        known = last - first == 1 and cursor.tokens[first].name.lower() in names
        if not known:
            self.reads.append(Read(first, last, end, cursor.at, travel, self._aliased(), aliasable, block))

    def _aliased(self) -> bool:
        return self.cursor.sees("AS") or (self.cursor.token().is_name and not ends_relation(self.cursor))

    def _changes(self, first: int, block: tuple[int, int]) -> None:
        """`TABLE_CHANGES(name, start [, end])`, whose arguments are constants."""
        cursor = self.cursor
        cursor.at += 1
        arguments = []
        while not cursor.ended and not cursor.sees(")"):
            arguments.append(expression(cursor, "an argument of table_changes", until_comma))
            cursor.accept(",")
        cursor.expect(")")
        end = cursor.at
        sample(cursor)
        self.reads.append(Read(first, first + 1, end, cursor.at, None, self._aliased(), True, block, tuple(arguments)))

    def _name(self) -> int:
        """Step over a dotted name; the index after it."""
        cursor = self.cursor
        if cursor.token().is_name:
            cursor.at += 1
        while cursor.sees(".") and cursor.token(1).is_name:
            cursor.at += 2
        return cursor.at

    def _arguments(self, names: _Names) -> None:
        """The arguments of a table function, where TABLE(name) is a table too."""
        cursor, end = self.cursor, self.closing[self.cursor.at]
        block = (cursor.at + 1, end)
        while cursor.at < end:
            cursor.at += 1
            if not cursor.sees("TABLE") or cursor.key(-1) not in ("(", ",", "=>"):
                if cursor.key() in CLOSING:
                    self.group(names)
                    cursor.at -= 1
            elif cursor.token(1).is_name or (cursor.key(1) == "(" and cursor.token(2).is_name and not self._query_ahead(1)):
                cursor.at += 1 if cursor.token(1).is_name else 2
                self._table(names, block, aliasable=False)
                cursor.at -= 1
        cursor.at = min(end + 1, self.size)

    def _query_ahead(self, ahead: int) -> bool:
        self.cursor.at += ahead
        try:
            return begins_query(self.cursor)
        finally:
            self.cursor.at -= ahead

    # -------------------------------------------------------------- expressions

    def expression(self, end: int, names: _Names) -> None:
        """Anything up to token `end` that holds tables only in the subqueries inside its brackets."""
        cursor = self.cursor
        while cursor.at < end:
            closing = self.closing[cursor.at] if cursor.key() in CLOSING else 0
            cursor.at += 1
            if closing and self._holds_query(closing):
                self.query(closing, names, (cursor.at, closing))
                cursor.at = min(closing + 1, self.size)
        cursor.at = end

    def skip(self, names: _Names) -> None:
        """Step over one token, or over a bracket with the queries inside it."""
        if self.cursor.key() in CLOSING:
            self.group(names)
        else:
            self.cursor.at += 1

    def group(self, names: _Names, is_query: bool = False) -> None:
        """Step over a bracket; parentheses that hold nothing but others are one."""
        cursor = self.cursor
        end = inner = self.closing[cursor.at]
        cursor.at += 1
        while cursor.sees("(") and self.closing[cursor.at] == inner - 1:
            inner -= 1
            cursor.at += 1
        if is_query or self._holds_query(inner):
            self.query(inner, names, (cursor.at, inner))
        else:
            self.expression(inner, names)
        cursor.at = min(end + 1, self.size)

    def _holds_query(self, end: int) -> bool:
        cursor = self.cursor
        if not begins_query(cursor):
            return False
        if not cursor.sees("("):
            return True
        after = min(self.closing[cursor.at] + 1, end)
        key = cursor.tokens.keys[after]
        return after in (end, self.size) or key in _ENDS_FROM or key in _BY
