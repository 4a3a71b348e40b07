"""The effects of strategies and configs on rows, on tables of both formats: one project, built once and changed once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

FORMATS = ("delta", "iceberg")
MODEL = "{{{{ config(materialized='incremental', file_format='{format}', {config}) }}}}\n"
ROWS = """
{{% if is_incremental() %}}{later}
{{% else %}}{first}
{{% endif %}}
"""

# name: (configs, first query, later query)
MODELS = {
    "changes": (
        "incremental_strategy='cdc', unique_key='id', cdc_operation_column='op', cdc_order_by=['at', 'seq']",
        "select * from values ('c', 1, 1, 1, 'a'), ('u', 1, 2, 1, 'b'), ('c', 2, 1, 1, 'a'), ('d', 2, 1, 2, 'x'), ('r', 3, 9, 1, 'late'),"
        " ('I', 4, 1, 1, 'gone'), ('update_preimage', 5, 9, 9, 'x') as v (op, id, at, seq, name)",
        "select * from values ('d', 4, 2, 1, null), ('u', 3, 8, 7, 'older'), ('u', 1, 2, 2, 'c'), ('update', 1, 2, 1, 'b'),"
        " ('c', 2, 1, 3, 'new'),"
        " ('d', 6, 1, 1, 'never') as v (op, id, at, seq, name)",
    ),
    "kept": (
        "incremental_strategy='cdc', unique_key='id', cdc_operation_column='op', cdc_order_by='at', cdc_keep_deletes=true,"
        " cdc_operations={'delete': ['X']}",
        "select * from values ('c', 1, 1, 'a'), ('X', 2, 5, 'b') as v (op, id, at, name)",
        "select * from values ('X', 1, 2, 'y'), ('c', 2, 4, 'late'), ('X', 3, 1, 'z') as v (op, id, at, name)",
    ),
    "erased": (
        "incremental_strategy='delete', unique_key=['id', 'part'], on_schema_change='sync_all_columns'",
        "select * from values (1, 'a', 10), (1, 'b', 11), (2, 'a', 20), (cast(null as int), 'a', 0) as v (id, part, amount)",
        "select * from values (1, 'a'), (1, 'a'), (null, 'a'), (3, 'c') as v (id, part)",
    ),
    "replaced": (
        "incremental_strategy='replace_where', replace_where=\"day >= 'tue'\"",
        "select * from values (1, 'mon'), (2, 'tue') as v (id, day)",
        "select * from values (3, 'tue'), (4, 'wed') as v (id, day)",
    ),
    "newest": (
        "unique_key='id', merge_deduplicate_by=['at', 'name asc']",
        "select * from values (1, 1, 'a'), (1, 2, 'b') as v (id, at, name)",
        "select * from values (1, 3, 'd'), (1, 3, 'c'), (null, 1, 'x'), (null, 2, 'y'), (2, null, 'z'), (2, 0, 'w') as v (id, at, name)",
    ),
    "clauses": (
        "unique_key='id', merge_clauses={'when_matched': [{'action': 'do_nothing', 'condition': 'DBT_INTERNAL_SOURCE.amount is null'},"
        " {'action': 'delete', 'condition': 'DBT_INTERNAL_SOURCE.amount < 0'}, {'action': 'update', 'update': {'exclude': ['id'],"
        " 'set_expressions': {'visits': 'DBT_INTERNAL_DEST.visits + 1'}}}], 'when_not_matched': [{'action': 'insert', 'mode': 'by_name'},"
        " {'action': 'update', 'by': 'source', 'set_expressions': {'amount': '0'}}]}",
        "select * from values (1, 10, 1), (2, 20, 1), (3, 30, 1), (4, 40, 1) as v (id, amount, visits)",
        "select * from values (1, 11), (2, -1), (3, null), (5, 50) as v (id, amount)",
    ),
    "own": (
        "incremental_strategy='fill_gaps', unique_key='id'",
        "select 1 as id, 'old' as name",
        "select * from values (1, 'new'), (2, 'new') as v (id, name)",
    ),
    "planned": (
        "incremental_strategy='insert_newest', unique_key=['id', 'part'], merge_deduplicate_by='at'",
        "select * from values (1, 'a', 1), (1, 'a', 2) as v (id, part, at)",
        "select * from values (1, 'a', 3), (null, 'a', 1), (null, 'a', 2), (1, 'b', 1) as v (id, part, at)",
    ),
    "five_keys": (
        "incremental_strategy='insert_only', unique_key='id'",
        "select * from values (1, 'a') as v (id, name)",
        "select * from values (1, 'b'), (2, 'b') as v (id, name)",
    ),
    "other_key": (
        "incremental_strategy='merge_daily', unique_key='id'",
        "select * from values (1, 'mon', 'a') as v (id, day, name)",
        "select * from values (1, 'mon', 'b'), (1, 'tue', 'c') as v (id, day, name)",
    ),
    "synced": (
        "on_schema_change='sync_all_columns', sql_header='create or replace temporary view {format}_header as select 9 as nine;'",
        "select 1 as id, named_struct('a', 1, 'gone', 2) as s, 'x' as old",
        f"select {2**40} as id, named_struct('a', {2**40}, 'b', array(named_struct('c', 1))) as s, nine from {{format}}_header",
    ),
    "appended": (
        "on_schema_change='append_new_columns', unique_key='id'",
        "select 1 as id, named_struct('a', 1, 'z', 9) as s, 'x' as old",
        "select 2 as id, named_struct('b', 3, 'a', 2) as s, 4 as new",
    ),
    "kept_as_is": (
        "full_refresh=false",
        "select 1 as id",
        "select 2 as id",
    ),
}
EXPECTED = {
    "changes": ("id, at, seq, name", [(1, 2, 2, "c"), (2, 1, 3, "new"), (3, 9, 1, "late")]),
    "kept": ("op, id, at, name", [("X", 1, 2, "a"), ("X", 2, 5, "b"), ("X", 3, 1, "z")]),
    "erased": ("id, part, amount", [(1, "b", 11), (2, "a", 20)]),
    "replaced": ("id, day", [(1, "mon"), (3, "tue"), (4, "wed")]),
    "newest": ("id, at, name", [(1, 3, "c"), (2, 0, "w"), (None, 2, "y")]),
    "clauses": ("id, amount, visits", [(1, 11, 2), (3, 30, 1), (4, 0, 1), (5, 50, None)]),
    "own": ("id, name", [(1, "old"), (2, "new")]),
    "planned": ("id, part, at", [(1, "a", 2), (1, "b", 1), (None, "a", 2)]),
    "five_keys": ("id, name", [(1, "a"), (2, "b")]),
    "other_key": ("id, day, name", [(1, "mon", "b"), (1, "tue", "c")]),
    "synced": ("id, s.a, s.b[0].c, nine", [(1, 1, None, None), (2**40, 2**40, 1, 9)]),
    "appended": ("id, s.a, s.b, s.z, old, new", [(1, 1, None, 9, "x", None), (2, 2, 3, None, None, 4)]),
    "kept_as_is": ("id", [(1,), (2,)]),
}
MACROS = """
{% macro get_incremental_fill_gaps_sql(arg_dict) %}
  {{ return(adapter.dispatch('get_incremental_fill_gaps_sql')(arg_dict)) }}
{% endmacro %}

