"""CREATE, REPLACE and DROP of tables, views and schemas."""

from __future__ import annotations

from dataclasses import dataclass, field

from rowmerge.commands.definitions import (
    CheckConstraint,
    CloneTable,
    ColumnDefinition,
    CreateSchema,
    CreateTable,
    CreateView,
    Drop,
    DropSchema,
)
from rowmerge.commands.files import TABLE_FORMATS
from rowmerge.commands.functions import CreateFunction, DropFunction
from rowmerge.commands.names import CATALOGS, SqlText, TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import TimeTravel, begins_query, time_travel
from rowmerge.sql.lexing.lexer import CLOSING
from rowmerge.sql.statements import functions
from rowmerge.sql.statements.columns import begins_constraint, column_definition, constraint, options, properties
from rowmerge.sql.statements.partitioning import partition_field
from rowmerge.table.metadata.partitioning import PartitionField

SCHEMA_WORDS = ("SCHEMA", "DATABASE", "NAMESPACE")


def create(cursor: Cursor) -> CreateTable | CloneTable | CreateView | CreateSchema | CreateFunction | None:
    """CREATE of a table, a view, a schema or a function; None for everything else that Spark creates, other formats' tables included."""
    cursor.expect("CREATE")
    replace = cursor.accept("OR", "REPLACE")
    if cursor.accept("TABLE"):
        return _table(cursor, replace)
    if not replace and cursor.accept_any(*SCHEMA_WORDS):
        return _schema(cursor)
    if (function := functions.create(cursor, replace)) is not None:
        return function
    temporary = bool(cursor.accept_any("TEMP", "TEMPORARY"))
    return _view(cursor, replace, temporary) if cursor.accept("VIEW") else None


def replace(cursor: Cursor) -> CreateTable | CloneTable | None:
    """`REPLACE TABLE …`."""
    cursor.expect("REPLACE", "TABLE")
    return _table(cursor, True)


def drop(cursor: Cursor) -> Drop | DropSchema | DropFunction | None:
    """`DROP TABLE|VIEW|SCHEMA|FUNCTION [IF EXISTS] name`; None for other things of Spark's."""
    cursor.expect("DROP")
    kind = cursor.accept_any("TABLE", "VIEW", *SCHEMA_WORDS)
    if not kind:
        return functions.drop(cursor)
    if_exists = _if_exists(cursor)
    if kind in SCHEMA_WORDS:
        name = schema_name(cursor)
        cascade = cursor.accept_any("RESTRICT", "CASCADE") == "CASCADE"
        cursor.finish("the schema's name")
        return DropSchema(name, if_exists, cascade)
    table = cursor.table_name("the name of a view" if kind == "VIEW" else "the name of a table")
    if kind == "TABLE":
        cursor.accept("PURGE")
    cursor.finish("the name")
    return Drop(table, kind == "VIEW", if_exists)


def schema_name(cursor: Cursor) -> str:
    """A schema's name: schemas have one level, the catalog's name may stand before it."""
    token = cursor.token()
    path = cursor.path("the name of a schema")
    if len(path) == 1 or (len(path) == 2 and path[0].lower() in CATALOGS):
        return path[-1]
    raise cursor.unsupported(f"Schemas have one level. Name the schema `{path[-1]}` alone", token)


# ------------------------------------------------------------------ tables


@dataclass
class _Table:
    """What the clauses of one CREATE TABLE have said so far."""

    columns: list[ColumnDefinition] = field(default_factory=list)
    partitioned_by: list[PartitionField] = field(default_factory=list)
    format: str | None = None
    comment: str | None = None
    location: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    checks: list[CheckConstraint] = field(default_factory=list)


