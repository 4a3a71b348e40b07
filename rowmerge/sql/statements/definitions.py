"""The grammar of CREATE, REPLACE and DROP for tables, views and schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowmerge.commands.definitions import (
    CloneTable,
    ColumnDefinition,
    CreateSchema,
    CreateTable,
    CreateView,
    Drop,
    DropSchema,
)
from rowmerge.commands.functions import CreateFunction, DropFunction
from rowmerge.commands.maintenance import CloneFiles
from rowmerge.commands.names import TABLE_FORMATS, SqlText, TableName
from rowmerge.commands.tables import CreateTableLike
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import TimeTravel, begins_query, parse_time_travel
from rowmerge.sql.statements.columns import begins_constraint, parse_column_definition, parse_constraint, parse_options, parse_properties
from rowmerge.sql.statements.functions import parse_create_function, parse_drop_function
from rowmerge.sql.statements.partitioning import parse_named_field, parse_write_clause
from rowmerge.table.metadata.partitioning import PartitionField

_TABLE_CLAUSES = ("USING", "COMMENT", "LOCATION", "TBLPROPERTIES", "OPTIONS", "PARTITIONED", "WRITE")
SCHEMA_WORDS = ("SCHEMA", "DATABASE", "NAMESPACE")


def parse_create(cursor: Cursor) -> CreateTable | CloneTable | CreateTableLike | CreateView | CreateSchema | CreateFunction | None:
    """Parse CREATE TABLE, VIEW, SCHEMA or FUNCTION. Return None for other objects and for other table formats, which Spark creates."""
    or_replace = cursor.accept("OR", "REPLACE")
    if cursor.accept("TABLE"):
        return parse_table(cursor, or_replace)
    if cursor.accept_any(*SCHEMA_WORDS):
        return None if or_replace else _parse_schema(cursor)  # Spark does not allow replacing a schema
    if cursor.accept("FUNCTION"):
        return parse_create_function(cursor, or_replace, aggregate=False)
    if cursor.accept("AGGREGATE", "FUNCTION"):
        return parse_create_function(cursor, or_replace, aggregate=True)
    temporary = bool(cursor.accept_any("TEMP", "TEMPORARY"))
    return _parse_view(cursor, or_replace, temporary) if cursor.accept("VIEW") else None


def parse_drop(cursor: Cursor) -> Drop | DropSchema | DropFunction | None:
    """Parse `DROP TABLE|VIEW|SCHEMA|FUNCTION [IF EXISTS] name`. Return None for other objects, which Spark drops."""
    kind = cursor.accept_any("TABLE", "VIEW", *SCHEMA_WORDS)
    if not kind:
        return parse_drop_function(cursor)
    if_exists = cursor.accept("IF", "EXISTS")
    if kind in SCHEMA_WORDS:
        return _parse_drop_schema(cursor, if_exists)
    name = cursor.table_name(f"the name of a {kind.lower()}")
    if kind == "TABLE":
        cursor.accept("PURGE")  # without effect
    cursor.expect_end("the name")
    return Drop(name, view=kind == "VIEW", if_exists=if_exists)


def _parse_drop_schema(cursor: Cursor, if_exists: bool) -> DropSchema:
    """Parse `name [RESTRICT|CASCADE]` after DROP SCHEMA [IF EXISTS]."""
    schema = cursor.schema_name()
    cascade = cursor.accept_any("RESTRICT", "CASCADE") == "CASCADE"
    cursor.expect_end("the schema's name")
    return DropSchema(schema, if_exists, cascade)


def parse_table(cursor: Cursor, or_replace: bool) -> CreateTable | CloneTable | CreateTableLike | None:
    """Parse the definition or the clone of a table after CREATE [OR REPLACE] TABLE or REPLACE TABLE.

    Args:
        cursor: The cursor after TABLE.
        or_replace: Whether the statement begins with CREATE OR REPLACE or REPLACE. It then cannot have IF NOT EXISTS.

    Returns:
        The command, or None for a table in a format other than Delta or Iceberg, which Spark creates.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement has an unsupported clause.
    """
    if_not_exists = not or_replace and _accept_if_not_exists(cursor)
    name = cursor.table_name()
    shallow = cursor.accept("SHALLOW", "CLONE")
    if shallow or cursor.accept("DEEP", "CLONE") or cursor.accept("CLONE"):
        return replace(_parse_clone(cursor, name, or_replace, if_not_exists), shallow=shallow)
    if _has_foreign_format(cursor):
        return None
    if cursor.accept("LIKE"):
        if or_replace:
            raise cursor.error("CREATE OR REPLACE TABLE cannot have LIKE. Leave OR REPLACE out", cursor.token(-1))
        return _parse_like(cursor, name, if_not_exists)
    return _parse_table_definition(cursor, CreateTable(name, or_replace=or_replace, if_not_exists=if_not_exists))


def _parse_clone(cursor: Cursor, name: TableName, or_replace: bool, if_not_exists: bool) -> CloneTable:
    """Parse `source [VERSION|TIMESTAMP AS OF …] [TBLPROPERTIES (…)] [LOCATION '…']` after CLONE, as Delta Lake does."""
    source = cursor.table_name("the name of the table to clone")
    travel = parse_time_travel(cursor) or TimeTravel()
    properties = parse_properties(cursor) if cursor.accept("TBLPROPERTIES") else {}
    location = cursor.optional_string("LOCATION", "a path")
    cursor.expect_end("the clone's clauses")
    is_folder = len(source.parts) == 2 and source.parts[0].lower() in ("parquet", "iceberg")
    clone = CloneFiles if is_folder else CloneTable
    return clone(name, source, travel.version, travel.timestamp, travel.reference, properties, location, or_replace, if_not_exists)


def _parse_like(cursor: Cursor, name: TableName, if_not_exists: bool) -> CreateTableLike:
    """Parse `source [USING format] [TBLPROPERTIES (…)] [LOCATION '…']` after LIKE."""
    table = CreateTableLike(name, cursor.table_name("the name of the table to imitate"), if_not_exists=if_not_exists)
    clauses = _parse_table_clauses(cursor, CreateTable(name), ("USING", "LOCATION", "TBLPROPERTIES"))
    cursor.expect_end("the clauses of CREATE TABLE … LIKE")
    return replace(table, format=clauses.format, properties=clauses.properties, location=clauses.location)


def _parse_table_definition(cursor: Cursor, table: CreateTable) -> CreateTable:
    """Parse the columns, the clauses and the query that follow a table's name, and return `table` with these parts added."""
    list_token = cursor.token()
    table = _parse_optional_columns(cursor, table)
    has_column_list = bool(table.columns)
    table = _parse_table_clauses(cursor, table)
    if cursor.accept("AS") or begins_query(cursor):
        table = replace(table, query=_parse_query(cursor))
        if table.columns and not has_column_list:  # PARTITIONED BY (column type) defines the columns
            raise cursor.error("CREATE TABLE … AS takes its columns from the query. In PARTITIONED BY, write only their names", list_token)
    cursor.expect_end("the table's clauses")
    return replace(table, checks=(*table.checks, *(check for column in table.columns for check in column.checks)))


