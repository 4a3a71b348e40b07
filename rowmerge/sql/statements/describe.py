"""The grammar of DESCRIBE, SHOW and USE."""

from __future__ import annotations

from rowmerge.commands.definitions import (
    Describe,
    Detail,
    ListingCommand,
    ShowCatalogs,
    ShowColumns,
    ShowProperties,
    ShowSchemas,
    ShowTables,
    UseSchema,
)
from rowmerge.commands.functions import DescribeFunction, ShowFunctions
from rowmerge.commands.listings import (
    DescribeAsJson,
    DescribeColumn,
    DescribePartition,
    ShowCreateTable,
    ShowPartitions,
    ShowTablePartition,
    TableListing,
)
from rowmerge.commands.names import CATALOGS, TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import begins_query
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.sql.statements.columns import parse_property_key
from rowmerge.sql.statements.definitions import SCHEMA_WORDS
from rowmerge.sql.statements.functions import parse_describe_function, parse_like, parse_show_functions
from rowmerge.sql.statements.rows import parse_partition_values

_DETAILS = {"EXTENDED": Detail.EXTENDED, "FORMATTED": Detail.EXTENDED, "DETAIL": Detail.DETAIL, "HISTORY": Detail.HISTORY}
_NOT_TABLES = ("QUERY", "PROCEDURE", "CATALOG", *SCHEMA_WORDS)


_SCHEMAS = ("SCHEMAS", "DATABASES", "NAMESPACES")


def parse_describe(cursor: Cursor) -> Describe | TableListing | DescribeFunction | None:
    """Parse DESCRIBE of a table, a column, a partition or a function. Return None for queries, schemas and other objects of Spark."""
    if cursor.accept_before_name("FUNCTION"):
        return parse_describe_function(cursor)
    is_query = begins_query(cursor) and not cursor.next_is("TABLE")
    if is_query or cursor.accept_before_name(*_NOT_TABLES):
        return None
    cursor.accept_before_name("TABLE")
    detail = _accept_detail(cursor)
    name = cursor.table_or_path()
    if detail in (Detail.COLUMNS, Detail.EXTENDED) and not cursor.at_end:
        return _parse_part(cursor, name, extended=detail is Detail.EXTENDED)
    limit = cursor.integer("a number of versions") if detail is Detail.HISTORY and cursor.accept("LIMIT") else None
    cursor.expect_end("the table")
    return Describe(name, detail, limit)


def _parse_part(cursor: Cursor, name: TableName, *, extended: bool) -> TableListing:
    """Parse `PARTITION (…)`, a column, or `AS JSON` after the table that DESCRIBE names."""
    if cursor.next_is("PARTITION", "("):
        partition = parse_partition_values(cursor, "DESCRIBE")
        cursor.expect_end("the partition")
        return DescribePartition(name, partition)
    if cursor.accept("AS", "JSON"):
        cursor.expect_end("AS JSON")
        if not extended:
            raise cursor.unsupported("AS JSON needs EXTENDED. Write DESCRIBE EXTENDED … AS JSON")
        return DescribeAsJson(name)
    column_token = cursor.token()
    column, *fields = cursor.path("a column, PARTITION or AS JSON")
    if fields:
        raise cursor.unsupported("DESCRIBE does not describe a field inside a column. Name the column", column_token)
    cursor.expect_end("the column")
    return DescribeColumn(name, column, extended)


def _accept_detail(cursor: Cursor) -> Detail:
    """Step over EXTENDED, FORMATTED, DETAIL or HISTORY before a table's name or path. Return COLUMNS if none comes next."""
    name_follows = cursor.token(1).is_name or cursor.token(1).kind is Kind.STRING
    word = cursor.accept_any(*_DETAILS) if name_follows else ""
    return _DETAILS.get(word, Detail.COLUMNS)


def parse_show(cursor: Cursor) -> ListingCommand | ShowFunctions | None:
    """Parse SHOW for the objects of catalogs, and for catalogs themselves. Return None for other objects of Spark."""
    if cursor.accept("CREATE", "TABLE"):
        return _parse_show_create(cursor)
    subject = cursor.accept_any(*_SCHEMAS, "CATALOGS", "TABLES", "VIEWS", "TABLE", "TBLPROPERTIES", "COLUMNS", "PARTITIONS")
    match subject:
        case "SCHEMAS" | "DATABASES" | "NAMESPACES":
            return _parse_show_schemas(cursor)
        case "CATALOGS":
            return ShowCatalogs(_parse_last_pattern(cursor))
        case "TABLES" | "VIEWS":
            return ShowTables(_parse_optional_schema(cursor), _parse_last_pattern(cursor), views=subject == "VIEWS")
        case "TABLE":
            cursor.expect("EXTENDED")
            return _parse_show_table_extended(cursor)
        case "TBLPROPERTIES":
            return _parse_show_properties(cursor)
        case "COLUMNS":
            return _parse_show_columns(cursor)
        case "PARTITIONS":
            return _parse_show_partitions(cursor)
    return parse_show_functions(cursor)