def _table(cursor: Cursor, replace: bool) -> CreateTable | CloneTable | None:
    if_not_exists = not replace and _if_not_exists(cursor)
    name = cursor.table_name()
    if cursor.sees("CLONE") or cursor.sees("DEEP", "CLONE"):
        advice = "Write SHALLOW CLONE, which copies no files, or CREATE TABLE … AS SELECT * FROM …"
        raise cursor.unsupported(f"A deep CLONE, which copies every file, is not supported. {advice}")
    if cursor.accept("SHALLOW", "CLONE"):
        return _clone(cursor, name, replace, if_not_exists)
    if _is_foreign(cursor):
        return None
    if cursor.sees("LIKE"):
        raise cursor.unsupported("CREATE TABLE … LIKE is not supported. Use CREATE TABLE … AS SELECT * FROM … WHERE false")
    table = _Table()
    listed = cursor.token()
    if cursor.sees("(") and not begins_query(cursor):
        cursor.listed(lambda: _element(cursor, table))
    defined = bool(table.columns)
    _clauses(cursor, table)
    query = None
    if cursor.accept("AS") or begins_query(cursor):
        query = _query(cursor)
        if table.columns and not defined:
            raise cursor.error("CREATE TABLE … AS takes its columns from the query. Name them alone in PARTITIONED BY", listed)
    cursor.finish("the table's clauses")
    merged = table.properties | {f"option.{key}": value for key, value in table.options.items()}
    return CreateTable(
        name,
        tuple(table.columns),
        query,
        table.format,
        tuple(table.partitioned_by),
        merged,
        table.comment,
        table.location,
        replace,
        if_not_exists,
        (*table.checks, *(check for column in table.columns for check in column.checks)),
    )


def _clone(cursor: Cursor, name: TableName, replace: bool, if_not_exists: bool) -> CloneTable:
    """Behind `SHALLOW CLONE`: `source [VERSION|TIMESTAMP AS OF …] [TBLPROPERTIES (…)] [LOCATION '…']`, as Delta spells it."""
    source = cursor.table_name("the name of the table to clone")
    travel = time_travel(cursor) or TimeTravel()
    entries = properties(cursor, "The property") if cursor.accept("TBLPROPERTIES") else {}
    location = cursor.string("a path") if cursor.accept("LOCATION") else None
    cursor.finish("the clone's clauses")
    return CloneTable(name, source, travel.version, travel.timestamp, travel.reference, entries, location, replace, if_not_exists)


def _element(cursor: Cursor, table: _Table) -> None:
    """A column, or a constraint of the table."""
    if begins_constraint(cursor):
        table.checks.append(constraint(cursor))
    else:
        table.columns.append(column_definition(cursor))


def _clauses(cursor: Cursor, table: _Table) -> None:
    seen = set[str]()
    while True:
        begin = cursor.token()
        clause = _clause(cursor, table)
        if clause in seen:
            raise cursor.error(f"{clause} stands twice. Keep one", begin)
        if not clause:
            return
        seen.add(clause)


def _clause(cursor: Cursor, table: _Table) -> str:
    """Read one clause and say which, or stay and return an empty text."""
    clause = cursor.accept_any("USING", "COMMENT", "LOCATION", "TBLPROPERTIES", "OPTIONS", "PARTITIONED")
    match clause:
        case "USING":
            table.format = ".".join(cursor.path("a format")).lower()
        case "COMMENT":
            table.comment = cursor.string("a comment")
        case "LOCATION":
            table.location = cursor.string("a path")
        case "TBLPROPERTIES":
            table.properties = properties(cursor, "The property")
        case "OPTIONS":
            table.options = options(cursor)
        case "PARTITIONED":
            cursor.expect("BY")
            cursor.listed(lambda: _partition_field(cursor, table))
        case _:
            _refuse_clause(cursor)
    return clause


def _partition_field(cursor: Cursor, table: _Table) -> None:
    if cursor.token(1).is_name:
        column = column_definition(cursor)
        table.columns.append(column)
        table.partitioned_by.append(PartitionField((column.name,)))
    else:
        table.partitioned_by.append(partition_field(cursor))


def _refuse_clause(cursor: Cursor) -> None:
    if cursor.sees("CLUSTER", "BY"):
        raise cursor.unsupported("CLUSTER BY (liquid clustering) is not supported. Leave it out, or use PARTITIONED BY")
    if cursor.sees("CLUSTERED", "BY"):
        raise cursor.unsupported("CLUSTERED BY … INTO … BUCKETS is not supported. Leave it out, or use PARTITIONED BY")


