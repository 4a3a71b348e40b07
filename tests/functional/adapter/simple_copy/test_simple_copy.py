"""Seeds that are copied by models of every kind."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.simple_copy import test_copy_uppercase as uppercase
from dbt.tests.adapter.simple_copy import test_simple_copy as suite


class TestSimpleCopy(suite.SimpleCopyBase):
    # There are no materialized views.
    test_simple_copy_with_materialized_views = None


class TestEmptyModelsArentRun(suite.EmptyModelsArentRunBase):
    @pytest.fixture(scope="class")
    def project(self, project):
        """There is no information_schema: the adapter is asked."""

        def tables():
            with project.adapter.connection_named("_test"):
                return {each.identifier: each.type for each in project.adapter.list_relations(None, project.test_schema)}

        project.get_tables_in_schema = tables
        return project


class TestSimpleCopyUppercase(uppercase.BaseSimpleCopyUppercase):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target):
        """The suite names a database of Postgres."""
        return profile_target
