"""Functions that a warehouse keeps: what defines one, and the statements about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rowmerge.commands.names import SqlText, TableName

Language = Literal["sql", "python"]


@dataclass(frozen=True)
class Parameter:
    """`name type [DEFAULT expression] [COMMENT '…']`; type and default are SQL as written."""

    name: str
    type: str
    default: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class FunctionDefinition:
    """What a function takes, returns and does.

    `body`: of SQL an expression or a query of one value, of Python a module's text in which `handler` is a function, or of an aggregate
    a class with `accumulate` and `finish`. `aggregate`: it makes one value of the rows of a group. `deterministic`: None where nothing is
    said. `runtime` and `packages` say what a Python function was written for.
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
        """`(name type [DEFAULT expression], …) RETURNS type`."""
        listed = (f"{p.name} {p.type}" + (f" DEFAULT {p.default}" if p.default is not None else "") for p in self.parameters)
        return f"({', '.join(listed)}) RETURNS {self.returns}"


@dataclass(frozen=True)
class CreateFunction:
    """CREATE [OR REPLACE] [AGGREGATE] FUNCTION."""

    name: TableName
    definition: FunctionDefinition
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropFunction:
    name: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class DescribeFunction:
    """DESCRIBE FUNCTION [EXTENDED] name. `text`: the statement, which is Spark's where the warehouse has no such function."""

    name: TableName
    text: SqlText


@dataclass(frozen=True)
class ShowFunctions:
    """SHOW USER FUNCTIONS, or SHOW FUNCTIONS IN a schema: those of the warehouse."""

    schema: str | None = None
    like: str | None = None


FunctionCommand = CreateFunction | DropFunction | DescribeFunction | ShowFunctions
