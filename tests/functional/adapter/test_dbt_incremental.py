"""Incremental models, in dbt's own words."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.util import run_dbt


class TestUniqueKeyMerge(BaseIncrementalUniqueKey):
    pass


class TestUniqueKeyDeleteInsert(BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+incremental_strategy": "delete+insert"}}


class TestPredicatesDeleteInsert(BaseIncrementalPredicates):
    pass


class TestPredicatesMerge(BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+incremental_predicates": ["dbt_internal_dest.id != 2"], "+incremental_strategy": "merge"}}


class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    pass


class TestOnSchemaChange(BaseIncrementalOnSchemaChange):
    def run_incremental_sync_all_columns(self, project):
        """A column would have to be dropped: the second run stops, and says so."""
        select = "model_a incremental_sync_all_columns"
        run_dbt(["run", "--select", select, "--full-refresh"])
        results = run_dbt(["run", "--select", select], expect_pass=False)
        assert "cannot be dropped" in results[1].message

    def run_incremental_sync_remove_only(self, project):
        select = "model_a incremental_sync_remove_only"
        run_dbt(["run", "--select", select, "--full-refresh"])
        results = run_dbt(["run", "--select", select], expect_pass=False)
        assert "cannot be dropped" in results[1].message