{% macro rowmerge__get_incremental_fill_gaps_sql(arg_dict) %}
  insert into {{ arg_dict['target_relation'] }}
  select new.* from {{ arg_dict['temp_relation'] }} as new
  left anti join {{ arg_dict['target_relation'] }} as old on new.{{ arg_dict['unique_key'] }} = old.id
{% endmacro %}
"""


DOCUMENTED_MACROS = "\n".join(
    re.findall(
        r"^{% macro get_incremental_.+?^{% endmacro %}$",
        (Path(__file__).parents[3] / "docs" / "strategies.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)
"""The strategies of one's own that the page of strategies shows: insert_only, insert_newest and merge_daily."""


def one_commit_each(name):
    """Verify one commit for the rows. Commits before it drop and widen columns; new columns are part of it."""
    return name != "synced"


class TestStrategies:
    @pytest.fixture(scope="class")
    def macros(self):
        return {"fill_gaps.sql": MACROS, "documented.sql": DOCUMENTED_MACROS}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            f"{format}_{name}.sql": MODEL.format(format=format, config=config.format(format=format) if "{format}" in config else config)
            + ROWS.format(first=first, later=later.format(format=format) if "{format}" in later else later)
            for format in FORMATS
            for name, (config, first, later) in MODELS.items()
        }

    def test_each_strategy_writes_its_documented_rows_in_one_commit(self, project):
        def versions(relation):
            return len(project.run_sql(f"describe history {{schema}}.{relation}", fetch="all"))

        run_dbt(["run"])
        relations = [(f"{format}_{name}", name) for format in FORMATS for name in MODELS]
        old_versions = {relation: versions(relation) for relation, name in relations if one_commit_each(name)}
        # `--full-refresh` does not rebuild a model with `full_refresh: false`.
        run_dbt(["run", "--full-refresh", "--select", *(f"{format}_kept_as_is" for format in FORMATS)])
        run_dbt(["run", "--exclude", *(f"{format}_kept_as_is" for format in FORMATS)])
        for relation, name in relations:
            columns, rows = EXPECTED[name]
            table_rows = project.run_sql(f"select {columns} from {{schema}}.{relation}", fetch="all")
            assert sorted(table_rows, key=repr) == rows, relation
            assert not one_commit_each(name) or versions(relation) == old_versions[relation] + 1, relation
        with project.adapter.connection_named("test"):
            for format in FORMATS:
                described = project.adapter.session.describe(project.test_schema, f"{format}_changes")
                assert [field.name for field in described.columns] == ["id", "at", "seq", "name"]


