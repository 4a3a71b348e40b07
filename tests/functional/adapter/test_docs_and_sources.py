"""The catalog of `dbt docs generate`, and source freshness."""

from __future__ import annotations

import pytest
from dbt.tests.util import get_artifact, get_connection, run_dbt

pytestmark = pytest.mark.artifacts


class TestCatalog:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "numbers.sql": "{{ config(materialized='table', partition_by='part') }} select id, 'x' as part from range(10)",
            "schema.yml": "models: [{name: numbers, columns: [{name: id, description: The id}], config: {persist_docs: {columns: true}}}]",
            "sources.yml": """
sources:
  - name: raw
    schema: "{{ target.schema }}"
    config: {freshness: {warn_after: {count: 1, period: day}}}
    tables: [{name: numbers}]
""",
        }

    def test_the_catalog_contains_size_rows_version_and_comments(self, project):
        run_dbt(["run"])
        catalog = run_dbt(["docs", "generate"])
        node = catalog.nodes["model.test.numbers"]
        stats = {name: item.value for name, item in node.stats.items()}
        assert stats["num_rows"] == "10"
        assert stats["partition_columns"] == "part"
        assert stats["format"] == "delta"
        assert int(stats["bytes"]) > 0
        assert int(stats["num_files"]) == 1
        assert stats["num_deleted_rows"] == "0"
        assert node.columns["id"].comment == "The id"
        assert node.columns["id"].index == 1
        with get_connection(project.adapter):
            relation = project.adapter.get_relation(None, project.test_schema, "numbers")
            single = project.adapter.get_catalog_for_single_relation(relation)
        assert {name: column.type for name, column in single.columns.items()} == {"id": "bigint", "part": "string"}

    def test_source_freshness_uses_the_newest_commit(self, project):
        run_dbt(["run"])
        run_dbt(["source", "freshness"])
        result = get_artifact(project.project_root, "target", "sources.json")["results"][0]
        assert result["status"] == "pass"
        assert 0 <= result["max_loaded_at_time_ago_in_s"] < 600
