"""INSERT INTO, INSERT OVERWRITE and INSERT … REPLACE USING, ON and WHERE: the new rows, and the files and rows that they replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Delete
from rowmerge.errors import AppendOnly
from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.partition_masks import any_partition_mask, check_partitions_known, partition_mask
from rowmerge.execution.partition_overwrite import overwrite_partitions
from rowmerge.execution.result import ChangeResult, Timings, insert_metrics, removal_metrics, row_counts
from rowmerge.execution.row_counts import RowCounts
from rowmerge.execution.ways.way import PlannedStatement
from rowmerge.plan import planner
from rowmerge.plan.expressions.qualification import build_side
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.insert_columns import insert_columns, static_partition
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.plan.row_plan import RowPlan
from rowmerge.plan.schema_evolution import schema_after_insert
from rowmerge.plan.store_assignment import match_names_by_position
from rowmerge.spark.source.source import SourceRowsOnce
from rowmerge.spark.types import schema_of
from rowmerge.spark.values.outcomes import new_rows
from rowmerge.spark.writing.distribution import Gather
from rowmerge.spark.writing.write import WriteRequest, write_outcomes
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.metadata.partitioning import partition_by
from rowmerge.table.metadata.rules import Check
from rowmerge.table.metadata.schema import DataType, Struct, backquote, sql_name
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.files import FileChanges, FileMask
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class NewRows:
    """The rows of an INSERT, and how their columns map to the columns of the table.

    `columns`: the column list of the statement, or None for the order of the table. `by_name`: whether columns are matched by name.
    `partition`: the columns of PARTITION (p = value, q), each with the SQL text of its value, or None if it has no value. `reads_table`:
    whether the query reads the table itself. `evolves`: whether the statement adds missing columns to the table. `alias`: the alias of the
    rows in REPLACE ON, or None. `case_sensitive`: whether column names are case-sensitive. `time_zone`: the session's time zone, or None if
    it is unknown. `copied_files`: for COPY INTO, the keys of the files that the table does not have yet, otherwise None.
    """

    frame: DataFrame
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    partition: tuple[tuple[str, str | None], ...] = ()
    reads_table: bool = False
    evolves: bool = False
    alias: str | None = None
    case_sensitive: bool = False
    time_zone: str | None = None
    copied_files: frozenset[str] | None = None

    @property
    def source(self) -> DataFrame:
        """The rows. Columns are named by position, because a query may return a name twice. Rows with an alias keep their column names."""
        if self.alias:
            return self.frame
        return self.frame.toDF(*(planner.VALUE_COLUMN % index for index in range(len(self.frame.columns))))

    @property
    def plan_source(self) -> Side:
        """The alias and the columns of the rows, as the source of a plan."""
        return Side(self.alias or planner.SOURCE, (), tuple(self.source.columns))

    def static_partition_values(self, table: TableShape) -> dict[str, str]:
        """Return the values of PARTITION (p = value, …) as SQL text, by column name.

        Raises:
            UnknownColumn: PARTITION names a column that the table lacks.
            PlanError: The table is not partitioned by one of the columns.
        """
        return static_partition(table, self.partition, case_sensitive=self.case_sensitive)

    def plan(self, snapshot: Snapshot) -> RowPlan:
        """Return the plan that inserts every row.

        Raises:
            UnknownColumn: The statement names a column that the table lacks.
            TypeMismatch: The type of a column does not fit the table.
            PlanError: The columns of the rows do not fit the column list, the partition or the table.
        """
        table, old_schema = snapshot.shape, snapshot.schema
        if not self.evolves:
            return self._plan(table, old_schema)
        partition_columns, query_schema = tuple(self.static_partition_values(table)), schema_of(self.frame)
        new_schema = schema_after_insert(
            old_schema, query_schema, self.columns, partition_columns, by_name=self.by_name, can_widen=table.can_widen
        )
        return replace(self._plan(table, new_schema), evolved_from=old_schema)

    def _plan(self, table: TableShape, schema: Struct) -> RowPlan:
        """Return the plan that inserts every row into a table with this schema.

        Each column of the table gets its value from PARTITION (p = value, …) or, if it is not listed there, from the query.
        """
        static_values, source = self.static_partition_values(table), self.plan_source
        target_names = insert_columns(
            schema,
            self.frame.columns,
            self.columns,
            static_values,
            by_name=self.by_name,
            table=table.name,
            case_sensitive=self.case_sensitive,
        )
        # `target_names` has the table's column for each column of the query, in the order of the query.
        query_values = {}
        for target_name, source_name, source_field in zip(target_names, source.columns, schema_of(self.frame), strict=True):
            target_field = schema.find(target_name, case_sensitive=True)
            assert target_field is not None  # `insert_columns` returns names of this schema
            column_ref = f"{backquote(source.alias)}.{backquote(source_name)}"
            query_values[target_name] = self._value_sql(column_ref, source_field.type, target_field.type)
        return planner.plan_insert(table.name, schema, static_values | query_values, source, table.rules)

    def _value_sql(self, column_ref: str, source_type: DataType, target_type: DataType) -> str:
        """Return the SQL for a column of the query. A cast gives the fields of its structs the names of the target's fields."""
        # Statements that may add nested fields match them by name. Others match them by position.
        if self.by_name or self.evolves:
            return column_ref
        type_ = match_names_by_position(source_type, target_type)
        return column_ref if type_ == source_type else f"cast({column_ref} as {sql_name(type_)})"

    def write(self, table: TableShape) -> WriteOutput:
        """Write the rows as data files of a new table, which has the same columns as the rows."""
        return self.write_plan(self._plan(table, table.schema), table)

    def write_plan(self, plan: RowPlan, table: TableShape) -> WriteOutput:
        """Write the rows of a plan as data files.

        Args:
            plan: The plan that inserts the rows.
            table: The shape of the table with the schema after the statement.
        """
        return write_outcomes(new_rows(self.source.alias(planner.SOURCE), plan, plan.clauses), WriteRequest(table, Gather.NONE))


