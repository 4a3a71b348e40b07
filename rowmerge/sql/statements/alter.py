"""ALTER TABLE, ALTER VIEW and COMMENT ON."""

from __future__ import annotations

from collections.abc import Callable

from rowmerge.commands import definitions
from rowmerge.commands.maintenance import DropReference, SetReference
from rowmerge.commands.names import CATALOGS, TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import parse_last_expression
from rowmerge.sql.statements import alter_columns, columns, partitioning, snapshot_references

_REWRITE = "Write the table anew with CREATE OR REPLACE TABLE … AS SELECT …"

Alteration = definitions.DefinitionCommand | SetReference | DropReference

_UNSUPPORTED = {
    ("RENAME", "TO"): ("RENAME TO", "Copy it with CREATE TABLE … AS SELECT, then drop the old one"),
    ("REPLACE", "COLUMNS"): ("REPLACE COLUMNS", _REWRITE),
    ("SET", "LOCATION"): ("SET LOCATION", "Create a table at the new place with CREATE TABLE … LOCATION"),
    ("CLUSTER", "BY"): ("CLUSTER BY", "Leave it out, or write the table anew with PARTITIONED BY"),
}


def parse_alter(cursor: Cursor) -> Alteration | None:
    """Parse the forms of ALTER TABLE and ALTER VIEW that change no data, and refuse the others. Return None for other objects."""
    kind = cursor.accept_any("TABLE", "VIEW")
    if not kind:
        return None
    name = cursor.table_name(f"the name of a {kind.lower()}")
    start = cursor.index
    for parse_form in _VIEW_FORMS if kind == "VIEW" else _TABLE_FORMS:
        command = parse_form(cursor, name)
        if command is not None:
            return command
        cursor.index = start
    raise _refusal(cursor, kind)


def parse_comment_on(cursor: Cursor) -> definitions.CommentOn | None:
    """Parse `COMMENT ON TABLE name IS …` or `COMMENT ON COLUMN table.column IS …`. Return None for schemas."""
    column: tuple[str, ...] | None = None
    if cursor.accept("TABLE"):
        table = cursor.table_name("the name of a table")
    elif cursor.accept("COLUMN"):
        table, column = _parse_column_of_table(cursor)
    else:
        return None
    cursor.expect("IS")
    comment = None if cursor.accept("NULL") else cursor.string("a comment or NULL")
    cursor.expect_end("the comment")
    return definitions.CommentOn(table, comment, column)


def _parse_column_of_table(cursor: Cursor) -> tuple[TableName, tuple[str, ...]]:
    """Parse `[[catalog.]schema.]table.column[.field…]`, and return the table's name and the column's path."""
    path_token = cursor.token()
    path = cursor.table_name("the name of a column").parts
    if len(path) == 1:
        raise cursor.error(f"COMMENT ON COLUMN needs the table too. Write table.{path[0]}", path_token)
    longest_table_name = 3 if path[0].lower() in CATALOGS else 2
    size = min(len(path) - 1, longest_table_name)
    return TableName(path[:size]), path[size:]


def _parse_set_properties(cursor: Cursor, name: TableName) -> definitions.SetProperties | None:
    """Parse `SET TBLPROPERTIES ('key' = 'value', …)`, or return None."""
    if not cursor.accept("SET", "TBLPROPERTIES"):
        return None
    properties = columns.parse_properties(cursor)
    cursor.expect_end("the properties")
    return definitions.SetProperties(name, properties)


