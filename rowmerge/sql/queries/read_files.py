"""The table functions `read_files('path', format => 'csv', header => 'true', …)` and `table_changes(…)`, as in Databricks SQL."""

from __future__ import annotations

import re
from dataclasses import replace

from rowmerge.commands.names import FILE_FORMATS, TABLE_FORMATS, FileSource, SqlText, TableName
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor, suggest
from rowmerge.sql.lexing.lexer import Kind, tokenize

_FORMATS = (*FILE_FORMATS, *TABLE_FORMATS)
_TABLE_OPTIONS = {"versionasof": "versionAsOf", "timestampasof": "timestampAsOf"}
_ENDING = re.compile(rf"\.({'|'.join(FILE_FORMATS)})(?:\.\w+)?/?$", re.IGNORECASE)


def parse_table_changes_arguments(cursor: Cursor) -> tuple[SqlText, ...]:
    """Parse the arguments of TABLE_CHANGES, `(name, start [, end])`, as a list of expressions.

    The session checks the number and the values of the arguments later, when it resolves the table.

    Raises:
        Unparsable: The list is not closed, or an argument is not an expression.
    """
    cursor.expect("(")
    arguments = []
    while not cursor.at_end and not cursor.next_is(")"):
        arguments.append(expressions.parse_expression(cursor, "an argument of table_changes", expressions.at_comma))
        cursor.accept(",")  # an argument ends only before a comma or the closing parenthesis
    cursor.expect(")")
    return tuple(arguments)


def parse_file_source(cursor: Cursor) -> FileSource:
    """Parse the arguments of READ_FILES: `('path', option => constant, …)`.

    Raises:
        Unparsable: The arguments do not follow the grammar, or neither an option nor the file extension specifies the format.
        UnsupportedStatement: The format is unknown, or the path is that of a table and an option does not apply to tables.
    """
    start_token = cursor.token()
    cursor.expect("(")
    path = cursor.string("the path of files")
    options = _parse_options(cursor)
    cursor.expect(")")
    stated_format, schema, name = (_pop_option(options, option) for option in ("format", "schema", "name"))
    file_format = _infer_format(path) if stated_format is None else stated_format
    if file_format is None:
        raise cursor.error(f"read_files cannot infer the format of {path}. Add format => '…': {', '.join(_FORMATS)}", start_token)
    if file_format.lower() not in _FORMATS:
        raise cursor.unsupported(f"read_files does not support the format {file_format}. {suggest(file_format, _FORMATS)}", start_token)
    table_name = None if name is None else TableName(tuple(token.name for token in tokenize(name) if token.is_name))
    source = FileSource(path, file_format.lower(), schema, table_name, options)
    return _with_table_options(cursor, source) if source.format in TABLE_FORMATS else source


def _pop_option(options: dict[str, str], option: str) -> str | None:
    """Remove an option from `options` without regard to case. Return the option's value, or None if it is not set."""
    names = [name for name in options if name.lower() == option]
    return options.pop(names[0]) if names else None


def _infer_format(path: str) -> str | None:
    """Return the format that the extension of a path, such as `.csv` or `.json.gz`, specifies, or None for any other extension."""
    ending = _ENDING.search(path)
    return None if ending is None else ending[1]


def _parse_options(cursor: Cursor) -> dict[str, str]:
    """Parse `, option => constant, …`. Option names must be unique without regard to case."""
    options: dict[str, str] = {}
    while cursor.accept(","):
        token = cursor.token()
        name = cursor.string("an option") if token.kind is Kind.STRING else cursor.identifier("the name of an option")
        cursor.expect("=>")
        if name.lower() in map(str.lower, options):
            raise cursor.error(f"The option {name} occurs twice. Keep one", token)
        options[name] = _parse_constant(cursor, name)
    return options


def _with_table_options(cursor: Cursor, source: FileSource) -> FileSource:
    """Return the source of a table with option names in camel case. Raise an error for a schema, options of files, or two versions."""
    unsupported_options = [name for name in source.options if name.lower() not in _TABLE_OPTIONS]
    if source.schema is not None:
        unsupported_options.append("schema")
    if len(source.options) > 1:
        unsupported_options.append("two versions")
    if unsupported_options:
        advice = "Leave it out. Only one of versionAsOf and timestampAsOf is allowed"
        raise cursor.unsupported(f"read_files of a {source.format} table does not support {unsupported_options[0]}. {advice}")
    return replace(source, options={_TABLE_OPTIONS[name.lower()]: value for name, value in source.options.items()})


def _parse_constant(cursor: Cursor, option: str) -> str:
    """Parse a string, a boolean or a number with or without a minus sign, and return its text."""
    sign = "-" if cursor.accept("-") else ""
    token = cursor.token()
    if token.kind is Kind.NUMBER or token.key in ("TRUE", "FALSE"):
        cursor.index += 1
        return sign + token.text.lower()
    return cursor.string(f"the value of {option}")
