"""Run MERGE, UPDATE, DELETE, INSERT and TRUNCATE: plan on a version of the target, execute and commit.

A statement may read its own target: for example, a model that selects from `{{ this }}`, or a MERGE whose source is the target. It reads
the version on which it is planned, and every row of that version counts as read. So any concurrent change of the table is a conflict, and
the source is evaluated again for the next attempt. Any other source is evaluated once, or twice if the first attempt did not keep its rows.
It is also evaluated again if a concurrent statement has changed the columns of the table, and the next attempt uses other source columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Assignment, Delete, DeleteAction, DropPartitions, Insert, Merge, RowCommand, Truncate, Update, When
from rowmerge.errors import PlanError
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.result import ChangeResult
from rowmerge.execution.row_change import change_rows
from rowmerge.execution.table_change import drop_partitions, truncate
from rowmerge.execution.ways.way import PlannedStatement
from rowmerge.plan.expressions.qualification import apart_from, build_side
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.planner import SOURCE, plan_delete, plan_merge, plan_update
from rowmerge.plan.row_plan import RowPlan, needed_source_columns
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, TableScan
from rowmerge.session.names.needed_columns import HAS_METADATA_COLUMN
from rowmerge.session.names.resolver import NameResolver, Target
from rowmerge.session.names.scope import SessionContext, StatementScope
from rowmerge.session.statements.inserts import InsertStatement
from rowmerge.session.statements.settings import may_evolve, merge_cardinality
from rowmerge.spark.source.source import SourceRowsOnce
from rowmerge.spark.spark_session import is_case_sensitive
from rowmerge.spark.time_zones import session_time_zone
from rowmerge.spark.types import schema_of
from rowmerge.sql import hidden_columns_of_target, references
from rowmerge.table.metadata.schema import Struct, backquote
from rowmerge.table.snapshots.metadata_columns import DELETED
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SELECT = "select * from "


def run_row_command(context: SessionContext, command: RowCommand, options: CommitOptions) -> StatementResult:
    """Execute a statement that changes rows, commit, and return the counts of changed rows. After an error, the table is unchanged.

    Args:
        context: The session.
        command: The parsed statement.
        options: The number of retries, and the transaction of the commit.
    """
    change, scans = _change_target(context, command, options)
    is_alteration = isinstance(command, DropPartitions)
    operation = "ALTER TABLE" if is_alteration else type(command).__name__.upper()  # INSERT for the class Insert
    row_counts = frames.changed_row_counts(context.spark, operation, change.counts)
    return StatementResult.from_change(row_counts, operation, change, scans)


def _change_target(context: SessionContext, command: RowCommand, options: CommitOptions) -> tuple[ChangeResult, tuple[TableScan, ...]]:
    """Change the rows of the table that the command names, and commit. Return the result, and the scans of the command's queries."""
    target = context.audit.target(context.names.target(command.target))
    match command:
        case Insert():
            statement = InsertStatement(context, command, target)
            return statement.run(options), statement.scans
        case Truncate():
            return truncate(context.spark, target.table, [(column, value.text) for column, value in command.partition], options), ()
        case DropPartitions(_, partitions, if_exists):
            texts = [[(column, value.text) for column, value in partition] for partition in partitions]
            return drop_partitions(context.spark, target.table, texts, options, if_exists=if_exists), ()
        case _:
            planner = planner_of(context, command, target)
            return change_rows(context.spark, target.table, planner.plan, options), planner.scans


def planner_of(context: SessionContext, command: Merge | Update | Delete, target: Target) -> MergePlanner | TargetRowsPlanner:
    """Return the planner of a statement on versions of its target.

    After a conflict, the statement is planned again on the next version. MERGE keeps its evaluated source.

    Args:
        context: The session.
        command: The parsed statement.
        target: The table that the statement changes. Its qualified name replaces the name in the command.
    """
    command = replace(command, target=target.name)
    return MergePlanner(context, command) if isinstance(command, Merge) else TargetRowsPlanner(context, command)


