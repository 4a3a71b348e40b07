"""What a session asks of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rowmerge.catalog.functions import Function
from rowmerge.catalog.relation import Relation, View
from rowmerge.commands.functions import FunctionDefinition
from rowmerge.table.schema import Struct
from rowmerge.table.table import Table


class Catalog(Protocol):
    """Schemas, tables, views and functions. Names are not case-sensitive, and told in lower case. Every method raises StorageError when
    the storage or the service behind it fails."""

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

    def functions(self, schema: str) -> list[str]:
        """The names of a schema's functions, sorted; none when there is no such schema."""

    def function(self, schema: str, name: str) -> Function | None:
        """The function of this name, or None. Raises TableError when what is kept of it says nothing."""

    def put_function(self, schema: str, name: str, definition: FunctionDefinition, default_schema: str, *, or_replace: bool) -> None:
        """Keep a function. Raises AlreadyExists without `or_replace`, SchemaNotFound, TableError where no functions are kept."""

    def drop_function(self, schema: str, name: str) -> None:
        """Forget a function. Raises FunctionNotFound."""
