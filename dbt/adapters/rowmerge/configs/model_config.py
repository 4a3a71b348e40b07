"""The configs of a model: their names and synonyms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Dict, List, Optional, Union

from dbt.adapters.base import AdapterConfig


# dbt evaluates these annotations at run time, so they use the names of the module typing, as in dbt.
@dataclass
class RowmergeConfig(AdapterConfig):
    """The configs of a model that this adapter adds to the configs of dbt."""

    catalog_name: Optional[str] = None
    file_format: Optional[str] = None
    location_root: Optional[str] = None
    partition_by: Optional[Union[List[str], str]] = None
    tblproperties: Optional[Dict[str, Any]] = None
    wap_branch: Optional[str] = None
    wap_id: Optional[str] = None
    # Strategies
    predicates: Optional[Union[List[str], str]] = None
    replace_where: Optional[Union[List[str], str]] = None
    cdc_operation_column: Optional[str] = None
    cdc_order_by: Optional[Union[List[str], str]] = None
    cdc_operations: Optional[Dict[str, Any]] = None
    cdc_keep_deletes: Optional[bool] = None
    # Merges, with the names from dbt-spark and dbt-databricks
    merge_update_columns: Optional[Union[List[str], str]] = None
    merge_exclude_columns: Optional[Union[List[str], str]] = None
    merge_with_schema_evolution: Optional[bool] = None
    source_alias: Optional[str] = None
    target_alias: Optional[str] = None
    matched_condition: Optional[str] = None
    not_matched_condition: Optional[str] = None
    not_matched_by_source_action: Optional[str] = None
    not_matched_by_source_condition: Optional[str] = None
    skip_matched_step: Optional[bool] = None
    skip_not_matched_step: Optional[bool] = None
    # … from dbt-duckdb
    merge_update_condition: Optional[str] = None
    merge_insert_condition: Optional[str] = None
    merge_update_set_expressions: Optional[Dict[str, str]] = None
    merge_on_using_columns: Optional[Union[List[str], str]] = None
    merge_returning_columns: Optional[Union[List[str], str]] = None
    merge_clauses: Optional[Dict[str, Any]] = None
    # … from dbt-athena
    update_condition: Optional[str] = None
    insert_condition: Optional[str] = None
    delete_condition: Optional[str] = None
    merge_update_columns_rules: Optional[Dict[str, str]] = None
    merge_update_columns_default_rule: Optional[str] = None
    # … of this adapter
    merge_deduplicate_by: Optional[Union[List[str], str]] = None


# Synonyms, each from a different adapter.
UPDATE_CONDITION_CONFIGS = ("matched_condition", "merge_update_condition", "update_condition")
INSERT_CONDITION_CONFIGS = ("not_matched_condition", "merge_insert_condition", "insert_condition")
PREDICATE_CONFIGS = ("incremental_predicates", "predicates")
REPLACED_ROWS_CONFIGS = ("replace_where", *PREDICATE_CONFIGS)
KEY_CONFIGS = ("unique_key", "merge_on_using_columns")

_DBT_CONFIGS = ("incremental_strategy", "unique_key", "incremental_predicates", "on_schema_change", "full_refresh", "sql_header")
_NAMES = (*_DBT_CONFIGS, *(config.name for config in fields(RowmergeConfig) if not config.name.startswith("_")))
_PREFIXES = ("merge_", "cdc_", "matched_", "not_matched_")


class WithArguments:
    """The configs of a model, with the key and predicates replaced by those in a call of a strategy's macro.

    A macro in a project may call a strategy with a key or predicates that differ from those of the model.
    """

    def __init__(self, config: Any, unique_key: Any, predicates: Any) -> None:
        self._config = config
        synonyms = dict.fromkeys((*KEY_CONFIGS, *PREDICATE_CONFIGS))
        self._arguments = {**synonyms, "unique_key": unique_key, "incremental_predicates": predicates}

    def get(self, name: str) -> Any:
        return self._arguments[name] if name in self._arguments else self._config.get(name)


def misspelling_problems(names: Iterable[str]) -> list[str]:
    """Return an error message for each unknown config whose name is similar to the name of a config of this adapter."""
    problems = []
    for name in names:
        has_our_prefix = name.startswith(_PREFIXES)
        similar_names = get_close_matches(name, _NAMES, n=1, cutoff=0.6 if has_our_prefix else 0.85)
        if name not in _NAMES and (has_our_prefix or similar_names):
            advice = f"Did you mean {similar_names[0]}?" if similar_names else "Put your own configs under meta."
            problems.append(f"there is no config {name}. {advice}")
    return problems
