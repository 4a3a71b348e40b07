"""Types of columns."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.column_types import fixtures
from dbt.tests.adapter.column_types.test_column_types import BasePostgresColumnTypes

from tests.functional.adapter.spark_sql import spark_sql


class TestColumnTypes(BasePostgresColumnTypes):
    @pytest.fixture(scope="class")
    def models(self):
        """Return the suite's models with Spark's types instead of those of Postgres."""
        return {"model.sql": spark_sql(fixtures.model_sql), "schema.yml": fixtures.schema_yml}
