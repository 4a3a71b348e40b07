"""INSERT INTO, INSERT OVERWRITE, REPLACE USING and REPLACE WHERE: new rows, and what leaves for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Delete
from rowmerge.errors import AppendOnly, PlanError
from rowmerge.execution.commit import AS_THE_TABLE_SAYS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.metrics import insert_metrics, row_counts
from rowmerge.execution.result import ChangeResult, RowCounts, Timings
from rowmerge.execution.ways.request import Planned
from rowmerge.plan.expressions.conditions import Side
from rowmerge.plan.expressions.sides import side_of
from rowmerge.plan.planner import (
    SOURCE,
    VALUE_COLUMN,
    insert_columns,
    plan_delete,
    plan_insert,
    plan_replace_on,
    plan_replace_using,
    static_partition,
)
from rowmerge.plan.pruning.file_pruning import everything
from rowmerge.plan.row_plan import RowPlan, SourceRows
from rowmerge.plan.schema_evolution import after_insert
from rowmerge.plan.store_assignment import by_position
from rowmerge.spark.source.source import SourceRowsOnce
from rowmerge.spark.types import schema_of
from rowmerge.spark.values.outcomes import new_rows
from rowmerge.spark.writing.distribution import Gather
from rowmerge.spark.writing.write import WriteRequest, write_outcomes
from rowmerge.spark.writing.written import Written
from rowmerge.table.commits.request import Change, Reads
from rowmerge.table.metadata.partitioning import identity_columns, partition_by
from rowmerge.table.metadata.rules import Check
from rowmerge.table.metadata.schema import Struct, arrow_schema, backquote, sql_name
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.files import FileChanges, FileListing, FileMask
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class NewRows:
    """The rows of an INSERT and how they meet the table's columns.

    `partition`: PARTITION (p = value, q) as (column, SQL text or None); `columns`: the column list, None for the table's order;
    `reads_table`: the rows come from the table itself, in the version that they are written on; `evolves`: columns that the table lacks
    are added to it; `alias`: what REPLACE ON calls the rows; `case_sensitive`: names of columns are meant to the letter.
    """

    frame: DataFrame
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    partition: tuple[tuple[str, str | None], ...] = ()
    reads_table: bool = False
    evolves: bool = False
    alias: str | None = None
    case_sensitive: bool = False

    @property
    def source(self) -> DataFrame:
        """The rows under names of their position, for a query may have one name twice; under their own ones where they have an alias."""
        return self.frame if self.alias else self.frame.toDF(*(VALUE_COLUMN % index for index in range(len(self.frame.columns))))

    @property
    def side(self) -> Side:
        """The rows as a side of the plan."""
        return Side(self.alias or SOURCE, (), tuple(self.source.columns))

    def static(self, table: TableShape) -> dict[str, str]:
        """The partition values that the statement gives, as SQL text. Raises UnknownColumn, PlanError."""
        columns = identity_columns(table.partitioning)
        return static_partition(table.schema, columns, self.partition, table.name, case_sensitive=self.case_sensitive)

    def plan(self, snapshot: Snapshot) -> RowPlan:
        """The plan that inserts every row. Raises UnknownColumn, TypeMismatch, PlanError."""
        if not self.evolves:
            return self._plan(snapshot.shape, snapshot.schema)
        static, types = tuple(self.static(snapshot.shape)), schema_of(self.frame)
        schema = after_insert(snapshot.schema, types, self.columns, static, by_name=self.by_name, can_widen=snapshot.shape.can_widen)
        return replace(self._plan(snapshot.shape, schema), evolved_from=snapshot.schema)

    def _plan(self, table: TableShape, schema: Struct) -> RowPlan:
        values, side, types = self.static(table), self.side, schema_of(self.frame)
        names = insert_columns(
            schema,
            self.frame.columns,
            self.columns,
            values,
            by_name=self.by_name,
            table=table.name,
            case_sensitive=self.case_sensitive,
        )
        for name, column, given in zip(names, side.columns, types, strict=True):
            field = schema.find(name, case_sensitive=True)
            assert field is not None
            text = f"{backquote(side.alias)}.{backquote(column)}"
            # Fields that may be new ones of the table are told by their names.
            meant = given.type if self.by_name or self.evolves else by_position(given.type, field.type)
            values[name] = text if meant == given.type else f"cast({text} as {sql_name(meant)})"
        return plan_insert(table.name, schema, values, side, table.rules)

    def write(self, table: TableShape) -> Written:
        """Write the rows as data files of a table that has just these columns."""
        return self.written(self._plan(table, table.schema), table)

    def written(self, plan: RowPlan, table: TableShape) -> Written:
        """Write the rows of a plan as data files of the table as it will be."""
        return write_outcomes(new_rows(self.source.alias(SOURCE), plan, plan.clauses), WriteRequest(table, Gather.NOT))


RowsFor = Callable[[Snapshot], NewRows]
"""The rows to insert, given the version that they will be written on."""


def append(table: Table, rows_for: RowsFor, options: CommitOptions = AS_THE_TABLE_SAYS) -> ChangeResult:
    """INSERT INTO: a blind append, which conflicts with nothing but a change of schema or protocol, unless it reads the table itself."""
    return _insert(table, rows_for, lambda snapshot, rows, written: None, "Append", options)


def overwrite(
    table: Table, rows_for: RowsFor, options: CommitOptions = AS_THE_TABLE_SAYS, *, dynamic: bool, if_not_exists: bool = False
) -> ChangeResult:
    """INSERT OVERWRITE: all files leave, with PARTITION (p = value) those of that partition; with `dynamic` only those of partitions that
    a new row falls into. With `if_not_exists` nothing happens where the partition holds anything.
    """

    def leaving(snapshot: Snapshot, rows: NewRows, written: Written) -> FileMask:
        if dynamic and snapshot.shape.partitioning:
            return _same_partition(snapshot, written)
        return static_mask(snapshot, rows)

    def wanted(snapshot: Snapshot, rows: NewRows) -> bool:
        if (dynamic and snapshot.shape.partitioning) or rows.partition:
            _check_partitions_known(snapshot)
        return not (if_not_exists and pc.any(static_mask(snapshot, rows)(snapshot.files())).as_py())

    return _insert(table, rows_for, leaving, "Overwrite", options, wanted)


def replaced_using(rows: NewRows, snapshot: Snapshot, keys: Sequence[str]) -> Planned:
    """INSERT … REPLACE USING (keys): rows of the table with the keys of a new row leave, all new rows come in, in one commit."""
    plan = plan_replace_using(rows.plan(snapshot), snapshot, keys, case_sensitive=rows.case_sensitive)
    return Planned(plan, SourceRowsOnce(rows.source, SOURCE), rows.reads_table)


def replaced_on(rows: NewRows, snapshot: Snapshot, condition: SqlText, target: TableName, alias: str | None) -> Planned:
    """INSERT … REPLACE ON condition: rows for which it is true with a new row leave, all new rows come in, in one commit."""
    side = side_of(target.parts, alias, snapshot.schema.names)
    plan = plan_replace_on(rows.plan(snapshot), snapshot, condition, side, case_sensitive=rows.case_sensitive)
    return Planned(plan, SourceRowsOnce(rows.source, rows.side.alias), rows.reads_table)


def replaced_where(rows: NewRows, snapshot: Snapshot, condition: str) -> Planned:
    """INSERT INTO … REPLACE WHERE: rows for which the condition is true leave, the new rows, for all of which it must be true, come in."""
    delete = plan_delete(Delete(TableName((SOURCE,)), None, SqlText(condition)), snapshot, case_sensitive=rows.case_sensitive)
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


def _insert(
    table: Table,
    rows_for: RowsFor,
    leaving: Callable[[Snapshot, NewRows, Written], FileMask | None],
    mode: str,
    options: CommitOptions,
    wanted: Callable[[Snapshot, NewRows], bool] = lambda snapshot, rows: True,
) -> ChangeResult:
    timings = Timings()

    def attempt() -> Attempt:
        with timings.measure("plan"):
            snapshot = table.snapshot()
            snapshot.check_writable()
            if mode == "Overwrite" and snapshot.shape.rules.append_only:
                raise AppendOnly(snapshot.name, "INSERT OVERWRITE")
            rows = rows_for(snapshot)
            if not wanted(snapshot, rows):
                return Attempt(snapshot, None, RowCounts())
            plan = rows.plan(snapshot)
            table_after = snapshot.shape if plan.new_schema is None else snapshot.evolved(plan.new_schema)
        with timings.measure("spark"):
            written = rows.written(plan, table_after)
        removed, reads = _removed(snapshot, leaving(snapshot, rows, written))
        if rows.reads_table:
            reads = Reads(frozenset(snapshot.files().paths), everything)
        files = FileChanges(tuple(written.files), tuple(removed.paths) if removed is not None else ())
        definition = None if plan.new_schema is None else TableDefinition(schema=table_after.schema)
        parameters = {"mode": mode, "partitionBy": partition_by(snapshot.shape.partitioning)}
        change = Change("WRITE", parameters, insert_metrics(written), files, reads, definition)
        return Attempt(snapshot, change, row_counts(written, files, removed), files.added)

    return commit_with_retry(table, attempt, timings, options)


def _removed(snapshot: Snapshot, mask: FileMask | None) -> tuple[FileListing | None, Reads]:
    if mask is None:
        return None, Reads()
    listing = snapshot.files()
    leaving = listing.filter(mask(listing))
    return leaving, Reads(frozenset(leaving.paths), mask)


def _same_partition(snapshot: Snapshot, written: Written) -> FileMask:
    """True for files in a partition that a written file is in."""
    names = tuple(field.name for field in snapshot.shape.partitioning)
    key = partial(_partition_key, partitions=names, empty_is_null=not snapshot.shape.partition_values_in_files)
    keep = {key(file.partition) for file in written.files}

    def mask(listing: FileListing) -> pa.Array:
        return pa.array([key(row) in keep for row in listing.partitions.to_pylist()], pa.bool_())

    return mask


def _check_partitions_known(snapshot: Snapshot) -> None:
    """Raises PlanError when the listing does not tell of every file in which partition it is."""
    if snapshot.files().partitions.null_count:
        raise PlanError(
            f"{snapshot.name} has files from before its partitioning was changed: which of their rows are in a partition cannot be told. "
            f"Write them anew first (OPTIMIZE), or name what is to be replaced: INSERT INTO … REPLACE WHERE."
        )


def static_mask(snapshot: Snapshot, rows: NewRows) -> FileMask:
    """True for files whose partition values are those of PARTITION (p = value, …); for all files without such values."""
    return partition_mask(rows.frame.sparkSession, snapshot, rows.static(snapshot.shape))


def partition_mask(spark: SparkSession, snapshot: Snapshot, values: Mapping[str, str]) -> FileMask:
    """True for files whose values of these partition columns are these (SQL text of the column's type, by exact name)."""
    if not values:
        return everything
    _check_partitions_known(snapshot)
    # Through Arrow: Python's values of PySpark's rows have lost their time zone.
    told = spark.range(1).selectExpr(*(f"{text} as {backquote(name)}" for name, text in values.items())).toArrow()
    types = arrow_schema(snapshot.schema.select(tuple(values)))
    key = partial(_partition_key, partitions=tuple(values), empty_is_null=not snapshot.shape.partition_values_in_files)
    wanted = key({name: told[name].cast(types.field(name).type)[0].as_py() for name in values})

    def mask(listing: FileListing) -> pa.Array:
        return pa.array([key(row) == wanted for row in listing.partitions.to_pylist()], pa.bool_())

    return mask


def _partition_key(values: Mapping[str, object], partitions: tuple[str, ...], *, empty_is_null: bool) -> tuple[object, ...]:
    """Values that are equal where the partition is one: NaN equals itself, and an empty string may be NULL there."""
    empty = ("", b"") if empty_is_null else ()
    told = (values[name] for name in partitions)
    return tuple(None if value in empty else "NaN" if isinstance(value, float) and value != value else value for value in told)
