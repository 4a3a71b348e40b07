"""Rows of (target?, source?) to outcome rows: which clause fires, and what the row becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rowmerge.commands.rows import Match
from rowmerge.parquet.lineage import CHANGED_IN, ROW_ID
from rowmerge.parquet.outcomes import MOVE, OutcomeColumns
from rowmerge.plan.expressions.conditions import nondeterministic
from rowmerge.plan.row_plan import Clause, Effect, RowPlan
from rowmerge.spark.types import schema_of
from rowmerge.spark.values.assignment import stored, unchanged
from rowmerge.spark.values.rules import ruled
from rowmerge.table.metadata.engine_columns import ACTION, CLAUSE, FILE, IF_MET, IF_NEW, MET, ORDINAL, POSITION
from rowmerge.table.metadata.schema import DataType, Field, Struct, backquote, sql_name

_PLAIN = re.compile(r"(`[^`]+`|\w+)(\.(`[^`]+`|\w+))*")
"""A column and no more: it may be looked at for any row."""

Guarded = tuple[str, Clause]
"""A clause and the SQL text that is true for the rows it is about."""


def outcome_rows(
    rows: DataFrame,
    plan: RowPlan,
    cases: Sequence[Guarded],
    *,
    addresses: bool,
    ordinals: bool,
    before: bool = False,
    lineage: bool = False,
    told: Sequence[str] = (),
) -> DataFrame:
    """Outcome rows as the sink takes them: ACTION, FILE and POSITION with `addresses`, the hidden columns of the table with `lineage`,
    ORDINAL with `ordinals`, what is to be `told` besides (SQL texts with names), the table's columns (see `output_column`) when any clause
    writes, and with `before` the target row as it was (see `old_column`).

    `rows` carry the aliases of the plan's sides. Rows for which no clause fires are left out unless their ordinals are wanted.
    Raises TypeMismatch; Spark's analysis errors pass through.
    """
    fired = " ".join(f"when {guard} and {_condition(clause)} then {index}" for index, (guard, clause) in enumerate(cases))
    rows = rows.withColumn(CLAUSE, F.expr(f"case {fired} end") if cases else F.lit(None).cast("int"))
    if not ordinals:
        rows = rows.where(F.col(CLAUSE).isNotNull())
    effects = " ".join(f"when {index} then {clause.effect.value}" for index, (_, clause) in enumerate(cases))
    action = f"case {CLAUSE} {effects} else 0 end" if cases else "0"
    # As texts: each part of a Column that is made here would be a call to the JVM, and tables may have a thousand columns.
    columns = [f"cast({action} as tinyint) as {ACTION}"]
    if addresses:
        columns += [FILE, POSITION]
    if lineage:
        columns += [ROW_ID, CHANGED_IN]
    if ordinals:
        columns.append(ORDINAL)
    columns += told
    writing = [(index, clause) for index, (_, clause) in enumerate(cases) if clause.effect is not Effect.DELETE]
    if before:
        columns += [f"{_as_it_was(plan, field)} as {old_column(position)}" for position, field in enumerate(plan.schema)]
    if not writing:
        deleted = rows.selectExpr(*columns)
        assert len(deleted.columns) == len(columns)  # Spark Connect analyses a frame only when its columns are read; errors must come now
        return deleted
    # Where every row that is left is the one clause's, there is nothing to choose; a value must not be computed for any other row.
    chosen = len(cases) == 1 and not ordinals
    rows, writing = _drawn(rows, writing)
    written = rows.selectExpr(*columns, *_written(rows, plan, writing, chosen=chosen), CLAUSE)
    technical, positional = written.columns[: len(columns)], written.columns[len(columns) : -1]
    if plan.rules.checks or plan.rules.generated:
        named = written.toDF(*technical, *plan.schema.names, CLAUSE)
        written = ruled(named, plan, writing, CLAUSE, ACTION).toDF(*technical, *positional, CLAUSE)
    return written.drop(CLAUSE)


def _drawn(rows: DataFrame, writing: Sequence[tuple[int, Clause]]) -> tuple[DataFrame, list[tuple[int, Clause]]]:
    """The rows with each nondeterministic value in a column of its own: what stores a value mentions it more than once."""
    drawn = []
    for index, clause in writing:
        values = dict(clause.values)
        for number, (name, text) in enumerate(clause.values.items()):
            if nondeterministic(text):
                values[name] = f"__rowmerge_drawn_{index}_{number}"
                rows = rows.withColumn(values[name], F.expr(f"case {CLAUSE} when {index} then {text} end"))
        drawn.append((index, replace(clause, values=values)))
    return rows, drawn


def output_column(position: int) -> str:
    """The name of the table's column at a position (from 0) among the outcome columns."""
    # PySpark's mapInArrow selects columns by name (`df[name]`): a dot or a backquote in a name breaks it, and each column costs a call.
    return f"__rowmerge_column_{position}"


def old_column(position: int) -> str:
    """The name of the table's column at a position (from 0), as the target row had it, among the outcome columns."""
    return f"__rowmerge_before_{position}"


def outcome_columns(outcomes: DataFrame, width: int) -> OutcomeColumns:
    """Which columns these outcome rows have, for a table of `width` columns."""
    there = set(outcomes.columns)

    def found(name: str) -> str | None:
        return name if name in there else None

    def row(column: Callable[[int], str]) -> tuple[str, ...]:
        return tuple(column(position) for position in range(width)) if column(0) in there else ()

    lineage = (ROW_ID, CHANGED_IN) if ROW_ID in there else None
    return OutcomeColumns(ACTION, found(FILE), found(POSITION), lineage, found(ORDINAL), row(output_column), row(old_column))


