"""A catalog in a folder, `<warehouse>/<schema>/<table or view>/`, on a disk or an object store, without a service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from uuid import uuid4

from rowmerge.catalog import errors, layout, views
from rowmerge.catalog.catalog import View
from rowmerge.catalog.functions import FunctionFiles
from rowmerge.catalog.layout import ExternalTable, TableFolder, ViewFolder
from rowmerge.catalog.names import folder_of, is_valid_name, lower_case, name_of, normalize_location, path_of, quoted_name
from rowmerge.catalog.renames import Names, Place, check_metadata
from rowmerge.catalog.tables_by_path import OpenTables
from rowmerge.errors import AlreadyExists, PlanError, SchemaNotFound, TableError
from rowmerge.storage.cache import Cache
from rowmerge.storage.deletion import try_delete_files
from rowmerge.storage.store import Storage
from rowmerge.table.commits.commit import put_once
from rowmerge.table.metadata.schema import quote
from rowmerge.table.relations import Relation
from rowmerge.table.table import Table

DEFAULT_SCHEMA = "default"
"""The schema that exists in every warehouse."""

_MARKER = ".schema.json"
_MAX_ICEBERG_FILES = 10_000
"""The maximum number of cached metadata files of Iceberg tables."""


class DirectoryCatalog:
    """A warehouse folder that implements `rowmerge.catalog.catalog.Catalog`. Names are stored in lower case.

    Every method raises StorageError if the storage fails. A method that creates a folder raises TableError for an invalid name.
    """

    def __init__(self, storage: Storage, prefix: str = "") -> None:
        """Create a missing warehouse folder. Raises StorageError if it is not writable. `prefix`: the beginning of names in messages."""
        normalize_location(storage.location)
        self._storage, self._names = storage, Names(storage)
        self._known_iceberg_files: Cache[bool] = Cache(_MAX_ICEBERG_FILES)
        self.functions = FunctionFiles(storage, self.check_schema_exists)
        self.is_mismatch_fatal: Callable[[], bool] = lambda: True
        """Returns whether a mismatch between a Delta table's version and its checksum file is an error rather than a warning."""
        # The session replaces the attribute later. With the lambda, tables use the attribute's value of the moment.
        self._open_tables = OpenTables(lambda: self.is_mismatch_fatal(), prefix)
        layout.check_warehouse(storage)

    def schemas(self) -> list[str]:
        """Return the names of all schemas, sorted. `default` is always one of them."""
        names = {name for folder in self._storage.folders() if (name := name_of(folder)) is not None and self.schema_exists(name)}
        return sorted(names | {DEFAULT_SCHEMA})

    def schema_exists(self, name: str) -> bool:
        """Return whether the schema was created, or contains a relation or a function."""
        if lower_case(name) == DEFAULT_SCHEMA:
            return True
        if not is_valid_name(name):
            return False
        has_marker = self._storage.exists(f"{folder_of(name)}/{_MARKER}")
        return has_marker or bool(self.relations(name)) or bool(self.functions.names(name))

    def check_schema_exists(self, name: str) -> None:
        """Raise an error unless a schema exists.

        Raises:
            SchemaNotFound: The schema does not exist.
            TableError: The name is not valid for a schema.
        """
        folder_of(name)
        errors.check_schema_exists(self, name)

    def create_schema(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create an empty schema by putting the marker file `.schema.json` in its folder.

        Args:
            name: The name of the schema.
            if_not_exists: Whether to do nothing if the schema exists.
            comment: The comment of the schema, or None for no comment.
            properties: The properties of the schema, or None for no properties.

        Raises:
            AlreadyExists: The schema exists, and `if_not_exists` is false.
        """
        if self.schema_exists(name) and not if_not_exists:
            raise errors.schema_already_exists(name)
        created = time.time_ns() // 1_000_000
        writer = str(uuid4())  # makes the bytes unique, because `put_once` treats an object with the same bytes as its own
        schema, properties = lower_case(name), dict(properties or {})
        marker = {"name": schema, "comment": comment, "properties": properties, "created": created, "writer": writer}
        label = f"the schema {quote(schema)}"
        # A schema may exist only because of its tables. With a marker, it also exists without tables.
        was_created = put_once(self._storage, f"{folder_of(name)}/{_MARKER}", json.dumps(marker, ensure_ascii=False).encode(), label)
        if not was_created and not if_not_exists:
            # Another process has created the schema after the first check.
            raise AlreadyExists(f"A concurrent statement created {label}. Add IF NOT EXISTS to accept that.")

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a schema: its relations and functions first, and its marker file last.

        Args:
            name: The name of the schema.
            if_exists: Whether to do nothing if the schema does not exist.
            cascade: Whether to drop the relations and functions of the schema as well.

        Raises:
            SchemaNotFound: The schema does not exist, and `if_exists` is false.
            TableError: The schema is not empty, and `cascade` is false, or the schema is `default`.
            UnsupportedTableFeature: The metadata of an Iceberg table belongs to another catalog.
        """
        schema = lower_case(name)
        if schema == DEFAULT_SCHEMA:
            raise TableError("The schema default cannot be dropped: every warehouse has it. Drop its tables and views one by one.")
        if not self.schema_exists(schema):
            if if_exists:
                return
            raise SchemaNotFound(schema, self.schemas())
        relations, functions = self.relations(schema), self.functions.names(schema)
        if not cascade:
            errors.check_schema_is_empty(schema, relations, functions)
        # All checks come before the first drop, so that an error leaves the schema unchanged.
        for relation in relations:
            check_metadata(self._find(relation.schema, relation.name), relation, "drop")
        for relation in relations:
            self._drop(relation)
        for function in functions:
            self.functions.drop(schema, function)
        # Other folders may contain files of tables whose earlier drop was interrupted.
        for folder_name in self._storage.folders(folder_of(schema)):
            layout.finish_drops(self._storage.child(f"{folder_of(schema)}/{folder_name}"), f"{schema}.{folder_name}")
        self._storage.delete([f"{folder_of(schema)}/{_MARKER}"])
        self._storage.child(folder_of(schema)).remove_folders()

    def relations(self, schema: str) -> list[Relation]:
        """Return the tables and views of a schema, sorted by name. The list is empty if the schema does not exist."""
        if not is_valid_name(schema):
            return []
        names = [name for folder in self._storage.folders(folder_of(schema)) if (name := name_of(folder)) is not None]
        return [relation for name in sorted(names) if (relation := self.relation(schema, name)) is not None]

    def relation(self, schema: str, name: str) -> Relation | None:
        """Return the table or view with this name, or None if the folder of the name does not contain a relation."""
        relation, _ = self.look_up(schema, name) or (None, None)
        return relation

    def look_up(self, schema: str, name: str) -> tuple[Relation, Table | None] | None:
        """Return the table or view with this name as `relation` does, and the table if the lookup has opened it.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """
        if ahead := self._open_tables.look_ahead(self._storage, schema, name):
            return Relation.of_table(schema, name, ahead[0]), ahead[1]
        place = self._find(schema, name)
        return None if place is None else (place.relation(schema, name), None)

    def open(self, schema: str, name: str) -> Table:
        """Return an existing table. The tables of repeated calls share their caches.

        Args:
            schema: The name of the schema.
            name: The name of the table.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a view.
            UnsupportedTableFeature: The metadata of the Iceberg table belongs to another catalog.
        """
        if ahead := self._open_tables.look_ahead(self._storage, schema, name):
            return ahead[1]
        match self._find(schema, name):
            case Place(home, TableFolder(format_, versioned=True)):
                return self._open_tables.open(self._storage.child(home), schema, name, format_)
            case Place(_, TableFolder()):  # an Iceberg table of another catalog, which alone has the path of the newest metadata file
                raise errors.foreign_metadata(quoted_name(schema, name), "open")
            case Place(_, ExternalTable(location, format_)):
                return self._open_tables.open(self._storage.at(location), schema, name, format_)
            case Place(_, ViewFolder()):
                raise errors.wrong_kind(schema, name, "view", "Name a table, or read the view in a query.")
        raise errors.table_not_found(self, schema, name)

    def new_table(self, schema: str, name: str, format_: str, location: str | None = None) -> Table:
        """Return the table for CREATE TABLE, which may not exist yet. First finish an interrupted drop in the name's folder.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            format_: `delta` or `iceberg`.
            location: The folder of an external table, or None for the folder of the name in the warehouse.

        Raises:
            AlreadyExists: The location contains a table of another format, or a renamed table that had this name.
            ConfigurationError: The location is empty or has credentials.
            SchemaNotFound: The schema does not exist.
        """
        default_home, path = self._prepare_home(schema, name), path_of(schema, name)
        if location is None:
            return self._open_tables.open(self._storage.child(default_home), schema, name, format_)
        folder = self._storage.at(normalize_location(location))
        if default_home != path and folder.location == self._storage.child(path).location:
            raise AlreadyExists(f"{folder.location} contains a renamed table or view. Leave out LOCATION, or choose another one.")
        layout.check_format(folder, format_)
        return self._open_tables.open(folder, schema, name, format_)

    def location_of(self, schema: str, name: str) -> str:
        """Return the location of a managed table or a view. If it does not exist, return the folder of its name."""
        place = self._find(schema, name)
        return self._storage.child(path_of(schema, name) if place is None else place.home).location

    def is_managed(self, table: Relation, location: str) -> bool:
        """Return whether `location` is the one that the catalog chooses for a table of this name."""
        return self.location_of(table.schema, table.name) == location

    def register(self, schema: str, name: str, format_: str, location: str, *, is_new: bool = False) -> None:
        """Give a name to a table that was just created, or to an existing external table.

        An external table gets a pointer in the folder of its name. A table in this folder needs no pointer. But a concurrent statement may
        have renamed another relation to the name. Then a new table is dropped again. Registering the same table again has no effect.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            format_: `delta` or `iceberg`.
            location: The folder of the table.
            is_new: Whether the statement has just created the table.

        Raises:
            AlreadyExists: The name refers to another relation.
            ConfigurationError: The location is empty or has credentials.
            SchemaNotFound: The schema does not exist.
        """
        path, label = path_of(schema, name), quoted_name(schema, name)
        external = ExternalTable(normalize_location(location), format_)
        home = self._names.home_at(path, external.location)
        if home is not None and is_new:
            self._names.confirm(path, home, label, lambda: layout.drop_table(self._storage.child(home), label, format_))
        place = self._find(schema, name) if home is None else None
        if home is None and place is None:
            self._prepare_home(schema, name)
            self._names.register(path, external, label)
        elif place is not None and place.content != external:
            raise errors.already_exists(schema, name)

    def rename(self, relation: Relation, new_schema: str, new_name: str) -> None:
        """Give a table or a view another name. No file is moved. A killed rename leaves the old or the new name.

        Args:
            relation: The existing table or view.
            new_schema: The name of the new schema, which may be the old one.
            new_name: The new name.

        Raises:
            AlreadyExists: A relation has the new name.
            MetadataChanged: A concurrent statement renamed or dropped the relation.
            SchemaNotFound: The new schema does not exist.
            UnsupportedTableFeature: The metadata of the Iceberg table belongs to another catalog.
        """
        self._prepare_home(new_schema, new_name)
        if self.relation(new_schema, new_name) is not None:
            raise errors.already_exists(new_schema, new_name)
        place = self._find(relation.schema, relation.name)
        if place is None:
            raise errors.table_not_found(self, relation.schema, relation.name)
        check_metadata(place, relation, "rename")
        path, label = path_of(relation.schema, relation.name), quoted_name(relation.schema, relation.name)
        self._names.rename(place, path, path_of(new_schema, new_name), label)

    def set_location(self, relation: Relation, location: str) -> None:
        """Let the name of a Delta table refer to the table in another folder. The files of the old table stay where they are.

        Args:
            relation: The existing table.
            location: The folder of the other table, which the caller has verified.

        Raises:
            MetadataChanged: A concurrent statement renamed the table, or set its location.
            PlanError: The table is an Iceberg table, whose metadata files contain its location.
            TableNotFound: The table does not exist any longer.
        """
        schema, name = relation.schema, relation.name
        place, label = self._find(schema, name), quoted_name(schema, name)
        if place is None:
            raise errors.table_not_found(self, schema, name)
        if relation.format != "delta":
            raise PlanError(f"The location of the Iceberg table {label} cannot change: in a warehouse folder, its folder is its catalog.")
        external = ExternalTable(normalize_location(location), "delta")
        if self.open(schema, name).location != external.location:
            self._names.set_location(place, path_of(schema, name), external, label)

    def drop_table(self, schema: str, name: str) -> None:
        """Drop a managed table with its files, or only the name of an external table.

        Args:
            schema: The name of the schema.
            name: The name of the table.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a view.
            UnsupportedTableFeature: The metadata of the Iceberg table belongs to another catalog.
        """
        self._drop(errors.require_relation_to_drop(self, schema, name, "table"))

    def view(self, schema: str, name: str) -> View:
        """Return the newest definition of a view.

        Args:
            schema: The name of the schema.
            name: The name of the view.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a table, or the view has no SQL in Spark's dialect.
            CorruptLog: The metadata file of the view is invalid.
        """
        place = self._find(schema, name)
        if place is None:
            raise errors.table_not_found(self, schema, name)
        content = place.content
        if not isinstance(content, ViewFolder):
            raise errors.wrong_kind(schema, name, "table", "Name a view.")
        metadata_path = f"{self._storage.child(place.home).location}/{layout.metadata_file(content.version)}"
        return views.parse_view(Relation.of_view(schema, name), content.metadata, content.version, metadata_path)

    def put_view(self, view: View, *, or_replace: bool = False) -> View:
        """Create a view, or put its next version, and return the stored view. The last of several concurrent replacements wins.

        Args:
            view: The definition of the view. Its version and modification time are ignored.
            or_replace: Whether to replace an existing view by a new version.

        Raises:
            AlreadyExists: The name refers to a table, or to a view while `or_replace` is false.
            CommitStateUnknown: It is not known whether the version was written.
            SchemaNotFound: The schema does not exist.
        """
        schema, name = view.relation.schema, view.relation.name
        if place := self._find(schema, name):
            if not (or_replace and isinstance(place.content, ViewFolder)):
                raise errors.already_exists(schema, name)
            return views.put_view(self._storage.child(place.home), view, or_replace=True)
        home = self._prepare_home(schema, name)
        folder, label = self._storage.child(home), quoted_name(schema, name)
        new_view = views.put_view(folder, view, or_replace=or_replace)
        self._names.confirm(path_of(schema, name), home, label, lambda: views.drop_if_exists(folder, label))
        return new_view

    def drop_view(self, schema: str, name: str) -> None:
        """Drop a view.

        Args:
            schema: The name of the schema.
            name: The name of the view.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a table.
        """
        self._drop(errors.require_relation_to_drop(self, schema, name, "view"))

    def _find(self, schema: str, name: str, *, uses_cache: bool = True) -> Place | None:
        """Return the relation that has a name, or None if there is none. `uses_cache`: see `inspect_folder`."""
        if not (is_valid_name(schema) and is_valid_name(name)):
            return None
        return self._names.find(path_of(schema, name), self._known_iceberg_files if uses_cache else Cache(0))

    def _prepare_home(self, schema: str, name: str) -> str:
        """Return the path of the folder for a new relation, after finishing an interrupted drop there. Raises SchemaNotFound."""
        self.check_schema_exists(schema)
        path = path_of(schema, name)
        layout.finish_drops(self._storage.child(path), quoted_name(schema, name), try_delete_files)
        return self._names.home_of_new(path)

    def _drop(self, relation: Relation) -> None:
        """Drop a relation. Do nothing if another process has replaced it by a relation of another kind."""
        path, place = path_of(relation.schema, relation.name), self._find(relation.schema, relation.name, uses_cache=False)
        check_metadata(place, relation, "drop")
        if place is None:
            return
        folder = self._storage.child(place.home)
        match relation.kind, place.content:
            case "table", ExternalTable(location):
                self._open_tables.forget(self._storage.at(location).location, relation)
            case "table", TableFolder(format_):
                layout.drop_table(folder, str(relation), format_)
                self._open_tables.forget(folder.location, relation)
            case "view", ViewFolder():
                views.drop_view(folder, str(relation), place.content)
            case _:
                return
        self._names.release(path, place)
        for possibly_empty_folder in {path, place.home}:
            self._storage.child(possibly_empty_folder).remove_folders()
