"""Errors in the configs of an incremental model are reported together, before anything runs."""

from __future__ import annotations

import pytest

from dbt.adapters.rowmerge.incremental.merge_config import aliases_of
from dbt.adapters.rowmerge.incremental.strategy_config import config_problems

COLUMNS = ["id", "day", "amount"]
MACROS = {
    f"get_incremental_{name}_sql"
    for name in ("default", "append", "merge", "delete_insert", "insert_overwrite", "replace_where", "microbatch", "delete", "cdc", "own")
}


def problems(columns=COLUMNS, **config):
    return config_problems(config, list(config), MACROS, columns)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"unique_key": "id", "update_condition": "true", "merge_update_columns": ["amount"], "merge_exclude_columns": []},
        {"unique_key": ["id", "payload.day"], "incremental_strategy": "delete+insert", "skip_matched_step": False},
        {"unique_key": ["id"], "merge_on_using_columns": ["`ID`"], "incremental_strategy": "merge", "matched_condition": None},
        {"unique_key": "lower(id)", "incremental_strategy": "delete_insert", "on_schema_change": "fail", "elementary": {}, "tag": "a"},
        {"unique_key": "id", "incremental_strategy": "cdc", "cdc_operation_column": "op", "cdc_order_by": ["day"]},
        {"incremental_strategy": "replace_where", "predicates": ["day > 1"]},
        {"incremental_strategy": "own", "merge_whatever": 1},
        {"unique_key": "id", "merge_clauses": {"when_matched": [{"action": "delete"}]}, "skip_matched_step": False},
    ],
)
def test_valid_configs_have_no_errors(config):
    assert problems(**config) == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"incremental_strategy": "upsert"}, 'with the name "get_incremental_upsert_sql". There are: append,'),
        (
            {"incremental_strategy": "marge"},
            'with the name "get_incremental_marge_sql". Did you mean merge? To define your own strategy, write a macro',
        ),
        ({"merge_update_column": ["id"]}, "there is no config merge_update_column. Did you mean merge_update_columns?"),
        ({"unique_keys": ["id"]}, "there is no config unique_keys. Did you mean unique_key?"),
        ({"on_schema_change": "append_columns"}, "Did you mean append_new_columns"),
        ({"merge_update_columns": ["amuont"]}, "merge_update_columns: there is no column amuont. Did you mean amount?"),
        ({"merge_exclude_columns": "price"}, "There are: id, day, amount."),
        ({"merge_update_set_expressions": {"amout": "1"}}, "merge_update_set_expressions: there is no column amout."),
        ({"merge_update_set_expressions": ["amount"]}, "It must be a mapping of columns to expressions."),
        ({"merge_update_columns": ["id"], "merge_exclude_columns": ["day"]}, "cannot both be set"),
        ({"matched_condition": "a", "update_condition": "a"}, "matched_condition and update_condition are names of the same config."),
        (
            {"not_matched_condition": "a", "merge_insert_condition": "b"},
            "not_matched_condition and merge_insert_condition are names of the same",
        ),
        ({"predicates": ["a"], "incremental_predicates": ["b"]}, "incremental_predicates and predicates are names of the same config."),
        ({"merge_on_using_columns": ["day"]}, "unique_key and merge_on_using_columns are names of the same config, but differ."),
        ({"unique_key": "id, day"}, "Make it a list of columns: ['id', 'day']."),
        ({"unique_key": "ids"}, "unique_key: there is no column ids. Did you mean id?"),
        ({"merge_returning_columns": ["id"]}, "merge_returning_columns is not supported"),
        (
            {"skip_matched_step": "true", "merge_update_condition": "a"},
            "skip_matched_step skips the step that uses merge_update_condition.",
        ),
        ({"skip_matched_step": True, "skip_not_matched_step": True}, "the merge has no clause"),
        ({"not_matched_by_source_action": "drop"}, "It must be `delete` or begin with `update set`."),
        ({"not_matched_by_source_condition": "true"}, "requires not_matched_by_source_action"),
        (
            {"merge_deduplicate_by": "day", "unique_key": None},
            "merge_deduplicate_by keeps the newest row of each key, but the model has no key.",
        ),
        ({"merge_clauses": [], "matched_condition": "a"}, None),
        ({"merge_clauses": {"when_matched": [{"action": "delete"}]}, "matched_condition": "a"}, "matched_condition would have no effect."),
        (
            {"incremental_strategy": "delete", "unique_key": None},
            "the strategy delete finds rows by their key, but the model has no key. Set unique_key.",
        ),
        (
            {"incremental_strategy": "delete", "merge_update_columns": ["id"]},
            "the strategy delete does not use merge_update_columns.",
        ),
        (
            {"incremental_strategy": "append", "merge_deduplicate_by": "day"},
            "the strategy append does not use merge_deduplicate_by.",
        ),
        ({"incremental_strategy": "delete+insert", "unique_key": ["id", "dya"]}, "unique_key: there is no column dya. Did you mean day?"),
        ({"incremental_strategy": "cdc", "cdc_operation_column": "op", "cdc_order_by": "day", "unique_key": "idd"}, "Did you mean id?"),
        ({"incremental_strategy": "replace_where"}, "Set replace_where to a condition."),
        (
            {"incremental_strategy": "replace_where", "replace_where": "a", "predicates": "b"},
            "replace_where and predicates are names of the same",
        ),
        ({"incremental_strategy": "cdc", "cdc_order_by": "day"}, "cdc_operation_column is missing."),
        ({"incremental_strategy": "cdc", "cdc_operation_column": "op"}, "cdc_order_by is missing."),
        (
            {"incremental_strategy": "cdc", "cdc_operation_column": "op", "cdc_order_by": "ID"},
            "cdc_order_by: all changes of a row have the same ID, which is in the key.",
        ),
        ({"incremental_strategy": "cdc", "cdc_operation_column": "op", "cdc_order_by": "dya"}, "there is no column dya. Did you mean day?"),
        (
            {"incremental_strategy": "cdc", "cdc_operation_column": "op", "cdc_order_by": "day", "cdc_operations": {"deletes": ["X"]}},
            "cdc_operations: there is no deletes. Did you mean delete?",
        ),
        (
            {
                "incremental_strategy": "cdc",
                "cdc_operation_column": "op",
                "cdc_order_by": "day",
                "cdc_operations": {"delete": "x", "update": "X"},
            },
            "'x' cannot be update and delete.",
        ),
    ],
)
def test_each_invalid_config_has_one_error(config, said):
    messages = problems(**{"unique_key": "id", **config})
    assert len(messages) == (said is not None), messages
    if said:
        assert said in messages[0]


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        ("delete", "It must be a mapping with when_matched, when_not_matched, when_not_matched_by_source."),
        (
            {"when_match": [{"action": "delete"}], "when_matched": [{"action": "delete"}]},
            "there is no when_match. Did you mean when_matched",
        ),
        ({"when_matched": {"action": "delete"}}, "merge_clauses.when_matched must be a list of at least one clause."),
        ({"when_matched": ["delete"]}, "clause 1: 'delete' is not a clause."),
        ({"when_matched": [{"action": "remove"}]}, "The actions of when matched are: update, delete, do_nothing, error."),
        ({"when_matched": [{"action": "insert"}]}, "action is 'insert'."),
        ({"when_not_matched": [{"action": "delete"}]}, "The actions of when not matched are: insert, do_nothing, error."),
        ({"when_matched": [{"action": "delete", "conditions": "a"}]}, "there is no conditions. Did you mean condition"),
        ({"when_matched": [{"action": "update", "mode": "by_names"}]}, "mode is 'by_names'. Did you mean by_name"),
        ({"when_matched": [{"action": "update", "mode": "star", "update": {"include": ["id"]}}]}, "Set mode to explicit"),
        ({"when_matched": [{"action": "update", "update": {"include": ["amuont"]}}]}, "there is no column amuont. Did you mean amount?"),
        ({"when_matched": [{"action": "update", "update": {"columns": ["id"]}}]}, "update: there is no columns."),
        ({"when_matched": [{"action": "update", "update": {"include": ["id"], "exclude": ["day"]}}]}, "cannot both be set"),
        ({"when_matched": [{"action": "update", "update": {"exclude": COLUMNS}}]}, "it sets no column."),
        ({"when_matched": [{"action": "delete", "by": "source"}]}, "by is 'source'."),
        ({"when_not_matched": [{"action": "update", "by": "source"}]}, "Set columns only in set_expressions"),
        (
            {"when_not_matched": [{"action": "insert", "insert": {"columns": ["id"], "values": []}}]},
            "has 1 names, and insert.values has 0 values.",
        ),
        ({"when_not_matched": [{"action": "insert", "set_expressions": {"id": "1"}}]}, "an insert cannot have set_expressions."),
        ({"when_matched": [{"action": "delete"}, {"action": "update"}]}, "when matched: a clause is never reached."),
    ],
)
def test_each_merge_clause_is_checked(clauses, said):
    (message,) = problems(unique_key="id", merge_clauses=clauses)
    assert said in message


def test_all_errors_are_reported_together():
    messages = problems(merge_update_columns=["amuont"], not_matched_by_source_action="drop", merge_clauses={"a": 1}, on_schema_change="x")
    assert len(messages) == 6


def test_column_names_are_checked_only_with_the_columns():
    assert problems(columns=[], unique_key="it", merge_update_columns=["amuont"]) == []


def test_dbt_aliases_take_precedence_in_conditions_with_both_kinds():
    assert aliases_of({"update_condition": "src.a > target.a"}).source == "src"
    assert aliases_of({"update_condition": "DBT_INTERNAL_SOURCE.src.a > 1"}).source == "DBT_INTERNAL_SOURCE"
    assert aliases_of({"update_condition": "src.a > 1", "source_alias": "s"}).source == "s"
    assert aliases_of({"incremental_predicates": ["target.a > 1"]}).dest == "target"
    assert aliases_of({"matched_condition": "src.a > 1"}).source == "DBT_INTERNAL_SOURCE"