# name: (configs, later query, what the error says); the first query gives row 1.
FAILING = {
    "unknown_operation": (
        "incremental_strategy='cdc', unique_key='id', cdc_operation_column='op', cdc_order_by='at'",
        "select 't' as op, 1 as id, 2 as at",
        "No operation of cdc_operations: `op` is t",
    ),
    "outside": (
        "incremental_strategy='replace_where', replace_where='id < 5', zorder='id'",
        "select 'c' as op, 7 as id, 1 as at",
        "id < 5",
    ),
    "forbidden": (
        "unique_key='id', merge_clauses={'when_matched': [{'action': 'error', 'error_message': 'Rows never change.'}]}",
        "select 'c' as op, 1 as id, 1 as at",
        "Rows never change.",
    ),
    "unmatched": (
        "unique_key='id', merge_clauses={'when_not_matched': [{'action': 'error', 'by': 'source', 'condition': 'id < 3'}]}",
        "select 'c' as op, 2 as id, 1 as at",
        "a row for `when not matched by source` is an error",
    ),
    "differing": ("on_schema_change='fail'", "select 'c' as op, 1L as id, 1 as at, 2 as more", "only the model has `more` int"),
    "mapped": (
        "on_schema_change='sync_all_columns', tblproperties={'delta.columnMapping.mode': 'none'}",
        "select 'c' as op, 1 as id",
        "the table needs delta.columnMapping.mode, but the tblproperties of the model disable it",
    ),
}


class TestRowsThatAreErrors:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            f"{name}.sql": MODEL.format(format="delta", config=config)
            + ROWS.format(first="select 'c' as op, 1 as id, 1 as at", later=later)
            for name, (config, later, _) in FAILING.items()
        }

    def test_errors_are_reported_and_tables_stay_unchanged(self, project):
        run_dbt(["run"])
        results, log = run_dbt_and_capture(["run"], expect_pass=False)
        assert "The config zorder of" in log
        for result in results:
            assert result.status == "error" and FAILING[result.node.name][2] in result.message, (result.node.name, result.message)
            assert project.run_sql(f"select id, at from {{schema}}.{result.node.name}", fetch="all") == [(1, 1)]


REPLACED_MACROS = """
{% macro rowmerge__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates=none) %}
  insert into {{ target }} select {{ unique_key }}, 'merge' from {{ source }}
{% endmacro %}

{% macro rowmerge__get_delete_insert_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
  insert into {{ target }} select {{ unique_key }}, 'delete+insert' from {{ source }}
{% endmacro %}
"""


class TestMacrosOfDbtInAProject:
    @pytest.fixture(scope="class")
    def macros(self):
        return {"replaced.sql": REPLACED_MACROS}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            f"{name}.sql": MODEL.format(format="delta", config=f"incremental_strategy='{strategy}', unique_key='id'")
            + ROWS.format(first="select 1 as id, 'first' as name", later="select 1 as id, 'later' as name")
            for name, strategy in (("merged", "merge"), ("deleted", "delete+insert"))
        }

    def test_a_project_macro_overrides_the_macro_of_a_strategy(self, project):
        run_dbt(["run"])
        run_dbt(["run"])
        for relation, strategy in (("merged", "merge"), ("deleted", "delete+insert")):
            rows = project.run_sql(f"select id, name from {{schema}}.{relation}", fetch="all")
            assert sorted(rows) == sorted([(1, "first"), (1, strategy)])
