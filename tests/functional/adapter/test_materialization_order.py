"""The order of config checks, hooks, header and model, and the effects of a full refresh."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

FORMATS = ("delta", "iceberg")
HEADED = """
{{% call set_sql_header(config) %}}
create or replace temporary view {name}_rows as select (select count(*) from {{{{ target.schema }}}}.log) as logged, 1 as id;
{{% endcall %}}
{{{{ config({config}) }}}}
select id, logged from {name}_rows
"""
KINDS = {
    "a_table": "materialized='table'",
    "a_view": "materialized='view'",
    "an_incremental": "materialized='incremental', unique_key='id', on_schema_change='fail'",
    "a_contract": "materialized='table', contract={'enforced': true}",
}
WRONG = """
{{ config(
    materialized='incremental', unique_key='id', merge_update_column=['id'], matched_condition='true', update_condition='true',
    pre_hook="insert into {{ target.schema }}.log values ('wrong', 0)"
) }}
select 1 as id
"""
REFRESHED = """
{{{{ config(
    materialized='incremental', unique_key='id', file_format='{format}', partition_by=var('partition', 'day'),
    incremental_strategy=var('strategy', 'merge'), **var('more', {{}})
) }}}}
select {{{{ var('columns', "1 as id, 'mon' as day") }}}} from {{{{ ref('one') }}}}
"""


class TestOrder:
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"on-run-start": ["create table if not exists {{ target.schema }}.log (what string, before bigint)"]}

    @pytest.fixture(scope="class")
    def models(self):
        log = '"insert into " ~ target.schema ~ ".log values (\'{what}\', 0)"'
        outside, inside, last = (log.format(what=what) for what in ("first", "second", "last"))
        hooks = f", pre_hook=[{{'sql': {outside}, 'transaction': false}}, {inside}], post_hook={last}"
        headed = {
            f"{name}.sql": HEADED.format(name=name, config=config + (hooks if name == "an_incremental" else ""))
            for name, config in KINDS.items()
        }
        columns = "columns: [{name: id, data_type: int}, {name: logged, data_type: bigint}]"
        return {**headed, "wrong.sql": WRONG, "schema.yml": f"models: [{{name: a_contract, {columns}}}]"}

    def test_hooks_run_before_the_header_and_the_header_before_the_model(self, project):
        for _ in range(2):
            run_dbt(["run", "--exclude", "wrong"])
        for name in KINDS:
            assert project.run_sql(f"select count(*) from {{schema}}.{name}", fetch="one") == (1,)
        # Both pre-hooks run before the header counts, and the post-hook runs after it.
        assert project.run_sql("select logged from {schema}.an_incremental", fetch="one") == (5,)
        assert [row[0] for row in project.run_sql("select what from {schema}.log", fetch="all")].count("last") == 2

    def test_all_config_errors_are_reported_before_the_hooks_run(self, project):
        result = run_dbt(["run", "--select", "wrong"], expect_pass=False)[-1]
        assert "there is no config merge_update_column. Did you mean merge_update_columns?" in result.message
        assert "matched_condition and update_condition are names of the same config" in result.message
        assert project.run_sql("select count(*) from {schema}.log where what = 'wrong'", fetch="one") == (0,)


class TestRefreshes:
    """One table of each format: built, changed, rebuilt with other columns and partitions, and run with `--empty`."""

    @pytest.fixture(scope="class")
    def models(self):
        return {"one.sql": "select 1 as one", **{f"{format}.sql": REFRESHED.format(format=format) for format in FORMATS}}

    def test_a_full_refresh_replaces_the_table_in_place_and_an_empty_run_does_not_change_it(self, project):
        def run(*arguments, **variables):
            run_dbt(["run", *arguments, "--vars", str(variables)])

        def rows(columns, at=""):
            return [sorted(project.run_sql(f"select {columns} from {{schema}}.{format} {at}", fetch="all")) for format in FORMATS]

        run()
        versions = [project.run_sql(f"describe history {{schema}}.{format}", fetch="all")[0][0] for format in FORMATS]
        run("--full-refresh", columns="2 as key, 'x' as name, 3 as part", partition="part")
        assert rows("key, name, part") == [[(2, "x", 3)]] * 2
        # The version before the refresh is still readable.
        for format, version in zip(FORMATS, versions, strict=True):
            assert project.run_sql(f"select id, day from {{schema}}.{format} version as of {version}", fetch="all") == [(1, "mon")]
        run("--full-refresh")
        for strategy in ("merge", "append", "delete+insert", "delete", "replace_where", "cdc"):
            more = {"replace_where": "id > 100", "cdc_operation_column": "op", "cdc_order_by": "day"}
            columns = "1 as id, 'mon' as day" + (", 'x' as op" if strategy == "cdc" else "")
            run("--empty", strategy=strategy, columns=columns, more=more)
            assert rows("id, day") == [[(1, "mon")]] * 2, strategy
