"""The catalog that is a folder: `<warehouse>/<schema>/<table or view>/`, on a disk or an object store, without any service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from uuid import uuid4

from rowmerge.catalog.catalog import table_not_found
from rowmerge.catalog.functions import FunctionFiles
from rowmerge.catalog.layout import (
    POINTER,
    DeltaFolder,
    ExternalTable,
    Found,
    IcebergFolder,
    Leftovers,
    ViewFolder,
    look,
    plain_location,
    pointer_to,
    read_pointer,
)
from rowmerge.catalog.names import fold, folder_of, has_folder, name_of
from rowmerge.catalog.relation import Relation, View
from rowmerge.catalog.removal import LOG, METADATA, drop_table, finish_drops
from rowmerge.catalog.view_dropping import drop_view
from rowmerge.catalog.views import KEPT_VERSIONS, ViewText, file_of, forget_versions, version_after, view_of
from rowmerge.delta import DeltaTable
from rowmerge.errors import (
    AlreadyExists,
    CommitStateUnknown,
    SchemaNotFound,
    StorageError,
    TableError,
    UnsupportedTableFeature,
)
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.cache import Cache
from rowmerge.storage.deletion import Origin, clean_up
from rowmerge.storage.store import Storage, local_path
from rowmerge.table.commits.commit import put_once
from rowmerge.table.metadata.schema import Struct, quote
from rowmerge.table.table import Table

DEFAULT_SCHEMA = "default"
"""The schema that exists in every warehouse."""

_MARKER = ".schema.json"
_REMEMBERED = 10_000
"""Tables whose metadata file is known to be no view's."""
_RACES = 20


