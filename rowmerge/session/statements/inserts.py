"""INSERT in all its forms, and the rows that it inserts. The default of the column replaces the keyword DEFAULT in the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rowmerge.commands.rows import Insert, OverwriteMode
from rowmerge.errors import PlanError
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.insert import NewRows, Overwrite, insert, plan_replace_on, plan_replace_using, plan_replace_where
from rowmerge.execution.result import ChangeResult
from rowmerge.execution.row_change import change_rows
from rowmerge.execution.ways.way import PlannedStatement
from rowmerge.plan.planner import SOURCE, VALUE_COLUMN
from rowmerge.session.answers.results import TableScan
from rowmerge.session.names.resolver import Target
from rowmerge.session.names.scope import SessionContext, StatementScope
from rowmerge.session.statements.settings import may_evolve, overwrites_dynamically
from rowmerge.spark.spark_session import is_case_sensitive
from rowmerge.spark.time_zones import session_time_zone
from rowmerge.sql import Defaults, find_defaults
from rowmerge.table.metadata.schema import Field, sql_name
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class InsertStatement:
    """One INSERT INTO, INSERT OVERWRITE or INSERT … REPLACE, with its target.

    `scans`: the tables that the last attempt reads. `_scope`: the scope of the last condition of REPLACE ON. While
    it exists, Spark has the views that the condition names.
    """

    context: SessionContext
    command: Insert
    target: Target
    scans: tuple[TableScan, ...] = ()
    _scope: StatementScope | None = None

    def run(self, options: CommitOptions) -> ChangeResult:
        """Write the rows and commit. Raises the errors of planning, of Spark and of the commit."""
        table = self.target.table
        if self.replace_form:
            return change_rows(self.context.spark, table, self.plan, options)
        return insert(table, self.rows, self.overwrite, options)

    @property
    def replace_form(self) -> str:
        """The word after REPLACE in INSERT INTO … REPLACE USING, ON or WHERE, or an empty string without REPLACE."""
        forms = {"USING": self.command.replace_using, "ON": self.command.replace_on, "WHERE": self.command.replace_where}
        return next((form for form, value in forms.items() if value), "")

    @property
    def overwrite(self) -> Overwrite | None:
        """The files that INSERT OVERWRITE removes, or None for INSERT INTO."""
        command = self.command
        if not command.overwrite:
            return None
        mode = command.overwrite_mode
        is_dynamic = overwrites_dynamically(self.context.spark) if mode is None else mode is OverwriteMode.DYNAMIC
        return Overwrite(is_dynamic and not command.if_not_exists, command.if_not_exists)

    def plan(self, snapshot: Snapshot) -> PlannedStatement:
        """Return the plan of INSERT … REPLACE USING, WHERE or ON on this version, with its rows."""
        command, rows = self.command, self.rows(snapshot)
        if command.replace_using:
            return plan_replace_using(rows, snapshot, command.replace_using)
        if command.replace_where is not None:
            return plan_replace_where(rows, snapshot, command.replace_where.text)
        assert command.replace_on is not None
        scope = StatementScope.begin(self.context, snapshot)
        condition = scope.bind(command.replace_on)
        self.scans, self._scope = self.scans + scope.scans, scope
        # The condition may qualify columns by the target's name as in the statement, but without the branch at its end (`t.branch_b`).
        target_name = command.target if self.target.branch is None else self.target.name
        return plan_replace_on(rows, snapshot, condition, target_name, command.alias)

    def rows(self, snapshot: Snapshot) -> NewRows:
        """Return the rows of the query, and how they map to the columns of the target.

        Args:
            snapshot: The version of the target, which has the column defaults. A query that reads the target reads this version.
        """
        command, spark = self.command, self.context.spark
        scope = StatementScope.begin(self.context, snapshot)  # finds the tables of the query, and records which of them the query reads
        query = _replace_defaults(command, snapshot)  # the query without the keyword DEFAULT
        frame = _query_frame(query, scope)
        self.scans = scope.scans
        rows = NewRows(
            frame=frame,
            columns=query.columns,
            by_name=command.by_name,
            partition=tuple((name, None if value is None else value.text) for name, value in command.partition),
            reads_table=scope.reads(snapshot),
            evolves=command.schema_evolution or may_evolve(spark, snapshot),
            case_sensitive=is_case_sensitive(spark),
            time_zone=session_time_zone(spark),
        )
        if command.replace_on is None:
            return rows
        # Only the condition of REPLACE ON names columns of the query. So they need an alias and unique names.
        return replace(rows, frame=_without_duplicate_names(rows.frame), alias=command.query_alias or SOURCE)


def _query_frame(query: InsertQuery, scope: StatementScope) -> DataFrame:
    """Return the rows of a query, without the values for generated columns of the table."""
    frame = scope.query(query.text)
    if query.generated_positions:
        # Positions become the names, because the query may have two columns with the same name.
        position_names = map(str, range(len(frame.columns)))
        frame = frame.toDF(*position_names).drop(*map(str, query.generated_positions))
    # Rows in the text of a statement are few: Spark writes one file, not one per core.
    return frame.coalesce(1) if query.text.lstrip().upper().startswith("VALUES") else frame


def _without_duplicate_names(frame: DataFrame) -> DataFrame:
    """Rename the columns that share a name with another column, because a condition cannot refer to one of them."""
    names = frame.columns
    name_counts = Counter(name.lower() for name in names)
    return frame.toDF(*(VALUE_COLUMN % index if name_counts[name.lower()] > 1 else name for index, name in enumerate(names)))


@dataclass(frozen=True)
class InsertQuery:
    """The query of an INSERT after DEFAULT is replaced. `columns`: the column list of its rows, or None for the order of the table.

    `generated_positions`: the positions of generated columns in the query's rows. They are not in `columns`, and must be dropped.
    """

    text: str
    columns: tuple[str, ...] | None
    generated_positions: frozenset[int] = frozenset()


def _replace_defaults(command: Insert, snapshot: Snapshot) -> InsertQuery:
    """Replace each DEFAULT in the query of an INSERT with the default of its column: `VALUES (1, DEFAULT)` becomes `VALUES (1, 7)`.

    Raise PlanError for DEFAULT in INSERT … BY NAME, or in only some rows of a generated column.
    """
    text = command.query.text
    defaults = find_defaults(text)
    if not defaults.keywords:
        return InsertQuery(text, columns=command.columns)
    if command.by_name:
        raise PlanError("INSERT … BY NAME does not accept DEFAULT. Omit the column from the query to insert its default.")
    columns = command.columns or _columns_of_query(command, snapshot)
    fields_by_position = {position: snapshot.schema.find(name) for position, name in enumerate(columns)}
    generated_positions = _generated_default_positions(defaults, fields_by_position, snapshot)
    query = defaults.filled(text, lambda position: _default_value(fields_by_position.get(position), snapshot))
    if not generated_positions:
        return InsertQuery(query, columns=command.columns)
    return _omit_generated_columns(query, columns, generated_positions)


def _omit_generated_columns(query: str, columns: Sequence[str], generated_positions: frozenset[int]) -> InsertQuery:
    """Return a query with a column list that omits its generated columns, because the write computes their values.

    If `g` is generated, `t (id, g, d) VALUES (1, DEFAULT, 7)` has become `VALUES (1, NULL, 7)`. The result has the columns `id` and `d`.
    Its generated position is 1, at which the NULL is dropped from the rows.
    """
    other_columns = tuple(name for position, name in enumerate(columns) if position not in generated_positions)
    return InsertQuery(query, columns=other_columns, generated_positions=generated_positions)


def _columns_of_query(command: Insert, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the target columns of a query without a column list: all columns that have no value in PARTITION (p = value)."""
    static_columns = {name.lower() for name, value in command.partition if value is not None}
    return tuple(name for name in snapshot.schema.names if name.lower() not in static_columns)


