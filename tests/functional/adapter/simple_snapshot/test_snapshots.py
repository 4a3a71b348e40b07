"""Snapshots, as dbt's suite requires."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.simple_snapshot import (
    new_record_dbt_valid_to_current,
    new_record_timestamp_mode,
    test_ephemeral_snapshot_hard_deletes as ephemeral,
    test_snapshot as suite,
    test_various_configs as configs,
)
from dbt.tests.adapter.simple_snapshot.new_record_check_mode import BaseSnapshotNewRecordCheckMode
from dbt.tests.util import check_relations_equal, run_dbt

from tests.functional.adapter.spark_sql import InSparkSql


class TestSimpleSnapshot(suite.BaseSimpleSnapshot):
    pass


class TestSnapshotCheck(suite.BaseSnapshotCheck):
    pass


class TestSnapshotColumnNames(InSparkSql, configs.BaseSnapshotColumnNames):
    pass


class TestSnapshotColumnNamesFromDbtProject(InSparkSql, configs.BaseSnapshotColumnNamesFromDbtProject):
    pass


class TestSnapshotInvalidColumnNames(InSparkSql, configs.BaseSnapshotInvalidColumnNames):
    pass


class TestSnapshotDbtValidToCurrent(InSparkSql, configs.BaseSnapshotDbtValidToCurrent):
    def test_valid_to_current(self, project):
        """As in the suite, which depends on the row order of Postgres and on timestamps without a zone."""

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


class TestSnapshotNewRecordTimestampMode(InSparkSql, new_record_timestamp_mode.BaseSnapshotNewRecordTimestampMode):
    pass


class TestSnapshotNewRecordCheckMode(InSparkSql, BaseSnapshotNewRecordCheckMode):
    pass


class TestSnapshotNewRecordDbtValidToCurrent(InSparkSql, new_record_dbt_valid_to_current.BaseSnapshotNewRecordDbtValidToCurrent):
    pass


class Customers(InSparkSql):
    @pytest.fixture(scope="class")
    def source_alter_sql(self):
        """Add the column without a default: Delta adds no column with a default to a table that has rows."""
        return ephemeral._source_alter_sql.replace("default 'dummy_value'", "")


class TestSnapshotEphemeralHardDeletes(Customers, ephemeral.BaseSnapshotEphemeralHardDeletes):
    pass


class TestSnapshotNewColumnTimestampStrategy(Customers, ephemeral.BaseSnapshotNewColumnTimestampStrategy):
    pass


class TestSnapshotNewColumnSpecificCheckCols(Customers, ephemeral.BaseSnapshotNewColumnSpecificCheckCols):
    pass


class TestSnapshotNewColumnWithDeletes(Customers, ephemeral.BaseSnapshotNewColumnWithDeletes):
    pass
