"""dbt's cache of relations."""

from __future__ import annotations

from dbt.tests.adapter.caching import test_caching as suite


class TestCachingLowercaseModel(suite.BaseCachingLowercaseModel):
    pass


class TestCachingUppercaseModel(suite.BaseCachingUppercaseModel):
    pass


class TestCachingSelectedSchemaOnly(suite.BaseCachingSelectedSchemaOnly):
    pass


class TestNoPopulateCache(suite.BaseNoPopulateCache):
    pass
