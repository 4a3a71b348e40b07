"""CALL [catalog.]system.procedure(argument, …): the procedures of Iceberg's Spark catalogs."""

from __future__ import annotations

from difflib import get_close_matches

from rowmerge.commands.names import CATALOGS, SqlText
from rowmerge.commands.procedures import PROCEDURES, Call, Procedure
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import expression, until_comma

_SYSTEM = "system"


def call(cursor: Cursor) -> Call | None:
    """Arguments by position, by name (`name => value`), or first so and then so. None for procedures of catalogs that are Spark's."""
    cursor.expect("CALL")
    token = cursor.token()
    *path, name = cursor.path("the name of a procedure")
    if [part.lower() for part in path[-1:]] != [_SYSTEM] or len(path) > 2 or (len(path) == 2 and path[0].lower() not in CATALOGS):
        return None
    procedure = PROCEDURES.get(name.lower())
    if procedure is None:
        raise cursor.unsupported(f"There is no procedure {_SYSTEM}.{name}. {_near(name, tuple(PROCEDURES))}", token)
    arguments = _arguments(cursor, name.lower(), procedure)
    cursor.finish("the arguments")
    for wanted in procedure.required:
        if wanted not in arguments:
            raise cursor.unsupported(f"{name} needs the argument {wanted}: {procedure.parameters[wanted].value}. Add {wanted} => …")
    return Call(name.lower(), arguments)


def _arguments(cursor: Cursor, name: str, procedure: Procedure) -> dict[str, SqlText]:
    found: dict[str, SqlText] = {}
    parameters = tuple(procedure.parameters)
    named = False
    cursor.expect("(")
    while not cursor.sees(")"):
        token = cursor.token()
        if token.is_name and cursor.key(1) == "=>":
            named, parameter = True, token.name.lower()
            cursor.at += 2
            if parameter not in parameters:
                raise cursor.unsupported(f"{name} takes no argument {token.name}. {_near(token.name, parameters)}", token)
        elif named:
            raise cursor.error(f"An argument without a name stands after one with a name. Name it too: one of {', '.join(parameters)}")
        elif len(found) == len(parameters):
            raise cursor.error(f"{name} takes {len(parameters)} arguments: {', '.join(parameters)}. Leave this one out")
        else:
            parameter = parameters[len(found)]
        if parameter in found:
            raise cursor.error(f"The argument {parameter} is given twice. Give it once", token)
        found[parameter] = expression(cursor, f"{procedure.parameters[parameter].value} for {parameter}", until_comma)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return {parameter: text for parameter, text in found.items() if text.text.upper() != "NULL"}


def _near(name: str, candidates: tuple[str, ...]) -> str:
    near = get_close_matches(name.lower(), candidates, n=2, cutoff=0.7)
    return f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(candidates)}"
