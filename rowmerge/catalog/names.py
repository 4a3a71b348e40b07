"""Convert names of schemas, tables and views to folder names and back. Check locations for credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from rowmerge.errors import ConfigurationError, TableError
from rowmerge.iceberg import CatalogClient
from rowmerge.storage.configuration import check_scheme
from rowmerge.storage.deletion import percent_decodings
from rowmerge.storage.store import absolute_location
from rowmerge.table.metadata.schema import quote

MAX_FOLDER_BYTES = 200
"""The maximum length of a folder name in bytes. File systems allow 255 bytes, but some file names consist of a folder name and a suffix."""

_FORMATS_OF_PATHS = {"delta": "delta", "iceberg": "iceberg", "path": "delta"}
_SEGMENT_ADVICE = (
    "Choose a name that is not empty, . or .., and that has no slash, backslash or control character, not even percent-encoded."
)
_ONE_SLASH = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/(?!/)")
"""The beginning of a URL that lacks a slash, which would otherwise be the name of a folder."""
_AZURE = "abfss://container@account.dfs.core.windows.net/folder"
_ALTERNATIVES = {
    **dict.fromkeys(("az", "azure", "adl"), _AZURE),
    **dict.fromkeys(("http", "https"), f"the URL of the bucket or container, such as s3://bucket/folder or {_AZURE}"),
}
"""The schemes that obstore opens but no connector of Spark, and what to use instead."""
_UNESCAPED_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")


def lower_case(name: str) -> str:
    """Return the lower-case form of a name, in which names are stored and compared."""
    return name.lower()


def quoted_name(schema: str, name: str) -> str:
    """Return the qualified name of a relation or a function in lower case, with backquotes where SQL requires them.

    Args:
        schema: The name of the schema, in any capitalization.
        name: The name of the relation or function, in any capitalization.
    """
    return f"{quote(lower_case(schema))}.{quote(lower_case(name))}"


def format_of_path(schema: str, name: str) -> str | None:
    """Return the format of a table that a statement names by path, or None for a name of a catalog.

    The schema of such a name is a format, and its name an absolute path or a URL: `delta.`/data/orders``. A path in quotation marks, as in
    `VACUUM '/data/orders'`, has the schema `path`: the folder decides about the format. CREATE TABLE needs a format, so it gets `delta`.

    Args:
        schema: The first part of the name, in any capitalization.
        name: The second part of the name.
    """
    is_path = name.startswith("/") or "://" in name
    return _FORMATS_OF_PATHS.get(schema.lower()) if is_path else None


def folder_of(name: str) -> str:
    """Return the name of the folder of a schema, a table or a view.

    Lower-case letters, digits, `_` and `-` stay unchanged. Every other byte of the UTF-8 form becomes `~` and two hexadecimal digits. Many
    of these characters have a meaning in paths, globs or URLs. A percent sign would not work, because readers such as delta-rs decode it in
    paths. A leading `_` becomes `~5F`, because Spark and readers of Delta ignore folders that begin with `_`.

    Raises:
        TableError: The name is empty or invalid Unicode, or its folder name is longer than 200 bytes.
    """
    if not name:
        raise TableError("The name of a schema, a table or a view cannot be empty. Use at least one character.")
    try:
        name_bytes = lower_case(name).encode("utf-8")
    except UnicodeEncodeError:
        raise TableError(f"The name {name!r} is not valid Unicode. Use a name without lone surrogates.") from None
    folder = "".join(chr(byte) if byte in _UNESCAPED_BYTES else f"~{byte:02X}" for byte in name_bytes)
    if folder.startswith("_"):
        folder = "~5F" + folder[1:]
    if len(folder) > MAX_FOLDER_BYTES:
        problem = f"The name {name[:40]!r}… needs {len(folder)} bytes as a folder name, and the limit is {MAX_FOLDER_BYTES}"
        raise TableError(f"{problem}. Use a shorter name. Each character outside a-z, 0-9, _ and - takes three bytes or more.")
    return folder


def path_of(schema: str, name: str) -> str:
    """Return the path of a relation's name in a warehouse, which consists of two folders.

    Args:
        schema: The name of the schema.
        name: The name of the relation.

    Raises:
        TableError: One of the names is invalid.
    """
    return f"{folder_of(schema)}/{folder_of(name)}"


def check_path_segment(object_kind: str, name: str) -> None:
    """Check that a name is a single path segment, even if a catalog, a URL or a store percent-decodes it several times.

    Iceberg catalogs use names unchanged in locations and in the URLs of requests.

    Args:
        object_kind: `schema`, `table`, `view` or `function`, for the message.
        name: The name.

    Raises:
        TableError: The name is not a single path segment, or contains control characters.
    """
    for decoded in percent_decodings(name):
        if decoded.strip() in ("", ".", "..") or re.search(r"[/\\\x00-\x1f\x7f]", decoded):
            problem = f"An Iceberg catalog cannot use the {object_kind} name {name!r}, because it is not a single path segment"
            raise TableError(f"{problem}. {_SEGMENT_ADVICE}")


def name_of(folder: str) -> str | None:
    """Return the name of the relation or schema in a folder, or None if `folder_of` does not return this folder for any name."""
    if "%" in folder or re.search(r"~(?![0-9A-F]{2})", folder):
        return None
    try:
        name = unquote_to_bytes(folder.replace("~", "%")).decode("utf-8")
        return name if folder_of(name) == folder else None
    except (UnicodeDecodeError, TableError):
        return None


def is_valid_name(name: str) -> bool:
    """Return whether a schema, a table, a view or a function can have this name: whether `folder_of` accepts it."""
    try:
        folder_of(name)
    except TableError:
        return False
    return True


def normalize_location(location: str) -> str:
    """Return the absolute form of a location. It must not contain credentials, because metadata files and messages repeat it.

    Raises:
        ConfigurationError: The location is empty, contains credentials or a query, or is in a store that is not supported, such as HDFS.
            The message does not repeat credentials.
    """
    if not location.strip():
        raise ConfigurationError("The location is empty. Set it to a folder, or to a URL such as s3://bucket/folder.")
    if scheme := _ONE_SLASH.match(location):
        raise ConfigurationError(f"A location that begins with {scheme[0]} needs two slashes: {scheme[0]}/… (a folder: ./{scheme[0]}…).")
    location = absolute_location(location)
    if not location.startswith("file://"):
        check_scheme(location)
        url = urlsplit(location)
        # abfss://container@account.… has a container, not a user, before the host.
        has_user = "@" in url.netloc and not url.scheme.startswith("abfs")
        has_password = ":" in url.netloc.rpartition("@")[0]
        if url.query or has_user or has_password:
            advice = "Remove them, and set the credentials in storage_options."
            raise ConfigurationError(f"The {url.scheme} location contains credentials or a query. {advice}")
        if alternative := _ALTERNATIVES.get(url.scheme):
            raise ConfigurationError(f"Spark cannot read locations at {url.scheme}://. Use {alternative}, which names the same files.")
    return location


class CatalogNames:
    """The names of schemas, tables and views in an Iceberg catalog, which are compared case-insensitively."""

    def __init__(self, client: CatalogClient, warehouse: str | None) -> None:
        """Create the names of a catalog. `warehouse`: the folder of new tables, or None for the default of the catalog."""
        self._client, self._warehouse = client, warehouse
        self._namespaces: dict[str, str] = {}

    def read_namespaces(self) -> Mapping[str, str]:
        """Return the names of the single-level namespaces as the catalog spells them, by their lower-case names."""
        self._namespaces = {lower_case(namespace): namespace for namespace in self._client.namespaces()}
        return self._namespaces

    def namespace(self, schema: str) -> str:
        """Return the name of a schema as the catalog spells it, or the lower-case name if the catalog does not contain the schema."""
        check_path_segment("schema", schema)
        if lower_case(schema) not in self._namespaces:
            self.read_namespaces()
        return self._namespaces.get(lower_case(schema), lower_case(schema))

    def forget_namespace(self, schema: str) -> None:
        """Remove a dropped schema from the names that are cached."""
        self._namespaces.pop(lower_case(schema), None)

    def find_table(self, namespace: str, name: str) -> tuple[str, str] | None:
        """Return the catalog's spelling of a table's name, and the table's location, or None if the table does not exist."""
        if self._is_path_of_files(namespace, name):
            return None
        check_path_segment("table", name)
        location = self._client.location(namespace, lower_case(name))
        if location is not None:
            return lower_case(name), location
        for catalog_name in self._client.tables(namespace):
            if lower_case(catalog_name) == lower_case(name) and (location := self._client.location(namespace, catalog_name)) is not None:
                return catalog_name, location
        return None

    def load_view(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the metadata of a view (Iceberg View Spec), or None if the catalog does not contain the view."""
        if self._is_path_of_files(namespace, name):
            return None
        check_path_segment("view", name)
        return self._client.load_view(namespace, lower_case(name))

    def _is_path_of_files(self, namespace: str, name: str) -> bool:
        """Return whether a name with a slash belongs to no schema, as the path in ``text.`/data/a.csv` ``, which Spark reads."""
        return "/" in name and namespace not in self._namespaces.values()

    def new_location(self, schema: str, name: str) -> str:
        """Return the location that a new table with this name would have."""
        check_path_segment("schema", schema)
        check_path_segment("table", name)
        if self._warehouse is None:
            return self._client.default_location(self.namespace(schema), lower_case(name))
        return f"{self._warehouse}/{lower_case(schema)}/{lower_case(name)}"
