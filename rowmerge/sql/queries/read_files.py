"""`read_files('path', format => 'csv', header => 'true', …)` in the place of a table; the idea is Databricks'."""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches

from rowmerge.commands.files import FILE_FORMATS, TABLE_FORMATS, FileSource
from rowmerge.commands.names import TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import Kind, tokenize

_FORMATS = (*FILE_FORMATS, *TABLE_FORMATS)
_OF_TABLES = {"versionasof": "versionAsOf", "timestampasof": "timestampAsOf"}
_ENDING = re.compile(rf"\.({'|'.join(FILE_FORMATS)})(?:\.\w+)?/?$", re.IGNORECASE)


def file_source(cursor: Cursor) -> FileSource:
    """The arguments, from the opening bracket to behind the closing one. Values are constants.

    Raises Unparsable, UnsupportedStatement for a format or an option that there is not.
    """
    start = cursor.token()
    cursor.expect("(")
    path = cursor.string("the path of files")
    given: dict[str, str] = {}
    while cursor.accept(","):
        token = cursor.token()
        name = cursor.string("an option") if token.kind is Kind.STRING else cursor.identifier("the name of an option")
        cursor.expect("=>")
        if name.lower() in map(str.lower, given):
            raise cursor.error(f"The option {name} is given twice. Give it once", token)
        given[name] = _constant(cursor, name)
    cursor.expect(")")
    format_, schema, called = (_taken(given, name) for name in ("format", "schema", "name"))
    if format_ is None and (ending := _ENDING.search(path)):
        format_ = ending[1]
    if format_ is None:
        raise cursor.error(f"read_files does not know what {path} is. Add format => '…', one of {', '.join(_FORMATS)}", start)
    if format_.lower() not in _FORMATS:
        raise cursor.unsupported(f"read_files reads no format {format_}. {_near(format_, _FORMATS)}", start)
    source = FileSource(path, format_.lower(), schema, None if called is None else _name(called), given)
    return _of_table(cursor, source) if source.format in TABLE_FORMATS else source


def _of_table(cursor: Cursor, source: FileSource) -> FileSource:
    """The same, its options in one spelling: a table knows its columns, and few options."""
    unknown = [name for name in source.options if name.lower() not in _OF_TABLES]
    if unknown or source.schema is not None or len(source.options) > 1:
        wrong = unknown[0] if unknown else "schema" if source.schema is not None else "two versions"
        raise cursor.unsupported(
            f"read_files of a {source.format} table takes no {wrong}. Leave it out; it may have versionAsOf or timestampAsOf"
        )
    return replace(source, options={_OF_TABLES[name.lower()]: value for name, value in source.options.items()})


def _constant(cursor: Cursor, name: str) -> str:
    token = cursor.token()
    minus = "-" if cursor.accept("-") else ""
    token = cursor.token()
    if token.kind is Kind.NUMBER or token.key in ("TRUE", "FALSE"):
        cursor.at += 1
        return minus + token.text.lower()
    return cursor.string(f"the value of {name}")


def _taken(given: dict[str, str], name: str) -> str | None:
    for key in given:
        if key.lower() == name:
            return given.pop(key)
    return None


def _name(text: str) -> TableName:
    return TableName(tuple(token.name for token in tokenize(text) if token.is_name))


def _near(name: str, candidates: tuple[str, ...]) -> str:
    near = get_close_matches(name.lower(), candidates, n=2, cutoff=0.7)
    return f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(candidates)}"
