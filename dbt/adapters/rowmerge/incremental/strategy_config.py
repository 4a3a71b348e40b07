"""What the configs of an incremental model come to, strategy by strategy, and everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbt.adapters.rowmerge.configs.model_config import (
    KEY,
    PREDICATES,
    REPLACED_ROWS,
    flag,
    given,
    misspelt,
    nearest,
    said_twice,
    value_of,
)
from dbt.adapters.rowmerge.incremental.change_stream import change_stream_problems
from dbt.adapters.rowmerge.incremental.merge_config import configured_clauses, key_problems

STRATEGIES = ("append", "merge", "delete+insert", "insert_overwrite", "replace_where", "microbatch", "delete", "cdc")
SCHEMA_CHANGES = ("ignore", "fail", "append_new_columns", "sync_all_columns")


def strategy_of(config: Any) -> str:
    """The strategy of a model, by dbt's name of it."""
    return str(config.get("incremental_strategy") or "default").replace("delete_insert", "delete+insert")


def adds_columns(config: Any) -> bool:
    """Return whether a run may add columns to the model's table."""
    return config.get("on_schema_change") not in (None, "ignore") or flag(config, "merge_with_schema_evolution")


def brings_columns(config: Any) -> bool:
    """Return whether a strategy's statement writes every column of a model under its own name, and so adds those that the table lacks."""
    strategy = strategy_of(config)
    if strategy == "delete+insert":
        return not value_of(config, PREDICATES)
    selects_columns = given(config, "merge_clauses") or flag(config, "skip_not_matched_step")
    return strategy in (*STRATEGIES, "default") and not selects_columns


def problems_of(config: Any, names: Sequence[str], known_macros: Any, columns: Sequence[str] = ()) -> list[str]:
    """What is wrong with an incremental model, one sentence each.

    `config` has dict's `get`, `names` are the configs that it holds, `known_macros` tells by `in` which macros there are.
    `columns` are those of the table, where the model cannot bring others; none where it can, or where there is no table yet.
    """
    strategy = strategy_of(config)
    problems = []
    macro = f"get_incremental_{strategy.replace('+', '_')}_sql"
    if macro not in known_macros:
        advice = f"{nearest(strategy, STRATEGIES)} A strategy of your own is a macro of that name."
        # dbt's own words, by which other adapters' users know it.
        return [f'dbt could not find an incremental strategy macro with the name "{macro}". {advice}']
    change = config.get("on_schema_change")
    if change is not None and change not in SCHEMA_CHANGES:
        problems.append(f"on_schema_change is {change!r}. {nearest(str(change), SCHEMA_CHANGES)}")
    if strategy not in (*STRATEGIES, "default"):
        return problems
    problems += misspelt(names)
    if strategy == "merge" or strategy == "default":
        return problems + configured_clauses(config, columns)[1]
    problems += said_twice(config, REPLACED_ROWS if strategy == "replace_where" else PREDICATES)
    if given(config, "merge_deduplicate_by") and strategy not in ("delete", "cdc"):
        problems.append(f"merge_deduplicate_by would mean nothing to the strategy {strategy}. Leave it out, or choose merge.")
    if strategy in ("delete+insert", "delete", "cdc"):
        problems += key_problems(config, columns)
    if strategy in ("delete", "cdc"):
        problems += _foreign(config, names, strategy)
        problems += [] if value_of(config, KEY) else [f"the strategy {strategy} finds rows by their key. Set unique_key."]
    if strategy == "replace_where" and not value_of(config, REPLACED_ROWS):
        problems.append("the strategy replace_where needs to know which rows to replace. Set replace_where to a condition on the table.")
    if strategy == "cdc":
        problems += change_stream_problems(config, columns)
    return problems


def _foreign(config: Any, names: Sequence[str], strategy: str) -> list[str]:
    wrong = [name for name in names if name.startswith("merge_") and name != "merge_on_using_columns" and given(config, name)]
    return [f"{', '.join(wrong)} would mean nothing to the strategy {strategy}. Leave it out, or choose merge."] if wrong else []
