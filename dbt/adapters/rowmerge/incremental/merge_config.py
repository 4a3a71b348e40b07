"""The configs of a merge: key, aliases and clauses, and the errors in these configs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dbt.adapters.rowmerge.configs.config_values import as_list, has_value, is_true, synonym_problems, text_mapping, value_of
from dbt.adapters.rowmerge.configs.model_config import INSERT_CONDITION_CONFIGS, KEY_CONFIGS, PREDICATE_CONFIGS, UPDATE_CONDITION_CONFIGS
from dbt.adapters.rowmerge.incremental.merge_clauses import ALL_COLUMNS, Clause, Columns, ColumnSelection, parse_clauses, remove_do_nothing
from dbt.adapters.rowmerge.relations.names import PLAIN, lower_name, quote, quote_column

_ATHENA_ALIAS = re.compile(r"\b(src|target)\s*\.", re.IGNORECASE)
_DBT_ALIAS = re.compile(r"\bDBT_INTERNAL_(SOURCE|DEST)\b", re.IGNORECASE)
_ATHENA_CONDITIONS = ("update_condition", "insert_condition", "delete_condition")
_COLUMN_CONFIGS = ("merge_update_columns", "merge_exclude_columns", "merge_update_set_expressions", "merge_update_columns_rules")
_BY_SOURCE_CONFIGS = ("not_matched_by_source_action", "not_matched_by_source_condition")
_CONFIGS_BY_SKIP = {
    "skip_matched_step": ("merge_update_columns", "merge_exclude_columns", "merge_update_set_expressions", *UPDATE_CONDITION_CONFIGS),
    "skip_not_matched_step": INSERT_CONDITION_CONFIGS,
}
_DEFAULT_RULE = "merge_update_columns_default_rule"
_CLAUSE_CONFIGS = (
    *(*UPDATE_CONDITION_CONFIGS, *INSERT_CONDITION_CONFIGS, "delete_condition"),
    *(*_COLUMN_CONFIGS, _DEFAULT_RULE, *_BY_SOURCE_CONFIGS, *_CONFIGS_BY_SKIP),
)
_RULES = {
    "replace": "{new}",
    "coalesce": "coalesce({new}, {old})",
    "sum": "{new} + {old}",
    "append": "{new} || {old}",
    "append_distinct": "array_distinct({new} || {old})",
}


@dataclass(frozen=True)
class Aliases:
    """The SQL aliases of the table (`dest`) and of the model's rows (`source`) in a merge."""

    dest: str
    source: str


def aliases_of(config: Any) -> Aliases:
    """Return the aliases in a model's configs. The defaults are those of dbt, or of dbt-athena if a condition or predicate uses them."""
    conditions = [str(config.get(name) or "") for name in (*_ATHENA_CONDITIONS, *PREDICATE_CONFIGS)]
    uses_athena_aliases = any(map(_ATHENA_ALIAS.search, conditions)) and not any(map(_DBT_ALIAS.search, conditions))
    dest, source = ("target", "src") if uses_athena_aliases else ("DBT_INTERNAL_DEST", "DBT_INTERNAL_SOURCE")
    return Aliases(config.get("target_alias") or dest, config.get("source_alias") or source)


