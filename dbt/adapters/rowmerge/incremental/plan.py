"""The plan of an incremental model: the changes that a run makes to the table, decided before any statement runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from dbt.adapters.rowmerge.configs.config_values import as_list, has_value, is_true, raise_problems, value_of
from dbt.adapters.rowmerge.configs.model_config import KEY_CONFIGS, PREDICATE_CONFIGS, REPLACED_ROWS_CONFIGS, WithArguments
from dbt.adapters.rowmerge.incremental.change_stream import ChangeStream, change_stream
from dbt.adapters.rowmerge.incremental.merge_clauses import Clause
from dbt.adapters.rowmerge.incremental.merge_config import aliases_of, configured_clauses, keys_of, newest_first_order
from dbt.adapters.rowmerge.incremental.schema_changes import SchemaChanges
from dbt.adapters.rowmerge.incremental.strategy_config import allows_schema_evolution
from dbt.adapters.rowmerge.relations.names import quote_column

_BATCH_BOUNDS = (("__dbt_internal_microbatch_event_time_start", ">="), ("__dbt_internal_microbatch_event_time_end", "<"))


@dataclass(frozen=True)
class StrategyArguments:
    """The five keys of `arg_dict`, which is the argument that dbt passes to each macro `get_incremental_<strategy>_sql`.

    Attributes:
        target_relation: The table that the statement changes.
        temp_relation: The model's rows, as a subquery or a temporary view; None before the rows exist.
        unique_key: The key as configured in the model, which is a string or a list; None if the model has no key.
        dest_columns: The columns that the statement writes, in this order; empty for a new table.
        incremental_predicates: The conditions as configured in the model.
    """

    target_relation: Any
    temp_relation: Any
    unique_key: Any
    dest_columns: tuple[Any, ...]
    incremental_predicates: tuple[str, ...]

    @classmethod
    def from_dict(cls, arg_dict: Mapping[str, Any]) -> StrategyArguments:
        """Return the five keys of `arg_dict`. A missing key becomes None or empty. A single predicate may be a string."""
        return cls(
            target_relation=arg_dict.get("target_relation"),
            temp_relation=arg_dict.get("temp_relation"),
            unique_key=arg_dict.get("unique_key"),
            dest_columns=tuple(arg_dict.get("dest_columns") or ()),
            incremental_predicates=tuple(as_list(arg_dict.get("incremental_predicates"))),
        )

    @classmethod
    def of_model(cls, config: Any, target: Any, source: Any, columns: Iterable[Any]) -> StrategyArguments:
        """Return the arguments with the key and the predicates of a model's configs.

        Args:
            config: The configs of the model.
            target: The table that the statement changes.
            source: A relation with the model's rows; None before the rows exist.
            columns: The columns that the statement writes, in this order.
        """
        return cls(target, source, value_of(config, KEY_CONFIGS), tuple(columns), tuple(as_list(value_of(config, PREDICATE_CONFIGS))))


@dataclass(frozen=True)
class IncrementalPlan(StrategyArguments):
    """The changes that one run of an incremental model makes to its table. Macros only render a plan, without computing anything.

    Column names are quoted, and conditions are SQL. Fields that the strategy does not use are empty.

    Attributes:
        incremental_strategy: dbt's name of the strategy, which selects the macro, or `default` if the model sets none.
        strategy: The strategy to apply: `incremental_strategy`, but `merge` or `append` instead of `default`, with or without a key.
        keys: The columns of the key, or expressions that are valid for the model's rows and the table's rows.
        source_alias: The SQL alias of the model's rows in conditions.
        target_alias: The SQL alias of the table's rows in conditions.
        with_schema_evolution: Whether the statement may add columns and fields to the table.
        schema_changes: The changes to the table's columns that run before the statement.
        newest_first: The terms of an ORDER BY. Only the first row of each key in this order is kept; empty to keep all rows.
        clauses: The WHEN clauses of a merge, in order.
        partitions: The partition columns. `insert_overwrite` replaces the partitions whose values appear in the model's rows.
        overwrites_by_transform: Whether `insert_overwrite` replaces partitions of transforms, whose values the write computes.
        replaced_rows: SQL conditions. `replace_where` and `microbatch` replace the rows for which all of these conditions are true.
        change_stream: The description of the change stream for the strategy `cdc`; None for other strategies.
    """

    incremental_strategy: str
    strategy: str
    keys: tuple[str, ...]
    source_alias: str
    target_alias: str
    with_schema_evolution: bool
    schema_changes: SchemaChanges = field(default_factory=SchemaChanges)
    newest_first: tuple[str, ...] = ()
    clauses: tuple[Clause, ...] = ()
    partitions: tuple[str, ...] = ()
    overwrites_by_transform: bool = False
    replaced_rows: tuple[str, ...] = ()
    change_stream: ChangeStream | None = None

    @property
    def arg_dict(self) -> dict[str, Any]:
        """The argument of a strategy's macro: the five keys with the types that dbt uses, and the plan as a sixth key."""
        arguments = {key.name: getattr(self, key.name) for key in fields(StrategyArguments)}
        predicates = list(self.incremental_predicates) or None
        return {**arguments, "dest_columns": list(self.dest_columns), "incremental_predicates": predicates, "plan": self}

    def is_for(self, strategy: str, arguments: StrategyArguments) -> bool:
        """Return whether this plan applies to a call of a strategy's macro.

        Args:
            strategy: The strategy of the macro.
            arguments: The arguments of the call.
        """
        has_arguments = all(getattr(self, key.name) == getattr(arguments, key.name) for key in fields(StrategyArguments))
        return self.strategy == strategy and has_arguments


