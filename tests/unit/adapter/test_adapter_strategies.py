"""The SQL that each incremental strategy renders."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge import RowmergeColumn
from dbt.adapters.rowmerge.configs.config_values import as_list, value_of
from dbt.adapters.rowmerge.configs.model_config import KEY_CONFIGS, PREDICATE_CONFIGS
from dbt.adapters.rowmerge.incremental.schema_changes import SchemaChanges
from tests.unit.adapter.rendered import Case, cases, expect

STRATEGIES = {"merge_clauses": "merge"}
"""The strategies of those files whose name is another one."""


def macro_of(strategy):
    return f"get_incremental_{STRATEGIES.get(strategy, strategy).replace('+', '_')}_sql"


@pytest.fixture
def described(adapter, columns, monkeypatch):
    """Replace Spark: the query of `source` has the columns of the table."""
    monkeypatch.setattr(adapter, "get_columns_in_relation", lambda relation: columns)
    monkeypatch.setattr(adapter, "schema_changes", lambda *arguments: SchemaChanges())


@pytest.fixture
def five_keys(target, source, columns):
    """Return dbt's five keys of a model with the given configs."""

    def keys(config):
        return {
            "target_relation": target,
            "temp_relation": source,
            "unique_key": value_of(config, KEY_CONFIGS),
            "dest_columns": columns,
            "incremental_predicates": as_list(value_of(config, PREDICATE_CONFIGS)) or None,
        }

    return keys


@pytest.fixture
def planned(adapter, described, target, source):
    """Return the plan of the materialization. `macros` are those of a project."""

    def plan(strategy, config, *macros):
        config = {**config, "incremental_strategy": strategy}
        context = {"config": config, "model": {"config": config}, **dict.fromkeys(macros or [macro_of(strategy)])}
        return adapter.incremental_plan(context, target, target, source)

    return plan


@pytest.fixture
def rendered(render, described, five_keys, target, source, columns):
    """Return the statement of a model with the given configs. Without `arg_dict`, the strategy is called with only dbt's five keys."""

    def call(strategy, config, arg_dict=None):
        if strategy == "snapshot":
            names = [column.quoted for column in columns]
            return render("snapshot_merge_sql", config=config, target=target, source=source, insert_cols=names)
        return render(macro_of(strategy), config=config, arg_dict=arg_dict or five_keys(config))

    return call


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.strategy}: {case.name}")
def test_a_strategy_renders_the_sql_of_its_file(rendered, case: Case):
    expect(case, rendered(case.strategy, case.config))


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.strategy != "snapshot"], ids=lambda case: f"{case.strategy}: {case.name}"
)
def test_dbts_five_keys_and_the_plan_render_the_same_sql(adapter, planned, rendered, five_keys, monkeypatch, case: Case):
    plan = planned(STRATEGIES.get(case.strategy, case.strategy), case.config)
    assert plan.arg_dict == {**five_keys(case.config), "plan": plan}
    # The macro renders the given plan and creates none.
    monkeypatch.setattr(adapter, "_plan", None)
    assert rendered(case.strategy, case.config, plan.arg_dict) == case.sql


def test_dbts_five_keys_take_precedence_over_the_plan(planned, rendered, five_keys, columns):
    config = {"unique_key": "id", "merge_exclude_columns": ["id"]}
    arg_dict = planned("merge", config).arg_dict
    changed = {"unique_key": ["day"], "dest_columns": columns[:2], "incremental_predicates": ["day > 1"]}
    assert rendered("merge", config, {**arg_dict, **changed}) == rendered("merge", config, {**five_keys(config), **changed})
    assert rendered("merge", config, {**arg_dict, **changed}) != rendered("merge", config, arg_dict)


def test_a_plan_of_another_strategy_is_not_rendered(planned, rendered):
    config = {"unique_key": "id"}
    plan = planned("keep_newest", config, "get_incremental_keep_newest_sql")
    assert plan.strategy == "keep_newest" and plan.keys == ("`id`",) and plan.clauses == ()
    assert rendered("merge", config, plan.arg_dict) == rendered("merge", config)


def test_a_plan_without_a_source_has_no_clauses(adapter, described, target):
    config = {"unique_key": "id", "merge_deduplicate_by": ["day", "amount asc"]}
    context = {"config": config, "model": {"config": config}, "get_incremental_default_sql": None}
    plan = adapter.incremental_plan(context, target, None)
    assert (plan.incremental_strategy, plan.strategy, plan.keys) == ("default", "merge", ("`id`",))
    assert plan.newest_first == ("`day` desc nulls last", "`amount` asc nulls last")
    assert plan.temp_relation is None and plan.clauses == () and plan.dest_columns == ()


def test_all_errors_of_a_model_are_in_one_message_before_its_query_runs(adapter, described, target):
    config = {"unique_key": "idd", "merge_update_columns": ["amout"], "on_schema_change": "ignore"}
    context = {"config": config, "model": {"config": {**config, "merge_clause": 1}}, "get_incremental_default_sql": None}
    with pytest.raises(CompilationError) as error:
        adapter.incremental_plan(context, target, target)
    for problem in ("there is no column idd", "there is no column amout", "there is no config merge_clause"):
        assert problem in str(error.value)


def test_all_errors_of_a_merge_are_in_one_message(rendered):
    with pytest.raises(CompilationError) as error:
        rendered("merge", {"merge_update_columns": ["amout"], "merge_exclude_columns": ["id"], "not_matched_by_source_condition": "true"})
    message = str(error.value)
    assert "cannot both be set" in message
    assert "there is no column amout. Did you mean amount?" in message
    assert "requires not_matched_by_source_action" in message


def test_new_columns_are_detected_without_case(adapter, columns):
    source = [RowmergeColumn("ID", "int"), RowmergeColumn("note", "string")]
    new_columns = adapter.execute_macro(
        "diff_columns", project="dbt_rowmerge", kwargs={"source_columns": source, "target_columns": columns}
    )
    assert [column.name for column in new_columns] == ["note"]


def test_a_changed_column_type_is_detected(adapter, columns):
    source = [RowmergeColumn("ID", "bigint"), RowmergeColumn("day", "date")]
    type_changes = adapter.execute_macro("diff_column_data_types", kwargs={"source_columns": source, "target_columns": columns})
    assert type_changes == [{"column_name": "id", "new_type": "bigint"}]
