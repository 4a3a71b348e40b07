"""Orphan files: what lies in a table's folder and nothing refers to, left by statements that were killed or lost a race."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Sequence

from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.catalogs.operations import FOLDER, Current
from rowmerge.iceberg.catalogs.version_hint import HINT
from rowmerge.iceberg.maintenance.reachable import file_key
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import StoredObject, local_path
from rowmerge.table.commits.inner_tables import inner_tables

_NUMBERED = re.compile(rf"{FOLDER}/v(\d+)\.")


def orphans(location: str, current: Current, needed: Collection[str], found: Sequence[StoredObject], before: int) -> list[str]:
    """Paths below a table's location: those of `found` (a listing) that are older than `before` (ms) and not needed.

    `needed`: what the snapshots need, by `file_key`. Hidden files stay, files of tables in folders below, and metadata files that the
    metadata log names or that are newer than the table's; so does a file that is called like one that is needed elsewhere, for one
    place may have several names.
    """
    kept = {file_key(path) for path in (current.path, *(entry.metadata_file for entry in current.metadata.metadata_log)) if path}
    inside, elsewhere = _divided(location, {*needed, *kept})
    inner = inner_tables(found)
    prefixes = _partition_prefixes(current.metadata)
    checksums = {o.path for o in found if o.path.endswith(".crc")}
    going: list[str] = []
    for candidate in found:
        path = candidate.path
        if candidate.modified >= before or path in inside or path == HINT or posixpath.basename(path) in elsewhere:
            continue
        if path.startswith(inner) or _is_hidden(path, prefixes) or _is_newer(path, current):
            continue
        going.append(path)
        if (checksum := checksum_of(path)) in checksums:
            going.append(checksum)
    # The oldest metadata goes first: a writer that sleeps on it must not find the next one gone and its own still there.
    return sorted(going, key=lambda path: (_number(path), path))


def checksum_of(path: str) -> str:
    """Return the path at which Hadoop's local file system keeps the checksums of a file."""
    folder, _, name = path.rpartition("/")
    return posixpath.join(folder, f".{name}.crc")


def with_checksums(paths: Sequence[str]) -> list[str]:
    """Return absolute paths, and for those on a disk also the checksum files that Hadoop's local file system writes beside them."""
    return [*paths, *(checksum_of(path) for path in paths if local_path(path) is not None)]


def _divided(location: str, paths: Collection[str]) -> tuple[set[str], set[str]]:
    """Those below the location, relative to it; and the names of all others."""
    root = file_key(location)
    inside, elsewhere = set(), set()
    for path in paths:
        if path.startswith(f"{root}/"):
            inside.add(posixpath.normpath(path[len(root) + 1 :]))
        elif (real := _really_inside(location, path)) is not None:
            inside.add(real)
        else:
            elsewhere.add(posixpath.basename(path))
    return inside, elsewhere


def _really_inside(location: str, path: str) -> str | None:
    """On a disk, a path below a location that has another name through symbolic links."""
    root, file = local_path(location), local_path(path)
    if root is None or file is None:
        return None
    real = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
    return None if real.startswith("..") else real


def _partition_prefixes(metadata: TableMetadata) -> tuple[str, ...]:
    """How the folders of partitions begin whose names would hide them."""
    return tuple(f"{field.name}=" for spec in metadata.partition_specs for field in spec.fields if field.name[:1] in "._")


def _is_hidden(path: str, prefixes: tuple[str, ...]) -> bool:
    return any(part.startswith((".", "_")) and not part.startswith(prefixes) for part in path.split("/"))


def _is_newer(path: str, current: Current) -> bool:
    """Whether this is metadata that follows the version that was looked at. A temporary file is none."""
    return not is_temporary(path) and current.version is not None and _number(path) >= current.version


def _number(path: str) -> int:
    match = _NUMBERED.match(path)
    return int(match[1]) if match else -1
