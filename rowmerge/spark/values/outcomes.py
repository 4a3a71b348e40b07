"""Turn pairs of target and source rows into outcome rows, which show the action of the WHEN clause that fires, and its new values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, functions as F

from rowmerge.commands.rows import Match
from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID
from rowmerge.parquet.outcomes import MOVE, UNMATCHED_DELETE, UNMATCHED_UPDATE, OutcomeColumns
from rowmerge.plan.expressions.conditions import nondeterministic_function
from rowmerge.plan.row_plan import Clause, Effect, RowPlan
from rowmerge.spark.types import schema_of
from rowmerge.spark.values.assignment import evolved_value_sql, store_assignment_sql
from rowmerge.spark.values.nested import SqlValue
from rowmerge.spark.values.rules import NumberedClause, apply_rules
from rowmerge.table.metadata.engine_columns import ACTION, CLAUSE, FILE, IF_MATCHED, IF_UNMATCHED, MET, ORDINAL, POSITION
from rowmerge.table.metadata.schema import DataType, Field, backquote, sql_name

_COLUMN_REFERENCE = re.compile(r"(`[^`]+`|\w+)(\.(`[^`]+`|\w+))*")
"""A pattern for SQL that only names a column or a field, which can be evaluated for any row."""

GuardedClause = tuple[str, Clause]
"""A WHEN clause with its guard: SQL that is true for rows of the clause's kind, such as pairs of a match for WHEN MATCHED."""


@dataclass(frozen=True)
class OutcomeShape:
    """The optional columns of outcome rows, in addition to ACTION and the new values.

    `addresses`: whether to add FILE and POSITION of the target row. `lineage`: whether to add its lineage columns ROW_ID and CHANGED_IN.
    `ordinals`: whether to add ORDINAL, the number that identifies the source row, and to keep rows for which no clause fires.
    `extra_columns`: the SQL of further columns, with their names. `old_values`: whether to add the values of the target row (see
    `old_column`). `late_columns`: the columns without new values, because the writer reads the values that an UPDATE keeps.
    """

    addresses: bool = False
    lineage: bool = False
    ordinals: bool = False
    extra_columns: tuple[str, ...] = ()
    old_values: bool = False
    late_columns: frozenset[str] = frozenset()

    def columns(self, plan: RowPlan) -> list[str]:
        """Return SQL for the columns of this shape, in the order of the outcome rows."""
        columns = [FILE, POSITION] * self.addresses + [ROW_ID, CHANGED_IN] * self.lineage + [ORDINAL] * self.ordinals
        fields = enumerate(plan.schema) if self.old_values else ()
        old_values = [f"{_old_value(plan, field)} as {old_column(position)}" for position, field in fields]
        return [*columns, *self.extra_columns, *old_values]


