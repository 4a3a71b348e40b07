"""Properties of pyiceberg's FileIO (`s3.access-key-id`, …) and settings of object stores, and the storage of a catalog's tables.

A catalog has such properties in its configuration. A REST server adds properties for all tables, and credentials for each table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyiceberg.table import Table

from rowmerge.errors import ConfigurationError
from rowmerge.storage.configuration import StorageConfiguration, provider_of
from rowmerge.storage.option_names import is_true
from rowmerge.storage.renewal import Renewal, with_defaults
from rowmerge.storage.store import Storage

_SETTINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "s3": {
        "access_key_id": ("s3.access-key-id", "client.access-key-id"),
        "secret_access_key": ("s3.secret-access-key", "client.secret-access-key"),
        "session_token": ("s3.session-token", "client.session-token"),
        "region": ("s3.region", "client.region"),
        "endpoint": ("s3.endpoint",),
        "skip_signature": ("s3.anonymous",),
    },
    "gs": {"bearer_token": ("gcs.oauth2.token",), "base_url": ("gcs.service.host",)},
    "azure": {
        "account_name": ("adls.account-name",),
        "account_key": ("adls.account-key",),
        "sas_key": ("adls.sas-token",),
        "client_id": ("adls.client-id",),
        "client_secret": ("adls.client-secret",),
        "tenant_id": ("adls.tenant-id",),
    },
}
"""The properties of pyiceberg for each setting of obstore, the first one with precedence."""
_AWS_SERVICES = ("glue", "dynamodb")
_EXPIRY = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")
_SAS_TOKEN, _SAS_EXPIRY = "adls.sas-token.", "adls.sas-token-expires-at-ms."
"""The beginnings of properties that end with the host of an Azure account."""
_OPTIONS, _OWN_NAMES = "rowmerge.storage-options", "rowmerge.own-names"
"""Properties of a catalog: the key in `_configurations`, and the names of the properties that the configuration of the catalog contains."""
_configurations: dict[str, StorageConfiguration] = {}
"""The storage options of catalogs, whose keys may change, by fingerprint."""
Identifier = tuple[str, str]
_Load = Callable[[str, str], object]


def settings_of(properties: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the settings of object stores that properties of pyiceberg's FileIO contain, by provider."""
    settings: dict[str, dict[str, Any]] = {}
    for provider, names in _SETTINGS.items():
        values = {key: next((properties[each] for each in candidates if properties.get(each)), None) for key, candidates in names.items()}
        settings[provider] = {key: value for key, value in values.items() if value is not None}
    s3, azure = settings["s3"], settings["azure"]
    # Only one of these two properties of pyiceberg and Java is usually set, with opposite meanings.
    is_virtual = properties.get("s3.force-virtual-addressing") or _opposite(properties.get("s3.path-style-access"))
    if is_virtual is not None:
        s3["virtual_hosted_style_request"] = is_virtual
    for name, token in properties.items():
        if name.startswith(_SAS_TOKEN) and "sas_key" not in azure:
            azure |= {"sas_key": token, "account_name": name.removeprefix(_SAS_TOKEN).partition(".")[0]}
    return {provider: values for provider, values in settings.items() if values}


def _opposite(flag: str | None) -> str | None:
    return None if flag is None else str(flag.lower() != "true").lower()


def with_storage_options(configuration: Mapping[str, Any], warehouse: str | None, options: StorageConfiguration) -> dict[str, Any]:
    """Return the configuration of a catalog, with the warehouse and the storage options as further properties.

    The client of such a catalog writes metadata files itself. For a REST catalog, the server does, so its configuration is unchanged.

    Args:
        configuration: The configuration of the catalog. Its own properties take precedence.
        warehouse: The location of the warehouse, or None if the configuration has it.
        options: The storage options.
    """
    if str(configuration.get("type", "")).lower() == "rest":
        return dict(configuration)
    _configurations[options.fingerprint] = options
    defaults = {**file_io_properties(options), **aws_client_properties(options, configuration)}
    keys = {_OPTIONS: options.fingerprint, _OWN_NAMES: ",".join(configuration)}
    return {**({} if warehouse is None else {"warehouse": warehouse}), **defaults, **configuration, **keys}


def current_properties(properties: Mapping[str, str], location: str) -> dict[str, str]:
    """Return the properties of a FileIO with keys that have not ended, if they are those of the storage options.

    Args:
        properties: The properties, from `with_storage_options`.
        location: The location of a file.
    """
    options = _configurations.get(properties.get(_OPTIONS, ""))
    if options is None or provider_of(location) is None:
        return dict(properties)
    own_names = properties.get(_OWN_NAMES, "").split(",")
    return {**properties, **{name: value for name, value in file_io_properties(options, location).items() if name not in own_names}}


