"""The files that a model reads, in run_results.json and in its line on the console."""

from __future__ import annotations

import pytest
from dbt.tests.util import get_artifact, run_dbt, run_dbt_and_capture

MODEL = """
{{ config(materialized='incremental', unique_key='id', incremental_strategy=var('strategy'), file_format=var('format')) }}
select e.id, n.name
from {{ target.schema }}.events e join {{ ref('names') }} n on e.id = n.id
where e.id {{ '= 3' if is_incremental() else '< 3' }}
"""
NAMES = "{{ config(materialized='view') }} select id, name from {{ target.schema }}.people where name is not null"


@pytest.mark.artifacts
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
class TestFilesRead:
    @pytest.fixture(scope="class")
    def models(self):
        return {"chosen.sql": MODEL, "names.sql": NAMES}

    @pytest.fixture(autouse=True)
    def tables(self, project, format_):
        """Create `events` with the ids 1, 2 and 3 in three files, and `people` with one file."""
        project.run_sql(f"create or replace table {{schema}}.people using {format_} as select 3 as id, 'c' as name")
        project.run_sql(f"create table {{schema}}.events (id int) using {format_}")
        for id_ in (1, 2, 3):
            project.run_sql(f"insert into {{schema}}.events values ({id_})")
        yield
        for table in ("people", "events", "chosen"):
            project.run_sql(f"drop table {{schema}}.{table}")

    @pytest.mark.parametrize("strategy", ["merge", "append", "delete+insert"])
    def test_run_results_and_console_show_the_files_that_the_queries_of_a_model_read(self, project, format_, strategy):
        arguments = ["run", "--vars", str({"strategy": strategy, "format": format_})]
        first = {result.node.name: result for result in run_dbt(arguments)}["chosen"]
        assert ", read 2 of 4 files, version " in first.message
        _, console = run_dbt_and_capture(arguments)
        results = get_artifact(project.project_root, "target", "run_results.json")["results"]
        (response,) = (result["adapter_response"] for result in results if result["unique_id"].endswith(".chosen"))
        assert (response["files_read"], response["files_total"]) == (2, 4)
        assert 0 < response["bytes_read"] < response["bytes_total"]
        assert "read 2 of 4 files" in console
