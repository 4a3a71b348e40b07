"""Rows of (target?, source?) to outcome rows: which clause fires, and what the row becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rowmerge.commands.rows import Match
from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID
from rowmerge.parquet.outcomes import MOVE, OutcomeColumns
from rowmerge.plan.expressions.conditions import nondeterministic
from rowmerge.plan.row_plan import Clause, Effect, RowPlan
from rowmerge.spark.types import schema_of
from rowmerge.spark.values.assignment import stored, unchanged
from rowmerge.spark.values.nested import SqlValue
from rowmerge.spark.values.rules import NumberedClause, apply_rules
from rowmerge.table.metadata.engine_columns import ACTION, CLAUSE, FILE, IF_MATCHED, IF_UNMATCHED, MET, ORDINAL, POSITION
from rowmerge.table.metadata.schema import DataType, Field, backquote, sql_name

_COLUMN_REFERENCE = re.compile(r"(`[^`]+`|\w+)(\.(`[^`]+`|\w+))*")
"""SQL text that only names a column or a field. It can be evaluated for any row."""

GuardedClause = tuple[str, Clause]
"""A SQL condition, and the clause for the rows for which the condition is true."""


@dataclass(frozen=True)
class OutcomeShape:
    """The columns of outcome rows besides ACTION and the new values.

    `addresses`: FILE and POSITION of the target row. `lineage`: the hidden columns ROW_ID and CHANGED_IN. `ordinals`: ORDINAL of the source
    row; then rows for which no clause fires stay. `extra_columns`: SQL texts with names. `before`: the old values (see `old_column`).
    """

    addresses: bool = False
    lineage: bool = False
    ordinals: bool = False
    extra_columns: tuple[str, ...] = ()
    before: bool = False

    def columns(self, plan: RowPlan) -> list[str]:
        """Return these columns as SQL texts, in their order."""
        columns = [FILE, POSITION] * self.addresses + [ROW_ID, CHANGED_IN] * self.lineage + [ORDINAL] * self.ordinals
        before = [f"{_old_value(plan, field)} as {old_column(i)}" for i, field in enumerate(plan.schema)] if self.before else []
        return [*columns, *self.extra_columns, *before]


def outcome_rows(rows: DataFrame, plan: RowPlan, cases: Sequence[GuardedClause], shape: OutcomeShape) -> DataFrame:
    """Return outcome rows for the sink: ACTION, the columns of `shape`, and the new values (see `output_column`) if a clause writes.

    `rows` have the aliases of the plan's sides. Rows for which no clause fires are left out unless `shape` has ordinals.
    Raises TypeMismatch; Spark's analysis errors pass through.
    """
    rows = _with_firing_clause(rows, cases)
    if not shape.ordinals:
        rows = rows.where(F.col(CLAUSE).isNotNull())
    # Each part of a Column object would be a call to the JVM, and tables may have a thousand columns. So columns are SQL texts.
    action = _case([(f"{CLAUSE} = {number}", clause.effect.value) for number, (_, clause) in enumerate(cases)], "0")
    columns = [f"cast({action} as tinyint) as {ACTION}", *shape.columns(plan)]
    writing = [(number, clause) for number, (_, clause) in enumerate(cases) if clause.effect is not Effect.DELETE]
    if not writing:
        deletions = rows.selectExpr(*columns)
        assert len(deletions.columns) == len(columns)  # Spark Connect analyses a frame only when its columns are read; errors must come now
        return deletions
    rows, writing = _with_drawn_values(rows, writing)
    fires_always = len(cases) == 1 and not shape.ordinals
    outcomes = rows.selectExpr(*columns, *_new_values(rows, plan, writing, fires_always=fires_always), CLAUSE)
    return _with_rules_applied(outcomes, plan, writing).drop(CLAUSE)


def _with_firing_clause(rows: DataFrame, cases: Sequence[GuardedClause]) -> DataFrame:
    """Add CLAUSE, the number of the first clause that fires for a row, NULL for none."""
    conditions = [(f"{guard} and {condition_of(clause)}", number) for number, (guard, clause) in enumerate(cases)]
    return rows.withColumn(CLAUSE, F.expr(f"cast({_case(conditions, 'null')} as int)"))


def _with_rules_applied(outcomes: DataFrame, plan: RowPlan, writing: Sequence[NumberedClause]) -> DataFrame:
    """Apply the table's rules to outcome rows, whose last columns are the new values and CLAUSE."""
    if not plan.rules.checks and not plan.rules.generated:
        return outcomes
    # Rules name the table's columns, so these get their own names meanwhile.
    names = outcomes.columns
    rows = outcomes.toDF(*names[: -len(plan.schema) - 1], *plan.schema.names, CLAUSE)
    return apply_rules(rows, plan, writing).toDF(*names)


