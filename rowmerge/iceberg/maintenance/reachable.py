"""The files that snapshots need, from manifest lists to data files, and those that only expired ones needed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.manifests.content import Content, Entry, Manifest
from rowmerge.iceberg.manifests.manifest_files import read_manifest, read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.storage.store import Storage

_AT_ONCE = 64
"""Manifests whose entries are held in memory together."""
_HADOOP = re.compile(r"^s3[an]://")


class FileKind(Enum):
    """In the order in which files may be deleted: what names others goes after them."""

    DATA = "data file"
    POSITION_DELETES = "position-delete file"
    EQUALITY_DELETES = "equality-delete file"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    STATISTICS = "statistics file"


_KINDS = {
    Content.DATA: FileKind.DATA,
    Content.POSITION_DELETES: FileKind.POSITION_DELETES,
    Content.EQUALITY_DELETES: FileKind.EQUALITY_DELETES,
}


def file_key(path: str) -> str:
    """One text for all the ways in which metadata spells the path of a file: Hadoop has three names for S3."""
    return _HADOOP.sub("s3://", plain_path(path))


def needed_files(storage: Storage, metadata: TableMetadata, snapshots: Sequence[IcebergVersion] | None = None) -> dict[str, FileKind]:
    """What snapshots of a table need (None: all), by `file_key`. Raises CorruptLog, UnsupportedTableFeature, StorageError."""
    snapshots = metadata.snapshots if snapshots is None else snapshots
    manifests = _manifests(storage, snapshots)
    found = _content(storage, manifests.values())
    found |= dict.fromkeys(manifests, FileKind.MANIFEST)
    return found | _lists(snapshots) | _statistics(metadata)


def only_expired(storage: Storage, before: TableMetadata, after: TableMetadata) -> dict[str, FileKind]:
    """The files that snapshots of `before` needed and none of `after` needs, by `file_key`.

    What is missing of an expired snapshot was deleted before. Raises as `needed_files` does.
    """
    stay = {snapshot.snapshot_id for snapshot in after.snapshots}
    gone = [snapshot for snapshot in before.snapshots if snapshot.snapshot_id not in stay]
    lists, kept_lists = _lists(gone), _lists(after.snapshots)
    found = {path: kind for path, kind in (lists | _statistics(before)).items() if path not in kept_lists}
    if gone:
        kept = _manifests(storage, after.snapshots)
        manifests = {path: manifest for path, manifest in _manifests(storage, gone, lenient=True).items() if path not in kept}
        files = _content(storage, manifests.values(), lenient=True)
        if files:
            needed = _content(storage, kept.values())
            files = {path: kind for path, kind in files.items() if path not in needed}
        found |= files | dict.fromkeys(manifests, FileKind.MANIFEST)
    statistics = _statistics(after)
    return {path: kind for path, kind in found.items() if path not in statistics}


def _lists(snapshots: Iterable[IcebergVersion]) -> dict[str, FileKind]:
    return {file_key(snapshot.manifest_list): FileKind.MANIFEST_LIST for snapshot in snapshots}


def _statistics(metadata: TableMetadata) -> dict[str, FileKind]:
    files = (*metadata.statistics, *metadata.partition_statistics)
    return {file_key(file.statistics_path): FileKind.STATISTICS for file in files}


def _manifests(storage: Storage, snapshots: Iterable[IcebergVersion], *, lenient: bool = False) -> dict[str, Manifest]:
    """The manifests of some snapshots; `lenient`: what cannot be read is left out."""
    found: dict[str, Manifest] = {}
    for path in {snapshot.manifest_list: None for snapshot in snapshots}:
        with suppress(*((CorruptLog,) if lenient else ())):
            found |= {file_key(manifest.path): manifest for manifest in read_manifest_list(storage, path)}
    return found


def _content(storage: Storage, manifests: Iterable[Manifest], *, lenient: bool = False) -> dict[str, FileKind]:
    """The live files of manifests."""
    found: dict[str, FileKind] = {}
    wanted = list(manifests)
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        for entries in _readable(storage, some) if lenient else read_manifests(storage, some):
            found |= {file_key(entry.file.path): _KINDS[entry.file.content] for entry in entries if entry.live}
    return found


def _readable(storage: Storage, manifests: Iterable[Manifest]) -> Iterator[tuple[Entry, ...]]:
    for manifest in manifests:
        with suppress(CorruptLog):
            yield read_manifest(storage, manifest)
