"""Sources that are files or tables of another warehouse."""

from __future__ import annotations

import os
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt.tests.util import get_connection, run_dbt

import rowmerge

SOURCES = """
sources:
  - name: files
    schema: raw
    meta: {{location: "{folder}/{{name}}.csv", format: csv}}
    tables:
      - name: orders
        columns: [{{name: id, data_tests: [unique, not_null]}}]
        config: {{freshness: {{warn_after: {{count: 1, period: day}}}}, event_time: at}}
      - name: lines
        config: {{meta: {{options: {{sep: "|", header: false}}, schema: "id bigint, v string"}}}}
      - name: parts
        config: {{meta: {{location: "{folder}/parts/*.parquet", format: parquet}}}}
      - name: made
        meta: {{location: "{folder}/other/default/made", format: delta, options: {{versionAsOf: 0}}}}
      - name: gone
        meta: {{external_location: "{folder}/gone.json"}}
  - name: plain
    schema: "{{{{ target.schema }}}}"
    tables: [{{name: numbers, meta: {{location: Berlin}}}}]
"""
MODELS = {
    "numbers.sql": "{{ config(materialized='table') }} select 1 as id",
    "joined.sql": """
        select o.id, l.v, p.id as part, m.id as made
        from {{ source('files', 'orders') }} o
        join {{ source('files', 'lines') }} l on l.id = o.id
        join {{ source('files', 'parts') }} as p on p.id = o.id
        join {{ source('files', 'made') }} m on m.id = o.id
    """,
    "from_python.py": """
def model(dbt, session):
    dbt.config(materialized='table')
    return dbt.source('files', 'orders').select('id')
""",
    "plain.sql": "-- depends_on: {{ ref('numbers') }}\nselect * from {{ source('plain', 'numbers') }}",
    "lost.sql": "select * from {{ source('files', 'gone') }}",
    "tests.yml": """
unit_tests:
  - name: only_rows_of_all_sources
    model: joined
    given:
      - {input: "source('files', 'orders')", rows: [{id: 1}, {id: 2}]}
      - {input: "source('files', 'lines')", rows: [{id: 1, v: a}]}
      - {input: "source('files', 'parts')", rows: [{id: 1}]}
      - {input: "source('files', 'made')", rows: [{id: 1}]}
    expect: {rows: [{id: 1, v: a, part: 1, made: 1}]}
""",
}


class TestExternalSources:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("it's here")
        (folder / "orders.csv").write_text("id,at\n1,2024-01-01 00:00:00\n2,2024-01-02 00:00:00\n")
        (folder / "lines.csv").write_text("1|a\n2|b\n3|c\n")
        (folder / "parts").mkdir()
        for number in (1, 2):
            pq.write_table(pa.table({"id": [number]}), folder / f"parts/{number}.parquet")
        two_days_ago = time.time() - 2 * 86400
        os.utime(folder / "orders.csv", (two_days_ago, two_days_ago))
        return folder

    @pytest.fixture(scope="class")
    def models(self, folder):
        return {**MODELS, "sources.yml": SOURCES.format(folder=str(folder))}

    @pytest.fixture(scope="class")
    def built(self, project, folder):
        with get_connection(project.adapter):
            other = rowmerge.connect(str(folder / "other"), spark=project.adapter.session.spark)
        other.sql("create table made using delta as select 1 as id")
        other.sql("insert into made values (2)")
        return {result.node.name: result for result in run_dbt(["build"], expect_pass=False)}

    def test_models_tests_and_unit_tests_read_files(self, project, built):
        assert {name for name, result in built.items() if str(result.status) not in ("success", "pass")} == {"lost"}
        assert project.run_sql("select * from {schema}.joined", fetch="all") == [(1, "a", 1, 1)]
        assert sorted(project.run_sql("select * from {schema}.from_python", fetch="all")) == [(1,), (2,)]

    def test_a_missing_file_is_reported_with_its_source(self, built, folder):
        assert f"There is no file for raw.gone ({folder}/gone.json). Check the path." in built["lost"].message

    def test_empty_and_sampled_runs_read_no_or_few_rows(self, project, built):
        run_dbt(["run", "--empty", "--select", "joined", "from_python"])
        assert project.run_sql("select * from {schema}.joined", fetch="all") == []
        run_dbt(["run", "--sample", "{'start': '2024-01-02', 'end': '2024-01-03'}", "--select", "from_python"])
        assert project.run_sql("select * from {schema}.from_python", fetch="all") == [(2,)]

    def test_docs_and_freshness_include_file_sources(self, built):
        catalog = run_dbt(["docs", "generate", "--exclude", "lost"])
        assert list(catalog.sources["source.test.files.orders"].columns) == ["id", "at"]
        assert catalog.sources["source.test.files.orders"].stats["format"].value == "csv"
        assert int(catalog.sources["source.test.files.parts"].stats["bytes"].value) > 0
        fresh = run_dbt(["source", "freshness", "--select", "source:files.orders"])
        assert [str(result.status) for result in fresh] == ["warn"]
