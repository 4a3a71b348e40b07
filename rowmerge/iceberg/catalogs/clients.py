"""A client for a pyiceberg catalog (SQL, REST, Hive, Glue, …). Its error messages contain no secrets."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.catalog.rest import Endpoints, RestCatalog
from pyiceberg.io import PY_IO_IMPL, FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import LongType, NestedField
from pyiceberg.view.metadata import ViewVersion
from requests import Response

from rowmerge.errors import CatalogFailed, ConfigurationError, RowmergeError, TableNotFound
from rowmerge.iceberg.catalogs.file_io import MetadataFileIO
from rowmerge.iceberg.catalogs.view_requests import current_version, replacement_request
from rowmerge.iceberg.metadata.parsing import NEWEST_FORMAT
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.redaction import hide
from rowmerge.storage.store import absolute_location

_SECRET = re.compile(r"secret|password|passwd|token|credential|access.?key|session|signer|authorization|sas", re.IGNORECASE)
_MISSING = (exceptions.NoSuchTableError, exceptions.NoSuchViewError, exceptions.NoSuchNamespaceError)
_STATUSES_WITHOUT_REPLACEMENT = (404, 405, 406, 501)
"""The HTTP status codes if a REST server has no such view (404), or does not support the replacement of views."""


class CatalogClient:
    """A client for a catalog whose namespaces have one level.

    If the catalog fails, methods raise CatalogFailed with a message that contains no secrets.
    """

    def __init__(self, configuration: Mapping[str, Any], sync: Callable[[str], None] = lambda path: None) -> None:
        """Open the catalog.

        Args:
            configuration: The settings of pyiceberg. `name` is the name of the catalog in the tables of a SQL catalog and in pyiceberg's
                configuration files.
            sync: The function that makes the file at a path durable. The client calls it for each metadata file that pyiceberg writes in
                this process, before the catalog refers to the file.

        Raises:
            CatalogFailed: The catalog cannot be reached.
            ConfigurationError: The configuration is invalid.
        """
        # Read the configuration.
        settings = {str(key): _text(value) for key, value in configuration.items()}
        self.name = settings.pop("name", "default")  # the default name of pyiceberg, too
        self.kind = str(configuration.get("type", configuration.get("py-catalog-impl", "configured")))
        self._secrets = _secrets(configuration)
        # Open the catalog, and derive what it can do from its class.
        self.catalog = self._open(settings)
        self._rest = self.catalog if isinstance(self.catalog, RestCatalog) else None
        self._lacks_views = False  # until a REST server answers that it has no views
        # The highest format version to write. pyiceberg itself writes up to 2. A REST server refuses a version that it cannot write.
        self.highest_format_version = 2 if self._rest is None else NEWEST_FORMAT
        # The server of a REST catalog writes the metadata files. For any other catalog, pyiceberg writes them in this process.
        self.writes_metadata_files = isinstance(self.catalog, MetastoreCatalog)
        if isinstance(self.catalog, MetastoreCatalog):
            self.catalog.properties.setdefault(PY_IO_IMPL, f"{MetadataFileIO.__module__}.{MetadataFileIO.__name__}")
            _sync_metadata(self.catalog, sync)
            _compress_metadata(self.catalog)

    def _open(self, settings: Mapping[str, Any]) -> Catalog:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings contain addresses and passwords
                return load_catalog(self.name, **settings)
        except (ValueError, exceptions.NotInstalledError, ModuleNotFoundError) as error:
            advice = "Specify the settings that pyiceberg documents for this type of catalog, for example {type: rest, uri: https://…}."
            raise ConfigurationError(f"The catalog {self.name} cannot be opened: {self._message_of(error)}. {advice}") from None
        except Exception as error:  # noqa: BLE001 - clients of catalogs raise any class
            raise self.failure("opening it", error) from None

    @property
    def has_views(self) -> bool:
        """Return whether the catalog can store views. Only pyiceberg's REST catalog can, unless its server does not support views."""
        return self._rest is not None and not self._lacks_views

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
        """
        with self._translating_errors(f"loading {namespace}.{table}"), suppress(*_MISSING):
            return self.catalog.load_table((namespace, table))
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
            staged = self.catalog.create_table_transaction((namespace, table), Schema(NestedField(1, "a", LongType())))
            return absolute_location(staged.table_metadata.location)

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

    def rename_view(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a view another name by a request to the REST server (renameView). Return False if a table or view has the new name.

        Args:
            source: The namespace and the name of the view, as the catalog spells them.
            target: The new namespace and the new name.

        Raises:
            CatalogFailed: The server refused the request, cannot rename views, or cannot be reached.
        """
        rest_catalog = self._rest
        assert rest_catalog is not None, "only REST catalogs support views"
        with self._translating_errors(f"renaming the view {'.'.join(source)}"):
            names = {"source": source, "destination": target}
            request = {role: {"namespace": [namespace], "name": name} for role, (namespace, name) in names.items()}
            # pyiceberg 0.12 has no method for this request, as for the replacement of views.
            response = rest_catalog._session.post(rest_catalog.url("views/rename"), json=request)
            if response.status_code != 409 and not response.ok:
                raise exceptions.RESTError(_error_text(response))
        return bool(response.ok)

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
        if not self.has_views:
            return []
        with self._translating_errors(f"listing the views of {namespace}"), suppress(exceptions.NoSuchNamespaceError):
            return sorted(identifier[-1] for identifier in self.catalog.list_views((namespace,)))
        return []

    def load_view(self, namespace: str, view: str) -> dict[str, Any] | None:
        """Load a view's metadata in the JSON form of the Iceberg view spec. Return None if the view does not exist.

        Args:
            namespace: The namespace of the view, as the catalog spells it.
            view: The name of the view, as the catalog spells it.
        """
        if not self.has_views:
            return None
        with self._translating_errors(f"loading the view {namespace}.{view}"):
            try:
                loaded_view = self.catalog.load_view((namespace, view))
            except _MISSING:
                return None
            except NotImplementedError:
                self._lacks_views = True
                return None
            return loaded_view.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)

    def create_view(self, namespace: str, view: str, metadata: Mapping[str, Any]) -> bool:
        """Create a view. Return False if the view exists.

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            metadata: The metadata of the view in the JSON form of the Iceberg view spec. The view gets the current version of this
                metadata.
        """
        version, schema = current_version(metadata)
        with self._translating_errors(f"creating the view {namespace}.{view}"), suppress(exceptions.ViewAlreadyExistsError):
            # A new view has one version and one schema. Their ids do not depend on those in `metadata`.
            new_schema = Schema.model_validate({**schema, "schema-id": 0})
            new_version = ViewVersion.model_validate({**version, "version-id": 1, "schema-id": 0})
            self.catalog.create_view((namespace, view), new_schema, new_version, properties=metadata["properties"])
            return True
        return False

    def replace_view(self, namespace: str, view: str, old_metadata: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
        """Replace a view by sending a request to the REST server (Iceberg REST specification, replaceView).

        Args:
            namespace: The namespace of the view.
            view: The name of the view.
            old_metadata: The current metadata of the view in the JSON form of the Iceberg view spec.
            metadata: The new metadata in the same form. The view gets the current version of this metadata.

        Returns:
            False if the view no longer exists, or if the server cannot replace views.

        Raises:
            CatalogFailed: The server refused the request, or cannot be reached.
        """
        rest_catalog = self._rest
        assert rest_catalog is not None, "only REST catalogs support views"
        with self._translating_errors(f"replacing the view {namespace}.{view}"):
            url = rest_catalog.url(Endpoints.load_view, namespace=quote(namespace, safe=""), view=quote(view, safe=""))
            request = replacement_request(namespace, view, old_metadata, metadata)
            # pyiceberg 0.12 has no method for this request. Only its private session has the user's certificates and tokens.
            response = rest_catalog._session.post(url, json=request)
            # In both cases, the caller can drop the view, if it exists, and create it again.
            if response.status_code in _STATUSES_WITHOUT_REPLACEMENT:
                return False
            if not response.ok:
                raise exceptions.RESTError(_error_text(response))
        return True

    def drop_view(self, namespace: str, view: str) -> None:
        """Drop a view if it exists.

        Args:
            namespace: The namespace of the view, as the catalog spells it.
            view: The name of the view, as the catalog spells it.
        """
        with self._translating_errors(f"dropping the view {namespace}.{view}"), suppress(*_MISSING):
            self.catalog.drop_view((namespace, view))

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
        text = hide(" ".join(str(error).split()) or type(error).__name__, self._secrets)
        return (text if len(text) <= 500 else f"{text[:500]}…").rstrip(". ")


def _error_text(response: Response) -> str:
    """Return the server's message about a failed request."""
    try:
        message: str = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = response.text
    return f"{response.status_code} {response.reason}: {message}"


def _secrets(configuration: Mapping[str, Any]) -> set[str]:
    """Return the secret values of a configuration, both as they are and URL-encoded. Messages must not contain them."""
    secrets = set().union(*(_secrets_in(key, _text(value)) for key, value in configuration.items()))
    return secrets | {quote(secret, safe="") for secret in secrets}


def _secrets_in(key: str, text: Any) -> set[str]:
    """Return the secrets of one setting: the value if the key matches `_SECRET`, or the user and password of a URL."""
    if _SECRET.search(key):
        return {text, *text.split(":")}
    if "@" not in text or "//" not in text:
        return set()
    url = urlsplit(text)
    password = url.password or ""
    return {password, unquote(password), url.netloc.rpartition("@")[0]}


def _sync_metadata(catalog: MetastoreCatalog, sync: Callable[[str], None]) -> None:
    """Make a catalog sync each metadata file that it writes in this process. Otherwise a power cut may lose its current metadata."""
    write = catalog._write_metadata

    def write_durably(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        write(metadata, io, metadata_path)
        sync(metadata_path)

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
