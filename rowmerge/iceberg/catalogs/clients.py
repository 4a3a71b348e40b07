"""A catalog of pyiceberg (SQL, REST, Hive, Glue, …) opened from its configuration, and the few things that are asked of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.catalog.rest import Endpoints, RestCatalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NotInstalledError,
    RESTError,
    ViewAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import LongType, NestedField
from pyiceberg.view.metadata import ViewVersion
from requests import Response

from rowmerge.errors import CatalogFailed, ConfigurationError, RowmergeError
from rowmerge.iceberg.metadata.parsing import NEWEST_FORMAT
from rowmerge.storage.store import absolute_location

_SECRET = re.compile(r"secret|password|passwd|token|credential|access.?key|session|signer|authorization|sas", re.IGNORECASE)
DEFAULT_NAME = "default"
"""Of a catalog whose configuration has none; pyiceberg's own."""
_HIDDEN = "********"
_NO_REPLACING = (404, 405, 406, 501)
"""What a REST server answers that has no such view, or does not know how to replace one."""


class CatalogClient:
    """One catalog. Namespaces have one level: those below others are not seen.

    Every method raises CatalogFailed when the catalog refuses or cannot be reached; what it says never holds a secret of the configuration.
    """

    def __init__(self, configuration: Mapping[str, Any], sync: Callable[[str], None] = lambda path: None) -> None:
        """`name` in the configuration is under what a SQL catalog keeps its tables, and what pyiceberg's own configuration files know.

        `sync` makes a metadata file durable that pyiceberg writes in this process, by its path, before the catalog names it.

        Raises ConfigurationError for a configuration that is no catalog's, CatalogFailed when the catalog cannot be reached."""
        settings = {str(key): _text(value) for key, value in configuration.items()}
        self.name = name = settings.pop("name", DEFAULT_NAME)
        self._secrets = _secrets(configuration)
        self._without_views = False
        self.kind = str(configuration.get("type", configuration.get("py-catalog-impl", "configured")))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they tell addresses, passwords and all
                self._catalog: Catalog = load_catalog(name, **settings)
        except (ValueError, NotInstalledError, ModuleNotFoundError) as error:
            advice = "Give what pyiceberg's documentation of this type of catalog lists, for example {type: rest, uri: https://…}."
            raise ConfigurationError(f"The catalog {name} cannot be opened: {self._plain(error)}. {advice}") from None
        except Exception as error:  # noqa: BLE001 - clients of catalogs raise what they like
            raise self.failed("opening it", error) from None
        if isinstance(self._catalog, MetastoreCatalog):
            _sync_metadata(self._catalog, sync)

    @property
    def has_views(self) -> bool:
        """Whether the catalog keeps views: of pyiceberg's, those that speak REST do, where the server has not said that it has none."""
        return self._rest is not None and not self._without_views

    @property
    def newest_format(self) -> int:
        """The highest format version that is written here: what a server cannot write it refuses, pyiceberg itself writes none above 2."""
        return NEWEST_FORMAT if self._rest is not None else 2

    @property
    def _rest(self) -> RestCatalog | None:
        return self._catalog if isinstance(self._catalog, RestCatalog) else None

    # ------------------------------------------------------------ namespaces

    def namespaces(self) -> list[str]:
        """Of one level, as the catalog spells them."""
        with self._calling("listing namespaces"):
            return sorted(namespace[0] for namespace in self._catalog.list_namespaces() if len(namespace) == 1)

    def create_namespace(self, namespace: str, properties: Mapping[str, str]) -> bool:
        """False when it exists already."""
        with self._calling(f"creating the namespace {namespace}"):
            try:
                self._catalog.create_namespace((namespace,), dict(properties))
            except NamespaceAlreadyExistsError:
                return False
        return True

    def drop_namespace(self, namespace: str) -> bool:
        """False when something is in it. One that is not there is as good as dropped."""
        with self._calling(f"dropping the namespace {namespace}"):
            try:
                self._catalog.drop_namespace((namespace,))
            except NamespaceNotEmptyError:
                return False
            except NoSuchNamespaceError:
                return True
        return True

    # ------------------------------------------------------------ tables

    def tables(self, namespace: str) -> list[str]:
        """Their names; none where there is no such namespace."""
        with self._calling(f"listing the tables of {namespace}"):
            try:
                return sorted(identifier[-1] for identifier in self._catalog.list_tables((namespace,)))
            except NoSuchNamespaceError:
                return []

    def load(self, namespace: str, table: str) -> Table | None:
        """The table as it is now, None when there is none."""
        with self._calling(f"loading {namespace}.{table}"):
            try:
                return self._catalog.load_table((namespace, table))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def location(self, namespace: str, table: str) -> str | None:
        """Where a table is, as the engine spells locations; None when there is none."""
        found = self.load(namespace, table)
        return None if found is None else absolute_location(found.metadata.location)

    def default_location(self, namespace: str, table: str) -> str:
        """Where the catalog would put a new table. Nothing is created."""
        with self._calling(f"asking for the location of {namespace}.{table}"):
            staged = self._catalog.create_table_transaction((namespace, table), Schema(NestedField(1, "a", LongType())))
            return absolute_location(staged.table_metadata.location)

    def drop_table(self, namespace: str, table: str) -> bool:
        """Its name goes, its files stay. False when there is no such table."""
        with self._calling(f"dropping {namespace}.{table}"):
            try:
                self._catalog.drop_table((namespace, table))
            except (NoSuchTableError, NoSuchNamespaceError):
                return False
        return True

    # ------------------------------------------------------------ views

    def views(self, namespace: str) -> list[str]:
        """Their names; none in a catalog without views."""
        if not self.has_views:
            return []
        with self._calling(f"listing the views of {namespace}"):
            try:
                return sorted(identifier[-1] for identifier in self._catalog.list_views((namespace,)))
            except NoSuchNamespaceError:
                return []

    def view(self, namespace: str, view: str) -> dict[str, Any] | None:
        """A view's metadata in the JSON form of the view spec, None when there is no such view."""
        if not self.has_views:
            return None
        with self._calling(f"loading the view {namespace}.{view}"):
            try:
                found = self._catalog.load_view((namespace, view))
            except (NoSuchViewError, NoSuchNamespaceError):
                return None
            except NotImplementedError:
                self._without_views = True
                return None
            content: dict[str, Any] = found.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
            return content

    def create_view(self, namespace: str, view: str, metadata: Mapping[str, Any]) -> bool:
        """Make a view of the current version in `metadata` (the JSON form of the view spec). False when there is one of that name."""
        version, schema = _current(metadata)
        with self._calling(f"creating the view {namespace}.{view}"):
            try:
                self._catalog.create_view(
                    (namespace, view),
                    Schema.model_validate({**schema, "schema-id": 0}),
                    ViewVersion.model_validate({**version, "version-id": 1, "schema-id": 0}),
                    properties=metadata["properties"],
                )
            except ViewAlreadyExistsError:
                return False
        return True

    def replace_view(self, namespace: str, view: str, old: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
        """Make the current version in `metadata` that of a view, whose metadata is `old`. False when there is no such view any more, or
        the server replaces none."""
        rest = self._rest
        assert rest is not None
        with self._calling(f"replacing the view {namespace}.{view}"):
            # pyiceberg 0.12 has no call for it, so the request goes by its session, which has the user's certificates and tokens.
            response = rest._session.post(
                rest.url(Endpoints.load_view, namespace=quote(namespace, safe=""), view=quote(view, safe="")),
                json=replacing_view(old, metadata, (namespace, view)),
            )
            if response.status_code in _NO_REPLACING:
                return False
            if not response.ok:
                raise RESTError(_told(response))
        return True

    def drop_view(self, namespace: str, view: str) -> None:
        """One that is not there is as good as dropped."""
        with self._calling(f"dropping the view {namespace}.{view}"):
            try:
                self._catalog.drop_view((namespace, view))
            except (NoSuchViewError, NoSuchNamespaceError):
                return

    # ------------------------------------------------------------ failures

    @property
    def catalog(self) -> Catalog:
        """pyiceberg's own, for committing."""
        return self._catalog

    def failed(self, doing: str, error: BaseException) -> CatalogFailed:
        """The error of a call, without secrets. To be raised `from None`: pyiceberg's own messages may hold some."""
        return CatalogFailed(self.name, doing, self._plain(error))

    @contextmanager
    def _calling(self, doing: str) -> Iterator[None]:
        try:
            yield
        except RowmergeError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            raise self.failed(doing, error) from None

    def _plain(self, error: BaseException) -> str:
        """What an error says, in one line."""
        text = " ".join(str(error).split()) or type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return (text if len(text) <= 500 else f"{text[:500]}…").rstrip(". ")


def replacing_view(old: Mapping[str, Any], metadata: Mapping[str, Any], identifier: tuple[str, str]) -> dict[str, Any]:
    """The request that replaces a view: CommitViewRequest of the REST specification, where the version -1 is the one just added."""
    version, wanted = _current(metadata)
    schema = assign_fresh_schema_ids(Schema.model_validate(wanted))
    known = [Schema.model_validate(each) for each in old["schemas"]]
    # Servers take a schema that they have for none that was added.
    schema_id = next((each.schema_id for each in known if each.as_struct() == schema.as_struct()), None)
    updates: list[dict[str, Any]] = []
    if schema_id is None:
        schema_id = max((each.schema_id for each in known), default=-1) + 1
        updates.append({"action": "add-schema", "schema": {**schema.model_dump(mode="json", by_alias=True), "schema-id": schema_id}})
    version_id = max(each["version-id"] for each in old["versions"]) + 1
    updates += [
        {"action": "add-view-version", "view-version": {**version, "version-id": version_id, "schema-id": schema_id}},
        {"action": "set-current-view-version", "view-version-id": -1},
        {"action": "set-properties", "updates": metadata["properties"]},
    ]
    if gone := sorted(set(old.get("properties", {})) - set(metadata["properties"])):
        updates.append({"action": "remove-properties", "removals": gone})
    return {
        "identifier": {"namespace": [identifier[0]], "name": identifier[1]},
        "requirements": [{"type": "assert-view-uuid", "uuid": old["view-uuid"]}],
        "updates": updates,
    }


def _told(response: Response) -> str:
    """What a server says of a request that it did not carry out."""
    try:
        error: str = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        error = response.text
    return f"{response.status_code} {response.reason}: {error}"


def _current(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The current version of a view, and its schema."""
    version = next(v for v in metadata["versions"] if v["version-id"] == metadata["current-version-id"])
    return version, next(s for s in metadata["schemas"] if s["schema-id"] == version["schema-id"])


def _secrets(configuration: Mapping[str, Any]) -> list[str]:
    """The values that must not be told, longest first: of keys that look like it, and what stands before the @ of a URL."""
    found = set()
    for key, value in configuration.items():
        text = _text(value)
        if _SECRET.search(key):
            found |= {text, *text.split(":")}
        elif "@" in text and "//" in text:
            password = urlsplit(text).password or ""
            found |= {password, unquote(password), urlsplit(text).netloc.rpartition("@")[0]}
    found |= {quote(secret, safe="") for secret in found}
    return sorted((secret for secret in found if secret), key=len, reverse=True)


def _sync_metadata(catalog: MetastoreCatalog, sync: Callable[[str], None]) -> None:
    """Let a catalog that writes metadata files by itself sync each. Otherwise its database may name a file that a power cut took."""
    write = catalog._write_metadata

    def write_durably(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        write(metadata, io, metadata_path)
        sync(metadata_path)

    catalog._write_metadata = write_durably  # type: ignore[method-assign]


def _text(value: Any) -> Any:
    """A value as pyiceberg takes it; nested ones (auth) stay as they are."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, Mapping) else str(value)
