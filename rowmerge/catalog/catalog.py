"""What a session asks of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Protocol

from rowmerge.catalog.functions import Functions
from rowmerge.catalog.names import fold
from rowmerge.catalog.relation import Relation, View
from rowmerge.errors import TableNotFound
from rowmerge.table.metadata.schema import Struct, quote
from rowmerge.table.table import Table


class Catalog(Protocol):
    """Schemas, tables, views and functions. Names are not case-sensitive, and told in lower case. Every method raises StorageError when
    the storage or the service behind it fails."""

    @property
    def functions(self) -> Functions:
        """The functions in SQL and Python that the schemas hold."""

    def schemas(self) -> list[str]:
        """The names of all schemas, sorted."""

    def schema_exists(self, name: str) -> bool: ...

    def create_schema(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make an empty schema. Raises AlreadyExists without `if_not_exists`."""

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Remove a schema, with `cascade` all that is in it. Raises SchemaNotFound without `if_exists`, TableError when it is not empty."""

    def relations(self, schema: str) -> list[Relation]:
        """The tables and views of a schema, sorted by name; none when there is no such schema."""

    def relation(self, schema: str, name: str) -> Relation | None:
        """The table or view of this name, or None."""

    def open(self, schema: str, name: str) -> Table:
        """A table that exists. The same object each time, so that its snapshots are used again.

        Raises TableNotFound, TableError for a view.
        """

    def table_at(self, schema: str, name: str, format_: str, location: str | None = None) -> Table:
        """The table of a format (`delta`, `iceberg`) that CREATE TABLE is about to make, with LOCATION elsewhere (then `register` it).

        Raises SchemaNotFound, ConfigurationError for a location that carries credentials and for a format that the catalog does not have.
        """

    def location_of(self, schema: str, name: str) -> str:
        """Where a managed table or a view of this name lies, or would."""

    def register(self, schema: str, name: str, format_: str, location: str) -> None:
        """Make the table at a location known under a name. Raises AlreadyExists when the name stands for something else, SchemaNotFound."""

    def drop_table(self, schema: str, name: str) -> None:
        """Delete a table and its files; of one that was made at a LOCATION of its own, only the name.

        Raises TableNotFound, TableError for a view.
        """

    def view(self, schema: str, name: str) -> View:
        """A view's newest definition. Raises TableNotFound, TableError for a table."""

    def put_view(
        self,
        schema: str,
        name: str,
        sql: str,
        *,
        default_schema: str,
        columns: Struct,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        or_replace: bool = False,
    ) -> View:
        """Create a view, or make its next version. Raises AlreadyExists, SchemaNotFound, TableError where there are no views."""

    def drop_view(self, schema: str, name: str) -> None:
        """Delete a view. Raises TableNotFound, TableError for a table."""


def table_not_found(catalog: Catalog, schema: str, name: str) -> TableNotFound:
    """Return the error of a table or view that a catalog does not have. It names relations of the schema, or of similar schemas."""
    schema, schemas = fold(schema), catalog.schemas()
    similar_schemas = [schema] if schema in schemas else get_close_matches(schema, schemas, n=3)
    candidates = [str(relation) for each in similar_schemas for relation in catalog.relations(each)]
    return TableNotFound(f"{quote(schema)}.{quote(fold(name))}", candidates)
