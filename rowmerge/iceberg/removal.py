"""Deleting the files of a table that no catalog has any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.locations import located
from rowmerge.iceberg.manifests import read_manifest_list, read_manifests
from rowmerge.iceberg.operations import Current
from rowmerge.iceberg.orphans import checksum_of
from rowmerge.storage.store import Storage, local_path


def delete_files(storage: Storage, dropped: Current) -> None:
    """Delete what a table's metadata names, data first and metadata last; a table with `gc.enabled` = false keeps its files.

    Files of others in the same folder stay. Raises CorruptLog for metadata that cannot be read, StorageError.
    """
    if dropped.metadata.properties.get("gc.enabled", "true").lower() == "false":
        return
    lists = [snapshot.manifest_list for snapshot in dropped.metadata.snapshots]
    manifests = list({manifest.path: manifest for path in lists for manifest in read_manifest_list(storage, path)}.values())
    data = {entry.file.path for entries in read_manifests(storage, manifests) for entry in entries}
    for paths in (data, (manifest.path for manifest in manifests), lists, _metadata_files(dropped.metadata), (dropped.path,)):
        _delete(storage, paths)
    storage.remove_folders()


def _metadata_files(metadata: TableMetadata) -> Iterator[str]:
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in metadata.statistics)
    yield from (file.statistics_path for file in metadata.partition_statistics)


def _delete(storage: Storage, paths: Iterable[str]) -> None:
    found: dict[str, tuple[Storage, list[str]]] = {}
    for path in sorted(set(paths)):
        holder, below = located(storage, path)
        found.setdefault(holder.location, (holder, []))[1].append(below)
    for holder, names in found.values():
        holder.delete([*names, *map(checksum_of, names)] if local_path(holder.location) is not None else names)
