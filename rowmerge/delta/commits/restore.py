"""RESTORE: return the definition of the restored table, and check that the restored files still exist."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rowmerge.concurrency import map_concurrently
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.column_mapping import MAX_ID
from rowmerge.delta.metadata.properties import LOG_PROPERTIES, highest_column_id
from rowmerge.delta.snapshots.deletion_vectors import file_and_vector_paths
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import MissingDataFile
from rowmerge.storage.store import Storage


def restore_definition(protocol: Protocol, metadata: Metadata, restored: DeltaSnapshot) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of a table, now `protocol` and `metadata`, after its RESTORE to the version `restored`.

    The protocol keeps its features, so that a reader of the newest version can still read the versions before it. Properties of the log
    stay, too: in-commit timestamps, protected checkpoints, and the highest column id.
    """
    configuration = {name: value for name, value in restored.metadata.configuration.items() if name not in LOG_PROPERTIES}
    configuration |= {name: value for name, value in metadata.configuration.items() if name in LOG_PROPERTIES}
    if MAX_ID in configuration:
        configuration[MAX_ID] = str(max(highest_column_id(configuration), highest_column_id(metadata.configuration)))
    return protocol.with_features(restored.protocol.features), replace(restored.metadata, configuration=configuration)


def check_files(storage: Storage, table: str, files: LiveFiles) -> None:
    """Raise MissingDataFile if one of these files, or its deletion vector, was vacuumed meanwhile. Raises StorageError, CorruptLog."""
    paths = sorted(set(file_and_vector_paths(storage.location, files.column("path"), files.column("deletionVector"))))
    results = map_concurrently(partial(_file_exists, storage), paths)
    for path, exists in zip(paths, results, strict=True):
        if not exists:
            raise MissingDataFile(table, path)


def _file_exists(storage: Storage, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return storage.at(folder).exists(name)
