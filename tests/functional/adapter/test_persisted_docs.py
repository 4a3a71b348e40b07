"""Descriptions as comments of every type of relation, for all descriptions and column names."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

TEXT = "It's \"odd\";\nline two -- no comment /* nor this */ \\n `b` {{ '{{' }} " + "long " * 300
SHOWN = TEXT.replace("{{ '{{' }}", "{{")
COLUMN = "A \\ 'column'\nof two lines"
PROPERTIES = """
models:
  - name: as_table
    description: &text {text}
    columns: &columns
      - {{name: id, description: &column {column}}}
      - {{name: MixedCase, quote: true, description: *column}}
  - {{name: as_view, description: *text, columns: *columns}}
  - {{name: as_incremental, description: *text, columns: *columns}}
seeds:
  - {{name: as_seed, description: *text, columns: *columns}}
snapshots:
  - name: as_snapshot
    relation: ref('as_table')
    description: *text
    columns: *columns
    config: {{unique_key: id, strategy: check, check_cols: all}}
"""
QUERY = "select 1 as id, 'x' as `MixedCase`, 2.5 as other"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class TestPersistedDocs:
    @pytest.fixture(scope="class")
    def project_config_update(self):
        docs = {"test": {"+persist_docs": {"relation": True, "columns": True}}}
        return {"models": docs, "seeds": docs, "snapshots": docs}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "as_table.sql": "{{ config(materialized='table') }} " + QUERY,
            "as_view.sql": "{{ config(materialized='view') }} " + QUERY,
            "as_incremental.sql": "{{ config(materialized='incremental', unique_key='id') }} " + QUERY,
            "properties.yml": PROPERTIES.format(text=quoted(TEXT), column=quoted(COLUMN)),
        }

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"as_seed.csv": "id,MixedCase,other\n1,x,2.5\n"}

    def test_every_build_persists_comments_in_at_most_one_commit(self, project):
        versions = {}
        for again in (False, True):
            assert all(result.status == "success" for result in run_dbt(["build"]))
            with project.adapter.connection_named("test"):
                for name in ("as_table", "as_view", "as_incremental", "as_seed", "as_snapshot"):
                    description = project.adapter.session.describe(project.test_schema, name)
                    assert description.comment == SHOWN, name
                    comments = {field.name: field.comment for field in description.columns}
                    assert comments["id"] == comments["MixedCase"] == COLUMN, name
                    assert comments["other"] is None
                    versions[name, again] = description.version
        assert versions["as_table", False] <= 1
        assert versions["as_seed", False] == 0
        assert versions["as_incremental", True] == versions["as_incremental", False] + 1