def outcome_rows(rows: DataFrame, plan: RowPlan, guarded_clauses: Sequence[GuardedClause], shape: OutcomeShape) -> DataFrame:
    """Return an outcome row for each row: the action of the first clause that fires for the row, and the values that this clause writes.

    For example, a table has the columns id and n, and the clause is WHEN MATCHED THEN UPDATE SET n = s.n. The pair of the target row (7, 1)
    and the source row (7, 2) becomes the outcome row (UPDATE, 7, 2).

    Args:
        rows: Pairs of a target and a source row, or rows of one side, under the aliases of the plan's sides.
        plan: The plan of the statement.
        guarded_clauses: The clauses in the order of the statement, with guards. A guard is true for rows of the clause's kind, such as
            matches. A clause fires for a row if its guard and its own condition are true, and no earlier clause fires.
        shape: The columns to add. The result omits rows for which no clause fires, unless `shape` has ordinals.

    Returns:
        ACTION, the columns of `shape` and, unless all clauses delete, the new values of the table's columns (see `output_column`).

    Raises:
        TypeMismatch: A column cannot store the value that a clause assigns to it. Spark's analysis errors pass through.
    """
    # The column CLAUSE has the number of the clause that fires. The number of a clause is its index in `guarded_clauses`.
    rows = _with_firing_clause(rows, guarded_clauses)
    if not shape.ordinals:  # the ordinal of a matching source row is needed even if no clause fires
        rows = rows.where(F.col(CLAUSE).isNotNull())
    clauses = list(enumerate(clause for _, clause in guarded_clauses))
    # A Column object would need many calls to the JVM, and tables may have a thousand columns. So columns are SQL strings.
    action = _action_sql([(f"{CLAUSE} = {number}", clause) for number, clause in clauses])
    action_and_shape = [f"{action} as {ACTION}", *shape.columns(plan)]
    writing_clauses = [(number, clause) for number, clause in clauses if clause.effect is not Effect.DELETE]
    if not writing_clauses:
        return _analysed(rows.selectExpr(*action_and_shape))
    rows, writing_clauses = _materialize_nondeterministic_values(rows, writing_clauses)
    fields = [(position, field) for position, field in enumerate(plan.schema) if field.name not in shape.late_columns]
    new_values = _new_values(rows, plan, writing_clauses, fields, fires_for_all_rows=len(clauses) == 1 and not shape.ordinals)
    # The rules (CHECK constraints, NOT NULL, generated columns) apply to the new values, and stop the statement at a violation.
    outcomes = rows.selectExpr(*action_and_shape, *new_values, CLAUSE)
    return _with_rules_applied(outcomes, plan, writing_clauses, [field.name for _, field in fields]).drop(CLAUSE)


def _analysed(rows: DataFrame) -> DataFrame:
    """Return the rows after Spark has analysed their SQL, so that errors are raised here. Spark Connect analyses only on demand."""
    rows.columns  # noqa: B018
    return rows


def _with_firing_clause(rows: DataFrame, guarded_clauses: Sequence[GuardedClause]) -> DataFrame:
    """Add the column CLAUSE: the number of the first clause that fires for a row, or NULL if no clause fires."""
    conditions = [(f"{guard} and {condition_of(clause)}", number) for number, (guard, clause) in enumerate(guarded_clauses)]
    return rows.withColumn(CLAUSE, F.expr(f"cast({_case(conditions, 'null')} as int)"))


def _action_sql(guarded_clauses: Sequence[GuardedClause]) -> str:
    """Return SQL for the action of the first clause whose condition is true, or 0 (no action) if there is no such clause."""
    action = _case([(condition, _action_code(clause)) for condition, clause in guarded_clauses], "0")
    return f"cast({action} as tinyint)"


def _action_code(clause: Clause) -> int:
    """Return the code of the clause's action. WHEN NOT MATCHED BY SOURCE has its own codes, because its rows are counted separately."""
    if clause.match is Match.NOT_MATCHED_BY_SOURCE:
        return UNMATCHED_UPDATE if clause.effect is Effect.UPDATE else UNMATCHED_DELETE
    return clause.effect.value


def _with_rules_applied(
    outcomes: DataFrame, plan: RowPlan, writing_clauses: Sequence[NumberedClause], column_names: Sequence[str]
) -> DataFrame:
    """Apply the table's rules to outcome rows, whose last columns are the new values of `column_names` and CLAUSE."""
    if not plan.rules.checks and not plan.rules.generated:
        return outcomes
    # Rules refer to the table's columns by name. So the columns with the new values have the names of the table during this step.
    names = outcomes.columns
    rows = outcomes.toDF(*names[: -len(column_names) - 1], *column_names, CLAUSE)
    plan_of_columns = replace(plan, schema=plan.schema.select(tuple(column_names)))
    return apply_rules(rows, plan_of_columns, writing_clauses).toDF(*names)


def _case(branches: Sequence[tuple[str, int]], otherwise: str) -> str:
    """Return SQL for the value of the first branch whose condition is true, or for `otherwise`."""
    whens = " ".join(f"when {condition} then {value}" for condition, value in branches)
    return f"case {whens} else {otherwise} end" if branches else otherwise