def _parse_optional_columns(cursor: Cursor, table: CreateTable) -> CreateTable:
    """Parse `[(column | constraint, …)]`, and return `table` with the columns and constraints added."""
    if not cursor.next_is("(") or begins_query(cursor):
        return table
    elements = cursor.parenthesized(lambda: parse_constraint(cursor) if begins_constraint(cursor) else parse_column_definition(cursor))
    columns = tuple(element for element in elements if isinstance(element, ColumnDefinition))
    checks = tuple(element for element in elements if not isinstance(element, ColumnDefinition))
    return replace(table, columns=columns, checks=checks)


def _parse_table_clauses(cursor: Cursor, table: CreateTable, clauses: Sequence[str] = _TABLE_CLAUSES) -> CreateTable:
    """Parse the clauses of a table in any order, each at most once. `clauses`: the first words of the clauses."""
    seen_clauses = set[str]()
    while clause := cursor.accept_any(*clauses):
        clause_token = cursor.token(-1)
        table = _parse_table_clause(cursor, clause, table)
        if clause in seen_clauses:
            raise cursor.error(f"{clause} occurs twice. Keep one", clause_token)
        seen_clauses.add(clause)
    if cursor.next_is("CLUSTER", "BY"):
        raise cursor.unsupported("CLUSTER BY (liquid clustering) is not supported. Leave it out, or use PARTITIONED BY")
    if cursor.next_is("CLUSTERED", "BY"):
        raise cursor.unsupported("CLUSTERED BY … INTO … BUCKETS is not supported. Leave it out, or use PARTITIONED BY")
    return table


