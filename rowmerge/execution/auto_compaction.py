"""Auto-compaction: after a commit that adds data files, combine the small files in the partitions of these files in a second commit.

The rule is that of delta-spark (`AutoCompact`). If a partition with new files has at least `minNumFiles` files below `minFileSize`, these
files are combined into files of up to `maxFileSize`. Files with deletion vectors do not count, unless they are small. A file with more than
5 % deleted rows is combined with other files, but not rewritten alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.compaction import Compaction
from rowmerge.execution.partition_masks import any_partition_mask
from rowmerge.execution.result import Timings
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.plan.file_strategy import Bin, CompactionOptions, bins_to_compact
from rowmerge.spark.peer_settings import CompactionLimits, auto_compact_enabled, compaction_limits
from rowmerge.table.snapshots.files import FileChanges, FileListing
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_PARTITIONS = 128
"""The maximum number of partitions that one compaction combines, as in delta-spark. Those with the most small files come first."""

logger = logging.getLogger(__name__)
_compacted_locations: set[str] = set()
"""The locations of the tables that threads of this process compact at the moment."""
_lock = threading.Lock()


@dataclass(frozen=True)
class AutoCompaction:
    """Compacts Delta tables after the commits of a session. `user_metadata`: a text for the history of the tables, or None."""

    spark: SparkSession
    user_metadata: str | None = None

    def run(self, table: Table, base: Snapshot | None, changes: FileChanges, timings: Timings) -> None:
        """Compact a table after a commit, if its properties or Delta's settings demand it, and the commit leaves many small files.

        Each failure causes only a warning, because the statement has succeeded. The next statement tries again.

        Args:
            table: The table.
            base: The version before the commit, or None if the commit set all files.
            changes: The changes of files in the commit.
            timings: The timings of the statement. A compaction adds the stage `compaction`.
        """
        if table.branches is not None or not changes.added:
            return  # Iceberg has no such property, and without new files there are no more small files than before
        try:
            self._compact_if_due(table, base, changes, timings)
        except Exception as error:  # noqa: BLE001 - an error would let the caller delete the files of the commit, or run it again
            logger.warning("A statement has changed %s, but the auto-compaction after it failed: %s", table.name, error)

    def _compact_if_due(self, table: Table, base: Snapshot | None, changes: FileChanges, timings: Timings) -> None:
        """Compact a table if a partition with new files has many small files. See `run` for the arguments."""
        if base is None and len(changes.added) < compaction_limits(self.spark).min_files:
            return  # the new files are all files
        snapshot = table.snapshot() if base is None else base
        if not self._applies_to(snapshot):
            return
        limits, target_size = self._limits(snapshot)
        files = snapshot.files().rows if base is None else _files_after(snapshot, changes, limits)
        new_paths = [file.path for file in changes.added]
        if not _crowded_partitions(files, new_paths, limits):
            return
        with timings.measure("compaction"), _only_compaction_of(table.location) as is_only:
            if is_only:
                choose_bins = partial(_bins_of_crowded_partitions, snapshot, new_paths, limits)
                options = CommitOptions(retries=0, user_metadata=self.user_metadata)
                Compaction(self.spark, table, "OPTIMIZE", choose_bins, None, options, target_size, is_auto=True).run()

    def _applies_to(self, snapshot: Snapshot) -> bool:
        """Return whether a table has auto-compaction, and OPTIMIZE can rewrite its files."""
        may_rewrite = snapshot.shape.rewrite_blocker is None and not snapshot.clustering_columns
        return may_rewrite and snapshot.settings.auto_compacts(auto_compact_enabled(self.spark))

    def _limits(self, snapshot: Snapshot) -> tuple[CompactionLimits, int]:
        """Return the limits, and the target size of a combined file. The settings of the session precede the properties of the table."""
        limits = compaction_limits(self.spark)
        target_size = limits.max_size or snapshot.settings.for_rewrites.target_file_size or WriteSpec.target_file_size
        return CompactionLimits(limits.min_files, target_size, limits.min_size or target_size // 2), target_size


@contextmanager
def _only_compaction_of(location: str) -> Iterator[bool]:
    """Yield whether no other thread of this process compacts the table at a location.

    Two threads would rewrite the same files, and one of them could not commit.
    """
    with _lock:
        is_only = location not in _compacted_locations
        _compacted_locations.add(location)
    try:
        yield is_only
    finally:
        if is_only:
            with _lock:
                _compacted_locations.discard(location)


def _files_after(base: Snapshot, changes: FileChanges, limits: CompactionLimits) -> pa.Table:
    """Return the paths, sizes and partitions of the files after a commit, without reading the log. Return no files if few are small."""
    files = base.files().rows.select(["path", "size", "partition"])
    small_count = pc.sum(_is_small(files, limits)).as_py() or 0
    if small_count + len(changes.added) < limits.min_files:
        return files.slice(0, 0)
    if changes.removed:
        files = files.filter(pc.invert(pc.is_in(files["path"], value_set=pa.array(changes.removed, pa.string()))))
    new_files = [{"path": file.path, "size": file.size, "partition": dict(file.partition)} for file in changes.added]
    return pa.concat_tables([files, pa.Table.from_pylist(new_files, files.schema)])


def _is_small(files: pa.Table, limits: CompactionLimits) -> pa.ChunkedArray:
    return pc.less(files["size"], limits.min_size)


def _crowded_partitions(files: pa.Table, new_paths: Collection[str], limits: CompactionLimits) -> list[dict[str, Any]]:
    """Return the partitions that contain a new file and many small files, at most _MAX_PARTITIONS of them.

    Args:
        files: The paths, sizes and partitions of the live files.
        new_paths: The paths of the new files.
        limits: The limits, with the size of small files.
    """
    partitions = files["partition"].combine_chunks()
    # Names by position cannot collide with those of the other columns.
    columns = {str(index): values for index, values in enumerate(partitions.flatten())}
    is_new = pc.is_in(files["path"], value_set=pa.array(new_paths, pa.string()))
    rows = pa.table({**columns, "small": _is_small(files, limits), "new": is_new})
    counts = rows.filter(pc.or_(rows["small"], rows["new"])).group_by(list(columns)).aggregate([("small", "sum"), ("new", "any")])
    is_crowded = pc.and_(counts["new_any"], pc.greater_equal(counts["small_sum"], limits.min_files))
    crowded = counts.filter(is_crowded).sort_by([("small_sum", "descending")]).slice(0, _MAX_PARTITIONS)
    names = [field.name for field in partitions.type]
    return [dict(zip(names, (row[column] for column in columns), strict=True)) for row in crowded.to_pylist()]


def _bins_of_crowded_partitions(
    snapshot: Snapshot, new_paths: Collection[str], limits: CompactionLimits, files: FileListing, target_size: int
) -> list[Bin]:
    """Return the small files of crowded partitions, grouped into bins of which each becomes one file.

    Args:
        snapshot: A version of the table, for the names of partition columns.
        new_paths: The paths of the files that the statement added.
        limits: The limits, with the size of small files.
        files: The live files of the newest version. Without a new file, for example in another table of this name, there are no bins.
        target_size: The target size of a new file in bytes.
    """
    partitions = _crowded_partitions(files.rows, new_paths, limits)
    candidates = files.filter(pc.or_(_is_small(files.rows, limits), pc.greater(files.deleted, 0)))
    crowded_files = candidates.filter(any_partition_mask(snapshot, snapshot.partition_columns, partitions)(candidates))
    return bins_to_compact(crowded_files, target_size, CompactionOptions(min_size=limits.min_size, rewrites_single_files=False))