def _materialize_nondeterministic_values(rows: DataFrame, clauses: Sequence[NumberedClause]) -> tuple[DataFrame, list[NumberedClause]]:
    """Evaluate each nondeterministic value, such as `uuid()`, once in a separate column.

    The SQL for casts and checks of a new value repeats the value. So without the column, each repetition would be a different UUID. The
    result is the rows with these columns, and the clauses with references to the columns instead of the values.
    """
    new_clauses = []
    for number, clause in clauses:
        values = dict(clause.values)
        for index, (name, value_sql) in enumerate(clause.values.items()):
            if nondeterministic_function(value_sql):
                values[name] = f"__rowmerge_drawn_{number}_{index}"
                # CLAUSE is the number of the clause that fires for a row. In rows of other clauses, the new column is NULL.
                rows = rows.withColumn(values[name], F.expr(f"case {CLAUSE} when {number} then {value_sql} end"))
        new_clauses.append((number, replace(clause, values=values)))
    return rows, new_clauses


def output_column(position: int) -> str:
    """Return the name of the table's column at a position (from 0) among the outcome columns."""
    # PySpark's mapInArrow selects columns by name (`df[name]`): a dot or a backquote in a name breaks it, and each column costs a call.
    return f"__rowmerge_column_{position}"


def old_column(position: int) -> str:
    """Return the name that the old value of the table's column at a position (from 0) has among the outcome columns."""
    return f"__rowmerge_before_{position}"


def outcome_columns(outcomes: DataFrame, width: int) -> OutcomeColumns:
    """Return the names of the columns of outcome rows. Optional columns that the rows lack are None or empty.

    Outcome rows are target rows and source rows, each with the action of the statement and the values to write.

    Args:
        outcomes: The outcome rows (see `outcome_rows`).
        width: The number of the table's columns.
    """
    names = set(outcomes.columns)
    file, position, ordinal = (name if name in names else None for name in (FILE, POSITION, ORDINAL))
    lineage = (ROW_ID, CHANGED_IN) if ROW_ID in names else None
    # Outcome rows have old values of all columns of the table or of none. Late columns have no new values.
    new_columns = tuple(name for name in map(output_column, range(width)) if name in names)
    old_columns = tuple(map(old_column, range(width))) if old_column(0) in names else ()
    return OutcomeColumns(ACTION, file, position, lineage=lineage, source=ordinal, new_columns=new_columns, old_columns=old_columns)


def new_rows(rows: DataFrame, plan: RowPlan, clauses: Sequence[Clause], extra_columns: Sequence[str] = ()) -> DataFrame:
    """Return the outcome rows of source rows without a match.

    Args:
        rows: The source rows, under the alias of the plan's source.
        plan: The plan of the statement.
        clauses: The clauses that insert rows.
        extra_columns: The columns to add, as SQL expressions with names (see `OutcomeShape`).
    """
    return outcome_rows(rows, plan, [("true", clause) for clause in clauses], OutcomeShape(extra_columns=tuple(extra_columns)))


def met_or_new_rows(rows: DataFrame, plan: RowPlan) -> DataFrame:
    """Return the outcome rows of source rows whose matches are known. In the result, ORDINAL is NULL for rows that match no target row.

    Args:
        rows: The source rows with ORDINAL, and with MET, which is true for a row that matches a target row.
        plan: The plan of the statement.
    """
    matched = [(MET, clause) for clause in plan.of(Match.MATCHED)]
    not_matched = [(f"not {MET}", clause) for clause in plan.of(Match.NOT_MATCHED)]
    return outcome_rows(rows, plan, matched + not_matched, OutcomeShape(extra_columns=(f"if({MET}, {ORDINAL}, null) as {ORDINAL}",)))


