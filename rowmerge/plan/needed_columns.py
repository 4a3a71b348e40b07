"""What a MERGE must know of the target's rows that its source meets."""

from __future__ import annotations

from collections.abc import Mapping

from rowmerge.commands.rows import Match
from rowmerge.plan.expressions.column_refs import has_query, parse, references
from rowmerge.plan.expressions.conditions import nondeterministic, resolve
from rowmerge.plan.row_plan import Clause, Effect, RowPlan, SourceRows


def needed_columns(plan: RowPlan) -> frozenset[str] | None:
    """Return the exact names of the target's columns that the ON condition and the MATCHED clauses use or keep.

    The result is None if that is uncertain: for a subquery, a nondeterministic function, an ambiguous name, or text that is not understood.
    """
    assert plan.on is not None and plan.source is not None
    matched_clauses = plan.of(Match.MATCHED)
    texts = [plan.on.text, *(text for clause in matched_clauses for text in _texts_of(clause))]
    text_columns = [_target_columns(plan, text) for text in texts]
    if None in text_columns:
        return None
    updates = [clause for clause in matched_clauses if clause.effect is Effect.UPDATE]
    old_names = (plan.evolved_from or plan.schema).names
    # These columns keep their value, in whole or in part, if an update applies.
    unchanged_columns = {name for name in old_names for update in updates if update.keeps_fields or name not in update.values}
    return frozenset(unchanged_columns).union(*(columns for columns in text_columns if columns is not None))


def is_upsert(plan: RowPlan) -> bool:
    """Return whether each source row becomes the same new row, whether or not it matches a target row.

    The only update and the only insert then have no conditions, and they give every column the same value, made of the source alone.
    """
    updates, inserts = plan.of(Match.MATCHED), plan.of(Match.NOT_MATCHED)
    if len(updates) != 1 or len(inserts) != 1 or len(plan.clauses) != 2:
        return False
    update, insert = updates[0], inserts[0]
    if update.condition is not None or insert.condition is not None or update.effect is not Effect.UPDATE or update.keeps_fields:
        return False
    has_all_columns = {*insert.values, *plan.rules.generated} >= set(plan.schema.names)
    return dict(update.values) == dict(insert.values) and has_all_columns and _is_of_source_alone(plan, insert)


def keys_decide(plan: RowPlan) -> bool:
    """Return whether the keys are the whole ON condition, and the plan needs no more of a matching target row than its position."""
    if plan.on is None or not plan.on.keys_alone:
        return False
    if plan.duplicates_allowed and plan.source_rows is not SourceRows.UNMATCHED:
        return not plan.of(Match.NOT_MATCHED_BY_SOURCE)
    return is_upsert(plan) or source_decides(plan)


def source_decides(plan: RowPlan) -> bool:
    """Return whether the plan needs to know of target rows only which source row matches them.

    All that the clauses read is then the source's, and an update gives every column a new value.
    """
    if plan.of(Match.NOT_MATCHED_BY_SOURCE) or not all(_is_of_source_alone(plan, clause) for clause in plan.clauses):
        return False
    updates = [clause for clause in plan.clauses if clause.effect is Effect.UPDATE]
    return all(not clause.keeps_fields and set(clause.values) >= set(plan.schema.names) for clause in updates)


def _is_of_source_alone(plan: RowPlan, clause: Clause) -> bool:
    return all(_target_columns(plan, text) == set() for text in _texts_of(clause))


def values_of_all(plan: RowPlan) -> Mapping[str, str] | None:
    """Return the values of every row that the command writes, or None if clauses differ or none of them writes."""
    clause_values = [dict(clause.values) for clause in plan.clauses if clause.effect is not Effect.DELETE]
    return clause_values[0] if clause_values and all(values == clause_values[0] for values in clause_values) else None


def _texts_of(clause: Clause) -> list[str]:
    return [*([] if clause.condition is None else [clause.condition]), *clause.values.values()]


def _target_columns(plan: RowPlan, text: str) -> set[str] | None:
    """Return the target's columns that an expression uses, or None if they are uncertain."""
    tree = parse(text)
    if tree is None or has_query(tree) or nondeterministic(text):
        return None
    column_references = references(tree, text)
    if column_references is None:
        return None
    sides = [side for side in (plan.target, plan.source) if side is not None]
    columns = [resolve(reference.parts, sides) for reference in column_references]
    if None in columns:
        return None
    return {column.column for column in columns if column is not None and column.side is plan.target}