RowsFor = Callable[[Snapshot], NewRows | None]
"""A function that returns the rows to insert, given the snapshot that the statement changes. None: the statement changes nothing."""


@dataclass(frozen=True)
class Overwrite:
    """The files that INSERT OVERWRITE removes: all files or, with PARTITION (p = value), only the files of that partition.

    `dynamic`: whether to remove only the partitions of the new rows. `if_not_exists`: whether to do nothing if the partition contains rows.
    """

    dynamic: bool
    if_not_exists: bool = False

    def is_skipped(self, snapshot: Snapshot, rows: NewRows) -> bool:
        """Return whether INSERT OVERWRITE … IF NOT EXISTS does nothing because the partition contains rows.

        Args:
            snapshot: The version of the table that the statement changes.
            rows: The rows of the INSERT, with its PARTITION clause.

        Raises:
            PlanError: PARTITION (p = value) selects the files to remove, but the partition of some files is unknown.
        """
        if rows.partition and not self.is_dynamic(snapshot):
            check_partitions_known(snapshot)
        return self.if_not_exists and bool(pc.any(static_mask(snapshot, rows)(snapshot.files())).as_py())

    def removed_files_mask(self, snapshot: Snapshot, rows: NewRows, output: WriteOutput) -> FileMask:
        """Return the mask that selects the files to remove from the table.

        Args:
            snapshot: The version of the table that the statement changes.
            rows: The rows of the INSERT, with its PARTITION clause.
            output: The files with the new rows, whose partitions a dynamic overwrite replaces.
        """
        if not self.is_dynamic(snapshot):
            return static_mask(snapshot, rows)
        columns = [field.name for field in snapshot.shape.partitioning]
        return any_partition_mask(snapshot, columns, [file.partition for file in output.files])

    def is_dynamic(self, snapshot: Snapshot) -> bool:
        """Return whether the new rows determine which partitions are removed."""
        return self.dynamic and bool(snapshot.shape.partitioning)


def plan_replace_using(rows: NewRows, snapshot: Snapshot, keys: Sequence[str]) -> PlannedStatement:
    """Plan INSERT … REPLACE USING (keys): delete each row whose keys equal those of a new row, and insert all new rows.

    Args:
        rows: The rows to insert.
        snapshot: The version of the table on which the statement is planned.
        keys: The names of the key columns, which both the table and the rows have.
    """
    plan = planner.plan_replace_using(rows.plan(snapshot), snapshot, keys, case_sensitive=rows.case_sensitive)
    return PlannedStatement(plan, SourceRowsOnce(rows.source, planner.SOURCE), rows.reads_table)


