"""ALTER TABLE … DROP FEATURE: the commits and checkpoints of the log, in the order of delta-spark (AlterTableDropFeatureDeltaCommand).

Readers without the feature must not need older versions. So the history is protected. Three checkpoints follow the last version that uses
the feature. The property `delta.requireCheckpointProtectionBeforeVersion` forbids to delete them one by one. A checkpoint follows the
commit that removes the feature. With TRUNCATE HISTORY, the older versions are deleted instead, when they are old enough.

Each step leaves a valid table. After a kill, the statement can run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rowmerge.delta.log.checkpoint_reading import read_checkpoint
from rowmerge.delta.log.checkpoints import write_checkpoint
from rowmerge.delta.log.log_files import LogListing, is_v2_checkpoint, list_log, read_commits
from rowmerge.delta.log.ndjson import Document, non_file_actions
from rowmerge.delta.log.replay import State, has_deletion_vectors
from rowmerge.delta.maintenance.log_cleanup import clean_log
from rowmerge.delta.metadata.actions import Metadata
from rowmerge.delta.metadata.feature_removal import (
    FEATURES_OF_READERS,
    PROVENANCE,
    TYPE_WIDENING_FEATURES,
    after_feature_step,
    metadata_uses,
    properties_without,
    resolve_feature,
)
from rowmerge.delta.metadata.properties import (
    IN_COMMIT_TIMESTAMPS,
    ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
    TYPE_WIDENING,
    is_true,
    protected_before,
)
from rowmerge.delta.metadata.registry import TRUNCATION_RETENTION
from rowmerge.delta.metadata.shape import table_shape
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, as_delta_snapshot
from rowmerge.errors import FeatureInHistory, MetadataChanged
from rowmerge.storage.store import Storage
from rowmerge.table.commits.features import CommitNewest
from rowmerge.table.commits.request import CommitRequest, FeatureStep
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.snapshot import Snapshot

_BARRIER_COUNT = 3
"""The number of protected checkpoints: a client of Delta that cannot read a checkpoint tries two older ones."""


@dataclass(frozen=True)
class DeltaFeatures:
    """The table features of a Delta table. Implements `rowmerge.table.commits.features.TableFeatures`.

    `open_snapshot`: returns the newest version.
    """

    storage: Storage
    table: str
    open_snapshot: Callable[[], DeltaSnapshot]

    def resolve(self, name: str, *, truncates_history: bool) -> str:
        """Return the name of a removable feature. See `resolve_feature`, which raises PlanError."""
        snapshot = self.open_snapshot()
        snapshot.check_writable()
        return resolve_feature(self.table, snapshot.protocol, snapshot.metadata, name, truncates_history=truncates_history)

    def is_used(self, feature: str) -> bool:
        """Return whether the newest version depends on a feature, apart from its protocol."""
        return _uses_feature(feature, self.open_snapshot().state)

    def properties_without(self, feature: str) -> dict[str, str]:
        """Return the properties of the table that disable a feature."""
        return properties_without(feature, self.open_snapshot().metadata)

    def shape_without(self, snapshot: Snapshot, feature: str) -> TableShape:
        """Return the shape of the table after its files are rewritten without a feature.

        Args:
            snapshot: The version whose files are rewritten.
            feature: The feature.
        """
        base = as_delta_snapshot(snapshot)
        step = FeatureStep(feature)
        protocol, metadata = after_feature_step(self.table, base.protocol, base.metadata, step, base.version + 1)
        return table_shape(self.table, self.storage, protocol, metadata)

    def remove(self, feature: str, commit: CommitNewest, *, protects_history: bool) -> int:
        """Remove a feature from the protocol, which the newest version does not use any more, and return the version.

        Args:
            feature: The feature.
            commit: The function that commits a request for the newest version, with retries, and returns the version.
            protects_history: Whether older versions are protected. Otherwise, they are truncated if the feature needs that.

        Raises:
            FeatureInHistory: Versions that use the feature are not old enough to be deleted.
            MetadataChanged: A concurrent commit uses the feature again.
            StorageError: The store failed. The table still has the feature.
        """
        needs_history = feature in FEATURES_OF_READERS or feature == "checkpointProtection"
        is_protected = needs_history and protects_history
        if is_protected:
            for _ in range(_BARRIER_COUNT):
                self._put_barrier(commit)
        elif needs_history:
            self._truncate(feature, commit)
        version = commit(lambda snapshot: self._last_step(snapshot, feature, is_protected))
        if is_protected:
            write_checkpoint(self.storage, self.open_snapshot().state)
        return version

    def begin_truncation(self, commit: CommitNewest, feature: str) -> FeatureInHistory:
        """Write the checkpoint from which the history can be truncated later, and return the error that asks to wait.

        Args:
            commit: The function that commits a request for the newest version.
            feature: The feature, which the statement has just removed from the newest version.
        """
        self._put_barrier(commit)
        return self._must_wait(feature)

    def _put_barrier(self, commit: CommitNewest) -> None:
        """Commit an empty version, and write the checkpoint of the newest one. Delete expired entries of the log."""
        commit(lambda snapshot: CommitRequest("Empty Commit", feature_step=FeatureStep()))
        state = self.open_snapshot().state
        write_checkpoint(self.storage, state)
        clean_log(self.storage, list_log(self.storage), state, _now())

    def _last_step(self, snapshot: Snapshot, feature: str, is_protected: bool) -> CommitRequest:
        """Return the commit that removes a feature from the protocol. Raise MetadataChanged if the version uses the feature again."""
        if feature != "checkpointProtection" and _uses_feature(feature, as_delta_snapshot(snapshot).state):
            raise MetadataChanged(self.table, snapshot.version, "another commit", f"the table uses the feature {feature} again")
        parameters = {"featureName": feature, "truncateHistory": not is_protected and feature in FEATURES_OF_READERS}
        step = FeatureStep(feature, in_protocol=True, protects_history=is_protected)
        return CommitRequest("DROP FEATURE", parameters, feature_step=step)

    def _truncate(self, feature: str, commit: CommitNewest) -> None:
        """Delete the versions that are older than the retention of DROP FEATURE. Raise FeatureInHistory if others use the feature."""
        if feature == "checkpointProtection" and not self._has_protected_versions():
            return
        self._put_barrier(commit)
        state = self.open_snapshot().state
        retention = TRUNCATION_RETENTION.value(state.metadata.configuration)
        clean_log(self.storage, list_log(self.storage), state, _now(), retention=retention)
        is_in_history = self._has_protected_versions() if feature == "checkpointProtection" else self._is_in_history(feature)
        if is_in_history:
            raise self._must_wait(feature)

    def _must_wait(self, feature: str) -> FeatureInHistory:
        properties = self.open_snapshot().metadata.configuration
        return FeatureInHistory(self.table, feature, properties.get(TRUNCATION_RETENTION.name) or str(TRUNCATION_RETENTION.default))

    def _has_protected_versions(self) -> bool:
        """Return whether the log has a version before the one that `delta.requireCheckpointProtectionBeforeVersion` names."""
        protected = protected_before(self.open_snapshot().metadata.configuration)
        listing = list_log(self.storage)
        return any(version < protected for version in (*listing.commits, *(each.version for each in listing.checkpoints)))

    def _is_in_history(self, feature: str) -> bool:
        """Return whether a version in the log uses a feature. Tombstones of the oldest checkpoint do not count: no reader needs them."""
        listing = list_log(self.storage)
        if _is_in_checkpoints(self.storage, listing, feature):
            return True
        return any(_is_in_commit(document, feature) for _, document in read_commits(self.storage, sorted(listing.commits)))


def _is_in_checkpoints(storage: Storage, listing: LogListing, feature: str) -> bool:
    """Return whether the oldest checkpoint uses a feature, or a checkpoint has the form V2 if this is the feature."""
    if feature == "v2Checkpoint" and any(is_v2_checkpoint(path) for each in listing.checkpoints for path in each.paths):
        return True
    oldest = read_checkpoint(storage, listing.checkpoints[-1])
    return metadata_uses(feature, oldest.metadata) or (feature == "deletionVectors" and has_deletion_vectors(oldest))


def _is_in_commit(document: Document, feature: str) -> bool:
    """Return whether a commit uses a feature of readers."""
    if feature == "deletionVectors" and b'"deletionVector":{' in document.data.replace(b" ", b""):
        return True
    return any(metadata_uses(feature, Metadata.of(action["metaData"])) for action in non_file_actions(document) if action.get("metaData"))


def _uses_feature(feature: str, state: State) -> bool:
    """Return whether a version still depends on a feature, apart from its protocol. `feature`: one of REMOVABLE_FEATURES."""
    properties = state.metadata.configuration
    match feature:
        case "deletionVectors" | "columnMapping" | "typeWidening" | "typeWidening-preview" | "v2Checkpoint":
            is_in_files = feature == "deletionVectors" and has_deletion_vectors(state)
            is_enabled = is_true(properties, TYPE_WIDENING) and feature in TYPE_WIDENING_FEATURES
            return is_in_files or is_enabled or metadata_uses(feature, state.metadata)
        case "inCommitTimestamp":
            return is_true(properties, IN_COMMIT_TIMESTAMPS) or any(name in properties for name in PROVENANCE)
        case "rowTracking":
            is_suspended = is_true(properties, ROW_TRACKING_SUSPENDED) and not is_true(properties, ROW_TRACKING)
            return not is_suspended or _has_row_ids(state)
        case "domainMetadata":
            return bool(state.domains)
    return False


def _has_row_ids(state: State) -> bool:
    columns = [state.files.column(name) for name in ("baseRowId", "defaultRowCommitVersion")]
    return any(column.null_count < len(column) for column in columns)


def _now() -> int:
    return time.time_ns() // 1_000_000
