"""Python models in this process and on the same session."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

MODEL = """
def model(dbt, session):
    dbt.config(materialized='table')
    numbers = dbt.ref('numbers')
    {body}
"""
BODIES = {
    "spark": "return numbers.selectExpr('id + 1 as id')",
    "pandas_": "return numbers.toPandas().assign(id=[1, 2, 3])",
    "pandas_on_spark": "return numbers.pandas_api().assign(id=lambda rows: rows.id + 1)",
    "arrow": "import pyarrow as pa\n    return pa.table({'id': [1, 2, 3]})",
    "arrow_chunks": "import pyarrow as pa\n    tables = [pa.table({'id': pa.array(ids, pa.int64())}) for ids in ([], [1], [], [2, 3])]\n"
    "    return pa.concat_tables(tables)",
    "arrow_reader": "import pyarrow as pa\n    return pa.table({'id': pa.array([1, 2, 3], pa.uint32())}).to_reader()",
    "polars_": "import polars as pl\n    return pl.from_arrow(numbers.toArrow()).with_columns(pl.col('id') + 1)",
    "polars_lazy": "import polars as pl\n    return pl.LazyFrame({'id': [1, 2, 3]})",
    "duckdb_": "import duckdb\n    return duckdb.sql('select i as id from range(1, 4) r (i)')",
}
INCREMENTAL = """
import pandas as pd

def model(dbt, session):
    dbt.config(
        materialized='incremental', incremental_strategy='{strategy}', unique_key='id', partition_by='id', packages=['pandas>=2'],
        meta={{'owner': 'me'}}
    )
    ids = [2, 3] if dbt.is_incremental else [1, 2]
    told = f"{{dbt.this.identifier}} {{dbt.config.get('materialized')}}"
    assert not dbt.is_incremental or str(session.version)
    return pd.DataFrame({{'id': ids, 'is_new': [dbt.is_incremental] * 2, 'told': [told] * 2}})
"""
STRATEGIES = {
    "append": [(1, False), (2, False), (2, True), (3, True)],
    "merge": [(1, False), (2, True), (3, True)],
    "delete+insert": [(1, False), (2, True), (3, True)],
    "insert_overwrite": [(1, False), (2, True), (3, True)],
}
BROKEN = {
    "wrong": MODEL.format(body="return numbers.nothing()"),
    "text": MODEL.format(body="return 'rows'"),
    "udf": """
from pyspark.sql.functions import udf

def fails(value):
    raise ValueError('no such thing')

def model(dbt, session):
    return dbt.ref('numbers').select(udf(fails)('id').alias('a'))
""",
    "needs": MODEL.replace("'table'", "'table', packages=['nobody-has-this', 'pandas<1'], submission_method='job_cluster'").format(
        body="return numbers"
    ),
}


class TestPythonModels:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "numbers.sql": "{{ config(materialized='table') }} select id from range(3)",
            **{f"{name}.py": MODEL.format(body=body) for name, body in BODIES.items()},
            **{f"by_{name.replace('+', '_')}.py": INCREMENTAL.format(strategy=name) for name in STRATEGIES},
            "broken": {f"{name}.py": text for name, text in BROKEN.items()},
        }

    def test_frames_of_all_kinds_become_tables(self, project):
        run_dbt(["run", "--select", "numbers", *BODIES])
        for name in BODIES:
            assert sorted(project.run_sql(f"select id from {{schema}}.{name}", fetch="all")) == [(1,), (2,), (3,)], name

    def test_every_strategy_accepts_a_python_model(self, project):
        names = {strategy: f"by_{strategy.replace('+', '_')}" for strategy in STRATEGIES}
        for _ in range(2):
            run_dbt(["run", "--select", *names.values()])
        for strategy, rows in STRATEGIES.items():
            table_rows = project.run_sql(f"select id, is_new, told from {{schema}}.{names[strategy]} order by id, is_new", fetch="all")
            assert [row[:2] for row in table_rows] == rows, strategy
            assert {row[2] for row in table_rows} == {f"{names[strategy]} incremental"}

    def test_an_error_names_the_model_and_its_line(self, project):
        messages = {result.node.name: result.message for result in run_dbt(["run", "--select", "numbers", "broken"], expect_pass=False)}
        assert "The Python model wrong raised" in messages["wrong"]
        assert "in line 4 (return numbers.nothing())" in messages["wrong"]
        assert "The Python model text returned a str. Return a Spark, pandas or Polars DataFrame" in messages["text"]
        assert "no such thing" in messages["udf"] and "raised in line 4 of the Python model udf" in messages["udf"]
        assert "nobody-has-this is not installed in dbt's environment. Install it: pip install 'nobody-has-this'." in messages["needs"]
        assert "but the model requires <1. Install a version that fits." in messages["needs"]
        assert "submission_method is 'job_cluster', but Python models run in dbt's own process. Remove it." in messages["needs"]
