"""`--empty`: everything is built, and nothing is in it."""

from __future__ import annotations

from dbt.tests.adapter.empty import test_empty as suite


class TestEmpty(suite.BaseTestEmpty):
    pass


class TestEmptyInlineSourceRef(suite.BaseTestEmptyInlineSourceRef):
    pass


class TestMetadataWithEmptyFlag(suite.MetadataWithEmptyFlag):
    pass
