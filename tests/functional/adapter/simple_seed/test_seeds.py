"""Seeds load CSV files with their types, delimiters, encodings and refreshes, as dbt's suite requires."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.simple_seed import fixtures, test_seed as suite
from dbt.tests.adapter.simple_seed.test_seed_type_override import BaseSimpleSeedColumnOverride
from dbt.tests.util import run_dbt

from tests.functional.adapter.spark_sql import InSparkSql


class StaysInPlace(InSparkSql):
    def _check_relation_end_state(self, run_result, project, exists):
        """Verify that the views of a seed still exist: a full refresh replaces the seed in place, while the suite expects a drop."""
        super()._check_relation_end_state(run_result, project, exists=True)


class TestBasicSeeds(StaysInPlace, suite.BaseBasicSeedTests):
    pass


class TestSeedConfigFullRefreshOn(StaysInPlace, suite.BaseSeedConfigFullRefreshOn):
    pass


class TestSeedConfigFullRefreshOff(InSparkSql, suite.BaseSeedConfigFullRefreshOff):
    pass


class TestSeedCustomSchema(InSparkSql, suite.BaseSeedCustomSchema):
    pass


class TestSeedWithUniqueDelimiter(InSparkSql, suite.BaseSeedWithUniqueDelimiter):
    pass


class TestSeedWithWrongDelimiter(InSparkSql, suite.BaseSeedWithWrongDelimiter):
    def test_seed_with_wrong_delimiter(self, project):
        """The suite expects that the column name `seed_id|first_name|…` is invalid; here it is valid."""
        run_dbt(["seed"])
        with project.adapter.connection_named("_test"):
            relation = project.adapter.get_relation(None, project.test_schema, "seed_pipe_separated")
            assert [column.name for column in project.adapter.get_columns_in_relation(relation)] == [
                "seed_id|first_name|email|ip_address|birthday"
            ]


class TestSeedWithEmptyDelimiter(InSparkSql, suite.BaseSeedWithEmptyDelimiter):
    pass


class TestSimpleSeedEnabledViaConfig(suite.BaseSimpleSeedEnabledViaConfig):
    pass


class TestSeedParsing(InSparkSql, suite.BaseSeedParsing):
    pass


class TestSimpleSeedWithBOM(InSparkSql, suite.BaseSimpleSeedWithBOM):
    beside = suite


class TestSeedSpecificFormats(suite.BaseSeedSpecificFormats):
    @pytest.fixture(scope="class")
    def test_data_dir(self, tmp_path_factory):
        """The suite writes its large seed to the folder of the test."""
        return tmp_path_factory.mktemp("seeds") / "data"


class TestEmptySeed(suite.BaseTestEmptySeed):
    pass


class TestSimpleSeedColumnOverride(BaseSimpleSeedColumnOverride):
    @pytest.fixture(scope="class")
    def models(self):
        """Return the suite's models with Spark's names of types."""
        text = fixtures.properties__schema_yml
        for other, ours in {"text": "string", "integer": "bigint", "timestamp without time zone": "timestamp"}.items():
            text = text.replace(f"type: {other}", f"type: {ours}")
        return {"schema.yml": text}
