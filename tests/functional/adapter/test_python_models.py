"""Python models, in this process and on the same session."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.python_model.test_python_model import BasePythonIncrementalTests, BasePythonModelTests
from dbt.tests.util import run_dbt

MODEL = """
def model(dbt, session):
    dbt.config(materialized='table')
    numbers = dbt.ref('numbers')
    {body}
"""


class TestPythonModel(BasePythonModelTests):
    pass


class TestPythonIncremental(BasePythonIncrementalTests):
    pass


class TestReturnedFrames:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "numbers.sql": "{{ config(materialized='table') }} select id from range(3)",
            "spark.py": MODEL.format(body="return numbers.selectExpr('id + 1 as id')"),
            "pandas_.py": MODEL.format(body="return numbers.toPandas().assign(id=[1, 2, 3])"),
            "arrow.py": MODEL.format(body="import pyarrow as pa\n    return pa.table({'id': [1, 2, 3]})"),
            "wrong.py": MODEL.format(body="return numbers.nothing()"),
            "text.py": MODEL.format(body="return 'rows'"),
        }

    def test_frames_of_all_kinds_become_tables(self, project):
        assert len(run_dbt(["run", "--exclude", "wrong", "text"])) == 4
        for name in ("spark", "pandas_", "arrow"):
            assert sorted(project.run_sql(f"select id from {{schema}}.{name}", fetch="all")) == [(1,), (2,), (3,)]

    def test_an_error_names_the_line_of_the_model(self, project):
        results = {result.node.name: result.message for result in run_dbt(["run"], expect_pass=False)}
        assert "The Python model wrong raised" in results["wrong"]
        assert "in line 4" in results["wrong"]
        assert "returned a str. Return a Spark or pandas DataFrame" in results["text"]
