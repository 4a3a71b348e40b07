"""Table names in queries, expressions and relations replaced by what they are bound to, by position in the user's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rowmerge.commands.files import FileSource
from rowmerge.commands.names import SqlText, TableName
from rowmerge.sql.cursor import Cursor
from rowmerge.sql.function_calls import Edit, ResolveFunction, call_edits, edited
from rowmerge.sql.lexer import Tokens, tokenize
from rowmerge.sql.relations import Read, reads, reads_of_expression, reads_of_relation, with_names
from rowmerge.table.schema import backquote

Resolve = Callable[["TableReference"], str | None]
_HOLDS_QUERY = re.compile(r"\b(?:select|from|table)\b", re.IGNORECASE)
_HOLDS_CALL = re.compile(r"[\w`]\s*\(")


@dataclass(frozen=True)
class TableReference:
    """A table that a text reads, with its time travel. `start` and `end` are the offsets of both together, half open.

    `changes`: the arguments of `table_changes(…)`, when the text reads the change rows of the table that the first of them names; `name`
    is then that of the function. `files`: those of `read_files(…)`; `name` is then the one that it gives them, or the function's.
    `reference`: the branch or tag that the table is read at.
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
        """Whether another version than the newest is meant."""
        return self.version is not None or self.timestamp is not None or self.reference is not None


def references(text: str) -> list[TableReference]:
    """The tables that a query or another statement reads, in the order of the text."""
    cursor = Cursor(tokenize(text))
    return [_reference(cursor, read) for read in _found(cursor, reads)]


def names_of_with(text: str) -> frozenset[str]:
    """The names that a WITH list gives to its queries, in lower case."""
    return with_names(Cursor(tokenize(text)))


def bind(text: str, resolve: Resolve, functions: ResolveFunction | None = None) -> str:
    """The statement with each table's name (and VERSION or TIMESTAMP AS OF) replaced by the quoted name that `resolve` gives, and each
    call of a function that `functions` knows by its value.

    A name for which it gives None stays as written. A replaced table without an alias gets its own last part as one, and columns that
    are qualified by more of its name (`analytics.orders.id`) are cut down to it. Names of WITH lists are no tables; the target of a
    write is left alone. Nothing else of the text changes, and text that Spark would not understand is for Spark to refuse.
    Raises Unparsable for a string, name or comment that is not closed.
    """
    cursor = Cursor(tokenize(text))
    return _bound(cursor, _found(cursor, reads), resolve, functions)


def bind_expression(text: str, resolve: Resolve, functions: ResolveFunction | None = None) -> str:
    """The same for an expression, whose subqueries may read tables; without a subquery and a call it comes back as it is, unread."""
    if not _HOLDS_QUERY.search(text) and (functions is None or not _HOLDS_CALL.search(text)):
        return text
    cursor = Cursor(tokenize(text))
    return _bound(cursor, _found(cursor, reads_of_expression), resolve, functions)


def bind_relation(text: str, resolve: Resolve, *, aliased: bool = False) -> str:
    """The same for what can stand after FROM: `analytics.updates`, `(select …)`, `VALUES (1, 2)`, `a JOIN b`.

    `aliased`: the caller puts an alias after it, so a table at the end of the text gets none here.
    """
    cursor = Cursor(tokenize(text))
    return _bound(cursor, _found(cursor, reads_of_relation), resolve, None, aliased)


def _found(cursor: Cursor, finder: Callable[[Cursor], list[Read]]) -> list[Read]:
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


def _bound(cursor: Cursor, found: list[Read], resolve: Resolve, functions: ResolveFunction | None = None, aliased: bool = False) -> str:
    edits: list[Edit] = []
    replaced: list[tuple[Read, TableName]] = []
    for read in found:
        reference = _reference(cursor, read)
        name = resolve(reference)
        if name is None:
            continue
        edits.append((reference.start, reference.end, name))
        if read.aliasable and not read.aliased:
            replaced.append((read, reference.name))
            if not (aliased and read.tail == len(cursor.tokens) - 1):
                tail = cursor.tokens[read.tail - 1].end
                edits.append((tail, tail, f" AS {backquote(reference.name.parts[-1])}"))
    edits += _cut_qualifiers(cursor.tokens, found, replaced)
    return edited(cursor.text, edits if functions is None else call_edits(cursor, functions, edits))


def _cut_qualifiers(tokens: Tokens, found: list[Read], replaced: list[tuple[Read, TableName]]) -> Iterator[Edit]:
    """Edits that leave only the last part of a replaced table's name before its columns."""
    qualified = [(read, name) for read, name in replaced if len(name.parts) > 1]
    if not qualified:
        return
    tables = {read.first for read in found}
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