def file_io_properties(configuration: StorageConfiguration, location: str = "") -> dict[str, str]:
    """Return the properties with which pyiceberg's FileIO opens the same object stores as a configuration.

    Args:
        configuration: The storage options.
        location: A location in the store that is used for certain.
    """
    current = {provider: configuration.current(provider, is_used=provider == provider_of(location)) for provider in _SETTINGS}
    properties = {
        names[0]: str(current[provider][key])
        for provider, keys in _SETTINGS.items()
        for key, names in keys.items()
        if current[provider].get(key)
    }
    if is_true(current["s3"].get("virtual_hosted_style_request")):
        properties["s3.force-virtual-addressing"] = "true"
    return properties


def aws_client_properties(configuration: StorageConfiguration, catalog: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties with which a catalog that is a service of AWS signs its requests with the keys of a store.

    There are none if the configuration of the catalog contains credentials. Keys and a profile of different accounts must not mix.

    Args:
        configuration: The storage options.
        catalog: The configuration of the catalog.
    """
    service = str(catalog.get("type", "")).lower()
    own = {f"{prefix}.{name}" for prefix in (service, "client") for name in ("access-key-id", "profile-name", "session-token")}
    if service not in _AWS_SERVICES or any(catalog.get(name) for name in own):
        return {}
    settings = configuration.current("s3", is_used=False)
    return {names[1]: str(settings[key]) for key, names in _SETTINGS["s3"].items() if len(names) > 1 and settings.get(key)}


def expiry_of(properties: Mapping[str, str]) -> float | None:
    """Return the time at which the first of the vended credentials expires, in seconds since the epoch, or None if it is unknown."""
    times = [value for name, value in properties.items() if name in _EXPIRY or name.startswith(_SAS_EXPIRY)]
    return min((int(value) / 1000 for value in times if str(value).isdecimal()), default=None)


def vended_properties(table: Table, configured: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of object stores that a server has sent with a table.

    Properties of the table itself do not count. Otherwise, a writer of the table could send credentials of readers to any endpoint.

    Args:
        table: The table as pyiceberg has loaded it.
        configured: The properties in the configuration of the catalog.
    """
    own = table.metadata.properties
    credentials = {name: value for name, value in table.io.properties.items() if own.get(name) != value}
    properties = {**table.catalog.properties, **table.config, **credentials}
    return {name: str(value) for name, value in properties.items() if configured.get(name) != value}


class TableStorages:
    """The storage of each table of a catalog: with the options of the session, and with the credentials that a REST server vends."""

    def __init__(self, catalog: str, configured: Mapping[str, str], open_storage: Callable[[str], Storage], load: _Load) -> None:
        """Initialize the storages of a catalog.

        Args:
            catalog: The name of the catalog, for messages.
            configured: The properties in the configuration of the catalog.
            open_storage: A function that returns the storage of a location, with the options of the session.
            load: A function that loads a table by its namespace and name, and passes its credentials to `update`.

        Raises:
            ConfigurationError: The configuration asks for remote signing.
        """
        self._catalog, self._configured = catalog, settings_of(configured)
        self._open_storage, self._load = open_storage, load
        self._renewals: dict[Identifier | None, Renewal] = {}
        if _signs_remotely(configured):
            raise self._remote_signing()

    def open(self, location: str, identifier: Identifier | None = None) -> Storage:
        """Return the storage of a location.

        Args:
            location: The location of the table.
            identifier: The namespace and name of the table. None means that no credentials of a table apply.
        """
        storage = self._open_storage(location)
        if provider_of(location) is None:
            return storage
        renewal = self._renewals.get(identifier)
        if renewal is None and not self._configured:
            return storage
        settings = with_defaults(storage.configuration.settings, self._configured)
        return storage.with_configuration(replace(storage.configuration, settings=settings, vended=renewal))

    def update(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> None:
        """Use the credentials that the server has sent with a table from now on, also in storages that are already open.

        Args:
            identifier: The namespace and the name of the table.
            location: The location of the table.
            properties: The properties of object stores that the server has sent.

        Raises:
            ConfigurationError: The server sends no credentials, but expects that clients let it sign each request.
        """
        settings = settings_of(properties)
        if provider_of(location) is None or not (settings or _signs_remotely(properties)):
            return
        keys = {**self.open(location).configuration.settings.get("s3", {}), **settings.get("s3", {})}
        if _signs_remotely(properties) and "access_key_id" not in keys:
            raise self._remote_signing()
        if identifier not in self._renewals:
            self._renewals[identifier] = Renewal(partial(self._reload, identifier), is_vended=True)
        self._renewals[identifier].update(settings, expiry_of(properties), location)

    def _reload(self, identifier: Identifier) -> None:
        self._load(*identifier)

    def _remote_signing(self) -> ConfigurationError:
        problem = f"The catalog {self._catalog} asks for remote signing of S3 requests (s3.remote-signing-enabled or s3.signer)"
        advice = "Let its server vend credentials (header.X-Iceberg-Access-Delegation: vended-credentials), or set keys in storage_options."
        return ConfigurationError(f"{problem}, which is not supported. {advice}")


def _signs_remotely(properties: Mapping[str, str]) -> bool:
    return str(properties.get("s3.remote-signing-enabled", "")).lower() == "true" or bool(properties.get("s3.signer"))