def plan_replace_on(rows: NewRows, snapshot: Snapshot, condition: SqlText, target: TableName, alias: str | None) -> PlannedStatement:
    """Plan INSERT … REPLACE ON: delete the rows that match a new row on the condition, and insert all new rows.

    The result has the plan of the DELETE and the INSERT, and the new rows. The query of the rows is evaluated only once, because both
    parts of the statement must see the same rows.

    Args:
        rows: The rows to insert, with the alias that the condition uses.
        snapshot: The version of the table on which the statement is planned.
        condition: The condition over columns of the table and of the new rows.
        target: The name of the table, which may qualify columns in the condition.
        alias: The alias of the table, or None if it has no alias.
    """
    target_side = build_side(target.parts, alias, snapshot.schema.names)
    plan = planner.plan_replace_on(
        rows.plan(snapshot), snapshot, condition, target_side, case_sensitive=rows.case_sensitive, time_zone=rows.time_zone
    )
    return PlannedStatement(plan, SourceRowsOnce(rows.source, rows.plan_source.alias), rows.reads_table)


def plan_replace_where(rows: NewRows, snapshot: Snapshot, condition: str) -> PlannedStatement:
    """Plan INSERT INTO … REPLACE WHERE: a DELETE with the condition, and an INSERT whose rows must all fulfil it, in one plan.

    Args:
        rows: The rows to insert.
        snapshot: The version of the table on which the statement is planned.
        condition: The condition over columns of the table.
    """
    delete, insert = _plan_delete_where(rows, snapshot, condition), rows.plan(snapshot)
    # A new row that does not fulfil the condition is an error, as in Delta on Spark.
    condition_check = Check(f"REPLACE WHERE {condition}", condition)
    plan = replace(
        insert,
        clauses=(*delete.clauses, *insert.clauses),
        rules=replace(insert.rules, checks=(*insert.rules.checks, condition_check)),
        parameters={"mode": "Overwrite", "predicate": [condition]},
        # An INSERT reads no files. The other fields are those of the DELETE: they select the files to read, and those to remove unread.
        target=delete.target,
        files=delete.files,
        bound_columns=delete.bound_columns,
        conjuncts=delete.conjuncts,
        whole_files=delete.whole_files,
    )
    return PlannedStatement(plan, SourceRowsOnce(rows.source, planner.SOURCE), rows.reads_table)


def _plan_delete_where(rows: NewRows, snapshot: Snapshot, condition: str) -> RowPlan:
    """Plan the DELETE of INSERT … REPLACE WHERE. The alias SOURCE of the new rows replaces the name of the table.

    The condition selects the rows to delete, and must also be true for the new rows, where columns have no other qualifier than SOURCE. So
    the same names are valid in both places. A condition that qualifies a column with the true name of the table is an error.
    """
    delete_command = Delete(TableName((planner.SOURCE,)), None, SqlText(condition))
    return planner.plan_delete(delete_command, snapshot, case_sensitive=rows.case_sensitive, time_zone=rows.time_zone)


def insert(table: Table, rows_for: RowsFor, overwrite: Overwrite | None, options: CommitOptions = DEFAULT_COMMIT_OPTIONS) -> ChangeResult:
    """Run INSERT INTO, or INSERT OVERWRITE if `overwrite` is given.

    Unless the query reads the table itself, INSERT INTO is a blind append: it conflicts only with a change of schema or protocol.

    Args:
        table: The table that receives the rows.
        rows_for: The function that returns the rows, given the version that the statement changes. It is called once per attempt.
        overwrite: The files that INSERT OVERWRITE removes, or None for INSERT INTO.
        options: The number of retries, and the transaction of the commit.
    """
    timings = Timings()
    return commit_with_retry(table, lambda: _plan_and_write(table, rows_for, overwrite, timings), timings, options)


def validate(table: Table, rows_for: RowsFor, preview_rows: int) -> DataFrame | None:
    """Check the rows of an INSERT as if it were run, without a commit. The rows are written, and their files are deleted.

    Args:
        table: The table whose columns and rules the rows must fit.
        rows_for: The function that returns the rows, given the newest version.
        preview_rows: The greatest number of rows to return.

    Returns:
        The first rows, or None if there are no rows to check.

    Raises:
        UnknownColumn: The table lacks a column of the rows.
        TypeMismatch: The type of a column does not fit the table.
        ConstraintViolated: A row violates a rule of the table.
    """
    snapshot = table.snapshot()
    snapshot.check_writable()
    rows = rows_for(snapshot)
    if rows is None:
        return None
    plan = rows.plan(snapshot)
    table_after = snapshot.shape if plan.new_schema is None else snapshot.evolved(plan.new_schema)
    rows.write_plan(plan, table_after).discard(table_after.filesystem_options)
    return rows.frame.limit(preview_rows)


