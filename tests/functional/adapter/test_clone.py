"""`dbt clone` creates shallow clones. Incremental models continue from them without changing the cloned tables."""

from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt

pytestmark = pytest.mark.artifacts

ORDERS = """
{{ config(materialized='incremental', unique_key='id', file_format=var('format')) }}
select * from values {{ var('rows') }} as orders(id, amount)
"""


class TestClone:
    @pytest.fixture(scope="class")
    def models(self):
        return {"orders.sql": ORDERS, "looked.sql": "{{ config(materialized='view') }} select * from {{ ref('orders') }}"}

    @pytest.fixture(scope="class")
    def profiles_config_update(self, dbt_profile_target, unique_schema):
        outputs = {"default": dbt_profile_target, "dev": deepcopy(dbt_profile_target)}
        outputs["default"]["schema"] = unique_schema
        outputs["dev"]["schema"] = f"{unique_schema}_dev"
        return {"test": {"outputs": outputs, "target": "default"}}

    @pytest.mark.one_of("format_")
    @pytest.mark.parametrize("format_", ["delta", "iceberg"])
    def test_an_incremental_model_continues_from_a_clone_without_changing_its_source(self, project, format_):
        def dbt(rows, *arguments):
            return run_dbt([*arguments, "--vars", str({"rows": rows, "format": format_})])

        def orders(schema):
            with project.adapter.connection_named("test"):
                table_rows = project.adapter.session.sql(f"select id, amount from {schema}.orders order by id").collect()
            return [tuple(row) for row in table_rows]

        dev = ["--target", "dev", "--state", "state"]
        dbt("(1, 10), (2, 20)", "run", "--full-refresh")
        shutil.rmtree(Path(project.project_root, "state"), ignore_errors=True)
        shutil.copytree(Path(project.project_root, "target"), Path(project.project_root, "state"))

        for _ in range(2):
            # The second time, a table and a view are there to be replaced.
            cloned = {result.node.name: result.message for result in dbt("(0, 0)", "clone", *dev, "--full-refresh")}
            assert cloned["orders"].startswith("OK clone: 2 files, version")
        assert orders(f"{project.test_schema}_dev") == [(1, 10), (2, 20)]

        assert "merge: 1 inserted, 1 updated" in dbt("(2, 21), (3, 30)", "run", "--select", "orders", "--defer", *dev)[0].message
        assert orders(f"{project.test_schema}_dev") == [(1, 10), (2, 21), (3, 30)]
        assert orders(project.test_schema) == [(1, 10), (2, 20)]
        dbt("(2, 22)", "run")
        assert orders(f"{project.test_schema}_dev") == [(1, 10), (2, 21), (3, 30)]
        assert orders(project.test_schema) == [(1, 10), (2, 22)]
