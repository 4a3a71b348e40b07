"""Statements that change rows, carried out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rowmerge.changes.insert import NewRows, append, overwrite, replace_using, replace_where
from rowmerge.changes.result import ChangeResult
from rowmerge.changes.row_change import SourceRowsOnce, change_rows
from rowmerge.changes.table_change import truncate
from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Delete, Insert, Merge, RowCommand, Truncate, Update
from rowmerge.errors import UnsupportedStatement
from rowmerge.plan.conditions import Side
from rowmerge.plan.planner import SOURCE, plan_delete, plan_merge, plan_update
from rowmerge.plan.row_plan import RowPlan
from rowmerge.session import answers
from rowmerge.session.binding import Binder
from rowmerge.session.results import StatementResult
from rowmerge.sql import bind_expression, references
from rowmerge.table.schema import backquote
from rowmerge.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class RowStatements:
    """Carries out MERGE, UPDATE, DELETE, INSERT and TRUNCATE."""

    spark: SparkSession
    binder: Binder

    def run(self, command: RowCommand) -> StatementResult:
        """The counts and what was done. Raises what planning, Spark and the commit raise; then nothing was written."""
        operation = type(command).__name__.upper()
        result = self._run(command)
        frame = answers.row_counts(self.spark, operation, result.changes)
        return StatementResult(frame, operation, result.changes, result.version, result.timings.seconds)

    def plan(self, command: RowCommand) -> RowPlan:
        """What EXPLAIN shows. Raises UnsupportedStatement for INSERT and TRUNCATE, which have no conditions to plan."""
        match command:
            case Merge():
                snapshot = self.binder.table(command.target).snapshot()
                return self._merge_plan(command, snapshot, source_side(command, self._source(command)))
            case Update() | Delete():
                return self._target_plan(command, self.binder.table(command.target).snapshot())
        raise UnsupportedStatement(
            "EXPLAIN takes MERGE, UPDATE and DELETE. For the query of an INSERT, EXPLAIN the query", text=str(command.target)
        )

    def _run(self, command: RowCommand) -> ChangeResult:
        match command:
            case Merge():
                table = self.binder.table(command.target)
                frame = self._source(command)
                side = source_side(command, frame)
                return change_rows(self.spark, table, partial(self._merge_plan, command, source=side), SourceRowsOnce(frame, side.alias))
            case Update() | Delete():
                return change_rows(self.spark, self.binder.table(command.target), partial(self._target_plan, command))
            case Insert():
                return self._insert(command)
            case Truncate(target):
                return truncate(self.binder.table(target))

    def _merge_plan(self, command: Merge, snapshot: Snapshot, source: Side) -> RowPlan:
        return plan_merge(command, snapshot, source, case_sensitive=self._case_sensitive)

    def _target_plan(self, command: Update | Delete, snapshot: Snapshot) -> RowPlan:
        condition = None if command.condition is None else self._bound(command.condition)
        if isinstance(command, Delete):
            return plan_delete(replace(command, condition=condition), snapshot, case_sensitive=self._case_sensitive)
        assignments = tuple(replace(a, value=self._bound(a.value)) for a in command.assignments)
        command = replace(command, condition=condition, assignments=assignments)
        return plan_update(command, snapshot, case_sensitive=self._case_sensitive)

    def _source(self, command: Merge) -> DataFrame:
        """The source relation as a DataFrame, its columns named as the alias says."""
        text = f"select * from {command.source}"
        if command.source_columns:
            alias = backquote(command.source_alias or SOURCE)
            text += f" as {alias} ({', '.join(backquote(column) for column in command.source_columns)})"
        if command.with_clause is not None:
            text = f"{command.with_clause} {text}"
        return self.binder.query(text)

    def _insert(self, command: Insert) -> ChangeResult:
        table = self.binder.table(command.target)
        static = {name: value.text for name, value in command.partition if value is not None}
        rows = NewRows(self.binder.query(command.query.text), command.columns, command.by_name, static)
        if command.replace_using:
            return replace_using(self.spark, table, rows, command.replace_using)
        if command.replace_where is not None:
            condition = self._bound(command.replace_where)
            return replace_where(self.spark, table, rows, condition.text)
        if command.overwrite:
            mode = str(self.spark.conf.get("spark.sql.sources.partitionOverwriteMode", "STATIC")).upper()
            dynamic = mode == "DYNAMIC" or any(value is None for _, value in command.partition)
            return overwrite(table, rows, dynamic=dynamic)
        return append(table, rows)

    def _bound(self, text: SqlText) -> SqlText:
        return SqlText(self.binder.bound(text.text, bind_expression), text.line, text.column)

    @property
    def _case_sensitive(self) -> bool:
        return str(self.spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def source_side(command: Merge, frame: DataFrame) -> Side:
    """The source's alias and columns: without an alias, a table goes by its own name."""
    columns = tuple(frame.columns)
    if command.source_alias is not None:
        return Side(command.source_alias, (), columns)
    before = "select * from "
    named = [reference for reference in references(before + command.source.text) if reference.start == len(before)]
    if not named:
        return Side(SOURCE, (), columns)
    parts = named[0].name.parts
    return Side(parts[-1], (parts,), columns)
