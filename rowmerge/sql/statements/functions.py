"""The grammar of CREATE, DROP, DESCRIBE and SHOW for functions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import cast

from rowmerge.commands import functions
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import at_end, parse_data_type, parse_expression
from rowmerge.sql.lexing.lexer import Kind

_VOLATILITY = {"IMMUTABLE": True, "DETERMINISTIC": True, "NOT DETERMINISTIC": False, "STABLE": None, "VOLATILE": False}
_PYTHON_CLAUSES = ("RUNTIME_VERSION", "HANDLER", "PACKAGES")


def parse_create_function(cursor: Cursor, or_replace: bool, aggregate: bool) -> functions.CreateFunction | None:
    """Parse `[IF NOT EXISTS] name (…) RETURNS type …` after CREATE … FUNCTION.

    Args:
        cursor: The cursor after FUNCTION.
        or_replace: Whether the statement has OR REPLACE.
        aggregate: Whether the statement has AGGREGATE.

    Returns:
        The command, or None for a function implemented by a Java class, which Spark creates.

    Raises:
        Unparsable: The statement does not follow the grammar, or has both OR REPLACE and IF NOT EXISTS.
        UnsupportedStatement: The function returns a table, is in a language other than SQL and Python, or lacks a required clause.
    """
    start_token = cursor.token()
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        raise cursor.error("CREATE FUNCTION takes OR REPLACE or IF NOT EXISTS, not both. Keep one", start_token)
    name = cursor.table_name("the name of a function")
    if cursor.next_is("AS"):
        return None
    definition = _parse_definition(cursor, aggregate)
    cursor.expect_end("the function's body")
    _refuse_inconsistent_clauses(cursor, definition)
    return functions.CreateFunction(name, definition, or_replace, if_not_exists)


def _parse_definition(cursor: Cursor, aggregate: bool) -> functions.FunctionDefinition:
    """Parse `(parameters) RETURNS type` and the clauses after it."""
    parameters = _parse_parameters(cursor)
    definition = functions.FunctionDefinition(parameters, _parse_return_type(cursor), body="", aggregate=aggregate)
    body: str | None = None
    while clause := _accept_clause(cursor):
        if clause not in ("RETURN", "AS"):
            definition = _parse_clause(cursor, clause, definition)
            continue
        if body is not None:
            raise cursor.error("The function has two bodies. Keep one", cursor.token(-1))
        body = parse_expression(cursor, "an expression", at_end).text if clause == "RETURN" else cursor.string("the body")
    if body is None:
        raise cursor.expected("RETURN and an expression, or AS and the body as a string")
    return replace(definition, body=body)


def _parse_return_type(cursor: Cursor) -> str:
    """Parse `RETURNS type`, and return the SQL text of the type. Raise an error for TABLE."""
    cursor.expect("RETURNS")
    if cursor.next_is("TABLE"):
        raise cursor.unsupported("A function that returns a TABLE is not supported. Create a view, or write the query in place of the call")
    return parse_data_type(cursor).text


def parse_drop_function(cursor: Cursor) -> functions.DropFunction | None:
    """Parse `[AGGREGATE] FUNCTION [IF EXISTS] name` after DROP. Return None for other objects.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: A list of parameter types follows the name.
    """
    if not (cursor.accept("FUNCTION") or cursor.accept("AGGREGATE", "FUNCTION")):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.table_name("the name of a function")
    if cursor.next_is("("):
        raise cursor.unsupported("Functions are not overloaded by their parameter types. Leave the list of types out")
    cursor.expect_end("the name")
    return functions.DropFunction(name, if_exists)


def parse_describe_function(cursor: Cursor) -> functions.DescribeFunction | None:
    """Parse `[EXTENDED] name` after DESCRIBE FUNCTION. Return None for an operator such as `+`, which Spark describes."""
    cursor.accept_before_name("EXTENDED")
    if not cursor.token().is_name:
        return None
    name = cursor.table_name("the name of a function")
    cursor.expect_end("the name")
    return functions.DescribeFunction(name, cursor.text_from(0))


def parse_show_functions(cursor: Cursor) -> functions.ShowFunctions | None:
    """Parse `[USER] FUNCTIONS [IN schema] [[LIKE] 'pattern']` after SHOW. Without USER and a schema, return None."""
    user = cursor.accept("USER")
    if not cursor.accept("FUNCTIONS"):
        return None
    schema = cursor.schema_name() if cursor.accept_any("FROM", "IN") else None
    if not user and schema is None:
        return None
    pattern = parse_like(cursor)
    cursor.expect_end("SHOW FUNCTIONS")
    return functions.ShowFunctions(schema, pattern)


def parse_like(cursor: Cursor) -> str | None:
    """Parse `[LIKE] 'pattern'` and return the pattern, or return None if no pattern comes next."""
    return cursor.string("a pattern") if cursor.accept("LIKE") or cursor.token().kind is Kind.STRING else None


def _parse_parameters(cursor: Cursor) -> tuple[functions.Parameter, ...]:
    """Parse `(name type …, …)` or `()`. The names must be unique, and the parameters with a default must come last."""
    if cursor.accept("(", ")"):
        return ()
    opening_token = cursor.token()
    parameters = cursor.parenthesized(lambda: _parse_parameter(cursor))
    names = [parameter.name.lower() for parameter in parameters]
    for name in names:
        if names.count(name) > 1:
            raise cursor.error(f"The parameter {name} occurs twice. Rename one of them", opening_token)
    for previous, parameter in itertools.pairwise(parameters):
        if previous.default is not None and parameter.default is None:
            reason = f"The parameter {parameter.name} has no default, but follows {previous.name}, which has one. Move it forward"
            raise cursor.error(reason, opening_token)
    return parameters


def _parse_parameter(cursor: Cursor) -> functions.Parameter:
    """Parse `name type [DEFAULT expression] [COMMENT '…']`."""
    name = cursor.identifier("the name of a parameter")
    type_ = parse_data_type(cursor).text
    default = None
    if cursor.accept("DEFAULT"):
        default = parse_expression(cursor, "a default", lambda c: c.key() in (",", "COMMENT")).text
    return functions.Parameter(name, type_, default, cursor.optional_string("COMMENT", "a comment"))


def _accept_clause(cursor: Cursor) -> str:
    """Step over the words that begin a clause and return these words, or return an empty string if no clause follows."""
    for words in (("NOT", "DETERMINISTIC"), ("CONTAINS", "SQL"), ("READS", "SQL", "DATA")):
        if cursor.accept(*words):
            return " ".join(words)
    return cursor.accept_any(*_VOLATILITY, *_PYTHON_CLAUSES, "LANGUAGE", "COMMENT", "RETURN", "AS")


def _parse_clause(cursor: Cursor, clause: str, definition: functions.FunctionDefinition) -> functions.FunctionDefinition:
    """Parse a clause after its first words, and return `definition` with the clause added. Python functions use Snowflake's clauses."""
    if clause in _PYTHON_CLAUSES:
        cursor.accept("=")
    match clause:
        case "CONTAINS SQL" | "READS SQL DATA":
            return definition
        case "LANGUAGE":
            return replace(definition, language=_parse_language(cursor))
        case "COMMENT":
            return replace(definition, comment=cursor.string("a comment"))
        case "PACKAGES":
            packages = () if cursor.accept("(", ")") else cursor.parenthesized(lambda: cursor.string("a package"))
            return replace(definition, packages=packages)
        case "HANDLER":
            return replace(definition, handler=cursor.string("the name of the Python function or class"))
        case "RUNTIME_VERSION":
            return replace(definition, runtime=cursor.string("a version of Python"))
        case _:
            return replace(definition, deterministic=_VOLATILITY[clause])


def _parse_language(cursor: Cursor) -> functions.Language:
    """Parse SQL or PYTHON. Raise UnsupportedStatement for other languages."""
    language = cursor.identifier("a language").lower()
    if language not in ("sql", "python"):
        raise cursor.unsupported(f"Functions in the language {language} are not supported. Use SQL or PYTHON", cursor.token(-2))
    return cast(functions.Language, language)


def _refuse_inconsistent_clauses(cursor: Cursor, definition: functions.FunctionDefinition) -> None:
    """Raise UnsupportedStatement for clauses that do not apply to the function's language, and for an aggregate without parameters."""
    if definition.language == "python" and definition.handler is None:
        raise cursor.unsupported("A Python function needs a HANDLER: the name of the Python function, or of an aggregate's class")
    if definition.language == "sql" and (definition.handler is not None or definition.packages):
        raise cursor.unsupported("HANDLER and PACKAGES are allowed only for Python functions. Leave them out, or add LANGUAGE PYTHON")
    if definition.aggregate and not definition.parameters:
        raise cursor.unsupported("An aggregate function needs a parameter for the values that it aggregates")
