"""The grammar of CONVERT TO DELTA."""

from __future__ import annotations

from rowmerge.commands.maintenance import ConvertToDelta
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.statements.columns import parse_column_definition


def parse_convert(cursor: Cursor) -> ConvertToDelta:
    """Parse ``CONVERT TO DELTA parquet.`path` [NO STATISTICS] [PARTITIONED BY (column type, …)]``.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement names a table, or files of another format.
    """
    token = cursor.token()
    parts = cursor.table_name("parquet and a path in backquotes").parts
    kind = parts[0].lower()
    if len(parts) != 2 or kind not in ("parquet", "iceberg"):
        advice = "Write the folder of its files: CONVERT TO DELTA parquet.`path`"
        raise cursor.unsupported(f"CONVERT TO DELTA of a table by its name is not supported. {advice}", token)
    if kind == "iceberg":
        raise cursor.unsupported("CONVERT TO DELTA of an Iceberg table is not supported. Use CREATE TABLE … USING delta AS SELECT", token)
    has_statistics = not cursor.accept("NO", "STATISTICS")
    columns = cursor.parenthesized(lambda: parse_column_definition(cursor)) if cursor.accept("PARTITIONED", "BY") else ()
    cursor.expect_end("the partition columns")
    return ConvertToDelta(parts[1], columns, has_statistics)
