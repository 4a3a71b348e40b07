"""Planning of row-level commands: the planner resolves names, expands stars, and returns a RowPlan with complete clauses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Delete, Match, Merge, Update
from rowmerge.errors import AppendOnly, PlanError, UnknownColumn
from rowmerge.plan.clauses import ClauseScope, clause_of, column_of, update_values
from rowmerge.plan.expressions.conditions import Condition, divide_condition
from rowmerge.plan.expressions.moment import rules_at
from rowmerge.plan.expressions.qualification import apart_from, build_side, check_aliases_differ, qualify, replace_qualifiers
from rowmerge.plan.expressions.restrictions import check_condition, check_merge, check_update
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import exact_partition_mask, file_mask, no_file
from rowmerge.plan.row_plan import Clause, Effect, RowPlan, SourceRows
from rowmerge.plan.schema_evolution import schema_after_merge
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Struct, backquote, sql_name
from rowmerge.table.snapshots.snapshot import Snapshot

TARGET = "target"
SOURCE = "source"
VALUE_COLUMN = "__rowmerge_value_%d"


def plan_merge(
    merge: Merge,
    snapshot: Snapshot,
    source: Side,
    *,
    case_sensitive: bool = False,
    time_zone: str | None = None,
    source_schema: Struct | None = None,
    metadata_columns: Struct = Struct(),  # noqa: B008  immutable
) -> RowPlan:
    """Plan a MERGE.

    Args:
        merge: The parsed statement.
        snapshot: The snapshot of the target that the statement changes.
        source: The aliases and the columns of the source.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.
        time_zone: The name of the session's time zone, or None if it is unknown.
        source_schema: The columns of the source with their types if the source may add columns to the table, otherwise None.
        metadata_columns: The metadata columns of the target that conditions and values use.

    Raises:
        UnknownColumn: A clause uses a column that the target or the source does not have.
        TypeMismatch: A new column has a type that tables do not support.
        PlanError: A name is ambiguous, or a column is assigned twice.
        UnsupportedStatement: A condition or a value contains an aggregate or window function, or a condition is nondeterministic.
        AppendOnly: The table accepts only new rows, and a clause updates or deletes rows.
    """
    # Over 40 lines: the documentation of its arguments.
    old_schema, can_widen = snapshot.schema, snapshot.shape.can_widen
    new_schema = old_schema if source_schema is None else schema_after_merge(old_schema, source_schema, merge.clauses, can_widen)
    target = _merge_target(merge, snapshot, source, metadata_columns)
    check_merge(merge)
    condition = replace_qualifiers(merge.on.text, (target, source), case_sensitive=case_sensitive)
    on = divide_condition(condition, target, source, case_sensitive=case_sensitive, target_schema=old_schema)
    rules, evolves = _rules_at_current_time(snapshot.shape.rules, new_schema), source_schema is not None
    scope = ClauseScope(target, source, old_schema, new_schema, rules, evolves=evolves, case_sensitive=case_sensitive)
    clauses = tuple(clause_of(when, scope) for when in merge.clauses)
    _check_append_only(snapshot, "MERGE", {clause.effect for clause in clauses})
    reads_unmatched_rows = any(clause.match is Match.NOT_MATCHED_BY_SOURCE for clause in clauses)
    conjuncts = () if reads_unmatched_rows else on.target_only
    columns, names = Struct((*old_schema, *metadata_columns)), snapshot.partition_columns
    mask, bound_columns = file_mask(conjuncts, target, columns, names, case_sensitive=case_sensitive, time_zone=time_zone)
    return RowPlan(
        operation="MERGE",
        table=snapshot.name,
        schema=new_schema,
        target=target,
        source=source,
        on=on,
        clauses=clauses,
        source_rows=SourceRows.UNMATCHED if any(clause.effect is Effect.INSERT for clause in clauses) else SourceRows.NONE,
        files=mask,
        bound_columns=bound_columns,  # the columns whose bounds the mask reads
        conjuncts=conjuncts,
        parameters=_merge_parameters(merge, clauses),
        evolved_from=old_schema if evolves else None,
        rules=rules,
        metadata_columns=metadata_columns,
    )


def _merge_target(merge: Merge, snapshot: Snapshot, source: Side, metadata_columns: Struct) -> Side:
    """Return the target of a MERGE as a side whose alias is not a name of the source. Raise PlanError if both have the same alias."""
    target = replace(build_side(merge.target.parts, merge.target_alias, snapshot.schema.names), hidden=metadata_columns.names)
    if (target.alias,) in source.names:
        target = apart_from(target, target, TARGET)
    check_aliases_differ(target, source)
    return target


def plan_update(
    update: Update,
    snapshot: Snapshot,
    *,
    case_sensitive: bool = False,
    time_zone: str | None = None,
    metadata_columns: Struct = Struct(),  # noqa: B008  immutable
) -> RowPlan:
    """Plan an UPDATE as one clause over the target rows.

    Args:
        update: The parsed statement.
        snapshot: The snapshot of the table that the statement changes.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.
        time_zone: The name of the session's time zone, or None if it is unknown.
        metadata_columns: The metadata columns that the condition and the values use.

    Raises:
        UnknownColumn: The SET list contains a column that the table does not have.
        PlanError: A column is assigned twice, or a path goes into a column that is not a struct.
        UnsupportedStatement: The condition is nondeterministic, or the condition or a value contains an aggregate or window function.
        AppendOnly: The table accepts only new rows.
    """
    check_update(update)
    schema = snapshot.schema
    target = replace(build_side(update.target.parts, update.alias, schema.names), hidden=metadata_columns.names)
    rules = _rules_at_current_time(snapshot.shape.rules, schema)
    scope = ClauseScope(target, None, old_schema=schema, new_schema=schema, rules=rules, case_sensitive=case_sensitive, visible=target)
    values = update_values(update.assignments, scope)
    plan = _plan_without_source(snapshot, target, Effect.UPDATE, update.condition, values, case_sensitive, time_zone, metadata_columns)
    return replace(plan, rules=rules)  # the rows that the plan writes must satisfy the rules


def plan_delete(
    delete: Delete,
    snapshot: Snapshot,
    *,
    case_sensitive: bool = False,
    time_zone: str | None = None,
    metadata_columns: Struct = Struct(),  # noqa: B008  immutable
) -> RowPlan:
    """Plan a DELETE as one clause over the target rows.

    The plan also contains the mask of the files that the command can remove as a whole, according to their partition values.

    Args:
        delete: The parsed statement.
        snapshot: The snapshot of the table that the statement changes.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.
        time_zone: The name of the session's time zone, or None if it is unknown.
        metadata_columns: The metadata columns that the condition uses.

    Raises:
        UnsupportedStatement: The condition contains an aggregate, window or nondeterministic function.
        AppendOnly: The table accepts only new rows.
    """
    if delete.condition is not None:
        check_condition(delete.condition, "the WHERE condition")
    target = replace(build_side(delete.target.parts, delete.alias, snapshot.schema.names), hidden=metadata_columns.names)
    plan = _plan_without_source(snapshot, target, Effect.DELETE, delete.condition, {}, case_sensitive, time_zone, metadata_columns)
    whole_files = exact_partition_mask(
        plan.conjuncts, target, snapshot.schema, snapshot.partition_columns, case_sensitive=case_sensitive, time_zone=time_zone
    )
    return replace(plan, whole_files=whole_files)


def plan_insert(table: str, schema: Struct, values: Mapping[str, str], source: Side, rules: Rules) -> RowPlan:
    """Plan an INSERT of every source row.

    Args:
        table: The table's name, which messages and EXPLAIN show.
        schema: The table's columns after the statement.
        values: For each column of the table, the SQL text of its value over the source's columns. Other columns get their defaults.
        source: The alias and the columns of the rows to insert.
        rules: The rules of the table, such as defaults and constraints.
    """
    rules = _rules_at_current_time(rules, schema)
    return RowPlan(
        operation="WRITE",  # the operation that Delta's commitInfo records for an INSERT
        table=table,
        schema=schema,
        target=Side(alias=TARGET, names=(), columns=schema.names),
        source=source,
        clauses=(Clause(Match.NOT_MATCHED, Effect.INSERT, None, {**rules.defaults, **values}),),
        source_rows=SourceRows.ALL,
        files=no_file,  # an INSERT reads no file of the table
        bound_columns=(),
        parameters={"mode": "Append"},
        rules=rules,
    )


def plan_replace_using(insert: RowPlan, snapshot: Snapshot, keys: Sequence[str], *, case_sensitive: bool = False) -> RowPlan:
    """Plan INSERT … REPLACE USING: delete the rows that have the same keys as a new row, and insert every new row.

    As in Delta, NULL keys never match (`=`), and the keys of new rows are cast to the table's types before the comparison.

    Args:
        insert: The plan that inserts the query's rows without deleting any.
        snapshot: The snapshot of the table that the statement changes.
        keys: The names of the columns after USING.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.

    Raises:
        UnknownColumn: The table or the query does not have a key column.
        AppendOnly: The table accepts only new rows.
    """
    _check_append_only(snapshot, "INSERT … REPLACE USING", {Effect.DELETE})
    values = insert.clauses[0].values  # the plan of an INSERT has one clause
    key_conditions = []
    for key in keys:
        field = column_of(snapshot.schema, key, case_sensitive, "REPLACE USING")
        if field.name not in values:
            raise UnknownColumn(field.name, tuple(values), where="the query of INSERT … REPLACE USING")
        key_conditions.append(f"{TARGET}.{backquote(field.name)} = cast({values[field.name]} as {sql_name(field.type)})")
    assert insert.source is not None
    on = divide_condition(" AND ".join(key_conditions), insert.target, insert.source)
    return _with_matches_deleted(insert, snapshot, on, {"replaceUsing": list(keys)}, None)


def plan_replace_on(
    insert: RowPlan,
    snapshot: Snapshot,
    condition: SqlText,
    target: Side,
    *,
    case_sensitive: bool = False,
    time_zone: str | None = None,
) -> RowPlan:
    """Plan INSERT … REPLACE ON: delete each table row for which the condition is true with some new row, and insert every new row.

    Args:
        insert: The plan that inserts the query's rows without deleting any.
        snapshot: The snapshot of the table that the statement changes.
        condition: The condition over the columns of the table and of the query.
        target: The side of the table, with the alias by which the condition refers to the table.
        case_sensitive: Whether names that differ only in case are different, as with spark.sql.caseSensitive.
        time_zone: The name of the session's time zone, or None if it is unknown.

    Raises:
        PlanError: The table and the query have the same alias.
        UnsupportedStatement: The condition contains an aggregate, window or nondeterministic function.
        AppendOnly: The table accepts only new rows.
    """
    _check_append_only(snapshot, "INSERT … REPLACE ON", {Effect.DELETE})
    query = insert.source
    assert query is not None
    if target.alias.lower() == query.alias.lower():
        raise PlanError(
            f"The table and the query of INSERT … REPLACE ON both have the alias `{target.alias}`. Give one of them another alias."
        )
    check_condition(condition, "the REPLACE ON condition")
    qualified_condition = replace_qualifiers(condition.text, (target, query), case_sensitive=case_sensitive)
    on = divide_condition(qualified_condition, target, query, case_sensitive=case_sensitive, target_schema=snapshot.schema)
    return _with_matches_deleted(replace(insert, target=target), snapshot, on, {"replaceOn": condition.text}, time_zone)


def _with_matches_deleted(
    insert: RowPlan, snapshot: Snapshot, on: Condition, parameters: Mapping[str, object], time_zone: str | None
) -> RowPlan:
    """Return the plan of an INSERT that also deletes the table's rows that match a new row.

    The conjuncts of `on` that use only the target decide which files can contain such rows. `parameters`: the operationParameters in
    Delta's commitInfo.
    """
    mask, bound_columns = file_mask(on.target_only, insert.target, snapshot.schema, snapshot.partition_columns, time_zone=time_zone)
    plan = replace(insert, on=on, clauses=(Clause(Match.MATCHED, Effect.DELETE), *insert.clauses), conjuncts=on.target_only)
    return replace(plan, files=mask, bound_columns=bound_columns, parameters={"mode": "Overwrite", **parameters})


def _plan_without_source(
    snapshot: Snapshot,
    target: Side,
    effect: Effect,
    condition: SqlText | None,
    new_values: Mapping[str, str],
    case_sensitive: bool,
    time_zone: str | None,
    metadata_columns: Struct,
) -> RowPlan:
    """Plan an UPDATE or a DELETE like a MERGE with an empty source.

    Its one clause is WHEN NOT MATCHED BY SOURCE, because no target row is matched without a source. The conjuncts of the condition select
    the data files that can contain affected rows, so that the statement reads and rewrites only these files. `new_values`: the SQL text of
    each column that an UPDATE assigns.
    """
    _check_append_only(snapshot, effect.name, {effect})
    qualified_condition = None if condition is None else qualify(condition.text, target, case_sensitive=case_sensitive)
    conjuncts = () if qualified_condition is None else _target_conjuncts(qualified_condition, target, case_sensitive)
    columns, partition_columns = Struct((*snapshot.schema, *metadata_columns)), snapshot.partition_columns
    mask, bound_columns = file_mask(conjuncts, target, columns, partition_columns, case_sensitive=case_sensitive, time_zone=time_zone)
    return RowPlan(
        operation=effect.name,
        table=snapshot.name,
        schema=snapshot.schema,
        target=target,
        clauses=(Clause(Match.NOT_MATCHED_BY_SOURCE, effect, qualified_condition, new_values),),
        files=mask,  # selects the files whose partition values and column bounds the conjuncts admit
        bound_columns=bound_columns,  # the columns whose bounds the mask reads
        conjuncts=conjuncts,
        parameters={"predicate": [condition.text] if condition else []},
        metadata_columns=metadata_columns,
    )


def _target_conjuncts(condition: str, target: Side, case_sensitive: bool) -> tuple[str, ...]:
    """Return the conjuncts of a condition over only the target.

    For `t.a = 1 AND t.b IN (select …)`, the first conjunct selects files by the bounds of `a`. The second is one of the `other` conjuncts,
    which cannot be analysed and select all files.
    """
    divided_condition = divide_condition(condition, target, None, case_sensitive=case_sensitive)
    return (*divided_condition.target_only, *divided_condition.other)


def _rules_at_current_time(rules: Rules, schema: Struct) -> Rules:
    """Return the rules with calls of current_timestamp() and similar functions replaced by the current time, for the whole statement."""
    return rules_at(rules, time.time_ns() // 1000, schema.names)


def _check_append_only(snapshot: Snapshot, operation: str, effects: set[Effect]) -> None:
    """Raise AppendOnly if a statement updates or deletes rows of a table that accepts only new rows (delta.appendOnly)."""
    if snapshot.shape.rules.append_only and effects - {Effect.INSERT}:
        raise AppendOnly(snapshot.name, operation)


def _merge_parameters(merge: Merge, clauses: tuple[Clause, ...]) -> dict[str, object]:
    """Return a MERGE's operationParameters for Delta's commitInfo: the ON condition, and the condition and action of each WHEN clause."""
    predicates: dict[Match, list[dict[str, str]]] = {match: [] for match in Match}
    for clause in clauses:
        condition = {"predicate": clause.condition} if clause.condition else {}
        predicates[clause.match].append({**condition, "actionType": clause.effect.name.lower()})
    return {
        "predicate": [merge.on.text],
        "matchedPredicates": predicates[Match.MATCHED],
        "notMatchedPredicates": predicates[Match.NOT_MATCHED],
        "notMatchedBySourcePredicates": predicates[Match.NOT_MATCHED_BY_SOURCE],
    }