def parse_use(cursor: Cursor) -> UseSchema:
    """Parse `USE [SCHEMA|DATABASE|NAMESPACE] name`.

    Raises:
        UnsupportedStatement: The statement is USE CATALOG, which names no schema.
    """
    if cursor.next_is("CATALOG") and cursor.token(1).is_name:
        raise cursor.unsupported(f"USE CATALOG is not supported. Name a schema, too: USE {cursor.token(1).name}.default")
    cursor.accept_before_name(*SCHEMA_WORDS)
    name = cursor.schema_name()
    cursor.expect_end("the schema's name")
    return UseSchema(name)


def _parse_show_schemas(cursor: Cursor) -> ShowSchemas | None:
    """Parse `[FROM|IN catalog] [[LIKE] 'pattern']` after SHOW SCHEMAS. Return None for a catalog of Spark."""
    name: str | None = None
    if cursor.accept_any("FROM", "IN"):
        catalog = cursor.path("a catalog")
        name = catalog[0].lower()
        if len(catalog) > 1 or name not in (cursor.catalogs or CATALOGS):
            return None
    return ShowSchemas(_parse_last_pattern(cursor), name if cursor.catalogs else None)


def _parse_optional_schema(cursor: Cursor) -> str | None:
    return cursor.schema_name() if cursor.accept_any("FROM", "IN") else None


def _parse_last_pattern(cursor: Cursor) -> str | None:
    """Parse `[[LIKE] 'pattern']` at the end of the statement."""
    pattern = parse_like(cursor)
    cursor.expect_end("the pattern" if pattern is not None else "SHOW")
    return pattern


def _parse_show_table_extended(cursor: Cursor) -> ShowTables | ShowTablePartition:
    """Parse `[FROM|IN schema] LIKE 'pattern' [PARTITION (…)]` after SHOW TABLE EXTENDED. With PARTITION, the pattern is a table's name."""
    schema = _parse_optional_schema(cursor)
    cursor.expect("LIKE")
    pattern = cursor.string("a pattern")
    partition = parse_partition_values(cursor, "SHOW TABLE EXTENDED")
    cursor.expect_end("the pattern")
    if partition:
        return ShowTablePartition(TableName((pattern,) if schema is None else (schema, pattern)), partition)
    return ShowTables(schema, pattern, extended=True)


def _parse_show_create(cursor: Cursor) -> ShowCreateTable:
    """Parse the name after SHOW CREATE TABLE. Raise UnsupportedStatement for AS SERDE, because the tables are not Hive's."""
    name = cursor.table_name()
    if cursor.next_is("AS", "SERDE"):
        raise cursor.unsupported("AS SERDE describes tables of Hive, and this is a Delta or Iceberg table. Leave AS SERDE out")
    cursor.expect_end("the table")
    return ShowCreateTable(name)


def _parse_show_partitions(cursor: Cursor) -> ShowPartitions:
    """Parse `table [PARTITION (field = value, …)]` after SHOW PARTITIONS."""
    name = cursor.table_name()
    partition = parse_partition_values(cursor, "SHOW PARTITIONS")
    cursor.expect_end("the partition" if partition else "the table")
    return ShowPartitions(name, partition)


def _parse_show_properties(cursor: Cursor) -> ShowProperties:
    """Parse `table [('key')]` after SHOW TBLPROPERTIES."""
    name = cursor.table_name()
    key = None
    if cursor.accept("("):
        key = parse_property_key(cursor)
        cursor.expect(")")
    cursor.expect_end("the table")
    return ShowProperties(name, key)


def _parse_show_columns(cursor: Cursor) -> ShowColumns:
    """Parse `FROM|IN table [FROM|IN schema]` after SHOW COLUMNS."""
    if not cursor.accept_any("FROM", "IN"):
        raise cursor.expected("IN and the name of a table")
    name = cursor.table_name()
    *qualifier, table = name.parts
    schema_token = cursor.token(1)
    schema = _parse_optional_schema(cursor)
    if schema is not None and qualifier and qualifier[-1].lower() != schema.lower():
        raise cursor.error(f"The statement names two schemas: {qualifier[-1]} and {schema}. Keep one", schema_token)
    cursor.expect_end("the table")
    return ShowColumns(name if schema is None else TableName((*qualifier[:-1], schema, table)))
