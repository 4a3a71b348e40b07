"""A catalog of Iceberg tables in a service or a database, which rowmerge accesses through pyiceberg."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from rowmerge.catalog import errors
from rowmerge.catalog.catalog import View
from rowmerge.catalog.functions import NoFunctions
from rowmerge.catalog.names import CatalogNames, check_path_segment, lower_case, normalize_location, quoted_name
from rowmerge.catalog.renames import is_chosen_location, unused_location
from rowmerge.catalog.views import check_has_views, commit_view, parse_view
from rowmerge.errors import AlreadyExists, ConfigurationError, SchemaNotFound
from rowmerge.iceberg import CatalogClient, CatalogOperations, IcebergTable, delete_dropped_files, set_location
from rowmerge.iceberg.catalogs.file_io import with_storage_options
from rowmerge.iceberg.metadata.parsing import parse_metadata
from rowmerge.storage.store import Storage
from rowmerge.table.relations import Relation
from rowmerge.table.table import Table


class IcebergCatalog:
    """An Iceberg catalog that implements `rowmerge.catalog.catalog.Catalog`. Schemas are the catalog's single-level namespaces.

    A name must be one segment of a path. A method raises TableError instead of passing any other name to the catalog. Names are compared
    case-insensitively. Every method raises CatalogFailed if the catalog fails.
    """

    def __init__(
        self, configuration: Mapping[str, Any], warehouse: str | None, open_storage: Callable[[str], Storage] = Storage, prefix: str = ""
    ) -> None:
        """Connect to a catalog.

        Args:
            configuration: The arguments of pyiceberg's `load_catalog`, including the catalog's `name`, which is `default` by default.
            warehouse: The folder that contains a folder `<schema>/<table>` for each new table; None for the catalog's default.
            open_storage: A function that returns the storage of a table's location.
            prefix: The beginning of tables' names in messages, such as `lake.`.

        Raises:
            CatalogFailed: The catalog cannot be reached.
            ConfigurationError: The configuration is invalid, or a warehouse location contains credentials or is not supported.
        """
        self._prefix = prefix
        self._warehouse = None if warehouse is None else normalize_location(warehouse)
        session_options = open_storage(warehouse or ".").configuration
        self._client = CatalogClient(with_storage_options(configuration, self._warehouse, session_options), open_storage)
        # On a server of a REST catalog, `warehouse` is a name that only the server interprets, such as `bl://projects/p/catalogs/c`.
        if self._client.rest_properties is None and "://" in (configured_warehouse := str(configuration.get("warehouse", ""))):
            normalize_location(configured_warehouse)
        self.functions = NoFunctions(catalog=f"{self._client.name} ({self._client.kind})")
        self._names = CatalogNames(self._client, self._warehouse)
        self._cached_tables: dict[tuple[str, str], IcebergTable] = {}
        """The open tables by schema and name, in lower case."""

    @property
    def served_properties(self) -> dict[str, str] | None:
        """The properties of a server that chooses the locations of tables, and of its configuration here. None if no server does."""
        return None if self._warehouse is not None else self._client.rest_properties

    def schemas(self) -> list[str]:
        """Return the lower-case names of the catalog's single-level namespaces, sorted."""
        return sorted(self._names.read_namespaces())

    def schema_exists(self, name: str) -> bool:
        """Return whether the catalog has a namespace with this name, in any capitalization."""
        return lower_case(name) in self.schemas()

    def create_schema(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a namespace with a lower-case name.

        Args:
            name: The name of the schema.
            if_not_exists: Whether to do nothing if the schema exists.
            comment: The value of the namespace property `comment`, or None to leave it unset.
            properties: The properties of the namespace, or None for no properties.

        Raises:
            AlreadyExists: The schema exists, and `if_not_exists` is false.
        """
        check_path_segment("schema", name)
        schema = lower_case(name)
        comment_property = {} if comment is None else {"comment": comment}
        if not self.schema_exists(schema) and self._client.create_namespace(schema, {**(properties or {}), **comment_property}):
            return
        if not if_not_exists:  # The schema existed, or another process has just created it.
            raise errors.schema_already_exists(name)

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a namespace.

        Args:
            name: The name of the schema.
            if_exists: Whether to do nothing if the schema does not exist.
            cascade: Whether to drop the tables and views of the schema first.

        Raises:
            SchemaNotFound: The schema does not exist, and `if_exists` is false.
            TableError: The catalog refuses to drop the namespace, because it is not empty.
        """
        schema = lower_case(name)
        if not self.schema_exists(schema):
            if if_exists:
                return
            raise SchemaNotFound(schema, self.schemas())
        if cascade:
            for relation in self.relations(schema):
                drop_relation = self.drop_table if relation.kind == "table" else self.drop_view
                drop_relation(schema, relation.name)
        if not self._client.drop_namespace(self._names.namespace(schema)):
            names = [relation.name for relation in self.relations(schema)]
            raise errors.schema_not_empty(schema, ", ".join(names[:5]) or "objects that rowmerge cannot list")
        self._names.forget_namespace(schema)

    def relations(self, schema: str) -> list[Relation]:
        """Return the tables and views of a schema, sorted by name."""
        namespace = self._names.namespace(schema)
        tables = [Relation.of_table(schema, name, "iceberg") for name in self._client.tables(namespace)]
        views = [Relation.of_view(schema, name) for name in self._client.views(namespace)]
        return sorted(tables + views, key=lambda relation: relation.name)

    def relation(self, schema: str, name: str) -> Relation | None:
        """Return the table or view with this name, or None if it does not exist.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """
        namespace = self._names.namespace(schema)
        if self._names.find_table(namespace, name) is not None:
            return Relation.of_table(schema, name, "iceberg")
        return None if self._names.load_view(namespace, name) is None else Relation.of_view(schema, name)

    def look_up(self, schema: str, name: str) -> tuple[Relation, None] | None:
        """Return the table or view with this name as `relation` does, and no open table."""
        relation = self.relation(schema, name)
        return None if relation is None else (relation, None)

    def open(self, schema: str, name: str) -> Table:
        """Return an existing table. Repeated calls return the same object as long as the location stays the same.

        Args:
            schema: The name of the schema.
            name: The name of the table.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a view.
        """
        namespace = self._names.namespace(schema)
        stored_name, location = self._require_table(namespace, schema, name, advice="Name a table, or read the view in a query.")
        return self._cached_table(schema, name, namespace, stored_name, location)

    def new_table(self, schema: str, name: str, format_: str, location: str | None = None) -> Table:
        """Return the table for CREATE TABLE, which may not exist yet.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            format_: The format, which must be `iceberg`.
            location: The folder of the table, or None for the folder that the catalog chooses for a new table.

        Raises:
            ConfigurationError: The format is not `iceberg`, or the location is empty or contains credentials.
            SchemaNotFound: The schema does not exist.
        """
        if format_ != "iceberg":
            problem = f"{quoted_name(schema, name)} cannot have the format {format_}"
            reason = f"the catalog {self._client.name} supports only Iceberg tables"
            raise ConfigurationError(f"{problem}: {reason}. Write USING iceberg, or set the default format to iceberg.")
        check_path_segment("table", name)
        errors.check_schema_exists(self, schema)
        default_location = self._names.new_location(schema, name)
        namespace, stored_name = self._names.namespace(schema), lower_case(name)
        if location is not None or self._warehouse is not None:  # Otherwise, the catalog has just chosen the location and sent credentials.
            self._client.request_credentials(namespace, stored_name, default_location if location is None else normalize_location(location))
        storage = self._client.storages.open(default_location, (namespace, stored_name))
        table_location = unused_location(storage) if location is None else normalize_location(location)
        return self._cached_table(schema, name, namespace, stored_name, table_location)

    def location_of(self, schema: str, name: str) -> str:
        """Return the location of a table or view. If it does not exist, return the location that a new table would have.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """
        namespace = self._names.namespace(schema)
        if table := self._names.find_table(namespace, name):
            _, location = table
            return location
        view_metadata = self._names.load_view(namespace, name)
        return self._names.new_location(schema, name) if view_metadata is None else str(view_metadata["location"])

    def is_managed(self, table: Relation, location: str) -> bool:
        """Return whether `location` is the one that the catalog chooses for a table of this name."""
        if self._warehouse is not None:
            return is_chosen_location(location, self._names.new_location(table.schema, table.name))
        # Some catalogs reject the name of an existing table, and some add a unique suffix to the folder of a table.
        unused_name = f"{table.name}_{uuid4().hex}"
        folder = self._client.default_location(self._names.namespace(table.schema), unused_name).rpartition("/")[0]
        return location.rpartition("/")[0] == folder

    def register(self, schema: str, name: str, format_: str, location: str, *, is_new: bool = False) -> None:
        """Check that a name refers to the table at a location.

        A warehouse folder registers a table in this method. An Iceberg catalog has already registered the table with the commit that
        created it. So only the check remains that the name does not refer to another relation.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            format_: Ignored, because the catalog contains only Iceberg tables.
            location: The folder of the table.
            is_new: Whether the statement has just created the table. Then nothing is checked.

        Raises:
            AlreadyExists: The name refers to a relation at another location.
        """
        if is_new:
            return
        registered_location = self.location_of(schema, name)
        if registered_location != normalize_location(location):
            raise errors.already_exists(schema, name)

    def rename(self, relation: Relation, new_schema: str, new_name: str) -> None:
        """Give a table or a view another name in the catalog. Its files stay at their location.

        Args:
            relation: The existing table or view.
            new_schema: The name of the new schema, which may be the old one.
            new_name: The new name.

        Raises:
            AlreadyExists: A relation has the new name.
            SchemaNotFound: The new schema does not exist.
            TableNotFound: The relation does not exist any longer.
        """
        check_path_segment(relation.kind, new_name)
        errors.check_schema_exists(self, new_schema)
        if self.relation(new_schema, new_name) is not None:
            raise errors.already_exists(new_schema, new_name)
        namespace, target = self._names.namespace(relation.schema), (self._names.namespace(new_schema), lower_case(new_name))
        if relation.kind == "view":
            was_renamed = self._client.rename_view((namespace, relation.name), target)
        else:
            stored_name, _ = self._require_table(namespace, relation.schema, relation.name, advice="Rename it with ALTER VIEW.")
            was_renamed = self._client.rename_table((namespace, stored_name), target)
        self._cached_tables.pop((relation.schema, relation.name), None)
        if not was_renamed:
            raise errors.already_exists(new_schema, new_name)

    def set_location(self, relation: Relation, location: str) -> None:
        """Set the folder for the new files of a table. Its old files stay where they are, and are still read.

        Args:
            relation: The existing table.
            location: The new folder.

        Raises:
            CommitConflict: Concurrent statements change the table.
            ConfigurationError: The location is empty or contains credentials.
            TableNotFound: The table does not exist any longer.
        """
        namespace = self._names.namespace(relation.schema)
        stored_name, old_location = self._require_table(namespace, relation.schema, relation.name, advice="Name a table.")
        operations = CatalogOperations(self._client, namespace, stored_name, old_location)
        set_location(operations, str(relation), normalize_location(location))

    def register_metadata(self, schema: str, name: str, path: str) -> None:
        """Add a table with existing metadata to the catalog.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            path: The absolute path of the newest metadata file.

        Raises:
            AlreadyExists: The catalog has a table of this name.
            SchemaNotFound: The catalog has no such schema.
            CorruptLog: The file is not the metadata of a table.
        """
        check_path_segment("table", name)
        errors.check_schema_exists(self, schema)
        folder, _, file = path.rpartition("/")
        parse_metadata(
            self._client.storages.open(folder).get(file), path, quoted_name(schema, name)
        )  # some catalogs would register any path
        if not self._client.register_table(self._names.namespace(schema), lower_case(name), path):
            raise errors.already_exists(schema, name)

    def drop_table(self, schema: str, name: str) -> None:
        """Drop a table. Its files are deleted if its location is the one that the catalog would choose for a new table with this name.

        So a renamed table keeps its files.

        Args:
            schema: The name of the schema.
            name: The name of the table.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a view.
        """
        namespace = self._names.namespace(schema)
        stored_name, location = self._require_table(namespace, schema, name, advice="Drop it with DROP VIEW.")
        operations = CatalogOperations(self._client, namespace, stored_name, location)
        last_metadata = operations.current()  # lists the files to delete, and cannot be read after the drop
        self._cached_tables.pop((lower_case(schema), lower_case(name)), None)
        # The catalog drops the table first. So if the deletion of files is interrupted, no table in the catalog lacks files.
        was_dropped = self._client.drop_table(namespace, stored_name)
        if was_dropped and last_metadata is not None and is_chosen_location(location, self._names.new_location(schema, stored_name)):
            delete_dropped_files(operations.storage, last_metadata)

    def view(self, schema: str, name: str) -> View:
        """Return the current definition of a view.

        Args:
            schema: The name of the schema.
            name: The name of the view.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a table, or the view has no SQL in Spark's dialect.
        """
        namespace = self._names.namespace(schema)
        metadata = self._names.load_view(namespace, name)
        if metadata is None:
            if self._names.find_table(namespace, name) is not None:
                raise errors.wrong_kind(schema, name, "table", "Name a view.")
            raise errors.table_not_found(self, schema, name)
        return parse_view(Relation.of_view(schema, name), metadata, metadata["current-version-id"], metadata["location"])

    def put_view(self, view: View, *, or_replace: bool = False) -> View:
        """Create or replace a view, and return the stored view.

        Args:
            view: The definition of the view. Its version and modification time are ignored.
            or_replace: Whether to replace an existing view.

        Raises:
            AlreadyExists: The name refers to a table, or to a view while `or_replace` is false.
            SchemaNotFound: The schema does not exist.
            TableError: The catalog does not store views.
        """
        schema, name = view.relation.schema, view.relation.name
        check_path_segment("view", name)
        errors.check_schema_exists(self, schema)
        existing = self.relation(schema, name)
        check_has_views(self._client, quoted_name(schema, name))
        if existing is not None and not (or_replace and existing.kind == "view"):
            raise errors.already_exists(schema, name)
        namespace = self._names.namespace(schema)
        if not commit_view(
            self._client, namespace, view, self._names.new_location(schema, name) if self._client.view_store.have_files else ""
        ):
            raise AlreadyExists(f"A concurrent statement changed the view {quoted_name(schema, name)}. Run this statement again.")
        return self.view(schema, name)

    def drop_view(self, schema: str, name: str) -> None:
        """Drop a view.

        Args:
            schema: The name of the schema.
            name: The name of the view.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a table.
        """
        errors.require_relation_to_drop(self, schema, name, "view")
        self._client.drop_view(self._names.namespace(schema), lower_case(name))

    def _require_table(self, namespace: str, schema: str, name: str, advice: str) -> tuple[str, str]:
        """Return the name and the location of an existing table (see `CatalogNames.find_table`).

        Raises TableNotFound if the relation does not exist, and TableError with `advice` if it is a view.
        """
        if table := self._names.find_table(namespace, name):
            return table
        if self._names.load_view(namespace, name) is not None:
            raise errors.wrong_kind(schema, name, "view", advice)
        raise errors.table_not_found(self, schema, name)

    def _cached_table(self, schema: str, name: str, namespace: str, stored_name: str, location: str) -> IcebergTable:
        """Return the table at a location. Repeated calls return the same object as long as the location stays the same.

        `namespace` and `stored_name`: the names of the schema and of the table, as the catalog spells them.
        """
        key = (lower_case(schema), lower_case(name))
        table = self._cached_tables.get(key)
        if table is None or table.location != location:
            operations = CatalogOperations(self._client, namespace, stored_name, location)
            table = self._cached_tables[key] = IcebergTable(operations, f"{self._prefix}{lower_case(schema)}.{lower_case(name)}")
        return table