def plan_strategy(
    model_config: Any, strategy: str, arguments: StrategyArguments, read_model_columns: Callable[[], Sequence[str]]
) -> IncrementalPlan:
    """Return the plan of an incremental model's statement.

    Each plan contains the fields that all strategies use, and the fields that only its own strategy uses, such as the clauses of a merge.
    Fields of other strategies remain empty.

    Args:
        model_config: The configs of the model.
        strategy: dbt's name of the strategy, or `default`.
        arguments: The arguments of the strategy's macro. The key and the predicates in them take precedence over those of the model.
        read_model_columns: A function that returns the names of the model's columns. It runs a query, so only some merges call it.

    Raises:
        CompilationError: The configs of a merge have errors. The message lists all of them.
    """
    columns = [column.name for column in arguments.dest_columns]
    # A project's macro may call a strategy with a key or predicates that differ from those of the model. The call takes precedence.
    call_config = WithArguments(model_config, arguments.unique_key, arguments.incremental_predicates)
    plan = _common_plan(call_config, configured_strategy=strategy, arguments=arguments)
    if plan.strategy == "cdc":
        # The change stream depends only on the configs and not on the model's rows, so even the first plan contains it.
        stream = change_stream(call_config, columns)
        return replace(plan, change_stream=stream, newest_first=tuple(f"{column} desc nulls last" for column in stream.order))
    if arguments.temp_relation is None:
        return plan  # The model's rows do not exist yet, and the fields below may depend on their columns. A second plan follows.
    match plan.strategy:
        case "merge":
            return replace(plan, clauses=_merge_clauses(call_config, columns, read_model_columns))
        case "insert_overwrite":
            return _with_partitions(plan, as_list(call_config.get("partition_by")), columns)
        case "replace_where" | "microbatch":
            # The conditions in the model's configs, such as `replace_where`, take precedence over the predicates of the call.
            return replace(plan, replaced_rows=_replaced_rows(model_config, plan, columns))
    return plan


