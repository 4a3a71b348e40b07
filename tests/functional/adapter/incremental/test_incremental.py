"""Incremental models: strategies, predicates, keys and schema changes."""

from __future__ import annotations

import re

import pytest
from dbt.tests.adapter.incremental import test_incremental_predicates as predicates, test_incremental_unique_id as unique_id
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange


class UniqueKey(unique_id.BaseIncrementalUniqueKey):
    @pytest.fixture(scope="class")
    def seeds(self):
        """Return the suite's seed with dates: the suite inserts strings into a date column, which ANSI SQL and Spark reject."""
        statements = {"duplicate_insert.sql": unique_id.seeds__duplicate_insert_sql, "add_new_rows.sql": unique_id.seeds__add_new_rows_sql}
        dated = {name: re.sub(r"'(\d{4}-\d\d-\d\d)'", r"date '\1'", text) for name, text in statements.items()}
        return {"seed.csv": unique_id.seeds__seed_csv, **dated}


class TestUniqueKeyMerge(UniqueKey):
    pass


class TestUniqueKeyDeleteInsert(UniqueKey):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        """Set the strategy, because the suite's tests do not depend on one."""
        return {"models": {"+incremental_strategy": "delete+insert"}}


class TestIncrementalPredicatesDeleteInsert(predicates.BaseIncrementalPredicates):
    pass


class TestPredicatesDeleteInsert(predicates.TestPredicatesDeleteInsert):
    pass


class TestPredicatesMerge(predicates.BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        """Set the strategy, because the suite's tests do not depend on one."""
        return {"models": {"+incremental_predicates": ["dbt_internal_dest.id != 2"], "+incremental_strategy": "merge"}}


class TestMicrobatch(BaseMicrobatch):
    pass


class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    pass


class TestOnSchemaChange(BaseIncrementalOnSchemaChange):
    pass
