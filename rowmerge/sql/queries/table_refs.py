"""Replacement of table names in queries and expressions at their positions in the user's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rowmerge.commands.names import FileSource, SqlText, TableName, count_qualifier_parts
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import TimeTravel
from rowmerge.sql.lexing.lexer import Tokens, tokenize
from rowmerge.sql.queries.function_calls import Edit, ResolveFunction, add_call_edits, apply_edits
from rowmerge.sql.queries.relations import Read, find_reads, find_reads_of_expression
from rowmerge.table.metadata.schema import backquote

_Search = Callable[[Cursor], list[Read]]
"""A function that returns the tables that a text reads: `find_reads` for a statement, `find_reads_of_expression` for an expression."""
ResolveTable = Callable[["TableReference"], str | None]
_HOLDS_QUERY = re.compile(r"\b(?:select|from|table)\b", re.IGNORECASE)
_HOLDS_CALL = re.compile(r"[\w`]\s*\(")


@dataclass(frozen=True)
class TableReference:
    """A table that a statement or expression reads. `start` and `end` are the half-open offsets of the name and the time travel.

    `branch_or_tag`: the branch or tag after VERSION AS OF. `changes`: the arguments of `table_changes(…)`, in which case `name` is the name
    of the function. `files`: the files of `read_files(…)`, in which case `name` is the call's argument `name` or the name of the function.
    `read_option`: the name of the first option in WITH (…), or `OPTIONS` for Flink's hint.
    """

    name: TableName
    version: int | None
    timestamp: SqlText | None
    start: int
    end: int
    changes: tuple[SqlText, ...] | None = None
    branch_or_tag: str | None = None
    files: FileSource | None = None
    read_option: str | None = None

    @property
    def has_time_travel(self) -> bool:
        """Return whether the reference specifies a version, a time, a branch or a tag."""
        return self.version is not None or self.timestamp is not None or self.branch_or_tag is not None


def references(text: str) -> list[TableReference]:
    """Return the tables that a statement reads, in text order."""
    cursor = Cursor(tokenize(text))
    return [_table_reference(cursor, read) for read in _find_reads(cursor, find_reads)]


def bind(text: str, resolve_table: ResolveTable, resolve_function: ResolveFunction | None = None) -> str:
    """Replace the tables that a statement reads and the calls of the warehouse's functions, and return the new text.

    Spark executes the text, but does not know the tables of the warehouse. The new text reads temporary views instead of the tables.

    A replaced table without an alias gets the last part of its name as its alias: `FROM analytics.orders` becomes `FROM … AS orders`. The
    alias then qualifies the table's columns: `analytics.orders.id` becomes `orders.id`.

    Args:
        text: The text of one statement.
        resolve_table: A function that returns the quoted name to replace a table and its time travel, or None to keep the text.
        resolve_function: A function that returns the function to which a call refers, or None to keep the call. Omit it to keep all calls.

    Raises:
        Unparsable: A string, a quoted name or a comment is not closed, or a time travel does not follow the grammar.
        UnsupportedStatement: Queries are nested too deeply, or the engine cannot replace the call of an aggregate function.
        PlanError: The arguments of a call do not match the function's parameters.
    """
    return _replace_tables_and_calls(text, find_reads, resolve_table, resolve_function)


def bind_expression(text: str, resolve_table: ResolveTable, resolve_function: ResolveFunction | None = None) -> str:
    """Replace the tables in the subqueries of an expression and the calls of the warehouse's functions, as `bind` does.

    Args:
        text: The text of one expression.
        resolve_table: A function that returns the quoted name to replace a table and its time travel, or None to keep the text.
        resolve_function: A function that returns the function to which a call refers, or None to keep the call. Omit it to keep all calls.
    """
    if not _HOLDS_QUERY.search(text) and (resolve_function is None or not _HOLDS_CALL.search(text)):
        return text
    return _replace_tables_and_calls(text, find_reads_of_expression, resolve_table, resolve_function)


def _find_reads(cursor: Cursor, search: _Search) -> list[Read]:
    """Return the tables that `search` finds. Raise UnsupportedStatement if nested queries exceed Python's recursion limit."""
    try:
        return search(cursor)
    except RecursionError:
        # The caller of the statement has used up most of Python's stack.
        raise cursor.unsupported("Queries are nested too deeply. Move some of them to a WITH list", cursor.tokens[0]) from None


def _table_reference(cursor: Cursor, read: Read) -> TableReference:
    """Return the reference for a table that the search found, with its offsets in the text."""
    tokens, time_travel = cursor.tokens, read.time_travel or TimeTravel()
    name = read.name if read.files is None or read.files.name is None else read.files.name
    start, end = tokens.starts[read.start], tokens.ends[read.end - 1]
    version, timestamp, reference = time_travel.version, time_travel.timestamp, time_travel.reference
    return TableReference(name, version, timestamp, start, end, read.arguments, reference, read.files, read.read_option)


