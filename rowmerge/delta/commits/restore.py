"""RESTORE: an older version's files, schema and properties as the next version."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.concurrency import map_concurrently
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.column_mapping import MAX_ID
from rowmerge.delta.metadata.properties import LOG_PROPERTIES, highest_column_id
from rowmerge.delta.snapshots.deletion_vectors import vector_path
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import MissingDataFile
from rowmerge.storage.store import Storage


def restored_table(protocol: Protocol, metadata: Metadata, wanted: DeltaSnapshot) -> tuple[Protocol, Metadata]:
    """What the table becomes. A protocol is never lowered: versions between the two stay readable by those who can read the newest.

    What the log keeps for its own sake goes on: how commits are timed, which checkpoints are protected, and which ids columns have had.
    """
    configuration = {name: value for name, value in wanted.metadata.configuration.items() if name not in LOG_PROPERTIES}
    configuration |= {name: value for name, value in metadata.configuration.items() if name in LOG_PROPERTIES}
    if MAX_ID in configuration:
        configuration[MAX_ID] = str(max(highest_column_id(configuration), highest_column_id(metadata.configuration)))
    return protocol.with_features(wanted.protocol.features), replace(wanted.metadata, configuration=configuration)


def check_files(storage: Storage, table: str, files: LiveFiles) -> None:
    """Raises MissingDataFile when one of these files, or its deletion vector, was vacuumed meanwhile."""
    vectors = [d for d in files.column("deletionVector").drop_null().to_pylist() if d["storageType"] != "i"]
    paths = sorted(
        {*absolute_paths(storage.location, files.column("path")).to_pylist(), *(vector_path(storage.location, d) for d in vectors)}
    )

    def missing(path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return not storage.at(folder).exists(name)

    for path, is_missing in zip(paths, map_concurrently(missing, paths), strict=True):
        if is_missing:
            raise MissingDataFile(table, path)
