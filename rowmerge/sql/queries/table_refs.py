"""Replacement of the table names in queries and expressions, by their positions in the user's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rowmerge.commands.names import FileSource, SqlText, TableName, qualifier_size
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import TimeTravel
from rowmerge.sql.lexing.lexer import Tokens, tokenize
from rowmerge.sql.queries.function_calls import Edit, ResolveFunction, add_call_edits, apply_edits
from rowmerge.sql.queries.relations import Read, find_reads, find_reads_of_expression
from rowmerge.table.metadata.schema import backquote

_Finder = Callable[[Cursor], list[Read]]
Resolve = Callable[["TableReference"], str | None]
_HOLDS_QUERY = re.compile(r"\b(?:select|from|table)\b", re.IGNORECASE)
_HOLDS_CALL = re.compile(r"[\w`]\s*\(")


@dataclass(frozen=True)
class TableReference:
    """A table that a text reads, with its time travel. `start` and `end` are the offsets of both together in the text, half open.

    `reference`: the branch or tag after VERSION AS OF. `changes`: the arguments of `table_changes(…)`; `name` is then the function's.
    `files`: the files of `read_files(…)`; `name` is then the argument `name` of the call, or else the function's name.
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
        """Return whether the reference has a version, a time, a branch or a tag."""
        return self.version is not None or self.timestamp is not None or self.reference is not None


def references(text: str) -> list[TableReference]:
    """Return the tables that a statement reads, in the order of the text."""
    cursor = Cursor(tokenize(text))
    return [_table_reference(cursor, read) for read in _find_reads(cursor, find_reads)]


def bind(text: str, resolve: Resolve, functions: ResolveFunction | None = None) -> str:
    """Replace the tables that a statement reads and the calls of the warehouse's functions, and return the new text.

    A replaced table without an alias gets the last part of its name as alias. Columns that are qualified by more of the name
    (`analytics.orders.id`) keep only the last part of the qualifier.

    Args:
        text: The text of one statement.
        resolve: Returns the quoted name that replaces a table with its time travel, or None to keep the text.
        functions: Returns the function that a call means, or None to keep the call. None keeps all calls.

    Raises:
        Unparsable: A string, a quoted name or a comment is not closed, or a time travel does not follow the grammar.
        UnsupportedStatement: Queries are nested too deeply, or the engine cannot replace the call of an aggregate function.
        PlanError: The arguments of a call do not fit the function.
    """
    return _replace_tables_and_calls(text, find_reads, resolve, functions)


def bind_expression(text: str, resolve: Resolve, functions: ResolveFunction | None = None) -> str:
    """Replace the tables in the subqueries of an expression and the calls of the warehouse's functions, as `bind` does.

    Args:
        text: The text of one expression.
        resolve: Returns the quoted name that replaces a table with its time travel, or None to keep the text.
        functions: Returns the function that a call means, or None to keep the call. None keeps all calls.
    """
    if not _HOLDS_QUERY.search(text) and (functions is None or not _HOLDS_CALL.search(text)):
        return text
    return _replace_tables_and_calls(text, find_reads_of_expression, resolve, functions)


def _find_reads(cursor: Cursor, finder: _Finder) -> list[Read]:
    """Return the tables that `finder` finds. Raise UnsupportedStatement if the nested queries exceed Python's stack."""
    try:
        return finder(cursor)
    except RecursionError:
        # The caller of the statement has used up most of Python's stack.
        raise cursor.unsupported("Queries are nested too deeply. Name some of them in a WITH list", cursor.tokens[0]) from None


def _table_reference(cursor: Cursor, read: Read) -> TableReference:
    """Return the table of a read with its offsets in the text."""
    tokens, travel = cursor.tokens, read.travel or TimeTravel()
    name = read.name if read.files is None or read.files.name is None else read.files.name
    start, end = tokens.starts[read.start], tokens.ends[read.end - 1]
    return TableReference(name, travel.version, travel.timestamp, start, end, read.arguments, travel.reference, read.files)


def _replace_tables_and_calls(text: str, finder: _Finder, resolve: Resolve, functions: ResolveFunction | None) -> str:
    """Replace the tables of a text, the qualifiers of their columns, and the calls of functions, as `bind` does.

    `finder` returns the tables that the text reads.
    """
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
        if read.alias_index is not None:
            renamed_reads.append((read, reference.name))
            alias_offset = cursor.tokens.ends[read.alias_index - 1]  # directly behind the token before it
            edits.append(Edit(alias_offset, alias_offset, f" AS {backquote(reference.name.parts[-1])}"))
    edits += _qualifier_edits(cursor.tokens, reads, renamed_reads)
    return apply_edits(text, edits if functions is None else add_call_edits(cursor, functions, edits))


def _qualifier_edits(tokens: Tokens, reads: list[Read], renamed_reads: list[tuple[Read, TableName]]) -> Iterator[Edit]:
    """Yield an edit for each column `analytics.orders.id` of a table that has the alias `orders` now: it becomes `orders.id`."""
    qualified_reads = [(read, name) for read, name in renamed_reads if len(name.parts) > 1]
    if not qualified_reads:
        return
    table_starts = {read.start for read in reads}
    for start, parts in _dotted_names(tokens):
        qualifier_sizes = [qualifier_size(parts, name.parts) for read, name in qualified_reads if read.is_read_by_query_of(start)]
        long_sizes = [size for size in qualifier_sizes if size > 1]  # a qualifier of one part is the alias, and stays
        if long_sizes and start not in table_starts:
            alias_index = start + 2 * (long_sizes[0] - 1)  # every second token is a dot
            yield Edit(tokens.starts[start], tokens.starts[alias_index], "")


def _dotted_names(tokens: Tokens) -> Iterator[tuple[int, list[str]]]:
    """Yield dotted names of three parts or more: index of the first token, and the parts. A star can be a part."""
    keys = tokens.keys
    for start in range(len(keys)):
        if not tokens.is_name(start) or keys[start - 1] == ".":
            continue
        last = start
        while keys[last + 1] == "." and (tokens.is_name(last + 2) or keys[last + 2] == "*"):
            last += 2
        if last - start > 2:
            yield start, [part.name for part in tokens[start : last + 1 : 2]]
