"""MERGE, UPDATE, DELETE and INSERT … REPLACE: one attempt, from plan to FileChanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowmerge.commands.rows import Match
from rowmerge.errors import MultipleSourceRowsMatch, RowsMustStay
from rowmerge.execution.by_keys import ChangeByKeys, keys_tell_all
from rowmerge.execution.commit import AS_THE_TABLE_SAYS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.file_changes import file_changes
from rowmerge.execution.metrics import row_changes, row_metrics
from rowmerge.execution.result import ChangeResult, Timings
from rowmerge.plan.key_ranges import key_condition
from rowmerge.plan.pruning import all_of, everything, key_mask, range_mask
from rowmerge.plan.row_plan import Effect, RowPlan, SourceRows
from rowmerge.spark.added_files import files_minded
from rowmerge.spark.distribution import Gather
from rowmerge.spark.few_rows import are_small, may_be_few
from rowmerge.spark.joins import (
    Join,
    check_visibility,
    choose_join,
    join_looked_up,
    joined_rows,
    merge_outcomes,
    repeated_keys,
    tells_of_all_rows,
    unmatched_rows,
)
from rowmerge.spark.key_lookup import is_all_of_spark, looks_up_rows, rows_by_keys
from rowmerge.spark.outcomes import boolean, outcome_rows
from rowmerge.spark.scan import read_snapshot, spark_path
from rowmerge.spark.source import LOOKED_UP_KEYS, MANY_KEYS, Source, SourceKey, SourceRowsOnce, fit
from rowmerge.spark.source_writing import few_files_of, is_made_of_few_bytes, write_source_rows
from rowmerge.spark.write import write_outcomes
from rowmerge.spark.written import Written, discard
from rowmerge.table.files import Lineage, Positions, RowOrigin, live_rows
from rowmerge.table.partitioning import Distribution
from rowmerge.table.schema import Field
from rowmerge.table.snapshot import Change, FileMask, Reads, Snapshot, Table, TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Planned:
    """A plan with its source. `reads_table`: the source, or a subquery, reads the table that is changed; then every row of it matters."""

    plan: RowPlan
    source: SourceRowsOnce | None = None
    reads_table: bool = False


def change_rows(
    spark: SparkSession, table: Table, plan_for: Callable[[Snapshot], Planned], options: CommitOptions = AS_THE_TABLE_SAYS
) -> ChangeResult:
    """Carry out a row-level command: plan on the newest version, find, write, commit; again after a conflict.

    Raises CommitConflict, MultipleSourceRowsMatch, and whatever planning and Spark raise. Nothing is written when it raises.
    """
    timings = Timings()

    def attempt() -> Attempt:
        with timings.measure("plan"):
            snapshot = table.snapshot()
            snapshot.check_writable()
            planned = plan_for(snapshot)
        return RowChange(spark, snapshot, planned.plan, planned.source, planned.reads_table, timings).attempt()

    return commit_with_retry(table, attempt, timings, options)


@dataclass
class RowChange:
    """One attempt of one command on one snapshot."""

    spark: SparkSession
    snapshot: Snapshot
    plan: RowPlan
    source_once: SourceRowsOnce | None
    reads_table: bool
    timings: Timings
    _join: Join | None = None
    _paths: Mapping[str, str] = field(default_factory=dict)
    """What files are called among rows that were looked up; see RowsByKeys."""

    @cached_property
    def table_after(self) -> Snapshot:
        """What new files are written for: the table with the schema that the command gives it."""
        return self.snapshot if self.plan.new_schema is None else self.snapshot.evolved(self.plan.new_schema)

    def attempt(self) -> Attempt:
        """Find and write the rows."""
        self._check_rows_may_move()
        if self.source_once is None:
            return self._found(self._attempt(None))
        if self._by_keys is not None:
            with self.timings.measure("spark"):
                first = self._by_keys.write_first(self.source_once)
            made = None if first is None else self._attempt(first.source, first.written)
            if made is not None:
                return made
        return self._found(self._attempt(self._passing(self.source_once) or self._kept(self.source_once)))

    def _passing(self, once: SourceRowsOnce) -> Source | None:
        """A source that one join is to read, and nothing before it; None where it may be small, or was kept for an earlier attempt."""
        if not tells_of_all_rows(self.plan) or once.is_kept or once.passed:
            return None
        with self.timings.measure("plan"):
            mask, columns = self._files_to_read(None)
            listing = self.snapshot.files(columns)
            return None if is_made_of_few_bytes(once.frame) else once.passing(live_rows(listing.filter(mask(listing))))

    def _kept(self, once: SourceRowsOnce) -> Source:
        with self.timings.measure("spark"):
            make = None if self._by_keys is None else self._by_keys.make()
            return once.rows(self.plan.on.keys if self.plan.on is not None else (), most_keys=self._most_keys, make=make)

    @property
    def _most_keys(self) -> int:
        """Of how many source rows the driver would have the keys, to do without a join, or with one of few rows."""
        if not is_all_of_spark(self.spark):
            return 0
        if self._by_keys is not None:
            return MANY_KEYS
        return LOOKED_UP_KEYS if self._changes_to is None and looks_up_rows(self.plan) else 0

    @staticmethod
    def _found(made: Attempt | None) -> Attempt:
        assert made is not None  # only of a source that was written first it may not be told what to do
        return made

    def _attempt(self, source: Source | None, first: Written | None = None) -> Attempt | None:
        """`first`: what was written of the source; None when that does not do, and is thrown away."""
        written = Written() if first is None else first
        try:
            with self.timings.measure("plan"):
                mask, columns = self._files_to_read(source)
                listing = self.snapshot.files(columns)
                considered = listing.filter(mask(listing))
                whole = self._whole(considered)
                if self._changes_to is not None and whole.num_rows < considered.num_rows:
                    # Once some rows are written to the change rows, all that go must be.
                    whole = considered.slice(0, 0)
                rest = considered.filter(pc.invert(pc.is_in(considered["path"], value_set=whole["path"].combine_chunks())))
            with self.timings.measure("spark"):
                ran = self._run(rest, source, first)
                if ran is None:
                    written.discard(self.snapshot.filesystem_options)
                    return None
                written = ran
                source = None if source is None else source.counted()
                self._check_cardinality(written, rest, source)
                files, rewritten = file_changes(self.spark, self.snapshot, self.plan, written, rest, whole)
        except BaseException:
            written.discard(self.snapshot.filesystem_options)
            raise
        changes = row_changes(written, files, whole)
        definition = None if self.plan.new_schema is None else TableDefinition(schema=self.table_after.schema)
        if self.reads_table:
            reads = Reads(frozenset(listing["path"].to_pylist()), everything)
        else:
            rows = self._rows_that_mattered(written, rest, source)
            reads = Reads(frozenset(considered["path"].to_pylist()), mask, columns, rows, self._matching(source, first))
        change = Change(
            self.plan.operation,
            parameters=self.plan.parameters,
            metrics=row_metrics(
                self.plan, changes, files, copied=rewritten, source_rows=source.rows if source else 0, timings=self.timings
            ),
            files=files,
            reads=reads,
            definition=definition,
        )
        return Attempt(self.snapshot, change, changes, files.written)

    def _matching(self, source: Source | None, first: Written | None) -> Callable[[pa.Table], pa.Array]:
        """Which files of others hold rows that the command would have minded."""
        if source is not None and source.counting is not None:
            return everything  # it cannot be asked again what it had
        if first is not None and self._by_keys is not None and source is not None:
            return partial(self._by_keys.files_met, source)
        return partial(files_minded, self.spark, self.snapshot, self.plan, source)

    def _check_rows_may_move(self) -> None:
        feature = self.snapshot.rows_stay_for
        if feature is not None and any(clause.effect is Effect.UPDATE for clause in self.plan.clauses):
            raise RowsMustStay(self.plan.table, feature, "update rows of")

    @cached_property
    def _lineage(self) -> Lineage | None:
        """What rows that the command writes anew take along."""
        updates = any(clause.effect is Effect.UPDATE for clause in self.plan.clauses)
        return self.snapshot.lineage if updates else None

    @property
    def _changes_to(self) -> str | None:
        """Where change rows go: nowhere when the table keeps none, or when the files alone tell what a pure insert did."""
        if all(clause.effect is Effect.INSERT for clause in self.plan.clauses):
            return None
        return self.snapshot.change_rows_location

    def _rows_that_mattered(self, written: Written, files: pa.Table, source: Source | None) -> dict[str, Positions] | None:
        """Rows that stay as they are and keep a source row from being inserted, by path; None when they were not told apart.

        No other row that stays matters: the command would have done the same without it.
        """
        if source is None or self.plan.source_rows is not SourceRows.UNMATCHED or files.num_rows == 0:
            return {}
        if self._join is not None and not self._join.ordinals and all(clause.condition for clause in self.plan.of(Match.MATCHED)):
            return None
        return {path: written.reads[spelled] for path in files["path"].to_pylist() if (spelled := spark_path(path)) in written.reads}

    def _files_to_read(self, source: Source | None) -> tuple[FileMask, tuple[str, ...]]:
        """The plan's mask, sharpened by the source's keys, unless rows that match nothing matter too."""
        masks, columns = [self.plan.files], list(self.plan.bound_columns)
        schema, partition = self.snapshot.schema, self.snapshot.partition_columns
        for key, column, values in self._keys(source):
            if values is not None:
                mask, needs = key_mask(column.name, key.pair.op, values, key.has_null, schema, partition)
            else:
                mask, needs = range_mask(column.name, key.pair.op, key.low, key.high, key.has_null, schema, partition)
            masks.append(mask)
            columns += needs
        return all_of(masks), tuple(dict.fromkeys(columns))

    def _keys(self, source: Source | None) -> Iterator[tuple[SourceKey, Field, pa.Array | None]]:
        """The keys of the source that only target rows of interest can have, their columns, and their values in the columns' types."""
        if source is None or self.plan.of(Match.NOT_MATCHED_BY_SOURCE):
            return
        for key in source.keys:
            column = self.snapshot.schema.find(key.pair.column, case_sensitive=True)
            assert column is not None
            values = None if key.values is None else fit(key.values, key.pair.op, key.type, column.type)
            if values is not None or (key.values is None and key.low is not None and key.type == column.type):
                yield key, column, values

    def _in_reach(self, target: DataFrame, source: Source) -> DataFrame:
        """The target's rows less those that no key reaches: Spark's reader skips row groups and pages by the bounds that files have."""
        for key, column, values in self._keys(source):
            ends = values
            if ends is None and key.low is not None and key.high is not None:
                ends = pa.array([key.low, key.high], key.low.type).drop_null()
            if ends is None or column.name in self.snapshot.partition_columns:
                continue
            condition = key_condition(column, key.pair.op, ends, key.has_null, only_ends=values is None)
            if condition is not None:
                target = target.where(condition)
        return target

    def _whole(self, considered: pa.Table) -> pa.Table:
        """Files that leave as a whole, by their partition values alone."""
        if self.plan.whole_files is None:
            return considered.slice(0, 0)
        return considered.filter(self.plan.whole_files(considered))

    def _run(self, files: pa.Table, source: Source | None, first: Written | None) -> Written | None:
        if source is None:
            return self._run_target_alone(files)
        if self.plan.on is None:
            return self._and_new_rows(self._run_target_alone(files), source)
        written = None if self._by_keys is None else self._by_keys.run(files, source, first)
        if written is not None or first is not None:
            return written
        # Made even when there is nothing to run: a wrong name is an error whatever rows there are.
        target, join = self._target(files, source)
        self._join = join
        check_visibility(self.plan, target, source)
        joined = joined_rows(self.plan, join, target, source)
        outcomes = merge_outcomes(self.plan, join, joined, before=self._changes_to is not None, lineage=self._lineage is not None)
        written = Written()
        everything_unmatched = files.num_rows == 0
        if not everything_unmatched and (source.rows or self.plan.of(Match.NOT_MATCHED_BY_SOURCE)):
            written = self._write(outcomes, files, source)
        if self.plan.source_rows is SourceRows.ALL or join.leaves_unmatched or everything_unmatched:
            return self._and_new_rows(written, source)
        return written

    @cached_property
    def _by_keys(self) -> ChangeByKeys | None:
        """For a command of which keys tell all, where nothing else of the rows is asked for."""
        if self._changes_to is not None or self._lineage is not None or not keys_tell_all(self.plan):
            return None
        return ChangeByKeys(self.spark, self.snapshot, self.table_after, self.plan)

    def _target(self, files: pa.Table, source: Source) -> tuple[DataFrame, Join]:
        """The rows that the source is joined to, and how."""
        kept = self._lineage is not None
        if self._changes_to is None and files.num_rows and source.rows:
            looked_up = rows_by_keys(self.spark, self.snapshot, self.plan, files, source, lineage=kept)
            if looked_up is not None:
                self._paths = looked_up.paths
                return looked_up.frame, join_looked_up(self.plan)
        target = read_snapshot(self.spark, self.snapshot, files, addresses=True, lineage=kept)
        return self._in_reach(target, source), choose_join(self.plan, source)

    def _joined(self, files: pa.Table, source: Source) -> DataFrame:
        target = read_snapshot(self.spark, self.snapshot, files, addresses=True)
        return joined_rows(self.plan, choose_join(self.plan, source), target, source)

    def _and_new_rows(self, written: Written, source: Source) -> Written:
        """Also the rows that the NOT MATCHED clauses make, of all source rows or of those that matched nothing."""
        matched = BitMap64() if self.plan.source_rows is SourceRows.ALL else written.sources
        if self.plan.source_rows is SourceRows.NONE:
            return written
        try:
            rows = unmatched_rows(self.plan, source, matched)
            if len(matched) == source.rows:
                return written
            changes_to = self._changes_to if written.touched else None
            written.add(write_source_rows(rows, source, self.table_after, distribution=self._distribution, changes_to=changes_to))
        except BaseException:
            written.discard(self.snapshot.filesystem_options)
            raise
        return written

    def _run_target_alone(self, files: pa.Table) -> Written:
        kept = self._lineage is not None
        rows = read_snapshot(self.spark, self.snapshot, files, addresses=True, lineage=kept).alias(self.plan.target.alias)
        (clause,) = self.plan.of(Match.NOT_MATCHED_BY_SOURCE)
        if clause.condition is not None:
            # Spark makes semi joins of the IN and EXISTS subqueries of a filter, but not of those inside a CASE.
            rows = rows.where(boolean(clause.condition))
        cases = [("true", replace(clause, condition=None))]
        before = self._changes_to is not None
        outcomes = outcome_rows(rows, self.plan, cases, addresses=True, ordinals=False, before=before, lineage=kept)
        return self._write(outcomes, files) if files.num_rows else Written()

    @property
    def _distribution(self) -> Distribution | None:
        return self.snapshot.distribution_of(self.plan.operation)

    def _write(self, outcomes: DataFrame, files: pa.Table, source: Source | None = None) -> Written:
        gather = Gather.ONE_TASK if are_small(files) else Gather.BY_SIZE
        looked_up = self._join is not None and self._join.looked_up
        if gather is Gather.BY_SIZE and looked_up and source is not None and few_files_of(source, self.table_after):
            gather = Gather.NOT
        written = write_outcomes(
            outcomes,
            self.table_after,
            gather=gather,
            changes_to=self._changes_to,
            may_repeat=self.plan.duplicates_allowed,
            distribution=self._distribution,
            origins=None if self._lineage is None else (self._lineage, self._origins(files["path"].to_pylist())),
            may_be_few=may_be_few(files, source_is_few=source is not None and source.local is not None),
        )
        if self._paths:
            written.rename(self._paths)
        if not written.touched:
            # Nothing but new rows: the files that come in tell it.
            discard(written.change_rows, self.snapshot.filesystem_options)
            written.change_rows = []
        return written

    def _origins(self, paths: Sequence[str]) -> dict[str, RowOrigin]:
        """By what the rows say of their files."""
        names = {path: name for name, path in self._paths.items()}
        found = ((spark_path(path), origin) for path, origin in self.snapshot.row_origins(paths).items())
        return {names.get(spelled, spelled): origin for spelled, origin in found}

    def _check_cardinality(self, written: Written, files: pa.Table, source: Source | None) -> None:
        if written.repeated == 0 or self.plan.duplicates_allowed:
            return
        assert source is not None and self.plan.on is not None
        keys = repeated_keys(self.plan, self._joined(files, source))
        raise MultipleSourceRowsMatch(self.plan.table, keys, written.repeated)
