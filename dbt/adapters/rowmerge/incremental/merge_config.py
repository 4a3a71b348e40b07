"""The configs of a merge: its key, its aliases, its clauses, and the errors in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dbt.adapters.rowmerge.configs.model_config import (
    INSERT_CONDITION,
    KEY,
    PREDICATES,
    UPDATE_CONDITION,
    flag,
    given,
    listed,
    said_twice,
    value_of,
)
from dbt.adapters.rowmerge.incremental.merge_clauses import Clause, Columns, clauses_of, fold_idle, plain
from dbt.adapters.rowmerge.relations.names import PLAIN, quote, quote_column

_ATHENA_ALIAS = re.compile(r"\b(src|target)\s*\.", re.IGNORECASE)
_DBT_ALIAS = re.compile(r"\bDBT_INTERNAL_(SOURCE|DEST)\b", re.IGNORECASE)
_CLAUSE_CONFIGS = (
    *UPDATE_CONDITION,
    *INSERT_CONDITION,
    "delete_condition",
    "merge_update_columns",
    "merge_exclude_columns",
    "merge_update_set_expressions",
    "merge_update_columns_rules",
    "merge_update_columns_default_rule",
    "not_matched_by_source_action",
    "not_matched_by_source_condition",
    "skip_matched_step",
    "skip_not_matched_step",
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
    """Hold the names that conditions give to the table's rows (`dest`) and to the model's rows (`source`)."""

    dest: str
    source: str


def aliases_of(config: Any) -> Aliases:
    """Return the aliases of a model's configs, or the default aliases of dbt.

    The defaults are those of dbt-athena if a condition with a name from dbt-athena, or a predicate, uses them.
    """
    conditions = [str(config.get(name) or "") for name in ("update_condition", "insert_condition", "delete_condition", *PREDICATES)]
    uses_athena_aliases = any(map(_ATHENA_ALIAS.search, conditions)) and not any(map(_DBT_ALIAS.search, conditions))
    dest, source = ("target", "src") if uses_athena_aliases else ("DBT_INTERNAL_DEST", "DBT_INTERNAL_SOURCE")
    return Aliases(config.get("target_alias") or dest, config.get("source_alias") or source)


def keys_of(config: Any, columns: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the key as SQL: names of columns are quoted, and other text is unchanged (quoted already, or a field of a struct)."""
    return tuple(quote_column(key, columns) for key in listed(value_of(config, KEY)))