def _common_plan(config: Any, configured_strategy: str, arguments: StrategyArguments) -> IncrementalPlan:
    """Return a plan with only the fields that all strategies use, such as keys and aliases.

    `config`: the configs of the model, with the key and the predicates of `arguments`. `configured_strategy`: the name of the strategy in
    dbt. The name `default` means `merge` if there is a key, and `append` otherwise.
    """
    columns = [column.name for column in arguments.dest_columns]
    aliases = aliases_of(config)
    effective_strategy = configured_strategy
    if configured_strategy == "default":
        effective_strategy = "merge" if arguments.unique_key else "append"
    return IncrementalPlan(
        target_relation=arguments.target_relation,
        temp_relation=arguments.temp_relation,
        unique_key=arguments.unique_key,
        dest_columns=arguments.dest_columns,
        incremental_predicates=arguments.incremental_predicates,
        incremental_strategy=configured_strategy,
        strategy=effective_strategy,
        keys=keys_of(config, columns),
        source_alias=aliases.source,
        target_alias=aliases.dest,
        with_schema_evolution=allows_schema_evolution(config),
        newest_first=newest_first_order(config, "merge_deduplicate_by", columns),
    )


def _merge_clauses(config: Any, columns: Sequence[str], read_model_columns: Callable[[], Sequence[str]]) -> tuple[Clause, ...]:
    """Return the clauses of a merge. If the configs have errors, raises CompilationError with all of these errors.

    `columns`: the names of the table's columns. With schema evolution, clauses may also set columns that only the model has.
    """
    # Reading the model's columns takes a query, and most merges copy the same columns as the table's.
    model_columns = read_model_columns() if _needs_model_columns(config) else None
    new_columns: list[str] = []
    if model_columns and is_true(config, "merge_with_schema_evolution"):
        table_columns = {name.lower() for name in columns}
        new_columns = [name for name in model_columns if name.lower() not in table_columns]
    clauses, problems = configured_clauses(config, [*columns, *new_columns], model_columns)
    raise_problems(problems)
    return tuple(clauses)


def _needs_model_columns(config: Any) -> bool:
    """Return whether the configs of a merge name columns, so that it matters which columns exist on only one side."""
    names_columns = has_value(config, "merge_clauses") or has_value(config, "merge_update_set_expressions")
    selects_columns = has_value(config, "merge_update_columns") or has_value(config, "merge_exclude_columns")
    return names_columns or (selects_columns and is_true(config, "merge_with_schema_evolution"))


def _with_partitions(plan: IncrementalPlan, partition_by: Sequence[str], columns: Sequence[str]) -> IncrementalPlan:
    """Return the plan of `insert_overwrite` with the partitions that it replaces.

    The statement selects partitions by the values of their columns. The value of a transform, such as `days(ts)`, is not in any column. So
    for transforms, the write itself computes the partitions.
    """
    if has_transforms(partition_by, columns):
        return replace(plan, overwrites_by_transform=True)
    return replace(plan, partitions=tuple(quote_column(name, columns) for name in partition_by))


def has_transforms(partition_by: Iterable[str], columns: Iterable[str]) -> bool:
    """Return whether `partition_by` contains a transform of a column, such as `bucket(16, id)`.

    Args:
        partition_by: The entries of the config `partition_by`: column names and transforms.
        columns: The names of the table's columns. An entry with the name of a column is not a transform.
    """
    lower_names = {name.lower() for name in columns}
    # A parenthesis inside backquotes is part of a column name.
    return any("(" in entry.replace("``", "").split("`")[0] and entry.lower() not in lower_names for entry in partition_by)


def _replaced_rows(config: Any, plan: IncrementalPlan, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the conditions for the rows to replace: the model's conditions, and for `microbatch` also the time bounds of the batch."""
    if plan.strategy == "replace_where":
        return tuple(f"({condition})" for condition in as_list(value_of(config, REPLACED_ROWS_CONFIGS)) or plan.incremental_predicates)
    event_time = quote_column(str(config.get("event_time")), columns)
    bounds = [(operator, config.get(name)) for name, operator in _BATCH_BOUNDS]
    return (
        *(f"({condition})" for condition in plan.incremental_predicates),
        *(f"{event_time} {operator} timestamp'{timestamp}'" for operator, timestamp in bounds if timestamp),
    )
