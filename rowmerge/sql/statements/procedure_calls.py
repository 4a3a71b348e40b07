"""The grammar of CALL [catalog.]system.procedure(argument, …) for the procedures of Iceberg's Spark catalogs."""

from __future__ import annotations

from rowmerge.commands.names import CATALOGS, SqlText
from rowmerge.commands.procedures import PROCEDURES, Call, Procedure
from rowmerge.sql.lexing.cursor import Cursor, suggest
from rowmerge.sql.lexing.expressions import at_comma, parse_expression

_SYSTEM = "system"


def parse_call(cursor: Cursor) -> Call | None:
    """Parse CALL for a procedure in a catalog of the session. Return None for procedures in other catalogs, which Spark executes.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The procedure or a parameter does not exist, or a required argument is missing.
    """
    token = cursor.token()
    *namespace, name = cursor.path("the name of a procedure")
    *catalog, system = [part.lower() for part in namespace] or [""]
    if system != _SYSTEM or catalog not in ([], *([name_of_catalog] for name_of_catalog in cursor.catalogs or CATALOGS)):
        return None
    procedure = PROCEDURES.get(name.lower())
    if procedure is None:
        raise cursor.unsupported(f"There is no procedure {_SYSTEM}.{name}. {suggest(name, tuple(PROCEDURES))}", token)
    arguments = _parse_arguments(cursor, name.lower(), procedure)
    cursor.expect_end("the arguments")
    for parameter in procedure.required:
        if parameter not in arguments:
            description = procedure.parameters[parameter].value
            raise cursor.unsupported(f"{name} needs the argument {parameter}: {description}. Add {parameter} => …")
    return Call(name.lower(), arguments, catalog[0] if catalog and cursor.catalogs else None)


def _parse_arguments(cursor: Cursor, name: str, procedure: Procedure) -> dict[str, SqlText]:
    """Parse `(value, …, parameter => value, …)`, and return the values by parameter name. Leave out NULL arguments."""
    arguments: dict[str, SqlText] = {}
    is_named = False  # true for the first named argument and for all arguments after it
    cursor.expect("(")
    while not cursor.next_is(")"):
        is_named = is_named or _begins_named_argument(cursor)
        if is_named:
            parameter = _parse_parameter_name(cursor, name, procedure, arguments)
        else:
            parameter = _parameter_at(cursor, name, procedure, position=len(arguments))
        value_description = f"{procedure.parameters[parameter].value} for {parameter}"
        arguments[parameter] = parse_expression(cursor, value_description, at_comma)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return {parameter: value for parameter, value in arguments.items() if value.text.upper() != "NULL"}


def _begins_named_argument(cursor: Cursor) -> bool:
    return cursor.token().is_name and cursor.key(1) == "=>"


def _parse_parameter_name(cursor: Cursor, name: str, procedure: Procedure, arguments: dict[str, SqlText]) -> str:
    """Parse `parameter =>`, and return the parameter's name. Raise Unparsable if `arguments` already contains the parameter."""
    parameters, token = tuple(procedure.parameters), cursor.token()
    if not _begins_named_argument(cursor):
        raise cursor.error(f"A positional argument follows a named argument. Name it too, with one of {', '.join(parameters)}")
    cursor.index += 2
    if token.name.lower() not in parameters:
        raise cursor.unsupported(f"{name} has no argument {token.name}. {suggest(token.name, parameters)}", token)
    if token.name.lower() in arguments:
        raise cursor.error(f"The argument {token.name.lower()} occurs twice. Keep one", token)
    return token.name.lower()


def _parameter_at(cursor: Cursor, name: str, procedure: Procedure, position: int) -> str:
    """Return the name of the parameter to which the positional argument at `position` belongs."""
    parameters = tuple(procedure.parameters)
    if position == len(parameters):
        raise cursor.error(f"{name} takes {len(parameters)} arguments: {', '.join(parameters)}. Leave this one out")
    return parameters[position]
