"""What every adapter must do, in dbt's own words."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.aliases.fixtures import MACROS__EXPECT_VALUE_SQL
from dbt.tests.adapter.aliases.test_aliases import BaseAliases
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import BaseIncremental, BaseIncrementalBadStrategy, BaseIncrementalNotSchemaChange
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.adapter.caching.test_caching import BaseCachingLowercaseModel, BaseCachingSelectedSchemaOnly
from dbt.tests.adapter.dbt_show.test_dbt_show import BaseShowLimit, BaseShowSqlHeader
from dbt.tests.adapter.empty import _models
from dbt.tests.adapter.empty.test_empty import BaseTestEmpty, MetadataWithEmptyFlag
from dbt.tests.adapter.relations.test_changing_relation_type import BaseChangeRelationTypeValidator
from dbt.tests.adapter.store_test_failures_tests.test_store_test_failures import BaseStoreTestFailures
from dbt.tests.adapter.unit_testing.test_case_insensitivity import BaseUnitTestCaseInsensivity
from dbt.tests.adapter.unit_testing.test_invalid_input import BaseUnitTestInvalidInput
from dbt.tests.adapter.unit_testing.test_types import BaseUnitTestingTypes
from dbt.tests.util import run_dbt


class TestValidateConnection(BaseValidateConnection):
    pass


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


class TestSingularTests(BaseSingularTests):
    pass


class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


class TestEmptyProject(BaseEmpty):
    pass


class TestEphemeral(BaseEphemeral):
    pass


class TestIncremental(BaseIncremental):
    pass


class TestIncrementalNotSchemaChange(BaseIncrementalNotSchemaChange):
    pass


class TestIncrementalBadStrategy(BaseIncrementalBadStrategy):
    pass


class TestGenericTests(BaseGenericTests):
    pass


class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    pass


class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    pass


class TestTable(BaseTableMaterialization):
    pass


class TestAdapterMethods(BaseAdapterMethod):
    pass


class TestAliases(BaseAliases):
    @pytest.fixture(scope="class")
    def macros(self):
        """The project of this test casts to a type that Spark does not have."""
        return {
            "cast.sql": "{% macro rowmerge__string_literal(text) %}'{{ text }}'{% endmacro %}",
            "expect_value.sql": MACROS__EXPECT_VALUE_SQL,
        }


class TestChangeRelationTypes(BaseChangeRelationTypeValidator):
    pass


class WithoutDatabase:
    def run_and_inspect_cache(self, project, run_args=None):
        """As dbt's own, which asks for the database of every relation too."""
        for _ in range(2):
            run_dbt(run_args)
            (relation,) = project.adapter.cache.relations
            assert (relation.database, relation.schema, relation.identifier) == (None, project.test_schema, "model")


class TestCaching(WithoutDatabase, BaseCachingLowercaseModel):
    pass


class TestCachingSelectedSchema(WithoutDatabase, BaseCachingSelectedSchemaOnly):
    pass


class TestShowLimit(BaseShowLimit):
    pass


class TestShowSqlHeader(BaseShowSqlHeader):
    pass


class TestEmptyFlag(BaseTestEmpty):
    pass


class TestEmptyFlagWithMetadata(MetadataWithEmptyFlag):
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "schema.yml": _models.SCHEMA,
            "get_columns_in_relation.sql": _models.GET_COLUMNS_IN_RELATION,
            "alter_relation_comment.sql": _models.ALTER_RELATION_COMMENT,
            "alter_column_comment.sql": _models.ALTER_COLUMN_COMMENT,
            "truncate_relation.sql": _models.TRUNCATE_RELATION,
        }

    @pytest.mark.parametrize("model", ["get_columns_in_relation", "alter_relation_comment", "alter_column_comment", "truncate_relation"])
    def test_run(self, project, model):
        """Columns do not change their types in place here, so those models of dbt's are left out."""
        run_dbt(["run", "--empty", "--select", model])


class TestStoreTestFailures(BaseStoreTestFailures):
    pass


class TestUnitTestCaseInsensitivity(BaseUnitTestCaseInsensivity):
    pass


class TestUnitTestInvalidInput(BaseUnitTestInvalidInput):
    pass


class TestUnitTestTypes(BaseUnitTestingTypes):
    @pytest.fixture
    def data_types(self):
        return [
            ["1", "1"],
            ["'1'", "1"],
            ["true", "true"],
            ["DATE '2020-01-02'", "2020-01-02"],
            ["TIMESTAMP '2013-11-03 00:00:00'", "2013-11-03 00:00:00"],
            ["cast(1.5 as decimal(10, 2))", "1.5"],
            ["array(1, 2, 3)", "'array(1, 2, 3)'"],
            ["map('10', 't', '15', 'f')", """'map("10", "t", "15", "f")'"""],
        ]