def new_rows(rows: DataFrame, plan: RowPlan, clauses: Sequence[Clause], told: Sequence[str] = ()) -> DataFrame:
    """Source rows to inserted rows (no addresses): for rows that are known to match nothing. `told`: see `outcome_rows`."""
    return outcome_rows(rows, plan, [("true", clause) for clause in clauses], addresses=False, ordinals=False, told=told)


def met_or_new_rows(rows: DataFrame, plan: RowPlan) -> DataFrame:
    """Source rows with MET to new rows (no addresses), where a source row alone tells what becomes of it and of the row that it met; with
    the ORDINAL of each that changes the row that it met."""
    cases = [(MET, clause) for clause in plan.of(Match.MATCHED)] + [(f"not {MET}", clause) for clause in plan.of(Match.NOT_MATCHED)]
    return outcome_rows(rows, plan, cases, addresses=False, ordinals=False, told=[f"if({MET}, {ORDINAL}, null) as {ORDINAL}"])


def rows_either_way(rows: DataFrame, plan: RowPlan, values: Mapping[str, str], told: Sequence[str]) -> DataFrame:
    """Source rows to rows with these values, whether or not the command writes them: IF_MET and IF_NEW say what it does (as ACTION) where a
    source row meets a row and where it does not. With the ORDINAL, and what is `told` (see `outcome_rows`)."""
    actions = [f"{_effect(plan.of(match))} as {name}" for match, name in ((Match.MATCHED, IF_MET), (Match.NOT_MATCHED, IF_NEW))]
    written = Clause(Match.NOT_MATCHED, Effect.INSERT, None, values)
    return outcome_rows(rows, plan, [("true", written)], addresses=False, ordinals=False, told=[*told, ORDINAL, *actions])


def _effect(clauses: Sequence[Clause]) -> str:
    cases = " ".join(f"when {_condition(clause)} then {clause.effect.value}" for clause in clauses)
    return f"cast({f'case {cases} else 0 end' if cases else '0'} as tinyint)"


def moved_rows(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows of the table, whose columns have these names, that are written as they are; what else `rows` has comes along."""
    columns = [f"{backquote(name)} as {output_column(position)}" for position, name in enumerate(names)]
    return rows.selectExpr(f"cast({MOVE} as tinyint) as {ACTION}", *rows.columns[len(names) :], *columns)


def boolean(condition: str) -> str:
    """A condition in a place where Spark wants a boolean: a bare NULL becomes one, anything else that is none stays an error."""
    return f"({condition}) and true"


def _condition(clause: Clause) -> str:
    return f"({clause.condition})" if clause.condition is not None else "true"


def _written(rows: DataFrame, plan: RowPlan, writing: Sequence[tuple[int, Clause]], *, chosen: bool) -> list[str]:
    texts = {(index, field.name): _text(plan, clause, field) for index, clause in writing for field in plan.schema}
    types = _types(rows, {text for text in texts.values() if text is not None})
    columns = []
    before = plan.evolved_from or plan.schema
    for position, field in enumerate(plan.schema):
        parts = []
        for index, clause in writing:
            text = texts[index, field.name]
            old = before.find(field.name, case_sensitive=True)
            if text is None:
                value = stored("null", field.type, field, plan.table)
            elif clause.effect is Effect.UPDATE and field.name not in clause.values:
                value = text if old is None else unchanged(text, old.type, field, plan.table)
            else:
                kept = (_current(plan, old), old.type) if clause.keeps_fields and old is not None else None
                value = stored(text, types[text], field, plan.table, evolves=plan.evolved_from is not None, kept=kept, texts=True)
            parts.append(value)
        if chosen or (_PLAIN.fullmatch(parts[0]) and len(set(parts)) == 1):
            # In one place, or the same in all: with a choice for each of many columns, Java may find the code too long to compile.
            whole = parts[0]
        else:
            whole = "case " + CLAUSE + " " + " ".join(f"when {i} then {v}" for (i, _), v in zip(writing, parts, strict=True)) + " end"
        # The cast gives NULL its type and drops what a value's own type says beyond the column's.
        columns.append(f"cast({whole} as {sql_name(field.type)}) as {output_column(position)}")
    return columns


def _text(plan: RowPlan, clause: Clause, field: Field) -> str | None:
    if field.name in clause.values:
        return clause.values[field.name]
    old = (plan.evolved_from or plan.schema).find(field.name)
    return _current(plan, old) if clause.effect is Effect.UPDATE and old is not None else None


def _current(plan: RowPlan, field: Field) -> str:
    """The column as the target row has it."""
    return f"{backquote(plan.target.alias)}.{backquote(field.name)}"


def _as_it_was(plan: RowPlan, field: Field) -> str:
    """The target row's value of a column, in the type that the column has after the command."""
    old = (plan.evolved_from or plan.schema).find(field.name)
    value = "null" if old is None else unchanged(_current(plan, old), old.type, field, plan.table)
    return value if old == field else f"cast({value} as {sql_name(field.type)})"


def _types(rows: DataFrame, texts: set[str]) -> dict[str, DataType]:
    ordered = sorted(texts)
    schema: Struct = schema_of(rows.selectExpr(*(f"{text} as c{index}" for index, text in enumerate(ordered))))
    return {text: field.type for text, field in zip(ordered, schema, strict=True)}
