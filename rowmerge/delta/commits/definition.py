"""The protocol and metadata of a Delta table after the change of a commit."""

from __future__ import annotations

from rowmerge.delta.files.statistics import clustering_columns
from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.definition import metadata_after_alter, metadata_after_clone, metadata_after_replace, metadata_after_restore
from rowmerge.delta.metadata.feature_removal import after_feature_step
from rowmerge.delta.metadata.features import check_writable
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, as_delta_snapshot
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableDefinition


def protocol_and_metadata_after(table: str, base: DeltaSnapshot, change: CommitRequest, now: int) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of the table after a change. If only rows change, both are those of `base`.

    Args:
        table: The name of the table in errors.
        base: The version on which the change was planned.
        change: A CLONE that replaces the table, a RESTORE, a replacement, a change of the definition, or a change of rows only.
        now: The time of the commit, in milliseconds since the epoch.

    Raises:
        UnsupportedTableFeature: The table needs a feature that the engine does not implement.
    """
    protocol, metadata = base.protocol, base.metadata
    if _requires_writable_table(change):
        check_writable(table, protocol, metadata)
    if change.feature_step is not None:
        return after_feature_step(table, protocol, metadata, change.feature_step, base.version + 1)
    # A clone that replaces a table is also a replacement, so `cloned` is checked first.
    if change.cloned is not None:
        source = as_delta_snapshot(change.cloned)
        # A clone has the definition of its source, except for the properties that the statement sets.
        definition = change.definition or TableDefinition()
        return metadata_after_clone(table, (source.protocol, source.metadata), (protocol, metadata), definition, now)
    if change.restored is not None:
        return _restored_definition(table, base, as_delta_snapshot(change.restored))
    if change.replace:
        return metadata_after_replace(table, protocol, metadata, change.definition or TableDefinition())
    if change.definition is None:
        return protocol, metadata
    # ALTER TABLE, or a write that changes the schema. Clustering columns must not be dropped.
    return metadata_after_alter(table, protocol, metadata, change.definition, tuple(clustering_columns(base.state.domains)))


def _requires_writable_table(change: CommitRequest) -> bool:
    """Return whether a change requires that the engine implements every feature of the table before the change.

    A replacement does not depend on these features. ALTER TABLE changes no files, and may unset the property that needs a feature.
    """
    copies_version = change.cloned is not None or change.restored is not None
    changes_only_definition = change.definition is not None and change.files.empty
    return copies_version or not (change.replace or changes_only_definition)


def _restored_definition(table: str, base: DeltaSnapshot, source: DeltaSnapshot) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata after RESTORE to `source`. Raises UnsupportedTableFeature if the engine cannot write that table."""
    protocol, metadata = metadata_after_restore(base.protocol, base.metadata, source.protocol, source.metadata)
    check_writable(table, protocol, metadata)
    return protocol, metadata