def _case(branches: Sequence[tuple[str, int]], otherwise: str) -> str:
    """Return SQL for the value of the first branch whose condition is true."""
    whens = " ".join(f"when {condition} then {value}" for condition, value in branches)
    return f"case {whens} else {otherwise} end" if branches else otherwise


def _with_drawn_values(rows: DataFrame, writing: Sequence[NumberedClause]) -> tuple[DataFrame, list[NumberedClause]]:
    """Add a column for each nondeterministic value, because SQL text mentions values twice. Return the clauses with these columns."""
    clauses = []
    for number, clause in writing:
        values = dict(clause.values)
        for index, (name, text) in enumerate(clause.values.items()):
            if nondeterministic(text):
                values[name] = f"__rowmerge_drawn_{number}_{index}"
                rows = rows.withColumn(values[name], F.expr(f"case {CLAUSE} when {number} then {text} end"))
        clauses.append((number, replace(clause, values=values)))
    return rows, clauses


def output_column(position: int) -> str:
    """Return the name of the table's column at a position (from 0) among the outcome columns."""
    # PySpark's mapInArrow selects columns by name (`df[name]`): a dot or a backquote in a name breaks it, and each column costs a call.
    return f"__rowmerge_column_{position}"


def old_column(position: int) -> str:
    """Return the name that the old value of the table's column at a position (from 0) has among the outcome columns."""
    return f"__rowmerge_before_{position}"


def outcome_columns(outcomes: DataFrame, width: int) -> OutcomeColumns:
    """Return which columns these outcome rows have, for a table of `width` columns."""
    present = set(outcomes.columns)

    def table_columns(name_at: Callable[[int], str]) -> tuple[str, ...]:
        return tuple(name_at(position) for position in range(width)) if name_at(0) in present else ()

    file, position, source = (name if name in present else None for name in (FILE, POSITION, ORDINAL))
    lineage = (ROW_ID, CHANGED_IN) if ROW_ID in present else None
    return OutcomeColumns(ACTION, file, position, lineage, source, table_columns(output_column), table_columns(old_column))


def new_rows(rows: DataFrame, plan: RowPlan, clauses: Sequence[Clause], extra_columns: Sequence[str] = ()) -> DataFrame:
    """Return what the clauses insert for source rows that match nothing. `extra_columns`: see `OutcomeShape`."""
    return outcome_rows(rows, plan, [("true", clause) for clause in clauses], OutcomeShape(extra_columns=tuple(extra_columns)))


def met_or_new_rows(rows: DataFrame, plan: RowPlan) -> DataFrame:
    """Return what the clauses write for source rows with MET. ORDINAL identifies the rows that change their match, and else is NULL."""
    cases = [(MET, clause) for clause in plan.of(Match.MATCHED)] + [(f"not {MET}", clause) for clause in plan.of(Match.NOT_MATCHED)]
    return outcome_rows(rows, plan, cases, OutcomeShape(extra_columns=(f"if({MET}, {ORDINAL}, null) as {ORDINAL}",)))


def rows_either_way(rows: DataFrame, plan: RowPlan, values: Mapping[str, str], extra_columns: Sequence[str]) -> DataFrame:
    """Return source rows as table rows with these values, whatever they match.

    IF_MATCHED and IF_UNMATCHED hold the action of the row with a match and without one.
    """
    actions = []
    for match, name in ((Match.MATCHED, IF_MATCHED), (Match.NOT_MATCHED, IF_UNMATCHED)):
        effect = _case([(condition_of(clause), clause.effect.value) for clause in plan.of(match)], "0")
        actions.append(f"cast({effect} as tinyint) as {name}")
    insert = Clause(Match.NOT_MATCHED, Effect.INSERT, None, values)
    return new_rows(rows, plan, [insert], [*extra_columns, ORDINAL, *actions])


