"""ALTER TABLE … DROP FEATURE: make the newest version independent of a table feature, and remove the feature from the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import PlanError
from rowmerge.errors.environment import unreadable_data_file
from rowmerge.execution.commit import Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.compaction import Compaction, purge
from rowmerge.execution.result import ChangeResult, Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.execution.table_change import change_definition
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.filesystems import UnreadableFile, open_data_file
from rowmerge.parquet.fitting import file_column_indexes
from rowmerge.plan.file_strategy import Bin, CompactionOptions, bins_to_compact
from rowmerge.spark.writing.specs import write_spec
from rowmerge.table.commits.features import TableFeatures
from rowmerge.table.commits.request import CommitRequest, FeatureStep
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPERATIONS = {
    "deletionVectors": "Deletion Vector Tombstones",
    "domainMetadata": "DOMAIN METADATA CLEANUP",
    "rowTracking": "ROW TRACKING UNBACKFILL",
    "typeWidening": "CHANGE COLUMNS",
    "typeWidening-preview": "CHANGE COLUMNS",
}
"""The operations of steps in the history of the table, as in delta-spark."""


@dataclass(frozen=True)
class FeatureRemoval:
    """The removal of a table feature.

    `feature`: the name in the statement. `truncates_history`: whether older versions are deleted, instead of protecting them.
    """

    spark: SparkSession
    table: Table
    feature: str
    truncates_history: bool
    options: CommitOptions

    def run(self) -> ChangeResult:
        """Remove the feature, and return the version that no longer has it.

        Raises:
            PlanError: The format of the table has no features, or the feature cannot be dropped in this way.
            FeatureInHistory: With TRUNCATE HISTORY, versions that use the feature are not old enough. The statement can run again later.
            UnsupportedTableFeature: The files of the table must be rewritten, which another feature forbids.
            CommitConflict: All attempts of a commit conflict with concurrent commits.
        """
        features = self.table.features
        if features is None:
            problem = f"{self.table.name} is an Iceberg table, which has a format version instead of features"
            raise PlanError(f"{problem}. Use ALTER TABLE … UNSET TBLPROPERTIES for its properties.")
        feature = features.resolve(self.feature, truncates_history=self.truncates_history)
        was_used = features.is_used(feature)
        if was_used:
            self._make_independent(features, feature)
        if feature == "deletionVectors":
            self._commit_step(feature)  # the deletion vectors of older versions get tombstones
        if was_used and self.truncates_history and feature != "checkpointProtection":
            raise features.begin_truncation(self._commit, feature)
        version = features.remove(feature, self._commit, protects_history=not self.truncates_history)
        return ChangeResult(version, RowCounts(), Timings())

    def _make_independent(self, features: TableFeatures, feature: str) -> None:
        """Disable the feature, and remove it from the files and the metadata of the newest version."""
        properties = features.properties_without(feature)
        if properties != self.table.snapshot().settings.properties:
            change_definition(self.table, "SET TBLPROPERTIES", {"properties": properties}, lambda _: TableDefinition(properties=properties))
        match feature:
            case "deletionVectors":
                purge(self.spark, self.table, None, self.options)
            case "typeWidening" | "typeWidening-preview":
                self._compaction("REORG", self._narrow_files).run()
                self._commit_step(feature)
            case "columnMapping":
                step = FeatureStep(feature)
                shape_of = partial(features.shape_without, feature=feature)
                self._compaction("REMOVE COLUMN MAPPING", _all_files, step, shape_of).run()
            case "rowTracking" | "domainMetadata":
                self._commit_step(feature)

    def _compaction(
        self,
        operation: str,
        choose_bins: Callable[[FileListing, int], list[Bin]],
        step: FeatureStep | None = None,
        shape_of: Callable[[Snapshot], TableShape] | None = None,
    ) -> Compaction:
        return Compaction(self.spark, self.table, operation, choose_bins, None, self.options, feature_step=step, shape_of=shape_of)

    def _narrow_files(self, files: FileListing, target: int) -> list[Bin]:
        """Return the files in which a column has an older, narrower type than in the table."""
        spec = write_spec(self.table.snapshot().shape)
        narrow_files = map_concurrently(partial(is_narrow, self.table.name, spec), files.paths)
        return _all_files(files.with_paths([path for path, narrow in zip(files.paths, narrow_files, strict=True) if narrow]), target)

    def _commit_step(self, feature: str) -> None:
        self._commit(lambda snapshot: CommitRequest(_OPERATIONS[feature], feature_step=FeatureStep(feature), data_change=False))

    def _commit(self, request_for: Callable[[Snapshot], CommitRequest]) -> int:
        """Commit a request for the newest version, with retries, and return the version."""

        def attempt() -> Attempt:
            snapshot = self.table.snapshot()
            return Attempt(snapshot, request_for(snapshot), RowCounts())

        return commit_with_retry(self.table, attempt, Timings(), self.options).version


def _all_files(files: FileListing, target: int) -> list[Bin]:
    """Return all files, grouped into bins of which each is rewritten as one file."""
    return bins_to_compact(files, target, CompactionOptions(rewrites_all=True))


def is_narrow(table: str, spec: WriteSpec, path: str) -> bool:
    """Return whether a file stores a column in another type than new files.

    Args:
        table: The name of the table, for errors.
        spec: The settings with which new files of the table are written.
        path: The path of the file.

    Raises:
        MissingDataFile, UnreadableDataFile: The file is missing or damaged.
    """
    try:
        with open_data_file(path, spec.filesystem_options, by_field_id=spec.by_field_id) as source:
            schema = source.schema_arrow
    except UnreadableFile as error:
        raise unreadable_data_file(table, path, error.reason) from error
    indexes = file_column_indexes(schema, spec.file_schema, by_field_id=spec.by_field_id)
    pairs = zip(indexes, spec.file_schema, strict=True)
    return any(index is not None and schema.field(index).type != column.type for index, column in pairs)
