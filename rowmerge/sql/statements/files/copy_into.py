"""The grammar of COPY INTO, as in Databricks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rowmerge.commands.names import FILE_FORMATS, FileSource
from rowmerge.commands.rows import CopyInto
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor, suggest
from rowmerge.sql.lexing.lexer import Kind

_FORMATS = (*FILE_FORMATS, "binaryfile")
_COPY_OPTIONS = ("force", "mergeSchema")
_SKIPPING_OPTIONS = ("ignorecorruptfiles", "ignoremissingfiles")
"""Options of Spark's readers that skip files. COPY INTO would record a skipped file as loaded."""


def parse_copy_into(cursor: Cursor) -> CopyInto:
    """Parse `COPY INTO table [BY POSITION | (columns)] FROM 'path' | (SELECT … FROM 'path') FILEFORMAT = format …`.

    Raises:
        Unparsable: The statement does not follow the grammar, or an option has a value that it does not allow.
        UnsupportedStatement: The statement has credentials, an unknown format, or an option that COPY INTO does not have.
    """
    command = CopyInto(cursor.table_name(), FileSource("", ""))
    if cursor.accept("BY", "POSITION"):
        command = replace(command, by_position=True)
    elif cursor.next_is("("):
        command = replace(command, columns=cursor.identifiers("a column"))
    cursor.expect("FROM")
    command = _parse_source(cursor, command)
    cursor.expect("FILEFORMAT", "=")
    command = replace(command, source=replace(command.source, format=_parse_format(cursor)))
    command = _parse_clauses(cursor, command)
    cursor.expect_end("the options")
    return command


def _parse_source(cursor: Cursor, command: CopyInto) -> CopyInto:
    """Parse a path, or `(SELECT expression, … FROM 'path' [[AS] alias])`."""
    if not cursor.accept("("):
        return replace(command, source=FileSource(_parse_path(cursor), ""))
    cursor.expect("SELECT")
    select = cursor.comma_separated(lambda: expressions.parse_expression(cursor, "an expression", _at_comma_or_from).text)
    cursor.expect("FROM")
    path = _parse_path(cursor)
    alias = expressions.parse_alias(cursor)
    if not cursor.accept(")"):
        raise cursor.unsupported("The SELECT of COPY INTO has only expressions and FROM 'path'. For other clauses, use INSERT")
    return replace(command, source=FileSource(path, ""), select=select, alias=alias)


def _at_comma_or_from(cursor: Cursor) -> bool:
    return cursor.next_is_keyword("FROM") or expressions.at_comma(cursor)


def _parse_path(cursor: Cursor) -> str:
    """Parse a path. Raise UnsupportedStatement for credentials, which belong to Spark's configuration."""
    path = cursor.string("the path of files")
    if cursor.next_is("WITH"):
        raise cursor.unsupported("COPY INTO … WITH (CREDENTIAL …) is not supported. Set the credentials in Spark's configuration")
    return path


def _parse_format(cursor: Cursor) -> str:
    """Parse the format of the files as a name or a string."""
    token = cursor.token()
    name = cursor.string("a format") if token.kind is Kind.STRING else cursor.identifier("a format")
    if name.lower() not in _FORMATS:
        raise cursor.unsupported(f"COPY INTO does not support the format {name}. {suggest(name.lower(), _FORMATS)}", token)
    return name.lower()


def _parse_clauses(cursor: Cursor, command: CopyInto) -> CopyInto:
    """Parse the clauses after the format, in the order of Databricks. Each is optional."""
    if cursor.accept("VALIDATE"):
        command = replace(command, validate=True, validated_rows=_parse_validated_rows(cursor))
    if cursor.accept("FILES"):
        cursor.expect("=")
        command = replace(command, files=cursor.parenthesized(lambda: cursor.string("the name of a file")))
    elif cursor.accept("PATTERN"):
        cursor.expect("=")
        command = replace(command, pattern=cursor.string("a glob pattern"))
    if cursor.accept("FORMAT_OPTIONS"):
        options = _parse_options(cursor)
        skipping = [name for name in options if name.lower() in _SKIPPING_OPTIONS]
        if skipping:
            raise cursor.unsupported(f"COPY INTO does not support {skipping[0]}. Leave damaged files out with FILES or PATTERN")
        command = replace(command, source=replace(command.source, options=options))
    if cursor.accept("COPY_OPTIONS"):
        values = _parse_flags(cursor, _parse_options(cursor))
        command = replace(command, force=values.get("force", False), schema_evolution=values.get("mergeschema", False))
    return command


def _parse_validated_rows(cursor: Cursor) -> int | None:
    """Parse `[ALL | n ROWS]` after VALIDATE, and return the number of rows, or None for all."""
    if cursor.accept("ALL") or cursor.token().kind is not Kind.NUMBER:
        return None
    rows = cursor.integer("the number of rows")
    cursor.expect("ROWS")
    return rows


def _parse_options(cursor: Cursor) -> dict[str, str]:
    """Parse `('name' = value, …)`. Raise Unparsable if a name occurs twice without regard to case."""
    options: dict[str, str] = {}
    for name, value in cursor.parenthesized(lambda: _parse_option(cursor)):
        if name.lower() in map(str.lower, options):
            raise cursor.error(f"The option {name} occurs twice. Keep one")
        options[name] = value
    return options


def _parse_option(cursor: Cursor) -> tuple[str, str]:
    """Parse `'name' = value`, where the value is a string, a number or a boolean."""
    name = cursor.string("an option") if cursor.token().kind is Kind.STRING else cursor.identifier("an option")
    cursor.expect("=")
    sign = "-" if cursor.accept("-") else ""
    token = cursor.token()
    if token.kind is Kind.NUMBER or token.key in ("TRUE", "FALSE"):
        cursor.index += 1
        return name, sign + token.text.lower()
    return name, cursor.string(f"the value of {name}")


def _parse_flags(cursor: Cursor, options: Mapping[str, str]) -> dict[str, bool]:
    """Return the values of COPY_OPTIONS by name in lower case."""
    flags = {}
    for name, value in options.items():
        if name.lower() not in map(str.lower, _COPY_OPTIONS):
            raise cursor.unsupported(f"COPY INTO does not have the copy option {name}. {suggest(name, _COPY_OPTIONS)}")
        if value.lower() not in ("true", "false"):
            raise cursor.error(f"The copy option {name} is {value!r}. Write 'true' or 'false'")
        flags[name.lower()] = value.lower() == "true"
    return flags