def _parse_unset_properties(cursor: Cursor, name: TableName) -> definitions.UnsetProperties | None:
    """Parse `UNSET TBLPROPERTIES [IF EXISTS] ('key', …)`, or return None."""
    if not cursor.accept("UNSET", "TBLPROPERTIES"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    keys = cursor.parenthesized(lambda: columns.parse_property_key(cursor))
    cursor.expect_end("the properties")
    return definitions.UnsetProperties(name, keys, if_exists)


def _parse_add_columns(cursor: Cursor, name: TableName) -> definitions.AddColumns | None:
    """Parse `ADD COLUMN[S] (name type … [FIRST|AFTER column], …)`, or return None."""
    if not cursor.accept("ADD") or not cursor.accept_any("COLUMN", "COLUMNS"):
        return None
    positions: dict[str, str | None] = {}
    new_columns = cursor.list_with_or_without_parentheses(lambda: _parse_new_column(cursor, positions))
    cursor.expect_end("the columns")
    return definitions.AddColumns(name, new_columns, positions)


def _parse_new_column(cursor: Cursor, positions: dict[str, str | None]) -> definitions.ColumnDefinition:
    """Parse `name type … [FIRST|AFTER column]`, and add the place to `positions`."""
    column = columns.parse_column_definition(cursor, nested=True)
    place = alter_columns.parse_column_place(cursor, "the column before the new one")
    if place is not None:
        positions[column.path] = place.after
    return column


def _parse_drop_constraint(cursor: Cursor, name: TableName) -> definitions.DropConstraint | None:
    """Parse `DROP CONSTRAINT [IF EXISTS] name [RESTRICT|CASCADE]`, or return None."""
    if not cursor.accept("DROP", "CONSTRAINT"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    constraint = cursor.identifier("a constraint's name")
    cursor.accept_any("RESTRICT", "CASCADE")
    cursor.expect_end("the constraint's name")
    return definitions.DropConstraint(name, constraint, if_exists)


def _parse_add_constraint(cursor: Cursor, name: TableName) -> definitions.AddConstraint | None:
    """Parse `ADD [CONSTRAINT name] CHECK (…)`, or return None."""
    if not cursor.accept("ADD") or not (cursor.next_is("CONSTRAINT") or columns.begins_constraint(cursor)):
        return None
    check = columns.parse_constraint(cursor)
    cursor.expect_end("the constraint")
    return definitions.AddConstraint(name, check)


def _parse_alter_column(cursor: Cursor, name: TableName) -> definitions.DefinitionCommand | None:
    """Parse `ALTER|CHANGE [COLUMN] column …`, or return None."""
    if not cursor.accept_any("ALTER", "CHANGE"):
        return None
    cursor.accept_before_name("COLUMN")
    column = cursor.path("a column's name")
    return alter_columns.parse_column_change(cursor, name, column) or _parse_default_or_nullability(cursor, name, column)


def _parse_default_or_nullability(cursor: Cursor, name: TableName, column: tuple[str, ...]) -> definitions.DefinitionCommand:
    """Parse `SET DEFAULT value`, `DROP DEFAULT` or `SET|DROP NOT NULL`. Refuse every other change of a column."""
    verb = cursor.accept_any("SET", "DROP")
    if verb and cursor.accept("DEFAULT"):
        return _parse_default(cursor, name, column, verb)
    if verb and cursor.accept("NOT", "NULL"):
        cursor.expect_end("NOT NULL")
        return definitions.SetNullable(name, column, nullable=verb == "DROP")
    raise cursor.unsupported(f"Of a column only type, comment, place, default and NOT NULL can be altered. {_REWRITE}")


def _parse_default(cursor: Cursor, name: TableName, column: tuple[str, ...], verb: str) -> definitions.SetDefault:
    """Parse what follows `SET DEFAULT` or `DROP DEFAULT`."""
    if len(column) > 1:
        raise cursor.unsupported(f"A field inside the column `{column[0]}` has no default of its own. Give the whole column one")
    value = parse_last_expression(cursor, "a default value") if verb == "SET" else None
    cursor.expect_end("DEFAULT")
    return definitions.SetDefault(name, column[0], value)


def _refusal(cursor: Cursor, kind: str) -> Exception:
    """Return the error that names the unsupported form of ALTER and, where there is one, its replacement."""
    if kind == "VIEW":
        return cursor.unsupported("Of ALTER VIEW only SET and UNSET TBLPROPERTIES are supported. Use CREATE OR REPLACE VIEW")
    if cursor.at_end:
        return cursor.expected("what to alter")
    form, advice = _UNSUPPORTED.get((cursor.key(), cursor.key(1)), (cursor.key() or cursor.token().text, _REWRITE))
    return cursor.unsupported(f"ALTER TABLE … {form} is not supported. {advice}")


_Forms = tuple[Callable[[Cursor, TableName], Alteration | None], ...]
_VIEW_FORMS: _Forms = (_parse_set_properties, _parse_unset_properties)
_TABLE_FORMS: _Forms = (
    *_VIEW_FORMS,
    _parse_add_columns,
    partitioning.parse_partitioning_change,
    partitioning.parse_write_order,
    snapshot_references.parse_drop_reference,
    snapshot_references.parse_set_reference,
    _parse_drop_constraint,
    _parse_add_constraint,
    alter_columns.parse_rename_column,
    alter_columns.parse_drop_columns,
    _parse_alter_column,
)
"""Rules for what follows the table's name. A rule returns None for a form that another rule parses."""
