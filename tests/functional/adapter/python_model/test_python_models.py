"""Python models, as dbt's suite requires."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.python_model import test_python_model as suite, test_spark as spark

from tests.functional.dbt_core import since

ARROW_MODEL = """
import pyarrow as pa


def model(dbt, session):
    dbt.config(materialized="table")
    return pa.table({"City": ["Buenos Aires", "Brasilia"], "Latitude": [-34.58, -15.78]})
"""


class TestPythonModels(suite.BasePythonModelTests):
    pass


class TestPythonIncremental(suite.BasePythonIncrementalTests):
    pass


@since("1.11")
class TestPythonMetaGet(suite.BasePythonMetaGetTests):
    pass


class TestPythonEmpty(suite.BasePythonEmptyTests):
    pass


class TestPythonSample(suite.BasePythonSampleTests):
    pass


class TestDataFrames(spark.BasePySparkTests):
    @pytest.fixture(scope="class")
    def models(self):
        """Return the suite's models with an Arrow table instead of Koalas, which pandas on Spark replaced."""
        return {
            "pandas_df.py": spark.PANDAS_MODEL,
            "pyspark_df.py": spark.PYSPARK_MODEL,
            "pandas_on_spark_df.py": spark.PANDAS_ON_SPARK_MODEL,
            "arrow_table.py": ARROW_MODEL,
        }
