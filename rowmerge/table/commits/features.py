"""The table features of a Delta table, as ALTER TABLE … DROP FEATURE needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rowmerge.errors import FeatureInHistory
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.snapshot import Snapshot

CommitNewest = Callable[[Callable[[Snapshot], CommitRequest]], int]
"""A function that commits the request that its argument returns for the newest version, with retries, and returns the version."""


class TableFeatures(Protocol):
    """The table features of a Delta table, for ALTER TABLE … DROP FEATURE."""

    def resolve(self, name: str, *, truncates_history: bool) -> str:
        """Return the name of a feature that can be removed from the table, as the protocol spells it.

        Args:
            name: The name in the statement, in any case.
            truncates_history: Whether the statement deletes older versions.

        Raises:
            PlanError: The table does not have the feature, or the feature cannot be removed in this way.
        """

    def is_used(self, feature: str) -> bool:
        """Return whether the newest version depends on a feature, apart from its protocol."""

    def properties_without(self, feature: str) -> dict[str, str]:
        """Return the properties of the table that disable a feature."""

    def shape_without(self, snapshot: Snapshot, feature: str) -> TableShape:
        """Return the shape of the table after its files are rewritten without a feature.

        Args:
            snapshot: The version whose files are rewritten.
            feature: The feature.
        """

    def remove(self, feature: str, commit: CommitNewest, *, protects_history: bool) -> int:
        """Remove a feature from the protocol, which the newest version does not use any more, and return the version.

        Args:
            feature: The feature.
            commit: The function that commits the steps.
            protects_history: Whether older versions are protected. Otherwise, they are truncated if the feature needs that.

        Raises:
            FeatureInHistory: Versions that use the feature are not old enough to be deleted.
            MetadataChanged: A concurrent commit uses the feature again.
            StorageError: The store failed. The table still has the feature.
        """

    def begin_truncation(self, commit: CommitNewest, feature: str) -> FeatureInHistory:
        """Write the checkpoint from which the history can be truncated later, and return the error that asks to wait.

        Args:
            commit: The function that commits the step.
            feature: The feature, which the statement has just removed from the newest version.
        """
