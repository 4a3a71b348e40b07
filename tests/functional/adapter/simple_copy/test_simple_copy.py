"""Seeds that are copied by models of every kind."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.simple_copy import test_copy_uppercase as uppercase, test_simple_copy as suite


class TestSimpleCopy(suite.SimpleCopyBase):
    # There are no materialized views.
    test_simple_copy_with_materialized_views = None


class TestEmptyModelsArentRun(suite.EmptyModelsArentRunBase):
    pass


class TestSimpleCopyUppercase(uppercase.BaseSimpleCopyUppercase):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target):
        """The suite names a database of Postgres."""
        return profile_target
