"""Functions stored in a warehouse: their definitions, and the statements that create, drop, describe and list them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rowmerge.commands.names import SqlText, TableName

Language = Literal["sql", "python"]


@dataclass(frozen=True)
class Parameter:
    """`name type [DEFAULT expression] [COMMENT '…']`. `type` and `default` contain the user's SQL text."""

    name: str
    type: str
    default: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class FunctionDefinition:
    """The parameters, the return type, the body and the clauses of a function.

    The `body` of a SQL function is an expression, or a query that returns one value. The `body` of a Python function is the source code of
    a module. `handler` names a function in that module or, for an aggregate, a class with the methods `accumulate` and `finish`.

    `returns`: the SQL text of the return type. `aggregate`: whether the function aggregates the rows of a group. `deterministic` is None if
    the statement does not specify it. `runtime` and `packages` are the Python version and the packages that the statement specifies.
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
    """DESCRIBE FUNCTION [EXTENDED] name. If the warehouse has no such function, Spark executes the statement `text`."""

    name: TableName
    text: SqlText


@dataclass(frozen=True)
class ShowFunctions:
    """SHOW USER FUNCTIONS or SHOW FUNCTIONS IN a schema, which list the functions of the warehouse.

    `schema` is None for the current schema. `like`: the pattern that the names must match, or None for all names.
    """

    schema: str | None = None
    like: str | None = None


FunctionCommand = CreateFunction | DropFunction | DescribeFunction | ShowFunctions
