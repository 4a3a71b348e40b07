"""The strategies of incremental models, and the errors in the configs of a model."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from dbt.adapters.rowmerge.configs.config_values import has_value, is_true, suggest_names, synonym_problems, value_of
from dbt.adapters.rowmerge.configs.model_config import KEY_CONFIGS, PREDICATE_CONFIGS, REPLACED_ROWS_CONFIGS, misspelling_problems
from dbt.adapters.rowmerge.incremental.change_stream import change_stream_problems
from dbt.adapters.rowmerge.incremental.merge_config import configured_clauses, key_problems

STRATEGIES = ("append", "merge", "delete+insert", "insert_overwrite", "replace_where", "microbatch", "delete", "cdc")
SCHEMA_CHANGES = ("ignore", "fail", "append_new_columns", "sync_all_columns")


def strategy_of(config: Any) -> str:
    """Return dbt's name of a model's strategy, or `default` if the model sets none."""
    return str(config.get("incremental_strategy") or "default").replace("delete_insert", "delete+insert")


def allows_schema_evolution(config: Any) -> bool:
    """Return whether a model's statement may add columns and fields to its table."""
    adds_columns = config.get("on_schema_change") in ("append_new_columns", "sync_all_columns")
    return adds_columns or is_true(config, "merge_with_schema_evolution")


def may_add_columns(config: Any) -> bool:
    """Return whether configs may name columns that the table lacks. With `on_schema_change='fail'`, a later check reports such columns."""
    return config.get("on_schema_change") not in (None, "ignore") or is_true(config, "merge_with_schema_evolution")


def writes_new_columns(config: Any) -> bool:
    """Return whether a model's statement writes all columns of the model by name, and so can add columns that the table lacks."""
    strategy = strategy_of(config)
    if strategy == "delete+insert":
        return not value_of(config, PREDICATE_CONFIGS)
    selects_columns = has_value(config, "merge_clauses") or is_true(config, "skip_not_matched_step")
    return strategy in (*STRATEGIES, "default") and not selects_columns


def config_problems(config: Any, config_names: Sequence[str], macros: Container[str], columns: Sequence[str] = ()) -> list[str]:
    """Return a message for each error in the configs of an incremental model.

    Args:
        config: The configs of the model.
        config_names: The names of the configs that the model sets.
        macros: The names of all macros in the project and its packages.
        columns: The names of the table's columns if the run cannot add columns. If empty, column names in configs are not verified.
    """
    strategy = strategy_of(config)
    macro = f"get_incremental_{strategy.replace('+', '_')}_sql"
    if macro not in macros:
        advice = f"{suggest_names(strategy, STRATEGIES)} To define your own strategy, write a macro with this name."
        # This is dbt's own message, which users of other adapters know.
        return [f'dbt could not find an incremental strategy macro with the name "{macro}". {advice}']
    problems = _on_schema_change_problems(config)
    if strategy not in (*STRATEGIES, "default"):
        return problems  # The project defines this strategy, and only its macro knows the valid configs.
    problems += misspelling_problems(config_names)
    if strategy not in ("merge", "default"):
        return problems + _strategy_problems(config, strategy, config_names, columns)
    _, merge_problems = configured_clauses(config, columns)
    return problems + merge_problems


def _on_schema_change_problems(config: Any) -> list[str]:
    on_schema_change = config.get("on_schema_change")
    if on_schema_change is None or on_schema_change in SCHEMA_CHANGES:
        return []
    return [f"on_schema_change is {on_schema_change!r}. {suggest_names(str(on_schema_change), SCHEMA_CHANGES)}"]


def _strategy_problems(config: Any, strategy: str, config_names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the errors in the configs of a strategy other than `merge`. `columns`: the names of the table's columns."""
    # The predicates have several names, which come from other adapters, and a model may use only one of these names.
    predicate_problems = synonym_problems(config, PREDICATE_CONFIGS)
    match strategy:
        case "delete":
            return predicate_problems + _key_strategy_problems(config, strategy, config_names, columns)
        case "cdc":
            problems = predicate_problems + _key_strategy_problems(config, strategy, config_names, columns)
            return problems + change_stream_problems(config, columns)
        case "delete+insert":
            return predicate_problems + _deduplication_problems(config, strategy) + key_problems(config, columns)
        case "replace_where":
            return _replace_where_problems(config)
    return predicate_problems + _deduplication_problems(config, strategy)


def _replace_where_problems(config: Any) -> list[str]:
    """Return the errors in the configs of strategy `replace_where`, whose condition has several names."""
    problems = synonym_problems(config, REPLACED_ROWS_CONFIGS) + _deduplication_problems(config, "replace_where")
    if not value_of(config, REPLACED_ROWS_CONFIGS):
        problems.append("the strategy replace_where has no condition for the rows to replace. Set replace_where to a condition.")
    return problems


def _deduplication_problems(config: Any, strategy: str) -> list[str]:
    """Return an error if a model sets `merge_deduplicate_by`, although its strategy writes all rows of the model."""
    if not has_value(config, "merge_deduplicate_by"):
        return []
    return [f"the strategy {strategy} does not use merge_deduplicate_by. Remove it, or use the strategy merge."]


def _key_strategy_problems(config: Any, strategy: str, config_names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the errors in the key of a strategy that finds rows by key, and an error for configs that only merges use."""
    problems = key_problems(config, columns)
    merge_configs = [name for name in config_names if name.startswith("merge_") and name != "merge_on_using_columns"]
    unused_configs = [name for name in merge_configs if has_value(config, name)]
    if unused_configs:
        problems.append(f"the strategy {strategy} does not use {', '.join(unused_configs)}. Remove it, or use the strategy merge.")
    if not value_of(config, KEY_CONFIGS):
        problems.append(f"the strategy {strategy} finds rows by their key, but the model has no key. Set unique_key.")
    return problems
