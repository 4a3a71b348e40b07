"""Statements that change rows, carried out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Assignment, Delete, DeleteAction, Insert, Merge, RowCommand, Truncate, Update, When
from rowmerge.errors import TableError
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.result import ChangeResult
from rowmerge.execution.row_change import change_rows
from rowmerge.execution.table_change import truncate
from rowmerge.execution.ways.request import Planned
from rowmerge.plan.conditions import Side
from rowmerge.plan.planner import SOURCE, plan_delete, plan_merge, plan_update
from rowmerge.plan.sides import apart_from, side_of
from rowmerge.session import answers
from rowmerge.session.binding import Binder, Statement
from rowmerge.session.inserts import InsertStatement
from rowmerge.session.results import StatementResult
from rowmerge.session.settings import case_sensitive, may_evolve
from rowmerge.spark.source import SourceRowsOnce
from rowmerge.spark.types import schema_of
from rowmerge.sql import bind_expression, references
from rowmerge.table.schema import backquote
from rowmerge.table.snapshot import Snapshot, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Command = TypeVar("Command", bound=RowCommand)


@dataclass(frozen=True)
class RowStatements:
    """Carries out MERGE, UPDATE, DELETE, INSERT and TRUNCATE."""

    spark: SparkSession
    binder: Binder

    def run(self, command: RowCommand, options: CommitOptions) -> StatementResult:
        """The counts and what was done. Raises what planning, Spark and the commit raise; then nothing was written."""
        operation = type(command).__name__.upper()
        result = self._run(command, options)
        return StatementResult.of(answers.row_counts(self.spark, operation, result.counts), operation, result)

    def table(self, command: RowCommand) -> Table:
        """The table that a command changes. Raises TableNotFound, TableError for a view."""
        if len(command.target.parts) == 1 and self.binder.is_temporary(command.target.parts[0]):
            raise TableError(f"{command.target} is a temporary view, which holds no rows to change. Name the table that it reads.")
        return self.binder.written(command.target)

    def planned(self, command: Merge | Update | Delete, snapshot: Snapshot) -> Planned:
        """The plan of a command on a version."""
        command = self._without_branch(command)
        if isinstance(command, Merge):
            return MergePlanner(self.binder, command, case_sensitive(self.spark)).plan(snapshot)
        return self._target_plan(command, snapshot)

    def _run(self, command: RowCommand, options: CommitOptions) -> ChangeResult:
        table = self.table(command)
        command = self._without_branch(command)
        match command:
            case Merge():
                return change_rows(self.spark, table, MergePlanner(self.binder, command, case_sensitive(self.spark)).plan, options)
            case Update() | Delete():
                return change_rows(self.spark, table, partial(self._target_plan, command), options)
            case Insert():
                return InsertStatement(self.spark, self.binder, command).run(table, options)
            case Truncate():
                return truncate(self.spark, table, [(name, value.text) for name, value in command.partition], options)

    def _without_branch(self, command: Command) -> Command:
        """The command under the name of its table alone: what a branch is committed to, the opened table knows."""
        found = self.binder.reference_in(command.target)
        return command if found is None else replace(command, target=found[0])

    def _target_plan(self, command: Update | Delete, snapshot: Snapshot) -> Planned:
        command = replace(command, target=TableName(self.binder.locate(command.target)))
        names = self.binder.statement(snapshot, command.with_clause)
        condition = None if command.condition is None else _bound(command.condition, names)
        if isinstance(command, Delete):
            plan = plan_delete(replace(command, condition=condition), snapshot, case_sensitive=case_sensitive(self.spark))
        else:
            update = replace(command, condition=condition, assignments=_bound_assignments(command.assignments, names))
            plan = plan_update(update, snapshot, case_sensitive=case_sensitive(self.spark))
        return Planned(plan, None, snapshot.line in names.read)


@dataclass
class MergePlanner:
    """Plans one MERGE on one snapshot after another; the source is evaluated again only when it reads the table that changed meanwhile."""

    binder: Binder
    command: Merge
    case_sensitive: bool
    _source: SourceRowsOnce | None = None

    def plan(self, snapshot: Snapshot) -> Planned:
        """The plan on this version, and its source."""
        names = self.binder.statement(snapshot, self.command.with_clause)
        clauses = tuple(_bound_clause(clause, names) for clause in self.command.clauses)
        target = TableName(self.binder.locate(self.command.target))
        command = replace(self.command, target=target, on=_bound(self.command.on, names), clauses=clauses)
        frame = self.binder.query(source_query(command), names)
        reads_table = snapshot.line in names.read
        if self._source is None or reads_table:
            self._source = SourceRowsOnce(frame, source_side(command, frame, self.binder).alias)
        # A source that is kept has the columns that it had, whatever became of its tables meanwhile.
        frame = self._source.frame
        side = source_side(command, frame, self.binder)
        evolves = command.schema_evolution or may_evolve(frame.sparkSession, snapshot)
        types = schema_of(frame) if evolves else None
        plan = plan_merge(command, snapshot, side, case_sensitive=self.case_sensitive, source_schema=types)
        return Planned(plan, self._source, reads_table)


def _bound(text: SqlText, names: Statement) -> SqlText:
    return SqlText(bind_expression(text.text, names.resolve, names.function), text.line, text.column)


def _bound_assignments(assignments: tuple[Assignment, ...], names: Statement) -> tuple[Assignment, ...]:
    return tuple(replace(a, value=_bound(a.value, names)) for a in assignments)


def _bound_clause(clause: When, names: Statement) -> When:
    action = clause.action
    if not isinstance(action, DeleteAction) and action.assignments is not None:
        action = replace(action, assignments=_bound_assignments(action.assignments, names))
    condition = None if clause.condition is None else _bound(clause.condition, names)
    return replace(clause, condition=condition, action=action)


def source_query(command: Merge) -> str:
    """The source relation as a query, its columns named as the alias says."""
    text = f"select * from {command.source}"
    if command.source_columns:
        alias = backquote(command.source_alias or SOURCE)
        text += f" as {alias} ({', '.join(backquote(column) for column in command.source_columns)})"
    return text


def source_side(command: Merge, frame: DataFrame, binder: Binder) -> Side:
    """The source's alias and columns: without an alias, a table goes by its own name."""
    columns = tuple(frame.columns)
    if command.source_alias is not None:
        return Side(command.source_alias, (), columns)
    target = side_of(command.target.parts, command.target_alias, ())
    before = "select * from "
    named = [reference for reference in references(before + command.source.text) if reference.start == len(before)]
    if not named:
        return replace(apart_from(Side(SOURCE, (), columns), target, SOURCE), names=())
    name = named[0].name
    temporary = len(name.parts) == 1 and binder.is_temporary(name.parts[0])
    parts = name.parts if temporary or len(name.parts) > 2 else binder.locate(name)
    side = side_of(parts, None, columns)
    return side if parts == command.target.parts or command.target_alias is not None else apart_from(side, target, SOURCE)
