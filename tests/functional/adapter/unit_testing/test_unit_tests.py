"""Unit tests of models."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.unit_testing import test_quoted_reserved_word_column_names as reserved
from dbt.tests.adapter.unit_testing.test_case_insensitivity import BaseUnitTestCaseInsensivity
from dbt.tests.adapter.unit_testing.test_invalid_input import BaseUnitTestInvalidInput
from dbt.tests.adapter.unit_testing.test_types import BaseUnitTestingTypes, BaseUnitTestingVarcharFixtureNoTruncation

from tests.functional.adapter.spark_sql import spark_sql


class TestCaseInsensitivity(BaseUnitTestCaseInsensivity):
    pass


class TestInvalidInput(BaseUnitTestInvalidInput):
    pass


class TestVarcharFixtureNoTruncation(BaseUnitTestingVarcharFixtureNoTruncation):
    pass


class TestQuotedReservedWordColumnNames(reserved.BaseUnitTestQuotedReservedWordColumnNames):
    @pytest.fixture(scope="class")
    def models(self):
        """Return the suite's models with names in backquotes."""
        return {
            "my_model.sql": reserved.my_model_sql,
            "my_upstream_model.sql": spark_sql(reserved.my_upstream_model_with_reserved_word_column_name_sql),
            "unit_tests.yml": reserved.test_my_model_csv_fixtures_yml,
        }


class TestTypes(BaseUnitTestingTypes):
    @pytest.fixture
    def data_types(self):
        """Return values as Spark writes them, without JSON."""
        return [
            ["1", "1"],
            ["'1'", "1"],
            ["true", "true"],
            ["DATE '2020-01-02'", "2020-01-02"],
            ["TIMESTAMP '2013-11-03 00:00:00'", "2013-11-03 00:00:00"],
            ["cast(1.5 as decimal(10, 2))", "1.5"],
            ["array(1, 2, 3)", "'array(1, 2, 3)'"],
            ["map('10', 't', '15', 'f')", """'map("10", "t", "15", "f")'"""],
        ]
