"""ALTER TABLE … RENAME COLUMN, DROP COLUMNS, ALTER and CHANGE COLUMN: changes of columns that leave the data files as they are."""

from __future__ import annotations

from rowmerge.commands.definitions import AlterColumn, ColumnPlace, CommentOn, CommentOnColumns, DropColumns, RenameColumn
from rowmerge.commands.names import SqlText, TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import data_type

_ONE_CHANGE = frozenset({"TYPE", "COMMENT", "FIRST", "AFTER"})


def rename_or_drop(cursor: Cursor, name: TableName) -> RenameColumn | DropColumns | None:
    """`RENAME COLUMN a.b TO c`, `DROP COLUMN[S] [IF EXISTS] (a, b.c)`; None for everything else."""
    if cursor.accept("RENAME", "COLUMN"):
        column = cursor.path("a column's name")
        cursor.expect("TO")
        new = cursor.identifier("the column's new name")
        if cursor.sees("."):
            raise cursor.unsupported("A column cannot be moved into or out of a struct. Give the new name alone, without a path")
        cursor.finish("the new name")
        return RenameColumn(name, column, new)
    if cursor.sees("DROP") and cursor.key(1) in ("COLUMN", "COLUMNS"):
        cursor.at += 2
        if_exists = cursor.accept("IF", "EXISTS")
        if cursor.sees("("):
            columns = cursor.listed(lambda: cursor.path("a column's name"))
        else:
            columns = (cursor.path("a column's name"),)
            while cursor.accept(","):
                columns += (cursor.path("a column's name"),)
        cursor.finish("the columns")
        return DropColumns(name, columns, if_exists)
    return None


def change_of_column(cursor: Cursor, name: TableName, column: tuple[str, ...]) -> AlterColumn | CommentOn | CommentOnColumns | None:
    """What follows `ALTER COLUMN a.b`: TYPE, COMMENT (also of several columns), FIRST or AFTER; or all of them in the form
    `CHANGE COLUMN a a int COMMENT 'x' FIRST`.

    None for everything else.
    """
    type_: SqlText | None = None
    comment: str | None = None
    if cursor.accept("TYPE"):
        type_ = data_type(cursor)
    elif cursor.accept("COMMENT"):
        comment = cursor.string("a comment")
    elif cursor.key() not in _ONE_CHANGE:
        if not _in_hive_style(cursor):
            return None
        if cursor.identifier("the column's name again").lower() != column[-1].lower():
            raise cursor.unsupported("CHANGE COLUMN does not rename. Use ALTER TABLE … RENAME COLUMN … TO", cursor.token(-1))
        type_ = data_type(cursor)
        comment = cursor.string("a comment") if cursor.accept("COMMENT") else None
    place = _place(cursor) if comment is None or type_ is not None else None
    if comment is not None and type_ is None and cursor.sees(","):
        return _comments(cursor, name, column, comment)
    if cursor.sees(","):
        raise cursor.unsupported("ALTER COLUMN takes one column, and several only for comments. Write one statement for each")
    cursor.finish("the change of the column")
    if type_ is None and place is None:
        return CommentOn(name, comment, column)
    return AlterColumn(name, column, type_, comment, place)


def _comments(cursor: Cursor, name: TableName, column: tuple[str, ...], comment: str) -> CommentOnColumns:
    comments = [(column, comment)]
    while cursor.accept(","):
        path = cursor.path("a column's name")
        if not cursor.accept("COMMENT"):
            raise cursor.unsupported("ALTER COLUMN takes several columns only for comments. Write one statement for each other change")
        comments.append((path, cursor.string("a comment")))
    cursor.finish("the comments")
    return CommentOnColumns(name, tuple(comments))


def _in_hive_style(cursor: Cursor) -> bool:
    """`name type …` rather than a verb such as SET or DROP."""
    return cursor.token().is_name and cursor.token(1).is_name and cursor.key() not in ("SET", "DROP", "SYNC", "RENAME")


def _place(cursor: Cursor) -> ColumnPlace | None:
    if cursor.accept("FIRST"):
        return ColumnPlace(None)
    if cursor.accept("AFTER"):
        return ColumnPlace(cursor.identifier("the column before it"))
    return None
