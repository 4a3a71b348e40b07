"""A client for a pyiceberg catalog (SQL, REST, Hive, Glue, …). Its error messages contain no secrets."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import PY_IO_IMPL, FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import LongType, NestedField

from rowmerge.errors import CatalogFailed, ConfigurationError, RowmergeError, TableError, TableNotFound
from rowmerge.iceberg.catalogs.file_io import TableStorages, vended_properties
from rowmerge.iceberg.catalogs.metadata_files import MetadataFileIO
from rowmerge.iceberg.catalogs.metastore_views import MetastoreViews, ViewEntries, open_glue_views
from rowmerge.iceberg.catalogs.views import CatalogViews, NoViews, RestViews
from rowmerge.iceberg.metadata.parsing import NEWEST_FORMAT
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.redaction import hide, secrets_of, stop_debug_log
from rowmerge.storage.configuration import provider_of
from rowmerge.storage.store import Storage, absolute_location

_MISSING = (exceptions.NoSuchTableError, exceptions.NoSuchViewError, exceptions.NoSuchNamespaceError)


class CatalogClient:
    """A client for a catalog whose namespaces have one level.

    If the catalog fails, methods raise CatalogFailed with a message that contains no secrets.
    """

    def __init__(self, configuration: Mapping[str, Any], open_storage: Callable[[str], Storage] = Storage) -> None:
        """Open the catalog.

        Args:
            configuration: The settings of pyiceberg. `name` is the name of the catalog in the tables of a SQL catalog and in pyiceberg's
                configuration files.
            open_storage: A function that returns the storage of a location. It makes each metadata file that pyiceberg writes in this
                process durable, before the catalog refers to the file.

        Raises:
            CatalogFailed: The catalog cannot be reached.
            ConfigurationError: The configuration is invalid.
        """
        # Read the configuration.
        settings = {str(key): _text(value) for key, value in configuration.items()}
        self.name = settings.pop("name", "default")  # the default name of pyiceberg, too
        self.kind = str(configuration.get("type", configuration.get("py-catalog-impl", "configured")))
        self._secrets = secrets_of(configuration)
        # Open the catalog, and derive what it can do from its class.
        self.catalog = self._open(settings)
        self._rest = self.catalog if isinstance(self.catalog, RestCatalog) else None
        # The properties of the server apply to tables, not only to requests to the catalog. So pyiceberg adds them to those of tables.
        self.storages = TableStorages(self.name, settings, open_storage, self.load)
        self._settings = settings
        self.view_store = _view_store(self.catalog, self.storages.open)
        # The highest format version to write. pyiceberg itself writes up to 2. A REST server refuses a version that it cannot write.
        self.highest_format_version = 2 if self._rest is None else NEWEST_FORMAT
        # The server of a REST catalog writes the metadata files. For any other catalog, pyiceberg writes them in this process.
        self.writes_metadata_files = isinstance(self.catalog, MetastoreCatalog)
        if isinstance(self.catalog, MetastoreCatalog):
            self.catalog.properties.setdefault(PY_IO_IMPL, f"{MetadataFileIO.__module__}.{MetadataFileIO.__name__}")
            _sync_metadata(self.catalog, self.storages.open)
            _compress_metadata(self.catalog)

    def _open(self, settings: Mapping[str, Any]) -> Catalog:
        stop_debug_log("botocore")  # it logs the session token of each request that it signs
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings contain addresses and passwords
                return _with_checked_locks(load_catalog(self.name, **settings))
        except (ValueError, exceptions.NotInstalledError, ModuleNotFoundError) as error:
            advice = "Specify the settings that pyiceberg documents for this type of catalog, for example {type: rest, uri: https://…}."
            raise ConfigurationError(f"The catalog {self.name} cannot be opened: {self._message_of(error)}. {advice}") from None
        except Exception as error:  # noqa: BLE001 - clients of catalogs raise any class
            raise self.failure("opening it", error) from None

    @property
    def rest_properties(self) -> dict[str, str] | None:
        """The properties of a REST catalog: those of its server, and those of its configuration. None for any other catalog."""
        return None if self._rest is None else {name: value for name, value in self._rest.properties.items() if isinstance(value, str)}

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces with one level, as the catalog spells them."""
        with self._translating_errors("listing namespaces"):
            return sorted(namespace[0] for namespace in self.catalog.list_namespaces() if len(namespace) == 1)

    def create_namespace(self, namespace: str, properties: Mapping[str, str]) -> bool:
        """Create a namespace. Return False if it already exists.

        Args:
            namespace: The name of the namespace, as the catalog spells it.
            properties: The properties of the namespace, such as its location.
        """
        with self._translating_errors(f"creating the namespace {namespace}"), suppress(exceptions.NamespaceAlreadyExistsError):
            self.catalog.create_namespace((namespace,), dict(properties))
            return True
        return False

    def drop_namespace(self, namespace: str) -> bool:
        """Drop a namespace. Return False if it is not empty, True if it does not exist."""
        with self._translating_errors(f"dropping the namespace {namespace}"), suppress(exceptions.NamespaceNotEmptyError):
            if self.view_store.names(namespace):  # which pyiceberg's own catalogs do not see
                return False
            with suppress(exceptions.NoSuchNamespaceError):
                self.catalog.drop_namespace((namespace,))
            return True
        return False

    def tables(self, namespace: str) -> list[str]:
        """Return the names of the tables in a namespace, or an empty list if the namespace does not exist."""
        with self._translating_errors(f"listing the tables of {namespace}"), suppress(exceptions.NoSuchNamespaceError):
            return sorted(identifier[-1] for identifier in self.catalog.list_tables((namespace,)))
        return []

    def load(self, namespace: str, table: str) -> Table | None:
        """Load the newest metadata of a table. Return None if the table does not exist.

        Args:
            namespace: The namespace of the table, as the catalog spells it.
            table: The name of the table, as the catalog spells it.

        Raises:
            TableError: A table or view of another tool has the name.
        """
        with self._translating_errors(f"loading {namespace}.{table}"), suppress(*_MISSING):
            try:
                loaded = self.catalog.load_table((namespace, table))
            except exceptions.NoSuchPropertyException as error:
                problem = f"{namespace}.{table} is a table or view of another tool, not of Iceberg ({self._message_of(error)})"
                raise TableError(f"{problem}. Use another name.") from None
            if self._rest is not None:
                location = absolute_location(loaded.metadata.location)
                self.storages.update((namespace, table), location, vended_properties(loaded, self._settings))
            return loaded
        return None

    def location(self, namespace: str, table: str) -> str | None:
        """Return a table's location in rowmerge's spelling, or None if the table does not exist.

        Args:
            namespace: The namespace of the table, as the catalog spells it.
            table: The name of the table, as the catalog spells it.
        """
        loaded = self.load(namespace, table)
        return None if loaded is None else absolute_location(loaded.metadata.location)

    def default_location(self, namespace: str, table: str) -> str:
        """Return the location that the catalog would assign to a new table. The table is not created.

        Args:
            namespace: The namespace of the new table, as the catalog spells it.
            table: The name of the new table.
        """
        with self._translating_errors(f"requesting a location for {namespace}.{table}"):
            schema = Schema(NestedField(1, "a", LongType()))
            if self._rest is None:
                return absolute_location(self.catalog.create_table_transaction((namespace, table), schema).table_metadata.location)
            return self._stage(self._rest, (namespace, table), schema, None)

    def request_credentials(self, namespace: str, table: str, location: str) -> None:
        """Request credentials for the files of a new table at a location in an object store, if a server can vend them.

        Args:
            namespace: The namespace of the new table, as the catalog spells it.
            table: The name of the new table.
            location: The location of the new table.
        """
        if self._rest is not None and provider_of(location) is not None:
            with self._translating_errors(f"requesting credentials for {location}"), suppress(exceptions.TableAlreadyExistsError):
                self._stage(self._rest, (namespace, table), Schema(NestedField(1, "a", LongType())), location)

    def _stage(self, catalog: RestCatalog, identifier: tuple[str, str], schema: Schema, location: str | None) -> str:
        """Stage the creation of a table, which is never committed. Return the location, and use the credentials in the response."""
        # The public method drops the credentials in this response, because they are for a location, and it looks for a metadata file.
        try:
            response = catalog._create_table(identifier, schema, location, stage_create=True)
        except (exceptions.UnauthorizedError, exceptions.AuthorizationExpiredError):
            catalog._refresh_token()
            response = catalog._create_table(identifier, schema, location, stage_create=True)
        assigned = response.metadata.location
        credentials = catalog._resolve_storage_credentials(response.storage_credentials, assigned)
        properties = {**catalog.properties, **response.config, **credentials}
        served = {name: str(value) for name, value in properties.items() if self._settings.get(name) != value}
        self.storages.update(identifier, absolute_location(assigned), served)
        return absolute_location(assigned)

    def drop_table(self, namespace: str, table: str) -> bool:
        """Remove a table from the catalog, without its files. Return False if the table does not exist.

        Args:
            namespace: The namespace of the table, as the catalog spells it.
            table: The name of the table, as the catalog spells it.
        """
        with self._translating_errors(f"dropping {namespace}.{table}"), suppress(*_MISSING):
            self.catalog.drop_table((namespace, table))
            return True
        return False

    def rename_table(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a table another name. Return False if a table or view has the new name.

        Args:
            source: The namespace and the name of the table, as the catalog spells them.
            target: The new namespace and the new name.

        Raises:
            TableNotFound: Another process has dropped or renamed the table.
            CatalogFailed: The catalog refused the request, cannot rename tables, or cannot be reached.
        """
        name = ".".join(source)
        with self._translating_errors(f"renaming {name}"), suppress(exceptions.TableAlreadyExistsError):
            try:
                self.catalog.rename_table(source, target)
            except exceptions.NoSuchTableError:
                raise TableNotFound(name) from None
            return True
        return False

    def register_table(self, namespace: str, table: str, metadata_path: str) -> bool:
        """Add a table with existing metadata to the catalog. Return False if the name is in use.

        Args:
            namespace: The namespace of the table, as the catalog spells it.
            table: The name of the table.
            metadata_path: The path of the newest metadata file.
        """
        with self._translating_errors(f"registering {namespace}.{table}"), suppress(exceptions.TableAlreadyExistsError):
            self.catalog.register_table((namespace, table), metadata_path)
            return True
        return False

    def views(self, namespace: str) -> list[str]:
        """Return the names of the views in a namespace, or an empty list if the catalog does not support views."""
        with self._translating_errors(f"listing the views of {namespace}"):
            return sorted(self.view_store.names(namespace))

    def load_view(self, namespace: str, view: str) -> dict[str, Any] | None:
        """Load a view's metadata, as documented in `CatalogViews.load`.

        Args:
            namespace: The namespace of the view, as the catalog spells it.
            view: The name of the view, as the catalog spells it.
        """
        with self._translating_errors(f"loading the view {namespace}.{view}"):
            return self.view_store.load(namespace, view)

    def create_view(self, namespace: str, view: str, metadata: Mapping[str, Any]) -> bool:
        """Create a view. Return False if a table or view has the name.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            metadata: The metadata of the view in the JSON form of the Iceberg view spec. The view gets its current version.
        """
        with self._translating_errors(f"creating the view {namespace}.{view}"):
            return self.view_store.create(namespace, view, metadata)

    def replace_view(self, namespace: str, view: str, old_metadata: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool | None:
        """Replace a view, as documented in `CatalogViews.replace`.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            old_metadata: The current metadata of the view in the JSON form of the Iceberg view spec.
            metadata: The new metadata in the same form.
        """
        with self._translating_errors(f"replacing the view {namespace}.{view}"):
            return self.view_store.replace(namespace, view, old_metadata, metadata)

    def rename_view(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a view another name. Return False if a table or view has the new name.

        Args:
            source: The namespace and the name of the view, as the catalog spells them.
            target: The new namespace and the new name.

        Raises:
            TableNotFound: Another process has dropped or renamed the view.
            CatalogFailed: The catalog refused the request, cannot rename views, or cannot be reached.
        """
        name = ".".join(source)
        with self._translating_errors(f"renaming the view {name}"):
            try:
                return self.view_store.rename(source, target)
            except exceptions.NoSuchViewError:
                raise TableNotFound(name) from None

    def drop_view(self, namespace: str, view: str) -> None:
        """Drop a view if it exists.

        Args:
            namespace: The namespace of the view, as the catalog spells it.
            view: The name of the view, as the catalog spells it.
        """
        with self._translating_errors(f"dropping the view {namespace}.{view}"):
            self.view_store.drop(namespace, view)

    def failure(self, action: str, error: BaseException) -> CatalogFailed:
        """Return the error for a failed call, without secrets.

        The caller raises it `from None`, because pyiceberg's messages may contain secrets.

        Args:
            action: The failed action as a gerund, such as "listing namespaces".
            error: The error that pyiceberg raised.
        """
        return CatalogFailed(self.name, action, self._message_of(error))

    @contextmanager
    def _translating_errors(self, action: str) -> Iterator[None]:
        """Raise CatalogFailed, without secrets, instead of any error of pyiceberg. `action` is the failed action as a gerund."""
        try:
            yield
        except RowmergeError:
            raise
        except Exception as error:  # noqa: BLE001 - clients of catalogs raise any class
            raise self.failure(action, error) from None

    def _message_of(self, error: BaseException) -> str:
        """Return the message of an error on one line, without secrets."""
        if isinstance(error.__cause__, exceptions.WaitingForLockException):  # names the holder of the lock, unlike pyiceberg's own error
            error = error.__cause__
        text = hide(" ".join(str(error).split()) or type(error).__name__, self._secrets)
        return (text if len(text) <= 500 else f"{text[:500]}…").rstrip(". ")


def _view_store(catalog: Catalog, open_storage: Callable[[str], Storage]) -> CatalogViews:
    """Return the views of a catalog. `open_storage`: a function that returns the storage of a view's location."""
    if isinstance(catalog, RestCatalog):
        return RestViews(catalog)
    if (entries := _view_entries(catalog)) is not None:
        return MetastoreViews(entries, open_storage)
    if "sqlalchemy" in sys.modules:  # otherwise, the catalog is not a SQL catalog, and sqlalchemy may not be installed
        from rowmerge.iceberg.catalogs.sql_views import open_sql_views

        return open_sql_views(catalog, open_storage)
    return NoViews()


def _view_entries(catalog: Catalog) -> ViewEntries | None:
    """Return the entries of views in a Hive metastore or in Glue, whose clients are installed only where they are used."""
    if "hive_metastore" in sys.modules:
        from rowmerge.iceberg.catalogs.hive_views import open_hive_views

        if (entries := open_hive_views(catalog)) is not None:
            return entries
    return open_glue_views(catalog) if "boto3" in sys.modules else None


def _with_checked_locks(catalog: Catalog) -> Catalog:
    """Return the catalog of a Hive metastore with checked locks, and any other catalog unchanged."""
    if "hive_metastore" not in sys.modules:
        return catalog
    from rowmerge.iceberg.catalogs.hive.catalog import open_hive_catalog

    return open_hive_catalog(catalog)


def _sync_metadata(catalog: MetastoreCatalog, open_storage: Callable[[str], Storage]) -> None:
    """Make a catalog sync each metadata file that it writes in this process. Otherwise a power cut may lose its current metadata."""
    write = catalog._write_metadata

    def write_durably(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        write(metadata, io, metadata_path)
        location = absolute_location(metadata_path)
        open_storage(location).sync([location])

    catalog._write_metadata = write_durably  # type: ignore[method-assign]


def _compress_metadata(catalog: MetastoreCatalog) -> None:
    """Make a catalog compress the metadata files of tables that ask for it. pyiceberg itself ignores the property.

    pyiceberg compresses a file whose name contains the codec, such as `00001-<uuid>.gz.metadata.json`, as Iceberg's Java catalogs do.
    """
    stage = catalog._update_and_stage_table

    def stage_compressed(*arguments: Any, **named_arguments: Any) -> StagedTable:
        staged = stage(*arguments, **named_arguments)
        if IcebergSettings(staged.metadata.properties).compresses_metadata:
            staged.metadata_location = f"{staged.metadata_location.removesuffix('.metadata.json')}.gz.metadata.json"
        return staged

    catalog._update_and_stage_table = stage_compressed  # type: ignore[method-assign]


def _text(value: Any) -> Any:
    """Return a setting as pyiceberg expects it. Nested settings (`auth`) stay unchanged."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, Mapping) else str(value)
