"""The grammar of ALTER TABLE … RENAME COLUMN, DROP COLUMNS, ALTER COLUMN and CHANGE COLUMN, which do not change data files."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.definitions import (
    AlterColumn,
    ColumnDefinition,
    ColumnPlace,
    CommentOn,
    CommentOnColumns,
    DropColumns,
    RenameColumn,
    ReplaceColumns,
)
from rowmerge.commands.names import TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import parse_data_type
from rowmerge.sql.statements.columns import parse_column_definition

ColumnChange = AlterColumn | CommentOn | CommentOnColumns


def parse_rename_column(cursor: Cursor, name: TableName) -> RenameColumn:
    """Parse `a.b TO c` after RENAME COLUMN.

    Args:
        cursor: The cursor at the column's old name.
        name: The name of the table.

    Raises:
        Unparsable: The text does not follow the grammar.
        UnsupportedStatement: The new name is a path, which would move the column into or out of a struct.
    """
    column = cursor.path("a column's name")
    cursor.expect("TO")
    new_name = cursor.identifier("the column's new name")
    if cursor.next_is("."):
        raise cursor.unsupported("A column cannot be moved into or out of a struct. Write only the new name, without a path")
    cursor.expect_end("the new name")
    return RenameColumn(name, column, new_name)


def parse_drop_columns(cursor: Cursor, name: TableName) -> DropColumns:
    """Parse `[IF EXISTS] (a, b.c)` after DROP COLUMN[S].

    Args:
        cursor: The cursor after COLUMN or COLUMNS.
        name: The name of the table.
    """
    if_exists = cursor.accept("IF", "EXISTS")
    columns = cursor.list_with_or_without_parentheses(lambda: cursor.path("a column's name"))
    cursor.expect_end("the columns")
    return DropColumns(name, columns, if_exists)


def parse_replace_columns(cursor: Cursor, name: TableName) -> ReplaceColumns:
    """Parse `(name type [COMMENT '…'], …)` after REPLACE COLUMNS. As in Spark, columns have neither NOT NULL nor a position.

    Args:
        cursor: The cursor after COLUMNS.
        name: The name of the table.

    Raises:
        Unparsable: The text does not follow the grammar.
        UnsupportedStatement: A column has another clause than COMMENT.
    """

    def read_column() -> ColumnDefinition:
        token = cursor.token()
        column = parse_column_definition(cursor)
        has_position = cursor.key() in ("FIRST", "AFTER")
        if has_position or column != ColumnDefinition(column.name, column.type, comment=column.comment):
            advice = "REPLACE COLUMNS takes only the name, the type and the comment of a column. Use ALTER COLUMN for the rest"
            raise cursor.unsupported(advice, token)
        return column

    columns = cursor.list_with_or_without_parentheses(read_column)
    cursor.expect_end("the columns")
    return ReplaceColumns(name, columns)


def parse_column_change(cursor: Cursor, name: TableName, column: tuple[str, ...]) -> ColumnChange | None:
    """Parse COMMENT, TYPE, FIRST or AFTER after `ALTER COLUMN a.b`, or Hive's form, which can combine these changes.

    Args:
        cursor: The cursor after the column's path.
        name: The name of the table.
        column: The path of the column.

    Returns:
        The command, or None for any other change of a column.

    Raises:
        Unparsable: The text does not follow the grammar.
        UnsupportedStatement: The statement renames a column, or changes anything other than the comments of several columns.
    """
    if cursor.accept("COMMENT"):
        return _parse_comments(cursor, name, column)
    if cursor.accept("TYPE"):
        change = AlterColumn(name, column, parse_data_type(cursor))
    elif cursor.key() in ("FIRST", "AFTER"):
        change = AlterColumn(name, column)
    elif _begins_hive_form(cursor):
        change = _parse_hive_form(cursor, name, column)
    else:
        return None
    change = replace(change, place=parse_column_place(cursor, "the column before it"))
    if cursor.next_is(","):
        raise cursor.unsupported("ALTER COLUMN takes several columns only for comments. Write one statement for each column")
    cursor.expect_end("the change of the column")
    return change


def parse_column_place(cursor: Cursor, description: str) -> ColumnPlace | None:
    """Parse `FIRST` or `AFTER column`. Return None if neither comes next.

    Args:
        cursor: The cursor at FIRST, AFTER or any other token.
        description: The noun for the column after AFTER in error messages.
    """
    if cursor.accept("FIRST"):
        return ColumnPlace(None)
    return ColumnPlace(cursor.identifier(description)) if cursor.accept("AFTER") else None


def _parse_comments(cursor: Cursor, name: TableName, column: tuple[str, ...]) -> CommentOn | CommentOnColumns:
    """Parse the comment of `column` and the comments of any further columns: `'…'[, b.c COMMENT '…']…`."""
    comment = cursor.string("a comment")
    comments = [(column, comment)]
    while cursor.accept(","):
        path = cursor.path("a column's name")
        if not cursor.accept("COMMENT"):
            raise cursor.unsupported("ALTER COLUMN takes several columns only for comments. Write one statement for each other change")
        comments.append((path, cursor.string("a comment")))
    is_single = len(comments) == 1
    cursor.expect_end("the change of the column" if is_single else "the comments")
    return CommentOn(name, comment, column) if is_single else CommentOnColumns(name, tuple(comments))


def _begins_hive_form(cursor: Cursor) -> bool:
    """Return whether `name type …` comes next rather than a verb such as SET or DROP."""
    return cursor.token().is_name and cursor.token(1).is_name and cursor.key() not in ("SET", "DROP", "SYNC", "RENAME")


def _parse_hive_form(cursor: Cursor, name: TableName, column: tuple[str, ...]) -> AlterColumn:
    """Parse `a int [COMMENT 'x']`, which repeats the name of the column."""
    if cursor.identifier("the column's name again").lower() != column[-1].lower():
        raise cursor.unsupported("CHANGE COLUMN does not rename. Use ALTER TABLE … RENAME COLUMN … TO", cursor.token(-1))
    return AlterColumn(name, column, parse_data_type(cursor), cursor.optional_string("COMMENT", "a comment"))
