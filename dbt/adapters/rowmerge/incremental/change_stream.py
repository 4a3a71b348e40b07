"""The strategy `cdc`: the configs with which a model describes a stream of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbt.adapters.rowmerge.configs.config_values import as_list, has_value, is_true, suggest_names, value_of
from dbt.adapters.rowmerge.configs.model_config import KEY_CONFIGS
from dbt.adapters.rowmerge.incremental.merge_clauses import Columns
from dbt.adapters.rowmerge.incremental.merge_config import Aliases, aliases_of
from dbt.adapters.rowmerge.relations.names import lower_name

# The operations of Debezium, Oracle GoldenGate, AWS DMS, Maxwell and Delta's change data feed.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "insert": ("c", "r", "i", "insert", "create", "read", "bootstrap-insert"),
    "update": ("u", "update", "update_postimage", "after"),
    "delete": ("d", "delete"),
    "ignore": ("update_preimage", "before"),
}


@dataclass(frozen=True)
class ChangeStream:
    """The description of a stream of changes. Column names are quoted, and operation values are in lower case.

    Attributes:
        operation: The column that contains the operation of each change.
        order: The columns that order the changes of a row in time, with the most significant column first.
        write_codes: The values of `operation` that mean an insert or an update.
        delete_codes: The values of `operation` that mean a deletion.
        ignored_codes: The values of `operation` for changes that the strategy skips.
        keeps_deletes: Whether a deleted row remains in the table, with the operation that deleted it.
        recency_condition: A SQL condition that is true if a change is not older than the row in the table.
    """

    operation: str
    order: tuple[str, ...]
    write_codes: tuple[str, ...]
    delete_codes: tuple[str, ...]
    ignored_codes: tuple[str, ...]
    keeps_deletes: bool
    recency_condition: str


def change_stream(config: Any, columns: Sequence[str]) -> ChangeStream:
    """Return the description of the change stream from the configs of a model.

    The macro of `cdc` keeps the newest change of each key. It applies this change unless the row in the table is newer, so that late
    changes have no effect.

    Args:
        config: The configs of the model. They must be valid: see `change_stream_problems`.
        columns: The names of the table's columns.
    """
    table_columns = Columns(tuple(columns))
    codes = _operation_codes(config)
    order = tuple(table_columns.quoted(name) for name in as_list(config.get("cdc_order_by")))
    return ChangeStream(
        operation=table_columns.quoted(str(config.get("cdc_operation_column"))),
        order=order,
        write_codes=codes["insert"] + codes["update"],
        delete_codes=codes["delete"],
        ignored_codes=codes["ignore"],
        keeps_deletes=is_true(config, "cdc_keep_deletes"),
        recency_condition=_recency_condition(order, aliases_of(config)),
    )


def _recency_condition(order: Sequence[str], aliases: Aliases) -> str:
    """Return the SQL condition that a change is not older than the table's row. In the columns of `order`, NULL is older than any value."""
    condition = ""
    for column in reversed(order):
        new, old = f"{aliases.source}.{column}", f"{aliases.dest}.{column}"
        is_older = f"{new} < {old} or {new} is null and {old} is not null"
        condition = f"{is_older} or {new} <=> {old} and ({condition})" if condition else is_older
    return f"({condition}) is not true"


def change_stream_problems(config: Any, columns: Sequence[str]) -> list[str]:
    """Return a message for each error in the configs of strategy `cdc`.

    Args:
        config: The configs of the model.
        columns: The names of the table's columns. If empty, column names in configs are not verified.
    """
    problems = []
    if not has_value(config, "cdc_operation_column"):
        problems.append("cdc_operation_column is missing. Set it to the model's column that contains insert, update or delete.")
    if not has_value(config, "cdc_order_by"):
        problems.append("cdc_order_by is missing. Set it to the model's columns whose values are greater in later changes.")
    return problems + _order_problems(config, columns) + _operation_problems(config)


def _order_problems(config: Any, columns: Sequence[str]) -> list[str]:
    """Return an error message if `cdc_order_by` contains columns of the key, and for each unknown column."""
    order = as_list(config.get("cdc_order_by"))
    keys = {lower_name(key) for key in as_list(value_of(config, KEY_CONFIGS))}
    key_columns = [name for name in order if lower_name(name) in keys]
    problems = [f"cdc_order_by: {problem}" for problem in Columns(tuple(columns)).unknown_column_problems(order)]
    if not key_columns:
        return problems
    return [f"cdc_order_by: all changes of a row have the same {', '.join(key_columns)}, which is in the key. Remove it.", *problems]


def _operation_problems(config: Any) -> list[str]:
    """Return an error message for each unknown kind of operation in `cdc_operations`, and for each value that has several kinds."""
    values_by_kind = config.get("cdc_operations") or {}
    if not isinstance(values_by_kind, Mapping):
        return [f"cdc_operations is {values_by_kind!r}. It must be a mapping of {', '.join(OPERATIONS)} to lists of values."]
    unknown_kinds = [kind for kind in values_by_kind if kind not in OPERATIONS]
    problems = [f"cdc_operations: there is no {kind}. {suggest_names(str(kind), OPERATIONS)}" for kind in unknown_kinds]
    ambiguous_values = {value: kinds for value, kinds in _kinds_by_value(config).items() if len(set(kinds)) > 1}
    return problems + [f"cdc_operations: {value!r} cannot be {' and '.join(kinds)}." for value, kinds in ambiguous_values.items()]


def _kinds_by_value(config: Any) -> dict[str, list[str]]:
    """Return the kinds of operations for each value of the operation column."""
    kinds_by_value: dict[str, list[str]] = {}
    for kind, operation_values in _operation_codes(config).items():
        for value in operation_values:
            kinds_by_value.setdefault(value, []).append(kind)
    return kinds_by_value


def _operation_codes(config: Any) -> dict[str, tuple[str, ...]]:
    """Return the values of each kind of operation, in lower case.

    If `cdc_operations` does not set a kind, it gets the values of common tools, except those that the model uses for other kinds.
    """
    cdc_operations = (config.get("cdc_operations") or {}).items()
    model_values = {kind: tuple(map(str.lower, as_list(kind_values))) for kind, kind_values in cdc_operations if kind in OPERATIONS}
    all_model_values = set().union(*model_values.values())
    default_values = {kind: tuple(value for value in OPERATIONS[kind] if value not in all_model_values) for kind in OPERATIONS}
    return {kind: model_values.get(kind) or default_values[kind] for kind in OPERATIONS}
