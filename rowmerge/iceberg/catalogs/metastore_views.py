"""The views of catalogs whose clients write the metadata files (SQL, Hive, Glue), and the entries of views in Glue.

Hive and Glue have tables of the type VIRTUAL_VIEW, as Iceberg's HiveCatalog for Java stores views. The parameter `table_type` of such a
table is ICEBERG-VIEW, and `metadata_location` is the path of a metadata file of the Iceberg View Spec. Views without
this parameter belong to other tools. They are neither listed nor changed. pyiceberg 0.12 ignores both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchViewError
from pyiceberg.schema import SchemaVisitor, visit
from pyiceberg.types import NestedField
from pyiceberg.utils.properties import property_as_bool

from rowmerge.iceberg.catalogs.view_files import ViewFiles, location_of_file, number_of_file
from rowmerge.iceberg.catalogs.views import current_version
from rowmerge.storage.store import Storage

if TYPE_CHECKING:
    from pyiceberg.catalog.glue import GlueCatalog

VIRTUAL_VIEW, ICEBERG_VIEW = "VIRTUAL_VIEW", "ICEBERG-VIEW"
_TABLE_TYPE, _METADATA, _PREVIOUS_METADATA = "table_type", "metadata_location", "previous_metadata_location"
_OWNER = "hive.metastore.table.owner"
"""The property of a view that Iceberg stores as the owner of the metastore's table, not as a parameter."""
_MAX_PARAMETER = 4000
"""The maximum length of a parameter, as some databases of metastores limit it. A longer property is in the metadata file only."""


