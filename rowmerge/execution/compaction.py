"""OPTIMIZE and REORG: files written again, fewer of them and without their deleted rows; no row changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Delete
from rowmerge.errors import PlanError, RowsMustStay, UnknownColumn, UnsupportedTableFeature
from rowmerge.execution.commit import AS_THE_TABLE_SAYS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import ChangeResult, RowChanges, Timings
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.plan.bins import Bin, Wishes, bins_to_compact, bins_to_purge
from rowmerge.plan.planner import plan_delete
from rowmerge.spark.distribution import Parts
from rowmerge.spark.failures import translated
from rowmerge.spark.scan import deleted_rows, files_where
from rowmerge.spark.types import empty_frame, schema_of
from rowmerge.spark.write import Rewrite, rewrite_files, rewrite_in_order
from rowmerge.table.files import FileChanges, Positions
from rowmerge.table.snapshot import Change, Reads, Snapshot, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Choose = Callable[[pa.Table, int], list[Bin]]
"""The bins to write, of a file listing, for a size that files should have."""
_NO_WISHES = Wishes()


@dataclass(frozen=True)
class Sizes:
    """Sizes of some files in bytes."""

    sizes: Sequence[int] = ()

    @property
    def total(self) -> int:
        return sum(self.sizes)

    @property
    def average(self) -> float:
        return self.total / len(self.sizes) if self.sizes else 0.0


@dataclass(frozen=True)
class Compacted:
    """What a compaction did. `considered`: files that it looked at; `vectors` and `rows`: deletion vectors and deleted rows that went."""

    considered: int = 0
    bins: int = 0
    partitions: int = 0
    added: Sizes = field(default_factory=Sizes)
    removed: Sizes = field(default_factory=Sizes)
    vectors: int = 0
    rows: int = 0

    @property
    def metrics(self) -> dict[str, int]:
        """Delta's names for them in the history (DeltaOperations.scala)."""
        ordered = sorted(self.added.sizes) or [0]
        quarters = {f"p{25 * n}FileSize": ordered[len(ordered) * n // 4] for n in (1, 2, 3)}
        return {
            "numRemovedFiles": len(self.removed.sizes),
            "numRemovedBytes": self.removed.total,
            "numAddedFiles": len(self.added.sizes),
            "numAddedBytes": self.added.total,
            "minFileSize": ordered[0],
            **quarters,
            "maxFileSize": ordered[-1],
            "numDeletionVectorsRemoved": self.vectors,
            "numDeletionVectorRowsRemoved": self.rows,
        }


@dataclass
class Compaction:
    """One OPTIMIZE or REORG. `condition` is about partition columns, None for the whole table; with `by_bounds` it may be about any, and
    files go that may hold a row for which it is true. `target`: bytes of a file, None for what the table says."""

    spark: SparkSession
    table: Table
    operation: str
    choose: Choose
    condition: str | None
    options: CommitOptions = AS_THE_TABLE_SAYS
    target: int | None = None
    by_bounds: bool = False
    timings: Timings = field(default_factory=Timings)
    compacted: Compacted = field(default_factory=Compacted)

    def run(self) -> tuple[ChangeResult, Compacted]:
        """Write and commit; from the beginning when somebody changed the files meanwhile.

        Raises CommitConflict, PlanError for a condition on other columns, UnsupportedTableFeature.
        """
        result = commit_with_retry(self.table, self._attempt, self.timings, self.options)
        return result, self.compacted

    def _attempt(self) -> Attempt:
        with self.timings.measure("plan"):
            snapshot = self.table.snapshot()
            snapshot.check_writable()
            if snapshot.rows_stay_for is not None:
                raise RowsMustStay(snapshot.name, snapshot.rows_stay_for, "rewrite files of")
            files = self._considered(snapshot)
            target = self.target or snapshot.target_file_size or WriteSpec.target_file_size
            bins = self.choose(files, target)
        if not bins:
            self.compacted = Compacted(considered=files.num_rows)
            return Attempt(snapshot, None, RowChanges())
        paths = [path for chosen in bins for path in chosen.paths]
        partitions = len({tuple(chosen.partition.values()) for chosen in bins})
        leaving = files.filter(pc.is_in(files["path"], value_set=pa.array(paths, pa.string())))
        with self.timings.measure("spark"):
            deleted = deleted_rows(self.spark, snapshot, paths)
            if snapshot.ordering:
                parts = Parts(len(bins), partitions)
                written = rewrite_in_order(self.spark, snapshot, leaving, parts, target_size=target)
            else:
                rewrites = [Rewrite({path: deleted.get(path, Positions()) for path in b.paths}, b.partition, b.size) for b in bins]
                written = rewrite_files(self.spark, snapshot, rewrites, target_size=target)
        self.compacted = Compacted(
            considered=files.num_rows,
            bins=len(bins),
            partitions=partitions,
            added=Sizes([file.size for file in written.files]),
            removed=Sizes(leaving["size"].to_pylist()),
            vectors=len(deleted),
            rows=sum(len(positions) for positions in deleted.values()),
        )
        change = Change(
            self.operation,
            parameters=self._parameters(),
            metrics=self.compacted.metrics,
            files=FileChanges(tuple(written.files), tuple(paths)),
            reads=Reads(frozenset(paths)),
            data_change=False,
        )
        changes = RowChanges(files_added=len(written.files), files_removed=len(paths), bytes_added=self.compacted.added.total)
        return Attempt(snapshot, change, changes, tuple(written.files))

    def _considered(self, snapshot: Snapshot) -> pa.Table:
        files = snapshot.files()
        if self.condition is None:
            return files
        try:
            with translated(self.condition, snapshot.name):
                return files_where(self.spark, snapshot, files, self.condition)
        except UnknownColumn as error:
            if snapshot.schema.find(error.name.rsplit(".", 1)[-1]) is None:
                raise
            if self.by_bounds:
                return self._holding(snapshot, self.condition)
            partition = ", ".join(f"`{name}`" for name in snapshot.partition_columns) or "none"
            raise PlanError(
                f"{self.operation} {snapshot.name} WHERE takes whole partitions, and `{error.name}` is no partition column "
                f"(there are: {partition}). Leave WHERE out, or name partition columns only."
            ) from error

    def _holding(self, snapshot: Snapshot, condition: str) -> pa.Table:
        """The files that may hold a row for which a condition is true, by their bounds."""
        name = TableName(tuple(snapshot.name.split(".")[-1:]))
        with translated(condition, snapshot.name):
            # For Spark to judge: a plan leaves out no file for what it does not understand.
            schema_of(empty_frame(self.spark, snapshot.schema).alias(name.parts[0]).where(condition))
        plan = plan_delete(Delete(name, None, SqlText(condition)), snapshot)
        files = snapshot.files(plan.bound_columns)
        return files.filter(pc.fill_null(plan.files(files), True))

    def _parameters(self) -> dict[str, object]:
        predicate: dict[str, object] = {"predicate": [] if self.condition is None else [self.condition]}
        if self.operation == "REORG":
            return {**predicate, "applyPurge": True}
        return {**predicate, "zOrderBy": [], "clusterBy": [], "auto": False}


def optimize(
    spark: SparkSession,
    table: Table,
    condition: str | None,
    options: CommitOptions = AS_THE_TABLE_SAYS,
    wishes: Wishes = _NO_WISHES,
    *,
    by_bounds: bool = False,
) -> tuple[ChangeResult, Compacted]:
    """OPTIMIZE: small files and files with many deleted rows are written together. `by_bounds`: see `Compaction`."""
    snapshot = table.snapshot()
    if snapshot.clustered_by:
        columns = ", ".join(snapshot.clustered_by)
        advice = f"Its files are clustered by {columns}: optimize it in an engine that clusters, or use REORG TABLE … APPLY (PURGE)."
        raise UnsupportedTableFeature(snapshot.name, "clustering", action="optimize", advice=advice)
    choose = partial(bins_to_compact, wishes=wishes)
    return Compaction(spark, table, "OPTIMIZE", choose, condition, options, wishes.target, by_bounds).run()


def purge(
    spark: SparkSession, table: Table, condition: str | None, options: CommitOptions = AS_THE_TABLE_SAYS
) -> tuple[ChangeResult, Compacted]:
    """REORG … APPLY (PURGE): every file with deleted rows is written again without them."""
    return Compaction(spark, table, "REORG", bins_to_purge, condition, options).run()
