"""CREATE, DROP, DESCRIBE and SHOW of functions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import cast

from rowmerge.commands.functions import (
    CreateFunction,
    DescribeFunction,
    DropFunction,
    FunctionDefinition,
    Language,
    Parameter,
    ShowFunctions,
)
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import data_type, expression, until_end
from rowmerge.sql.lexing.lexer import Kind

_VOLATILITY = {"IMMUTABLE": True, "DETERMINISTIC": True, "STABLE": None, "VOLATILE": False}


@dataclass
class _Clauses:
    """What the clauses of one CREATE FUNCTION have said so far."""

    body: str | None = None
    language: Language | None = None
    deterministic: bool | None = None
    handler: str | None = None
    runtime: str | None = None
    packages: tuple[str, ...] = ()
    comment: str | None = None


def create(cursor: Cursor, or_replace: bool) -> CreateFunction | None:
    """`[AGGREGATE] FUNCTION [IF NOT EXISTS] name (parameters) RETURNS type … RETURN …|AS …`, behind CREATE [OR REPLACE].

    None, and nothing moved, for what is no function; None for a function of a Java class, which is Spark's.
    """
    start = cursor.at
    aggregate = cursor.accept("AGGREGATE")
    if not cursor.accept("FUNCTION"):
        cursor.at = start
        return None
    begin = cursor.token()
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        raise cursor.error("CREATE FUNCTION takes OR REPLACE or IF NOT EXISTS, not both. Keep one", begin)
    name = cursor.table_name("the name of a function")
    if cursor.sees("AS"):
        return None
    definition = _definition(cursor, aggregate)
    cursor.finish("the function's body")
    _check(cursor, definition)
    return CreateFunction(name, definition, or_replace, if_not_exists)


def _definition(cursor: Cursor, aggregate: bool) -> FunctionDefinition:
    """Read `(parameters) RETURNS type` and the clauses after it."""
    parameters = _parameters(cursor)
    cursor.expect("RETURNS")
    if cursor.sees("TABLE"):
        raise cursor.unsupported("A function that returns a TABLE is not supported. Make a view, or write the query where it is read")
    returns = data_type(cursor).text
    clauses = _Clauses()
    while _clause(cursor, clauses):
        pass
    if clauses.body is None:
        raise cursor.expected("RETURN and an expression, or AS and the body as a string")
    return FunctionDefinition(
        parameters,
        returns,
        clauses.body,
        clauses.language or "sql",
        aggregate,
        clauses.deterministic,
        clauses.handler,
        clauses.runtime,
        clauses.packages,
        clauses.comment,
    )


def drop(cursor: Cursor) -> DropFunction | None:
    """`FUNCTION [IF EXISTS] name`, behind DROP; None for everything else."""
    if cursor.sees("AGGREGATE", "FUNCTION"):
        cursor.at += 1
    if not cursor.accept("FUNCTION"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.table_name("the name of a function")
    if cursor.sees("("):
        raise cursor.unsupported("A schema has one function of a name. Leave the list of types out")
    cursor.finish("the name")
    return DropFunction(name, if_exists)


def describe(cursor: Cursor) -> DescribeFunction | None:
    """`FUNCTION [EXTENDED] name`, behind DESCRIBE."""
    cursor.expect("FUNCTION")
    if cursor.sees("EXTENDED") and cursor.token(1).is_name:
        cursor.at += 1
    if not cursor.token().is_name:
        return None
    name = cursor.table_name("the name of a function")
    cursor.finish("the name")
    return DescribeFunction(name, cursor.slice(0))


def show(cursor: Cursor) -> ShowFunctions | None:
    """`[USER] FUNCTIONS [FROM|IN schema] [[LIKE] 'pattern']`, behind SHOW; None for all that Spark knows: without USER and a schema."""
    user = cursor.accept("USER")
    if not cursor.accept("FUNCTIONS"):
        return None
    schema = None
    if cursor.accept_any("FROM", "IN"):
        schema = cursor.path("the name of a schema")[-1]
    if not user and schema is None:
        return None
    like = None
    if cursor.accept("LIKE") or cursor.token().kind is Kind.STRING:
        like = cursor.string("a pattern")
    cursor.finish("SHOW FUNCTIONS")
    return ShowFunctions(schema, like)


def _parameters(cursor: Cursor) -> tuple[Parameter, ...]:
    if cursor.accept("(", ")"):
        return ()
    begin = cursor.token()
    parameters = cursor.listed(lambda: _parameter(cursor))
    names = [parameter.name.lower() for parameter in parameters]
    for name in names:
        if names.count(name) > 1:
            raise cursor.error(f"The parameter {name} stands twice. Give one another name", begin)
    for before, after in itertools.pairwise(parameters):
        if before.default is not None and after.default is None:
            raise cursor.error(f"{after.name} has no default, and stands after {before.name}, which has one. Put it before", begin)
    return parameters


def _parameter(cursor: Cursor) -> Parameter:
    name = cursor.identifier("the name of a parameter")
    type_ = data_type(cursor).text
    default = comment = None
    if cursor.accept("DEFAULT"):
        default = expression(cursor, "a default", lambda c: c.key() in (",", "COMMENT")).text
    if cursor.accept("COMMENT"):
        comment = cursor.string("a comment")
    return Parameter(name, type_, default, comment)


def _clause(cursor: Cursor, said: _Clauses) -> bool:
    """Read one clause, or stay and say no."""
    if cursor.accept("NOT", "DETERMINISTIC"):
        said.deterministic = False
        return True
    if cursor.accept("CONTAINS", "SQL") or cursor.accept("READS", "SQL", "DATA"):
        return True
    begin = cursor.token()
    match word := cursor.accept_any(*_VOLATILITY, "LANGUAGE", "COMMENT", "RUNTIME_VERSION", "HANDLER", "PACKAGES", "RETURN", "AS"):
        case "":
            return False
        case "LANGUAGE":
            language = cursor.identifier("a language").lower()
            if language not in ("sql", "python"):
                raise cursor.unsupported(f"Functions in the language {language} are not supported. Write it in SQL or PYTHON", begin)
            said.language = cast(Language, language)
        case "COMMENT":
            said.comment = cursor.string("a comment")
        case "RUNTIME_VERSION" | "HANDLER" | "PACKAGES":
            _python_clause(cursor, word, said)
        case "RETURN" | "AS":
            if said.body is not None:
                raise cursor.error("The function has two bodies. Keep one", begin)
            said.body = expression(cursor, "an expression", until_end).text if word == "RETURN" else cursor.string("the body")
        case _:
            said.deterministic = _VOLATILITY[word]
    return True


def _python_clause(cursor: Cursor, word: str, said: _Clauses) -> None:
    """As Snowflake spells them."""
    cursor.accept("=")
    if word == "PACKAGES":
        said.packages = () if cursor.accept("(", ")") else cursor.listed(lambda: cursor.string("a package"))
    elif word == "HANDLER":
        said.handler = cursor.string("the name of the Python function or class")
    else:
        said.runtime = cursor.string("a version of Python")


def _check(cursor: Cursor, definition: FunctionDefinition) -> None:
    if definition.language == "python" and definition.handler is None:
        raise cursor.unsupported("A function in Python needs a HANDLER: the name of the Python function, or of an aggregate's class")
    if definition.language == "sql" and (definition.handler is not None or definition.packages):
        raise cursor.unsupported("HANDLER and PACKAGES are for functions in Python. Leave them out, or add LANGUAGE PYTHON")
    if definition.aggregate and not definition.parameters:
        raise cursor.unsupported("An aggregate function needs a parameter: what it aggregates")
