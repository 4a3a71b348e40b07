"""The SQL that each incremental strategy renders."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge import RowmergeColumn


@pytest.fixture
def merged(render, target, source, columns):
    def call(unique_key="id", predicates=None, **config):
        arguments = {
            "target_relation": target,
            "temp_relation": source,
            "unique_key": unique_key,
            "dest_columns": columns,
            "incremental_predicates": predicates,
        }
        return render("get_incremental_merge_sql", config=config, arg_dict=arguments)

    return call


def test_a_merge_takes_the_query_as_its_source_and_names_every_column(merged):
    assert merged() == (
        "merge into `main`.`orders` as DBT_INTERNAL_DEST\n"
        "using (\nselect * from new_orders\n) as DBT_INTERNAL_SOURCE\n"
        "on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`\n"
        "when matched then update set\n"
        "`id` = DBT_INTERNAL_SOURCE.`id`,\n`day` = DBT_INTERNAL_SOURCE.`day`,\n`amount` = DBT_INTERNAL_SOURCE.`amount`\n"
        "when not matched then insert\n"
        "(`id`, `day`, `amount`)\n"
        "values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)"
    )


def test_a_merge_with_schema_evolution_takes_all_columns_of_the_model(merged):
    sql = merged(merge_with_schema_evolution=True, delete_condition="DBT_INTERNAL_SOURCE.amount < 0")
    assert sql.startswith("merge with schema evolution into `main`.`orders` as DBT_INTERNAL_DEST\nusing (")
    assert sql.endswith(
        "when matched and (DBT_INTERNAL_SOURCE.amount < 0) then delete\nwhen matched then update set\n*\nwhen not matched then insert\n*"
    )


def test_every_column_of_a_composite_key_is_compared_and_predicates_are_added(merged):
    sql = merged(["ID", "day"], ["DBT_INTERNAL_DEST.day > '2024-01-01' or false"])
    assert "on DBT_INTERNAL_SOURCE.`ID` <=> DBT_INTERNAL_DEST.`ID`\nand DBT_INTERNAL_SOURCE.`day` <=> DBT_INTERNAL_DEST.`day`\n" in sql
    assert "\nand (DBT_INTERNAL_DEST.day > '2024-01-01' or false)\n" in sql


def test_a_merge_without_a_key_only_inserts(merged):
    sql = merged(None)
    assert "\non false\nwhen not matched then insert" in sql
    assert "update" not in sql


@pytest.mark.parametrize(
    "config", [{"merge_update_columns": ["AMOUNT"]}, {"merge_update_columns": "`amount`"}, {"merge_exclude_columns": ["id", "Day"]}]
)
def test_only_the_wanted_columns_are_updated(merged, config):
    assert "update set\n`amount` = DBT_INTERNAL_SOURCE.`amount`\nwhen not matched" in merged(**config)


def test_excluding_every_column_leaves_no_update(merged):
    assert "update set" not in merged(merge_exclude_columns=["id", "day", "amount"])


def test_conditions_and_actions_stand_in_their_clauses(merged):
    sql = merged(
        target_alias="t",
        source_alias="s",
        matched_condition="s.day >= t.day",
        not_matched_condition="s.amount > 0",
        delete_condition="s.amount is null",
        not_matched_by_source_action="delete",
        not_matched_by_source_condition="t.day < '2020-01-01'",
    )
    clauses = [line for line in sql.splitlines() if line.startswith("when")]
    assert clauses == [
        "when matched and (s.amount is null) then delete",
        "when matched and (s.day >= t.day) then update set",
        "when not matched and (s.amount > 0) then insert",
        "when not matched by source and (t.day < '2020-01-01') then delete",
    ]


@pytest.mark.parametrize(
    ("config", "gone", "kept"), [("skip_matched_step", "update", "insert"), ("skip_not_matched_step", "insert", "update")]
)
def test_a_skipped_step_is_left_out(merged, config, gone, kept):
    sql = merged(**{config: True})
    assert f"then {gone}" not in sql
    assert f"then {kept}" in sql


def test_all_that_is_wrong_with_a_merge_is_said_at_once(merged):
    with pytest.raises(CompilationError) as error:
        merged(merge_update_columns=["amout"], merge_exclude_columns=["id"], not_matched_by_source_condition="true")
    message = str(error.value)
    assert "cannot both be set" in message
    assert "there is no column amout. Did you mean amount?" in message
    assert "needs not_matched_by_source_action" in message


def test_a_key_that_is_a_field_of_a_struct_stays_as_written(merged):
    assert "on DBT_INTERNAL_SOURCE.payload.id <=> DBT_INTERNAL_DEST.payload.id" in merged("payload.id")


@pytest.fixture
def deleted_and_inserted(render, target, source, columns):
    def call(unique_key, predicates=None):
        arguments = {"target": target, "source": source, "unique_key": unique_key, "dest_columns": columns}
        return render("get_delete_insert_merge_sql", **arguments, incremental_predicates=predicates)

    return call


def test_delete_and_insert_are_one_statement(deleted_and_inserted):
    assert deleted_and_inserted(["id", "day"]) == (
        "insert into `main`.`orders` as DBT_INTERNAL_DEST by name\n"
        "replace on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`\n"
        "and DBT_INTERNAL_SOURCE.`day` <=> DBT_INTERNAL_DEST.`day`\n"
        "(\nselect `id`, `day`, `amount`\nfrom (\nselect * from new_orders\n)\n) as DBT_INTERNAL_SOURCE"
    )


def test_delete_and_insert_without_a_key_append(deleted_and_inserted):
    assert deleted_and_inserted(None).startswith("insert into `main`.`orders` (`id`, `day`, `amount`)\nselect")


def test_predicates_narrow_what_delete_and_insert_deletes(deleted_and_inserted):
    sql = deleted_and_inserted("id", ["day > '2024-01-01'"])
    assert sql.startswith("merge into `main`.`orders` as DBT_INTERNAL_DEST\n")
    on = sql[sql.index("\non ") : sql.index("\nwhen matched")]
    assert on == (
        "\non DBT_INTERNAL_SOURCE.__dbt_step = 'delete'"
        "\nand DBT_INTERNAL_SOURCE.__dbt_key_1 <=> DBT_INTERNAL_DEST.`id`"
        "\nand (day > '2024-01-01')"
    )


REPLACE_ON = "insert into `main`.`orders` as DBT_INTERNAL_DEST by name\nreplace on DBT_INTERNAL_SOURCE"


@pytest.mark.parametrize(
    ("config", "begins"),
    [
        ({"partition_by": "day"}, f"{REPLACE_ON}.`day` <=> DBT_INTERNAL_DEST.`day`\n(\nselect"),
        ({"partition_by": ["day", "id"]}, f"{REPLACE_ON}.`day` <=> DBT_INTERNAL_DEST.`day`\nand DBT_INTERNAL_SOURCE.`id` <=> "),
        ({}, "insert overwrite `main`.`orders` by name\nselect"),
        ({"partition_by": ["`day`"]}, f"{REPLACE_ON}.`day` <=> DBT_INTERNAL_DEST.`day`\n(\nselect"),
    ],
)
def test_an_overwrite_replaces_partitions_where_there_are_some(render, target, source, columns, config, begins):
    arguments = {"target_relation": target, "temp_relation": source, "dest_columns": columns}
    assert render("get_incremental_insert_overwrite_sql", config=config, arg_dict=arguments).startswith(begins)


@pytest.mark.parametrize(("unique_key", "begins"), [("id", "merge into"), (None, "insert into")])
def test_the_default_strategy_merges_where_there_is_a_key(render, target, source, columns, unique_key, begins):
    arguments = {
        "target_relation": target,
        "temp_relation": source,
        "unique_key": unique_key,
        "dest_columns": columns,
        "incremental_predicates": None,
    }
    assert render("get_incremental_default_sql", arg_dict=arguments).startswith(begins)


def test_new_columns_are_told_from_old_ones_without_regard_to_case(adapter, columns):
    source = [RowmergeColumn("ID", "int"), RowmergeColumn("note", "string")]
    found = adapter.execute_macro("diff_columns", project="dbt_rowmerge", kwargs={"source_columns": source, "target_columns": columns})
    assert [column.name for column in found] == ["note"]


def test_a_column_that_changed_its_type_is_found(adapter, columns):
    source = [RowmergeColumn("ID", "bigint"), RowmergeColumn("day", "date")]
    found = adapter.execute_macro("diff_column_data_types", kwargs={"source_columns": source, "target_columns": columns})
    assert found == [{"column_name": "id", "new_type": "bigint"}]