def _generated_default_positions(defaults: Defaults, fields_by_position: Mapping[int, Field | None], snapshot: Snapshot) -> frozenset[int]:
    """Return the positions of the generated columns with DEFAULT, which the caller drops from the rows.

    A column can only be dropped as a whole. So raise PlanError if a generated column has DEFAULT in some rows, and values in others.
    `fields_by_position`: the column of the table for each position in the query, or None if there is no such column.
    """
    generated_positions = set()
    default_positions = dict.fromkeys(keyword.position for keyword in defaults.keywords)  # each position once, in the order of the query
    for position in default_positions:
        field = fields_by_position.get(position)
        if field is None or field.name not in snapshot.shape.rules.generated:
            continue  # `field` is None for a value without a column, which is an error later
        if not defaults.is_default_in_all_rows(position):
            problem = f"The column `{field.name}` of {snapshot.name} is GENERATED, and only some rows contain DEFAULT for it."
            raise PlanError(f"{problem} Write DEFAULT in all rows, or omit the column.")
        generated_positions.add(position)
    return frozenset(generated_positions)


def _default_value(field: Field | None, snapshot: Snapshot) -> str:
    """Return the SQL that replaces DEFAULT. A generated column gets NULL, and is dropped from the query's rows."""
    rules = snapshot.shape.rules
    if field is None or field.name in rules.generated or field.name not in rules.defaults:
        return "NULL"
    # The cast states the column's type, because Spark looks for one type that fits all rows of VALUES.
    return f"cast(({rules.defaults[field.name]}) as {sql_name(field.type)})"
