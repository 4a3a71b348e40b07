"""The grammar of CONVERT TO DELTA."""

from __future__ import annotations

from rowmerge.commands.maintenance import ConvertToDelta
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.statements.columns import parse_column_definition


def parse_convert(cursor: Cursor) -> ConvertToDelta:
    """Parse `name`, ``parquet.`path` `` or ``iceberg.`path` ``, and `[NO STATISTICS] [PARTITIONED BY (column type, …)]`.

    Raises:
        Unparsable: The statement does not follow the grammar.
    """
    source = cursor.table_name("parquet or iceberg and a path in backquotes, or the name of a table")
    has_statistics = not cursor.accept("NO", "STATISTICS")
    columns = cursor.parenthesized(lambda: parse_column_definition(cursor)) if cursor.accept("PARTITIONED", "BY") else ()
    cursor.expect_end("the partition columns")
    return ConvertToDelta(source, columns, has_statistics)
