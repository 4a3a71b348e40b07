"""`dbt run-operation optimize|vacuum|history|restore` on tables of a project."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

NUMBERS = """
{{ config(materialized='incremental', incremental_strategy='append', alias='counted', file_format=var('format'),
          post_hook="{{ optimize(this) if var('optimized', false) }}") }}
select {{ var('number') }} as id
"""
OWN_VACUUM = "{% macro vacuum(relation) %}{{ log('the vacuum of the project', info=True) }}{% endmacro %}"


class TestOperations:
    @pytest.fixture(scope="class")
    def models(self):
        return {"numbers.sql": NUMBERS}

    @pytest.mark.one_of("format_")
    @pytest.mark.parametrize("format_", ["delta", "iceberg"])
    def test_a_table_is_optimized_restored_and_vacuumed_by_its_models_name(self, project, format_):
        def build(number, *arguments):
            run_dbt(["run", "--vars", str({"number": number, "format": format_}), *arguments])

        def operation(name, arguments, expect_pass=True):
            variables = ["--vars", str({"number": 0, "format": format_})]
            return run_dbt_and_capture(["run-operation", name, "--args", arguments, *variables], expect_pass=expect_pass)[1]

        build(1, "--full-refresh")
        build(2)
        history = operation("history", "{relation: numbers, limit: 5}")
        assert f"history `{project.test_schema}`.`counted`: 2 versions, newest first" in history
        assert "WRITE" in history

        assert "2 files (" in operation("optimize", "{table: numbers}")
        with project.adapter.connection_named("test"):
            optimized = project.adapter.session.describe(project.test_schema, "counted").version
        build(3)
        message = operation("restore", f"{{relation: {project.test_schema}.counted, version: {optimized}}}")
        assert "1 file removed, 0 restored; the table has 1 file" in message
        assert project.run_sql("select id from {schema}.counted order by id", fetch="all") == [(1,), (2,)]

        assert "0 files would be deleted" in operation("vacuum", "{relation: numbers, dry_run: true}")
        assert ": 0 files deleted" in operation("vacuum", "{relation: numbers}")
        assert "has no argument 'hours'" in operation("vacuum", "{relation: numbers, hours: 3}", expect_pass=False)
        assert "nowhere" in operation("optimize", "{relation: nowhere}", expect_pass=False)


RENAME = """
{% macro rename(name, new_name) %}
  {% set relation = adapter.get_relation(none, target.schema, name) %}
  {% do adapter.rename_relation(relation, relation.incorporate(path={'identifier': new_name})) %}
  {% do log('renamed: ' ~ (adapter.get_relation(none, target.schema, new_name) is not none), info=True) %}
{% endmacro %}
"""


class TestRename:
    @pytest.fixture(scope="class")
    def models(self):
        return {"numbers.sql": NUMBERS, "numbers_view.sql": "{{ config(materialized='view') }} select 1 as one"}

    @pytest.fixture(scope="class")
    def macros(self):
        return {"rename.sql": RENAME}

    def test_a_macro_renames_a_table_and_a_view(self, project):
        variables = ["--vars", "{number: 7, format: delta}"]
        run_dbt(["run", *variables])
        for name, new_name in (("counted", "kept"), ("numbers_view", "other_view")):
            arguments = ["--args", f"{{name: {name}, new_name: {new_name}}}"]
            assert "renamed: True" in run_dbt_and_capture(["run-operation", "rename", *arguments, *variables])[1]
        run_dbt(["run", *variables])
        assert project.run_sql("select id, one from {schema}.kept, {schema}.other_view", fetch="all") == [(7, 1)]
        assert project.run_sql("select id from {schema}.counted", fetch="all") == [(7,)]


class TestOperationsInHooks:
    @pytest.fixture(scope="class")
    def models(self):
        return {"numbers.sql": NUMBERS}

    @pytest.fixture(scope="class")
    def macros(self):
        return {"vacuum.sql": OWN_VACUUM}

    def test_an_operation_runs_as_a_hook_and_a_project_macro_overrides_it(self, project):
        for number, optimized in ((1, False), (2, True)):
            run_dbt(["run", "--vars", str({"number": number, "format": "delta", "optimized": optimized})])
        with project.adapter.connection_named("test"):
            description = project.adapter.session.describe(project.test_schema, "counted")
        assert (description.version, description.records) == (2, 2)
        _, said = run_dbt_and_capture(["run-operation", "vacuum", "--args", "{relation: x}", "--vars", "{number: 0, format: delta}"])
        assert "the vacuum of the project" in said
        arguments = ["--args", "{hours: 3}", "--vars", "{number: 0, format: delta}"]
        _, said = run_dbt_and_capture(["run-operation", "dbt_rowmerge.vacuum", *arguments], expect_pass=False)
        assert "vacuum has no argument 'hours'" in said
