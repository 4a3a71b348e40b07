"""Contracts of models in both formats, from the first run to the full refresh."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

ORDERS = """
{{ config(materialized='incremental', unique_key='id', on_schema_change='fail') }}
select {{ var('id', 1) }} as id, {{ var('amount', 5) }} as amount
"""
PROPERTIES = """
models:
  - name: orders
    config: {contract: {enforced: true}}
    constraints:
      - {type: not_null, columns: [ID]}
      - {type: primary_key, columns: [id], warn_unenforced: false}
    columns:
      - {name: id, data_type: int}
      - name: amount
        data_type: int
        constraints: [{type: check, name: positive, expression: amount > 0}]
"""


class Orders:
    @pytest.fixture(scope="class")
    def models(self):
        return {"orders.sql": ORDERS, "orders.yml": PROPERTIES}

    @pytest.fixture
    def rows(self, project):
        return lambda: project.run_sql("select id, amount from {schema}.orders order by id", fetch="all")


def run(expect_pass=True, full_refresh=False, **variables):
    (result,) = run_dbt(["run", "--vars", str(variables), *(["--full-refresh"] if full_refresh else [])], expect_pass=expect_pass)
    return result.message


class TestContract(Orders):
    def test_constraints_are_enforced_in_every_run_and_in_a_full_refresh(self, project, rows):
        assert "positive CHECK (amount > 0)" in run(expect_pass=False, amount=0)
        run()
        assert "positive CHECK (amount > 0). Violating row: amount = -1, id = 2" in run(expect_pass=False, id=2, amount=-1)
        assert "NOT NULL of column `id`" in run(expect_pass=False, full_refresh=True, id="cast(null as int)")
        assert rows() == [(1, 5)]
        run(id=2)
        assert rows() == [(1, 5), (2, 5)]
        properties = dict(project.run_sql("show tblproperties {schema}.orders", fetch="all"))
        assert properties["constraint.primary_key_id"] == "primary key (`id`)"


class TestContractOfAnIcebergTable(Orders):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+file_format": "iceberg"}}

    def test_not_null_is_enforced_and_an_omitted_check_is_reported(self, project, rows):
        _, output = run_dbt_and_capture(["run", "--vars", "{amount: -1}"])
        assert "constraint type check is not supported by Iceberg tables" in " ".join(output.split())
        assert "NOT NULL of column `id`" in run(expect_pass=False, id="cast(null as int)")
        assert rows() == [(1, -1)]
