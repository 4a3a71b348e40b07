"""A catalog in a folder, `<warehouse>/<schema>/<table or view>/`, on a disk or an object store, without a service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from rowmerge.catalog import errors, layout, views
from rowmerge.catalog.catalog import Relation, View
from rowmerge.catalog.functions import FunctionFiles
from rowmerge.catalog.layout import FOREIGN_TABLE, ExternalTable, FolderContent, Leftovers, TableFolder, ViewFolder, inspect_folder
from rowmerge.catalog.names import folder_of, is_valid_name, lower_case, name_of, normalize_location, quoted_name
from rowmerge.errors import AlreadyExists, SchemaNotFound, StorageError, TableError
from rowmerge.storage.cache import Cache
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Storage, local_path
from rowmerge.table.commits.commit import put_once
from rowmerge.table.metadata.schema import quote
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

    def __init__(self, storage: Storage) -> None:
        """Create the warehouse folder if it does not exist. Raises StorageError if it is not a folder, or is not writable."""
        normalize_location(storage.location)
        self._storage = storage
        self._cached_tables: dict[tuple[str, str, str], Table] = {}
        """The open tables by format, location and name."""
        self._known_iceberg_files: Cache[bool] = Cache(_MAX_ICEBERG_FILES)
        self.functions = FunctionFiles(storage, self.check_schema_exists)
        self.is_mismatch_fatal: Callable[[], bool] = lambda: True
        """Returns whether a mismatch between a Delta table's version and its checksum file is an error rather than a warning."""
        _check_warehouse(storage)

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
        return has_marker or any(True for _ in self._inspect_schema(name)) or bool(self.functions.names(name))

    def check_schema_exists(self, name: str) -> None:
        """Raise an error unless a schema exists.

        Raises:
            SchemaNotFound: The schema does not exist.
            TableError: The name is not valid for a schema.
        """
        if not self.schema_exists(name):
            folder_of(name)
            raise SchemaNotFound(lower_case(name), self.schemas())

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
            _check_is_empty(schema, relations, functions)
        # All checks come before the first drop, so that an error leaves the schema unchanged.
        for relation in relations:
            _check_can_drop(self._inspect(relation.schema, relation.name), relation)
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
        return [_relation(schema, name, content) for name, content in self._inspect_schema(schema)]

    def relation(self, schema: str, name: str) -> Relation | None:
        """Return the table or view with this name, or None if the folder of the name does not contain a relation.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """
        content = self._inspect(schema, name)
        return None if content is None else _relation(schema, name, content)

    def open(self, schema: str, name: str) -> Table:
        """Return an existing table. Repeated calls return the same object.

        Args:
            schema: The name of the schema.
            name: The name of the table.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a view.
            UnsupportedTableFeature: The metadata of the Iceberg table belongs to another catalog.
        """
        match self._inspect(schema, name):
            case TableFolder(format_, versioned=True):
                return self._table(self._folder(schema, name), schema, name, format_)
            case TableFolder(versioned=False):  # an Iceberg table of another catalog, which alone has the path of the newest metadata file
                raise errors.foreign_metadata(quoted_name(schema, name), "open")
            case ExternalTable(location, format_):
                return self._table(self._storage.at(location), schema, name, format_)
            case ViewFolder():
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
            AlreadyExists: The location contains a table of another format.
            ConfigurationError: The location is empty or has credentials.
            SchemaNotFound: The schema does not exist.
        """
        default_folder = self._finish_drop_in_folder(schema, name)
        if location is None:
            return self._table(default_folder, schema, name, format_)
        folder = self._storage.at(normalize_location(location))
        content = inspect_folder(folder)
        if isinstance(content, TableFolder) and content.format != format_:
            advice = f"Write USING {content.format}, or choose another location."
            raise AlreadyExists(f"{folder.location} contains a table in the format {content.format}. {advice}")
        return self._table(folder, schema, name, format_)

    def location_of(self, schema: str, name: str) -> str:
        """Return the location of a managed table or a view, whether or not it exists.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """
        return self._folder(schema, name).location

    def is_managed(self, table: Relation, location: str) -> bool:
        """Return whether `location` is the one that the catalog chooses for a table of this name."""
        return self._folder(table.schema, table.name).location == location

    def register(self, schema: str, name: str, format_: str, location: str) -> None:
        """Register an external table by putting a pointer in the folder of its name. A table in this folder needs no pointer.

        Registering the same table again has no effect.

        Args:
            schema: The name of the schema.
            name: The name of the table.
            format_: `delta` or `iceberg`.
            location: The folder of the table.

        Raises:
            AlreadyExists: The name refers to another relation.
            ConfigurationError: The location is empty or has credentials.
            SchemaNotFound: The schema does not exist.
        """
        folder = self._finish_drop_in_folder(schema, name)
        location = normalize_location(location)
        if location == folder.location:
            return
        if isinstance(inspect_folder(folder), TableFolder | ViewFolder):
            raise errors.already_exists(schema, name)
        label = f"the name {quoted_name(schema, name)} of the table at {location}"
        if not layout.put_pointer(folder, ExternalTable(location, format_), label):
            raise errors.already_exists(schema, name)

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
        relation = errors.require_relation_to_drop(self, schema, name, "table")
        self._drop(relation)

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
        content = self._inspect(schema, name)
        if content is None:
            raise errors.table_not_found(self, schema, name)
        if not isinstance(content, ViewFolder):
            raise errors.wrong_kind(schema, name, "table", "Name a view.")
        metadata_path = f"{self._folder(schema, name).location}/{layout.metadata_file(content.version)}"
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
        folder = self._finish_drop_in_folder(view.relation.schema, view.relation.name)
        return views.put_view(folder, view, or_replace=or_replace)

    def drop_view(self, schema: str, name: str) -> None:
        """Drop a view.

        Args:
            schema: The name of the schema.
            name: The name of the view.

        Raises:
            TableNotFound: The relation does not exist.
            TableError: The relation is a table.
        """
        relation = errors.require_relation_to_drop(self, schema, name, "view")
        self._drop(relation)

    def _folder(self, schema: str, name: str) -> Storage:
        """Return the folder of a relation in the warehouse."""
        return self._storage.child(f"{folder_of(schema)}/{folder_of(name)}")

    def _inspect(self, schema: str, name: str) -> FolderContent | None:
        """Return the relation in the folder of a name, or None if the folder contains no relation."""
        if not (is_valid_name(schema) and is_valid_name(name)):
            return None
        content = inspect_folder(self._folder(schema, name), self._known_iceberg_files)
        return None if isinstance(content, Leftovers) else content

    def _inspect_schema(self, schema: str) -> list[tuple[str, FolderContent]]:
        """Return the names of a schema's relations, and the content of their folders, sorted by name."""
        if not is_valid_name(schema):
            return []
        names = [name for folder in self._storage.folders(folder_of(schema)) if (name := name_of(folder)) is not None]
        return [(name, content) for name in sorted(names) if (content := self._inspect(schema, name)) is not None]

    def _table(self, folder: Storage, schema: str, name: str, format_: str) -> Table:
        """Return the table in a folder. Repeated calls return the same object."""
        table_name = f"{lower_case(schema)}.{lower_case(name)}"
        key = (format_, folder.location, table_name)
        if key not in self._cached_tables:
            # The session replaces the attribute later. With the lambda, the table uses the attribute's value of the moment.
            table = layout.open_table(folder, table_name, format_, is_mismatch_fatal=lambda: self.is_mismatch_fatal())
            # With `setdefault`, two threads that open the same table get the same object.
            self._cached_tables.setdefault(key, table)
        return self._cached_tables[key]

    def _finish_drop_in_folder(self, schema: str, name: str) -> Storage:
        """Return the folder for a new relation, after finishing an interrupted drop in it. Raises SchemaNotFound for an unknown schema."""
        self.check_schema_exists(schema)
        folder = self._folder(schema, name)
        layout.finish_drops(folder, quoted_name(schema, name), try_delete_files)
        return folder

    def _drop(self, relation: Relation) -> None:
        """Drop a relation. Do nothing if another process has replaced it by a relation of another kind."""
        folder = self._folder(relation.schema, relation.name)
        content = inspect_folder(folder)
        _check_can_drop(content, relation)
        match relation.kind, content:
            case "table", ExternalTable(location, format_):
                folder.delete([layout.POINTER])
                self._cached_tables.pop((format_, self._storage.at(location).location, str(relation)), None)
            case "table", TableFolder(format_):
                layout.drop_table(folder, str(relation), format_)
                self._cached_tables.pop((format_, folder.location, str(relation)), None)
            case "view", ViewFolder():
                views.drop_view(folder, str(relation), content)
        folder.remove_folders()  # those that are empty now