@dataclass
class TargetRowsPlanner:
    """Plan one UPDATE or DELETE, and plan it again after each conflict.

    `scans`: the tables that subqueries of the last plan read. `_scope`: the scope of the last plan. While it exists, Spark has the views
    that the plan names.
    """

    context: SessionContext
    command: Update | Delete
    scans: tuple[TableScan, ...] = ()
    _scope: StatementScope | None = None

    def plan(self, snapshot: Snapshot) -> PlannedStatement:
        """Return the plan on this version of the target."""
        command, spark = self.command, self.context.spark
        scope = StatementScope.begin(self.context, snapshot, command.with_clause)
        scope.table_reads.add_snapshots([snapshot])
        assignments = command.assignments if isinstance(command, Update) else ()
        hidden = _metadata_columns(snapshot, command, command.alias, [command.condition, *(each.value for each in assignments)])
        columns = (*snapshot.schema.names, *hidden.names)
        condition = None if command.condition is None else scope.bind_condition(command.condition, columns)
        sensitive, zone = is_case_sensitive(spark), session_time_zone(spark)
        if isinstance(command, Delete):
            delete = replace(command, condition=condition)
            plan = plan_delete(delete, snapshot, case_sensitive=sensitive, time_zone=zone, metadata_columns=hidden)
        else:
            update = replace(command, condition=condition, assignments=_bind_assignments(assignments, scope))
            plan = plan_update(update, snapshot, case_sensitive=sensitive, time_zone=zone, metadata_columns=hidden)
        self.scans, self._scope = scope.scans, scope
        return PlannedStatement(plan, None, scope.reads(snapshot))


@dataclass
class MergePlanner:
    """The planner of one MERGE. It plans once per attempt, but evaluates the source again only if the source reads the target.

    `scans`: the tables that the source and the subqueries of the last plan read. `_scope`: see TargetRowsPlanner.
    """

    context: SessionContext
    command: Merge
    scans: tuple[TableScan, ...] = ()
    _frame: DataFrame | None = None
    _source: SourceRowsOnce | None = None
    _scope: StatementScope | None = None

    def plan(self, snapshot: Snapshot) -> PlannedStatement:
        """Return the plan on this version of the target, with the source."""
        scope = StatementScope.begin(self.context, snapshot, self.command.with_clause)
        scope.table_reads.add_snapshots([snapshot])
        frame = scope.query(source_query(self.command))
        hidden = _metadata_columns(snapshot, self.command, self.command.target_alias, _texts_of(self.command), frame.columns)
        columns = (*snapshot.schema.names, *frame.columns, *hidden.names)
        clauses = tuple(_bind_clause(clause, scope, columns) for clause in self.command.clauses)
        command = replace(self.command, on=scope.bind_condition(self.command.on, columns), clauses=clauses)
        reads_target, self.scans, self._scope = scope.reads(snapshot), scope.scans, scope
        if self._frame is None or reads_target:
            self._frame, self._source = frame, None
        plan = self._plan(command, snapshot, self._frame, hidden)
        columns_to_evaluate = _columns_to_evaluate(plan, self._frame.columns)
        # A concurrent ALTER TABLE can make another attempt use other columns, for example with UPDATE SET *.
        if self._source is None or not set(columns_to_evaluate) <= set(self._source.frame.columns):
            assert plan.source is not None
            self._source = SourceRowsOnce(_select_columns(self._frame, columns_to_evaluate), plan.source.alias)
        return PlannedStatement(plan, self._source, reads_target)

    def _plan(self, command: Merge, snapshot: Snapshot, frame: DataFrame, metadata_columns: Struct) -> RowPlan:
        """Return the plan on this version.

        Args:
            command: The statement with bound names.
            snapshot: The version.
            frame: The source, which an earlier attempt may have created.
            metadata_columns: The metadata columns of the target that the statement uses.
        """
        source = _resolve_source(command, frame, self.context.names)
        evolves = command.schema_evolution or may_evolve(frame.sparkSession, snapshot)
        source_schema = schema_of(frame) if evolves else None
        spark = self.context.spark
        plan = plan_merge(
            command,
            snapshot,
            source,
            case_sensitive=is_case_sensitive(spark),
            time_zone=session_time_zone(spark),
            source_schema=source_schema,
            metadata_columns=metadata_columns,
        )
        return replace(plan, cardinality=merge_cardinality(spark))


def _columns_to_evaluate(plan: RowPlan, columns: Sequence[str]) -> Sequence[str]:
    """Return the columns of a source that Spark evaluates: those that the statement uses, or all if these are uncertain or none.

    Spark keeps the rows of a source, so it cannot leave out columns itself.
    """
    used_columns = needed_source_columns(plan)
    are_distinct = len({name.lower() for name in columns}) == len(columns)
    if not used_columns or not used_columns <= set(columns) or not are_distinct:
        return columns
    return [name for name in columns if name in used_columns]


