"""Commands to RowPlans: names are settled, stars written out, every clause gets its complete meaning."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Delete, Match, Merge, Update
from rowmerge.errors import AppendOnly, PlanError, UnknownColumn
from rowmerge.plan.clauses import Columns, assigned, clause_of, column_of
from rowmerge.plan.expressions.conditions import Condition, Side, analyse
from rowmerge.plan.expressions.moment import rules_at
from rowmerge.plan.expressions.qualification import qualify, replace_qualifiers
from rowmerge.plan.expressions.restrictions import check_condition, check_merge, check_update
from rowmerge.plan.expressions.sides import apart_from, check_apart, side_of
from rowmerge.plan.pruning.file_pruning import exact_partition_mask, file_mask, nothing
from rowmerge.plan.row_plan import Clause, Effect, RowPlan, SourceRows
from rowmerge.plan.schema_evolution import after_merge
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Struct, backquote, sql_name
from rowmerge.table.snapshots.snapshot import Snapshot

TARGET = "target"
SOURCE = "source"
VALUE_COLUMN = "__rowmerge_value_%d"
_EVOLVE_INSERT = (
    "To add new columns to the table, write INSERT WITH SCHEMA EVOLUTION INTO; in session.write, say schema_evolution=True; "
    "in ALTER TABLE, ADD COLUMNS."
)


def plan_merge(
    merge: Merge, snapshot: Snapshot, source: Side, *, case_sensitive: bool = False, source_schema: Struct | None = None
) -> RowPlan:
    """MERGE over a source whose columns are known; with their types in `source_schema`, they may add to the table's.

    Raises UnknownColumn, TypeMismatch, PlanError, UnsupportedStatement.
    """
    before = snapshot.schema
    schema = before if source_schema is None else after_merge(before, source_schema, merge.clauses, snapshot.shape.can_widen)
    target = side_of(merge.target.parts, merge.target_alias, snapshot.schema.names)
    if (target.alias,) in source.names:
        target = apart_from(target, target, TARGET)
    check_apart(target, source)
    check_merge(merge)
    condition = replace_qualifiers(merge.on.text, (target, source), case_sensitive=case_sensitive)
    on = analyse(condition, target, source, case_sensitive=case_sensitive)
    rules = _rules(snapshot.shape.rules, schema)
    columns_of = Columns(before, schema, rules, evolves=source_schema is not None)
    clauses = tuple(clause_of(when, target, source, columns_of, case_sensitive) for when in merge.clauses)
    _keep_append_only(snapshot, "MERGE", {clause.effect for clause in clauses})
    by_source = any(clause.match is Match.NOT_MATCHED_BY_SOURCE for clause in clauses)
    conjuncts = () if by_source else on.target_only
    mask, columns = file_mask(conjuncts, target, snapshot.schema, snapshot.partition_columns, case_sensitive=case_sensitive)
    return RowPlan(
        operation="MERGE",
        table=snapshot.name,
        schema=schema,
        target=target,
        source=source,
        on=on,
        clauses=clauses,
        source_rows=SourceRows.UNMATCHED if any(c.effect is Effect.INSERT for c in clauses) else SourceRows.NONE,
        files=mask,
        bound_columns=columns,
        conjuncts=conjuncts,
        parameters=_merge_parameters(merge, clauses),
        evolved_from=None if source_schema is None else before,
        rules=rules,
    )


def plan_update(update: Update, snapshot: Snapshot, *, case_sensitive: bool = False) -> RowPlan:
    """UPDATE: one clause over target rows alone. Raises UnknownColumn, PlanError."""
    check_update(update)
    target = side_of(update.target.parts, update.alias, snapshot.schema.names)
    rules = _rules(snapshot.shape.rules, snapshot.schema)
    values = assigned(update.assignments, target, target, Columns(snapshot.schema, snapshot.schema, rules), case_sensitive)
    return replace(_target_plan("UPDATE", target, snapshot, Effect.UPDATE, values, update.condition, case_sensitive), rules=rules)


def plan_delete(delete: Delete, snapshot: Snapshot, *, case_sensitive: bool = False) -> RowPlan:
    """DELETE: one clause over target rows alone; files that go as a whole are told from their partition values."""
    if delete.condition is not None:
        check_condition(delete.condition, "the WHERE condition")
    target = side_of(delete.target.parts, delete.alias, snapshot.schema.names)
    return _target_plan("DELETE", target, snapshot, Effect.DELETE, {}, delete.condition, case_sensitive)


def plan_insert(table: str, schema: Struct, values: Mapping[str, str], source: Side, rules: Rules) -> RowPlan:
    """INSERT: every source row becomes a row. `values`: SQL text by column over the source."""
    rules = _rules(rules, schema)
    return RowPlan(
        operation="WRITE",
        table=table,
        schema=schema,
        target=Side(TARGET, (), schema.names),
        source=source,
        on=None,
        clauses=(Clause(Match.NOT_MATCHED, Effect.INSERT, None, {**rules.defaults, **values}),),
        source_rows=SourceRows.ALL,
        files=nothing,
        bound_columns=(),
        parameters={"mode": "Append"},
        rules=rules,
    )


def plan_replace_using(insert: RowPlan, snapshot: Snapshot, keys: Sequence[str], *, case_sensitive: bool = False) -> RowPlan:
    """INSERT … REPLACE USING: rows whose keys equal a new row's leave, every new row comes in, in one commit.

    As in Delta, NULL equals nothing (`=`), and new rows are compared as they will be stored.
    """
    _keep_append_only(snapshot, "INSERT … REPLACE USING", {Effect.DELETE})
    values = insert.clauses[0].values
    conditions = []
    for key in keys:
        field = column_of(snapshot.schema, key, case_sensitive, "REPLACE USING")
        if field.name not in values:
            raise UnknownColumn(field.name, tuple(values), where="the query of INSERT … REPLACE USING")
        conditions.append(f"{TARGET}.{backquote(field.name)} = cast({values[field.name]} as {sql_name(field.type)})")
    assert insert.source is not None
    on = analyse(" AND ".join(conditions), insert.target, insert.source)
    return _replacing(insert, snapshot, on, {"replaceUsing": list(keys)})


def plan_replace_on(insert: RowPlan, snapshot: Snapshot, condition: SqlText, target: Side, *, case_sensitive: bool = False) -> RowPlan:
    """INSERT … REPLACE ON: rows for which the condition is true with a new row leave, every new row comes in, in one commit.

    The condition sees the table as `target` and the query's own columns. Raises PlanError, UnsupportedStatement.
    """
    _keep_append_only(snapshot, "INSERT … REPLACE ON", {Effect.DELETE})
    source = insert.source
    assert source is not None
    if target.alias.lower() == source.alias.lower():
        raise PlanError(f"Table and query of INSERT … REPLACE ON are both called `{target.alias}`. Give one of them another alias.")
    check_condition(condition, "the REPLACE ON condition")
    on = analyse(
        replace_qualifiers(condition.text, (target, source), case_sensitive=case_sensitive), target, source, case_sensitive=case_sensitive
    )
    return _replacing(replace(insert, target=target), snapshot, on, {"replaceOn": condition.text})


def _replacing(insert: RowPlan, snapshot: Snapshot, on: Condition, parameters: Mapping[str, object]) -> RowPlan:
    mask, columns = file_mask(on.target_only, insert.target, snapshot.schema, snapshot.partition_columns)
    return replace(
        insert,
        on=on,
        clauses=(Clause(Match.MATCHED, Effect.DELETE), *insert.clauses),
        files=mask,
        bound_columns=columns,
        conjuncts=on.target_only,
        parameters={"mode": "Overwrite", **parameters},
    )


def insert_columns(
    schema: Struct,
    given: Sequence[str],
    columns: Sequence[str] | None,
    static: Collection[str],
    *,
    by_name: bool,
    table: str,
    case_sensitive: bool = False,
) -> list[str]:
    """Which column of the table each column of an INSERT's query goes to.

    `given` are the names of the query's columns; `columns` the column list; `static` the columns that PARTITION (p = …) gives.
    Raises UnknownColumn, PlanError.
    """
    if by_name:
        where = f"{table}, into which the query goes BY NAME"
        wanted = [column_of(schema, name, case_sensitive, where, _EVOLVE_INSERT).name for name in given]
    elif columns is not None:
        wanted = [column_of(schema, name, case_sensitive, "the INSERT list").name for name in columns]
    else:
        wanted = [name for name in schema.names if name not in static]
    for name, times in Counter(wanted).items():
        if name in static or times > 1:
            raise PlanError(f"The column `{name}` is given twice. Name it once.")
    if len(wanted) != len(given):
        raise PlanError(
            f"INSERT INTO {table}: the query has {len(given)} column(s) ({', '.join(given)}), but {len(wanted)} are wanted "
            f"({', '.join(wanted)}). Select exactly these, name the columns after the table, or use INSERT INTO … BY NAME."
            f"{f' {_EVOLVE_INSERT}' if columns is None and len(given) > len(wanted) else ''}"
        )
    return wanted


def static_partition(
    schema: Struct,
    partition_columns: Collection[str],
    partition: Sequence[tuple[str, str | None]],
    table: str,
    *,
    case_sensitive: bool = False,
) -> dict[str, str]:
    """The values that PARTITION (p = value, q) gives: SQL text, cast to the column's type, by exact name.

    Raises UnknownColumn, PlanError for what is no partition column, or given twice.
    """
    values: dict[str, str] = {}
    named: set[str] = set()
    for name, text in partition:
        field = column_of(schema, name, case_sensitive, "PARTITION")
        if field.name not in partition_columns:
            by = f"It is by {', '.join(f'`{column}`' for column in partition_columns)}." if partition_columns else "Leave PARTITION out."
            raise PlanError(f"PARTITION ({name}): {table} is not partitioned by `{field.name}`. {by}")
        if field.name in named:
            raise PlanError(f"PARTITION names `{field.name}` twice. Name it once.")
        named.add(field.name)
        if text is not None:
            values[field.name] = f"cast({text} as {sql_name(field.type)})"
    return values


def _target_plan(
    operation: str,
    target: Side,
    snapshot: Snapshot,
    effect: Effect,
    values: Mapping[str, str],
    condition: SqlText | None,
    case_sensitive: bool,
) -> RowPlan:
    _keep_append_only(snapshot, operation, {effect})
    where: str | None = None
    conjuncts: tuple[str, ...] = ()
    if condition is not None:
        where = qualify(condition.text, target, case_sensitive=case_sensitive)
        analysed: Condition = analyse(where, target, None, case_sensitive=case_sensitive)
        conjuncts = (*analysed.target_only, *analysed.other)
    over = (conjuncts, target, snapshot.schema, snapshot.partition_columns)
    mask, columns = file_mask(*over, case_sensitive=case_sensitive)
    whole = exact_partition_mask(*over, case_sensitive=case_sensitive) if effect is Effect.DELETE else None
    return RowPlan(
        operation=operation,
        table=snapshot.name,
        schema=snapshot.schema,
        target=target,
        source=None,
        on=None,
        clauses=(Clause(Match.NOT_MATCHED_BY_SOURCE, effect, where, values),),
        source_rows=SourceRows.NONE,
        files=mask,
        bound_columns=columns,
        conjuncts=conjuncts,
        whole_files=whole,
        parameters={"predicate": [condition.text] if condition else []},
    )


def _rules(rules: Rules, schema: Struct) -> Rules:
    """The rules of a statement that begins now."""
    return rules_at(rules, time.time_ns() // 1000, schema.names)


def _keep_append_only(snapshot: Snapshot, operation: str, effects: set[Effect]) -> None:
    if snapshot.shape.rules.append_only and effects - {Effect.INSERT}:
        raise AppendOnly(snapshot.name, operation)


def _merge_parameters(merge: Merge, clauses: tuple[Clause, ...]) -> dict[str, object]:
    def told(match: Match) -> list[dict[str, str]]:
        return [
            {**({"predicate": clause.condition} if clause.condition else {}), "actionType": clause.effect.name.lower()}
            for clause in clauses
            if clause.match is match
        ]

    return {
        "predicate": [merge.on.text],
        "matchedPredicates": told(Match.MATCHED),
        "notMatchedPredicates": told(Match.NOT_MATCHED),
        "notMatchedBySourcePredicates": told(Match.NOT_MATCHED_BY_SOURCE),
    }
