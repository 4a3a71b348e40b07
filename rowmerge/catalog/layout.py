"""What lies in a relation's folder: a Delta table, an Iceberg table, a view, a pointer to a table elsewhere, leftovers, or nothing.

The folder of a relation is `<warehouse>/<schema>/<name>/`. It holds `_delta_log/` (a Delta table), `metadata/v<N>.metadata.json` (an
Iceberg table, or a view after the Iceberg view spec), or a pointer to a table elsewhere. Each name has one folder name, and each folder
name has one name. The next version of a view is put if it is absent, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from rowmerge.catalog.removal import LOG, METADATA, is_dropped
from rowmerge.catalog.views import file_of, version_of
from rowmerge.concurrency import run_concurrently
from rowmerge.delta.log.versions import has_dropped_table
from rowmerge.errors import ConfigurationError, CorruptLog
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage, StoredObject, absolute_location
from rowmerge.table.commits.creation import DROPPED_TABLE
from rowmerge.table.commits.drop_markers import MARKERS
from rowmerge.table.metadata.json_objects import parse_object

POINTER = ".rowmerge-location.json"
"""File in the folder of an external table that says where the table is."""


_NUMBERED = re.compile(r"metadata/v\d+(\.gz|\.zstd)?\.metadata\.json(\.gz)?")


@dataclass(frozen=True)
class DeltaFolder:
    """A Delta table that lives here."""


@dataclass(frozen=True)
class ExternalTable:
    """A table that lives at `location`; `format` is `delta` or `iceberg`."""

    location: str
    format: str


@dataclass(frozen=True)
class IcebergFolder:
    """An Iceberg table that lives here. `versioned`: its metadata files are numbered, so that the folder is the catalog; a table whose
    files are not is another catalog's."""

    versioned: bool = True


@dataclass(frozen=True)
class ViewFolder:
    """A view: its newest version, and the metadata of it."""

    version: int
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Leftovers:
    """A table whose deletion rowmerge 0.1.0 began and did not finish."""


Found = DeltaFolder | ExternalTable | IcebergFolder | ViewFolder | Leftovers


def look(folder: Storage, tables: Cache[bool] | None = None) -> Found | None:
    """What is here. Raises CorruptLog for a pointer or a view's metadata that cannot be read, StorageError.

    Everything that tells a table from what else may be here is asked for at once. `tables` remembers metadata files that are those of
    tables, not of views: while one of them is there, it is the same table.
    """
    asked: list[Callable[[], Any]] = [
        folder.folders,
        partial(is_dropped, folder),
        partial(_has_log, folder),
        partial(folder.list, METADATA),
    ]
    inside, dropped, log, metadata = run_concurrently(asked)
    if (LOG in inside or METADATA in inside) and dropped:
        return Leftovers()
    has_drops = MARKERS in inside
    if LOG in inside and (log or _has_old_log(folder)) and not (has_drops and has_dropped_table(folder)):
        return DeltaFolder()
    if METADATA in inside and (found := _look_at_metadata(folder, metadata, None if has_drops else tables)) is not None:
        return found
    return read_pointer(folder)


def _has_log(folder: Storage) -> bool:
    return any(run_concurrently([partial(folder.exists, f"{LOG}/{name}") for name in (f"{0:020d}.json", "_last_checkpoint")]))


def _has_old_log(folder: Storage) -> bool:
    """Old log entries are cleaned up once a checkpoint holds them; listing a long log is the last resort."""
    return any(o.path.endswith((".json", ".parquet")) for o in folder.list(LOG))


def _look_at_metadata(folder: Storage, inside: Sequence[StoredObject], tables: Cache[bool] | None) -> ViewFolder | IcebergFolder | None:
    objects = {o.path: o for o in inside if o.path.endswith((".metadata.json", ".metadata.json.gz"))}
    newest = max((version for path in objects if (version := version_of(path)) is not None), default=None)
    if newest is None:
        return IcebergFolder(any(_NUMBERED.fullmatch(path) for path in objects)) if objects else None
    path, keys = f"{folder.location}/{file_of(newest)}", [(folder.location, found) for found in objects.values()]
    if tables is not None and any(tables.get(key) for key in keys):
        return IcebergFolder()
    try:
        content = parse_object(folder.get(file_of(newest)), path)
    except FileNotFoundError:  # dropped between the listing and the read
        return None
    if "view-uuid" in content:
        return ViewFolder(newest, content)
    if (content.get("properties") or {}).get(DROPPED_TABLE) == "true":
        return None
    if tables is not None:
        tables.put((folder.location, objects[file_of(newest)]), True, 1)
    return IcebergFolder()


def read_pointer(folder: Storage) -> ExternalTable | None:
    """The external table of this folder, or None. Raises CorruptLog."""
    try:
        data = folder.get(POINTER)
    except FileNotFoundError:
        return None
    path = f"{folder.location}/{POINTER}"
    content = parse_object(data, path)
    location, format_ = content.get("location"), content.get("format", "delta")
    if not isinstance(location, str) or not location or format_ not in ("delta", "iceberg"):
        raise CorruptLog(path, "it names no location, or a format that is not known")
    return ExternalTable(location, format_)


def pointer_to(table: ExternalTable) -> bytes:
    """The content of a new pointer file. It names its writer."""
    return json.dumps({"location": table.location, "format": table.format, "writer": str(uuid4())}, ensure_ascii=False).encode()


def plain_location(location: str) -> str:
    """The absolute form of a location. Raises ConfigurationError when it carries credentials, which it does not repeat."""
    if not location.strip():
        raise ConfigurationError("The location is empty. Give a folder, or a URL such as s3://bucket/folder.")
    location = absolute_location(location)
    if not location.startswith("file://"):
        parts = urlsplit(location)
        account_before_host = parts.scheme.startswith("abfs")  # abfss://container@account.…
        if parts.query or ("@" in parts.netloc and not account_before_host) or ":" in parts.netloc.rpartition("@")[0]:
            raise ConfigurationError(
                f"The {parts.scheme} location carries credentials or a query. "
                f"Give the bare location, and the credentials in storage_options."
            )
    return location
