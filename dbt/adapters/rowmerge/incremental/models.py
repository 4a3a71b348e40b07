"""The methods of the adapter that plan incremental models. They read configs and tables, and the macros render the plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, List, Optional, Tuple

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.meta import AdapterMeta
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.configs.config_values import is_true, raise_problems
from dbt.adapters.rowmerge.incremental.plan import IncrementalPlan, StrategyArguments, plan_strategy
from dbt.adapters.rowmerge.incremental.schema_changes import (
    SchemaChanges,
    changes_before_write,
    compare_columns,
    needed_properties,
    schema_of_query,
)
from dbt.adapters.rowmerge.incremental.strategy_config import STRATEGIES, config_problems, may_add_columns, strategy_of, writes_new_columns
from dbt.adapters.rowmerge.relations.column import RowmergeColumn
from dbt.adapters.rowmerge.relations.names import quote


class IncrementalModels(metaclass=AdapterMeta):
    """The methods of the adapter for incremental models. This mixin uses the adapter's session, connections and relations."""

    session: Any
    _call: Any
    connections: Any
    get_columns_in_relation: Any
    query_relation: Any

    def valid_incremental_strategies(self) -> List[str]:
        return list(STRATEGIES)

    @available
    def incremental_plan(
        self, context: Mapping[str, Any], target: BaseRelation, existing: Optional[BaseRelation], source: Optional[BaseRelation] = None
    ) -> IncrementalPlan:
        """Check all configs of an incremental model, and return the plan of a run.

        The materialization first calls this method without `source`, so that errors stop the model before hooks and `sql_header` run. As
        soon as the model's rows exist, it calls the method again with `source`, and renders this second plan.

        Args:
            context: The Jinja context of the model.
            target: The table of the model.
            existing: The same table if the run changes its rows; None if the run creates or rebuilds it.
            source: A relation with the model's rows; None before they exist.

        Raises:
            CompilationError: Configs have errors, or do not fit the columns or partitions of the table.
        """
        config = context["config"]
        names_set_by_model = list(context["model"]["config"])
        columns, schema_changes = self._columns_to_write(config, existing, source)
        # Configs may name columns that the run adds. In this case their names cannot be verified, and an empty list skips the check.
        verifiable_columns = [] if may_add_columns(config) else [column.name for column in columns]
        raise_problems(config_problems(config, names_set_by_model, macros=context, columns=verifiable_columns))
        arguments = StrategyArguments.of_model(config, target, source, columns)
        plan = self._plan(config, strategy_of(config), arguments)
        return replace(plan, schema_changes=schema_changes)

    @available
    def strategy_plan(self, config: Any, strategy: str, arg_dict: Mapping[str, Any]) -> IncrementalPlan:
        """Return the plan that a strategy's macro renders: the plan in `arg_dict`, or a new one.

        A macro in a project may call a strategy's macro without a plan, or with a different key, columns or predicates. Then the plan in
        `arg_dict` does not apply, and the new plan uses the values of the call.

        Args:
            config: The configs of the model.
            strategy: The strategy of the macro.
            arg_dict: The argument of the macro: dbt's five keys, and `plan` if this adapter calls the macro.

        Raises:
            CompilationError: The configs of a merge have errors.
        """
        arguments = StrategyArguments.from_dict(arg_dict)
        plan: Optional[IncrementalPlan] = arg_dict.get("plan")
        if plan is not None and plan.is_for(strategy, arguments):
            return plan
        return self._plan(config, strategy, arguments)

    @available.parse_none
    def schema_changes(self, config: Any, on_schema_change: str, source: BaseRelation, target: BaseRelation) -> SchemaChanges:
        """Return the changes to a table's columns that must run before the model's rows are written.

        Args:
            config: The configs of the model.
            on_schema_change: The config `on_schema_change` of dbt.
            source: A relation with the model's rows.
            target: The table.

        Raises:
            CompilationError: Columns differ although `on_schema_change` is `fail`, or `tblproperties` disables a required table feature.
        """
        with self.connections.exception_handler(f"columns of {source}"):
            differences = compare_columns(self._schema_of_query(source), self._schema_of_query(target))
        if on_schema_change == "fail" and differences:
            raise CompilationError(
                f"The columns of {target.render()} differ from those of the model: {differences}. Set on_schema_change to "
                f"append_new_columns or sync_all_columns, or run the model with --full-refresh."
            )
        changes = changes_before_write(differences, on_schema_change, writes_new_columns(config))
        return self._add_required_properties(changes, target, tblproperties=config.get("tblproperties") or {})

    def _schema_of_query(self, relation: BaseRelation) -> Any:
        return self._call(schema_of_query, f"select * from {relation.render()}")

    @available.parse_none
    def column_changes(
        self, relation: BaseRelation, added: Iterable[Any] = (), retyped: Iterable[Any] = (), dropped: Iterable[str] = ()
    ) -> SchemaChanges:
        """Return changes to a table's columns, with the table properties that these changes require, such as type widening.

        Args:
            relation: The table.
            added: Pairs of the quoted path of a new column or field and its SQL type.
            retyped: Pairs of the quoted path of a column or field and its new SQL type.
            dropped: The quoted paths of columns and fields to drop.
        """
        changes = SchemaChanges(tuple(added), tuple(retyped), tuple(dropped))
        return self._add_required_properties(changes, relation, tblproperties={})

    def _plan(self, config: Any, strategy: str, arguments: StrategyArguments) -> IncrementalPlan:
        """Return the plan of a strategy. Raises CompilationError for errors in the configs, and for a table without partitions."""
        source = arguments.temp_relation
        plan = plan_strategy(config, strategy, arguments, lambda: [column.name for column in self.get_columns_in_relation(source)])
        if plan.overwrites_by_transform:
            self._check_partitioned(arguments.target_relation)
        return plan

    def _columns_to_write(
        self, config: Any, existing: Optional[BaseRelation], source: Optional[BaseRelation]
    ) -> Tuple[List[RowmergeColumn], SchemaChanges]:
        """Return the columns that the statement writes, and the changes to the table's columns that run before the statement.

        A run calls this method twice: to check the configs before the model's rows exist, and to plan the statement afterwards.

        Args:
            config: The configs of the model.
            existing: The table; None if the run creates or rebuilds it.
            source: The model's rows; None in the first call, before the rows exist.

        Returns:
            No columns if they are not known yet. The table's columns, without changes, if the statement cannot change them.
        """
        on_schema_change = config.get("on_schema_change") or "ignore"
        if existing is None:
            return [], SchemaChanges()  # A new table has no columns yet.
        if source is None and may_add_columns(config):
            return [], SchemaChanges()  # The model's rows may add columns.
        # The rows of strategy `delete` are keys of rows to delete, and the table does not store them.
        keeps_columns = on_schema_change == "ignore" or strategy_of(config) == "delete"
        if source is None or keeps_columns:
            return self.get_columns_in_relation(existing), SchemaChanges()
        stored_rows = self._stored_rows(config, source)
        columns = self.get_columns_in_relation(stored_rows)
        return columns, self.schema_changes(config, on_schema_change, stored_rows, existing)

    def _stored_rows(self, config: Any, source: BaseRelation) -> BaseRelation:
        """Return the model's rows without columns that the table does not store.

        Strategy `cdc` stores the operation column only if it keeps deleted rows.
        """
        if strategy_of(config) != "cdc" or is_true(config, "cdc_keep_deletes"):
            return source
        return self.query_relation(source, f"select * except ({quote(str(config.get('cdc_operation_column')))}) from {source}")

    def _check_partitioned(self, relation: BaseRelation) -> None:
        """Raise CompilationError for a table without partitions, because `insert_overwrite` would replace all of its rows."""
        with self.connections.exception_handler(f"describe {relation}"):
            partitioning = self.session.describe(relation.engine_schema, relation.identifier).partitioning
        if not partitioning:
            raise CompilationError(f"{relation} is not partitioned, but the model sets partition_by. Run it with --full-refresh.")

    def _add_required_properties(self, changes: SchemaChanges, relation: BaseRelation, tblproperties: Mapping[str, Any]) -> SchemaChanges:
        """Return the changes with the table properties that a Delta table requires for them.

        Dropping a column requires column mapping, and changing a type requires type widening. `tblproperties`: the config of the model.
        Raises CompilationError if it disables a required property.
        """
        if not (changes.dropped or changes.retyped):
            return changes
        with self.connections.exception_handler(f"describe {relation}"):
            description = self.session.describe(relation.engine_schema, relation.identifier)
        if description.relation.format != "delta":
            return changes
        required_properties = needed_properties(changes, description.properties, tblproperties)
        return replace(changes, properties=tuple(required_properties.items()))
