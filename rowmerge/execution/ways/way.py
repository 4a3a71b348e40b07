"""The interface of a way of execution: the request that it receives, and the result that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NewType

from rowmerge.execution.ways.target_files import PruningKey, TargetFiles, pruning_keys, target_files
from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.plan.row_plan import Effect, RowPlan, SourceRows, is_upsert, keys_decide, needed_columns, only_kept_columns
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.source.keys import contains_times
from rowmerge.spark.source.source import Prepare, Source, SourceRowsOnce
from rowmerge.spark.source.writing import FEW_BYTES
from rowmerge.spark.spark_session import analyses_later
from rowmerge.spark.types import estimated_row_bytes
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.schema import Primitive
from rowmerge.table.metadata.shape import Lineage, TableShape
from rowmerge.table.snapshots.files import FileListing, FileMask, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE_STEP, SCAN_STEP = "source", "scan"
"""The steps that precede the writing of rows: the evaluation of a source whose rows are kept, and a lookup of the target rows."""


@dataclass(frozen=True)
class PlannedStatement:
    """The plan of a statement, and its source.

    `source`: None for a statement without a source. `reads_table`: whether the source or a subquery reads the table that the statement
    changes.
    """

    plan: RowPlan
    source: SourceRowsOnce | None = None
    reads_table: bool = False


@dataclass(frozen=True)
class RowChangeRequest:
    """One attempt to execute a statement on one version of its table.

    `measure`: returns a context manager that adds the time of its block to a stage, `plan` or `spark`. `measure_step`: returns one that
    adds the time of its block to a step of the stage `spark`, SOURCE_STEP or SCAN_STEP.
    """

    spark: SparkSession
    snapshot: Snapshot
    planned: PlannedStatement
    measure: Callable[[str], AbstractContextManager[None]]
    measure_step: Callable[[str], AbstractContextManager[None]] = lambda step: nullcontext()

    @property
    def plan(self) -> RowPlan:
        """The plan of the statement."""
        return self.planned.plan

    @property
    def source(self) -> SourceRowsOnce:
        """The source of the statement, which must have one. Every statement with an ON condition has a source."""
        assert self.planned.source is not None
        return self.planned.source

    @property
    def key_pairs(self) -> tuple[KeyPair, ...]:
        """The pairs of a target column and a source expression that the ON condition compares."""
        return () if self.plan.on is None else self.plan.on.keys

    @cached_property
    def table_after(self) -> TableShape:
        """The shape of the table with the schema after the statement, and with the settings of rewritten files. New files have both."""
        shape = self.snapshot.shape if self.plan.new_schema is None else self.snapshot.evolved(self.plan.new_schema)
        settings = shape.settings.for_rewrites
        return shape if settings is shape.settings else replace(shape, settings=settings)

    @cached_property
    def change_data_location(self) -> str | None:
        """The folder for change rows, or None if the statement writes none. The data files of inserts are their own change feed."""
        inserts_only = all(clause.effect is Effect.INSERT for clause in self.plan.clauses)
        return None if inserts_only else self.snapshot.shape.change_data_location

    @cached_property
    def lineage(self) -> Lineage | None:
        """The hidden columns that updated rows keep, or None if no row is updated or the table does not track row lineage."""
        return self.snapshot.shape.row_lineage if self.updates_rows else None

    @property
    def updates_rows(self) -> bool:
        """Whether a clause is an UPDATE."""
        return any(clause.effect is Effect.UPDATE for clause in self.plan.clauses)

    @property
    def distribution(self) -> Distribution | None:
        """The distribution of the written rows among tasks, or None to distribute them like the rows of an INSERT."""
        return self.snapshot.settings.operation_distribution(self.plan.operation)

    @cached_property
    def is_upsert(self) -> bool:
        """Whether each source row becomes the same new row, with or without a match."""
        return is_upsert(self.plan)

    @cached_property
    def do_keys_decide(self) -> bool:
        """Whether the keys alone decide the result. The value is cached, because parsing the clauses of a wide table takes seconds."""
        return keys_decide(self.plan)

    @cached_property
    def needed_columns(self) -> frozenset[str] | None:
        """The names of the target's columns that the ON condition and the clauses read or keep. None if they cannot be determined."""
        return needed_columns(self.plan)

    @cached_property
    def late_columns(self) -> frozenset[str]:
        """The columns that updated rows keep and nothing else needs, so that the writer can read their values from the target's files.

        Then Spark does not read, shuffle and convert them. Empty if they are few. Columns by which rows are distributed are not late, and
        sorted rows and change files need all columns. Arrow cannot convert all times of Spark 2 (`to_gregorian`), so Spark reads them.
        """
        schema, partitioning = self.snapshot.schema, self.table_after.partitioning
        if self.table_after.ordering or self.change_data_location is not None:
            return frozenset()
        other_columns = {*self.snapshot.partition_columns, *(field.column[0] for field in partitioning)}
        other_columns |= {field.name for field in schema if field.type != Primitive("date") and contains_times(field.type)}
        columns = only_kept_columns(self.plan) - other_columns
        if columns and columns == self.needed_columns:  # a scan reads at least one column
            columns -= {min(sorted(columns), key=lambda name: estimated_row_bytes(schema.select((name,))))}
        return columns if estimated_row_bytes(schema.select(tuple(columns))) >= MIN_LATE_ROW_BYTES else frozenset()

    @property
    def joined_columns(self) -> frozenset[str] | None:
        """The target's columns that a scan or a join with the source must read, or None for all of them.

        The change data feed needs every column. Spark's own reader skips the columns that a query does not use. Arrow, which reads the
        small files of a table with many of them, reads all columns of the DataFrame.
        """
        return None if self.change_data_location is not None else self.needed_columns or None

    @property
    def inserts_every_source_row(self) -> bool:
        """Whether each source row becomes a new row, with or without a match."""
        return self.is_upsert or self.plan.source_rows is SourceRows.ALL

    def max_keys(self, limit: int) -> int:
        """Return the maximum number of source rows whose keys the driver collects for a lookup, 0 for the default of `evaluate_source`.

        On Spark Connect, the keys are part of each request to the server, so only the default applies.

        Args:
            limit: The maximum number on other sessions, which send the keys to executors once.
        """
        return 0 if analyses_later(self.spark) else limit

    def read_target(self, files: FileListing, columns: frozenset[str] | None = None, *, with_lineage: bool = False) -> DataFrame:
        """Return the live rows of files of the target, with their addresses and the metadata columns that the statement uses.

        Args:
            files: The files.
            columns: The names of the columns to read, None for all.
            with_lineage: Whether to add the hidden columns that updated rows keep.
        """
        return read_snapshot(
            self.spark,
            self.snapshot,
            files,
            columns,
            with_addresses=True,
            with_lineage=with_lineage and self.lineage is not None,
            metadata_columns=self.plan.metadata_columns.names,
        )

    def materialize_source(self, *, max_keys: int = 0, prepare: Prepare | None = None) -> Source:
        """Evaluate the source once, and keep its rows. See `evaluate_source` for the arguments."""
        with self.measure_step(SOURCE_STEP):
            return self.source.materialize(self.key_pairs, max_keys=max_keys, prepare=prepare)

    @cached_property
    def files(self) -> TargetFiles:
        """The files that the conditions of the statement select. The keys of its source are not applied."""
        return self._select_files(())

    def files_for(self, source: Source) -> TargetFiles:
        """Return the files that the conditions of the statement and the keys of an evaluated source select."""
        keys = pruning_keys(self.snapshot, self.plan, source)
        return self._select_files(keys) if keys else self.files

    def _select_files(self, keys: Sequence[PruningKey]) -> TargetFiles:
        """Return the files that the conditions of the statement and these keys select."""
        with self.measure("plan"):
            return target_files(self.snapshot, self.plan, keys, writes_change_rows=self.change_data_location is not None)


