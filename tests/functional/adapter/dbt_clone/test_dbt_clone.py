"""`dbt clone` creates shallow clones, and views in catalogs without clones, as dbt's suite requires."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.dbt_clone import test_dbt_clone as suite

from tests.functional.adapter.spark_sql import InSparkSql

pytestmark = pytest.mark.artifacts


class TestClonePossible(suite.BaseClonePossible):
    pass


class TestCloneNotPossible(suite.TestPostgresCloneNotPossible):
    pass


class TestCloneSameSourceAndTarget(InSparkSql, suite.BaseCloneSameSourceAndTarget):
    pass


class TestCloneSameTargetAndState(suite.BaseCloneSameTargetAndState):
    pass
