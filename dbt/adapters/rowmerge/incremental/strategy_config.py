"""The strategies of incremental models, and the errors in the configs of a model."""

from __future__ import annotations

from collections.abc import Container, Sequence
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
    """Return the strategy of a model by dbt's name; `default` if the model has none."""
    return str(config.get("incremental_strategy") or "default").replace("delete_insert", "delete+insert")


def evolves(config: Any) -> bool:
    """Return whether a model's statement may add columns and fields to its table."""
    adds_columns = config.get("on_schema_change") in ("append_new_columns", "sync_all_columns")
    return adds_columns or flag(config, "merge_with_schema_evolution")


def may_have_new_columns(config: Any) -> bool:
    """Return whether configs may name columns that the table lacks. For `fail`, the comparison with the table reports them."""
    return config.get("on_schema_change") not in (None, "ignore") or flag(config, "merge_with_schema_evolution")


def brings_columns(config: Any) -> bool:
    """Return whether a strategy's statement writes every column of a model under its own name, and so adds those that the table lacks."""
    strategy = strategy_of(config)
    if strategy == "delete+insert":
        return not value_of(config, PREDICATES)
    selects_columns = given(config, "merge_clauses") or flag(config, "skip_not_matched_step")
    return strategy in (*STRATEGIES, "default") and not selects_columns


def problems_of(config: Any, names: Sequence[str], macros: Container[str], columns: Sequence[str] = ()) -> list[str]:
    """Return a sentence for each error in the configs of an incremental model.

    Args:
        config: The model's configs, with dict's `get`.
        names: The names of the model's configs.
        macros: The names of all macros.
        columns: The names of the table's columns, if the run cannot add others; if empty, names of columns are not verified.
    """
    strategy = strategy_of(config)
    macro = f"get_incremental_{strategy.replace('+', '_')}_sql"
    if macro not in macros:
        advice = f"{nearest(strategy, STRATEGIES)} A strategy of your own is a macro of that name."
        # dbt's own words, by which users of other adapters know the error.
        return [f'dbt could not find an incremental strategy macro with the name "{macro}". {advice}']
    problems = []
    on_schema_change = config.get("on_schema_change")
    if on_schema_change is not None and on_schema_change not in SCHEMA_CHANGES:
        problems.append(f"on_schema_change is {on_schema_change!r}. {nearest(str(on_schema_change), SCHEMA_CHANGES)}")
    if strategy in ("merge", "default"):
        return [*problems, *misspelt(names), *configured_clauses(config, columns)[1]]
    if strategy in STRATEGIES:
        return [*problems, *misspelt(names), *_strategy_problems(config, strategy, names, columns)]
    return problems


def _strategy_problems(config: Any, strategy: str, names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the errors in the configs of a strategy other than `merge`."""
    problems = said_twice(config, REPLACED_ROWS if strategy == "replace_where" else PREDICATES)
    if given(config, "merge_deduplicate_by") and strategy not in ("delete", "cdc"):
        problems.append(f"merge_deduplicate_by would mean nothing to the strategy {strategy}. Leave it out, or choose merge.")
    if strategy in ("delete+insert", "delete", "cdc"):
        problems += key_problems(config, columns)
    if strategy in ("delete", "cdc"):
        problems += _merge_only_problems(config, strategy, names)
        problems += [] if value_of(config, KEY) else [f"the strategy {strategy} finds rows by their key. Set unique_key."]
    if strategy == "replace_where" and not value_of(config, REPLACED_ROWS):
        problems.append("the strategy replace_where needs to know which rows to replace. Set replace_where to a condition on the table.")
    if strategy == "cdc":
        problems += change_stream_problems(config, columns)
    return problems


def _merge_only_problems(config: Any, strategy: str, names: Sequence[str]) -> list[str]:
    """Return an error that lists the configs that only merges use."""
    unused = [name for name in names if name.startswith("merge_") and name != "merge_on_using_columns" and given(config, name)]
    return [f"{', '.join(unused)} would mean nothing to the strategy {strategy}. Leave it out, or choose merge."] if unused else []
