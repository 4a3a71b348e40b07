"""Deletion of the files of a table that has left its catalog."""

from __future__ import annotations

from collections.abc import Iterable

from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.maintenance.orphans import with_checksums
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.properties import GC_ENABLED, file_locations
from rowmerge.storage.deletion import Origin, delete_files
from rowmerge.storage.store import Storage


def delete_dropped_files(storage: Storage, dropped: CurrentMetadata) -> None:
    """Delete the files that the metadata of a dropped table names, data first and metadata last.

    Files outside the table's places stay, such as files that `add_files` registered or the files of a shallow clone's source. So do files
    that the metadata does not name, and all files of a table with `gc.enabled` = false. Raises CorruptLog, StorageError.
    """
    properties = dropped.metadata.properties
    if properties.get(GC_ENABLED, "true").strip().lower() == "false":
        return
    named_files = _named_files(storage, dropped)
    groups = [with_checksums(sorted(plain_path(path) for path in set(paths))) for paths in named_files]
    delete_files(storage, groups, Origin.NAMED, locations=file_locations(properties))
    storage.remove_folders()


def _named_files(storage: Storage, current: CurrentMetadata) -> list[Iterable[str]]:
    """Return the files that metadata names, each group before the group that names it."""
    metadata = current.metadata
    manifest_lists = [snapshot.manifest_list for snapshot in metadata.snapshots]
    manifests = {manifest.path: manifest for path in manifest_lists for manifest in read_manifest_list(storage, path)}
    content = [entry.file.path for entries in read_manifests(storage, list(manifests.values())) for entry in entries]
    log = [entry.metadata_file for entry in metadata.metadata_log]
    statistics = [file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)]
    return [content, manifests, manifest_lists, [*log, *statistics], [current.path]]
