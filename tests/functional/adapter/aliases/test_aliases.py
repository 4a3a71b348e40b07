"""Aliases of models."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.aliases import fixtures, test_aliases as suite

from tests.functional.adapter.spark_sql import spark_sql


class SparkStrings:
    @pytest.fixture(scope="class")
    def macros(self):
        """Return the suite's macros with casts to `string` instead of `text`."""
        return {"cast.sql": spark_sql(fixtures.MACROS__CAST_SQL), "expect_value.sql": fixtures.MACROS__EXPECT_VALUE_SQL}


class TestAliases(SparkStrings, suite.BaseAliases):
    pass


class TestAliasErrors(suite.BaseAliasErrors):
    pass


class TestSameAliasDifferentSchemas(SparkStrings, suite.BaseSameAliasDifferentSchemas):
    pass


class TestSameAliasDifferentDatabases(SparkStrings, suite.BaseSameAliasDifferentDatabases):
    pass
