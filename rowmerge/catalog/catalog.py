"""The interface of a catalog, and the classes that describe its tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rowmerge.catalog.functions import Functions
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.relations import Relation
from rowmerge.table.table import Table


@dataclass(frozen=True)
class View:
    """The newest definition of a view. The metadata of `columns` contains their comments.

    `version`: the number of the definition, counted from 1. `modified`: the time of the last change in milliseconds since the epoch.
    `default_catalog`: the name of the catalog of `default_schema` in the session that created the view, or None for the view's catalog.
    """

    relation: Relation
    sql: str
    default_schema: str
    columns: Struct
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    modified: int = 0
    default_catalog: str | None = None


class Catalog(Protocol):
    """Schemas, tables, views and functions, with lower-case names. Every method raises StorageError if the storage or the service fails."""

    @property
    def functions(self) -> Functions:
        """The SQL and Python functions of all schemas."""

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
            if_not_exists: Whether to do nothing if the schema exists.
            comment: The comment of the schema, or None for no comment.
            properties: The properties of the schema, or None for no properties.

        Raises:
            AlreadyExists: The schema exists, and `if_not_exists` is false.
        """

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a schema.

        Args:
            name: The name of the schema.
            if_exists: Whether to do nothing if the schema does not exist.
            cascade: Whether to drop the content of the schema as well.

        Raises:
            SchemaNotFound: The schema does not exist, and `if_exists` is false.
            TableError: The schema is not empty, and `cascade` is false.
        """

    def relations(self, schema: str) -> list[Relation]:
        """Return the tables and views of a schema, sorted by name. The list is empty if the schema does not exist."""

    def relation(self, schema: str, name: str) -> Relation | None:
        """Return the table or view with this name, or None if it does not exist.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """

    def look_up(self, schema: str, name: str) -> tuple[Relation, Table | None] | None:
        """Return the table or view with this name as `relation` does, and the table if the lookup has opened it (`Table.look_ahead`).

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """

    def open(self, schema: str, name: str) -> Table:
        """Return an existing table. Repeated calls return the same object.

        Args:
            schema: The name of the schema.
            name: The name of the table.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a view.
        """

    def new_table(self, schema: str, name: str, format_: str, location: str | None = None) -> Table:
        """Return the table for CREATE TABLE, which may not exist yet. After creating the table, call `register`.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            format_: `delta` or `iceberg`.
            location: The folder of an external table, or None for the folder that the catalog chooses.

        Raises:
            ConfigurationError: The location contains credentials, or the catalog does not support this format.
            SchemaNotFound: The schema does not exist.
        """

    def location_of(self, schema: str, name: str) -> str:
        """Return the location of a managed table or a view, whether or not it exists.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """

    def is_managed(self, table: Relation, location: str) -> bool:
        """Return whether the location of a table is the one that the catalog chooses, so that DROP TABLE deletes its files."""

    def register(self, schema: str, name: str, format_: str, location: str, *, is_new: bool = False) -> None:
        """Register the table at a location under a name.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            format_: `delta` or `iceberg`.
            location: The folder of the table.
            is_new: Whether the statement has just created the table. Then this method must be called for every location.

        Raises:
            AlreadyExists: The name refers to another relation.
            SchemaNotFound: The schema does not exist.
        """

    def rename(self, relation: Relation, new_schema: str, new_name: str) -> None:
        """Give a table or a view another name. Its rows, its history and its location stay the same.

        Args:
            relation: The existing table or view.
            new_schema: The name of the new schema, which may be the old one.
            new_name: The new name.

        Raises:
            AlreadyExists: A relation has the new name.
            SchemaNotFound: The new schema does not exist.
            TableNotFound: The relation does not exist any longer.
        """

    def set_location(self, relation: Relation, location: str) -> None:
        """Change the folder of a table. For Delta, another table is there. For Iceberg, the new files of the table go there.

        Args:
            relation: The existing table.
            location: The new folder.

        Raises:
            PlanError: The catalog cannot change the location.
            TableNotFound: The table does not exist any longer.
        """

    def drop_table(self, schema: str, name: str) -> None:
        """Drop a table and delete its files. For an external table, drop only its name and keep the files.

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
            TableError: The relation is a table, or the view has no SQL in Spark's dialect.
        """

    def put_view(self, view: View, *, or_replace: bool = False) -> View:
        """Create a view, or replace it by a new version, and return the stored view.

        Args:
            view: The definition of the view. Its version and modification time are ignored.
            or_replace: Whether to replace an existing view.

        Raises:
            AlreadyExists: The name refers to a table, or to a view while `or_replace` is false.
            SchemaNotFound: The schema does not exist.
            TableError: The catalog does not store views.
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
