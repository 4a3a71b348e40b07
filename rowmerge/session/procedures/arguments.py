"""The call of a procedure: its table, its argument values, and the values of options in its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rowmerge.commands.names import SqlText
from rowmerge.commands.procedures import PROCEDURES, Kind
from rowmerge.errors import PlanError, TypeMismatch
from rowmerge.execution.commit import CommitOptions
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.scope import SessionContext
from rowmerge.spark.spark_session import evaluate_timestamp_millis
from rowmerge.sql import parse_table_name
from rowmerge.table.maintenance import TableMaintenance
from rowmerge.table.metadata.schema import DataType
from rowmerge.table.table import Branches, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POSITIVE = ("max_concurrent_deletes", "parallelism")
"""The numeric parameters whose argument must be above 0."""


@dataclass(frozen=True)
class ProcedureCall:
    """One CALL of a procedure. `arguments`: the argument values by name. Times are in milliseconds since the epoch."""

    context: SessionContext
    options: CommitOptions
    procedure: str
    arguments: Mapping[str, Any]

    @property
    def spark(self) -> SparkSession:
        return self.context.spark

    @cached_property
    def table(self) -> Table:
        """The table that the argument `table` names. Raises TableNotFound, SchemaNotFound, or TableError for a view."""
        return self.context.names.table(parse_table_name(self.arguments["table"]))

    @property
    def maintenance(self) -> TableMaintenance:
        """The maintenance of an Iceberg table.

        Raises:
            PlanError: The table has another format.
        """
        if self.table.maintenance is None:
            raise self.unsupported_format()
        return self.table.maintenance

    @property
    def branches(self) -> Branches:
        """The branches and tags of an Iceberg table.

        Raises:
            PlanError: The table has another format.
        """
        if self.table.branches is None:
            raise self.unsupported_format()
        return self.table.branches

    def unsupported_format(self) -> PlanError:
        """Return the error of a procedure that only supports Iceberg tables. It names the statement to use instead."""
        name = parse_table_name(self.arguments["table"])
        instead = PROCEDURES[self.procedure].instead.format(name)
        return PlanError(f"The procedure {self.procedure} supports only Iceberg tables, and {name} is not one. Use {instead} instead.")

    def result(self, operation: str, values: frames.RowValues) -> StatementResult:
        """Return the outcome of a procedure with one result row.

        Args:
            operation: The name of the operation.
            values: The type and the value of each column, by its name.
        """
        return StatementResult(frames.single_row(self.spark, values), operation, None, self.table.snapshot().version)

    def rows(self, operation: str, columns: Mapping[str, DataType], rows: Sequence[Sequence[object]]) -> StatementResult:
        """Return the outcome of a procedure with any number of result rows.

        Args:
            operation: The name of the operation.
            columns: The type of each column by name.
            rows: The values of each row, in the order of the columns.
        """
        return StatementResult(frames.rows_frame(self.spark, columns, rows), operation, None, self.table.snapshot().version)


def evaluate_arguments(spark: SparkSession, procedure: str, arguments: Mapping[str, SqlText]) -> dict[str, Any]:
    """Evaluate the constant arguments of a procedure in Spark. Leave out NULL arguments.

    Args:
        spark: The session that evaluates the arguments.
        procedure: The name of the procedure.
        arguments: The SQL text of each argument by the name of its parameter.

    Raises:
        TypeMismatch: An argument has the wrong type.
        PlanError: A required argument is NULL, or a number that must be above 0 is not.
    """
    values = {name: _evaluate_argument(spark, procedure, name, text.text) for name, text in arguments.items()}
    for name, value in values.items():
        if value is None and name in PROCEDURES[procedure].required:
            raise PlanError(f"The argument {name} of {procedure} is NULL, but the procedure needs it. Specify a value.")
        if name in _POSITIVE and value is not None and value < 1:
            raise PlanError(f"The argument {name} of {procedure} is {value}, but it must be 1 or more.")
    return {name: value for name, value in values.items() if value is not None}


def _evaluate_argument(spark: SparkSession, procedure: str, name: str, expression: str) -> Any:
    """Evaluate a constant argument in Spark. Return times in milliseconds since the epoch. Raise TypeMismatch for a wrong type."""
    kind = PROCEDURES[procedure].parameters[name]
    if kind is Kind.TIME:
        return evaluate_timestamp_millis(spark, expression)
    (row,) = spark.sql(f"select {expression} as value").collect()
    value = row["value"]
    if kind is Kind.NUMBER and isinstance(value, str) and re.fullmatch(r"\s*-?\d+\s*", value):
        return int(value)  # as in Iceberg, which casts arguments
    if value is not None and not _is_of_kind(value, kind):
        raise TypeMismatch(f"The argument {name} of {procedure} is {expression}, but it must be {kind.value}.")
    return value


def _is_of_kind(value: object, kind: Kind) -> bool:
    """Return whether a value has the type of a parameter. The kind is not TIME, because `evaluate_timestamp_millis` checks times."""
    match kind:
        case Kind.NUMBER:
            return isinstance(value, int) and not isinstance(value, bool)
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.NUMBERS:
            return isinstance(value, list) and all(_is_of_kind(item, Kind.NUMBER) for item in value)
        case Kind.TEXTS:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case Kind.OPTIONS:
            return isinstance(value, dict) and all(isinstance(text, str) for text in (*value.keys(), *value.values()))
    return isinstance(value, str)


@dataclass(frozen=True)
class OptionParser:
    """The parser of the argument `options` of a procedure.

    `fields`: the name of the field that each option sets, and the parser of its value. `ignored`: the parsers of options without effect.
    `alternatives`: for each option of Iceberg that is not supported, the sentence of the error that says what to do instead.
    """

    procedure: str
    fields: Mapping[str, tuple[str, Callable[[str], Any]]]
    ignored: Mapping[str, Callable[[str], Any]]
    alternatives: Mapping[str, str]

    def parse(self, options: Mapping[str, str]) -> dict[str, Any]:
        """Return the value of each field that an option sets.

        Raises:
            PlanError: An option is unknown or not supported, or its value is invalid.
        """
        values: dict[str, Any] = {}
        for name, text in options.items():
            if name in self.alternatives:
                raise PlanError(f"{self.procedure} does not support the option {name}. {self.alternatives[name]}")
            field, parse = self.fields.get(name, ("", self.ignored.get(name)))
            if parse is None:
                raise self._unknown_option(name)
            try:
                value = parse(text)
            except ValueError as error:
                raise PlanError(f"The option {name} of {self.procedure} is {text!r}. Set it to {error}.") from None
            if field:
                values[field] = value
        return values

    def _unknown_option(self, name: str) -> PlanError:
        supported_options = sorted(self.fields)
        similar_options = get_close_matches(name, [*supported_options, *self.ignored], n=1, cutoff=0.7)
        advice = f"Did you mean {similar_options[0]}?" if similar_options else f"The options are: {', '.join(supported_options)}."
        return PlanError(f"{self.procedure} has no option {name}. {advice}")


def whole_number(text: str) -> int:
    """Return the number in the text of an option.

    Raises:
        ValueError: The text is another one. The message describes the allowed values.
    """
    if not re.fullmatch(r"\s*0*[1-9]\d*\s*", text):
        raise ValueError("a whole number greater than 0")
    return int(text)


def number(text: str) -> int:
    """Return the number in the text of an option, which may be 0.

    Raises:
        ValueError: The text is another one. The message describes the allowed values.
    """
    if not re.fullmatch(r"\s*\d+\s*", text):
        raise ValueError("a whole number")
    return int(text)


def boolean(text: str) -> bool:
    """Return the Boolean in the text of an option.

    Raises:
        ValueError: The text is another one. The message describes the allowed values.
    """
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def ratio(text: str) -> float:
    """Return the fraction in the text of an option.

    Raises:
        ValueError: The text is another one. The message describes the allowed values.
    """
    if not re.fullmatch(r"\s*(0(\.\d*)?|\.\d+|1(\.0*)?)\s*", text):
        raise ValueError("a number from 0 to 1")
    return float(text)


def one_of(*values: str) -> Callable[[str], str]:
    """Return a function that returns the text of an option in lower case. It raises ValueError for other texts than `values`."""

    def parse(text: str) -> str:
        if text.strip().lower() not in values:
            raise ValueError(f"one of {', '.join(values)}")
        return text.strip().lower()

    return parse
