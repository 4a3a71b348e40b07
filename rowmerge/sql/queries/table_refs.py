"""Replacement of the table names in queries and expressions, by their positions in the user's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rowmerge.commands.names import FileSource, SqlText, TableName, qualifier_size
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import TimeTravel
from rowmerge.sql.lexing.lexer import Tokens, tokenize
from rowmerge.sql.queries.function_calls import Edit, ResolveFunction, apply_edits, call_edits
from rowmerge.sql.queries.relations import Read, find_reads, find_reads_of_expression
from rowmerge.table.metadata.schema import backquote

_Finder = Callable[[Cursor], list[Read]]
Resolve = Callable[["TableReference"], str | None]
_HOLDS_QUERY = re.compile(r"\b(?:select|from|table)\b", re.IGNORECASE)
_HOLDS_CALL = re.compile(r"[\w`]\s*\(")


@dataclass(frozen=True)
class TableReference:
    """A table that a text reads, with its time travel. `start` and `end`: the offsets of both together in the text, half open.

    `reference`: the branch or tag after VERSION AS OF. `changes`: the arguments of `table_changes(…)`; `name` is then the function's.
    `files`: the files of `read_files(…)`; `name` is then the name that the call gives them, or the function's.
    """

    name: TableName
    version: int | None
    timestamp: SqlText | None
    start: int
    end: int
    changes: tuple[SqlText, ...] | None = None
    reference: str | None = None
    files: FileSource | None = None

    @property
    def timed(self) -> bool:
        """Whether the reference has a version, a time, a branch or a tag."""
        return self.version is not None or self.timestamp is not None or self.reference is not None


def references(text: str) -> list[TableReference]:
    """Return the tables that a statement reads, in the order of the text."""
    cursor = Cursor(tokenize(text))
    return [_table_reference(cursor, read) for read in _find_reads(cursor, find_reads)]


def bind(text: str, resolve: Resolve, functions: ResolveFunction | None = None) -> str:
    """Replace the tables that a statement reads and its function calls. Raise Unparsable for an unclosed string, name or comment.

    `resolve` returns the quoted name that replaces a table with its time travel, and `functions` the function that a call means. Both
    return None to keep the text. A replaced table without an alias gets the last part of its name as alias, and columns that are
    qualified by more of the name (`analytics.orders.id`) keep the last part only.
    """
    return _bind(text, find_reads, resolve, functions)


def bind_expression(text: str, resolve: Resolve, functions: ResolveFunction | None = None) -> str:
    """Replace the tables in the subqueries of an expression, and its function calls, as `bind` does."""
    if not _HOLDS_QUERY.search(text) and (functions is None or not _HOLDS_CALL.search(text)):
        return text
    return _bind(text, find_reads_of_expression, resolve, functions)


def _find_reads(cursor: Cursor, finder: _Finder) -> list[Read]:
    try:
        return finder(cursor)
    except RecursionError:
        # The caller of the statement has used up most of Python's stack.
        raise cursor.unsupported("Queries are nested too deeply. Name some of them in a WITH list", cursor.tokens[0]) from None


def _table_reference(cursor: Cursor, read: Read) -> TableReference:
    tokens, travel = cursor.tokens, read.travel or TimeTravel()
    name = TableName(tuple(token.name for token in tokens[read.first : read.last : 2]))
    if read.files is not None and read.files.name is not None:
        name = read.files.name
    start, end = tokens.starts[read.first], tokens.ends[read.end - 1]
    return TableReference(name, travel.version, travel.timestamp, start, end, read.arguments, travel.reference, read.files)


def _bind(text: str, finder: _Finder, resolve: Resolve, functions: ResolveFunction | None) -> str:
    """Return the text with the tables that `resolve` replaces, their qualifiers before columns, and the calls of functions replaced."""
    cursor = Cursor(tokenize(text))
    reads = _find_reads(cursor, finder)
    edits: list[Edit] = []
    renamed_reads: list[tuple[Read, TableName]] = []
    for read in reads:
        reference = _table_reference(cursor, read)
        replacement = resolve(reference)
        if replacement is None:
            continue
        edits.append(Edit(reference.start, reference.end, replacement))
        if read.takes_alias:
            renamed_reads.append((read, reference.name))
            alias_offset = cursor.tokens.ends[read.tail - 1]
            edits.append(Edit(alias_offset, alias_offset, f" AS {backquote(reference.name.parts[-1])}"))
    edits += _cut_qualifiers(cursor.tokens, reads, renamed_reads)
    return apply_edits(text, edits if functions is None else call_edits(cursor, functions, edits))


def _cut_qualifiers(tokens: Tokens, reads: list[Read], renamed_reads: list[tuple[Read, TableName]]) -> Iterator[Edit]:
    """Yield edits that leave only the last part of a replaced table's name before its columns."""
    qualified_reads = [(read, name) for read, name in renamed_reads if len(name.parts) > 1]
    if not qualified_reads:
        return
    table_indexes = {read.first for read in reads}
    for first, parts in _dotted_names(tokens):
        if first in table_indexes:
            continue
        names_in_scope = (name for read, name in qualified_reads if read.has_in_block(first))
        qualifier_sizes = (qualifier_size(parts, name.parts) for name in names_in_scope)
        # A qualifier of one part is the alias that the replacement has, and stays.
        size = next((size for size in qualifier_sizes if size > 1), 1)
        if size > 1:
            last_qualifier = first + 2 * (size - 1)  # a dot is between two parts
            yield Edit(tokens.starts[first], tokens.starts[last_qualifier], "")


def _dotted_names(tokens: Tokens) -> Iterator[tuple[int, list[str]]]:
    """Yield dotted names of three parts or more: index of the first token, and the parts. A star can be a part."""
    keys = tokens.keys
    for first in range(len(keys)):
        if not tokens.is_name(first) or keys[first - 1] == ".":
            continue
        last = first
        while keys[last + 1] == "." and (tokens.is_name(last + 2) or keys[last + 2] == "*"):
            last += 2
        if last - first > 2:
            yield first, [part.name for part in tokens[first : last + 1 : 2]]