def prepare_rows(rows: DataFrame, plan: RowPlan, values: Mapping[str, str], extra_columns: Sequence[str]) -> DataFrame:
    """Convert source rows to rows of the table before their matches are known, and add the actions for both cases.

    The driver later finds the matches with Arrow, and takes one of the two actions for each row. So no second Spark job is necessary. The
    caller has checked that a row has the same values with and without a match.

    For example, the clauses are WHEN MATCHED THEN UPDATE SET * and WHEN NOT MATCHED AND s.n > 0 THEN INSERT *. The source row (id 7, n 0)
    becomes the row (id 7, n 0) with IF_MATCHED = UPDATE and IF_UNMATCHED = 0 (no action).

    Args:
        rows: The source rows, under the alias of the plan's source.
        plan: The plan of the statement.
        values: SQL for the values by exact column name.
        extra_columns: The columns to add, as SQL expressions with names.

    Returns:
        Rows of the table with ORDINAL, the number of the source row. IF_MATCHED is the action of a row with a match, and IF_UNMATCHED that
        of a row without a match. A statement that inserts every source row uses the column ACTION instead, which is always INSERT.
    """
    if_matched = f"{_first_action_sql(plan.of(Match.MATCHED))} as {IF_MATCHED}"
    if_unmatched = f"{_first_action_sql(plan.of(Match.NOT_MATCHED))} as {IF_UNMATCHED}"
    # The statement has no such clause. It makes `new_rows` compute the values for every row. As its effect, ACTION is INSERT.
    insert_every_row = Clause(Match.NOT_MATCHED, Effect.INSERT, condition=None, values=values)
    return new_rows(rows, plan, [insert_every_row], extra_columns=[*extra_columns, ORDINAL, if_matched, if_unmatched])


def _first_action_sql(clauses: Sequence[Clause]) -> str:
    """Return SQL for the action of the first of these clauses whose condition is true, or 0 (no action) if there is no such clause."""
    return _action_sql([(condition_of(clause), clause) for clause in clauses])