def _parse_table_clause(cursor: Cursor, clause: str, table: CreateTable) -> CreateTable:
    """Parse a clause after its first word, and return `table` with the clause added. Options become properties `option.<key>`."""
    match clause:
        case "USING":
            return replace(table, format=".".join(cursor.path("a format")).lower())
        case "COMMENT":
            return replace(table, comment=cursor.string("a comment"))
        case "LOCATION":
            return replace(table, location=cursor.string("a path"))
        case "TBLPROPERTIES":
            # An option takes precedence over a property with the same key, whichever clause comes first.
            return replace(table, properties={**parse_properties(cursor), **table.properties})
        case "OPTIONS":
            options = {f"option.{key}": value for key, value in parse_options(cursor).items()}
            return replace(table, properties={**table.properties, **options})
        case "WRITE":
            return replace(table, write_order=parse_write_clause(cursor, table.name))
        case _:
            cursor.expect("BY")
            return _parse_partitioned_by(cursor, table)


def _parse_partitioned_by(cursor: Cursor, table: CreateTable) -> CreateTable:
    """Parse `(column type | partition field, …)`. A column with a type is also added to the columns of the table."""
    elements = cursor.parenthesized(lambda: parse_column_definition(cursor) if _begins_column(cursor) else parse_named_field(cursor))
    columns = tuple(element for element in elements if isinstance(element, ColumnDefinition))
    fields = (PartitionField((element.name,)) if isinstance(element, ColumnDefinition) else element for element in elements)
    return replace(table, columns=table.columns + columns, partitioned_by=tuple(fields))


def _begins_column(cursor: Cursor) -> bool:
    """Return whether a column with its type comes next, rather than a partition field, which can have a name after AS."""
    return cursor.token(1).is_name and cursor.key(1) != "AS"


def _has_foreign_format(cursor: Cursor) -> bool:
    """Return whether USING, STORED AS or ROW FORMAT before the query specifies a format other than Delta and Iceberg."""
    index = _find_before_query(cursor, ("USING", "STORED", "ROW", "SKEWED"))
    if index is None:
        return False
    if cursor.tokens.keys[index] != "USING":
        return True
    format_, following = cursor.tokens[index + 1], cursor.tokens[min(index + 2, len(cursor.tokens) - 1)]
    # A dotted name is the class name of a data source.
    return format_.is_name and (format_.name.lower() not in TABLE_FORMATS or following.key == ".")


def _find_before_query(cursor: Cursor, keys: tuple[str, ...]) -> int | None:
    """Return the index of the first of these words before the query, outside brackets, or None. The cursor does not move."""
    start = cursor.index
    while not (cursor.at_end or cursor.next_is("AS") or begins_query(cursor) or cursor.key() in keys):
        cursor.skip_token_or_group()
    stop, cursor.index = cursor.index, start
    return stop if cursor.tokens.keys[stop] in keys else None


