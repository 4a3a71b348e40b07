"""dbt's commands on one small project: their effects on tables, and their output."""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt.tests.util import get_artifact, run_dbt, run_dbt_and_capture, write_file

pytestmark = pytest.mark.artifacts

EVENTS = """
{{ config(materialized='table', event_time='at', grants={'select': ['somebody']}) }}
select id, timestamp '2024-01-01 12:00:00' + make_interval(0, 0, 0, cast(id as int)) as at from range(10)
"""
TYPES = """
select cast(1 as tinyint) as t, 2 as i, 3L as l, 1.5f as f, 2.5d as d, 1.25BD as n, 'it\\'s\\\\x' as s, true as b, date '2024-01-02' as day,
       timestamp '2024-01-02 03:04:05' as at, array(1, 2) as a, map('k', 1) as m, named_struct('x', 1, 'y', 'z') as r
from {{ ref('events') }} where id = 0
"""
INCREMENTAL = "{{ config(materialized='incremental', strategy) }} select * from {{ ref('events') }}"
SAMPLED = {
    "sampled_merge": "incremental_strategy='merge', unique_key='id'",
    "sampled_delete_insert": "incremental_strategy='delete+insert', unique_key='id'",
    "sampled_batches": "incremental_strategy='microbatch', event_time='at', batch_size='day', begin='2024-01-01'",
}
PROPERTIES = """
models:
  - name: events
    columns:
      - name: id
        data_tests:
          - not_null
unit_tests:
  - name: every_type
    model: every_type
    given: [{input: ref('events'), rows: [{id: 0}, {id: 7}]}]
    expect:
      rows:
        - {t: 1, i: 2, l: 3, f: 1.5, d: 2.5, n: 1.25, s: "it's\\\\x", b: true, day: 2024-01-02, at: 2024-01-02 03:04:05,
           a: "array(1, 2)", m: "map('k', 1)", r: "named_struct('x', 1, 'y', 'z')"}
sources:
  - name: landed
    schema: "{{ target.schema }}"
    config: {freshness: {warn_after: {count: 1, period: day}}}
    tables:
      - {name: events}
      - {name: by_field, identifier: events, config: {loaded_at_field: at}}
      - {name: by_query, identifier: events, config: {loaded_at_query: "select max(at) from {{ this }}"}}
"""


class TestCommands:
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"query-comment": {"comment": "it's; a {{ node.name if node else 'comment' }} \\ --", "append": False}}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "events.sql": EVENTS,
            "below.sql": "select * from {{ ref('events') }}",
            "sampled.sql": "{{ config(materialized='table') }} select * from {{ ref('events') }}",
            "every_type.sql": TYPES,
            "properties.yml": PROPERTIES,
            **{f"{name}.sql": INCREMENTAL.replace("strategy", strategy) for name, strategy in SAMPLED.items()},
        }

    @pytest.fixture(scope="class")
    def tests(self):
        return {"only_few.sql": "{{ config(store_failures=true) }} select id from {{ ref('events') }} where id > 1"}

    def test_a_failing_test_skips_downstream_models_and_retry_builds_them(self, project):
        results, said = run_dbt_and_capture(["build", "--exclude", "sampled_batches"], expect_pass=False)
        statuses = {result.node.name: str(result.status) for result in results}
        assert (statuses["events"], statuses["not_null_events_id"]) == ("success", "pass")
        assert statuses["only_few"] == "fail"
        assert statuses["below"] == "skipped"
        assert said.count("The `grants` of") == 1
        failed_rows = project.run_sql("select count(*), min(id) from {schema}_dbt_test__audit.only_few", fetch="one")
        assert failed_rows == (8, 2)

        failing = Path(project.project_root, "tests", "only_few.sql")
        write_file(failing.read_text().replace("id > 1", "id > 9"), str(failing))
        assert {result.node.name for result in run_dbt(["retry"])} >= {"only_few", "below"}

        output = run_dbt_and_capture(["show", "--inline", "select id from {{ ref('events') }} order by id desc", "--limit", "2"])[1]
        assert "|  9 |" in output
        assert "|  7 |" not in output
        nodes = run_dbt(["ls", "--select", "below+", "--resource-type", "model"])
        assert nodes == ["test.below"]
        compiled = run_dbt(["compile", "--select", "below"])[0].node.compiled_code
        assert f"`{project.test_schema}`.`events`" in compiled
        catalog = run_dbt(["docs", "generate", "--select", "events"])
        assert "model.test.events" in catalog.nodes
        assert "model.test.sampled" not in catalog.nodes

        run_dbt(["run", "--select", "sampled", "--sample", "{'start': '2024-01-03', 'end': '2024-01-05'}"])
        assert project.run_sql("select count(*), min(id) from {schema}.sampled", fetch="one") == (2, 2)
        run_dbt(["run", "--select", "sampled", "--empty"])
        assert project.run_sql("select count(*) from {schema}.sampled", fetch="one") == (0,)

    def test_every_strategy_builds_from_a_sample(self, project):
        run_dbt(["run", "--select", "events"])
        for start, end, how, ids in (
            ("2024-01-02", "2024-01-04", ["--full-refresh"], [1, 2]),
            ("2024-01-03", "2024-01-06", [], [1, 2, 3, 4]),
        ):
            run_dbt(["run", *how, "--select", *SAMPLED, "--sample", f"{{'start': '{start}', 'end': '{end}'}}"])
            for name in SAMPLED:
                table_ids = [row[0] for row in project.run_sql(f"select id from {{schema}}.{name} order by id", fetch="all")]
                assert table_ids == ids, name

    def test_source_freshness_uses_the_commit_a_field_or_a_query(self, project):
        run_dbt(["run", "--select", "events"])
        run_dbt(["source", "freshness"])
        results = get_artifact(project.project_root, "target", "sources.json")["results"]
        sources = {each["unique_id"].rsplit(".", 1)[-1]: each for each in results}
        assert {name: each["status"] for name, each in sources.items()} == {"events": "pass", "by_field": "warn", "by_query": "warn"}
        assert sources["by_field"]["max_loaded_at"] == sources["by_query"]["max_loaded_at"]