def _is_foreign(cursor: Cursor) -> bool:
    """Whether USING, STORED AS or ROW FORMAT ahead says that the table is not in one of our formats."""
    ahead = _ahead(cursor, ("USING", "STORED", "ROW", "SKEWED"))
    if ahead is None:
        return False
    if cursor.tokens[ahead].key != "USING":
        return True
    format_, after = cursor.tokens[ahead + 1], cursor.tokens[min(ahead + 2, len(cursor.tokens) - 1)]
    return format_.is_name and (format_.name.lower() not in TABLE_FORMATS or after.key == ".")


def _ahead(cursor: Cursor, keys: tuple[str, ...]) -> int | None:
    """The first of these words between here and the query, outside brackets."""
    start = cursor.at
    try:
        while not cursor.ended and not cursor.sees("AS") and not begins_query(cursor):
            if cursor.key() in keys:
                return cursor.at
            if cursor.key() in CLOSING:
                cursor.skip_group()
            else:
                cursor.at += 1
        return None
    finally:
        cursor.at = start


def _query(cursor: Cursor) -> SqlText:
    if not begins_query(cursor):
        raise cursor.expected("a query after AS")
    return cursor.rest()


def _if_not_exists(cursor: Cursor) -> bool:
    if cursor.sees("IF") and cursor.key(1) in ("NOT", "!"):
        cursor.at += 2
        cursor.expect("EXISTS")
        return True
    return False


def _if_exists(cursor: Cursor) -> bool:
    return cursor.accept("IF", "EXISTS")


# ------------------------------------------------------------------ views


def _view(cursor: Cursor, replace: bool, temporary: bool) -> CreateView | None:
    begin = cursor.token()
    if_not_exists = _if_not_exists(cursor)
    if if_not_exists and (replace or temporary):
        other = "OR REPLACE" if replace else "TEMPORARY"
        raise cursor.error(f"CREATE VIEW takes {other} or IF NOT EXISTS, not both. Keep one", begin)
    name = cursor.table_name("the name of a view")
    if temporary and _ahead(cursor, ("USING",)) is not None:
        return None
    columns = cursor.listed(lambda: _view_column(cursor)) if cursor.sees("(") else ()
    comment: str | None = None
    entries: dict[str, str] = {}
    seen = set[str]()
    while clause := cursor.accept_any("COMMENT", "TBLPROPERTIES"):
        if clause in seen:
            raise cursor.error(f"{clause} stands twice. Keep one", cursor.token(-1))
        seen.add(clause)
        if clause == "COMMENT":
            comment = cursor.string("a comment")
        else:
            entries = properties(cursor, "The property")
    if cursor.sees("WITH", "SCHEMA") or cursor.sees("PARTITIONED", "ON"):
        raise cursor.unsupported(f"{cursor.key()} {cursor.key(1)} of a view is not supported. Leave it out")
    cursor.expect("AS")
    return CreateView(name, _query(cursor), columns, comment, entries, replace, if_not_exists, temporary)


def _view_column(cursor: Cursor) -> tuple[str, str | None]:
    name = cursor.identifier("a column's name")
    return name, cursor.string("a comment") if cursor.accept("COMMENT") else None


# ------------------------------------------------------------------ schemas


def _schema(cursor: Cursor) -> CreateSchema:
    if_not_exists = _if_not_exists(cursor)
    name = schema_name(cursor)
    comment: str | None = None
    entries: dict[str, str] = {}
    while not cursor.ended:
        if cursor.accept("COMMENT"):
            comment = cursor.string("a comment")
        elif cursor.sees("LOCATION"):
            raise cursor.unsupported("CREATE SCHEMA … LOCATION is not supported: schemas are folders of the warehouse. Leave it out")
        elif cursor.accept("WITH"):
            if not cursor.accept_any("DBPROPERTIES", "PROPERTIES"):
                raise cursor.expected("DBPROPERTIES")
            entries = properties(cursor, "The property")
        else:
            raise cursor.expected("COMMENT, WITH DBPROPERTIES or the end of the statement")
    return CreateSchema(name, if_not_exists, comment, entries)
