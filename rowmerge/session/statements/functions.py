"""CREATE, DROP, DESCRIBE and SHOW statements for functions."""

from __future__ import annotations

from collections.abc import Iterator

from rowmerge.catalog import Function
from rowmerge.commands.functions import CreateFunction, DescribeFunction, DropFunction, FunctionCommand, Parameter, ShowFunctions
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.names.scope import SessionContext, StatementScope
from rowmerge.spark.functions import analyse, is_known, translate_body_errors
from rowmerge.sql import replacement_of_call
from rowmerge.table.metadata.schema import backquote


def run_function_command(context: SessionContext, command: FunctionCommand) -> StatementResult:
    """Run a CREATE, DROP, DESCRIBE or SHOW statement for functions.

    Args:
        context: The session.
        command: The parsed statement.

    Raises:
        PlanError: The body of the function is invalid.
        FunctionNotFound: The function does not exist.
        AlreadyExists: The function exists, and the statement has neither IF NOT EXISTS nor OR REPLACE.
        SchemaNotFound: The catalog has no such schema.
        TableError: The catalog cannot store functions, or the stored function cannot be read.
    """
    match command:
        case CreateFunction():
            return _create_function(context, command)
        case DropFunction():
            return _drop_function(context, command)
        case DescribeFunction():
            return _describe_function(context, command)
        case ShowFunctions():
            return _show_functions(context, command)


def _create_function(context: SessionContext, command: CreateFunction) -> StatementResult:
    """Check a function and store it in the catalog. With IF NOT EXISTS, an existing function stays unchanged."""
    schema, name = context.names.locate(command.name)
    functions, current_schema = context.catalog.functions, context.names.schema
    if not command.if_not_exists or functions.get(schema, name) is None:
        _check_signature_and_body(context, Function(schema.lower(), name.lower(), command.definition, current_schema))
        functions.put(schema, name, command.definition, current_schema, or_replace=command.or_replace)
    return empty_result(context.spark, "CREATE FUNCTION")


def _check_signature_and_body(context: SessionContext, function: Function) -> None:
    """Make Spark analyse the types, defaults and body of a function. A Python module is executed, but its handler is not called."""
    definition = function.definition
    values = [f"cast({p.default or 'null'} as {p.type}) as {backquote(p.name)}" for p in definition.parameters]
    analyse(context.spark, f"select {', '.join([*values, f'cast(null as {definition.returns})'])}")
    with translate_body_errors(str(function)):
        arguments = {p.name.lower(): "null" for p in definition.parameters}
        call = replacement_of_call(StatementScope.begin(context).called_function(function), arguments)
        analyse(context.spark, f"select {call}" if definition.aggregate else f"select 1 where ({call}) is null")


def _drop_function(context: SessionContext, command: DropFunction) -> StatementResult:
    """Drop a function of the catalog or, if the catalog lacks it, a function of Spark."""
    schema, name = context.names.locate(command.name)
    exists = context.catalog.functions.get(schema, name) is not None
    if not exists and is_known(context.spark, str(command.name)):  # Spark itself has the functions of Java classes
        context.spark.sql(f"drop function {command.name}")
    elif exists or not command.if_exists:
        context.catalog.functions.drop(schema, name)
    return empty_result(context.spark, "DROP FUNCTION")


def _describe_function(context: SessionContext, command: DescribeFunction) -> StatementResult:
    """Return the properties of a function of the catalog or, if the catalog lacks it, Spark's description."""
    schema, name = context.names.locate(command.name)
    function = context.catalog.functions.get(schema, name)
    if function is None:
        return StatementResult(context.spark.sql(command.text.text), "DESCRIBE")
    lines = (f"{heading}: {value}" for heading, value in _function_properties(function))
    return StatementResult(frames.text_column(context.spark, "function_desc", lines), "DESCRIBE")


def _show_functions(context: SessionContext, command: ShowFunctions) -> StatementResult:
    schema = context.names.schema_of(command.schema or context.names.schema)
    context.names.check_schema(schema)
    names = [f"{schema.lower()}.{name}" for name in context.catalog.functions.names(schema) if frames.matches_pattern(name, command.like)]
    return StatementResult(frames.text_column(context.spark, "function", names), "SHOW")


def _function_properties(function: Function) -> Iterator[tuple[str, str]]:
    """Yield the headings and values of DESCRIBE FUNCTION."""
    definition = function.definition
    yield "Function", f"{function.schema}.{function.name}"
    yield "Type", "AGGREGATE" if definition.aggregate else "SCALAR"
    yield "Input", ", ".join(map(_parameter_sql, definition.parameters)) or "()"
    yield "Returns", definition.returns
    if definition.comment is not None:
        yield "Comment", definition.comment
    if definition.deterministic is not None:
        yield "Deterministic", str(definition.deterministic).lower()
    yield "Language", definition.language.upper()
    if definition.language == "python":
        yield "Handler", definition.handler or ""
        yield "Written for Python", definition.runtime or "any version"
        yield "Packages", ", ".join(definition.packages) or "none"
    yield "Body", definition.body


def _parameter_sql(parameter: Parameter) -> str:
    default = f" DEFAULT {parameter.default}" if parameter.default else ""
    comment = f" '{parameter.comment}'" if parameter.comment else ""
    return f"{parameter.name} {parameter.type}{default}{comment}"
