"""What a merge model's configs come to: the MERGE that a macro writes, or everything that is wrong with them."""

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

_ATHENAS = re.compile(r"\b(src|target)\s*\.", re.IGNORECASE)
_OURS = re.compile(r"\bDBT_INTERNAL_(SOURCE|DEST)\b", re.IGNORECASE)
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
    """How conditions call the rows of the table and those of the model."""

    dest: str
    source: str


def aliases_of(config: Any) -> Aliases:
    """The aliases that a model gives, or dbt's; those of dbt-athena where a condition that it may have from there uses them."""
    texts = [str(config.get(name) or "") for name in ("update_condition", "insert_condition", "delete_condition", *PREDICATES)]
    athenas = any(map(_ATHENAS.search, texts)) and not any(map(_OURS.search, texts))
    dest, source = ("target", "src") if athenas else ("DBT_INTERNAL_DEST", "DBT_INTERNAL_SOURCE")
    return Aliases(config.get("target_alias") or dest, config.get("source_alias") or source)


def keys_of(config: Any, columns: Sequence[str] = ()) -> tuple[str, ...]:
    """The key as SQL: names of columns are quoted; what is none stays as written (already quoted, or a field of a struct)."""
    return tuple(quote_column(key, columns) for key in listed(value_of(config, KEY)))


def newest_first(config: Any, name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The terms of an ORDER BY that begins with the newest row: the greatest value, unless a term says `asc`; none comes last."""
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
    whole = evolves and not (included or excluded or expressions)
    if has_key and given(config, "delete_condition"):
        clauses.append(Clause("matched", "delete", (str(config.get("delete_condition")),)))
    if has_key and assignments and not flag(config, "skip_matched_step"):
        condition = listed(value_of(config, UPDATE_CONDITION))
        clauses.append(Clause("matched", "update", tuple(condition), () if whole else assignments))
    if not flag(config, "skip_not_matched_step"):
        condition = listed(value_of(config, INSERT_CONDITION))
        clauses.append(Clause("not matched", "insert", tuple(condition), () if evolves else columns.inserts()))
    if given(config, "not_matched_by_source_action"):
        condition = listed(config.get("not_matched_by_source_condition"))
        action = str(config.get("not_matched_by_source_action")).strip()
        clauses.append(Clause("not matched by source", action, tuple(condition)))
    return clauses


def _expressions(config: Any, columns: Columns, aliases: Aliases) -> dict[str, str]:
    """Columns that an update sets to something else than the model's value, with what: dbt-duckdb's expressions and dbt-athena's rules."""
    expressions = config.get("merge_update_set_expressions")
    found = {str(name): str(text) for name, text in expressions.items()} if isinstance(expressions, dict) else {}
    rules = config.get("merge_update_columns_rules")
    rules = {plain(str(name)): str(rule) for name, rule in rules.items()} if isinstance(rules, dict) else {}
    default = str(config.get("merge_update_columns_default_rule") or "replace")
    keys = {plain(key) for key in listed(value_of(config, KEY))}
    for name in columns.known:
        rule = rules.get(name.lower(), default if name.lower() not in keys else "replace")
        if rule != "replace":
            new, old = f"{aliases.source}.{quote(name)}", f"{aliases.dest}.{quote(name)}"
            text = _RULES[rule].format(new=new, old=old) if rule in _RULES else rule.replace("_new_", new).replace("_old_", old)
            found.setdefault(name, text)
    return found


def _general_problems(config: Any) -> list[str]:
    problems = said_twice(config, UPDATE_CONDITION, INSERT_CONDITION, PREDICATES)
    if given(config, "merge_update_columns") and given(config, "merge_exclude_columns"):
        problems.append("merge_update_columns and merge_exclude_columns cannot both be set. Keep one of them.")
    if given(config, "merge_returning_columns"):
        problems.append("merge_returning_columns is not supported: nothing in dbt reads what a merge returns. Read the table after it.")
    idle = [name for name in _CLAUSE_CONFIGS if given(config, name) and config.get(name) is not False]
    if given(config, "merge_clauses") and idle:
        problems.append(f"merge_clauses says all that a merge does: {', '.join(idle)} would mean nothing. Move them into its clauses.")
    for name in ("merge_update_set_expressions", "merge_update_columns_rules"):
        if given(config, name) and not isinstance(config.get(name), dict):
            problems.append(f"{name} is {config.get(name)!r}. It must be a mapping of columns to expressions.")
    return [*problems, *_step_problems(config), *_by_source_problems(config)]


def _step_problems(config: Any) -> list[str]:
    problems = []
    for skip, idle in (
        ("skip_matched_step", ("merge_update_columns", "merge_exclude_columns", "merge_update_set_expressions", *UPDATE_CONDITION)),
        ("skip_not_matched_step", INSERT_CONDITION),
    ):
        useless = [name for name in idle if given(config, name)]
        if flag(config, skip) and useless:
            problems.append(f"{skip} leaves nothing to do for {' and '.join(useless)}. Remove one or the other.")
    others = config.get("not_matched_by_source_action") or config.get("delete_condition")
    if flag(config, "skip_matched_step") and flag(config, "skip_not_matched_step") and not others:
        problems.append("skip_matched_step and skip_not_matched_step together leave the merge without a clause. Remove one of them.")
    return problems


def _by_source_problems(config: Any) -> list[str]:
    action = config.get("not_matched_by_source_action")
    if not action:
        missing = config.get("not_matched_by_source_condition")
        advice = "Set it to `delete` or `update set …`."
        return [f"not_matched_by_source_condition needs not_matched_by_source_action. {advice}"] if missing else []
    if not re.fullmatch(r"delete|update\s+set\s.*", str(action).strip(), re.IGNORECASE | re.DOTALL):
        return [f"not_matched_by_source_action is {action!r}. It must be `delete` or begin with `update set`."]
    return []


def key_problems(config: Any, columns: Sequence[str]) -> list[str]:
    """What is wrong with a model's key; `columns` as in `configured_clauses`."""
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
