"""dbt's cache of relations."""

from __future__ import annotations

from dbt.tests.adapter.caching import test_caching as suite
from dbt.tests.util import run_dbt


class WithoutDatabase:
    def run_and_inspect_cache(self, project, run_args=None):
        """As the suite's, which asks for the database of every relation too."""
        for _ in range(2):
            run_dbt(run_args)
            (relation,) = project.adapter.cache.relations
            assert (relation.database, relation.schema, relation.identifier.lower()) == (None, project.test_schema, "model")


class TestCachingLowercaseModel(WithoutDatabase, suite.BaseCachingLowercaseModel):
    pass


class TestCachingUppercaseModel(WithoutDatabase, suite.BaseCachingUppercaseModel):
    pass


class TestCachingSelectedSchemaOnly(WithoutDatabase, suite.BaseCachingSelectedSchemaOnly):
    pass


class TestNoPopulateCache(WithoutDatabase, suite.BaseNoPopulateCache):
    pass
