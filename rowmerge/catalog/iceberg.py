"""A catalog of Iceberg tables that a service or a database keeps, spoken to by pyiceberg."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rowmerge.catalog.catalog import table_not_found
from rowmerge.catalog.functions import NoFunctions
from rowmerge.catalog.layout import plain_location
from rowmerge.catalog.names import check_segment, fold
from rowmerge.catalog.relation import Relation, View
from rowmerge.catalog.views import ViewText, first_metadata, view_of
from rowmerge.errors import AlreadyExists, ConfigurationError, SchemaNotFound, TableError
from rowmerge.iceberg import CatalogClient, CatalogOperations, IcebergTable, delete_dropped_files
from rowmerge.storage.store import Storage, absolute_location
from rowmerge.table.metadata.schema import Struct, quote
from rowmerge.table.table import Table


class IcebergCatalog:
    """Implements `rowmerge.catalog.catalog.Catalog`. Schemas are the catalog's namespaces of one level.

    A name is one segment of a path. Methods that would pass another name to the catalog raise TableError.

    Names that the catalog spells in other cases are found too. A view is replaced in one step; where the server has none for it, by
    dropping it and making it anew, and whoever reads it in between finds none.
    """

    def __init__(
        self,
        configuration: Mapping[str, Any],
        warehouse: str | None,
        open_storage: Callable[[str], Storage] = Storage,
    ) -> None:
        """`configuration`: what pyiceberg's `load_catalog` takes, with the catalog's `name` among it (`default` without).
        `warehouse`: the folder below which new tables are put, as `<schema>/<table>`; None: where the catalog says.
        `open_storage` makes the storage of a table's location.

        Raises ConfigurationError, CatalogFailed.
        """
        self._warehouse = None if warehouse is None else plain_location(warehouse)
        self._open_storage = open_storage
        self._client = CatalogClient(_with_warehouse(configuration, self._warehouse), self._sync)
        self.functions = NoFunctions(f"{self._client.name} ({self._client.kind})")
        self._spelled: dict[str, str] = {}
        self._tables: dict[tuple[str, str], IcebergTable] = {}

    # -------------------------------------------------------------- schemas

    def schemas(self) -> list[str]:
        self._spelled = {fold(namespace): namespace for namespace in self._client.namespaces()}
        return sorted(self._spelled)

    def schema_exists(self, name: str) -> bool:
        return fold(name) in self.schemas()

    def create_schema(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        check_segment("schema", name)
        described = {**(properties or {}), **({"comment": comment} if comment is not None else {})}
        made = not self.schema_exists(name) and self._client.create_namespace(fold(name), described)
        if not made and not if_not_exists:
            raise AlreadyExists(f"The schema {quote(fold(name))} exists already. Choose another name, or add IF NOT EXISTS.")

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        schema = fold(name)
        if not self.schema_exists(schema):
            if if_exists:
                return
            raise SchemaNotFound(schema, self.schemas())
        for relation in self.relations(schema) if cascade else ():
            (self.drop_table if relation.kind == "table" else self.drop_view)(schema, relation.name)
        if not self._client.drop_namespace(self._namespace(schema)):
            listed = ", ".join(r.name for r in self.relations(schema)[:5]) or "what is not seen here"
            raise TableError(f"The schema {quote(schema)} is not empty: it holds {listed}. Drop these first, or add CASCADE.")
        self._spelled.pop(schema, None)

    # -------------------------------------------------------------- relations

    def relations(self, schema: str) -> list[Relation]:
        namespace = self._namespace(schema)
        tables = [Relation(fold(schema), fold(name), "table", "iceberg") for name in self._client.tables(namespace)]
        views = [Relation(fold(schema), fold(name), "view", None) for name in self._client.views(namespace)]
        return sorted(tables + views, key=lambda relation: relation.name)

    def relation(self, schema: str, name: str) -> Relation | None:
        namespace = self._namespace(schema)
        if self._spelling(namespace, name) is not None:
            return Relation(fold(schema), fold(name), "table", "iceberg")
        if self._view(namespace, name) is not None:
            return Relation(fold(schema), fold(name), "view", None)
        return None

    def open(self, schema: str, name: str) -> Table:
        namespace = self._namespace(schema)
        found = self._spelling(namespace, name)
        if found is None:
            if self._view(namespace, name) is not None:
                raise TableError(f"{_shown(schema, name)} is a view, not a table. Name a table, or read the view in a query.")
            raise table_not_found(self, schema, name)
        return self._table(schema, name, namespace, *found)

    def table_at(self, schema: str, name: str, format_: str, location: str | None = None) -> Table:
        if format_ != "iceberg":
            raise ConfigurationError(
                f"The catalog {self._client.name} holds Iceberg tables alone, and {_shown(schema, name)} is to have the format {format_}. "
                f"Write USING iceberg, or make iceberg the default format."
            )
        check_segment("table", name)
        if not self.schema_exists(schema):
            raise SchemaNotFound(fold(schema), self.schemas())
        place = self._new_location(schema, name) if location is None else plain_location(location)
        return self._table(schema, name, self._namespace(schema), fold(name), place)

    def location_of(self, schema: str, name: str) -> str:
        namespace = self._namespace(schema)
        found = self._spelling(namespace, name)
        if found is not None:
            return found[1]
        view = self._view(namespace, name)
        return self._new_location(schema, name) if view is None else str(view["location"])

    def register(self, schema: str, name: str, format_: str, location: str) -> None:
        if self.location_of(schema, name) != plain_location(location):
            raise _exists(schema, name)

    def drop_table(self, schema: str, name: str) -> None:
        namespace = self._namespace(schema)
        found = self._spelling(namespace, name)
        if found is None:
            if self._view(namespace, name) is not None:
                raise TableError(f"{_shown(schema, name)} is a view, not a table. Drop it with DROP VIEW.")
            raise table_not_found(self, schema, name)
        spelled, location = found
        operations = CatalogOperations(self._client, namespace, spelled, self._open_storage(location))
        newest = operations.current()
        self._tables.pop((fold(schema), fold(name)), None)
        # The name first: a deletion of files that stops in the middle leaves no table without some of its files.
        dropped = self._client.drop_table(namespace, spelled)
        if dropped and newest is not None and location == self._new_location(schema, spelled):
            delete_dropped_files(operations.storage, newest)

    # -------------------------------------------------------------- views

    def view(self, schema: str, name: str) -> View:
        namespace = self._namespace(schema)
        content = self._view(namespace, name)
        if content is None:
            if self._spelling(namespace, name) is not None:
                raise TableError(f"{_shown(schema, name)} is a table, not a view. Name a view.")
            raise table_not_found(self, schema, name)
        return view_of(Relation(fold(schema), fold(name), "view", None), content, content["current-version-id"], content["location"])

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
        check_segment("view", name)
        if not self.schema_exists(schema):
            raise SchemaNotFound(fold(schema), self.schemas())
        namespace, there = self._namespace(schema), self.relation(schema, name)
        if not self._client.has_views:
            raise TableError(
                f"The view {_shown(schema, name)} cannot be made: the catalog {self._client.name} ({self._client.kind}) keeps no views. "
                f"Make a table, or use a REST catalog that has views, or a warehouse folder without a catalog."
            )
        if there is not None and not (or_replace and there.kind == "view"):
            raise _exists(schema, name)
        text = ViewText(sql, default_schema, columns, comment, properties or {})
        content = first_metadata("", text, time.time_ns() // 1_000_000)
        old = None if there is None else self._view(namespace, name)
        if old is not None and self._client.replace_view(namespace, fold(name), old, content):
            return self.view(schema, name)
        if old is not None:
            self._client.drop_view(namespace, fold(name))
        if not self._client.create_view(namespace, fold(name), content):
            raise AlreadyExists(f"Somebody else made the view {_shown(schema, name)} just now. Run the statement again to replace it.")
        return self.view(schema, name)

    def drop_view(self, schema: str, name: str) -> None:
        relation = self.relation(schema, name)
        if relation is None:
            raise table_not_found(self, schema, name)
        if relation.kind != "view":
            raise TableError(f"{_shown(schema, name)} is a table, not a view. Drop it with DROP TABLE.")
        self._client.drop_view(self._namespace(schema), fold(name))

    # -------------------------------------------------------------- inside

    def _sync(self, path: str) -> None:
        path = absolute_location(path)
        self._open_storage(path).sync([path])

    def _namespace(self, schema: str) -> str:
        """As the catalog spells it; in lower case when it has no such namespace."""
        check_segment("schema", schema)
        if fold(schema) not in self._spelled:
            self.schemas()
        return self._spelled.get(fold(schema), fold(schema))

    def _spelling(self, namespace: str, name: str) -> tuple[str, str] | None:
        """A table's name as the catalog spells it, and where the table is."""
        check_segment("table", name)
        location = self._client.location(namespace, fold(name))
        if location is not None:
            return fold(name), location
        for spelled in self._client.tables(namespace):
            if fold(spelled) == fold(name) and (location := self._client.location(namespace, spelled)) is not None:
                return spelled, location
        return None

    def _view(self, namespace: str, name: str) -> dict[str, Any] | None:
        check_segment("view", name)
        return self._client.load_view(namespace, fold(name))

    def _table(self, schema: str, name: str, namespace: str, spelled: str, location: str) -> IcebergTable:
        key, shown = (fold(schema), fold(name)), f"{fold(schema)}.{fold(name)}"
        kept = self._tables.get(key)
        if kept is None or kept.location != location:
            operations = CatalogOperations(self._client, namespace, spelled, self._open_storage(location))
            kept = self._tables[key] = IcebergTable(operations, shown)
        return kept

    def _new_location(self, schema: str, name: str) -> str:
        check_segment("schema", schema)
        check_segment("table", name)
        if self._warehouse is None:
            return self._client.default_location(self._namespace(schema), fold(name))
        return f"{self._warehouse}/{fold(schema)}/{fold(name)}"


def _with_warehouse(configuration: Mapping[str, Any], warehouse: str | None) -> dict[str, Any]:
    """Catalogs that are no service write metadata files themselves, and want to know below which folder."""
    service = str(configuration.get("type", "")).lower() == "rest"
    known = {} if warehouse is None or service else {"warehouse": warehouse}
    return {**known, **configuration}


def _shown(schema: str, name: str) -> str:
    return f"{quote(fold(schema))}.{quote(fold(name))}"


def _exists(schema: str, name: str) -> AlreadyExists:
    return AlreadyExists(f"{_shown(schema, name)} exists already. Drop it first, or choose another name.")
