"""Incremental models, in dbt's own words."""

from __future__ import annotations

import re

import pytest
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import (
    BaseIncrementalUniqueKey,
    seeds__add_new_rows_sql,
    seeds__duplicate_insert_sql,
    seeds__seed_csv,
)


class UniqueKey(BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def seeds(self):
        """dbt inserts text into a date column, which ANSI SQL and Spark do not allow: here they are dates."""

        def with_dates(statements):
            return re.sub(r"'(\d{4}-\d\d-\d\d)'", r"date '\1'", statements)

        return {
            "seed.csv": seeds__seed_csv,
            "duplicate_insert.sql": with_dates(seeds__duplicate_insert_sql),
            "add_new_rows.sql": with_dates(seeds__add_new_rows_sql),
        }


class TestUniqueKeyMerge(UniqueKey):
    pass


class TestUniqueKeyDeleteInsert(UniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+incremental_strategy": "delete+insert"}}


class TestPredicatesDeleteInsert(BaseIncrementalPredicates):
    pass


class TestPredicatesMerge(BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+incremental_predicates": ["dbt_internal_dest.id != 2"], "+incremental_strategy": "merge"}}


class TestMicrobatch(BaseMicrobatch):
    pass


class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    pass


class TestOnSchemaChange(BaseIncrementalOnSchemaChange):
    pass
