"""Changes of which keys tell all: which rows of the target a source row meets is looked up, and what becomes of them the source says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from rowmerge.commands.rows import Match
from rowmerge.errors import MissingDataFile, UnreadableDataFile
from rowmerge.plan.needed_columns import is_upsert, source_tells, values_of_all
from rowmerge.plan.row_plan import RowPlan, SourceRows
from rowmerge.spark.joins import unmatched_rows
from rowmerge.spark.key_lookup import MetRows, is_all_of_spark, met_rows
from rowmerge.spark.outcomes import met_or_new_rows, rows_either_way
from rowmerge.spark.scan import spark_path
from rowmerge.spark.source import Make, Source, SourceRowsOnce, ordinal_array
from rowmerge.spark.source_writing import WrittenSource, is_made_of_few_bytes, write_made, write_source, write_source_rows
from rowmerge.spark.written import Written
from rowmerge.table.files import Positions
from rowmerge.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def keys_tell_all(plan: RowPlan) -> bool:
    """Whether keys are the whole ON condition, and of a target row that meets one nothing else matters."""
    if plan.on is None or not plan.on.keys_alone:
        return False
    if plan.duplicates_allowed and plan.source_rows is not SourceRows.UNMATCHED:
        return not plan.of(Match.NOT_MATCHED_BY_SOURCE)
    return is_upsert(plan) or source_tells(plan)


@dataclass(frozen=True)
class ChangeByKeys:
    """A command for which `keys_tell_all`. `table_after`: what new files are written for. Rows take nothing along, and no change rows are
    wanted."""

    spark: SparkSession
    snapshot: Snapshot
    table_after: Snapshot
    plan: RowPlan

    @cached_property
    def _is_upsert(self) -> bool:
        return is_upsert(self.plan)

    @property
    def _all_are_new(self) -> bool:
        """Whether each source row becomes a new row, whatever it meets."""
        return self._is_upsert or self.plan.source_rows is SourceRows.ALL

    @property
    def _one_by_one(self) -> bool:
        """Whether a row may meet one row only: a join must tell what happens, or what is wrong, if it meets more."""
        return bool(self.plan.of(Match.MATCHED)) and not self.plan.duplicates_allowed

    def write_first(self, once: SourceRowsOnce) -> WrittenSource | None:
        """The source's rows as the new rows that all of them become, before it is known which ones they meet; None where that is of no use.

        Once only: what was written and thrown away for a conflict, or for keys that stand twice, is not written again like that. Only a
        driver that is all of Spark does it: there a source is rarely too large for it.
        """
        table = self.table_after
        if not self._all_are_new or once.passed or once.is_kept or table.partitioning or table.ordering or not is_all_of_spark(self.spark):
            return None
        if is_made_of_few_bytes(once.frame):
            return None  # the driver may write its rows, without Python on an executor
        once.passed = True
        return write_source(once, self.plan, table)

    def make(self) -> Make | None:
        """What becomes of a source row, met or not, where these are the same values, and all rows are wanted or no rule stops one."""
        values, rules = values_of_all(self.plan), self.plan.rules
        if values is None or self.table_after.ordering or (not self._all_are_new and (rules.checks or rules.generated)):
            return None
        return lambda rows, names: rows_either_way(rows, self.plan, values, names)

    def run(self, files: pa.Table, source: Source, written: Written | None) -> Written | None:
        """What was written, and the positions of the rows that go, of these files (rows of `Snapshot.files()`); None where keys do not
        tell them. `written`: of a source that was written first."""
        met = self._met(files, source)
        if met is None:
            return None
        if self._all_are_new:
            if written is None and source.made is not None:
                written = write_made(source, self.table_after, None)
            elif written is None:
                written = self._write(unmatched_rows(self.plan, source, BitMap64()), source)
            written.positions = met.positions
            if self._is_upsert:
                written.updated = written.touched
                written.inserted -= written.updated
            return written
        return self._changed_one_by_one(met, source) if self._one_by_one else self._left_or_new(met, source)

    def files_met(self, source: Source, files: pa.Table) -> pa.Array:
        """True for each of the files (rows of a file listing) that others added with a row that a source row meets."""
        try:
            met = met_rows(self.spark, self.snapshot, self.plan.table, files, source, one_by_one=False, told=False)
        except (MissingDataFile, UnreadableDataFile):
            met = None  # whatever stands in the way of looking, planning anew will meet it, and say it
        if met is None:
            return pa.repeat(pa.scalar(True), files.num_rows)
        return pa.array([spark_path(path) in met.positions for path in files["path"].to_pylist()], pa.bool_())

    def _met(self, files: pa.Table, source: Source) -> MetRows | None:
        if not files.num_rows or not source.rows:
            return MetRows({})
        told = not self._all_are_new and (self._one_by_one or self.plan.source_rows is SourceRows.UNMATCHED)
        return met_rows(self.spark, self.snapshot, self.plan.table, files, source, one_by_one=self._one_by_one, told=told)

    def _left_or_new(self, met: MetRows, source: Source) -> Written:
        """All rows that were met go, or stay; of the source there may be new rows."""
        goes = bool(self.plan.of(Match.MATCHED))
        written = Written(positions=met.positions if goes else {}, reads={} if goes else met.positions)
        if source.made is not None:
            written.add(write_made(source, self.table_after, met.sources))
        elif self.plan.source_rows is SourceRows.UNMATCHED:
            rows = unmatched_rows(self.plan, source, met.sources)
            if len(met.sources) < source.rows:
                written.add(self._write(rows, source))
        return written

    def _changed_one_by_one(self, met: MetRows, source: Source) -> Written:
        """What the source says becomes of each row that was met, and new rows."""
        assert self.plan.source is not None
        if source.made is not None:
            written = write_made(source, self.table_after, met.sources)
        else:
            written = self._write(met_or_new_rows(source.marked(met.sources).alias(self.plan.source.alias), self.plan), source)
        acted = ordinal_array(written.sources).to_numpy()
        for path, positions in met.positions.items():
            gone = np.isin(met.each[path], acted)
            every = np.array(positions.to_array(), dtype=np.uint64)
            for found, chosen in ((written.positions, gone), (written.reads, ~gone)):
                if chosen.any():
                    found[path] = Positions(every[chosen])
        return written

    def _write(self, rows: DataFrame, source: Source) -> Written:
        """The rows, made even when there are none: a wrong name is an error whatever rows there are."""
        if not source.rows:
            return Written()
        return write_source_rows(rows, source, self.table_after, distribution=self.snapshot.distribution_of(self.plan.operation))
