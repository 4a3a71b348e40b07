"""Seeds that models of every materialization copy."""

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
        """Return the profile without the Postgres database that the suite names."""
        return profile_target
