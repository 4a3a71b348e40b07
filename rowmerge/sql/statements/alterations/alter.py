"""The grammar of ALTER TABLE, ALTER VIEW and COMMENT ON."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rowmerge.commands import definitions
from rowmerge.commands.maintenance import DropFeature, DropReference, SetReference
from rowmerge.commands.names import CATALOGS, SqlText, TableName
from rowmerge.commands.rows import DropPartitions
from rowmerge.commands.tables import ChangeIdentifiers, Rename, SetLocation
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import parse_last_expression
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.sql.statements import columns, partitioning
from rowmerge.sql.statements.alterations import alter_columns, snapshot_references
from rowmerge.sql.statements.rows import parse_partition
from rowmerge.table.metadata.shape import IdentifierChange

_REWRITE = "Rewrite the table with CREATE OR REPLACE TABLE … AS SELECT …"
_NOT_SUPPORTED = "ALTER TABLE … {form} is not supported. {advice}"

Alteration = definitions.DefinitionCommand | DropPartitions | SetReference | DropReference | DropFeature

_UNSUPPORTED = {
    ("PARTITION", "("): ("PARTITION (…)", "Partitions have no names and no locations of their own. UPDATE the partition column instead"),
    ("RECOVER", "PARTITIONS"): ("RECOVER PARTITIONS", "Every partition is in the metadata of the table"),
    ("CLUSTER", "BY"): ("CLUSTER BY", "Leave it out, or rewrite the table with PARTITIONED BY"),
}


def parse_alter(cursor: Cursor) -> Alteration | None:
    """Parse the forms of ALTER TABLE and ALTER VIEW that do not change data. Return None for other objects, which Spark alters.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The engine does not support this form of ALTER.
    """
    kind = cursor.accept_any("TABLE", "VIEW")
    if not kind:
        return None
    name = cursor.table_name(f"the name of a {kind.lower()}")
    for words, parse_form in (_VIEW_FORMS if kind == "VIEW" else _TABLE_FORMS).items():
        if cursor.accept(*words):
            return parse_form(cursor, name)
    raise _refusal(cursor, kind)


def parse_comment_on(cursor: Cursor) -> definitions.CommentOn | None:
    """Parse `COMMENT ON TABLE name IS …` or `COMMENT ON COLUMN table.column IS …`. Return None for a schema."""
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
        raise cursor.error(f"COMMENT ON COLUMN needs the name of the table. Write table.{path[0]}", path_token)
    longest_table_name = 3 if path[0].lower() in (cursor.catalogs or CATALOGS) else 2
    size = min(len(path) - 1, longest_table_name)
    return TableName(path[:size]), path[size:]


def _parse_rename(cursor: Cursor, name: TableName, *, view: bool) -> Rename:
    """Parse the new name after RENAME TO. `view`: whether the statement is ALTER VIEW."""
    new_name = cursor.table_name("the new name")
    cursor.expect_end("the new name")
    return Rename(name, new_name, view)


def _parse_set_location(cursor: Cursor, name: TableName) -> SetLocation:
    """Parse the path after SET LOCATION."""
    location = cursor.string("a path")
    cursor.expect_end("the path")
    return SetLocation(name, location)


def _parse_identifiers(cursor: Cursor, name: TableName, *, drop: bool) -> ChangeIdentifiers:
    """Parse `a, b.c` after SET IDENTIFIER FIELDS, or after DROP IDENTIFIER FIELDS if `drop` is true."""
    paths = cursor.comma_separated(lambda: cursor.path("a column's name"))
    cursor.expect_end("the columns")
    return ChangeIdentifiers(name, IdentifierChange(paths, drop))


def _parse_drop_partitions(cursor: Cursor, name: TableName, *, if_exists: bool) -> DropPartitions:
    """Parse `(p = value, …)[, PARTITION (…)]… [PURGE]` after DROP [IF EXISTS] PARTITION."""

    def read_partition() -> tuple[tuple[str, SqlText], ...]:
        cursor.accept("PARTITION")  # which precedes each partition, and the cursor is behind the first one
        return parse_partition(cursor, "ALTER TABLE … DROP PARTITION")

    partitions = cursor.comma_separated(read_partition)
    cursor.accept("PURGE")  # without effect
    cursor.expect_end("the partition")
    return DropPartitions(name, partitions, if_exists)


def _parse_drop_feature(cursor: Cursor, name: TableName) -> DropFeature:
    """Parse `feature [TRUNCATE HISTORY]` after DROP FEATURE. The feature is a name or a string."""
    feature = cursor.string("a feature") if cursor.token().kind is Kind.STRING else cursor.identifier("a feature")
    truncates_history = cursor.accept("TRUNCATE", "HISTORY")
    cursor.expect_end("the feature")
    return DropFeature(name, feature, truncates_history)


def _parse_set_properties(cursor: Cursor, name: TableName) -> definitions.SetProperties:
    """Parse `('key' = 'value', …)` after SET TBLPROPERTIES."""
    properties = columns.parse_properties(cursor)
    cursor.expect_end("the properties")
    return definitions.SetProperties(name, properties)


def _parse_unset_properties(cursor: Cursor, name: TableName) -> definitions.UnsetProperties:
    """Parse `[IF EXISTS] ('key', …)` after UNSET TBLPROPERTIES."""
    if_exists = cursor.accept("IF", "EXISTS")
    keys = cursor.parenthesized(lambda: columns.parse_property_key(cursor))
    cursor.expect_end("the properties")
    return definitions.UnsetProperties(name, keys, if_exists)


def _parse_add_columns(cursor: Cursor, name: TableName) -> definitions.AddColumns:
    """Parse `(name type … [FIRST|AFTER column], …)` after ADD COLUMN[S]."""

    def read_column() -> tuple[definitions.ColumnDefinition, definitions.ColumnPlace | None]:
        column = columns.parse_column_definition(cursor, nested=True)
        return column, alter_columns.parse_column_place(cursor, "the column before the new one")

    placed_columns = cursor.list_with_or_without_parentheses(read_column)
    cursor.expect_end("the columns")
    positions = {column.path: place.previous_column for column, place in placed_columns if place is not None}
    return definitions.AddColumns(name, tuple(column for column, _ in placed_columns), positions)


def _parse_drop_constraint(cursor: Cursor, name: TableName) -> definitions.DropConstraint:
    """Parse `[IF EXISTS] name [RESTRICT|CASCADE]` after DROP CONSTRAINT."""
    if_exists = cursor.accept("IF", "EXISTS")
    constraint = cursor.identifier("a constraint's name")
    cursor.accept_any("RESTRICT", "CASCADE")
    cursor.expect_end("the constraint's name")
    return definitions.DropConstraint(name, constraint, if_exists)


def _parse_add_constraint(cursor: Cursor, name: TableName) -> definitions.AddConstraint:
    """Parse `[CONSTRAINT name] CHECK (…)` after ADD. Raise UnsupportedStatement for other objects, such as partitions."""
    if cursor.next_is("PARTITION") or cursor.next_is("IF", "NOT", "EXISTS", "PARTITION"):
        raise cursor.unsupported("ADD PARTITION is not needed: a partition exists as soon as it has rows. Use INSERT INTO … PARTITION (…)")
    if not (cursor.next_is("CONSTRAINT") or columns.begins_constraint(cursor)):
        raise cursor.unsupported(_NOT_SUPPORTED.format(form="ADD", advice=_REWRITE), cursor.token(-1))
    check = columns.parse_constraint(cursor)
    cursor.expect_end("the constraint")
    return definitions.AddConstraint(name, check)


def _parse_alter_column(cursor: Cursor, name: TableName) -> definitions.DefinitionCommand:
    """Parse `[COLUMN] column …` after ALTER or CHANGE."""
    cursor.accept_before_name("COLUMN")
    column = cursor.path("a column's name")
    return alter_columns.parse_column_change(cursor, name, column) or _parse_default_or_nullability(cursor, name, column)


def _parse_default_or_nullability(cursor: Cursor, name: TableName, column: tuple[str, ...]) -> definitions.DefinitionCommand:
    """Parse `SET DEFAULT value`, `DROP DEFAULT` or `SET|DROP NOT NULL`. Raise UnsupportedStatement for any other change of a column."""
    verb = cursor.accept_any("SET", "DROP")
    if verb and cursor.accept("NOT", "NULL"):
        cursor.expect_end("NOT NULL")
        return definitions.SetNullable(name, column, nullable=verb == "DROP")
    if not verb or not cursor.accept("DEFAULT"):
        raise cursor.unsupported(f"ALTER COLUMN changes only the type, the comment, the position, the default and NOT NULL. {_REWRITE}")
    column_name, *fields = column
    if fields:
        raise cursor.unsupported(f"A field inside the column `{column_name}` cannot have a default. Set a default for the whole column")
    value = parse_last_expression(cursor, "a default value") if verb == "SET" else None
    cursor.expect_end("DEFAULT")
    return definitions.SetDefault(name, column_name, value)


def _refusal(cursor: Cursor, kind: str) -> Exception:
    """Return the error for an unsupported form of ALTER, with the statement to use instead if there is one."""
    if kind == "VIEW":
        return cursor.unsupported("ALTER VIEW supports only RENAME TO, and SET and UNSET TBLPROPERTIES. Use CREATE OR REPLACE VIEW")
    if cursor.at_end:
        return cursor.expected("what to alter")
    form, advice = _UNSUPPORTED.get((cursor.key(), cursor.key(1)), (cursor.key() or cursor.token().text, _REWRITE))
    return cursor.unsupported(_NOT_SUPPORTED.format(form=form, advice=advice))


_Forms = dict[tuple[str, ...], Callable[[Cursor, TableName], Alteration]]
_PROPERTY_FORMS: _Forms = {("SET", "TBLPROPERTIES"): _parse_set_properties, ("UNSET", "TBLPROPERTIES"): _parse_unset_properties}
_VIEW_FORMS: _Forms = {**_PROPERTY_FORMS, ("RENAME", "TO"): partial(_parse_rename, view=True)}
_TABLE_FORMS: _Forms = {
    **_PROPERTY_FORMS,
    ("RENAME", "TO"): partial(_parse_rename, view=False),
    ("SET", "LOCATION"): _parse_set_location,
    ("SET", "IDENTIFIER", "FIELDS"): partial(_parse_identifiers, drop=False),
    ("DROP", "IDENTIFIER", "FIELDS"): partial(_parse_identifiers, drop=True),
    ("REPLACE", "COLUMNS"): alter_columns.parse_replace_columns,
    **{(verb, "PARTITION", "FIELD"): partial(partitioning.parse_partition_field_change, verb=verb) for verb in ("ADD", "DROP", "REPLACE")},
    ("DROP", "PARTITION"): partial(_parse_drop_partitions, if_exists=False),
    ("DROP", "IF", "EXISTS", "PARTITION"): partial(_parse_drop_partitions, if_exists=True),
    ("DROP", "FEATURE"): _parse_drop_feature,
    ("ADD", "COLUMN"): _parse_add_columns,
    ("ADD", "COLUMNS"): _parse_add_columns,
    ("ADD",): _parse_add_constraint,
    ("DROP", "COLUMN"): alter_columns.parse_drop_columns,
    ("DROP", "COLUMNS"): alter_columns.parse_drop_columns,
    ("DROP", "CONSTRAINT"): _parse_drop_constraint,
    ("WRITE",): partitioning.parse_write_order,
    ("RENAME", "COLUMN"): alter_columns.parse_rename_column,
    ("ALTER",): _parse_alter_column,
    ("CHANGE",): _parse_alter_column,
    **{("DROP", kind): partial(snapshot_references.parse_drop_reference, kind=kind) for kind in ("BRANCH", "TAG")},
    **{
        (*verb.split(), kind): partial(snapshot_references.parse_set_reference, verb=verb, kind=kind)
        for verb in ("CREATE", "CREATE OR REPLACE", "REPLACE")
        for kind in ("BRANCH", "TAG")
    },
}
"""For the words after the table's name, the function that parses the tokens after these words. The first matching entry applies."""
