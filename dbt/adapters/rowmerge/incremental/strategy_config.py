"""What the configs of an incremental model come to, strategy by strategy, and everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbt.adapters.rowmerge.configs.model_config import (
    KEY,
    PREDICATES,
    REPLACED_ROWS,
    flag,
    given,
    listed,
    misspelt,
    nearest,
    said_twice,
    value_of,
)
from dbt.adapters.rowmerge.incremental.merge_clauses import Columns, plain
from dbt.adapters.rowmerge.incremental.merge_config import Aliases, aliases_of, key_problems, keys_of, merge_config

STRATEGIES = ("append", "merge", "delete+insert", "insert_overwrite", "replace_where", "microbatch", "delete", "cdc")
SCHEMA_CHANGES = ("ignore", "fail", "append_new_columns", "sync_all_columns")

# What change streams call their operations: Debezium, Oracle GoldenGate, AWS DMS, Maxwell, Delta's change data feed.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "insert": ("c", "r", "i", "insert", "create", "read", "bootstrap-insert"),
    "update": ("u", "update", "update_postimage", "after"),
    "delete": ("d", "delete"),
    "ignore": ("update_preimage", "before"),
}


@dataclass(frozen=True)
class ChangeStream:
    """A stream of changes: which column says what happened, in which values, and in which order. Names are quoted, values small letters."""

    aliases: Aliases
    keys: tuple[str, ...]
    predicates: tuple[str, ...]
    operation: str
    order: tuple[str, ...]
    written: tuple[str, ...]
    deleted: tuple[str, ...]
    ignored: tuple[str, ...]
    keeps_deletes: bool

    @property
    def newest_first(self) -> tuple[str, ...]:
        return tuple(f"{column} desc nulls last" for column in self.order)

    @property
    def not_late(self) -> str:
        """True where the change is not older than what the table's row has; a row without an order is older than one that has it."""
        condition = ""
        for column in reversed(self.order):
            new, old = f"{self.aliases.source}.{column}", f"{self.aliases.dest}.{column}"
            older = f"{new} < {old} or {new} is null and {old} is not null"
            condition = f"{older} or {new} <=> {old} and ({condition})" if condition else older
        return f"({condition}) is not true"


def strategy_of(config: Any) -> str:
    """The strategy of a model, by dbt's name of it."""
    return str(config.get("incremental_strategy") or "default").replace("delete_insert", "delete+insert")


def brings_columns(config: Any) -> bool:
    """Whether a strategy's statement writes every column of a model under its own name."""
    strategy = strategy_of(config)
    if strategy == "delete+insert":
        return not value_of(config, PREDICATES)
    some = given(config, "merge_clauses") or flag(config, "skip_not_matched_step")
    return strategy in (*STRATEGIES, "default") and not some


def change_stream(config: Any, columns: Sequence[str]) -> ChangeStream:
    """The configs of strategy `cdc`, after `problems_of` found nothing."""
    spelt = Columns(tuple(columns), (), "").spelt
    operations = {name: tuple(str(value).lower() for value in values) for name, values in _operations(config).items()}
    return ChangeStream(
        aliases=aliases_of(config),
        keys=keys_of(config, columns),
        predicates=tuple(listed(value_of(config, PREDICATES))),
        operation=spelt(str(config.get("cdc_operation_column"))),
        order=tuple(spelt(name) for name in listed(config.get("cdc_order_by"))),
        written=(*operations["insert"], *operations["update"]),
        deleted=operations["delete"],
        ignored=operations["ignore"],
        keeps_deletes=flag(config, "cdc_keep_deletes"),
    )


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
        return problems + merge_config(config, columns)[1]
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
        problems += _change_stream_problems(config, columns)
    return problems


def _foreign(config: Any, names: Sequence[str], strategy: str) -> list[str]:
    wrong = [name for name in names if name.startswith("merge_") and name != "merge_on_using_columns" and given(config, name)]
    return [f"{', '.join(wrong)} would mean nothing to the strategy {strategy}. Leave it out, or choose merge."] if wrong else []


def _change_stream_problems(config: Any, columns: Sequence[str]) -> list[str]:
    problems = []
    if not given(config, "cdc_operation_column"):
        problems.append("cdc_operation_column is missing. Name the model's column that says insert, update or delete.")
    if not given(config, "cdc_order_by"):
        problems.append("cdc_order_by is missing. Name the columns of the model by which a later change is greater than an earlier one.")
    order, keys = listed(config.get("cdc_order_by")), {plain(key) for key in listed(value_of(config, KEY))}
    if keyed := [name for name in order if plain(name) in keys]:
        problems.append(f"cdc_order_by: {', '.join(keyed)} is of the key, and the same in all changes of a row. Leave it out.")
    problems += [f"cdc_order_by: {text}" for text in Columns(tuple(columns), (), "").unknown(order)]
    said = config.get("cdc_operations") or {}
    if not isinstance(said, Mapping):
        return [*problems, f"cdc_operations is {said!r}. It must be a mapping of {', '.join(OPERATIONS)} to lists of values."]
    problems += [f"cdc_operations: there is no {name}. {nearest(str(name), OPERATIONS)}" for name in said if name not in OPERATIONS]
    meanings: dict[str, list[str]] = {}
    for name, values in _operations(config).items():
        for value in values:
            meanings.setdefault(str(value).lower(), []).append(name)
    problems += [f"cdc_operations: {value!r} cannot be {' and '.join(both)}." for value, both in meanings.items() if len(set(both)) > 1]
    return problems


def _operations(config: Any) -> dict[str, list[str]]:
    """The values of each kind of change: what the model says, and the usual ones that it does not say otherwise."""
    said = {str(name): listed(values) for name, values in (config.get("cdc_operations") or {}).items() if name in OPERATIONS}
    taken = {value.lower() for values in said.values() for value in values}
    return {name: said.get(name) or [value for value in values if value not in taken] for name, values in OPERATIONS.items()}
