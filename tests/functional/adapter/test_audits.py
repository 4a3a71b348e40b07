"""The configs `wap_branch` and `wap_id`: models write to a branch or stage a snapshot, and tests read the branch."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

MODEL = """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id', file_format='iceberg',
          tblproperties={'write.wap.enabled': 'true'}, wap_branch=var('branch', none), wap_id=var('id', none),
          full_refresh=var('refresh', none)) }}
select {{ var('value') }} as amount, 1 as id
"""
OTHER_MODEL = """
{{ config(materialized='incremental', incremental_strategy='append', file_format='iceberg',
          tblproperties={'write.wap.enabled': 'true'}) }}
select {{ var('value') }} as amount
"""
TEST = "{{ config(wap_branch=var('branch', none)) }} select * from {{ ref('audited') }} where amount <> {{ var('value') }}"


class TestAudits:
    @pytest.fixture(scope="class")
    def models(self):
        return {"audited.sql": MODEL, "published.sql": OTHER_MODEL}

    @pytest.fixture(scope="class")
    def tests(self):
        return {"amount.sql": TEST}

    def test_models_write_and_tests_read_a_branch(self, project):
        def run(command, **variables):
            return run_dbt([command, "--threads", "2", "--vars", str(variables)], expect_pass=None)

        def amounts(table):
            return sorted(row[0] for row in project.run_sql(f"select amount from {{schema}}.{table}", fetch="all"))

        run("run", value=1)
        results = run("run", value=2, branch="audit")
        assert [result.status for result in results] == ["success"] * 2
        assert amounts("audited") == [1], "the branch alone has the change"
        assert amounts("audited.branch_audit") == [2]
        assert amounts("published") == [1, 2], "another model of the run writes to main"
        assert [result.status for result in run("test", value=2, branch="audit")] == ["pass"]
        assert [result.status for result in run("test", value=2)] == ["fail"]
        run("run", value=3, id="run-3")
        assert amounts("audited") == [1]
        project.run_sql("call system.publish_changes('{schema}.audited', 'run-3')")
        assert amounts("audited") == [3]
        run("run", value=4, branch="audit", refresh=True)
        assert amounts("audited") == [4], "a full refresh replaces the rows of main"
        assert [result.status for result in run("test", value=4, branch="audit")] == ["pass"], "the branch begins with the new rows"
        run("run", value=5, branch="audit")
        assert (amounts("audited"), amounts("audited.branch_audit")) == ([4], [5])
        project.run_sql("call system.fast_forward('{schema}.audited', 'main', 'audit')")
        assert amounts("audited") == [5]
