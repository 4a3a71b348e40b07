"""What the adapter tells the macros of incremental models: their configs, checked and read, and what their tables can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Dict, List, Optional

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.meta import AdapterMeta
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.configs.model_config import KEY, PREDICATES, REPLACED_ROWS, WithArguments, flag, given, listed, value_of
from dbt.adapters.rowmerge.incremental.merge_config import MergeConfig, aliases_of, keys_of, merge_config, newest_first
from dbt.adapters.rowmerge.incremental.schema_changes import SchemaChanges, needed_properties, schema_changes
from dbt.adapters.rowmerge.incremental.strategy_config import (
    STRATEGIES,
    ChangeStream,
    brings_columns,
    change_stream,
    problems_of,
    strategy_of,
)
from dbt.adapters.rowmerge.relations.column import RowmergeColumn
from dbt.adapters.rowmerge.relations.names import quote


class IncrementalModels(metaclass=AdapterMeta):
    """A part of the adapter: it uses the session, the connections and the relations of the whole."""

    session: Any
    connections: Any
    get_columns_in_relation: Any
    query_relation: Any

    def valid_incremental_strategies(self) -> List[str]:
        return list(STRATEGIES)

    @available
    def check_incremental_model(self, macros: Any, config: Any, names: List[str], existing: Optional[BaseRelation]) -> str:
        """The strategy of a model. Raises CompilationError that lists everything wrong with its configs, before anything of it runs.

        `names` are the configs that it holds, `existing` is the table that it will change, if it is to change one.
        """
        brings_columns = config.get("on_schema_change") not in (None, "ignore") or flag(config, "merge_with_schema_evolution")
        columns = [] if existing is None or brings_columns else [column.name for column in self.get_columns_in_relation(existing)]
        _refuse(problems_of(config, names, macros, columns))
        return strategy_of(config)

    @available
    def merge_config(
        self, config: Any, source: BaseRelation, dest_columns: List[RowmergeColumn], unique_key: Any = None, predicates: Any = None
    ) -> MergeConfig:
        """The MERGE that a model asks for. Raises CompilationError that lists everything wrong with its configs."""
        config = WithArguments(config, unique_key, predicates)
        columns, source_columns = [column.name for column in dest_columns], None
        evolves, chosen = flag(config, "merge_with_schema_evolution"), ("merge_update_columns", "merge_exclude_columns")
        by_names = given(config, "merge_clauses") or given(config, "merge_update_set_expressions")
        if by_names or (evolves and any(given(config, name) for name in chosen)):
            source_columns = [column.name for column in self.get_columns_in_relation(source)]
            known = {name.lower() for name in columns}
            columns += [name for name in source_columns if evolves and name.lower() not in known]
        merge, problems = merge_config(config, columns, source_columns)
        _refuse(problems)
        return merge

    @available
    def merge_keys(self, config: Any, columns: List[RowmergeColumn], unique_key: Any, predicates: Any) -> MergeConfig:
        """A MERGE that has no clauses yet: what it is to find."""
        keys = keys_of(WithArguments(config, unique_key, predicates), [column.name for column in columns])
        return MergeConfig(aliases_of(config), keys, tuple(listed(predicates)), (), False)

    @available
    def change_stream(self, config: Any, columns: List[RowmergeColumn], unique_key: Any, predicates: Any = None) -> ChangeStream:
        """What a model of strategy `cdc` says of its changes."""
        return change_stream(WithArguments(config, unique_key, predicates), [column.name for column in columns])

    @available
    def newest_first(self, config: Any, columns: List[RowmergeColumn]) -> List[str]:
        """The terms of an ORDER BY that puts the row first that `merge_deduplicate_by` keeps."""
        return list(newest_first(config, "merge_deduplicate_by", [column.name for column in columns]))

    @available
    def unique_key(self, config: Any) -> Any:
        return value_of(config, KEY)

    @available
    def incremental_predicates(self, config: Any) -> Optional[List[str]]:
        return listed(value_of(config, PREDICATES)) or None

    @available
    def replaced_rows(self, config: Any, predicates: Optional[List[str]]) -> List[str]:
        """The conditions on the rows that a model replaces."""
        return [f"({condition})" for condition in listed(value_of(config, REPLACED_ROWS) or predicates)]

    @available
    def stored_rows(self, config: Any, strategy: str, source: BaseRelation) -> BaseRelation:
        """The model's rows with the columns that its table has: the operation of a change is not among them, unless deletes are kept."""
        if strategy != "cdc" or flag(config, "cdc_keep_deletes"):
            return source
        return self.query_relation(source, f"select * except ({quote(str(config.get('cdc_operation_column')))}) from {source}")

    @available
    @classmethod
    def has_transforms(cls, partition_by: Iterable[str], columns: Iterable[RowmergeColumn]) -> bool:
        """Whether one of these is no column but a transform of one (`bucket(16, id)`)."""
        known = {column.name.lower() for column in columns}
        return any("(" in name.replace("``", "").split("`")[0] and name.lower() not in known for name in partition_by)

    @available.parse_none
    def check_partitioned(self, relation: BaseRelation) -> None:
        """Raise CompilationError for a table without partitions: overwriting those that get a row would overwrite it whole."""
        with self.connections.exception_handler(f"describe {relation}"):
            partitioning = self.session.describe(relation.schema, relation.identifier).partitioning
        if not partitioning:
            raise CompilationError(f"{relation} is not partitioned, and the model says partition_by. Run it with --full-refresh.")

    @available.parse_none
    def schema_changes(self, source: BaseRelation, target: BaseRelation) -> SchemaChanges:
        """What would make the table's columns those of a model."""
        with self.connections.exception_handler(f"columns of {source}"):
            model, table = (self.session.sql(f"select * from {relation.render()}").schema for relation in (source, target))
        return schema_changes(model, table)

    @available
    def evolves(self, config: Any) -> bool:
        """Whether a model's statement may bring columns and fields to its table."""
        added = config.get("on_schema_change") in ("append_new_columns", "sync_all_columns")
        return added or flag(config, "merge_with_schema_evolution")

    @available
    def brings_columns(self, config: Any) -> bool:
        """Whether a model's statement names every column of the model, and so brings those that the table lacks."""
        return brings_columns(config)

    @available
    def dropping(self, paths: List[str]) -> SchemaChanges:
        return SchemaChanges(dropped=tuple(paths))

    @available
    def retyping(self, path: str, type_: str) -> SchemaChanges:
        return SchemaChanges(retyped=((path, type_),))

    @available.parse(lambda *a, **k: {})
    def properties_for(self, relation: BaseRelation, changes: SchemaChanges, said: Dict[str, Any]) -> Dict[str, str]:
        """The properties that a table needs before its columns are changed so: Iceberg's none. `said` are those of the model.

        Raises CompilationError where the model says that the table is not to have them.
        """
        if not (changes.dropped or changes.retyped):
            return {}
        with self.connections.exception_handler(f"describe {relation}"):
            description = self.session.describe(relation.schema, relation.identifier)
        return needed_properties(changes, description.properties, said) if description.relation.format == "delta" else {}


def _refuse(problems: List[str]) -> None:
    if problems:
        raise CompilationError("The model cannot be built:\n" + "\n".join(f"- {problem}" for problem in problems))
