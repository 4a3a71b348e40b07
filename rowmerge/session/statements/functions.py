"""CREATE, DROP, DESCRIBE and SHOW of functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.catalog import Function
from rowmerge.commands.functions import CreateFunction, DescribeFunction, DropFunction, FunctionCommand, ShowFunctions
from rowmerge.errors import SchemaNotFound
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.context import SessionContext
from rowmerge.session.names.scope import StatementScope
from rowmerge.spark.functions import analyse, is_known, reading_body
from rowmerge.sql import call_of
from rowmerge.table.metadata.schema import Primitive, backquote, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class FunctionStatements:
    """Executes statements about functions."""

    context: SessionContext

    def run(self, command: FunctionCommand) -> StatementResult:
        """Execute a command.

        Raises PlanError for a body that does not fit its signature, FunctionNotFound, AlreadyExists, SchemaNotFound, and TableError for
        a catalog that stores no functions.
        """
        match command:
            case CreateFunction():
                return self._create(command)
            case DropFunction():
                return self._drop(command)
            case DescribeFunction():
                return self._describe(command)
            case ShowFunctions(schema, like):
                schema = schema or self.context.names.schema
                if not self.context.catalog.schema_exists(schema):
                    raise SchemaNotFound(quote(schema), self.context.catalog.schemas())
                names = [f"{schema.lower()}.{name}" for name in self.context.catalog.functions.names(schema) if frames.matches(name, like)]
                return StatementResult(frames.names(self.context.spark, "function", names, None), "SHOW")

    def _create(self, command: CreateFunction) -> StatementResult:
        schema, name = self.context.names.locate(command.name)
        if not (command.if_not_exists and self.context.catalog.functions.get(schema, name) is not None):
            self._check(Function(schema.lower(), name.lower(), command.definition, self.context.names.schema))
            self.context.catalog.functions.put(schema, name, command.definition, self.context.names.schema, or_replace=command.or_replace)
        return self._done("CREATE FUNCTION")

    def _check(self, function: Function) -> None:
        """Let Spark analyse types, defaults and body. A module in Python is executed, its handler is not called."""
        definition = function.definition
        values = [f"cast({p.default or 'null'} as {p.type}) as {backquote(p.name)}" for p in definition.parameters]
        analyse(self.context.spark, f"select {', '.join([*values, f'cast(null as {definition.returns})'])}")
        with reading_body(str(function)):
            value = call_of(StatementScope.of(self.context).called(function), {p.name.lower(): "null" for p in definition.parameters})
            analyse(self.context.spark, f"select {value}" if definition.aggregate else f"select 1 where ({value}) is null")

    def _drop(self, command: DropFunction) -> StatementResult:
        schema, name = self.context.names.locate(command.name)
        exists = self.context.catalog.functions.get(schema, name) is not None
        if not exists and is_known(self.context.spark, str(command.name)):  # one of a Java class, which is Spark's
            self.context.spark.sql(f"drop function {command.name}")
        elif exists or not command.if_exists:
            self.context.catalog.functions.drop(schema, name)
        return self._done("DROP FUNCTION")

    def _describe(self, command: DescribeFunction) -> StatementResult:
        schema, name = self.context.names.locate(command.name)
        function = self.context.catalog.functions.get(schema, name)
        if function is None:
            return StatementResult(self.context.spark.sql(command.text.text), "DESCRIBE")
        return StatementResult(self._rows("function_desc", (f"{key}: {value}" for key, value in _facts(function))), "DESCRIBE")

    def _rows(self, column: str, lines: Iterator[str]) -> DataFrame:
        return frames.of_rows(self.context.spark, {column: Primitive("string")}, [(line,) for line in lines])

    def _done(self, operation: str) -> StatementResult:
        return StatementResult(frames.empty(self.context.spark), operation)


def _facts(function: Function) -> Iterator[tuple[str, str]]:
    definition = function.definition
    yield "Function", f"{function.schema}.{function.name}"
    yield "Type", "AGGREGATE" if definition.aggregate else "SCALAR"
    parameters = (
        f"{p.name} {p.type}" + (f" DEFAULT {p.default}" if p.default else "") + (f" '{p.comment}'" if p.comment else "")
        for p in definition.parameters
    )
    yield "Input", ", ".join(parameters) or "()"
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
