"""INSERT, carried out: which of its forms a statement is, and where its rows come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Insert
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.insert import NewRows, append, overwrite, replaced_on, replaced_using, replaced_where
from rowmerge.execution.result import ChangeResult
from rowmerge.execution.row_change import change_rows
from rowmerge.execution.ways.request import Planned
from rowmerge.plan.planner import SOURCE, VALUE_COLUMN
from rowmerge.session.binding import Binder
from rowmerge.session.default_values import filled
from rowmerge.session.settings import case_sensitive, may_evolve, overwrites_dynamically
from rowmerge.sql import bind_expression
from rowmerge.table.snapshot import Snapshot, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class InsertStatement:
    """Carries out one INSERT."""

    spark: SparkSession
    binder: Binder
    command: Insert

    def run(self, table: Table, options: CommitOptions) -> ChangeResult:
        """Write the rows and commit. Raises what planning, Spark and the commit raise."""
        command = self.command
        if self.replaces:
            return change_rows(self.spark, table, self.planned, options)
        if command.overwrite:
            return overwrite(table, self.rows, options, dynamic=self.dynamic, if_not_exists=command.if_not_exists)
        return append(table, self.rows, options)

    @property
    def replaces(self) -> bool:
        """Whether it is one of the forms of REPLACE, which delete and insert rows."""
        command = self.command
        return bool(command.replace_using) or command.replace_on is not None or command.replace_where is not None

    @property
    def dynamic(self) -> bool:
        """Whether an OVERWRITE replaces only partitions that get rows."""
        command = self.command
        dynamic = overwrites_dynamically(self.spark) if command.dynamic is None else command.dynamic
        return command.overwrite and dynamic and not command.if_not_exists

    def planned(self, snapshot: Snapshot) -> Planned:
        """The plan of a REPLACE on this version, and its rows."""
        command, rows = self.command, self.rows(snapshot)
        if command.replace_using:
            return replaced_using(rows, snapshot, command.replace_using)
        if command.replace_where is not None:
            return replaced_where(rows, snapshot, command.replace_where.text)
        condition = command.replace_on
        assert condition is not None
        names = self.binder.statement(snapshot)
        bound = SqlText(bind_expression(condition.text, names.resolve, names.function), condition.line, condition.column)
        return replaced_on(rows, snapshot, bound, command.target, command.alias)

    def rows(self, snapshot: Snapshot) -> NewRows:
        """The rows to insert, as they are when the table is at this version."""
        command = self.command
        names = self.binder.statement(snapshot)
        static = {name: value.text for name, value in command.partition if value is not None}
        text, columns, computed = filled(command, snapshot, static)
        frame = self.binder.query(text, names)
        if computed:
            frame = frame.toDF(*map(str, range(len(frame.columns)))).drop(*map(str, computed))
        if command.query.text.lstrip().upper().startswith("VALUES"):
            # Rows that a statement spells out are few: they make one file, not one a core.
            frame = frame.coalesce(1)
        alias = None
        if command.replace_on is not None:
            alias = command.query_alias or SOURCE
            # A name that the query has twice cannot be meant by the condition.
            names_ = [name.lower() for name in frame.columns]
            frame = frame.toDF(*(VALUE_COLUMN % at if names_.count(name) > 1 else frame.columns[at] for at, name in enumerate(names_)))
        partition = tuple((name, None if value is None else value.text) for name, value in command.partition)
        evolves = command.schema_evolution or may_evolve(self.spark, snapshot)
        reads_table, exact = snapshot.line in names.read, case_sensitive(self.spark)
        return NewRows(frame, columns, command.by_name, partition, reads_table, evolves, alias, exact)
