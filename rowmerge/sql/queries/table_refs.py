"""Replacement of the table names in queries and expressions, by their positions in the user's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rowmerge.commands.files import FileSource
from rowmerge.commands.names import SqlText, TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import Tokens, tokenize
from rowmerge.sql.queries.function_calls import Edit, ResolveFunction, call_edits, edited
from rowmerge.sql.queries.relations import Read, reads, reads_of_expression, with_names
from rowmerge.table.metadata.schema import backquote

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
    return [_reference(cursor, read) for read in _find_reads(cursor, reads)]


def names_of_with(text: str) -> frozenset[str]:
    """Return the names that a WITH list gives to its queries, in lower case."""
    return with_names(Cursor(tokenize(text)))


def bind(text: str, resolve: Resolve, functions: ResolveFunction | None = None) -> str:
    """Replace the tables and function calls of a statement.

    A replaced table without an alias gets the last part of its name as alias, and columns that are qualified by more of the name
    (`analytics.orders.id`) keep the last part only. Names of WITH lists and the target of a write are not replaced.

    Args:
        text: the statement.
        resolve: returns the quoted name that replaces a table with its time travel, or None to keep both as written.
        functions: returns the function that a call means, or None to keep the call.

    Raises:
        Unparsable: a string, name or comment is not closed. Spark rejects any other text that it does not understand.
    """
    cursor = Cursor(tokenize(text))
    return _bind_reads(cursor, _find_reads(cursor, reads), resolve, functions)


def bind_expression(text: str, resolve: Resolve, functions: ResolveFunction | None = None) -> str:
    """Replace the tables in the subqueries of an expression, and its function calls, as `bind` does."""
    if not _HOLDS_QUERY.search(text) and (functions is None or not _HOLDS_CALL.search(text)):
        return text
    cursor = Cursor(tokenize(text))
    return _bind_reads(cursor, _find_reads(cursor, reads_of_expression), resolve, functions)


def _find_reads(cursor: Cursor, finder: Callable[[Cursor], list[Read]]) -> list[Read]:
    try:
        return finder(cursor)
    except RecursionError:
        # The caller of the statement has used up most of Python's stack.
        raise cursor.unsupported("Queries are nested too deeply. Name some of them in a WITH list", cursor.tokens[0]) from None


def _reference(cursor: Cursor, read: Read) -> TableReference:
    parts = tuple(token.name for token in cursor.tokens[read.first : read.last : 2])
    if read.files is not None and read.files.name is not None:
        parts = read.files.name.parts
    travel = read.travel
    start, end = cursor.tokens[read.first].start, cursor.tokens[read.end - 1].end
    version, timestamp, named = (travel.version, travel.timestamp, travel.reference) if travel else (None, None, None)
    return TableReference(TableName(parts), version, timestamp, start, end, read.arguments, named, read.files)


def _bind_reads(cursor: Cursor, table_reads: list[Read], resolve: Resolve, functions: ResolveFunction | None) -> str:
    edits: list[Edit] = []
    replaced: list[tuple[Read, TableName]] = []
    for read in table_reads:
        reference = _reference(cursor, read)
        name = resolve(reference)
        if name is None:
            continue
        edits.append((reference.start, reference.end, name))
        if read.aliasable and not read.aliased:
            replaced.append((read, reference.name))
            tail = cursor.tokens[read.tail - 1].end
            edits.append((tail, tail, f" AS {backquote(reference.name.parts[-1])}"))
    edits += _cut_qualifiers(cursor.tokens, table_reads, replaced)
    return edited(cursor.text, edits if functions is None else call_edits(cursor, functions, edits))


def _cut_qualifiers(tokens: Tokens, table_reads: list[Read], replaced: list[tuple[Read, TableName]]) -> Iterator[Edit]:
    """Yield edits that leave only the last part of a replaced table's name before its columns."""
    qualified = [(read, name) for read, name in replaced if len(name.parts) > 1]
    if not qualified:
        return
    tables = {read.first for read in table_reads}
    for first, chain in _chains(tokens):
        if first in tables:
            continue
        for read, name in qualified:
            shared = _shared(chain, name) if read.block[0] <= first < read.block[1] else 0
            if shared > 1:
                yield tokens[first].start, tokens[first + 2 * (shared - 1)].start, ""
                break


def _chains(tokens: Tokens) -> Iterator[tuple[int, list[str]]]:
    """Dotted names of three parts or more, a star counting as the last: index of the first token, and the parts in lower case."""
    at, keys = 0, tokens.keys
    while at < len(keys):
        first = at
        while tokens.is_name(at) or (at > first and keys[at] == "*"):
            if keys[at + 1] != ".":
                break
            at += 2
        last = at if tokens.is_name(at) or keys[at] == "*" else at - 2
        if last - first > 2 and (not first or keys[first - 1] != "."):
            yield first, [part.name.lower() for part in tokens[first : last + 1 : 2]]
        at += 1


def _shared(chain: list[str], name: TableName) -> int:
    """How many parts of a column's name are the end of the table's name, at least one part being left for the column."""
    parts = [part.lower() for part in name.parts]
    for size in range(len(parts), 1, -1):
        if len(chain) > size and chain[:size] == parts[-size:]:
            return size
    return 0
