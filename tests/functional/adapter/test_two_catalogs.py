"""A project with nodes in two catalogs, a folder of Delta tables and a SQL catalog of Iceberg tables, which read each other."""

import pytest
from dbt.tests.util import run_dbt
from dbt_common.exceptions import CompilationError
from pyiceberg.catalog import load_catalog

SNAPSHOT = """
{% snapshot towns_history %}
{{ config(database='lake', target_schema=schema, unique_key='id', strategy='check', check_cols=['town']) }}
select * from {{ ref('towns') }}
{% endsnapshot %}
"""


@pytest.mark.artifacts
class TestTwoCatalogs:
    @pytest.fixture(scope="class")
    def lake(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("lake")
        return {"name": "lake", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables"}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target, lake):
        return {**dbt_profile_target, "catalogs": [lake]}

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"towns.csv": "id,town\n1,Rome\n2,Oslo\n"}

    @pytest.fixture(scope="class")
    def snapshots(self):
        return {"towns_history.sql": SNAPSHOT}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"seeds": {"+database": "lake"}}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "grown.sql": """
{{ config(materialized='incremental', unique_key='id', database='lake', on_schema_change='append_new_columns') }}
select id, town from {{ ref('towns') }}
{% if is_incremental() %} union all select max(id) + 1, 'Bonn' from {{ this }} {% endif %}
""",
            "counted.sql": """
{{ config(materialized='incremental', unique_key='id', on_schema_change='append_new_columns') }}
select id, upper(town) as town {% if is_incremental() %}, 1 as added {% endif %} from {{ ref('grown') }}
""",
            "shown.sql": "{{ config(materialized='view', database=var('database', 'lake')) }} select * from {{ ref('counted') }}",
            "grown_again.sql": """
{{ config(materialized='table', alias='grown') }} -- {{ ref('grown') }}
select * from {{ source('raw', 'grown') }}
""",
            "nodes.yml": """
version: 2
models:
  - name: grown
    config: {contract: {enforced: true}, persist_docs: {relation: true, columns: true}}
    description: The towns
    columns: [{name: id, data_type: bigint, description: The id, data_tests: [not_null, unique]}, {name: town, data_type: string}]
sources:
  - name: raw
    database: lake
    schema: "{{ target.schema }}"
    tables: [{name: grown}]
""",
        }

    def test_models_of_two_catalogs_read_each_other(self, project, lake):
        for _ in range(2):
            assert {result.status.value for result in run_dbt(["build"])} <= {"success", "pass"}
        towns = load_catalog(**lake).load_table(f"{project.test_schema}.grown").scan().to_arrow().to_pylist()
        assert sorted(row["id"] for row in towns) == [1, 2, 3]
        with project.adapter.connection_named("test"):
            session = project.adapter.session
            kinds = {f"{relation}": relation.format for relation in session.relations(f"lake.{project.test_schema}")}
            assert kinds == {
                f"lake.{project.test_schema}.{name}": format_
                for name, format_ in (("grown", "iceberg"), ("shown", None), ("towns", "iceberg"), ("towns_history", "iceberg"))
            }
            assert {relation.name: relation.format for relation in session.relations(project.test_schema)} == {
                "counted": "delta",
                "grown": "delta",
            }
            view_rows = session.sql(f"select id, town, added from lake.{project.test_schema}.shown order by id").collect()
            assert [tuple(row) for row in view_rows] == [(1, "ROME", 1), (2, "OSLO", 1), (3, "BONN", 1)]
        catalog = run_dbt(["docs", "generate"])
        entries = {name: (node.metadata.database, node.metadata.schema) for name, node in catalog.nodes.items()}
        schema = project.test_schema
        assert entries["model.test.grown"] == entries["seed.test.towns"] == entries["model.test.shown"] == ("lake", schema)
        assert entries["model.test.grown_again"] == entries["model.test.counted"] == ("rowmerge", schema)
        assert catalog.sources["source.test.raw.grown"].metadata.database == "lake"
        assert catalog.nodes["model.test.grown"].columns["id"].comment == "The id"

    def test_an_unknown_database_is_an_error_with_the_names_of_the_catalogs(self, project):
        with pytest.raises(CompilationError, match=r"database 'pond'.* no catalog of this name. Use one of rowmerge, spark_catalog, lake"):
            run_dbt(["compile", "--vars", "{database: pond}"])
