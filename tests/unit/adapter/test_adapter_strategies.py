"""The SQL that each incremental strategy renders."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge import RowmergeColumn
from tests.unit.adapter.rendered import Case, cases, expect

MACROS = {"merge_clauses": "merge", "delete+insert": "delete_insert"}


@pytest.fixture
def rendered(render, adapter, target, source, columns, monkeypatch):
    """The statement of a model with these configs."""
    # The columns of a query are Spark's to tell, and there is none here: the query of `source` has the table's.
    monkeypatch.setattr(adapter, "get_columns_in_relation", lambda relation: columns)

    def call(strategy, config):
        if strategy == "snapshot":
            names = [column.quoted for column in columns]
            return render("snapshot_merge_sql", config=config, target=target, source=source, insert_cols=names)
        arguments = {
            "target_relation": target,
            "temp_relation": source,
            "unique_key": adapter.unique_key(config),
            "dest_columns": columns,
            "incremental_predicates": adapter.incremental_predicates(config),
        }
        return render(f"get_incremental_{MACROS.get(strategy, strategy)}_sql", config=config, arg_dict=arguments)

    return call


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.strategy}: {case.name}")
def test_a_strategy_renders_what_its_file_holds(rendered, case: Case):
    expect(case, rendered(case.strategy, case.config))


def test_all_that_is_wrong_with_a_merge_is_said_at_once(rendered):
    with pytest.raises(CompilationError) as error:
        rendered("merge", {"merge_update_columns": ["amout"], "merge_exclude_columns": ["id"], "not_matched_by_source_condition": "true"})
    message = str(error.value)
    assert "cannot both be set" in message
    assert "there is no column amout. Did you mean amount?" in message
    assert "needs not_matched_by_source_action" in message


def test_new_columns_are_told_from_old_ones_without_regard_to_case(adapter, columns):
    source = [RowmergeColumn("ID", "int"), RowmergeColumn("note", "string")]
    found = adapter.execute_macro("diff_columns", project="dbt_rowmerge", kwargs={"source_columns": source, "target_columns": columns})
    assert [column.name for column in found] == ["note"]


def test_a_column_that_changed_its_type_is_found(adapter, columns):
    source = [RowmergeColumn("ID", "bigint"), RowmergeColumn("day", "date")]
    found = adapter.execute_macro("diff_column_data_types", kwargs={"source_columns": source, "target_columns": columns})
    assert found == [{"column_name": "id", "new_type": "bigint"}]
