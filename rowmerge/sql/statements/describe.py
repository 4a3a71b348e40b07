"""The grammar of DESCRIBE, SHOW and USE."""

from __future__ import annotations

from rowmerge.commands.definitions import Describe, Detail, ShowColumns, ShowProperties, ShowSchemas, ShowTables, UseSchema
from rowmerge.commands.functions import DescribeFunction, ShowFunctions
from rowmerge.commands.names import CATALOGS, TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import begins_query
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.sql.statements.columns import parse_property_key
from rowmerge.sql.statements.definitions import SCHEMA_WORDS, parse_schema_name
from rowmerge.sql.statements.functions import parse_describe_function, parse_like, parse_show_functions

_DETAILS = {"EXTENDED": Detail.EXTENDED, "FORMATTED": Detail.EXTENDED, "DETAIL": Detail.DETAIL, "HISTORY": Detail.HISTORY}
_NOT_TABLES = ("QUERY", "PROCEDURE", "CATALOG", *SCHEMA_WORDS)


def parse_describe(cursor: Cursor) -> Describe | DescribeFunction | None:
    """Parse DESCRIBE of a table or a function. Return None for queries, columns, schemas and other objects, which Spark describes."""
    if cursor.accept_before_name("FUNCTION"):
        return parse_describe_function(cursor)
    is_query = begins_query(cursor) and not cursor.next_is("TABLE")
    if is_query or cursor.accept_before_name(*_NOT_TABLES):
        return None
    cursor.accept_before_name("TABLE")
    detail = _accept_detail(cursor)
    name = cursor.table_or_path()
    if detail in (Detail.COLUMNS, Detail.EXTENDED) and not cursor.at_end:
        return None  # the name of a column, or a partition, follows
    limit = cursor.integer("a number of versions") if detail is Detail.HISTORY and cursor.accept("LIMIT") else None
    cursor.expect_end("the table")
    return Describe(name, detail, limit)


def _accept_detail(cursor: Cursor) -> Detail:
    """Step over EXTENDED, FORMATTED, DETAIL or HISTORY before a table's name or path. Return COLUMNS if none comes next."""
    name_follows = cursor.token(1).is_name or cursor.token(1).kind is Kind.STRING
    word = cursor.accept_any(*_DETAILS) if name_follows else ""
    return _DETAILS.get(word, Detail.COLUMNS)


def parse_show(cursor: Cursor) -> ShowSchemas | ShowTables | ShowProperties | ShowColumns | ShowFunctions | None:
    """Parse SHOW for schemas, tables, views, properties, columns or functions. Return None for other objects, which Spark shows."""
    subject = cursor.accept_any("SCHEMAS", "DATABASES", "NAMESPACES", "TABLES", "VIEWS", "TABLE", "TBLPROPERTIES", "COLUMNS")
    match subject:
        case "SCHEMAS" | "DATABASES" | "NAMESPACES":
            return _parse_show_schemas(cursor)
        case "TABLES" | "VIEWS":
            return ShowTables(_parse_optional_schema(cursor), _parse_last_pattern(cursor), views=subject == "VIEWS")
        case "TABLE" if cursor.accept("EXTENDED"):
            return _parse_show_table_extended(cursor)
        case "TBLPROPERTIES":
            return _parse_show_properties(cursor)
        case "COLUMNS":
            return _parse_show_columns(cursor)
    return parse_show_functions(cursor)


def parse_use(cursor: Cursor) -> UseSchema:
    """Parse `USE [SCHEMA|DATABASE|NAMESPACE] name`."""
    cursor.accept_before_name(*SCHEMA_WORDS)
    name = parse_schema_name(cursor)
    cursor.expect_end("the schema's name")
    return UseSchema(name)


def _parse_show_schemas(cursor: Cursor) -> ShowSchemas | None:
    """Parse `[FROM|IN catalog] [[LIKE] 'pattern']` after SHOW SCHEMAS. Return None for a catalog other than the engine's."""
    if cursor.accept_any("FROM", "IN"):
        catalog = cursor.path("a catalog")
        if len(catalog) > 1 or catalog[0].lower() not in CATALOGS:
            return None
    return ShowSchemas(_parse_last_pattern(cursor))


def _parse_optional_schema(cursor: Cursor) -> str | None:
    return parse_schema_name(cursor) if cursor.accept_any("FROM", "IN") else None


def _parse_last_pattern(cursor: Cursor) -> str | None:
    """Parse `[[LIKE] 'pattern']` at the end of the statement."""
    pattern = parse_like(cursor)
    cursor.expect_end("the pattern" if pattern is not None else "SHOW")
    return pattern


def _parse_show_table_extended(cursor: Cursor) -> ShowTables:
    """Parse `[FROM|IN schema] LIKE 'pattern'` after SHOW TABLE EXTENDED."""
    schema = _parse_optional_schema(cursor)
    cursor.expect("LIKE")
    pattern = cursor.string("a pattern")
    cursor.expect_end("the pattern")
    return ShowTables(schema, pattern, extended=True)


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
