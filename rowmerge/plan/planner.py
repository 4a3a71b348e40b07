"""Plan commands: resolve names, expand stars, and return a RowPlan in which every clause is complete."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Delete, Match, Merge, Update
from rowmerge.errors import AppendOnly, PlanError, UnknownColumn
from rowmerge.plan.clauses import ClauseScope, clause_of, column_of, update_values
from rowmerge.plan.expressions.conditions import Condition, Side, divide_condition
from rowmerge.plan.expressions.moment import rules_at
from rowmerge.plan.expressions.qualification import apart_from, check_apart, qualify, replace_qualifiers, side_of
from rowmerge.plan.expressions.restrictions import check_condition, check_merge, check_update
from rowmerge.plan.pruning.file_pruning import exact_partition_mask, file_mask, no_file
from rowmerge.plan.row_plan import Clause, Effect, RowPlan, SourceRows
from rowmerge.plan.schema_evolution import after_merge
from rowmerge.table.metadata.partitioning import identity_columns
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Struct, backquote, sql_name
from rowmerge.table.metadata.shape import TableShape
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
    """Plan a MERGE. With `source_schema`, the source may add columns to the table.

    Raises UnknownColumn, TypeMismatch, PlanError, UnsupportedStatement.
    """
    before = snapshot.schema
    schema = before if source_schema is None else after_merge(before, source_schema, merge.clauses, snapshot.shape.can_widen)
    target = _merge_target(merge, snapshot, source)
    check_merge(merge)
    condition = replace_qualifiers(merge.on.text, (target, source), case_sensitive=case_sensitive)
    on = divide_condition(condition, target, source, case_sensitive=case_sensitive)
    rules = _rules_now(snapshot.shape.rules, schema)
    scope = ClauseScope(target, source, before, schema, rules, evolves=source_schema is not None, case_sensitive=case_sensitive)
    clauses = tuple(clause_of(when, scope) for when in merge.clauses)
    _check_append_only(snapshot, "MERGE", {clause.effect for clause in clauses})
    reads_unmatched_rows = any(clause.match is Match.NOT_MATCHED_BY_SOURCE for clause in clauses)
    conjuncts = () if reads_unmatched_rows else on.target_only
    mask, columns = file_mask(conjuncts, target, snapshot.schema, snapshot.partition_columns, case_sensitive=case_sensitive)
    return RowPlan(
        operation="MERGE",
        table=snapshot.name,
        schema=schema,
        target=target,
        source=source,
        on=on,
        clauses=clauses,
        source_rows=SourceRows.UNMATCHED if any(clause.effect is Effect.INSERT for clause in clauses) else SourceRows.NONE,
        files=mask,
        bound_columns=columns,
        conjuncts=conjuncts,
        parameters=_merge_parameters(merge, clauses),
        evolved_from=None if source_schema is None else before,
        rules=rules,
    )


def _merge_target(merge: Merge, snapshot: Snapshot, source: Side) -> Side:
    target = side_of(merge.target.parts, merge.target_alias, snapshot.schema.names)
    if (target.alias,) in source.names:
        target = apart_from(target, target, TARGET)
    check_apart(target, source)
    return target


def plan_update(update: Update, snapshot: Snapshot, *, case_sensitive: bool = False) -> RowPlan:
    """Plan an UPDATE as one clause over the target rows. Raises UnknownColumn, PlanError."""
    check_update(update)
    target = side_of(update.target.parts, update.alias, snapshot.schema.names)
    schema, rules = snapshot.schema, _rules_now(snapshot.shape.rules, snapshot.schema)
    scope = ClauseScope(target, None, schema, schema, rules, case_sensitive=case_sensitive, visible=target)
    values = update_values(update.assignments, scope)
    plan = _target_plan(snapshot, target, Effect.UPDATE, update.condition, case_sensitive=case_sensitive)
    return replace(plan, clauses=(replace(plan.clauses[0], values=values),), rules=rules)


def plan_delete(delete: Delete, snapshot: Snapshot, *, case_sensitive: bool = False) -> RowPlan:
    """Plan a DELETE as one clause over the target rows. Partition values show which files it deletes as a whole."""
    if delete.condition is not None:
        check_condition(delete.condition, "the WHERE condition")
    target = side_of(delete.target.parts, delete.alias, snapshot.schema.names)
    return _target_plan(snapshot, target, Effect.DELETE, delete.condition, case_sensitive=case_sensitive)


def plan_insert(table: str, schema: Struct, values: Mapping[str, str], source: Side, rules: Rules) -> RowPlan:
    """Plan an INSERT of every source row. `values`: SQL text over the source by column."""
    rules = _rules_now(rules, schema)
    return RowPlan(
        operation="WRITE",
        table=table,
        schema=schema,
        target=Side(TARGET, (), schema.names),
        source=source,
        clauses=(Clause(Match.NOT_MATCHED, Effect.INSERT, None, {**rules.defaults, **values}),),
        source_rows=SourceRows.ALL,
        files=no_file,
        bound_columns=(),
        parameters={"mode": "Append"},
        rules=rules,
    )


def plan_replace_using(insert: RowPlan, snapshot: Snapshot, keys: Sequence[str], *, case_sensitive: bool = False) -> RowPlan:
    """Plan INSERT … REPLACE USING: delete the rows that have the keys of a new row, and insert every new row.

    As in Delta, NULL equals nothing (`=`), and the keys of new rows are compared in the table's types.
    """
    _check_append_only(snapshot, "INSERT … REPLACE USING", {Effect.DELETE})
    values = insert.clauses[0].values
    key_conditions = []
    for key in keys:
        field = column_of(snapshot.schema, key, case_sensitive, "REPLACE USING")
        if field.name not in values:
            raise UnknownColumn(field.name, tuple(values), where="the query of INSERT … REPLACE USING")
        key_conditions.append(f"{TARGET}.{backquote(field.name)} = cast({values[field.name]} as {sql_name(field.type)})")
    assert insert.source is not None
    on = divide_condition(" AND ".join(key_conditions), insert.target, insert.source)
    return _with_matches_deleted(insert, snapshot, on, {"replaceUsing": list(keys)})


def plan_replace_on(insert: RowPlan, snapshot: Snapshot, condition: SqlText, target: Side, *, case_sensitive: bool = False) -> RowPlan:
    """Plan INSERT … REPLACE ON: delete the table's rows for which the condition is true with a new row, and insert every new row.

    `insert`: the plan that only inserts the query's rows; `target`: the table's columns, under the name that the condition uses.
    Raises PlanError, UnsupportedStatement.
    """
    _check_append_only(snapshot, "INSERT … REPLACE ON", {Effect.DELETE})
    query = insert.source
    assert query is not None
    if target.alias.lower() == query.alias.lower():
        raise PlanError(f"Table and query of INSERT … REPLACE ON are both called `{target.alias}`. Give one of them another alias.")
    check_condition(condition, "the REPLACE ON condition")
    qualified_condition = replace_qualifiers(condition.text, (target, query), case_sensitive=case_sensitive)
    on = divide_condition(qualified_condition, target, query, case_sensitive=case_sensitive)
    return _with_matches_deleted(replace(insert, target=target), snapshot, on, {"replaceOn": condition.text})


def _with_matches_deleted(insert: RowPlan, snapshot: Snapshot, on: Condition, parameters: Mapping[str, object]) -> RowPlan:
    """Return the plan of an INSERT that also deletes the table's rows that match a new row. `parameters`: those of Delta's commitInfo."""
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
    query_columns: Sequence[str],
    columns: Sequence[str] | None,
    partition: Collection[str],
    *,
    by_name: bool,
    table: str,
    case_sensitive: bool = False,
) -> list[str]:
    """Return the table's column into which each column of an INSERT's query goes.

    `query_columns` are the names of the query's columns; `columns` is the column list; `partition` has the columns of PARTITION (p = …).
    Raises UnknownColumn, PlanError.
    """
    if by_name:
        clause = f"{table}, into which the query goes BY NAME"
        names = [column_of(schema, name, case_sensitive, clause, _EVOLVE_INSERT).name for name in query_columns]
    elif columns is not None:
        names = [column_of(schema, name, case_sensitive, "the INSERT list").name for name in columns]
    else:
        names = [name for name in schema.names if name not in partition]
    for name, count in Counter(names).items():
        if name in partition or count > 1:
            raise PlanError(f"The column `{name}` is given twice. Name it once.")
    if len(names) != len(query_columns):
        advice = f" {_EVOLVE_INSERT}" if columns is None and len(query_columns) > len(names) else ""
        raise _wrong_column_count(table, query_columns, names, advice)
    return names


def _wrong_column_count(table: str, query_columns: Sequence[str], names: Sequence[str], advice: str) -> PlanError:
    return PlanError(
        f"INSERT INTO {table}: the query has {len(query_columns)} column(s) ({', '.join(query_columns)}), but {len(names)} are wanted "
        f"({', '.join(names)}). Select exactly these, name the columns after the table, or use INSERT INTO … BY NAME.{advice}"
    )


def static_partition(table: TableShape, partition: Sequence[tuple[str, str | None]], *, case_sensitive: bool = False) -> dict[str, str]:
    """Return the values of PARTITION (p = value, q) by exact column name: SQL text, cast to the column's type.

    Raises UnknownColumn, and PlanError for a column that is no partition column or occurs twice.
    """
    partition_columns = identity_columns(table.partitioning)
    casts: dict[str, str | None] = {}
    for name, text in partition:
        field = column_of(table.schema, name, case_sensitive, "PARTITION")
        if field.name not in partition_columns:
            quoted_columns = ", ".join(f"`{column}`" for column in partition_columns)
            advice = f"It is by {quoted_columns}." if partition_columns else "Leave PARTITION out."
            raise PlanError(f"PARTITION ({name}): {table.name} is not partitioned by `{field.name}`. {advice}")
        if field.name in casts:
            raise PlanError(f"PARTITION names `{field.name}` twice. Name it once.")
        casts[field.name] = None if text is None else f"cast({text} as {sql_name(field.type)})"
    return {name: cast for name, cast in casts.items() if cast is not None}


def _target_plan(snapshot: Snapshot, target: Side, effect: Effect, condition: SqlText | None, *, case_sensitive: bool) -> RowPlan:
    """Plan an UPDATE without its values, or a DELETE."""
    _check_append_only(snapshot, effect.name, {effect})
    qualified: str | None = None
    conjuncts: tuple[str, ...] = ()
    if condition is not None:
        qualified = qualify(condition.text, target, case_sensitive=case_sensitive)
        analysed = divide_condition(qualified, target, None, case_sensitive=case_sensitive)
        conjuncts = (*analysed.target_only, *analysed.other)
    mask_arguments = (conjuncts, target, snapshot.schema, snapshot.partition_columns)
    mask, columns = file_mask(*mask_arguments, case_sensitive=case_sensitive)
    return RowPlan(
        operation=effect.name,
        table=snapshot.name,
        schema=snapshot.schema,
        target=target,
        clauses=(Clause(Match.NOT_MATCHED_BY_SOURCE, effect, qualified),),
        files=mask,
        bound_columns=columns,
        conjuncts=conjuncts,
        whole_files=exact_partition_mask(*mask_arguments, case_sensitive=case_sensitive) if effect is Effect.DELETE else None,
        parameters={"predicate": [condition.text] if condition else []},
    )


def _rules_now(rules: Rules, schema: Struct) -> Rules:
    """Return the rules with the time of a statement that begins now."""
    return rules_at(rules, time.time_ns() // 1000, schema.names)


def _check_append_only(snapshot: Snapshot, operation: str, effects: set[Effect]) -> None:
    if snapshot.shape.rules.append_only and effects - {Effect.INSERT}:
        raise AppendOnly(snapshot.name, operation)


def _merge_parameters(merge: Merge, clauses: tuple[Clause, ...]) -> dict[str, object]:
    """Return the ON condition, and condition and action of the WHEN clauses of each kind, as Delta's commitInfo has them."""
    parameters: dict[Match, list[dict[str, str]]] = {match: [] for match in Match}
    for clause in clauses:
        condition = {"predicate": clause.condition} if clause.condition else {}
        parameters[clause.match].append({**condition, "actionType": clause.effect.name.lower()})
    return {
        "predicate": [merge.on.text],
        "matchedPredicates": parameters[Match.MATCHED],
        "notMatchedPredicates": parameters[Match.NOT_MATCHED],
        "notMatchedBySourcePredicates": parameters[Match.NOT_MATCHED_BY_SOURCE],
    }
