"""The parser of statements. The result is a command of the engine, or a Query that Spark executes as the user wrote it.

In a query, table names are replaced by names of views at their positions in the text. SQL is never generated from a syntax tree, and Spark
validates every expression.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rowmerge.commands.definitions import CreateTable, DefinitionCommand, Explain, Query
from rowmerge.commands.functions import FunctionCommand
from rowmerge.commands.maintenance import MaintenanceCommand
from rowmerge.commands.names import TableName
from rowmerge.commands.rows import Delete, Insert, Merge, RowCommand, Truncate, Update
from rowmerge.errors import Unparsable
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import begins_query, parse_last_expression
from rowmerge.sql.lexing.lexer import first_word, tokenize
from rowmerge.sql.queries.relations import FLINK_HINT
from rowmerge.sql.statements import analyze, caching, definitions, describe, maintenance, merge, partitioning, procedure_calls, rows
from rowmerge.sql.statements.alterations import alter
from rowmerge.sql.statements.files import convert, copy_into
from rowmerge.table.metadata.partitioning import PartitionField

_Command = RowCommand | DefinitionCommand | MaintenanceCommand | FunctionCommand
Statement = _Command | Query | Explain

_RAW_STATEMENTS = frozenset({"SET", "RESET", "ADD", "LIST", "REFRESH"})
"""The first words of statements whose remaining text Spark does not divide into tokens. A quote in this text can be unclosed."""
_EXPLAINED = ("MERGE", "UPDATE", "DELETE", "INSERT", "WITH", "TRUNCATE", "CREATE", "REPLACE")
_QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
_EXPLAIN_MODES = ("EXTENDED", "FORMATTED", "COST", "CODEGEN", "LOGICAL")
_RULES: dict[tuple[str, ...], Callable[[Cursor], _Command | None]] = {
    ("MERGE",): merge.parse_merge,
    ("UPDATE",): rows.parse_update,
    ("DELETE",): rows.parse_delete,
    ("INSERT",): rows.parse_insert,
    ("WITH",): rows.parse_with_statement,
    ("FROM",): rows.refuse_from_insert,
    ("TRUNCATE", "TABLE"): rows.parse_truncate,
    ("CREATE",): definitions.parse_create,
    ("REPLACE", "TABLE"): partial(definitions.parse_table, or_replace=True),
    ("DROP",): definitions.parse_drop,
    ("ALTER",): alter.parse_alter,
    ("COMMENT", "ON"): alter.parse_comment_on,
    ("DESCRIBE",): describe.parse_describe,
    ("DESC",): describe.parse_describe,
    ("SHOW",): describe.parse_show,
    ("USE",): describe.parse_use,
    ("VACUUM",): maintenance.parse_vacuum,
    ("OPTIMIZE",): maintenance.parse_optimize,
    ("REORG", "TABLE"): maintenance.parse_reorg,
    ("RESTORE",): maintenance.parse_restore,
    ("GENERATE",): maintenance.parse_generate,
    ("COPY", "INTO"): copy_into.parse_copy_into,
    ("CONVERT", "TO", "DELTA"): convert.parse_convert,
    ("FSCK", "REPAIR", "TABLE"): maintenance.parse_repair,
    ("CALL",): procedure_calls.parse_call,
    ("ANALYZE",): analyze.parse_analyze,
    ("CACHE",): caching.parse_cache,
    ("UNCACHE",): caching.parse_uncache,
    ("CLEAR", "CACHE"): caching.parse_clear_cache,
    ("REFRESH",): caching.parse_refresh,
}
"""For the first words of each kind of statement, the function that parses the tokens after these words."""


def parse(text: str, catalogs: tuple[str, ...] = ()) -> Statement:
    """Parse SQL text that contains a single statement. Its expressions, queries and relations remain the user's verbatim text.

    A statement that the engine does not execute becomes a `Query`, without the semicolons at the end. `catalogs`: the names of all catalogs
    in lower case, if there are several.

    Raises:
        Unparsable: The text contains no statement, the statement does not follow the grammar, or a string, name or comment is not closed.
        UnsupportedStatement: The text contains several statements, or the engine does not support this form of the statement.
    """
    try:
        tokens = tokenize(text).without_semicolons()
    except Unparsable:
        if first_word(text) in _RAW_STATEMENTS:  # Spark executes it as it is
            return Query(text)
        raise
    if len(tokens) == 1:  # only the END token
        raise Unparsable("The text contains no statement. Write one", text=text)
    cursor = Cursor(tokens)
    cursor.catalogs = catalogs
    if ";" in tokens.keys and not cursor.next_is("BEGIN"):  # BEGIN … END is a script of statements, which Spark executes
        second_statement = tokens[tokens.keys.index(";") + 1]
        raise cursor.unsupported("A second statement begins here. Execute one statement at a time", second_statement)
    if FLINK_HINT.match(text, tokens.ends[-1]):  # not a part of the query's text
        raise cursor.unsupported("The hint OPTIONS(…) of Flink is not supported. Leave it out, and use VERSION AS OF for another version")
    return _parse_explain(cursor) or _parse_command(cursor) or Query(text[: tokens.ends[-1]])


def parse_table_name(text: str) -> TableName:
    """Parse the name of a table: `orders` or `analytics.orders`, with backquotes around special characters.

    Raises:
        Unparsable: The text is not the name of a table.
    """
    cursor = Cursor(tokenize(text))
    name = cursor.table_name()
    cursor.expect_end("the name of a table")
    return name


def parse_column_name(text: str) -> tuple[str, ...]:
    """Parse the name of a column, or the path of a field in it: `amount`, `target.amount`, `place.city`.

    Raises:
        Unparsable: The text is not a name.
    """
    cursor = Cursor(tokenize(text))
    parts = cursor.path("the name of a column")
    cursor.expect_end("the name of a column")
    return parts


def parse_whole_expression(text: str) -> str:
    """Return an expression without the comments around it. Spark parses the expression itself.

    Raises:
        Unparsable: The text is empty, has a bracket without its counterpart, or a string, name or comment is not closed.
    """
    return parse_last_expression(Cursor(tokenize(text)), "an expression").text


def parse_source(text: str) -> str:
    """Return a relation: the name of a table with its quotes, or a query in parentheses.

    Raises:
        Unparsable: The text is neither the name of a table nor a query.
    """
    cursor = Cursor(tokenize(text))
    if not begins_query(cursor):
        return str(parse_table_name(text))
    command = parse(text)
    if not isinstance(command, Query):
        raise cursor.error("A source is a query or the name of a table, not a statement that changes a table")
    return f"({command.text})"


def parse_partition_field(text: str) -> PartitionField:
    """Parse one field of PARTITIONED BY (…): `day`, `bucket(16, id)`, `days(ts)`.

    Raises:
        Unparsable: The text does not follow the grammar.
        UnsupportedStatement: The engine does not support the transform.
    """
    cursor = Cursor(tokenize(text))
    field = partitioning.parse_partition_field(cursor)
    cursor.expect_end("the partition field")
    return field


def _parse_command(cursor: Cursor) -> _Command | None:
    """Parse a statement that the engine executes. Return None for all other statements."""
    for words, rule in _RULES.items():
        if cursor.accept(*words):
            return rule(cursor)
    return None


def _parse_explain(cursor: Cursor) -> Explain | None:
    """Parse `EXPLAIN [EXTENDED|…]` of a query, or of a command that changes rows or creates a table. Return None for other statements."""
    if not cursor.accept("EXPLAIN"):
        return None
    mode = cursor.accept_any(*_EXPLAIN_MODES)
    explained = Cursor(cursor.tokens.between(cursor.index, len(cursor.tokens) - 1))
    command: _Command | Query | None = _parse_command(explained) if explained.key() in _EXPLAINED else None
    if command is None and cursor.key() in _QUERY_WORDS:
        command = Query(cursor.tokens.text[cursor.token().start : cursor.tokens.ends[-1]])
    cursor.index = 0
    if isinstance(command, CreateTable) and command.query is None:
        raise cursor.unsupported("EXPLAIN of CREATE TABLE needs a query: CREATE TABLE … AS SELECT …")
    explains = Merge | Update | Delete | Insert | Truncate | CreateTable | Query
    return Explain(command, mode) if isinstance(command, explains) else None