class DirectoryCatalog:
    """Schemas, tables, views and functions below one warehouse folder.

    Names are not case-sensitive and kept in lower case. A table's format is seen in its folder. Every method raises StorageError
    when storage fails, and TableError for a name that cannot have a folder where something is to be made.
    """

    def __init__(self, storage: Storage) -> None:
        """Make the warehouse folder when it is not there. Raises StorageError when it is no folder, or cannot be written."""
        plain_location(storage.location)
        self._storage = storage
        self._tables: dict[tuple[str, str, str], Table] = {}
        self._metadata_of_tables: Cache[bool] = Cache(_REMEMBERED)
        self.functions = FunctionFiles(storage, self.check_schema_exists)
        self.is_mismatch_fatal: Callable[[], bool] = lambda: True
        """As `DeltaTable` says."""
        _check_warehouse(storage)

    # -------------------------------------------------------------- schemas

    def schemas(self) -> list[str]:
        """The names of all schemas, sorted; `default` is always one of them."""
        names = {name for folder in self._storage.folders() if (name := name_of(folder)) is not None and self.schema_exists(name)}
        return sorted(names | {DEFAULT_SCHEMA})

    def schema_exists(self, name: str) -> bool:
        """Whether the schema was created, or holds a relation or a function."""
        if fold(name) == DEFAULT_SCHEMA:
            return True
        if not has_folder(name):
            return False
        marked = self._storage.exists(f"{folder_of(name)}/{_MARKER}")
        return marked or any(True for _ in self._look_all(name)) or bool(self.functions.names(name))

    def check_schema_exists(self, name: str) -> None:
        """Raise SchemaNotFound if a schema does not exist, TableError if no schema can have the name."""
        if not self.schema_exists(name):
            folder_of(name)
            raise SchemaNotFound(fold(name), self.schemas())

    def create_schema(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make an empty schema. Raises AlreadyExists without `if_not_exists`."""
        existed = self.schema_exists(name)
        marker = {"name": fold(name), "comment": comment, "properties": dict(properties or {}), "created": _now(), "writer": str(uuid4())}
        path = f"{folder_of(name)}/{_MARKER}"
        if existed and not if_not_exists:
            raise AlreadyExists(f"The schema {quote(fold(name))} exists already. Choose another name, or add IF NOT EXISTS.")
        # A schema that is there only because of its tables gets its marker too: it then outlives them.
        created = put_once(self._storage, path, json.dumps(marker, ensure_ascii=False).encode(), f"the schema {quote(fold(name))}")
        if not created and not if_not_exists:
            raise AlreadyExists(f"The schema {quote(fold(name))} was made by somebody else just now. Add IF NOT EXISTS to accept that.")

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Remove a schema, with `cascade` all that is in it: its relations first, its marker last.

        Raises SchemaNotFound without `if_exists`, TableError when it is not empty and `cascade` is not given, and for `default`.
        """
        schema = fold(name)
        if schema == DEFAULT_SCHEMA:
            raise TableError("The schema default cannot be dropped: every warehouse has it. Drop its tables and views one by one.")
        if not self.schema_exists(schema):
            if if_exists:
                return
            raise SchemaNotFound(schema, self.schemas())
        relations, functions = self.relations(schema), self.functions.names(schema)
        held = [*(r.name for r in relations), *(f"{name}()" for name in functions)]
        if held and not cascade:
            listed = ", ".join(held[:5]) + (", …" if len(held) > 5 else "")
            raise TableError(f"The schema {quote(schema)} is not empty: it holds {listed}. Drop these first, or add CASCADE.")
        for relation in relations:
            _check_is_versioned(self._look(relation.schema, relation.name), relation, "drop")
        for relation in relations:
            self._drop(relation)
        for function in functions:
            self.functions.drop(schema, function)
        for folder_name in self._storage.folders(folder_of(schema)):
            finish_drops(self._storage.child(f"{folder_of(schema)}/{folder_name}"), f"{schema}.{folder_name}")
        self._storage.delete([f"{folder_of(schema)}/{_MARKER}"])
        self._storage.child(folder_of(schema)).remove_folders()

    # -------------------------------------------------------------- relations

    def relations(self, schema: str) -> list[Relation]:
        """The tables and views of a schema, sorted by name; none when there is no such schema."""
        return [_relation(schema, name, found) for name, found in self._look_all(schema)]

    def relation(self, schema: str, name: str) -> Relation | None:
        """The table or view of this name, or None."""
        found = self._look(schema, name)
        return None if found is None else _relation(schema, name, found)

    def open(self, schema: str, name: str) -> Table:
        """A table that exists. The same object each time, so that its snapshots are used again.

        Raises TableNotFound, TableError for a view.
        """
        match self._look(schema, name):
            case DeltaFolder():
                return self._table(self._folder(schema, name), schema, name, "delta")
            case IcebergFolder(versioned):
                if not versioned:
                    raise _of_another_catalog(schema, name, "open")
                return self._table(self._folder(schema, name), schema, name, "iceberg")
            case ExternalTable(location, format_):
                return self._table(self._storage.at(location), schema, name, format_)
            case ViewFolder():
                raise TableError(f"{_shown(schema, name)} is a view, not a table. Name a table, or read the view in a query.")
        raise table_not_found(self, schema, name)

    def table_at(self, schema: str, name: str, format_: str, location: str | None = None) -> Table:
        """The table of a format (`delta`, `iceberg`) that CREATE TABLE is about to make, with LOCATION elsewhere (then `register` it).

        A deletion that was begun in its folder is finished first. Raises SchemaNotFound, ConfigurationError for a location that
        carries credentials, AlreadyExists for one that holds a table of another format.
        """
        folder = self._prepare(schema, name)
        if location is not None:
            folder = self._storage.at(plain_location(location))
            there = {DeltaFolder: "delta", IcebergFolder: "iceberg"}.get(type(look(folder)), format_)
            if there != format_:
                raise AlreadyExists(
                    f"{folder.location} holds a table of the format {there}. Write USING {there}, or choose another location."
                )
        return self._table(folder, schema, name, format_)

    def location_of(self, schema: str, name: str) -> str:
        """Where a managed table or a view of this name lies, or would."""
        return self._folder(schema, name).location

    def register(self, schema: str, name: str, format_: str, location: str) -> None:
        """Make the table at a location known under a name. Does nothing when it is the folder that the name has anyway.

        Raises AlreadyExists when the name stands for something else, SchemaNotFound, ConfigurationError.
        """
        folder = self._prepare(schema, name)
        location = plain_location(location)
        if location == folder.location:
            return
        if isinstance(look(folder), DeltaFolder | IcebergFolder | ViewFolder):
            raise _exists(schema, name)
        table = ExternalTable(location, format_)
        created = put_once(folder, POINTER, pointer_to(table), f"the name {_shown(schema, name)} of the table at {location}")
        if not created and read_pointer(folder) != table:
            raise _exists(schema, name)

    def drop_table(self, schema: str, name: str) -> None:
        """Delete a managed table, files and all; of an external one only the name. Raises TableNotFound, TableError for a view."""
        relation = self.relation(schema, name)
        if relation is None:
            raise table_not_found(self, schema, name)
        if relation.kind != "table":
            raise TableError(f"{_shown(schema, name)} is a view, not a table. Drop it with DROP VIEW.")
        self._drop(relation)

    # -------------------------------------------------------------- views

    def view(self, schema: str, name: str) -> View:
        """A view's newest definition. Raises TableNotFound, TableError for a table, CorruptLog."""
        found = self._look(schema, name)
        if found is None:
            raise table_not_found(self, schema, name)
        if not isinstance(found, ViewFolder):
            raise TableError(f"{_shown(schema, name)} is a table, not a view. Name a view.")
        path = f"{self._folder(schema, name).location}/{file_of(found.version)}"
        return view_of(_relation(schema, name, found), found.content, found.version, path)

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
        """Create a view, or make its next version. Of two that replace it at once, the later one stands.

        Raises AlreadyExists for a table of this name, and without `or_replace` for a view; SchemaNotFound.
        """
        folder = self._prepare(schema, name)
        text = ViewText(sql, default_schema, columns, comment, properties or {})
        for _ in range(_RACES):
            found = look(folder)
            if found is not None and not (or_replace and isinstance(found, ViewFolder)):
                raise _exists(schema, name)
            before = (found.version, found.content) if isinstance(found, ViewFolder) else None
            version, content = version_after(folder, before, text, _now())
            data = json.dumps(content, ensure_ascii=False, indent=2).encode()
            if put_once(folder, file_of(version), data, f"the view {_shown(schema, name)}"):
                if _is_hidden(folder, _shown(schema, name)):
                    clean_up(folder, [[f"{folder.location}/{file_of(version)}"]], Origin.WRITTEN)
                    continue
                forget_versions(folder, version - KEPT_VERSIONS)
                return view_of(Relation(fold(schema), fold(name), "view", None), content, version, f"{folder.location}/{file_of(version)}")
            if not or_replace:
                raise _exists(schema, name)
        raise AlreadyExists(f"Others replaced the view {_shown(schema, name)} {_RACES} times meanwhile. Run the statement again.")

    def drop_view(self, schema: str, name: str) -> None:
        """Delete a view. Raises TableNotFound, TableError for a table."""
        relation = self.relation(schema, name)
        if relation is None:
            raise table_not_found(self, schema, name)
        if relation.kind != "view":
            raise TableError(f"{_shown(schema, name)} is a table, not a view. Drop it with DROP TABLE.")
        self._drop(relation)

    # -------------------------------------------------------------- inside

    def _folder(self, schema: str, name: str) -> Storage:
        return self._storage.child(f"{folder_of(schema)}/{folder_of(name)}")

    def _look(self, schema: str, name: str) -> Found | None:
        """What stands behind a name; leftovers of a deletion are nothing."""
        if not (has_folder(schema) and has_folder(name)):
            return None
        found = look(self._folder(schema, name), self._metadata_of_tables)
        return None if isinstance(found, Leftovers) else found

    def _look_all(self, schema: str) -> list[tuple[str, Found]]:
        if not has_folder(schema):
            return []
        names = [name for folder in self._storage.folders(folder_of(schema)) if (name := name_of(folder)) is not None]
        return [(name, found) for name in sorted(names) if (found := self._look(schema, name)) is not None]

    def _table(self, storage: Storage, schema: str, name: str, format_: str) -> Table:
        shown = f"{fold(schema)}.{fold(name)}"
        key = (format_, storage.location, shown)
        if key not in self._tables:
            delta = partial(DeltaTable, is_mismatch_fatal=lambda: self.is_mismatch_fatal())
            made: Table = delta(storage, shown) if format_ == "delta" else IcebergTable(DirectoryOperations(storage, shown), shown)
            self._tables.setdefault(key, made)
        return self._tables[key]

    def _prepare(self, schema: str, name: str) -> Storage:
        """The folder of something that is to be made."""
        self.check_schema_exists(schema)
        folder = self._folder(schema, name)
        finish_drops(folder, _shown(schema, name), clean_up)
        return folder

    def _drop(self, relation: Relation) -> None:
        folder = self._folder(relation.schema, relation.name)
        found = look(folder)
        _check_is_versioned(found, relation, "drop")
        match found:
            case ExternalTable(location, format_) if relation.kind == "table":
                folder.delete([POINTER])
                self._tables.pop((format_, self._storage.at(location).location, str(relation)), None)
            case ViewFolder() if relation.kind == "view":
                drop_view(folder, str(relation), found)
            case DeltaFolder() if relation.kind == "table":
                drop_table(folder, str(relation), LOG)
                self._tables.pop(("delta", folder.location, str(relation)), None)
            case IcebergFolder() if relation.kind == "table":
                drop_table(folder, str(relation), METADATA)
                self._tables.pop(("iceberg", folder.location, str(relation)), None)
        folder.remove_folders()


def _check_is_versioned(found: Found | None, relation: Relation, action: str) -> None:
    """Raise UnsupportedTableFeature for an Iceberg table whose metadata another catalog keeps."""
    if found == IcebergFolder(versioned=False):
        raise _of_another_catalog(relation.schema, relation.name, action)


def _of_another_catalog(schema: str, name: str, action: str) -> UnsupportedTableFeature:
    advice = "Its metadata files are not numbered, so another catalog knows which is the newest: connect to that catalog."
    return UnsupportedTableFeature(_shown(schema, name), "iceberg of another catalog", action=action, advice=advice)


def _check_warehouse(storage: Storage) -> None:
    path = local_path(storage.location)
    if path is not None and path.exists() and not path.is_dir():
        raise StorageError(storage.location, "it is a file", "Give a folder for the warehouse.")
    probe = f".rowmerge-probe-{uuid4()}"
    try:
        storage.put(probe, b"")
        clean_up(storage, [[f"{storage.location}/{probe}"]], Origin.WRITTEN)
    except StorageError as error:
        advice = "The warehouse must be a folder that can be made and written: check the path, its permissions and storage_options."
        raise StorageError(storage.location, error.reason, advice) from error


def _relation(schema: str, name: str, found: Found) -> Relation:
    match found:
        case ViewFolder():
            return Relation(fold(schema), fold(name), "view", None)
        case IcebergFolder():
            return Relation(fold(schema), fold(name), "table", "iceberg")
        case ExternalTable(_, format_):
            return Relation(fold(schema), fold(name), "table", format_)
        case _:
            return Relation(fold(schema), fold(name), "table", "delta")


def _is_hidden(folder: Storage, view: str) -> bool:
    """Whether a view that was put is not what the catalog opens, because others created or dropped a table. Raises CommitStateUnknown."""
    try:
        return not isinstance(look(folder), ViewFolder)
    except StorageError as failure:
        raise CommitStateUnknown(f"It is not known whether {view} was created: {failure.message} Look whether it exists.") from failure


def _shown(schema: str, name: str) -> str:
    return f"{quote(fold(schema))}.{quote(fold(name))}"


def _exists(schema: str, name: str) -> AlreadyExists:
    return AlreadyExists(f"{_shown(schema, name)} exists already. Drop it first, or choose another name.")


def _now() -> int:
    return time.time_ns() // 1_000_000
