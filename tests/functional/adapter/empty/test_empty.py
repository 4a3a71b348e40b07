"""`--empty` builds everything without rows."""

from __future__ import annotations

from dbt.tests.adapter.empty import test_empty as suite

from tests.functional.dbt_core import since


class TestEmpty(suite.BaseTestEmpty):
    pass


class TestEmptyInlineSourceRef(suite.BaseTestEmptyInlineSourceRef):
    pass


class TestMetadataWithEmptyFlag(suite.MetadataWithEmptyFlag):
    pass


@since("1.12")
class TestEmptySeedFlag(suite.BaseTestEmptySeedFlag):
    pass
