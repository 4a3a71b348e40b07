"""What a profile of type `rowmerge` may say, and the errors for what it may not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Dict, Optional, Tuple
from urllib.parse import quote

from dbt.adapters.contracts.connection import Credentials
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.rowmerge.configs.table_format import CHOICES
from dbt.adapters.rowmerge.relations.names import as_text
from rowmerge import TABLE_FORMATS

CATALOGS = ("rowmerge", "spark_catalog")
"""What the engine lets stand before `schema.table` besides the name of a configured catalog."""
HIDDEN = "********"
METHODS = ("session", "connect", "existing")
DURABILITIES = ("full", "process")
CONNECT_PORT = 15002
_ADDRESS = ("host", "port", "token", "remote")
_SECRET_KEY = re.compile(r"secret|password|passwd|token|credential|access\.?key|account\.?key|sas", re.IGNORECASE)


# dbt's own dataclass machinery reads these annotations at run time: they keep the typing module's spelling, as dbt's do.
@dataclass
class RowmergeCredentials(Credentials):
    """A profile: `schema` is required, and `warehouse` (a folder or an object-store URL) or a `catalog` of Iceberg tables.

    `database` is nothing but the catalog's name: that of `catalog`, or `rowmerge`.
    `method` says which Spark works: `session` one inside this process, `connect` a Spark Connect server at `host` and `port` (with a
    `token`) or at `remote` (`sc://…`), `existing` the session that the process has already.
    `catalog` is what pyiceberg takes. `file_format` is that of models which name none: Delta, in a catalog Iceberg.
    `spark_config` is given to Spark as it is. `storage_options` are the engine's options for object stores; they are never shown.
    `durability` says what a commit on a local disk survives: `full` a power cut, `process` the death of the process.
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
    file_format: Optional[str] = None
    spark_config: Dict[str, Any] = field(default_factory=dict, repr=False)
    storage_options: Dict[str, Any] = field(default_factory=dict, repr=False)
    durability: str = DURABILITIES[0]

    # dbt-spark's macros ask for it; nothing else does.
    endpoint: ClassVar[Optional[str]] = None

    def __post_init__(self) -> None:
        # Packages write it before schemas, so there is always one.
        self.database = self.database or self.catalog.get("name") or CATALOGS[0]
        self.method = self.method.lower()
        self.durability = (self.durability or DURABILITIES[0]).lower()
        self.file_format = (self.file_format or ("iceberg" if self.catalog else "delta")).lower()
        self.spark_config = {str(key): as_text(value) for key, value in self.spark_config.items()}
        self.storage_options = {
            str(key): {str(name): as_text(inner) for name, inner in value.items()} if isinstance(value, dict) else as_text(value)
            for key, value in self.storage_options.items()
        }

    @classmethod
    def validate(cls, data: Any) -> None:
        """Raise DbtRuntimeError for a key that no profile has, with the nearest ones, and for a required key that is missing."""
        known = [each.name for each in fields(cls)]
        for key in data:
            if key not in known:
                raise DbtRuntimeError(_unknown_key(str(key), [name for name in known if name != "database"]))
        if not data.get("warehouse") and not data.get("catalog"):
            raise DbtRuntimeError("The profile has no `warehouse`. Add it: the folder or object-store URL that holds the tables.")
        if not data.get("schema"):
            raise DbtRuntimeError("The profile has no `schema`. Add it: where dbt builds models.")
        _check_database(data)
        if (format_ := data.get("file_format")) is not None and str(format_).lower() not in TABLE_FORMATS:
            raise DbtRuntimeError(f"`file_format` in the profile is {format_!r}. Set it to {CHOICES}.")
        if data.get("catalog") and str(format_ or "iceberg").lower() != "iceberg":
            raise DbtRuntimeError(f"`file_format` in the profile is {format_!r}, and a `catalog` holds Iceberg tables. Leave it out.")
        for key in ("spark_config", "storage_options", "catalog"):
            if data.get(key) is not None and not isinstance(data[key], dict):
                raise DbtRuntimeError(f"`{key}` in the profile must be a mapping of names to values. Indent its entries below it.")
        if str(data.get("durability") or DURABILITIES[0]).lower() not in DURABILITIES:
            raise DbtRuntimeError(f"`durability` in the profile is {data['durability']!r}. Set it to {' or '.join(DURABILITIES)}.")
        _check_method(data)
        super().validate(data)

    @property
    def type(self) -> str:
        return "rowmerge"

    @property
    def unique_field(self) -> str:
        return str(self.warehouse or self.catalog.get("uri") or self.catalog.get("type"))

    @property
    def address(self) -> Optional[str]:
        """Where the Spark Connect server is, as PySpark takes it; it may hold a token. None without one."""
        if self.method != "connect":
            return None
        if self.remote:
            return self.remote
        token = f"/;token={quote(self.token, safe='')}" if self.token else ""
        host = f"[{self.host}]" if ":" in str(self.host) and not str(self.host).startswith("[") else self.host
        return f"sc://{host}:{self.port or CONNECT_PORT}{token}"

    def _connection_keys(self) -> Tuple[str, ...]:
        shown = ("database", "method", "host", "port", "remote", "warehouse", "catalog", "schema", "file_format", "durability")
        return (*shown, "spark_config")

    def connection_info(self, *, with_aliases: bool = False) -> Iterable[Tuple[str, Any]]:
        """What `dbt debug` prints; with aliases, what `target` holds in Jinja. Values that look like secrets are hidden in both."""
        for key, value in super().connection_info(with_aliases=with_aliases):
            if key == "spark_config":
                value = {name: HIDDEN if _SECRET_KEY.search(name) else text for name, text in value.items()}
            if key == "remote" and value is not None:
                value = value.partition(";")[0].rstrip("/").rpartition("@")[2]
            if key in ("database", "host", "port", "remote") and value is None and not with_aliases:
                continue
            if key == "catalog" and with_aliases:
                # Its name alone: that is what packages made for Databricks take it for.
                value = self.database
            elif key == "catalog":
                value = {name: text if _is_harmless(str(name), str(text)) else HIDDEN for name, text in value.items()}
            if key in ("spark_config", "catalog") and not value and not with_aliases:
                continue
            yield key, value
        if with_aliases:
            yield "endpoint", self.endpoint


