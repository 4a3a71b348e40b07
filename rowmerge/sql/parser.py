"""One statement's text becomes a command of ours, or a Query for Spark.

The engine executes statements on tables of its catalog. Spark executes every other statement as the user wrote it, and resolves every table
name that the catalog does not have.

Names of views replace table names in a query by their position in the text. The user's SQL is never generated from a tree, and Spark judges
every expression.
"""

from __future__ import annotations

from collections.abc import Callable

from rowmerge.commands.definitions import CreateTable, DefinitionCommand, Query
from rowmerge.commands.explain import Explain
from rowmerge.commands.functions import FunctionCommand
from rowmerge.commands.maintenance import MaintenanceCommand
from rowmerge.commands.names import TableName
from rowmerge.commands.rows import Delete, Insert, Merge, RowCommand, Truncate, Update
from rowmerge.errors import Unparsable
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import first_word, tokenize
from rowmerge.sql.statements import alter, definitions, describe, maintenance, merge, rows
from rowmerge.sql.statements import procedure_calls as call
from rowmerge.sql.statements.partitioning import partition_field
from rowmerge.table.metadata.partitioning import PartitionField

_Command = RowCommand | DefinitionCommand | MaintenanceCommand | FunctionCommand
Statement = _Command | Query | Explain

_RAW = frozenset({"SET", "RESET", "ADD", "LIST", "REFRESH"})
"""Statements whose rest Spark reads as plain text, quotes and all."""
_EXPLAINED = ("MERGE", "UPDATE", "DELETE", "INSERT", "WITH", "TRUNCATE", "CREATE", "REPLACE")
_EXPLAIN_MODES = ("EXTENDED", "FORMATTED", "COST", "CODEGEN", "LOGICAL")
_RULES: dict[tuple[str, ...], Callable[[Cursor], _Command | None]] = {
    ("MERGE",): merge.merge,
    ("UPDATE",): rows.update,
    ("DELETE",): rows.delete,
    ("INSERT",): rows.insert,
    ("WITH",): rows.with_statement,
    ("FROM",): rows.from_statement,
    ("TRUNCATE", "TABLE"): rows.truncate,
    ("CREATE",): definitions.create,
    ("REPLACE", "TABLE"): definitions.replace,
    ("DROP",): definitions.drop,
    ("ALTER",): alter.alter,
    ("COMMENT", "ON"): alter.comment_on,
    ("DESCRIBE",): describe.describe,
    ("DESC",): describe.describe,
    ("SHOW",): describe.show,
    ("USE",): describe.use,
    ("VACUUM",): maintenance.vacuum,
    ("OPTIMIZE",): maintenance.optimize,
    ("REORG", "TABLE"): maintenance.reorg,
    ("RESTORE",): maintenance.restore,
    ("CALL",): call.call,
}


def parse(text: str) -> Statement:
    """The one statement in `text`.

    What begins like a statement of ours becomes its command; expressions, queries and relations in it stay the user's text, character
    for character. Everything else becomes `Query`: the text up to its last token, without a semicolon at the end.
    Raises Unparsable (with line and column) where a statement of ours leaves the grammar, or a string or comment is not closed, and
    UnsupportedStatement for forms that are understood and refused, more than one statement in the text among them.
    """
    try:
        tokens = tokenize(text)
    except Unparsable:
        if first_word(text) in _RAW:
            return Query(text)
        raise
    tokens = tokens.without_semicolons()
    if len(tokens) == 1:
        raise Unparsable("There is no statement here. Write one", text=text)
    cursor = Cursor(tokens)
    if not cursor.sees("BEGIN"):
        _refuse_second(cursor)
    explained = _explain(cursor)
    return explained or _command(cursor) or Query(text[: tokens.ends[-1]])


def parse_table_name(text: str) -> TableName:
    """The table's name in a text that is nothing else: `orders`, `analytics.orders`, with backquotes where needed. Raises Unparsable."""
    cursor = Cursor(tokenize(text))
    name = cursor.table_name()
    cursor.finish("the name of a table")
    return name


def parse_partition_field(text: str) -> PartitionField:
    """A part of PARTITIONED BY (…): `day`, `bucket(16, id)`, `days(ts)`. Raises Unparsable, UnsupportedStatement."""
    cursor = Cursor(tokenize(text))
    field = partition_field(cursor)
    cursor.finish("the partition field")
    return field


def _command(cursor: Cursor) -> _Command | None:
    for ahead in (1, 2):
        words = tuple(cursor.key(at) for at in range(ahead))
        if words in _RULES:
            return _RULES[words](cursor)
    return None


def _explain(cursor: Cursor) -> Explain | None:
    """`EXPLAIN [EXTENDED|…]` of a command that changes rows or makes a table; None for every other statement."""
    if not cursor.accept("EXPLAIN"):
        return None
    mode = cursor.accept_any(*_EXPLAIN_MODES)
    inner = Cursor(cursor.tokens.between(cursor.at, len(cursor.tokens) - 1))
    command = _command(inner) if inner.key() in _EXPLAINED else None
    cursor.at = 0
    if isinstance(command, CreateTable) and command.query is None:
        raise cursor.unsupported("EXPLAIN of CREATE TABLE takes a query: CREATE TABLE … AS SELECT …")
    return Explain(command, mode) if isinstance(command, Merge | Update | Delete | Insert | Truncate | CreateTable) else None


def _refuse_second(cursor: Cursor) -> None:
    if ";" in cursor.tokens.keys:
        second = cursor.tokens[cursor.tokens.keys.index(";") + 1]
        raise cursor.unsupported("A second statement begins here. Send one statement at a time", second)
