"""Names of tables and views, as dbt passes them around and writes them into SQL."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Optional

from dbt.adapters.base.relation import BaseRelation, Policy
from dbt.adapters.contracts.relation import ComponentName, HasQuoting, RelationConfig
from dbt.adapters.spark import SparkRelation

from dbt.adapters.rowmerge.relations.external_sources import read_files_of
from dbt.adapters.rowmerge.relations.names import quote


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
    """A table or a view, or what stands where one could: `query` is then the SQL of a query, and renders as a subquery; `files` is the
    `read_files(…)` of a source whose rows are in files.

    Names are matched without regard to case, as Spark does.
    """

    quote_policy: Policy = field(default_factory=lambda: RowmergeQuotePolicy())
    include_policy: Policy = field(default_factory=lambda: RowmergeIncludePolicy())
    query: Optional[str] = None
    files: Optional[str] = None
    # Spark needs no alias for a subquery. dbt-spark sets this since 1.9.3; an alias would break SQL that gives one of its own.
    require_alias: bool = False

    def __post_init__(self) -> None:
        """dbt-spark refuses a database here; ours is the catalog's name, and never rendered."""

    @classmethod
    def create_from(cls, quoting: HasQuoting, relation_config: RelationConfig, **kwargs: Any) -> RowmergeRelation:
        """A source with a location is what reads it; everything else is a name."""
        if relation_config.resource_type == "source" and (files := read_files_of(relation_config)) is not None:
            kwargs = {"files": files, **kwargs}
        return super().create_from(quoting, relation_config, **kwargs)

    @property
    def is_read_by_query(self) -> bool:
        """Whether there is nothing in the warehouse by this name: its columns are those of a query."""
        return self.query is not None or self.files is not None

    def render(self) -> str:
        if self.files is not None:
            return self.files
        if self.query is not None:
            # The line feed keeps a comment at the query's end from swallowing the parenthesis.
            return f"(\n{self.query}\n)"
        return BaseRelation.render(self)

    def quoted(self, identifier: str) -> str:
        return quote(identifier)

    def _is_exactish_match(self, field: ComponentName, value: str) -> bool:
        return self.path.get_lowered_part(field) == value.lower()
