"""What a MERGE must know of the target's rows that its source meets."""

from __future__ import annotations

from collections.abc import Mapping

from rowmerge.commands.rows import Match
from rowmerge.plan.expressions.column_refs import has_query, parse, references
from rowmerge.plan.expressions.conditions import nondeterministic, resolve
from rowmerge.plan.row_plan import Clause, Effect, RowPlan, SourceRows


def needed_columns(plan: RowPlan) -> frozenset[str] | None:
    """The exact names of the target's columns that the ON condition and the MATCHED clauses look at or keep.

    None where that cannot be told for sure: a subquery, a function that may look at anything, a name that more than one column answers to,
    text that is not understood.
    """
    assert plan.on is not None and plan.source is not None
    columns = (plan.evolved_from or plan.schema).names
    needed: set[str] = set()
    for text in (plan.on.text, *_texts(plan)):
        found = _target_columns(plan, text)
        if found is None:
            return None
        needed |= found
    for clause in plan.of(Match.MATCHED):
        if clause.effect is Effect.UPDATE:
            needed |= {name for name in columns if clause.keeps_fields or name not in clause.values}
    return frozenset(needed)


def is_upsert(plan: RowPlan) -> bool:
    """Whether each source row becomes the same new row, whatever it meets: the one update and the one insert have no conditions, and give
    every column the same value, made of the source alone."""
    clauses = plan.of(Match.MATCHED), plan.of(Match.NOT_MATCHED)
    if any(len(found) != 1 or found[0].condition is not None for found in clauses) or len(plan.clauses) != 2:
        return False
    (update,), (insert,) = clauses
    if update.effect is not Effect.UPDATE or update.keeps_fields or dict(update.values) != dict(insert.values):
        return False
    return {*insert.values, *plan.rules.generated} >= set(plan.schema.names) and _is_of_source_alone(plan, insert)


def keys_decide(plan: RowPlan) -> bool:
    """Return whether the keys are the whole ON condition, and the plan needs no more of a matching target row than its position."""
    if plan.on is None or not plan.on.keys_alone:
        return False
    if plan.duplicates_allowed and plan.source_rows is not SourceRows.UNMATCHED:
        return not plan.of(Match.NOT_MATCHED_BY_SOURCE)
    return is_upsert(plan) or source_decides(plan)


def source_decides(plan: RowPlan) -> bool:
    """Whether of the target's rows nothing must be known but which of them a source row meets: all that the clauses look at is the
    source's, and an update gives every column a new value."""
    if plan.of(Match.NOT_MATCHED_BY_SOURCE) or not all(_is_of_source_alone(plan, clause) for clause in plan.clauses):
        return False
    updates = [clause for clause in plan.clauses if clause.effect is Effect.UPDATE]
    return all(not clause.keeps_fields and set(clause.values) >= set(plan.schema.names) for clause in updates)


def _is_of_source_alone(plan: RowPlan, clause: Clause) -> bool:
    return all(_target_columns(plan, text) == set() for text in _texts_of(clause))


def values_of_all(plan: RowPlan) -> Mapping[str, str] | None:
    """The values of every row that the command writes, whichever clause says so; None where clauses differ, or none of them writes."""
    found = [dict(clause.values) for clause in plan.clauses if clause.effect is not Effect.DELETE]
    return found[0] if found and all(values == found[0] for values in found) else None


def _texts(plan: RowPlan) -> list[str]:
    return [text for clause in plan.of(Match.MATCHED) for text in _texts_of(clause)]


def _texts_of(clause: Clause) -> list[str]:
    return [*([] if clause.condition is None else [clause.condition]), *clause.values.values()]


def _target_columns(plan: RowPlan, text: str) -> set[str] | None:
    tree = parse(text)
    if tree is None or has_query(tree) or nondeterministic(text):
        return None
    found = references(tree, text)
    if found is None:
        return None
    sides = [side for side in (plan.target, plan.source) if side is not None]
    resolved = [resolve(reference.parts, sides) for reference in found]
    if any(column is None for column in resolved):
        return None
    return {column.column for column in resolved if column is not None and column.side is plan.target}