MIN_LATE_ROW_BYTES = 32
"""The minimum estimated size in bytes of the `late_columns` of one row. Spark reads smaller columns as fast as the writer copies them."""
Reason = NewType("Reason", str)
"""The reason why a way does not apply, as a short clause that EXPLAIN prints."""

SOURCE_READS_FEW_BYTES = Reason(f"the source reads at most {FEW_BYTES // 2**20} MiB of files")


@dataclass(frozen=True)
class ExecutionResult:
    """The rows of one statement, written but not committed.

    Attributes:
        output: The new files, and the positions of updated and deleted rows.
        files: The files of the target that the statement read.
        source: The evaluated source, or None if the statement has none.
        insert_preventing_rows: The positions of unchanged target rows whose match prevents the insert of a source row, by file path. None
            means that the positions are unknown, so all rows of the files count.
        matching: The mask that selects the files of concurrent commits with rows that the statement would have read.
    """

    output: WriteOutput
    files: TargetFiles
    source: Source | None
    insert_preventing_rows: Mapping[str, Positions] | None
    matching: FileMask


@dataclass(frozen=True)
class NotApplicable:
    """The result of a way whose `run` shows that it does not apply. `output`: the written files, which the caller deletes."""

    reason: Reason
    output: WriteOutput = field(default_factory=WriteOutput)


@dataclass(frozen=True)
class Way:
    """One way to execute a row-level statement.

    `rejection_reason` returns why the way does not apply, or None if it does. The function reads metadata only and runs no Spark job.
    `run` finds and writes the rows. `fallback_condition`: the condition under which `run` returns NotApplicable, or "" if it never does.
    """

    name: str
    rejection_reason: Callable[[RowChangeRequest], Reason | None]
    run: Callable[[RowChangeRequest], ExecutionResult | NotApplicable]
    fallback_condition: str = ""
