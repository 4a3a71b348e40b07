"""The interface of a catalog, and its tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rowmerge.catalog.functions import Functions
from rowmerge.catalog.names import fold
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.table import Table


@dataclass(frozen=True)
class Relation:
    """A table or a view. `schema` and `name` are in lower case; `format` is `delta` or `iceberg`, None for a view."""

    schema: str
    name: str
    kind: Literal["table", "view"]
    format: str | None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @staticmethod
    def of_table(schema: str, name: str, format_: str) -> Relation:
        """Return a table.

        Args:
            schema: The name of the schema, in any case.
            name: The name of the table, in any case.
            format_: `delta` or `iceberg`.
        """
        return Relation(fold(schema), fold(name), "table", format_)

    @staticmethod
    def of_view(schema: str, name: str) -> Relation:
        """Return a view.

        Args:
            schema: The name of the schema, in any case.
            name: The name of the view, in any case.
        """
        return Relation(fold(schema), fold(name), "view", None)


@dataclass(frozen=True)
class View:
    """A view's newest definition. The metadata of `columns` has their comments. `version` counts from 1; `modified`: ms since the epoch."""

    relation: Relation
    sql: str
    default_schema: str
    columns: Struct
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    modified: int = 0


class Catalog(Protocol):
    """Schemas, tables, views and functions, with lower-case names. Every method raises StorageError if the storage or service fails."""

    @property
    def functions(self) -> Functions:
        """The functions in SQL and Python of all schemas."""

    def schemas(self) -> list[str]:
        """Return the names of all schemas, sorted."""

    def schema_exists(self, name: str) -> bool:
        """Return whether a schema exists."""

    def create_schema(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create an empty schema.

        Args:
            name: The name of the schema.
            if_not_exists: Whether an existing schema is no error.
            comment: The comment of the schema, None for no comment.
            properties: The properties of the schema, None for none.

        Raises:
            AlreadyExists: The schema exists, and `if_not_exists` is false.
        """

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a schema.

        Args:
            name: The name of the schema.
            if_exists: Whether a schema that does not exist is no error.
            cascade: Whether to drop the content of the schema, too.

        Raises:
            SchemaNotFound: The schema does not exist, and `if_exists` is false.
            TableError: The schema is not empty, and `cascade` is false.
        """

    def relations(self, schema: str) -> list[Relation]:
        """Return the tables and views of a schema, sorted by name, none if the schema does not exist."""

    def relation(self, schema: str, name: str) -> Relation | None:
        """Return the table or view of a name, None if there is none.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """

    def open(self, schema: str, name: str) -> Table:
        """Return an existing table, the same object each time.

        Args:
            schema: The name of the schema.
            name: The name of the table.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a view.
        """

    def new_table(self, schema: str, name: str, format_: str, location: str | None = None) -> Table:
        """Return the table for CREATE TABLE, which may not exist yet. After its creation at a `location`, call `register`.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            format_: `delta` or `iceberg`.
            location: The folder of an external table, None for the catalog's folder of the name.

        Raises:
            ConfigurationError: The location has credentials, or the catalog has no tables of this format.
            SchemaNotFound: The schema does not exist.
        """

    def location_of(self, schema: str, name: str) -> str:
        """Return the location of a managed table or a view, whether or not it exists.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """

    def register(self, schema: str, name: str, format_: str, location: str) -> None:
        """Register the table at a location under a name.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            format_: `delta` or `iceberg`.
            location: The folder of the table.

        Raises:
            AlreadyExists: The name has another relation.
            SchemaNotFound: The schema does not exist.
        """

    def drop_table(self, schema: str, name: str) -> None:
        """Drop a table and its files, but only the name of an external table.

        Args:
            schema: The name of the schema.
            name: The name of the table.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a view.
        """

    def view(self, schema: str, name: str) -> View:
        """Return the newest definition of a view.

        Args:
            schema: The name of the schema.
            name: The name of the view.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a table, or the view has no SQL for Spark.
        """

    def put_view(self, view: View, *, or_replace: bool = False) -> View:
        """Create a view, or replace it by a next version, and return it.

        Args:
            view: The definition of the view. Its version and time are not used.
            or_replace: Whether an existing view is replaced.

        Raises:
            AlreadyExists: The name has a relation, which is a table or which `or_replace` does not allow to replace.
            SchemaNotFound: The schema does not exist.
            TableError: The catalog stores no views.
        """

    def drop_view(self, schema: str, name: str) -> None:
        """Drop a view.

        Args:
            schema: The name of the schema.
            name: The name of the view.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a table.
        """