@dataclass(frozen=True)
class ViewDefinition:
    """The values that a catalog stores for one version of a view.

    Attributes:
        metadata: The metadata of the view in the JSON form of the Iceberg View Spec.
        path: The path of the file with this metadata.
        previous_path: The path of the file with the replaced metadata, or None for a new view.
        removed_properties: The names of the properties that only the replaced metadata have.
    """

    metadata: Mapping[str, Any]
    path: str
    previous_path: str | None = None
    removed_properties: frozenset[str] = frozenset()

    @property
    def sql(self) -> str:
        """The text of the view, in the dialect of Hive if it has one."""
        version, _ = current_version(self.metadata)
        texts = {each["dialect"].lower(): str(each["sql"]) for each in version["representations"] if each["type"] == "sql"}
        return texts.get("hive", next(iter(texts.values()), ""))

    @property
    def location(self) -> str:
        """The location of the view's files."""
        return str(self.metadata["location"])

    def parameters(self, old_parameters: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the parameters of a metastore's table. `old_parameters`: those of the replaced view."""
        parameters = {name: value for name, value in (old_parameters or {}).items() if name not in self.removed_properties}
        properties = {name: str(value) for name, value in self.metadata["properties"].items() if name != _OWNER}
        short_properties = {name: value for name, value in properties.items() if len(value) <= _MAX_PARAMETER}
        for name in properties.keys() - short_properties.keys():
            parameters.pop(name, None)
        view_parameters = {"uuid": str(self.metadata["view-uuid"]), _TABLE_TYPE: ICEBERG_VIEW, _METADATA: self.path}
        if self.previous_path is not None:
            view_parameters[_PREVIOUS_METADATA] = self.previous_path
        return {**parameters, **short_properties, **view_parameters}

    def columns(self, types: SchemaVisitor[str]) -> Iterator[tuple[str, str, str | None]]:
        """Yield the name, the type and the comment of each column, for readers of the metastore. `types`: returns the name of a type."""
        _, schema = current_version(self.metadata)
        for field in schema["fields"]:
            try:
                type_ = visit(NestedField.model_validate(field).field_type, types)
            except (KeyError, ValueError):  # the metastore has no such type, for example variant
                type_ = "string"
            yield field["name"], type_, field.get("doc")


class ViewEntries(Protocol):
    """The entries of a catalog that represent views of Iceberg. Methods raise errors of the catalog's client.

    `view` is the namespace and the name of a view.
    """

    def names(self, namespace: str) -> list[str]:
        """Return the names of the views in a namespace, or an empty list if the namespace does not exist."""

    def path(self, view: tuple[str, str]) -> str | None:
        """Return the path of a view's metadata file, or None if there is no such view of Iceberg."""

    def create(self, view: tuple[str, str], definition: ViewDefinition) -> bool:
        """Create a view. Return False if a table or view has the name."""

    def replace(self, view: tuple[str, str], definition: ViewDefinition) -> bool:
        """Replace a view. Return False if its metadata file is not `definition.previous_path`."""

    def rename(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a view another name. Return False if a table or view has the new name.

        Args:
            source: The namespace and the name of the view.
            target: The new namespace and the new name.

        Raises:
            NoSuchViewError: The view does not exist.
        """

    def drop(self, view: tuple[str, str], path: str) -> bool:
        """Drop a view. Return False if its metadata file is not the one at `path`."""


class MetastoreViews:
    """The views of a SQL catalog, of Hive or of Glue. `rowmerge.iceberg.catalogs.views.CatalogViews` documents the methods."""

    have_files = True
    rejection = None

    def __init__(self, entries: ViewEntries, open_storage: Callable[[str], Storage]) -> None:
        """Initialize the views of a catalog.

        Args:
            entries: The entries of the catalog that represent views.
            open_storage: A function that returns the storage of a view's location.
        """
        self._entries, self._files = entries, ViewFiles(open_storage)

    def names(self, namespace: str) -> list[str]:
        return self._entries.names(namespace)

    def load(self, namespace: str, view: str) -> dict[str, Any] | None:
        newest = self._files.read_newest(partial(self._entries.path, (namespace, view)))
        return None if newest is None else newest[1]

    def create(self, namespace: str, view: str, metadata: Mapping[str, Any]) -> bool:
        """Create a view, as documented in `CatalogViews.create`.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            metadata: The metadata of the view.
        """
        return self._put(self._entries.create, (namespace, view), ViewDefinition(metadata, self._files.write(metadata, 0)))

    def replace(self, namespace: str, view: str, old_metadata: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool | None:
        """Replace a view, as documented in `CatalogViews.replace`.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            old_metadata: The metadata of the view to replace.
            metadata: The new metadata.
        """
        newest = self._files.read_newest(partial(self._entries.path, (namespace, view)))
        if newest is None or newest[1] != old_metadata:
            return False
        old_path, _ = newest
        path = self._files.write(metadata, number_of_file(old_path) + 1)
        removed_properties = frozenset(old_metadata.get("properties", {})) - frozenset(metadata["properties"])
        definition = ViewDefinition(metadata, path, old_path, removed_properties)
        was_replaced = self._put(self._entries.replace, (namespace, view), definition)
        if was_replaced:
            self._files.delete_files(definition.location, older_than=number_of_file(path) - len(metadata["versions"]))
        return was_replaced

    def rename(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a view another name. Return False if a table or view has it.

        Args:
            source: The namespace and the name of the view.
            target: The new namespace and the new name.

        Raises:
            NoSuchViewError: The view does not exist.
        """
        return self._entries.rename(source, target)

    def drop(self, namespace: str, view: str) -> None:
        # The path is compared, because the name may have been given to another view since the path was read.
        while (path := self._entries.path((namespace, view))) is not None:
            if self._entries.drop((namespace, view), path):
                self._files.delete_files(location_of_file(path))
                return

    def _put(self, put: Callable[[tuple[str, str], ViewDefinition], bool], view: tuple[str, str], definition: ViewDefinition) -> bool:
        """Let the catalog refer to a new metadata file. Return False, and delete the file, if another process was first.

        Without knowledge whether the catalog refers to the file, raise an error, and keep the file.
        """
        try:
            was_put = put(view, definition)
        except Exception:
            # The connection may be lost after the catalog has changed the view. Without an answer, the error of the request is raised.
            with suppress(Exception):
                if self._entries.path(view) == definition.path:
                    return True
            raise
        # The client (botocore) or the server may repeat a request after its success, and the repeated request is refused.
        if was_put or self._entries.path(view) == definition.path:
            return True
        self._files.discard(definition.path)
        return False


def metadata_path(table_type: str | None, parameters: Mapping[str, str] | None) -> str | None:
    """Return the path of a view's metadata file, or None if a table of a metastore does not represent a view of Iceberg.

    Args:
        table_type: The type of the metastore's table.
        parameters: The parameters of the metastore's table.
    """
    values = parameters or {}
    is_view = (table_type or "").upper() == VIRTUAL_VIEW and values.get(_TABLE_TYPE, "").upper() == ICEBERG_VIEW
    return values.get(_METADATA) if is_view else None


class GlueViews:
    """Read and change the views of a Glue catalog. `ViewEntries` documents the methods.

    Glue compares the version of a table when it updates the table. It cannot compare the version of a table that it deletes. So a view that
    another process replaces at the same time is dropped as well.
    """

    def __init__(self, catalog: GlueCatalog) -> None:
        """Initialize the views of a catalog."""
        from pyiceberg.catalog.glue import GLUE_SKIP_ARCHIVE, GLUE_SKIP_ARCHIVE_DEFAULT, _IcebergSchemaToGlueType

        self._glue, self._types = catalog.glue, _IcebergSchemaToGlueType()
        self._skips_archive = property_as_bool(catalog.properties, GLUE_SKIP_ARCHIVE, GLUE_SKIP_ARCHIVE_DEFAULT)

    def names(self, namespace: str) -> list[str]:
        with suppress(self._glue.exceptions.EntityNotFoundException):
            pages = self._glue.get_paginator("get_tables").paginate(DatabaseName=namespace)
            return [table["Name"] for page in pages for table in page["TableList"] if _glue_path(table) is not None]
        return []

    def path(self, view: tuple[str, str]) -> str | None:
        table = self._table(view)
        return None if table is None else _glue_path(table)

    def create(self, view: tuple[str, str], definition: ViewDefinition) -> bool:
        namespace, name = view
        with suppress(self._glue.exceptions.AlreadyExistsException):
            self._glue.create_table(DatabaseName=namespace, TableInput=self._input(name, definition))
            return True
        return False

    def replace(self, view: tuple[str, str], definition: ViewDefinition) -> bool:
        namespace, name = view
        table = self._table(view)
        if table is None or _glue_path(table) != definition.previous_path:
            return False
        conflict_errors = (self._glue.exceptions.ConcurrentModificationException, self._glue.exceptions.EntityNotFoundException)
        with suppress(*conflict_errors):
            table_input = self._input(name, definition, table)
            version = {"VersionId": table["VersionId"], "SkipArchive": self._skips_archive}
            self._glue.update_table(DatabaseName=namespace, TableInput=table_input, **version)
            return True
        return False

    def rename(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Create the view with its new name, and delete the old one. Return False if a table or view has the new name.

        Args:
            source: The namespace and the name of the view.
            target: The new namespace and the new name.

        Raises:
            NoSuchViewError: The view does not exist.
        """
        table = self._table(source)
        path = None if table is None else _glue_path(table)
        if table is None or path is None:
            raise NoSuchViewError(".".join(source))
        keys = ("Owner", "Description", "Parameters", "StorageDescriptor", "TableType", "ViewOriginalText", "ViewExpandedText")
        table_input = {"Name": target[1], **{key: table[key] for key in keys if key in table}}
        try:
            self._glue.create_table(DatabaseName=target[0], TableInput=table_input)
        except self._glue.exceptions.AlreadyExistsException as error:
            if not _was_repeated(error) or self.path(target) != path:
                return False
        try:
            self._glue.delete_table(DatabaseName=source[0], Name=source[1])
        except Exception as error:
            if self._is_deleted(source, error):
                return True
            # Otherwise, two names have the same files, and dropping one of them would delete the files of the other.
            self._glue.delete_table(DatabaseName=target[0], Name=target[1])
            if isinstance(error, self._glue.exceptions.EntityNotFoundException):  # another process has dropped or renamed the view
                raise NoSuchViewError(".".join(source)) from None
            raise
        return True

    def drop(self, view: tuple[str, str], path: str) -> bool:
        namespace, name = view
        if self.path(view) == path:
            with suppress(self._glue.exceptions.EntityNotFoundException):
                self._glue.delete_table(DatabaseName=namespace, Name=name)
                return True
        return False

    def _table(self, view: tuple[str, str]) -> dict[str, Any] | None:
        """Return Glue's table of this name, whatever it represents, or None."""
        namespace, name = view
        with suppress(self._glue.exceptions.EntityNotFoundException):
            table: dict[str, Any] = self._glue.get_table(DatabaseName=namespace, Name=name)["Table"]
            return table
        return None

    def _is_deleted(self, view: tuple[str, str], error: Exception) -> bool:
        """Return whether a deletion that ended with an error has deleted a view."""
        if isinstance(error, self._glue.exceptions.EntityNotFoundException):
            return _was_repeated(error)
        return self._table(view) is None

    def _input(self, view: str, definition: ViewDefinition, old: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the argument `TableInput` of Glue's API for a view. `old`: the table of the view to replace, as Glue returns it."""
        columns = [
            {"Name": name, "Type": type_, **({} if comment is None else {"Comment": comment})}
            for name, type_, comment in definition.columns(self._types)
        ]
        old_values = {key: old[key] for key in ("Owner", "Description") if key in old} if old else {}
        return {
            **old_values,
            "Name": view,
            "TableType": VIRTUAL_VIEW,
            "Parameters": definition.parameters(old.get("Parameters") if old else None),
            "StorageDescriptor": {"Columns": columns, "Location": definition.location},
            "ViewOriginalText": definition.sql,
            "ViewExpandedText": definition.sql,
        }


def _glue_path(table: Mapping[str, Any]) -> str | None:
    return metadata_path(table.get("TableType"), table.get("Parameters"))


def _was_repeated(error: Any) -> bool:
    """Return whether botocore has sent a request again, so that the first request may have succeeded without an answer."""
    return bool(error.response["ResponseMetadata"]["RetryAttempts"])


def open_glue_views(catalog: Catalog) -> GlueViews | None:
    """Return the views of a Glue catalog, or None for a catalog of another type. boto3 must be installed."""
    from pyiceberg.catalog.glue import GlueCatalog

    return GlueViews(catalog) if isinstance(catalog, GlueCatalog) else None
