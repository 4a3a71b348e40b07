"""Functions that a warehouse stores: their definitions, and the statements that create, drop and describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rowmerge.commands.names import SqlText, TableName

Language = Literal["sql", "python"]


@dataclass(frozen=True)
class Parameter:
    """`name type [DEFAULT expression] [COMMENT '…']`. The type and the default are the user's SQL text."""

    name: str
    type: str
    default: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class FunctionDefinition:
    """The parameters, the return type, the body and the clauses of a function.

    The `body` of a function in SQL is an expression, or a query of one value. In Python it is the text of a module, in which `handler` is a
    function or, for an aggregate, a class with `accumulate` and `finish`. `aggregate`: whether the function aggregates the rows of a
    group. `deterministic` is None without such a clause. `runtime` and `packages` are the Python version and the packages that the
    statement names.
    """

    parameters: tuple[Parameter, ...]
    returns: str
    body: str
    language: Language = "sql"
    aggregate: bool = False
    deterministic: bool | None = None
    handler: str | None = None
    runtime: str | None = None
    packages: tuple[str, ...] = ()
    comment: str | None = None

    @property
    def signature(self) -> str:
        """Return `(name type [DEFAULT expression], …) RETURNS type`."""
        parameters = (f"{p.name} {p.type}" if p.default is None else f"{p.name} {p.type} DEFAULT {p.default}" for p in self.parameters)
        return f"({', '.join(parameters)}) RETURNS {self.returns}"


@dataclass(frozen=True)
class CreateFunction:
    """CREATE [OR REPLACE] [AGGREGATE] FUNCTION."""

    name: TableName
    definition: FunctionDefinition
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropFunction:
    """DROP FUNCTION [IF EXISTS] name."""

    name: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class DescribeFunction:
    """DESCRIBE FUNCTION [EXTENDED] name. Spark executes `text`, the statement, if the warehouse has no such function."""

    name: TableName
    text: SqlText


@dataclass(frozen=True)
class ShowFunctions:
    """SHOW USER FUNCTIONS, or SHOW FUNCTIONS IN a schema, which list functions of the warehouse. `like` is the pattern of the names."""

    schema: str | None = None
    like: str | None = None


FunctionCommand = CreateFunction | DropFunction | DescribeFunction | ShowFunctions
