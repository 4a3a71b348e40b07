"""Verifies what the adapter does with features of newer releases of dbt-core: catalogs.yml, overloads, pointers to the latest version."""

from __future__ import annotations

import pytest
import yaml
from dbt.tests.util import run_dbt, write_config_file

from tests.functional.dbt_core import since

ICEBERG_MODEL = "{{ config(materialized='table', catalog_name='lake') }} select 1 as id"
DELTA_MODEL = "{{ config(materialized='incremental', catalog_name='lake', file_format='delta') }} select 1 as id"
UNKNOWN_CATALOG = "{{ config(materialized='table', catalog_name='ocean') }} select 1 as id"


def catalogs_file(**settings):
    """Return a catalogs.yml with one catalog that has one write integration."""
    integration = {"name": "tables", "catalog_type": "warehouse", **settings}
    return {"catalogs": [{"name": "lake", "active_write_integration": "tables", "write_integrations": [integration]}]}


class Catalogs:
    """Three models: one with the catalog's format, one with another format, and one with an unknown catalog."""

    @pytest.fixture(scope="class")
    def models(self):
        return {"in_lake.sql": ICEBERG_MODEL, "own_format.sql": DELTA_MODEL, "elsewhere.sql": UNKNOWN_CATALOG}

    @pytest.fixture(scope="class")
    def lake_folder(self, tmp_path_factory):
        return tmp_path_factory.mktemp("lake")

    def run_models(self, project, lake_folder):
        """Build the models twice, and check formats, folders and the error of the unknown catalog."""
        for _ in range(2):
            run_dbt(["run", "--exclude", "elsewhere"])
            for name, table_format in (("in_lake", "iceberg"), ("own_format", "delta")):
                with project.adapter.connection_named("test"):
                    described = project.adapter.session.describe(project.test_schema, name)
                assert described.relation.format == table_format
                assert described.location == f"file://{lake_folder / name}"
        (result,) = run_dbt(["run", "--select", "elsewhere"], expect_pass=False)
        assert "Catalog not found" in result.message and "ocean" in result.message
        assert project.run_sql("select count(*) from {schema}.in_lake", fetch="one") == (1,)


class TestCatalogs(Catalogs):
    def test_a_catalog_gives_format_and_folder(self, project, lake_folder):
        write_config_file(catalogs_file(table_format="iceberg", external_volume=str(lake_folder)), project.project_root, "catalogs.yml")
        self.run_models(project, lake_folder)

    def test_unsupported_catalog_settings_are_reported_together(self, project):
        wrong = catalogs_file(table_format="hudi", file_format="orc", adapter_properties={"cluster": "x"})
        write_config_file(wrong, project.project_root, "catalogs.yml")
        with pytest.raises(Exception, match="There is no property cluster.*table_format is 'hudi'.*file_format is 'orc'"):
            run_dbt(["run"])


@since("1.12")
class TestCatalogsOfTheSecondVersion(Catalogs):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"flags": {"use_catalogs_v2": True}}

    def test_a_catalog_gives_format_and_folder(self, project, lake_folder):
        catalog = {
            "name": "lake",
            "type": "warehouse",
            "table_format": "iceberg",
            "config": {"rowmerge": {"location_root": str(lake_folder)}},
        }
        write_config_file({"catalogs": [catalog]}, project.project_root, "catalogs.yml")
        self.run_models(project, lake_folder)


FUNCTIONS = """
functions:
  - name: twice
    arguments: [{name: x, data_type: bigint}]
    returns: {data_type: bigint}
    overloads:
      - defined_in: twice_text
        arguments: [{name: x, data_type: string}]
        returns: {data_type: string}
"""


@since("1.12")
class TestOverloadsOfFunctions:
    @pytest.fixture(scope="class")
    def functions(self):
        return {"functions.yml": FUNCTIONS, "twice.sql": "x * 2", "twice_text.sql": "x || x"}

    def test_unsupported_features_are_rejected_before_anything_is_created(self, project):
        (result,) = run_dbt(["build"], expect_pass=False)
        assert "The function twice has `overloads`" in result.message
        assert project.run_sql("show user functions in {schema}", fetch="all") == []


VERSIONED = """
models:
  - name: people
    latest_version: 2
    config:
      materialized: incremental
      on_schema_change: append_new_columns
      latest_version_pointer: {enabled: true}
      contract: {enforced: true}
    columns: [{name: id, data_type: int}]
    versions: [{v: 1}, {v: 2}]
"""


@since("1.12")
class TestPointerToTheLatestVersion:
    @pytest.fixture(scope="class")
    def models(self):
        return {"people_v1.sql": "select 1 as id", "people_v2.sql": "select 2 as id", "people.yml": VERSIONED}

    def test_the_pointer_is_a_view_of_the_latest_version(self, project):
        for count in (1, 2):
            run_dbt(["run"])
            assert project.run_sql("select * from {schema}.people", fetch="all") == [(2,)] * count
        properties = yaml.safe_load(VERSIONED)
        properties["models"][0]["latest_version"] = 1
        write_config_file(properties, project.project_root, "models", "people.yml")
        run_dbt(["run"])
        assert project.run_sql("select distinct id from {schema}.people", fetch="all") == [(1,)]
        with project.adapter.connection_named("test"):
            assert project.adapter.session.describe(project.test_schema, "people").relation.kind == "view"


# The test fails without the header: there is no view `sold`.
PRICES = """
seeds:
  - name: prices
    columns:
      - name: id
        data_tests:
          - not_null:
              config:
                sql_header: create or replace temporary view sold as select 2 as sold_id;
                where: id in (select sold_id from sold)
"""


@since("1.12")
class TestCommandsOfThisRelease:
    @pytest.fixture(scope="class")
    def seeds(self):
        return {"prices.csv": "id,price\n1,1.50\n2,2.25\n", "prices.yml": PRICES}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"flags": {"require_sql_header_in_test_configs": True}}

    def test_a_data_test_runs_its_header_first(self, project):
        run_dbt(["build"])
        run_dbt(["test", "--store-failures"])

    def test_run_operation_runs_sql(self, project):
        run_dbt(["seed"])
        run_dbt(["run-operation", "--sql", "delete from {{ target.schema }}.prices where id = 1"])
        assert project.run_sql("select id from {schema}.prices", fetch="all") == [(2,)]

    def test_an_empty_seed_has_the_types_of_its_rows_and_replaces_a_full_one(self, project):
        run_dbt(["seed"])
        run_dbt(["seed", "--empty"])
        with project.adapter.connection_named("test"):
            described = project.adapter.session.describe(project.test_schema, "prices")
        assert [(field.name, field.sql_type) for field in described.columns] == [("id", "bigint"), ("price", "double")]
        assert project.run_sql("select count(*) from {schema}.prices", fetch="one") == (0,)
