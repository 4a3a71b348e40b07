"""Relations: the names of tables and views in dbt and in SQL."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, FrozenSet, Iterable, Iterator, Optional, Tuple

from dbt.adapters.base.relation import BaseRelation, Policy
from dbt.adapters.contracts.relation import ComponentName, HasQuoting, RelationConfig
from dbt.adapters.spark import SparkRelation
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.relations.external_sources import read_files_call
from dbt.adapters.rowmerge.relations.names import quote


def location_of(path: str) -> str:
    """Return the location of a folder in the form that the engine uses: with a scheme, and without a trailing slash."""
    return (path if "://" in path else f"file://{os.path.abspath(os.path.expanduser(path))}").rstrip("/")


@dataclass
class RowmergePolicy(Policy):
    """The parts of a relation's name that are quoted and rendered: schema and identifier, and the database only of further catalogs."""

    database: bool = False
    schema: bool = True
    identifier: bool = True


# dbt evaluates these annotations at run time, so they use the names of the module typing, as in dbt.
@dataclass(frozen=True, eq=False, repr=False)
class RowmergeRelation(SparkRelation):
    """A table, a view or a function, or SQL that renders in its place. As in Spark, names are not case-sensitive.

    `query` is a SELECT statement, which renders as a subquery. `files` is the call `read_files(…)` for a source whose rows are in files.
    """

    quote_policy: Policy = field(default_factory=lambda: RowmergePolicy())
    include_policy: Policy = field(default_factory=lambda: RowmergePolicy())
    query: Optional[str] = None
    files: Optional[str] = None
    # Spark does not require an alias for a subquery, and a second alias would be an error in SQL. dbt-spark has this setting since 1.9.3.
    require_alias: bool = False
    # The names of the catalogs of the profile. Only the name of a further catalog is part of a relation's name in SQL.
    databases: ClassVar[Tuple[str, ...]] = ()
    further_catalogs: ClassVar[FrozenSet[str]] = frozenset()

    def __post_init__(self) -> None:
        """Accept a database, which dbt-spark rejects in this method."""

    @classmethod
    def use_catalogs(cls, databases: Tuple[str, ...], further_catalogs: Iterable[str]) -> None:
        """Set the names of the catalogs. dbt creates relations by their class, and has one adapter of this type at a time."""
        cls.databases, cls.further_catalogs = databases, frozenset(further_catalogs)

    @classmethod
    def create_from(cls, quoting: HasQuoting, relation_config: RelationConfig, **kwargs: Any) -> RowmergeRelation:
        """Return the relation of a node in the project. The relation of a source with a location renders as `read_files(…)` in SQL.

        Args:
            quoting: The configuration of the project, which contains its quoting rules.
            relation_config: The model, seed, snapshot or source.
            **kwargs: Additional fields of the relation.

        Raises:
            CompilationError: A setting of a source with files is not valid, or the profile has no catalog with the name of the database.
        """
        read_files_sql = read_files_call(relation_config) if relation_config.resource_type == "source" else None
        if read_files_sql is not None:
            kwargs = {"files": read_files_sql, **kwargs}
        elif cls.databases and str(relation_config.database or cls.databases[0]).lower() not in cls.databases:
            raise CompilationError(
                f"{relation_config.identifier} has the database {relation_config.database!r}, but the profile has "
                f"no catalog of this name. Use one of {', '.join(cls.databases)}, or add it to `catalogs` in the profile."
            )
        return super().create_from(quoting, relation_config, **kwargs)

    @classmethod
    def from_engine(cls, relation: Any, database: Optional[str]) -> RowmergeRelation:
        """Return dbt's relation of a table or a view that the engine lists.

        Args:
            relation: The engine's Relation.
            database: The database name of the relation in dbt; None for a relation without a database.
        """
        formats = {"is_delta": relation.format == "delta", "is_iceberg": relation.format == "iceberg"}
        prefix = f"{database}.".lower() if str(database).lower() in cls.further_catalogs else ""
        return cls.create(
            database=database, schema=relation.schema.removeprefix(prefix), identifier=relation.name, type=relation.kind, **formats
        )

    @classmethod
    def engine_schema_of(cls, database: Optional[str], schema: str) -> str:
        """Return the name that the engine's session has for a schema: `lake.raw` for a schema of a further catalog."""
        return f"{database}.{schema}".lower() if str(database).lower() in cls.further_catalogs else schema

    @property
    def engine_schema(self) -> str:
        """The name that the engine's session has for the schema."""
        return self.engine_schema_of(self.database, str(self.schema))

    def _render_iterator(self) -> Iterator[Tuple[Optional[ComponentName], Optional[str]]]:
        """Return the parts of the rendered name. The database is a part if the schema is one, and the database is a further catalog."""
        shows_database = self.include_policy.schema and str(self.database).lower() in self.further_catalogs
        for component, part in super()._render_iterator():
            is_shown = shows_database and component == ComponentName.Database
            yield component, self.quoted(str(self.database)) if is_shown else part

    @property
    def is_read_by_query(self) -> bool:
        """Whether the relation is a query, files or a temporary view, whose columns only a query can return."""
        return self.query is not None or self.files is not None or not self.include_policy.schema or not self.schema

    def render(self) -> str:
        if self.files is not None:
            return self.files
        if self.query is not None:
            # Without the line feed, a comment at the end of the query would include the parenthesis.
            return f"(\n{self.query}\n)"
        return BaseRelation.render(self)

    def quoted(self, identifier: str) -> str:
        return quote(identifier)

    def _is_exactish_match(self, field: ComponentName, value: str) -> bool:
        return self.path.get_lowered_part(field) == value.lower()
