"""INSERT INTO, INSERT OVERWRITE, REPLACE USING and REPLACE WHERE: new rows, and what leaves for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.changes.commit import AS_THE_TABLE_SAYS, Attempt, CommitOptions, commit_with_retry
from rowmerge.changes.result import ChangeResult, RowChanges, Timings
from rowmerge.changes.row_change import Planned, SourceRowsOnce, change_rows
from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Delete
from rowmerge.errors import AppendOnly, PlanError
from rowmerge.plan.planner import SOURCE, VALUE_COLUMN, insert_values, plan_delete, plan_insert, plan_replace_using
from rowmerge.plan.pruning import everything
from rowmerge.plan.row_plan import RowPlan, SourceRows
from rowmerge.plan.schema_evolution import after_insert
from rowmerge.spark.outcomes import new_rows
from rowmerge.spark.types import schema_of
from rowmerge.spark.write import Writable, Written, write_outcomes
from rowmerge.table.files import AddedFile, FileChanges
from rowmerge.table.rules import Check, Rules
from rowmerge.table.schema import Struct, backquote
from rowmerge.table.snapshot import Change, FileMask, Reads, Snapshot, Table, TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class NewRows:
    """The rows of an INSERT and how they meet the table's columns.

    `static`: PARTITION (p = value) as SQL text by column; `columns`: the column list, None for the table's order; `reads_table`: the
    rows come from the table itself, in the version that they are written on; `evolves`: columns that the table lacks are added to it.
    """

    frame: DataFrame
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    static: Mapping[str, str] = field(default_factory=dict)
    reads_table: bool = False
    evolves: bool = False

    @property
    def source(self) -> DataFrame:
        """The rows under names of their position: a query may have one name twice."""
        return self.frame.toDF(*(VALUE_COLUMN % index for index in range(len(self.frame.columns))))

    def plan(self, snapshot: Snapshot) -> RowPlan:
        """The plan that inserts every row. Raises UnknownColumn, TypeMismatch, PlanError."""
        if not self.evolves:
            return self._plan(snapshot.name, snapshot.schema, snapshot.rules)
        query, static = schema_of(self.frame), tuple(self.static)
        schema = after_insert(snapshot.schema, query, self.columns, static, by_name=self.by_name, can_widen=snapshot.can_widen)
        return replace(self._plan(snapshot.name, schema, snapshot.rules), evolved_from=snapshot.schema)

    def _plan(self, name: str, schema: Struct, rules: Rules) -> RowPlan:
        values = insert_values(schema, self.frame.columns, self.columns, self.static, by_name=self.by_name, table=name)
        return plan_insert(name, schema, values, self.source.columns, rules)

    def write(self, table: Writable) -> Written:
        """Write the rows as data files of a table that has just these columns."""
        return self.written(self._plan(table.name, table.schema, table.rules), table)

    def written(self, plan: RowPlan, table: Writable) -> Written:
        """Write the rows of a plan as data files of the table as it will be."""
        return write_outcomes(new_rows(self.source.alias(SOURCE), plan, plan.clauses), table, gather=False)


RowsFor = Callable[[Snapshot], NewRows]
"""The rows to insert, given the version that they will be written on."""


def append(table: Table, rows_for: RowsFor, options: CommitOptions = AS_THE_TABLE_SAYS) -> ChangeResult:
    """INSERT INTO: a blind append, which conflicts with nothing but a change of schema or protocol, unless it reads the table itself."""
    return _insert(table, rows_for, lambda snapshot, rows, written: None, "Append", options)


def overwrite(table: Table, rows_for: RowsFor, options: CommitOptions = AS_THE_TABLE_SAYS, *, dynamic: bool) -> ChangeResult:
    """INSERT OVERWRITE: all files leave; with `dynamic` only those of partitions that a new row falls into; with PARTITION (p = value)
    those of that partition.
    """

    def leaving(snapshot: Snapshot, rows: NewRows, written: Written) -> FileMask:
        partitions = snapshot.partition_columns
        if not partitions or not (dynamic or rows.static):
            return everything
        # Static values are in the written files too; an overwrite of a partition with no rows at all is told by them alone.
        if rows.static and not dynamic:
            return _same_static_partition(snapshot, rows)
        return _same_partition(partitions, written)

    return _insert(table, rows_for, leaving, "Overwrite", options)


def replace_using(
    spark: SparkSession, table: Table, rows_for: RowsFor, keys: Sequence[str], options: CommitOptions = AS_THE_TABLE_SAYS
) -> ChangeResult:
    """INSERT … REPLACE USING (keys): rows of the table with the keys of a new row leave, all new rows come in, in one commit."""

    def plan(snapshot: Snapshot) -> Planned:
        rows = rows_for(snapshot)
        return Planned(plan_replace_using(rows.plan(snapshot), snapshot, keys), SourceRowsOnce(rows.source, SOURCE), rows.reads_table)

    return change_rows(spark, table, plan, options)


def replace_where(
    spark: SparkSession, table: Table, rows_for: RowsFor, condition: str, options: CommitOptions = AS_THE_TABLE_SAYS
) -> ChangeResult:
    """INSERT INTO … REPLACE WHERE: rows for which the condition is true leave, the new rows, for all of which it must be true, come in."""

    def plan(snapshot: Snapshot) -> Planned:
        rows = rows_for(snapshot)
        delete = plan_delete(Delete(TableName((SOURCE,)), None, SqlText(condition)), snapshot)
        insert = rows.plan(snapshot)
        fulfilled = Check(f"REPLACE WHERE {condition}", condition)
        both = replace(
            delete,
            operation="WRITE",
            source=insert.source,
            clauses=(*delete.clauses, *insert.clauses),
            source_rows=SourceRows.ALL,
            parameters={"mode": "Overwrite", "predicate": [condition]},
            schema=insert.schema,
            evolved_from=insert.evolved_from,
            rules=replace(insert.rules, checks=(*insert.rules.checks, fulfilled)),
        )
        return Planned(both, SourceRowsOnce(rows.source, SOURCE), rows.reads_table)

    return change_rows(spark, table, plan, options)


def _insert(
    table: Table,
    rows_for: RowsFor,
    leaving: Callable[[Snapshot, NewRows, Written], FileMask | None],
    mode: str,
    options: CommitOptions,
) -> ChangeResult:
    timings = Timings()

    def attempt() -> Attempt:
        with timings.measure("plan"):
            snapshot = table.snapshot()
            snapshot.check_writable()
            if mode == "Overwrite" and snapshot.rules.append_only:
                raise AppendOnly(snapshot.name, "INSERT OVERWRITE")
            rows = rows_for(snapshot)
            plan = rows.plan(snapshot)
            table_after = snapshot if plan.new_schema is None else snapshot.evolved(plan.new_schema)
        with timings.measure("spark"):
            written = rows.written(plan, table_after)
        removed, reads = _removed(snapshot, leaving(snapshot, rows, written))
        if rows.reads_table:
            reads = Reads(frozenset(snapshot.files()["path"].to_pylist()), everything)
        files = FileChanges(tuple(written.files), tuple(removed["path"].to_pylist()) if removed is not None else ())
        changes = _changes(written.files, written.inserted, removed)
        definition = None if plan.new_schema is None else TableDefinition(schema=table_after.schema)
        metrics = {"numFiles": len(written.files), "numOutputRows": written.inserted, "numOutputBytes": changes.bytes_added}
        change = Change("WRITE", {"mode": mode, "partitionBy": list(snapshot.partition_columns)}, metrics, files, reads, definition)
        return Attempt(snapshot, change, changes, files.added)

    return commit_with_retry(table, attempt, timings, options)


def _removed(snapshot: Snapshot, mask: FileMask | None) -> tuple[pa.Table | None, Reads]:
    if mask is None:
        return None, Reads()
    listing = snapshot.files()
    leaving = listing.filter(mask(listing))
    return leaving, Reads(frozenset(leaving["path"].to_pylist()), mask)


def _changes(files: Sequence[AddedFile], inserted: int, removed: pa.Table | None) -> RowChanges:
    deleted = 0
    if removed is not None:
        deleted = (pc.sum(removed["records"]).as_py() or 0) - (pc.sum(removed["deleted"]).as_py() or 0)
    return RowChanges(
        inserted=inserted,
        deleted=deleted,
        files_added=len(files),
        files_removed=0 if removed is None else removed.num_rows,
        bytes_added=sum(file.size for file in files),
    )


def _same_partition(partitions: tuple[str, ...], written: Written) -> FileMask:
    """True for files in a partition that a written file is in."""
    keep = {tuple(file.partition[name] for name in partitions) for file in written.files}

    def mask(listing: pa.Table) -> pa.Array:
        return pa.array([tuple(row[name] for name in partitions) in keep for row in listing["partition"].to_pylist()], pa.bool_())

    return mask


def _same_static_partition(snapshot: Snapshot, rows: NewRows) -> FileMask:
    """True for files whose partition values are those of PARTITION (p = value, …)."""
    by_name = {name.lower(): name for name in snapshot.partition_columns}
    unknown = [name for name in rows.static if name.lower() not in by_name]
    if unknown:
        raise PlanError(
            f"PARTITION ({unknown[0]} = …): {snapshot.name} is not partitioned by `{unknown[0]}`. It is by {', '.join(by_name)}."
        )
    spark = rows.frame.sparkSession
    schema = snapshot.schema.select(tuple(by_name[name.lower()] for name in rows.static))
    cast = [f"cast({text} as {f.sql_type}) as {backquote(f.name)}" for text, f in zip(rows.static.values(), schema, strict=True)]
    wanted = spark.range(1).selectExpr(*cast).collect()[0].asDict()

    def mask(listing: pa.Table) -> pa.Array:
        found = listing["partition"].to_pylist()
        return pa.array([all(row[name] == value for name, value in wanted.items()) for row in found], pa.bool_())

    return mask