def _check_is_empty(schema: str, relations: Sequence[Relation], functions: Sequence[str]) -> None:
    """Raise TableError if a schema contains relations or functions."""
    names = [*(relation.name for relation in relations), *(f"{function}()" for function in functions)]
    if names:
        raise errors.schema_not_empty(schema, ", ".join(names[:5]) + (", …" if len(names) > 5 else ""))


def _check_can_drop(content: FolderContent | None, relation: Relation) -> None:
    """Raise UnsupportedTableFeature if the relation is an Iceberg table whose metadata belongs to another catalog."""
    if content == FOREIGN_TABLE:
        raise errors.foreign_metadata(quoted_name(relation.schema, relation.name), "drop")


def _check_warehouse(storage: Storage) -> None:
    """Raise StorageError unless the warehouse is a writable folder. To verify this, write and delete an empty file."""
    path = local_path(storage.location)
    if path is not None and path.exists() and not path.is_dir():
        raise StorageError(storage.location, "it is a file", "Set the warehouse to a folder.")
    probe_file = f".rowmerge-probe-{uuid4()}"
    try:
        storage.put(probe_file, b"")
    except StorageError as error:
        advice = "The warehouse must be a writable folder: check the path, its permissions and storage_options."
        raise StorageError(storage.location, error.reason, advice) from error
    try_delete_files(storage, [[f"{storage.location}/{probe_file}"]], PathOrigin.THIS_PROCESS)


def _relation(schema: str, name: str, content: FolderContent) -> Relation:
    """Return the relation that the content of a folder describes."""
    if isinstance(content, TableFolder | ExternalTable):
        return Relation.of_table(schema, name, content.format)
    return Relation.of_view(schema, name)