def keys_of(config: Any, columns: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the columns of a model's key as SQL. Column names are quoted. Other SQL, such as a field of a struct, is unchanged.

    Args:
        config: The configs of the model.
        columns: The names of the table's columns; empty if they are unknown. Then every string that may be a column name is quoted.
    """
    return tuple(quote_column(key, columns) for key in as_list(value_of(config, KEY_CONFIGS)))


def newest_first_order(config: Any, name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the terms of an ORDER BY that puts newer rows first and NULL last.

    Args:
        config: The configs of the model.
        name: The name of the config that lists the columns. For a column with the suffix `asc`, a lower value is newer.
        columns: The names of the table's columns; empty if they are unknown.
    """
    return tuple(_newest_first_term(term, columns) for term in as_list(config.get(name)))


def _newest_first_term(term: str, columns: Sequence[str]) -> str:
    words = term.split()
    if len(words) == 2 and words[1].lower() in ("asc", "desc"):
        return f"{quote_column(words[0], columns)} {words[1].lower()} nulls last"
    return f"{quote_column(term, columns)} desc nulls last"


def configured_clauses(config: Any, columns: Sequence[str], source_columns: Sequence[str] | None = None) -> tuple[list[Clause], list[str]]:
    """Return the clauses of the MERGE that a model's configs describe, and a message for each error in the configs.

    The errors are returned in a list, so that dbt reports all errors of a model at once. If there are errors, the clauses are not valid.

    Args:
        config: The configs of the model.
        columns: The names of the columns that the MERGE may set. If empty, column names in configs are not verified.
        source_columns: The names of the model's columns; None if they are equal to `columns`. The MERGE copies only common columns.
    """
    adds_columns = is_true(config, "merge_with_schema_evolution")
    merge_columns = Columns(tuple(columns), tuple(source_columns or columns), aliases_of(config).source, with_schema_evolution=adds_columns)
    clauses, clause_problems = _all_clauses(config, merge_columns)
    problems = _general_problems(config) + key_problems(config, columns) + _column_problems(config, merge_columns) + clause_problems
    executed_clauses, unreachable_problems = remove_do_nothing(clauses)
    if executed_clauses or problems:
        return executed_clauses, problems + unreachable_problems
    # No clause remains, although each config is valid. After an error, this would only be a consequence, and not an error of its own.
    return [], [*unreachable_problems, "the merge has no clause. Remove the configs that skip its steps or exclude all columns."]


def _all_clauses(config: Any, columns: Columns) -> tuple[list[Clause], list[str]]:
    """Return the clauses of all configs, including `do_nothing` clauses, and a message for each error in `merge_clauses`."""
    clauses = _clauses_of_options(config, columns)
    if not has_value(config, "merge_clauses"):
        return clauses, []
    return parse_clauses(config.get("merge_clauses"), columns, clauses)


def _clauses_of_options(config: Any, columns: Columns) -> list[Clause]:
    """Return the clauses of the configs other than `merge_clauses`, such as `merge_update_columns` and `delete_condition`.

    A config with a name in capitals here, such as KEY_CONFIGS, has a different name in each adapter. `value_of` finds the name in use.
    """
    clauses = _matched_clauses(config, columns) if value_of(config, KEY_CONFIGS) else []
    if not is_true(config, "skip_not_matched_step"):
        insert_conditions = as_list(value_of(config, INSERT_CONDITION_CONFIGS))
        # INSERT * also adds the model's new columns to the table.
        assignments = ALL_COLUMNS if columns.with_schema_evolution else columns.insert_assignments()
        clauses.append(Clause("not matched", "insert", tuple(insert_conditions), assignments))
    if has_value(config, "not_matched_by_source_action"):
        by_source_conditions = as_list(config.get("not_matched_by_source_condition"))
        action = str(config.get("not_matched_by_source_action")).strip()
        clauses.append(Clause("not matched by source", action, tuple(by_source_conditions)))
    return clauses


def _matched_clauses(config: Any, columns: Columns) -> list[Clause]:
    """Return the clauses for matched rows: a deletion if `delete_condition` is set, and an update unless the configs skip it."""
    clauses = []
    if has_value(config, "delete_condition"):
        clauses.append(Clause("matched", "delete", (str(config.get("delete_condition")),)))
    if not is_true(config, "skip_matched_step"):
        clauses += _update_clauses(config, columns)
    return clauses


def _update_clauses(config: Any, columns: Columns) -> list[Clause]:
    """Return a list with the clause that updates matched rows, or an empty list if the clause would not set any column."""
    selection = ColumnSelection(
        included_names=as_list(config.get("merge_update_columns")),
        excluded_names=as_list(config.get("merge_exclude_columns")),
        expressions=_update_expressions(config, columns),
    )
    assignments = columns.update_assignments(selection)
    if not assignments:
        return []
    selects_columns = selection.included_names or selection.excluded_names or selection.expressions
    if columns.with_schema_evolution and not selects_columns:
        # Only UPDATE SET * also adds the model's new columns to the table and sets them.
        assignments = ALL_COLUMNS
    conditions = tuple(as_list(value_of(config, UPDATE_CONDITION_CONFIGS)))
    return [Clause("matched", "update", conditions, assignments)]


def _update_expressions(config: Any, columns: Columns) -> dict[str, str]:
    """Return the SQL of the new value for each column with an expression or an update rule. Other columns get the model's value.

    The expressions (`merge_update_set_expressions`, from dbt-duckdb) take precedence over the rules (from dbt-athena).
    """
    aliases = aliases_of(config)
    expressions = text_mapping(config.get("merge_update_set_expressions"))
    for name, rule in _update_rules(config, columns).items():
        if rule != "replace":
            expressions.setdefault(name, _apply_rule(rule, f"{aliases.source}.{quote(name)}", f"{aliases.dest}.{quote(name)}"))
    return expressions


def _update_rules(config: Any, columns: Columns) -> dict[str, str]:
    """Return the update rule, as in dbt-athena, for each column of the table. The rule `replace` sets a column to the model's value."""
    rules = {lower_name(key): "replace" for key in as_list(value_of(config, KEY_CONFIGS))}
    rules |= {lower_name(name): rule for name, rule in text_mapping(config.get("merge_update_columns_rules")).items()}
    default_rule = str(config.get(_DEFAULT_RULE) or "replace")
    return {name: rules.get(name.lower(), default_rule) for name in columns.target}


def _apply_rule(rule: str, new: str, old: str) -> str:
    """Return the SQL for an update rule, which is a name in `_RULES` or SQL with the placeholders `_new_` and `_old_`."""
    return _RULES[rule].format(new=new, old=old) if rule in _RULES else rule.replace("_new_", new).replace("_old_", old)


def _general_problems(config: Any) -> list[str]:
    """Return an error message for each invalid value or combination of configs, without verifying column names."""
    problems = synonym_problems(config, UPDATE_CONDITION_CONFIGS, INSERT_CONDITION_CONFIGS, PREDICATE_CONFIGS)
    if has_value(config, "merge_update_columns") and has_value(config, "merge_exclude_columns"):
        problems.append("merge_update_columns and merge_exclude_columns cannot both be set. Keep one of them.")
    if has_value(config, "merge_returning_columns"):
        problems.append("merge_returning_columns is not supported, because dbt does not read rows from a merge. Query the table instead.")
    return [*problems, *_clause_config_problems(config), *_skipped_step_problems(config), *_by_source_problems(config)]


def _clause_config_problems(config: Any) -> list[str]:
    """Return an error message for configs that `merge_clauses` replaces, and for each config that must be a mapping but is not."""
    problems = []
    clause_configs = [name for name in _CLAUSE_CONFIGS if has_value(config, name) and config.get(name) is not False]
    if has_value(config, "merge_clauses") and clause_configs:
        config_names = ", ".join(clause_configs)
        problems.append(f"merge_clauses defines the whole merge, so {config_names} would have no effect. Move them into its clauses.")
    for name in ("merge_update_set_expressions", "merge_update_columns_rules"):
        if has_value(config, name) and not isinstance(config.get(name), dict):
            problems.append(f"{name} is {config.get(name)!r}. It must be a mapping of columns to expressions.")
    return problems


def _skipped_step_problems(config: Any) -> list[str]:
    """Return an error message for each skipped step that has configs, and another one if all steps are skipped."""
    problems = []
    for skip, step_configs in _CONFIGS_BY_SKIP.items():
        unused_configs = [name for name in step_configs if has_value(config, name)]
        if is_true(config, skip) and unused_configs:
            problems.append(f"{skip} skips the step that uses {' and '.join(unused_configs)}. Remove one or the other.")
    has_other_step = config.get("not_matched_by_source_action") or config.get("delete_condition")
    if all(is_true(config, skip) for skip in _CONFIGS_BY_SKIP) and not has_other_step:
        problems.append("with skip_matched_step and skip_not_matched_step, the merge has no clause. Remove one of them.")
    return problems


def _by_source_problems(config: Any) -> list[str]:
    """Return an error message for each error in the configs of the clause `when not matched by source`."""
    action = config.get("not_matched_by_source_action")
    if action and not re.fullmatch(r"delete|update\s+set\s.*", str(action).strip(), re.IGNORECASE | re.DOTALL):
        return [f"not_matched_by_source_action is {action!r}. It must be `delete` or begin with `update set`."]
    if not action and config.get("not_matched_by_source_condition"):
        return ["not_matched_by_source_condition requires not_matched_by_source_action. Set it to `delete` or `update set …`."]
    return []


def key_problems(config: Any, columns: Sequence[str]) -> list[str]:
    """Return a message for each error in a model's key.

    Args:
        config: The configs of the model.
        columns: The names of the table's columns. If empty, column names in the key are not verified.
    """
    unique_key, using_columns = as_list(config.get("unique_key")), as_list(config.get("merge_on_using_columns"))
    problems = []
    have_same_columns = sorted(map(lower_name, unique_key)) == sorted(map(lower_name, using_columns))
    if unique_key and using_columns and not have_same_columns:
        problems.append("unique_key and merge_on_using_columns are names of the same config, but differ. Keep one of them.")
    config_name = "unique_key" if unique_key else "merge_on_using_columns"
    for key_column in unique_key or using_columns:
        problems += _key_column_problems(key_column, Columns(tuple(columns)), config_name)
    if has_value(config, "merge_deduplicate_by") and not (unique_key or using_columns):
        problems.append("merge_deduplicate_by keeps the newest row of each key, but the model has no key. Set unique_key.")
    return problems


def _key_column_problems(key_column: str, columns: Columns, config_name: str) -> list[str]:
    """Return an error message if a key column is unknown, or seems to list several columns. Expressions are not verified."""
    name = lower_name(key_column)
    if "," in key_column and "(" not in key_column and name not in columns.lower_names:
        names = [name_in_list.strip() for name_in_list in key_column.split(",")]
        return [f"unique_key is {key_column!r}. Make it a list of columns: {names}."]
    if not PLAIN.fullmatch(name):
        return []
    return [f"{config_name}: {problem}" for problem in columns.unknown_column_problems([key_column])]


def _column_problems(config: Any, columns: Columns) -> list[str]:
    """Return an error message for each unknown column in configs that name columns."""
    problems = []
    for name in _COLUMN_CONFIGS:
        names = as_list(config.get(name))  # The keys of a mapping are column names.
        problems += [f"{name}: {problem}" for problem in columns.unknown_column_problems(names)]
    return problems
