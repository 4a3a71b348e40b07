"""The grammar of ANALYZE TABLE and ANALYZE TABLES."""

from __future__ import annotations

from rowmerge.commands.maintenance import AnalyzeTable, AnalyzeTables, ComputeDeltaStatistics
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.statements.rows import parse_optional_partition


def parse_analyze(cursor: Cursor) -> AnalyzeTable | AnalyzeTables | ComputeDeltaStatistics:
    """Parse the statement after ANALYZE.

    It is `TABLES [FROM|IN schema] COMPUTE STATISTICS [NOSCAN]`, `TABLE t COMPUTE DELTA STATISTICS`, or
    `TABLE t [PARTITION (…)] COMPUTE STATISTICS [NOSCAN | FOR COLUMNS a, b | FOR ALL COLUMNS]`.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: PARTITION and FOR COLUMNS are combined, as in Spark.
    """
    if cursor.expect_any("TABLE or TABLES") == "TABLES":
        return _parse_tables(cursor)
    name = cursor.table_name()
    partition_token = cursor.token()
    partition = parse_optional_partition(cursor)
    cursor.expect("COMPUTE")
    if not partition and cursor.accept("DELTA"):
        cursor.expect("STATISTICS")
        cursor.expect_end("STATISTICS")
        return ComputeDeltaStatistics(name)
    cursor.expect("STATISTICS")
    columns, all_columns = _parse_columns(cursor)
    cursor.expect_end("STATISTICS")
    if partition and (columns or all_columns):
        raise cursor.unsupported("FOR COLUMNS applies to the whole table. Leave PARTITION out", partition_token)
    return AnalyzeTable(name, partition, columns, all_columns)


def _parse_tables(cursor: Cursor) -> AnalyzeTables:
    """Parse `[FROM|IN schema] COMPUTE STATISTICS [NOSCAN]` after ANALYZE TABLES."""
    schema = cursor.schema_name() if cursor.accept_any("FROM", "IN") else None
    cursor.expect("COMPUTE", "STATISTICS")
    cursor.accept("NOSCAN")
    cursor.expect_end("STATISTICS")
    return AnalyzeTables(schema)


def _parse_columns(cursor: Cursor) -> tuple[tuple[str, ...], bool]:
    """Parse `[NOSCAN | FOR COLUMNS a, b | FOR ALL COLUMNS]`. Return the columns, and whether the statement has ALL."""
    if not cursor.accept("FOR"):
        cursor.accept("NOSCAN")
        return (), False
    if cursor.accept("ALL"):
        cursor.expect("COLUMNS")
        return (), True
    cursor.expect("COLUMNS")
    return cursor.comma_separated(lambda: cursor.identifier("a column")), False