def _replace_tables_and_calls(text: str, search: _Search, resolve_table: ResolveTable, resolve_function: ResolveFunction | None) -> str:
    """Replace the tables that `search` finds, the qualifiers of their columns, and the calls of the warehouse's functions.

    A replaced table without an alias gets the last part of its name as its alias, and longer qualifiers are shortened to the alias::

        SELECT analytics.orders.id, orders.total FROM analytics.orders   -- before
        SELECT orders.id, orders.total FROM `view_1` AS `orders`         -- after, if `resolve_table` returns `view_1` for the table
    """
    cursor = Cursor(tokenize(text))
    reads = _find_reads(cursor, search)
    edits: list[Edit] = []
    aliased_tables: list[_AliasedTable] = []
    for read in reads:
        table = _table_reference(cursor, read)
        replacement = resolve_table(table)
        if replacement is None:
            continue
        edits.append(Edit(table.start, table.end, replacement))
        if read.new_alias_index is not None:  # the table has no alias, and the grammar allows one
            edits.append(_alias_edit(cursor.tokens, read.new_alias_index, table.name.parts[-1]))
            aliased_tables.append(_AliasedTable(read, table.name))
    edits += _qualifier_edits(cursor, aliased_tables, table_starts={read.start for read in reads})
    if resolve_function is not None:
        edits = add_call_edits(cursor, resolve_function, edits)
    return apply_edits(text, edits)


class _AliasedTable(NamedTuple):
    """A table that is read without an alias, and gets the last part of its name as its alias."""

    read: Read
    name: TableName

    def count_qualifier_parts(self, token_index: int, parts: list[str]) -> int:
        """Return how many parts of the dotted name at a token qualify a column of the table: 2 for `analytics.orders.id`, or 0."""
        return count_qualifier_parts(parts, self.name.parts) if self.read.is_read_by_query_of(token_index) else 0

    def is_hidden_by(self, other: _AliasedTable, token_index: int, parts: list[str]) -> bool:
        """Return whether an inner query around a token reads another table with the same alias, which the dotted name does not name."""
        is_inner = other.read.query_span != self.read.query_span and self.read.is_read_by_query_of(other.read.query_span[0])
        has_same_alias = other.name.parts[-1].lower() == self.name.parts[-1].lower()
        is_visible = other.read.is_read_by_query_of(token_index)
        return is_inner and has_same_alias and is_visible and not other.count_qualifier_parts(token_index, parts)


def _alias_edit(tokens: Tokens, new_alias_index: int, alias: str) -> Edit:
    """Return the edit that adds an alias before token `new_alias_index`, directly after the previous token."""
    offset = tokens.ends[new_alias_index - 1]
    return Edit(offset, offset, f" AS {backquote(alias)}")


def _qualifier_edits(cursor: Cursor, aliased_tables: list[_AliasedTable], table_starts: set[int]) -> Iterator[Edit]:
    """Yield an edit for each column `analytics.orders.id` of a table that gets the alias `orders`: it becomes `orders.id`.

    Only the query that reads a table can refer to its columns. If the qualifier matches several tables of the query, it refers to the
    first. `table_starts`: the indices of the tokens at which the names of tables begin. A dotted name there is not a column.

    Raises:
        UnsupportedStatement: The alias `orders` would be that of another table, in the inner query that has the column.
    """
    tokens = cursor.tokens
    tables = [table for table in aliased_tables if len(table.name.parts) > 1]
    if not tables:
        return
    for name_index, parts in _dotted_names(tokens):
        if name_index in table_starts:
            continue
        part_counts = ((table, table.count_qualifier_parts(name_index, parts)) for table in tables)
        # A qualifier of one part is the alias and is kept.
        table, part_count = next(((table, count) for table, count in part_counts if count > 1), (None, 0))
        if table is not None:
            if any(table.is_hidden_by(other, name_index, parts) for other in aliased_tables):
                problem = f"The inner query reads another table called {parts[part_count - 1]}. Give one of the two an alias"
                raise cursor.unsupported(problem, tokens[name_index])
            # Delete the text before the alias. In the 5 tokens of `analytics.orders.id`, the alias is the last of 2 parts, at index 2.
            alias_index = name_index + 2 * (part_count - 1)
            yield Edit(tokens.starts[name_index], tokens.starts[alias_index], "")


def _dotted_names(tokens: Tokens) -> Iterator[tuple[int, list[str]]]:
    """Yield the index of the first token and the parts of each dotted name with at least three parts. A star can be a part."""
    keys = tokens.keys
    for start in range(len(keys)):
        if not tokens.is_name(start) or keys[start - 1] == ".":
            continue
        last = start
        while keys[last + 1] == "." and (tokens.is_name(last + 2) or keys[last + 2] == "*"):
            last += 2
        if last - start > 2:
            yield start, [part.name for part in tokens[start : last + 1 : 2]]
