"""DESCRIBE, SHOW and USE."""

from __future__ import annotations

from rowmerge.commands.definitions import Describe, Detail, ShowColumns, ShowProperties, ShowSchemas, ShowTables, UseSchema
from rowmerge.commands.functions import DescribeFunction, ShowFunctions
from rowmerge.commands.names import CATALOGS, TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import begins_query
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.sql.statements import functions
from rowmerge.sql.statements.columns import property_key
from rowmerge.sql.statements.definitions import SCHEMA_WORDS, schema_name

_DETAILS = {"EXTENDED": Detail.EXTENDED, "FORMATTED": Detail.EXTENDED, "DETAIL": Detail.DETAIL, "HISTORY": Detail.HISTORY}
_OTHERS = frozenset({"QUERY", "PROCEDURE", "CATALOG", *SCHEMA_WORDS})


def describe(cursor: Cursor) -> Describe | DescribeFunction | None:
    """`DESCRIBE|DESC [TABLE] [EXTENDED|FORMATTED|DETAIL|HISTORY] name`, or of a FUNCTION; None for a query, a column or a schema."""
    if not cursor.accept_any("DESCRIBE", "DESC"):
        raise cursor.expected("DESCRIBE")
    named = cursor.token(1).is_name
    if cursor.sees("FUNCTION") and named:
        return functions.describe(cursor)
    if (cursor.key() in _OTHERS and named) or (not cursor.sees("TABLE") and begins_query(cursor)):
        return None
    detail = Detail.COLUMNS
    if cursor.sees("TABLE") and named:
        cursor.at += 1
    if cursor.key() in _DETAILS and (cursor.token(1).is_name or cursor.token(1).kind is Kind.STRING):
        detail = _DETAILS[cursor.key()]
        cursor.at += 1
    name = cursor.table_name()
    limit = None
    if detail is Detail.HISTORY and cursor.accept("LIMIT"):
        limit = cursor.integer("a number of versions")
    if detail in (Detail.COLUMNS, Detail.EXTENDED) and not cursor.ended:
        return None
    cursor.finish("the table")
    return Describe(name, detail, limit)


def show(cursor: Cursor) -> ShowSchemas | ShowTables | ShowProperties | ShowColumns | ShowFunctions | None:
    """SHOW of schemas, tables, views, properties, columns and functions of the warehouse; None for everything else that Spark shows."""
    cursor.expect("SHOW")
    what = cursor.accept_any("SCHEMAS", "DATABASES", "NAMESPACES", "TABLES", "VIEWS", "TABLE", "TBLPROPERTIES", "COLUMNS")
    match what:
        case "SCHEMAS" | "DATABASES" | "NAMESPACES":
            return _schemas(cursor)
        case "TABLES" | "VIEWS":
            schema = schema_name(cursor) if cursor.accept_any("FROM", "IN") else None
            return ShowTables(schema, _like(cursor), what == "VIEWS")
        case "TABLE" if cursor.accept("EXTENDED"):
            schema = schema_name(cursor) if cursor.accept_any("FROM", "IN") else None
            cursor.expect("LIKE")
            pattern = cursor.string("a pattern")
            cursor.finish("the pattern")
            return ShowTables(schema, pattern, extended=True)
        case "TBLPROPERTIES":
            return _properties(cursor)
        case "COLUMNS":
            return _columns(cursor)
    return functions.show(cursor)


def use(cursor: Cursor) -> UseSchema:
    """`USE [SCHEMA|DATABASE|NAMESPACE] name`."""
    cursor.expect("USE")
    if cursor.key() in SCHEMA_WORDS and cursor.token(1).is_name:
        cursor.at += 1
    name = schema_name(cursor)
    cursor.finish("the schema's name")
    return UseSchema(name)


def _schemas(cursor: Cursor) -> ShowSchemas | None:
    if cursor.accept_any("FROM", "IN"):
        catalog = cursor.path("a catalog")
        if len(catalog) > 1 or catalog[0].lower() not in CATALOGS:
            return None
    return ShowSchemas(_like(cursor))


def _like(cursor: Cursor) -> str | None:
    pattern = None
    if cursor.accept("LIKE") or cursor.token().kind is Kind.STRING:
        pattern = cursor.string("a pattern")
    cursor.finish("the pattern" if pattern is not None else "SHOW")
    return pattern


def _properties(cursor: Cursor) -> ShowProperties:
    name = cursor.table_name()
    key = None
    if cursor.accept("("):
        key = property_key(cursor)
        cursor.expect(")")
    cursor.finish("the table")
    return ShowProperties(name, key)


def _columns(cursor: Cursor) -> ShowColumns:
    if not cursor.accept_any("FROM", "IN"):
        raise cursor.expected("IN and the name of a table")
    name = cursor.table_name()
    if cursor.accept_any("FROM", "IN"):
        begin = cursor.token()
        schema = schema_name(cursor)
        if len(name.parts) > 1 and name.parts[-2].lower() != schema.lower():
            raise cursor.error(f"The schema stands twice: {name.parts[-2]} and {schema}. Keep one", begin)
        name = TableName((schema, name.parts[-1]))
    cursor.finish("the table")
    return ShowColumns(name)