def _check_database(data: Any) -> None:
    """Raise DbtRuntimeError for a database that is not the catalog's name."""
    database, catalog = data.get("database"), data.get("catalog")
    named = catalog.get("name") if isinstance(catalog, dict) else None
    known = [name for name in (named, *CATALOGS) if name]
    if database and str(database).lower() not in [name.lower() for name in known]:
        raise DbtRuntimeError(
            f"`database` in the profile is {database!r}, and there is one catalog, called {' or '.join(map(repr, known))}. "
            f"Remove `database` from the profile, or give that name; a `catalog` has its own with `name`."
        )


def _check_method(data: Any) -> None:
    """Raise DbtRuntimeError for a method that there is not, and for keys that do not go with it."""
    method = str(data.get("method") or "session").lower()
    if method not in METHODS:
        raise DbtRuntimeError(
            f"`method` in the profile is {data['method']!r}. Set it to `session` (Spark inside dbt's process, the default), "
            f"`connect` (a Spark Connect server) or `existing` (the Spark session that the process has already)."
        )
    given = [key for key in _ADDRESS if data.get(key)]
    if method != "connect":
        if given:
            raise DbtRuntimeError(f"The profile has `{given[0]}`, which belongs to `method: connect`. Set the method, or remove it.")
        if method == "existing" and data.get("spark_config"):
            raise DbtRuntimeError("`spark_config` is nothing for `method: existing`. Configure Spark where its session is made.")
        return
    if ("host" in given) == ("remote" in given):
        raise DbtRuntimeError(
            "`method: connect` needs the address of a Spark Connect server: either `host` (with `port` and `token`), or all of it as "
            "`remote: sc://host:port/;token=…`."
        )
    if given[0] != "host" and given != ["remote"]:
        raise DbtRuntimeError(f"`{given[0]}` in the profile goes with `host`. Write it into `remote`, or give `host` instead.")
    if "remote" in given and not str(data["remote"]).startswith(("sc://", "local")):
        raise DbtRuntimeError("`remote` in the profile is no address of a Spark Connect server. Write `sc://host:port`.")
    if "host" in given and ("//" in str(data["host"]) or ";" in str(data["host"])):
        raise DbtRuntimeError("`host` in the profile is the name of a machine. Write a whole address as `remote: sc://host:port` instead.")


def _is_harmless(name: str, text: str) -> bool:
    """Whether a setting of a catalog may be shown: others may be secrets, and an address may hold one."""
    return name in ("type", "name", "uri", "warehouse") and "@" not in text and "?" not in text


def _unknown_key(key: str, known: list[str]) -> str:
    near = get_close_matches(key.lower(), known, n=2, cutoff=0.6)
    hint = f"Did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else f"The keys are: {', '.join(f'`{k}`' for k in known)}."
    return f"The profile has an unknown key `{key}`. {hint}"
