"""Checks the configs of a merge model before any SQL runs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

_FOREIGN = {
    "merge_clauses": "Use update_condition, delete_condition, insert_condition and not_matched_by_source_action.",
    "merge_update_condition": "Call it update_condition.",
    "merge_insert_condition": "Call it insert_condition.",
    "merge_update_set_expressions": "Compute the values in the model.",
    "merge_on_using_columns": "Set unique_key to these columns.",
    "merge_returning_columns": "Read the table after the run.",
}


def problems_with(config: Any, columns: Sequence[str]) -> list[str]:
    """What is wrong, one sentence each; empty when nothing is. `config` has dict's `get`; `columns` are those that a merge may set."""
    return [*_foreign_problems(config), *_column_problems(config, columns), *_step_problems(config), *_by_source_problems(config)]


def _foreign_problems(config: Any) -> list[str]:
    """Configs of other adapters that would change which rows are written: passed over in silence, they would give other tables."""
    return [f"{name} is not supported. {advice}" for name, advice in _FOREIGN.items() if config.get(name)]


def _column_problems(config: Any, columns: Sequence[str]) -> list[str]:
    known = {column.lower() for column in columns}
    chosen = {name: _listed(config.get(name)) for name in ("merge_update_columns", "merge_exclude_columns")}
    problems = ["merge_update_columns and merge_exclude_columns cannot both be set. Keep one of them."] if all(chosen.values()) else []
    for name, listed in chosen.items():
        problems += [f"{name}: {_unknown(column, columns)}" for column in listed if _plain(column) not in known]
    return problems


def _step_problems(config: Any) -> list[str]:
    problems = []
    for skip, idle in (
        ("skip_matched_step", ("merge_update_columns", "merge_exclude_columns", "matched_condition")),
        ("skip_not_matched_step", ("not_matched_condition",)),
    ):
        useless = [name for name in idle if config.get(name)]
        if config.get(skip) and useless:
            problems.append(f"{skip} leaves nothing to do for {' and '.join(useless)}. Remove one or the other.")
    others = config.get("not_matched_by_source_action") or config.get("delete_condition")
    if config.get("skip_matched_step") and config.get("skip_not_matched_step") and not others:
        problems.append("skip_matched_step and skip_not_matched_step together leave the merge without a clause. Remove one of them.")
    return problems


def _by_source_problems(config: Any) -> list[str]:
    action = config.get("not_matched_by_source_action")
    if not action:
        missing = config.get("not_matched_by_source_condition")
        advice = "Set it to `delete` or `update set …`."
        return [f"not_matched_by_source_condition needs not_matched_by_source_action. {advice}"] if missing else []
    if str(action).lower().split()[:1] not in (["delete"], ["update"]):
        return [f"not_matched_by_source_action is {action!r}. It must be `delete` or begin with `update set`."]
    return []


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _plain(name: str) -> str:
    return name.strip("`").replace("``", "`").lower()


def _unknown(name: str, columns: Sequence[str]) -> str:
    near = get_close_matches(_plain(name), [column.lower() for column in columns], n=2, cutoff=0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(columns)}."
    return f"there is no column {name}. {hint}"