def _parse_query(cursor: Cursor) -> SqlText:
    """Parse the query after AS, which extends to the end of the statement."""
    if not begins_query(cursor):
        raise cursor.expected("a query after AS")
    return cursor.take_rest()


def _accept_if_not_exists(cursor: Cursor) -> bool:
    """Step over IF NOT EXISTS if it comes next, and return whether it does."""
    if cursor.accept("IF", "NOT") or cursor.accept("IF", "!"):
        cursor.expect("EXISTS")
        return True
    return False


def _parse_view(cursor: Cursor, or_replace: bool, temporary: bool) -> CreateView | None:
    """Parse a view's definition after CREATE … VIEW. Return None for a temporary view of files, which Spark creates."""
    start_token = cursor.token()
    if_not_exists = _accept_if_not_exists(cursor)
    if if_not_exists and (or_replace or temporary):
        conflicting_option = "OR REPLACE" if or_replace else "TEMPORARY"
        raise cursor.error(f"CREATE VIEW takes {conflicting_option} or IF NOT EXISTS, not both. Keep one", start_token)
    name = cursor.table_name("the name of a view")
    if temporary and _find_before_query(cursor, ("USING",)) is not None:
        return None
    columns = cursor.parenthesized(lambda: _parse_view_column(cursor)) if cursor.next_is("(") else ()
    comment, properties = _parse_view_clauses(cursor)
    cursor.expect("AS")
    return CreateView(name, _parse_query(cursor), columns, comment, properties, or_replace, if_not_exists, temporary)


def _parse_view_column(cursor: Cursor) -> tuple[str, str | None]:
    """Parse `name [COMMENT '…']`, and return the name and the comment."""
    return cursor.identifier("a column's name"), cursor.optional_string("COMMENT", "a comment")


def _parse_view_clauses(cursor: Cursor) -> tuple[str | None, dict[str, str]]:
    """Parse `COMMENT '…'` and `TBLPROPERTIES (…)` in any order, each at most once. Return the comment and the properties."""
    comment: str | None = None
    properties: dict[str, str] = {}
    seen_clauses = set[str]()
    while clause := cursor.accept_any("COMMENT", "TBLPROPERTIES"):
        if clause in seen_clauses:
            raise cursor.error(f"{clause} occurs twice. Keep one", cursor.token(-1))
        seen_clauses.add(clause)
        if clause == "COMMENT":
            comment = cursor.string("a comment")
        else:
            properties = parse_properties(cursor)
    if cursor.next_is("WITH", "SCHEMA") or cursor.next_is("PARTITIONED", "ON"):
        raise cursor.unsupported(f"{cursor.key()} {cursor.key(1)} of a view is not supported. Leave it out")
    return comment, properties


def _parse_schema(cursor: Cursor) -> CreateSchema:
    """Parse `[IF NOT EXISTS] name [COMMENT '…'] [WITH DBPROPERTIES (…)]` after CREATE SCHEMA."""
    if_not_exists = _accept_if_not_exists(cursor)
    schema = CreateSchema(cursor.schema_name(), if_not_exists)
    while not cursor.at_end:
        schema = _parse_schema_clause(cursor, schema)
    return schema


def _parse_schema_clause(cursor: Cursor, schema: CreateSchema) -> CreateSchema:
    """Parse `COMMENT '…'` or `WITH DBPROPERTIES (…)`, and return `schema` with the clause added. Raise an error for LOCATION."""
    if cursor.accept("COMMENT"):
        return replace(schema, comment=cursor.string("a comment"))
    if cursor.accept("WITH"):
        if not cursor.accept_any("DBPROPERTIES", "PROPERTIES"):
            raise cursor.expected("DBPROPERTIES")
        return replace(schema, properties=parse_properties(cursor))
    if cursor.next_is("LOCATION"):
        raise cursor.unsupported("CREATE SCHEMA … LOCATION is not supported: schemas are folders of the warehouse. Leave it out")
    raise cursor.expected("COMMENT, WITH DBPROPERTIES or the end of the statement")