def _plan_and_write(table: Table, rows_for: RowsFor, overwrite: Overwrite | None, timings: Timings) -> Attempt:
    """Plan an INSERT on the newest version, write its rows as data files, and return the commit that adds these files.

    With `overwrite`, the commit also removes the overwritten files. `rows_for`: returns the rows of the query for that version.
    """
    with timings.measure("plan"):
        snapshot = table.snapshot()
        _check_writable(snapshot, overwrite)
        insert_rows = rows_for(snapshot)
        if insert_rows is None or (overwrite is not None and overwrite.is_skipped(snapshot, insert_rows)):
            return Attempt(snapshot, change=None, counts=RowCounts())
        plan = insert_rows.plan(snapshot)
        table_after = snapshot.shape if plan.new_schema is None else snapshot.evolved(plan.new_schema)
    with timings.measure("spark"):
        output = insert_rows.write_plan(plan, table_after)
    append = _append_request(snapshot, output, plan, table_after, insert_rows)
    if overwrite is None:
        return Attempt(snapshot, append, row_counts(output, append.files), append.files.added)
    if overwrite.is_dynamic(snapshot) and snapshot.files().partitions.null_count:
        # Files that were written before the partitioning changed may have rows of any partition.
        spark = insert_rows.frame.sparkSession
        return overwrite_partitions(spark, snapshot, plan, output, append, timings, reads_table=insert_rows.reads_table)
    removed_files_mask = overwrite.removed_files_mask(snapshot, insert_rows, output)
    overwrite_append = replace(append, replaces_partitions=overwrite.is_dynamic(snapshot))
    return _overwrite_attempt(snapshot, overwrite_append, removed_files_mask, output, reads_table=insert_rows.reads_table)


def _check_writable(snapshot: Snapshot, overwrite: Overwrite | None) -> None:
    """Raise UnsupportedTableFeature if the table cannot be written, and AppendOnly if an append-only table would be overwritten."""
    snapshot.check_writable()
    if overwrite is not None and snapshot.shape.rules.append_only:
        raise AppendOnly(snapshot.name, "INSERT OVERWRITE")


def _append_request(snapshot: Snapshot, output: WriteOutput, plan: RowPlan, table_after: TableShape, rows: NewRows) -> CommitRequest:
    """Return the commit that adds the new files, and new columns of the plan. `table_after`: the table with the schema of the plan."""
    return CommitRequest(
        "WRITE" if rows.copied_files is None else "COPY INTO",
        parameters={"mode": "Append", "partitionBy": partition_by(snapshot.shape.partitioning)},
        metrics=insert_metrics(output),
        files=FileChanges(tuple(output.files)),
        # A blind append reads nothing, so it does not even list the files. If the query reads the table, every row counts as read.
        reads=Reads(frozenset(snapshot.files().paths), may_match=every_file) if rows.reads_table else Reads(),
        definition=None if plan.new_schema is None else TableDefinition(schema=table_after.schema),
        copied_files=rows.copied_files or frozenset(),
    )


def _overwrite_attempt(snapshot: Snapshot, append: CommitRequest, mask: FileMask, output: WriteOutput, *, reads_table: bool) -> Attempt:
    """Return the attempt that adds the files of `append` and removes the files for which `mask` is true."""
    listing = snapshot.files()
    removed = listing.filter(mask(listing))
    change = replace(
        append,
        parameters={**append.parameters, "mode": "Overwrite"},
        metrics={**append.metrics, **removal_metrics(removed)},
        files=FileChanges(append.files.added, tuple(removed.paths)),
        reads=append.reads if reads_table else Reads(frozenset(removed.paths), may_match=mask),
    )
    return Attempt(snapshot, change, row_counts(output, change.files, removed), change.files.added)


def static_mask(snapshot: Snapshot, rows: NewRows) -> FileMask:
    """Return the mask of the files in the partition of PARTITION (p = value, …), or of all files if there is no such clause.

    A mask is a function that returns a boolean for each file of a listing: whether the file is selected.

    Args:
        snapshot: The version of the table that contains the files.
        rows: The rows of the INSERT, with its PARTITION clause.

    Raises:
        UnknownColumn: PARTITION names a column that the table lacks.
        PlanError: The table is not partitioned by one of the columns, or the partition of some files is unknown.
    """
    return partition_mask(rows.frame.sparkSession, snapshot, rows.static_partition_values(snapshot.shape))
