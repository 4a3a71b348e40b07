"""A catalog of Iceberg tables in a service or a database, with pyiceberg as its client."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rowmerge.catalog import errors
from rowmerge.catalog.catalog import Relation, View
from rowmerge.catalog.functions import NoFunctions
from rowmerge.catalog.names import check_segment, fold, plain_location, quoted_name
from rowmerge.catalog.views import first_metadata, view_of
from rowmerge.errors import AlreadyExists, ConfigurationError, SchemaNotFound, TableError
from rowmerge.iceberg import CatalogClient, CatalogOperations, IcebergTable, delete_dropped_files
from rowmerge.storage.store import Storage, absolute_location
from rowmerge.table.table import Table


class IcebergCatalog:
    """Implements `rowmerge.catalog.catalog.Catalog`. Schemas are the catalog's namespaces of one level.

    A name is one segment of a path. Methods that would pass another name to the catalog raise TableError. Names that the catalog stores in
    other cases are found, too.
    """

    def __init__(self, configuration: Mapping[str, Any], warehouse: str | None, open_storage: Callable[[str], Storage] = Storage) -> None:
        """`configuration`: the arguments of pyiceberg's `load_catalog`, including the catalog's `name` (`default` without).
        `warehouse`: the folder of new tables, which are put in `<schema>/<table>`; None for the catalog's default.
        `open_storage` returns the storage of a table's location. Raises ConfigurationError, CatalogFailed.
        """
        self._warehouse = None if warehouse is None else plain_location(warehouse)
        self._open_storage = open_storage
        self._client = CatalogClient(
            _with_warehouse(configuration, self._warehouse),
            sync=lambda path: open_storage(absolute_location(path)).sync([absolute_location(path)]),
        )
        self.functions = NoFunctions(f"{self._client.name} ({self._client.kind})")
        self._namespaces: dict[str, str] = {}
        self._tables: dict[tuple[str, str], IcebergTable] = {}

    def schemas(self) -> list[str]:
        self._namespaces = {fold(namespace): namespace for namespace in self._client.namespaces()}
        return sorted(self._namespaces)

    def schema_exists(self, name: str) -> bool:
        return fold(name) in self.schemas()

    def create_schema(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        check_segment("schema", name)
        comment_property = {} if comment is None else {"comment": comment}
        namespace_properties = {**(properties or {}), **comment_property}
        was_created = not self.schema_exists(name) and self._client.create_namespace(fold(name), namespace_properties)
        if not was_created and not if_not_exists:
            raise errors.schema_already_exists(name)

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a namespace. See `Catalog.drop_schema`."""
        schema = fold(name)
        if not self.schema_exists(schema):
            if if_exists:
                return
            raise SchemaNotFound(schema, self.schemas())
        for relation in self.relations(schema) if cascade else ():
            drop_relation = self.drop_table if relation.kind == "table" else self.drop_view
            drop_relation(schema, relation.name)
        if not self._client.drop_namespace(self._namespace(schema)):
            names = [relation.name for relation in self.relations(schema)]
            raise errors.schema_not_empty(schema, ", ".join(names[:5]) or "what is not seen here")
        self._namespaces.pop(schema, None)

    def relations(self, schema: str) -> list[Relation]:
        namespace = self._namespace(schema)
        tables = [Relation.of_table(schema, name, "iceberg") for name in self._client.tables(namespace)]
        views = [Relation.of_view(schema, name) for name in self._client.views(namespace)]
        return sorted(tables + views, key=lambda relation: relation.name)

    def relation(self, schema: str, name: str) -> Relation | None:
        namespace = self._namespace(schema)
        if self._find_table(namespace, name) is not None:
            return Relation.of_table(schema, name, "iceberg")
        return None if self._view(namespace, name) is None else Relation.of_view(schema, name)

    def open(self, schema: str, name: str) -> Table:
        namespace = self._namespace(schema)
        catalog_name, location = self._require_table(namespace, schema, name, "Name a table, or read the view in a query.")
        return self._table(schema, name, namespace, catalog_name, location)

    def table_at(self, schema: str, name: str, format_: str, location: str | None = None) -> Table:
        if format_ != "iceberg":
            raise ConfigurationError(
                f"The catalog {self._client.name} holds Iceberg tables alone, and {quoted_name(schema, name)} is to have the format "
                f"{format_}. Write USING iceberg, or make iceberg the default format."
            )
        check_segment("table", name)
        if not self.schema_exists(schema):
            raise SchemaNotFound(fold(schema), self.schemas())
        table_location = self._new_location(schema, name) if location is None else plain_location(location)
        return self._table(schema, name, self._namespace(schema), fold(name), table_location)

    def location_of(self, schema: str, name: str) -> str:
        namespace = self._namespace(schema)
        if table := self._find_table(namespace, name):
            return table[1]
        view = self._view(namespace, name)
        return self._new_location(schema, name) if view is None else str(view["location"])

    def register(self, schema: str, name: str, format_: str, location: str) -> None:
        if self.location_of(schema, name) != plain_location(location):
            raise errors.already_exists(schema, name)

    def drop_table(self, schema: str, name: str) -> None:
        namespace = self._namespace(schema)
        catalog_name, location = self._require_table(namespace, schema, name, "Drop it with DROP VIEW.")
        operations = CatalogOperations(self._client, namespace, catalog_name, self._open_storage(location))
        newest = operations.current()
        self._tables.pop((fold(schema), fold(name)), None)
        # The name is dropped first, so that no table exists without some of its files if their deletion stops.
        was_dropped = self._client.drop_table(namespace, catalog_name)
        if was_dropped and newest is not None and location == self._new_location(schema, catalog_name):
            delete_dropped_files(operations.storage, newest)

    def view(self, schema: str, name: str) -> View:
        namespace = self._namespace(schema)
        content = self._view(namespace, name)
        if content is None:
            if self._find_table(namespace, name) is not None:
                raise errors.wrong_kind(schema, name, "table", "Name a view.")
            raise errors.table_not_found(self, schema, name)
        return view_of(Relation.of_view(schema, name), content, content["current-version-id"], content["location"])

    def put_view(self, view: View, *, or_replace: bool = False) -> View:
        """Create or replace a view. See `Catalog.put_view`."""
        schema, name = view.relation.schema, view.relation.name
        existing = self._relation_before_view(schema, name)
        if existing is not None and not (or_replace and existing.kind == "view"):
            raise errors.already_exists(schema, name)
        namespace, folded_name = self._namespace(schema), fold(name)
        metadata = first_metadata("", view, time.time_ns() // 1_000_000)
        old_metadata = None if existing is None else self._view(namespace, name)
        if old_metadata is not None:
            if self._client.replace_view(namespace, folded_name, old_metadata, metadata):
                return self.view(schema, name)
            # The server cannot replace a view. A concurrent reader may find no view between the drop and the creation.
            self._client.drop_view(namespace, folded_name)
        if not self._client.create_view(namespace, folded_name, metadata):
            raise AlreadyExists(f"Somebody else made the view {quoted_name(schema, name)} just now. Run the statement again to replace it.")
        return self.view(schema, name)

    def _relation_before_view(self, schema: str, name: str) -> Relation | None:
        """Return the relation that has the name of a new view, or None. Raises SchemaNotFound, TableError for a catalog without views."""
        check_segment("view", name)
        if not self.schema_exists(schema):
            raise SchemaNotFound(fold(schema), self.schemas())
        existing = self.relation(schema, name)
        if not self._client.has_views:
            raise TableError(
                f"The view {quoted_name(schema, name)} cannot be made: the catalog {self._client.name} ({self._client.kind}) keeps no "
                f"views. Make a table, or use a REST catalog that has views, or a warehouse folder without a catalog."
            )
        return existing

    def drop_view(self, schema: str, name: str) -> None:
        errors.find_relation_to_drop(self, schema, name, "view")
        self._client.drop_view(self._namespace(schema), fold(name))

    def _namespace(self, schema: str) -> str:
        """Return the catalog's name of a schema, the lower-case name if the catalog does not have it."""
        check_segment("schema", schema)
        if fold(schema) not in self._namespaces:
            self.schemas()
        return self._namespaces.get(fold(schema), fold(schema))

    def _find_table(self, namespace: str, name: str) -> tuple[str, str] | None:
        """Return a table's name in the catalog, which may have other cases, and its location, or None."""
        check_segment("table", name)
        location = self._client.location(namespace, fold(name))
        if location is not None:
            return fold(name), location
        for catalog_name in self._client.tables(namespace):
            if fold(catalog_name) == fold(name) and (location := self._client.location(namespace, catalog_name)) is not None:
                return catalog_name, location
        return None

    def _require_table(self, namespace: str, schema: str, name: str, advice: str) -> tuple[str, str]:
        """Return what `_find_table` does. Raise TableNotFound, and TableError with this advice for a view."""
        if table := self._find_table(namespace, name):
            return table
        if self._view(namespace, name) is not None:
            raise errors.wrong_kind(schema, name, "view", advice)
        raise errors.table_not_found(self, schema, name)

    def _view(self, namespace: str, name: str) -> dict[str, Any] | None:
        check_segment("view", name)
        return self._client.load_view(namespace, fold(name))

    def _table(self, schema: str, name: str, namespace: str, catalog_name: str, location: str) -> IcebergTable:
        """Return the table at a location, the same object each time."""
        key = (fold(schema), fold(name))
        table = self._tables.get(key)
        if table is None or table.location != location:
            operations = CatalogOperations(self._client, namespace, catalog_name, self._open_storage(location))
            table = self._tables[key] = IcebergTable(operations, f"{fold(schema)}.{fold(name)}")
        return table

    def _new_location(self, schema: str, name: str) -> str:
        check_segment("schema", schema)
        check_segment("table", name)
        if self._warehouse is None:
            return self._client.default_location(self._namespace(schema), fold(name))
        return f"{self._warehouse}/{fold(schema)}/{fold(name)}"


def _with_warehouse(configuration: Mapping[str, Any], warehouse: str | None) -> dict[str, Any]:
    """Add the warehouse to the configuration of a catalog without a service, which writes metadata files itself."""
    is_service = str(configuration.get("type", "")).lower() == "rest"
    defaults = {} if warehouse is None or is_service else {"warehouse": warehouse}
    return {**defaults, **configuration}