def moved_rows(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return outcome rows that write rows of a table unchanged.

    Args:
        rows: Rows with the columns of the table, followed by other columns, which the result keeps.
        names: The names of the table's columns.
    """
    columns = [f"{backquote(name)} as {output_column(position)}" for position, name in enumerate(names)]
    return rows.selectExpr(f"cast({MOVE} as tinyint) as {ACTION}", *rows.columns[len(names) :], *columns)


def as_boolean(condition: str) -> str:
    """Return SQL for a condition as a boolean. The SQL casts a bare NULL to boolean, and any other type remains an error."""
    return f"({condition}) and true"


def condition_of(clause: Clause) -> str:
    """Return the condition of a clause as SQL in parentheses, or `true` if the clause has no condition."""
    return f"({clause.condition})" if clause.condition is not None else "true"


def _new_values(
    rows: DataFrame,
    plan: RowPlan,
    clauses: Sequence[NumberedClause],
    fields: Sequence[tuple[int, Field]],
    *,
    fires_for_all_rows: bool,
) -> list[str]:
    """Return SQL for the new values of columns of the table, under the name `output_column(position)`.

    For example, clause 0 is UPDATE SET n = s.n and clause 1 is INSERT (id) VALUES (s.id). The SQL for the column n, at position 1, is
    `cast(case __rowmerge_clause when 0 then s.n when 1 then null end as int) as __rowmerge_column_1`.

    `fields`: the columns with their positions in the table. `fires_for_all_rows`: whether there is one clause, which fires for all rows.
    Then the SQL needs no CASE.
    """
    types = _types_of_assigned_values(rows, plan, clauses, fields)
    columns = []
    for position, field in fields:
        value_by_clause = {number: _stored_value(plan, clause, field, types) for number, clause in clauses}
        new_value = _value_of_firing_clause(value_by_clause, fires_for_all_rows=fires_for_all_rows)
        # The cast gives NULL its type, and removes the metadata and the nullability of the value's own type.
        columns.append(f"cast({new_value} as {sql_name(field.type)}) as {output_column(position)}")
    return columns


def _types_of_assigned_values(
    rows: DataFrame, plan: RowPlan, clauses: Sequence[NumberedClause], fields: Sequence[tuple[int, Field]]
) -> dict[str, DataType]:
    """Return the type of each value that a clause assigns to a column, by the SQL of the value, such as int for `s.n`."""
    assigned_sqls = {_assigned_value(plan, clause, field) for _, clause in clauses for _, field in fields}
    ordered_sqls = sorted(value_sql for value_sql in assigned_sqls if value_sql is not None)
    # Spark analyses all values at once, because each analysis takes time.
    schema = schema_of(rows.selectExpr(*(f"{value_sql} as c{index}" for index, value_sql in enumerate(ordered_sqls))))
    return {value_sql: field.type for value_sql, field in zip(ordered_sqls, schema, strict=True)}


def _value_of_firing_clause(value_by_clause: Mapping[int, str], *, fires_for_all_rows: bool) -> str:
    """Return SQL for the value of the clause that fires for a row. `value_by_clause`: SQL for the value of each clause by its number.

    For example, clause 0 stores `s.n + 1` and clause 1 stores `s.n`: `case __rowmerge_clause when 0 then s.n + 1 when 1 then s.n end`.

    If all clauses store the same column, such as `s.n`, the result is only `s.n`. With a CASE for each of many columns, the code that Spark
    generates may be too long for Java to compile. Equal expressions such as `1 / s.n` keep their CASE. A row for which no clause fires must
    not compute them, as it could fail. `fires_for_all_rows`: whether there is only one clause, which fires for all rows.
    """
    first_value, *other_values = value_by_clause.values()
    are_all_equal = all(value == first_value for value in other_values)
    if fires_for_all_rows or (are_all_equal and _COLUMN_REFERENCE.fullmatch(first_value)):
        return first_value
    branches = " ".join(f"when {number} then {value}" for number, value in value_by_clause.items())
    return f"case {CLAUSE} {branches} end"  # CLAUSE is the column with the number of the clause that fires


def _stored_value(plan: RowPlan, clause: Clause, field: Field, types: Mapping[str, DataType]) -> str:
    """Return SQL for the value that a clause stores in a column, in the type of the column. `types`: the type of each value by its SQL.

    For example, UPDATE SET n = s.n stores `s.n`, converted to the type of n, in the column n. In any other column, it stores the old value.
    """
    value_sql = _assigned_value(plan, clause, field)
    if value_sql is None:
        return "null"
    # `plan.evolved_from` is the schema before the statement changes it (schema evolution), or None if the statement does not change it.
    old_field = (plan.evolved_from or plan.schema).find(field.name, case_sensitive=True)
    if clause.effect is Effect.UPDATE and field.name not in clause.values:  # the column keeps its old value
        return value_sql if old_field is None else evolved_value_sql(SqlValue(value_sql, old_field.type), field, plan.table)
    # With UPDATE SET * and schema evolution (`keeps_fields`), a struct may lack fields of the column. These fields keep their old values.
    old_value = _target_value(plan, old_field) if clause.keeps_fields and old_field is not None else None
    value, adds_fields = SqlValue(value_sql, types[value_sql]), plan.evolved_from is not None
    return store_assignment_sql(value, field, plan.table, old_value=old_value, adds_fields=adds_fields, casts_strings=True)


def _assigned_value(plan: RowPlan, clause: Clause, field: Field) -> str | None:
    """Return SQL for the value that a clause assigns to a column, in the value's own type. The result is None for NULL.

    A column that a clause does not name keeps its old value (UPDATE) or becomes NULL (INSERT).
    """
    if field.name in clause.values:
        return clause.values[field.name]
    old_field = (plan.evolved_from or plan.schema).find(field.name)
    return _target_value(plan, old_field).sql if clause.effect is Effect.UPDATE and old_field is not None else None


def _target_value(plan: RowPlan, field: Field) -> SqlValue:
    """Return the target row's value of a column."""
    return SqlValue(f"{backquote(plan.target.alias)}.{backquote(field.name)}", field.type)


def _old_value(plan: RowPlan, field: Field) -> str:
    """Return SQL for the target row's value of a column, in the type that the column has after the statement."""
    old_field = (plan.evolved_from or plan.schema).find(field.name)
    value = "null" if old_field is None else evolved_value_sql(_target_value(plan, old_field), field, plan.table)
    return value if old_field == field else f"cast({value} as {sql_name(field.type)})"