def newest_first(config: Any, name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the terms of an ORDER BY that puts the newest row first, from the config `name`.

    The newest row has the greatest value, or the smallest with the suffix `asc`. NULL comes last.
    """
    terms = []
    for term in listed(config.get(name)):
        words = term.split()
        if len(words) == 2 and words[1].lower() in ("asc", "desc"):
            terms.append(f"{quote_column(words[0], columns)} {words[1].lower()} nulls last")
        else:
            terms.append(f"{quote_column(term, columns)} desc nulls last")
    return tuple(terms)


def configured_clauses(config: Any, columns: Sequence[str], source_columns: Sequence[str] | None = None) -> tuple[list[Clause], list[str]]:
    """Return the clauses of the MERGE that a model's configs describe, and a sentence for each error in the configs.

    Args:
        config: The model's configs, with dict's `get`.
        columns: The names of the columns that the MERGE may set; if empty, names of columns are not verified.
        source_columns: The names of the model's columns, if they may differ from `columns`. Only columns of both are copied.
    """
    names = Columns(tuple(columns), tuple(source_columns or columns), aliases_of(config).source)
    problems = [*_general_problems(config), *key_problems(config, columns), *_column_problems(config, names)]
    evolves = flag(config, "merge_with_schema_evolution")
    clauses = _simple_clauses(config, names, evolves)
    if given(config, "merge_clauses"):
        clauses, clause_problems = clauses_of(config.get("merge_clauses"), names, evolves, clauses)
        problems += clause_problems
    folded_clauses, fold_problems = fold_idle(clauses)
    if not folded_clauses and not problems:
        fold_problems.append("nothing is left for the merge to do. Leave out what skips its steps, or excludes every column.")
    return folded_clauses, problems + fold_problems


def _simple_clauses(config: Any, columns: Columns, evolves: bool) -> list[Clause]:
    """Return the clauses of the configs other than `merge_clauses`."""
    clauses = []
    has_key = bool(value_of(config, KEY))
    included, excluded = listed(config.get("merge_update_columns")), listed(config.get("merge_exclude_columns"))
    expressions = _expressions(config, columns, aliases_of(config))
    assignments = columns.updates(included, excluded, expressions)
    sets_all_columns = evolves and not (included or excluded or expressions)
    if has_key and given(config, "delete_condition"):
        clauses.append(Clause("matched", "delete", (str(config.get("delete_condition")),)))
    if has_key and assignments and not flag(config, "skip_matched_step"):
        condition = listed(value_of(config, UPDATE_CONDITION))
        clauses.append(Clause("matched", "update", tuple(condition), () if sets_all_columns else assignments))
    if not flag(config, "skip_not_matched_step"):
        condition = listed(value_of(config, INSERT_CONDITION))
        clauses.append(Clause("not matched", "insert", tuple(condition), () if evolves else columns.inserts()))
    if given(config, "not_matched_by_source_action"):
        condition = listed(config.get("not_matched_by_source_condition"))
        action = str(config.get("not_matched_by_source_action")).strip()
        clauses.append(Clause("not matched by source", action, tuple(condition)))
    return clauses


def _expressions(config: Any, columns: Columns, aliases: Aliases) -> dict[str, str]:
    """Return the columns that an update does not set to the model's value, with the expressions that it sets them to.

    The sources are the expressions of dbt-duckdb and the rules of dbt-athena; an expression takes precedence over a rule.
    """
    expressions = {str(name): str(text) for name, text in _mapping(config, "merge_update_set_expressions").items()}
    rules = {plain(str(name)): str(rule) for name, rule in _mapping(config, "merge_update_columns_rules").items()}
    default = str(config.get("merge_update_columns_default_rule") or "replace")
    keys = {plain(key) for key in listed(value_of(config, KEY))}
    for name in columns.target:
        rule = rules.get(name.lower(), default if name.lower() not in keys else "replace")
        if rule != "replace":
            new, old = f"{aliases.source}.{quote(name)}", f"{aliases.dest}.{quote(name)}"
            text = _RULES[rule].format(new=new, old=old) if rule in _RULES else rule.replace("_new_", new).replace("_old_", old)
            expressions.setdefault(name, text)
    return expressions


def _mapping(config: Any, name: str) -> dict[Any, Any]:
    """Return a config that is a mapping; another value, which `_general_problems` reports, counts as empty."""
    value = config.get(name)
    return value if isinstance(value, dict) else {}


def _general_problems(config: Any) -> list[str]:
    problems = said_twice(config, UPDATE_CONDITION, INSERT_CONDITION, PREDICATES)
    if given(config, "merge_update_columns") and given(config, "merge_exclude_columns"):
        problems.append("merge_update_columns and merge_exclude_columns cannot both be set. Keep one of them.")
    if given(config, "merge_returning_columns"):
        problems.append("merge_returning_columns is not supported: nothing in dbt reads what a merge returns. Read the table after it.")
    unused = [name for name in _CLAUSE_CONFIGS if given(config, name) and config.get(name) is not False]
    if given(config, "merge_clauses") and unused:
        problems.append(f"merge_clauses says all that a merge does: {', '.join(unused)} would mean nothing. Move them into its clauses.")
    for name in ("merge_update_set_expressions", "merge_update_columns_rules"):
        if given(config, name) and not isinstance(config.get(name), dict):
            problems.append(f"{name} is {config.get(name)!r}. It must be a mapping of columns to expressions.")
    return [*problems, *_step_problems(config), *_by_source_problems(config)]


def _step_problems(config: Any) -> list[str]:
    problems = []
    for skip, configs in (
        ("skip_matched_step", ("merge_update_columns", "merge_exclude_columns", "merge_update_set_expressions", *UPDATE_CONDITION)),
        ("skip_not_matched_step", INSERT_CONDITION),
    ):
        unused = [name for name in configs if given(config, name)]
        if flag(config, skip) and unused:
            problems.append(f"{skip} leaves nothing to do for {' and '.join(unused)}. Remove one or the other.")
    others = config.get("not_matched_by_source_action") or config.get("delete_condition")
    if flag(config, "skip_matched_step") and flag(config, "skip_not_matched_step") and not others:
        problems.append("skip_matched_step and skip_not_matched_step together leave the merge without a clause. Remove one of them.")
    return problems


def _by_source_problems(config: Any) -> list[str]:
    action = config.get("not_matched_by_source_action")
    if not action:
        if not config.get("not_matched_by_source_condition"):
            return []
        return ["not_matched_by_source_condition needs not_matched_by_source_action. Set it to `delete` or `update set …`."]
    if not re.fullmatch(r"delete|update\s+set\s.*", str(action).strip(), re.IGNORECASE | re.DOTALL):
        return [f"not_matched_by_source_action is {action!r}. It must be `delete` or begin with `update set`."]
    return []


def key_problems(config: Any, columns: Sequence[str]) -> list[str]:
    """Return a sentence for each error in a model's key; `columns` as in `configured_clauses`."""
    key, using = listed(config.get("unique_key")), listed(config.get("merge_on_using_columns"))
    problems = []
    if key and using and sorted(map(plain, key)) != sorted(map(plain, using)):
        problems.append("unique_key and merge_on_using_columns say the same thing. Keep one of them.")
    names = Columns(tuple(columns), (), "")
    for each in key or using:
        if "," in each and "(" not in each and plain(each) not in names.lowered:
            problems.append(f"unique_key is {each!r}. Make it a list of columns: {[part.strip() for part in each.split(',')]}.")
        elif PLAIN.fullmatch(plain(each)) and (unknown := names.unknown([each])):
            problems += [f"{'unique_key' if key else 'merge_on_using_columns'}: {text}" for text in unknown]
    if given(config, "merge_deduplicate_by") and not (key or using):
        problems.append("merge_deduplicate_by keeps the newest row of a key, and there is none. Set unique_key.")
    return problems


def _column_problems(config: Any, columns: Columns) -> list[str]:
    problems = []
    for name in ("merge_update_columns", "merge_exclude_columns", "merge_update_set_expressions", "merge_update_columns_rules"):
        value = config.get(name)
        problems += [f"{name}: {text}" for text in columns.unknown(listed(list(value) if isinstance(value, dict) else value))]
    return problems