def _select_columns(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the columns of a DataFrame, or the same DataFrame if these are all its columns."""
    return frame if len(columns) == len(frame.columns) else frame.select(*map(backquote, columns))


def _metadata_columns(
    snapshot: Snapshot,
    command: Merge | Update | Delete,
    alias: str | None,
    texts: Iterable[SqlText | None],
    source_columns: Sequence[str] = (),
) -> Struct:
    """Return the metadata columns of the target that the conditions and values of a statement use.

    Args:
        snapshot: The version of the target.
        command: The statement.
        alias: The alias of the target, or None.
        texts: The conditions and values.
        source_columns: The columns of the source of a MERGE.

    Raises:
        PlanError: They use the column `_deleted`.
    """
    names: set[str] = set()
    for text in filter(None, texts):
        if HAS_METADATA_COLUMN.search(text.text):
            hidden = snapshot.metadata_columns.hidden_by(snapshot.schema).names
            names |= hidden_columns_of_target(text.text, hidden, (alias or command.target.parts[-1],), source_columns)
    if DELETED in names:
        problem = f"{type(command).__name__.upper()} cannot use the column {DELETED} of {snapshot.name}, because it changes only live rows."
        raise PlanError(f"{problem} Leave the column out.")
    return Struct(tuple(column for column in snapshot.metadata_columns.columns if column.name in names)) if names else Struct()


def _texts_of(command: Merge) -> Iterator[SqlText | None]:
    """Yield the conditions and the values of a MERGE."""
    yield command.on
    for clause in command.clauses:
        yield clause.condition
        if not isinstance(clause.action, DeleteAction):
            yield from (assignment.value for assignment in clause.action.assignments or ())


def _bind_assignments(assignments: tuple[Assignment, ...], scope: StatementScope) -> tuple[Assignment, ...]:
    """Bind the names in the subqueries and function calls of assigned values."""
    return tuple(replace(assignment, value=scope.bind(assignment.value)) for assignment in assignments)


def _bind_clause(clause: When, scope: StatementScope, columns: Sequence[str]) -> When:
    """Bind the names in the subqueries and function calls of a WHEN clause. `columns`: the columns that its condition can use."""
    action = clause.action
    if not isinstance(action, DeleteAction) and action.assignments is not None:
        action = replace(action, assignments=_bind_assignments(action.assignments, scope))
    condition = None if clause.condition is None else scope.bind_condition(clause.condition, columns)
    return replace(clause, condition=condition, action=action)


def source_query(command: Merge) -> str:
    """Return the source of a MERGE as a query, with the column names that its alias lists."""
    text = f"{_SELECT}{command.source}"
    if command.source_columns:
        alias = backquote(command.source_alias or SOURCE)
        text += f" as {alias} ({', '.join(backquote(column) for column in command.source_columns)})"
    return text


def _resolve_source(command: Merge, frame: DataFrame, names: NameResolver) -> Side:
    """Return the alias and the columns of a MERGE's source, whose rows are `frame`.

    The alias qualifies the source's columns in the plan:

    - A source with an alias in the statement keeps it.
    - A table without an alias has its own name as its alias.
    - A query without an alias has the alias SOURCE or, if that is the target's alias, another one. The statement cannot use this alias.
    """
    # `names` are further qualifiers of the columns. Only a table without an alias has them, such as `db.orders` for `orders`.
    without_alias = Side(SOURCE, names=(), columns=tuple(frame.columns))
    if command.source_alias is not None:
        return replace(without_alias, alias=command.source_alias)
    target = build_side(command.target.parts, command.target_alias, columns=())  # only the target's alias matters here
    table_name = _source_table_name(command)
    if table_name is not None:
        return _resolve_source_table(command, target, _source_path(table_name, names), without_alias.columns)
    return replace(without_alias, alias=apart_from(without_alias, target, SOURCE).alias)


def _resolve_source_table(command: Merge, target: Side, source_path: tuple[str, ...], columns: tuple[str, ...]) -> Side:
    """Return the alias and the columns of a source table without an alias. `source_path`: the parts of its qualified name."""
    source = build_side(source_path, None, columns)
    is_target = source_path == command.target.parts  # the command has the target's name with its schema
    if is_target or command.target_alias is not None:
        return source  # if both sides now have the same alias, planning raises an error
    # Two tables in different schemas can have the same name. Then the source gets another alias than its name.
    return apart_from(source, target, SOURCE)


def _source_path(name: TableName, names: NameResolver) -> tuple[str, ...]:
    """Return the parts of the name of a source table: with its schema, or unchanged if Spark resolves the name."""
    is_resolved_by_spark = names.is_temporary_view(name) or len(name.parts) > 2
    return name.parts if is_resolved_by_spark else names.full_name(name).parts


def _source_table_name(command: Merge) -> TableName | None:
    """Return the name of the table or view that is the source of a MERGE, or None for a query."""
    tables = references(f"{_SELECT}{command.source}")
    return next((table.name for table in tables if table.start == len(_SELECT)), None)