def moved_rows(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return table rows, whose first columns have these names, as outcome rows that are written unchanged; other columns stay."""
    columns = [f"{backquote(name)} as {output_column(position)}" for position, name in enumerate(names)]
    return rows.selectExpr(f"cast({MOVE} as tinyint) as {ACTION}", *rows.columns[len(names) :], *columns)


def boolean(condition: str) -> str:
    """Return a condition where Spark expects a boolean: a bare NULL becomes one, and another type stays an error."""
    return f"({condition}) and true"


def condition_of(clause: Clause) -> str:
    return f"({clause.condition})" if clause.condition is not None else "true"


def _new_values(rows: DataFrame, plan: RowPlan, writing: Sequence[NumberedClause], *, fires_always: bool) -> list[str]:
    """Return SQL texts for the values that the clauses store, one per column. `fires_always`: the only clause fires for all rows."""
    texts = {(number, field.name): _value(plan, clause, field) for number, clause in writing for field in plan.schema}
    types = _types(rows, {text for text in texts.values() if text is not None})
    columns = []
    for position, field in enumerate(plan.schema):
        values = {number: _stored_value(plan, clause, field, texts[number, field.name], types) for number, clause in writing}
        value = next(iter(values.values())) if fires_always else _value_by_clause(values)
        # The cast gives NULL its type and drops what a value's own type says beyond the column's.
        columns.append(f"cast({value} as {sql_name(field.type)}) as {output_column(position)}")
    return columns


def _value_by_clause(values: Mapping[int, str]) -> str:
    """Return SQL text for the value of the clause that fires. `values`: the value of each clause by its number.

    A value must not be computed for rows of another clause, but a column may be read in any row. Where no CASE is needed, there is none:
    with one for each of many columns, Java may find the code too long to compile.
    """
    first_value = next(iter(values.values()))
    if _COLUMN_REFERENCE.fullmatch(first_value) and set(values.values()) == {first_value}:
        return first_value
    branches = " ".join(f"when {number} then {value}" for number, value in values.items())
    return f"case {CLAUSE} {branches} end"


def _stored_value(plan: RowPlan, clause: Clause, field: Field, text: str | None, types: Mapping[str, DataType]) -> str:
    """Return SQL text for the value that a clause stores in a column. `text`: the value before the cast, None for NULL."""
    if text is None:
        return stored("null", field.type, field, plan.table)
    old_field = (plan.evolved_from or plan.schema).find(field.name, case_sensitive=True)
    if clause.effect is Effect.UPDATE and field.name not in clause.values:
        return text if old_field is None else unchanged(text, old_field.type, field, plan.table)
    old_value = SqlValue(_target_column(plan, old_field), old_field.type) if clause.keeps_fields and old_field is not None else None
    return stored(text, types[text], field, plan.table, evolves=plan.evolved_from is not None, old_value=old_value, texts=True)


def _value(plan: RowPlan, clause: Clause, field: Field) -> str | None:
    """Return SQL text for the value that a clause gives a column, None for NULL."""
    if field.name in clause.values:
        return clause.values[field.name]
    old_field = (plan.evolved_from or plan.schema).find(field.name)
    return _target_column(plan, old_field) if clause.effect is Effect.UPDATE and old_field is not None else None


def _target_column(plan: RowPlan, field: Field) -> str:
    return f"{backquote(plan.target.alias)}.{backquote(field.name)}"


def _old_value(plan: RowPlan, field: Field) -> str:
    """Return SQL text for the target row's value of a column, in the type that the column has after the command."""
    old_field = (plan.evolved_from or plan.schema).find(field.name)
    value = "null" if old_field is None else unchanged(_target_column(plan, old_field), old_field.type, field, plan.table)
    return value if old_field == field else f"cast({value} as {sql_name(field.type)})"


def _types(rows: DataFrame, texts: set[str]) -> dict[str, DataType]:
    ordered = sorted(texts)
    schema = schema_of(rows.selectExpr(*(f"{text} as c{index}" for index, text in enumerate(ordered))))
    return {text: field.type for text, field in zip(ordered, schema, strict=True)}
