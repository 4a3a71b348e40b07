"""Names of tables and views, as dbt passes them around and writes them into SQL."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Optional

from dbt.adapters.base.relation import BaseRelation, Policy
from dbt.adapters.contracts.relation import ComponentName
from dbt.adapters.spark import SparkRelation


def quote(name: str) -> str:
    """A SQL identifier that means exactly this name."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: object) -> str:
    """A SQL string that means exactly this text."""
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"


def location_of(path: str) -> str:
    """A folder as the engine tells locations: with its scheme, no slash at the end."""
    return (path if "://" in path else f"file://{os.path.abspath(os.path.expanduser(path))}").rstrip("/")


@dataclass
class RowmergeQuotePolicy(Policy):
    database: bool = False
    schema: bool = True
    identifier: bool = True


@dataclass
class RowmergeIncludePolicy(Policy):
    database: bool = False
    schema: bool = True
    identifier: bool = True


# dbt's own dataclass machinery reads these annotations at run time: they keep the typing module's spelling, as dbt's do.
@dataclass(frozen=True, eq=False, repr=False)
class RowmergeRelation(SparkRelation):
    """A table or a view, or a query that stands where one could: `query` is then its SQL, and it renders as a subquery.

    Names are matched without regard to case, as Spark does.
    """

    quote_policy: Policy = field(default_factory=lambda: RowmergeQuotePolicy())
    include_policy: Policy = field(default_factory=lambda: RowmergeIncludePolicy())
    query: Optional[str] = None

    def __post_init__(self) -> None:
        """dbt-spark refuses a database here; ours is never rendered, and does no harm."""

    def render(self) -> str:
        if self.query is not None:
            # The line feed keeps a comment at the query's end from swallowing the parenthesis.
            return f"(\n{self.query}\n)"
        return BaseRelation.render(self)

    def quoted(self, identifier: str) -> str:
        return quote(identifier)

    def _is_exactish_match(self, field: ComponentName, value: str) -> bool:
        return self.path.get_lowered_part(field) == value.lower()
