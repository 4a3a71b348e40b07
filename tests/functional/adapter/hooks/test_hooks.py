"""Hooks of models, seeds, snapshots and runs."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.hooks import test_model_hooks as models, test_run_hooks as runs

from tests.functional.adapter.spark_sql import InSparkSql


class Hooked(InSparkSql):
    beside = models

    def check_context(self, context, state, project):
        """Check the context as the suite does, without its connection to Postgres."""
        assert context["test_state"] == state
        assert (context["target_name"], context["target_type"]) == ("default", "rowmerge")
        assert (context["target_schema"], context["target_threads"]) == (project.test_schema, 4)
        assert context["run_started_at"] and context["invocation_id"]
        assert context["thread_id"].startswith("Thread-") or context["thread_id"] == "MainThread"


class ModelHooks(Hooked):
    def check_hooks(self, state, project, host, count=1):
        for context in self.get_ctx_vars(state, count=count, project=project):
            self.check_context(context, state, project)


class TestPrePostModelHooks(ModelHooks, models.BasePrePostModelHooks):
    pass


class TestPrePostModelHooksUnderscores(ModelHooks, models.TestPrePostModelHooksUnderscores):
    pass


class TestHookRefs(ModelHooks, models.BaseHookRefs):
    pass


class TestPrePostModelHooksInConfig(ModelHooks, models.BasePrePostModelHooksInConfig):
    pass


class TestPrePostModelHooksInConfigWithCount(ModelHooks, models.BasePrePostModelHooksInConfigWithCount):
    pass


class TestPrePostModelHooksInConfigKwargs(ModelHooks, models.BasePrePostModelHooksInConfigKwargs):
    pass


class TestDuplicateHooksInConfigs(models.BaseDuplicateHooksInConfigs):
    pass


class TestPrePostModelHooksOnSeeds(models.BasePrePostModelHooksOnSeeds):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixed(models.BasePrePostModelHooksOnSeedsPlusPrefixed):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixedWhitespace(models.BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace):
    pass


class TestHooksRefsOnSeeds(models.BaseHooksRefsOnSeeds):
    pass


class TestPrePostModelHooksOnSnapshots(models.BasePrePostModelHooksOnSnapshots):
    pass


class TestPrePostSnapshotHooksInConfigKwargs(models.BasePrePostSnapshotHooksInConfigKwargs):
    pass


class TestPrePostRunHooks(Hooked, runs.BasePrePostRunHooks):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        """Return the hooks of the suite, whose tables have columns of type `text`, with Spark's types."""
        hook = "{{ custom_run_hook('%s', target, run_started_at, invocation_id) }}"
        table = "{{ target.schema }}.%s_hook_order_test"
        rows = "{% for schema in schemas %}('{{ schema }}'){{ ',' if not loop.last }}{% endfor %}"
        pairs = "{% for db, schema in database_schemas %}('{{ db }}', '{{ schema }}'){{ ',' if not loop.last }}{% endfor %}"

        def in_order(state):
            return [hook % state, f"create table {table % state} (id int)", f"drop table {table % state}"]

        return {
            "on-run-start": [*in_order("start"), "{{ log(env_var('TERM_TEST'), info=True) }}"],
            "on-run-end": [
                *in_order("end"),
                "create table {{ target.schema }}.schemas (schema string)",
                "insert into {{ target.schema }}.schemas (schema) values " + rows,
                "create table {{ target.schema }}.db_schemas (db string, schema string)",
                "insert into {{ target.schema }}.db_schemas (db, schema) values " + pairs,
            ],
            "seeds": {"quote_columns": False},
        }

    def check_hooks(self, state, project, host):
        self.check_context(self.get_ctx_vars(state, project), state, project)

    def assert_used_schemas(self, project):
        """Check the used schemas as the suite does, with SQL for Spark's schemas."""
        assert project.run_sql("select * from {schema}.schemas", fetch="all") == [(project.test_schema,)]
        assert project.run_sql("select * from {schema}.db_schemas", fetch="all") == [("rowmerge", project.test_schema)]


class TestAfterRunHooks(runs.BaseAfterRunHooks):
    pass
