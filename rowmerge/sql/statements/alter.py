"""ALTER TABLE, ALTER VIEW and COMMENT ON."""

from __future__ import annotations

from rowmerge.commands.definitions import (
    AddColumns,
    AddConstraint,
    AlterColumn,
    ChangePartitioning,
    ColumnDefinition,
    CommentOn,
    CommentOnColumns,
    DropColumns,
    DropConstraint,
    RenameColumn,
    SetDefault,
    SetNullable,
    SetProperties,
    SetWriteOrder,
    UnsetProperties,
)
from rowmerge.commands.maintenance import DropReference, SetReference
from rowmerge.commands.names import CATALOGS, TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import last_expression
from rowmerge.sql.statements.alter_columns import change_of_column, rename_or_drop
from rowmerge.sql.statements.columns import begins_constraint, column_definition, constraint, properties, property_keys
from rowmerge.sql.statements.partitioning import change_of_partitioning, write_order
from rowmerge.sql.statements.snapshot_references import snapshot_reference

_REWRITE = "Write the table anew with CREATE OR REPLACE TABLE … AS SELECT …"

Alteration = (
    AddColumns
    | RenameColumn
    | DropColumns
    | AlterColumn
    | AddConstraint
    | DropConstraint
    | SetDefault
    | SetNullable
    | SetProperties
    | UnsetProperties
    | CommentOn
    | CommentOnColumns
    | ChangePartitioning
    | SetWriteOrder
    | SetReference
    | DropReference
)

_UNSUPPORTED = {
    ("RENAME", "TO"): ("RENAME TO", "Copy it with CREATE TABLE … AS SELECT, then drop the old one"),
    ("REPLACE", "COLUMNS"): ("REPLACE COLUMNS", _REWRITE),
    ("SET", "LOCATION"): ("SET LOCATION", "Create a table at the new place with CREATE TABLE … LOCATION"),
    ("CLUSTER", "BY"): ("CLUSTER BY", "Leave it out, or write the table anew with PARTITIONED BY"),
}


def alter(cursor: Cursor) -> Alteration | None:
    """The forms of ALTER TABLE and ALTER VIEW that change no data; the others are refused by name. None for other things of Spark's."""
    cursor.expect("ALTER")
    kind = cursor.accept_any("TABLE", "VIEW")
    if not kind:
        return None
    name = cursor.table_name(f"the name of a {kind.lower()}")
    begin = cursor.at
    if cursor.accept("SET", "TBLPROPERTIES"):
        entries = properties(cursor, "The property")
        cursor.finish("the properties")
        return SetProperties(name, entries)
    if cursor.accept("UNSET", "TBLPROPERTIES"):
        if_exists = cursor.accept("IF", "EXISTS")
        keys = property_keys(cursor)
        cursor.finish("the properties")
        return UnsetProperties(name, keys, if_exists)
    if kind == "TABLE" and cursor.sees("ADD") and cursor.key(1) in ("COLUMN", "COLUMNS"):
        cursor.at += 2
        return _add_columns(cursor, name)
    if kind == "TABLE" and (said := change_of_partitioning(cursor, name) or write_order(cursor, name)):
        return said
    if kind == "TABLE" and (referred := snapshot_reference(cursor, name)):
        return referred
    if kind == "TABLE" and (made := _constraint(cursor, name)):
        return made
    if kind == "TABLE" and (changed := rename_or_drop(cursor, name)):
        return changed
    if kind == "TABLE" and cursor.accept_any("ALTER", "CHANGE"):
        return _alter_column(cursor, name)
    cursor.at = begin
    raise _refused(cursor, kind)


def comment_on(cursor: Cursor) -> CommentOn | None:
    """`COMMENT ON TABLE name IS …` and `COMMENT ON COLUMN table.column IS …`; None for schemas."""
    cursor.expect("COMMENT", "ON")
    kind = cursor.accept_any("TABLE", "COLUMN")
    if not kind:
        return None
    begin = cursor.token()
    path = cursor.table_name(f"the name of a {kind.lower()}").parts
    column = None
    if kind == "COLUMN":
        if len(path) == 1:
            raise cursor.error(f"COMMENT ON COLUMN needs the table too. Write table.{path[0]}", begin)
        size = min(len(path) - 1, 3 if path[0].lower() in CATALOGS else 2)
        path, column = path[:size], path[size:]
    cursor.expect("IS")
    text = None if cursor.accept("NULL") else cursor.string("a comment or NULL")
    cursor.finish("the comment")
    return CommentOn(TableName(path), text, column)


def _add_columns(cursor: Cursor, name: TableName) -> AddColumns:
    positions: dict[str, str | None] = {}

    def column() -> ColumnDefinition:
        definition = column_definition(cursor, nested=True)
        if cursor.accept("FIRST"):
            positions[definition.path] = None
        elif cursor.accept("AFTER"):
            positions[definition.path] = cursor.identifier("the column before the new one")
        return definition

    if cursor.sees("("):
        columns = cursor.listed(column)
    else:
        columns = (column(),)
        while cursor.accept(","):
            columns += (column(),)
    cursor.finish("the columns")
    return AddColumns(name, columns, positions)


def _constraint(cursor: Cursor, name: TableName) -> AddConstraint | DropConstraint | None:
    """`ADD [CONSTRAINT name] CHECK (…)` and `DROP CONSTRAINT [IF EXISTS] name`; None for everything else."""
    if cursor.accept("DROP", "CONSTRAINT"):
        if_exists = cursor.accept("IF", "EXISTS")
        dropped = cursor.identifier("a constraint's name")
        cursor.accept_any("RESTRICT", "CASCADE")
        cursor.finish("the constraint's name")
        return DropConstraint(name, dropped, if_exists)
    if not cursor.accept("ADD"):
        return None
    if not (cursor.sees("CONSTRAINT") or begins_constraint(cursor)):
        cursor.at -= 1
        return None
    check = constraint(cursor)
    cursor.finish("the constraint")
    return AddConstraint(name, check)


def _alter_column(cursor: Cursor, name: TableName) -> AlterColumn | CommentOn | CommentOnColumns | SetDefault | SetNullable:
    if cursor.sees("COLUMN") and cursor.token(1).is_name:
        cursor.at += 1
    column = cursor.path("a column's name")
    if changed := change_of_column(cursor, name, column):
        return changed
    verb = cursor.accept_any("SET", "DROP")
    if verb and cursor.accept("DEFAULT"):
        if len(column) > 1:
            raise cursor.unsupported(f"A field inside the column `{column[0]}` has no default of its own. Give the whole column one")
        value = last_expression(cursor, "a default value") if verb == "SET" else None
        cursor.finish("DEFAULT")
        return SetDefault(name, column[0], value)
    if verb and cursor.accept("NOT", "NULL"):
        cursor.finish("NOT NULL")
        return SetNullable(name, column, verb == "DROP")
    raise cursor.unsupported(f"Of a column only type, comment, place, default and NOT NULL can be altered. {_REWRITE}")


def _refused(cursor: Cursor, kind: str) -> Exception:
    if kind == "VIEW":
        return cursor.unsupported("Of ALTER VIEW only SET and UNSET TBLPROPERTIES are supported. Use CREATE OR REPLACE VIEW")
    if cursor.ended:
        return cursor.expected("what to alter")
    what, advice = _UNSUPPORTED.get((cursor.key(), cursor.key(1)), (cursor.key() or cursor.token().text, _REWRITE))
    return cursor.unsupported(f"ALTER TABLE … {what} is not supported. {advice}")
