"""Snapshots, in dbt's own words."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.simple_snapshot import fixtures, new_record_dbt_valid_to_current, new_record_timestamp_mode
from dbt.tests.adapter.simple_snapshot import test_ephemeral_snapshot_hard_deletes as ephemeral
from dbt.tests.adapter.simple_snapshot import test_snapshot as suite
from dbt.tests.adapter.simple_snapshot import test_various_configs as configs
from dbt.tests.adapter.simple_snapshot.new_record_check_mode import BaseSnapshotNewRecordCheckMode
from dbt.tests.util import check_relations_equal, run_dbt

from tests.functional.adapter.spark_sql import InSparkSql, spark_sql


class TestSimpleSnapshot(suite.BaseSimpleSnapshot):
    pass


class TestSnapshotCheck(suite.BaseSnapshotCheck):
    pass


class OfTheSeed(InSparkSql):
    @pytest.fixture(scope="class")
    def snapshots(self):
        """There is no database before the schema."""
        return {"snapshot.sql": spark_sql(fixtures.snapshot_actual_sql)}


class TestSnapshotColumnNames(OfTheSeed, configs.BaseSnapshotColumnNames):
    pass


class TestSnapshotColumnNamesFromDbtProject(OfTheSeed, configs.BaseSnapshotColumnNamesFromDbtProject):
    pass


class TestSnapshotInvalidColumnNames(OfTheSeed, configs.BaseSnapshotInvalidColumnNames):
    pass


class TestSnapshotDbtValidToCurrent(OfTheSeed, configs.BaseSnapshotDbtValidToCurrent):
    def test_valid_to_current(self, project):
        """As the suite's, which relies on the order in which Postgres returns rows, and on moments without a zone."""

        def ends():
            rows = project.run_sql("select id, string(test_valid_to) from {schema}.snapshot_actual where id in (1, 10)", fetch="all")
            return sorted(tuple(row) for row in rows)

        for sql in (configs.create_seed_sql, configs.create_snapshot_expected_sql, configs.seed_insert_sql):
            project.run_sql(sql)
        project.run_sql(configs.populate_snapshot_expected_valid_to_current_sql)
        run_dbt(["snapshot"])
        assert ends() == [(1, "2099-12-31 00:00:00"), (10, "2099-12-31 00:00:00")]
        project.run_sql(configs.invalidate_sql)
        project.run_sql(configs.update_with_current_sql)
        run_dbt(["snapshot"])
        assert ends() == [(1, "2099-12-31 00:00:00"), (10, "2016-08-20 16:44:49"), (10, "2099-12-31 00:00:00")]
        check_relations_equal(project.adapter, ["snapshot_actual", "snapshot_expected"])


class TestSnapshotMultiUniqueKey(InSparkSql, configs.BaseSnapshotMultiUniqueKey):
    pass


class NewRecords(InSparkSql):
    @pytest.fixture(scope="class")
    def snapshots(self):
        """There is no database before the schema."""
        return {"snapshot.sql": spark_sql(new_record_timestamp_mode._snapshot_actual_sql)}


class TestSnapshotNewRecordTimestampMode(NewRecords, new_record_timestamp_mode.BaseSnapshotNewRecordTimestampMode):
    pass


class TestSnapshotNewRecordCheckMode(NewRecords, BaseSnapshotNewRecordCheckMode):
    pass


class TestSnapshotNewRecordDbtValidToCurrent(InSparkSql, new_record_dbt_valid_to_current.BaseSnapshotNewRecordDbtValidToCurrent):
    @pytest.fixture(scope="class")
    def snapshots(self):
        """There is no database before the schema."""
        return {"snapshot.sql": spark_sql(new_record_dbt_valid_to_current._snapshot_actual_sql)}


class Customers(InSparkSql):
    @pytest.fixture(scope="class")
    def source_alter_sql(self):
        """Delta adds no column with a default to a table that has rows."""
        return ephemeral._source_alter_sql.replace("default 'dummy_value'", "")


class TestSnapshotEphemeralHardDeletes(Customers, ephemeral.BaseSnapshotEphemeralHardDeletes):
    pass


class TestSnapshotNewColumnTimestampStrategy(Customers, ephemeral.BaseSnapshotNewColumnTimestampStrategy):
    pass


class TestSnapshotNewColumnSpecificCheckCols(Customers, ephemeral.BaseSnapshotNewColumnSpecificCheckCols):
    pass


class TestSnapshotNewColumnWithDeletes(Customers, ephemeral.BaseSnapshotNewColumnWithDeletes):
    pass
