"""Deletion of the files of a table that has left its catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.catalogs.operations import Current
from rowmerge.iceberg.maintenance.orphans import with_checksums
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.properties import GC_ENABLED, file_locations
from rowmerge.storage.deletion import Origin, delete_files
from rowmerge.storage.store import Storage


def delete_dropped_files(storage: Storage, dropped: Current) -> None:
    """Delete the files that the metadata of a dropped table names, data first and metadata last.

    Files outside the table's places stay, such as files that `add_files` registered or the files of a shallow clone's source. So do files
    that the metadata does not name, and all files of a table with `gc.enabled` = false.
    Raises CorruptLog for metadata that cannot be read, StorageError.
    """
    properties = dropped.metadata.properties
    if properties.get(GC_ENABLED, "true").strip().lower() == "false":
        return
    lists = [snapshot.manifest_list for snapshot in dropped.metadata.snapshots]
    manifests = list({manifest.path: manifest for path in lists for manifest in read_manifest_list(storage, path)}.values())
    data = {entry.file.path for entries in read_manifests(storage, manifests) for entry in entries}
    groups: list[Iterable[str]] = [
        data,
        [manifest.path for manifest in manifests],
        lists,
        _metadata_files(dropped.metadata),
        [dropped.path],
    ]
    spelled = [with_checksums(sorted(map(plain_path, set(group)))) for group in groups]
    delete_files(storage, spelled, Origin.NAMED, locations=file_locations(properties))
    storage.remove_folders()


def _metadata_files(metadata: TableMetadata) -> Iterator[str]:
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in metadata.statistics)
    yield from (file.statistics_path for file in metadata.partition_statistics)
