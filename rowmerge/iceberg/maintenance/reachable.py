"""The files that snapshots need, from manifest lists to data files, and the files that only expired snapshots need."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import TypeVar

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.manifests.content import Entry, Manifest
from rowmerge.iceberg.manifests.manifest_files import read_manifest, read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.storage.store import Storage

T = TypeVar("T")
_BATCH = 64
"""The number of manifests whose entries are in memory at the same time."""
_S3_SCHEME = re.compile(r"^s3[an]://")


class FileKind(Enum):
    """Kinds of files in the order of their deletion: a file is deleted after the files to which it refers."""

    # The first three have the names of `Content`.
    DATA = "data file"
    POSITION_DELETES = "position-delete file"
    EQUALITY_DELETES = "equality-delete file"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    STATISTICS = "statistics file"


def file_key(path: str) -> str:
    """Return the same key for all spellings of a file's path in metadata. Hadoop has three schemes for S3."""
    return _S3_SCHEME.sub("s3://", plain_path(path))


def needed_files(storage: Storage, metadata: TableMetadata, snapshots: Sequence[Snapshot] | None = None) -> dict[str, FileKind]:
    """Return the kinds of the files that snapshots need, by `file_key`.

    Args:
        storage: The storage of the table.
        metadata: The metadata of the table. All of its statistics files are needed.
        snapshots: The snapshots, or None for all snapshots in `metadata`.

    Raises:
        CorruptLog: A manifest or manifest list is damaged or missing.
        StorageError: A manifest or manifest list cannot be read.
        UnsupportedTableFeature: A manifest is encrypted.
    """
    snapshots = metadata.snapshots if snapshots is None else snapshots
    manifests = _manifests(storage, snapshots)
    # Each of these dicts contains the kinds of some files by `file_key`.
    files = _content_files(storage, manifests.values()) | dict.fromkeys(manifests, FileKind.MANIFEST)
    return files | _manifest_lists(snapshots) | _statistics(metadata)


def files_of_expired_snapshots(storage: Storage, old_metadata: TableMetadata, new_metadata: TableMetadata) -> dict[str, FileKind]:
    """Return the kinds of the files that only expired snapshots need, by `file_key`. These files can be deleted.

    Snapshots share manifests, data files and delete files. So the files of the remaining snapshots are subtracted, kind by kind.

    Args:
        storage: The storage of the table.
        old_metadata: The metadata with the expired snapshots.
        new_metadata: The metadata with the remaining snapshots.

    Raises:
        CorruptLog: A manifest or manifest list of a remaining snapshot is damaged or missing.
        StorageError: A manifest or manifest list cannot be read.
        UnsupportedTableFeature: A manifest is encrypted.
    """
    remaining_ids = {snapshot.snapshot_id for snapshot in new_metadata.snapshots}
    expired_snapshots = [snapshot for snapshot in old_metadata.snapshots if snapshot.snapshot_id not in remaining_ids]
    # The metadata itself refers to manifest lists and statistics files, so no file must be read for them.
    files = _without(_manifest_lists(expired_snapshots) | _statistics(old_metadata), _manifest_lists(new_metadata.snapshots))
    if expired_snapshots:  # else only statistics files may have become unnecessary
        files |= _content_of_expired(storage, expired_snapshots, new_metadata.snapshots)
    # The statistics files of the remaining snapshots stay, too. They come last, because `files` may contain them from the old metadata.
    return _without(files, _statistics(new_metadata))


def _content_of_expired(storage: Storage, expired: Sequence[Snapshot], remaining: Sequence[Snapshot]) -> dict[str, FileKind]:
    """Return the manifests, data files and delete files that only expired snapshots need."""
    remaining_manifests = _manifests(storage, remaining)
    # If a manifest list or manifest of an expired snapshot is missing, an earlier expiry has deleted it.
    manifests = _without(_manifests(storage, expired, lenient=True), remaining_manifests)
    files = _content_files(storage, manifests.values(), lenient=True)
    if files:
        files = _without(files, _content_files(storage, remaining_manifests.values()))
    return files | dict.fromkeys(manifests, FileKind.MANIFEST)


def _without(files: Mapping[str, T], excluded: Container[str]) -> dict[str, T]:
    return {path: file for path, file in files.items() if path not in excluded}


def _manifest_lists(snapshots: Iterable[Snapshot]) -> dict[str, FileKind]:
    return {file_key(snapshot.manifest_list): FileKind.MANIFEST_LIST for snapshot in snapshots}


def _statistics(metadata: TableMetadata) -> dict[str, FileKind]:
    files = (*metadata.statistics, *metadata.partition_statistics)
    return {file_key(file.statistics_path): FileKind.STATISTICS for file in files}


def _manifests(storage: Storage, snapshots: Iterable[Snapshot], *, lenient: bool = False) -> dict[str, Manifest]:
    """Return the manifests of snapshots by `file_key`. If `lenient` is true, skip unreadable manifest lists."""
    manifests: dict[str, Manifest] = {}
    for path in {snapshot.manifest_list: None for snapshot in snapshots}:
        with suppress(*((CorruptLog,) if lenient else ())):
            manifests |= {file_key(manifest.path): manifest for manifest in read_manifest_list(storage, path)}
    return manifests


def _content_files(storage: Storage, manifests: Iterable[Manifest], *, lenient: bool = False) -> dict[str, FileKind]:
    """Return the live files of manifests by `file_key`. If `lenient` is true, skip unreadable manifests."""
    files: dict[str, FileKind] = {}
    manifests = list(manifests)
    for start in range(0, len(manifests), _BATCH):
        batch = manifests[start : start + _BATCH]
        for entries in _read_leniently(storage, batch) if lenient else read_manifests(storage, batch):
            files |= {file_key(entry.file.path): FileKind[entry.file.content.name] for entry in entries if entry.live}
    return files


def _read_leniently(storage: Storage, manifests: Iterable[Manifest]) -> Iterator[tuple[Entry, ...]]:
    for manifest in manifests:
        with suppress(CorruptLog):
            yield read_manifest(storage, manifest)
