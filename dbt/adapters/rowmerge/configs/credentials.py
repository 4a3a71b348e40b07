"""The profile of type `rowmerge`, and the validation of its keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Dict, List, Optional, Tuple
from urllib.parse import quote, urlsplit

from dbt.adapters.contracts.connection import Credentials
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.rowmerge.configs.table_format import FORMAT_CHOICES
from dbt.adapters.rowmerge.relations.names import as_text
from rowmerge import CATALOGS, TABLE_FORMATS, check_further_catalogs, default_format_of, is_warehouse_folder, parse_duration
from rowmerge.errors import ConfigurationError

HIDDEN = "********"
METHODS = ("session", "connect", "existing")
DURABILITIES = ("full", "process")
CONNECT_PORT = 15002
_ADDRESS_KEYS = ("host", "port", "token", "remote")
_MAPPINGS = ("spark_config", "storage_options", "catalog")
_HIDDEN_IF_EMPTY = ("database", "host", "port", "remote", "keep_warm", "spark_config", "catalog", "catalogs")
"""The keys that `dbt debug` does not print if they have no value."""
_SECRET_KEY = re.compile(r"secret|passw|token|credential|(access|account|private|encryption)\.?key|sas", re.IGNORECASE)


# dbt evaluates these annotations at run time, so they use the names of the module typing, as in dbt.
@dataclass
class RowmergeCredentials(Credentials):
    """A profile of type `rowmerge`. It requires `schema`, and either `warehouse` (a folder or an object-store URL) or `catalog`.

    Attributes:
        database: The name of the catalog: the name in `catalog`, or `rowmerge`.
        method: How to connect to Spark. `session` starts Spark inside this process, `connect` uses a Spark Connect server, and `existing`
            uses the Spark session that already exists in the process.
        host: The host of a Spark Connect server, to use with `port` and `token`.
        remote: The complete address of a Spark Connect server (`sc://…`), instead of `host`.
        catalog: The properties of a catalog of Iceberg tables, as in pyiceberg.
        catalogs: Further catalogs, each with a `name`, and a `warehouse` folder or the properties of pyiceberg.
        file_format: The default table format of models: `delta`, or `iceberg` with a catalog.
        spark_config: The Spark settings, which are passed to Spark unchanged.
        storage_options: The engine's options for object stores. `dbt debug` never shows them.
        durability: The failure that a commit on a local disk survives: `full` for a power failure, `process` for a crash of the process.
        keep_warm: The time for which Spark keeps running in a server after a command, such as `30m`; None to start Spark for each command.
    """

    database: Optional[str] = None
    schema: Optional[str] = None
    method: str = "session"
    host: Optional[str] = None
    port: Optional[int] = None
    token: Optional[str] = field(default=None, repr=False)
    remote: Optional[str] = field(default=None, repr=False)
    warehouse: Optional[str] = None
    catalog: Dict[str, Any] = field(default_factory=dict, repr=False)
    catalogs: List[Dict[str, Any]] = field(default_factory=list, repr=False)
    file_format: Optional[str] = None
    spark_config: Dict[str, Any] = field(default_factory=dict, repr=False)
    storage_options: Dict[str, Any] = field(default_factory=dict, repr=False)
    durability: str = DURABILITIES[0]
    keep_warm: Optional[str] = None

    # dbt-spark's macros read this attribute.
    endpoint: ClassVar[Optional[str]] = None

    def __post_init__(self) -> None:
        # dbt packages render the database before the schema, so the database needs a value.
        self.database = self.database or self.catalog.get("name") or CATALOGS[0]
        self.method = self.method.lower()
        self.durability = (self.durability or DURABILITIES[0]).lower()
        self.file_format = (self.file_format or ("iceberg" if self.catalog else "delta")).lower()
        # A key without a value must not become the string `None`.
        self.spark_config = {str(key): as_text(value) for key, value in self.spark_config.items() if value is not None}
        self.storage_options = _option_text(self.storage_options)

    @classmethod
    def validate(cls, data: Any) -> None:
        """Raise DbtRuntimeError if a profile has an unknown key, a missing key or an invalid value."""
        _check_keys(data, [key.name for key in fields(cls)])
        _check_database(data)
        _check_file_format(data)
        _check_mappings(data)
        _check_catalogs(data)
        _check_durability(data)
        _check_method(data)
        _check_keep_warm(data)
        super().validate(data)

    @property
    def type(self) -> str:
        return "rowmerge"

    @property
    def keep_warm_seconds(self) -> float:
        """The value of `keep_warm` in seconds; 0 if it is not set."""
        return parse_duration("keep_warm", self.keep_warm or 0).total_seconds()

    @property
    def unique_field(self) -> str:
        return str(self.warehouse or self.catalog.get("uri") or self.catalog.get("type"))

    @property
    def address(self) -> Optional[str]:
        """The URL of the Spark Connect server, which may contain a token; None if the profile does not use a server."""
        if self.method != "connect":
            return None
        if self.remote:
            return self.remote
        token = f"/;token={quote(self.token, safe='')}" if self.token else ""
        host = f"[{self.host}]" if ":" in str(self.host) and not str(self.host).startswith("[") else self.host
        return f"sc://{host}:{self.port or CONNECT_PORT}{token}"

    @property
    def further_catalogs(self) -> Dict[str, Dict[str, Any]]:
        """The configurations of the catalogs beside the default catalog, by their names in lower case."""
        return {str(each["name"]).lower(): each for each in self.catalogs}

    @property
    def databases(self) -> Tuple[str, ...]:
        """The names of all catalogs in lower case: those of the default catalog first."""
        return tuple(dict.fromkeys((str(self.database).lower(), *CATALOGS, *self.further_catalogs)))

    def is_service(self, database: Optional[str]) -> bool:
        """Return whether a catalog is one of pyiceberg, and not a folder. `database`: None for the default catalog."""
        configuration = self.further_catalogs.get(str(database).lower())
        return bool(self.catalog) if configuration is None else not is_warehouse_folder(configuration)

    def file_format_in(self, database: Optional[str]) -> str:
        """Return the default table format in a catalog. `database`: None for the default catalog."""
        configuration = self.further_catalogs.get(str(database).lower())
        return str(self.file_format) if configuration is None else default_format_of(configuration)

    def _connection_keys(self) -> Tuple[str, ...]:
        return tuple(
            "database method host port remote warehouse catalog catalogs schema file_format durability keep_warm spark_config".split()
        )

    def connection_info(self, *, with_aliases: bool = False) -> Iterable[Tuple[str, Any]]:
        """Return the keys and values that `dbt debug` prints. Hide possible secrets.

        `with_aliases`: whether to return the entries of the Jinja variable `target` instead, which include the aliases of keys.
        """
        entries = {key: _hide_secrets(key, value) for key, value in super().connection_info(with_aliases=with_aliases)}
        if with_aliases:
            # dbt packages for Databricks read these two entries: `target.catalog` is the name of the catalog, not its configuration.
            catalog_name = {"catalog": self.database} if "catalog" in entries else {}
            return {**entries, **catalog_name, "endpoint": self.endpoint}.items()
        # `dbt debug` prints keys that most profiles do not set, such as `port`, only if they have a value.
        return [(key, value) for key, value in entries.items() if key not in _HIDDEN_IF_EMPTY or value not in (None, {}, [])]


def _option_text(value: Any) -> Any:
    """Return the value of a storage option with strings in place of numbers and booleans, also in nested mappings.

    Leave out keys without a value. Join lists by commas, as obstore expects a list of hosts.
    """
    if isinstance(value, dict):
        return {str(key): _option_text(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return ",".join(as_text(item) for item in value)
    return as_text(value)


def _hide_secrets(key: str, value: Any) -> Any:
    """Return the value of a profile key with possible secrets replaced by asterisks."""
    match key:
        case "spark_config":
            return {name: _hide_secret_setting(name, setting) for name, setting in value.items()}
        case "catalog":
            return {name: setting if _is_harmless(str(name), str(setting)) else HIDDEN for name, setting in value.items()}
        case "catalogs":
            return [_hide_secrets("catalog", each) for each in value]
        case "warehouse" if value is not None and _has_credentials(str(value)):
            return HIDDEN
        case "remote" if value is not None:
            return _without_token(value)
    return value


def _hide_secret_setting(name: str, value: str) -> str:
    """Return the value of a Spark setting with possible secrets replaced or removed."""
    if _SECRET_KEY.search(name):
        return HIDDEN
    return _without_token(value) if name == "spark.remote" else value


def _without_token(address: str) -> str:
    """Return the address of a Spark Connect server without its parameters, such as a token, and without a user name."""
    return address.partition(";")[0].rstrip("/").rpartition("@")[2]


def _has_credentials(location: str) -> bool:
    """Return whether a URL contains a password or parameters. The engine rejects such a warehouse without repeating it."""
    url = urlsplit(location)
    return bool(url.password or (url.query and url.scheme))


def _check_keys(profile: Any, valid_keys: list[str]) -> None:
    """Raise DbtRuntimeError if the profile has an unknown key or lacks a required key."""
    for key in profile:
        if key not in valid_keys:
            raise DbtRuntimeError(_unknown_key_message(str(key), [name for name in valid_keys if name != "database"]))
    if not profile.get("warehouse") and not profile.get("catalog"):
        raise DbtRuntimeError("The profile has no `warehouse`. Set it to the folder or object-store URL that contains the tables.")
    if not profile.get("schema"):
        raise DbtRuntimeError("The profile has no `schema`. Set it to the schema in which dbt builds models.")


def _check_database(profile: Any) -> None:
    """Raise DbtRuntimeError if the profile has a database that is not the name of the catalog."""
    database, catalog = profile.get("database"), profile.get("catalog")
    configured_name = catalog.get("name") if isinstance(catalog, dict) else None
    valid_names = [name for name in (configured_name, *CATALOGS) if name]
    if database and str(database).lower() not in [name.lower() for name in valid_names]:
        raise DbtRuntimeError(
            f"`database` in the profile is {database!r}, but the only catalog is called {' or '.join(map(repr, valid_names))}. "
            f"Remove `database`, or set it to this name. The key `name` of `catalog` sets another name."
        )


def _check_file_format(profile: Any) -> None:
    """Raise DbtRuntimeError for an unknown table format, and for a format other than Iceberg if the profile has a catalog."""
    file_format = profile.get("file_format")
    if file_format is not None and str(file_format).lower() not in TABLE_FORMATS:
        raise DbtRuntimeError(f"`file_format` in the profile is {file_format!r}. Set it to {FORMAT_CHOICES}.")
    if profile.get("catalog") and str(file_format or "iceberg").lower() != "iceberg":
        raise DbtRuntimeError(f"`file_format` in the profile is {file_format!r}, but a `catalog` contains only Iceberg tables. Remove it.")


def _check_mappings(profile: Any) -> None:
    for key in _MAPPINGS:
        if profile.get(key) is not None and not isinstance(profile[key], dict):
            raise DbtRuntimeError(f"`{key}` in the profile must be a mapping of names to values. Indent its entries below it.")


def _check_catalogs(profile: Any) -> None:
    """Raise DbtRuntimeError unless `catalogs` is a list of mappings with valid and different names."""
    catalogs, catalog = profile.get("catalogs") or [], profile.get("catalog") or {}
    if not isinstance(catalogs, list) or not all(isinstance(each, dict) for each in catalogs):
        raise DbtRuntimeError("`catalogs` in the profile must be a list of mappings, each with a `name`. Begin each entry with a hyphen.")
    try:
        check_further_catalogs(catalogs, [name.lower() for name in (str(catalog.get("name") or CATALOGS[0]), *CATALOGS)])
    except ConfigurationError as error:
        raise DbtRuntimeError(f"`catalogs` in the profile: {error}") from None


def _check_durability(profile: Any) -> None:
    durability = profile.get("durability") or DURABILITIES[0]
    if str(durability).lower() not in DURABILITIES:
        raise DbtRuntimeError(f"`durability` in the profile is {durability!r}. Set it to {' or '.join(DURABILITIES)}.")


def _check_method(profile: Any) -> None:
    """Raise DbtRuntimeError for an unknown method, and for keys that do not apply to the method."""
    method = str(profile.get("method") or "session").lower()
    if method not in METHODS:
        raise DbtRuntimeError(
            f"`method` in the profile is {profile['method']!r}. Set it to `session` (Spark inside dbt's process, the default), "
            f"`connect` (a Spark Connect server) or `existing` (a Spark session that the process already has)."
        )
    address_keys = [key for key in _ADDRESS_KEYS if profile.get(key)]
    if method == "connect":
        _check_address(profile, address_keys)
        return
    if address_keys:
        raise DbtRuntimeError(f"`{address_keys[0]}` in the profile requires `method: connect`. Set this method, or remove the key.")
    if method == "existing" and profile.get("spark_config"):
        raise DbtRuntimeError("`spark_config` has no effect with `method: existing`. Configure the Spark session where it is created.")


def _check_keep_warm(profile: Any) -> None:
    """Raise DbtRuntimeError unless `keep_warm` is a duration, and Spark runs in a process of rowmerge."""
    keep_warm, method = profile.get("keep_warm"), str(profile.get("method") or "session").lower()
    if keep_warm is None:
        return
    if not isinstance(keep_warm, str):
        raise DbtRuntimeError(f"`keep_warm` in the profile is {keep_warm!r}. Set it to a time with a unit, such as `30m`.")
    if method != "session":
        raise DbtRuntimeError(f"`keep_warm` in the profile has no effect with `method: {method}`, whose Spark keeps running. Remove it.")
    try:
        parse_duration("keep_warm", keep_warm)
    except ConfigurationError as error:
        raise DbtRuntimeError(f"In the profile, {error}") from None


def _check_address(profile: Any, address_keys: list[str]) -> None:
    """Raise DbtRuntimeError unless the profile has exactly one address of a Spark Connect server, either `host` or `remote`.

    `address_keys`: the keys of `_ADDRESS_KEYS` that have a value.
    """
    has_host, has_remote = "host" in address_keys, "remote" in address_keys
    has_both, has_neither = has_host and has_remote, not (has_host or has_remote)
    if has_both or has_neither:
        raise DbtRuntimeError(
            "`method: connect` requires the address of a Spark Connect server: either `host` (with `port` and `token`), or the whole "
            "address as `remote: sc://host:port/;token=…`."
        )
    if has_host:
        _check_host(str(profile["host"]))
        return
    keys_of_host = [key for key in address_keys if key != "remote"]
    if keys_of_host:
        raise DbtRuntimeError(f"`{keys_of_host[0]}` in the profile requires `host`. Write it into `remote`, or set `host` instead.")
    # With an address such as `local[2]`, Spark starts a server in a process of its own, which is useful for tests.
    if not str(profile["remote"]).startswith(("sc://", "local")):
        raise DbtRuntimeError("`remote` in the profile is not the address of a Spark Connect server. Write it as `sc://host:port`.")


def _check_host(host: str) -> None:
    if "//" in host or ";" in host:
        raise DbtRuntimeError("`host` in the profile must be only a host name. Write a whole address as `remote: sc://host:port`.")


def _is_harmless(name: str, text: str) -> bool:
    """Return whether a catalog property cannot be a secret. Only some names are known to be safe, and a URL may contain a password."""
    return name in ("type", "name", "uri", "warehouse", "file_format") and "@" not in text and "?" not in text


def _unknown_key_message(key: str, valid_keys: list[str]) -> str:
    similar_keys = get_close_matches(key.lower(), valid_keys, n=2, cutoff=0.6)
    advice = f"The keys are: {', '.join(f'`{name}`' for name in valid_keys)}."
    if similar_keys:
        advice = f"Did you mean {' or '.join(f'`{name}`' for name in similar_keys)}?"
    return f"The profile has an unknown key `{key}`. {advice}"
