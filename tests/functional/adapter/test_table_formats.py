"""Models on Iceberg tables, by profile and by config, read by other readers, and models whose format changes."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.util import get_artifact, run_dbt, write_file
from pyiceberg.catalog import load_catalog

from tests.support.readers import read_with_delta_rs, read_with_duckdb_iceberg, read_with_pyiceberg, rows_of

ORDERS = """
{{ config(materialized='incremental', unique_key=var('key', 'id'), incremental_strategy=var('strategy', 'merge'), **var('more', {})) }}
select * from values {{ var('rows') }} as orders(id, day, amount)
"""


class Iceberg:
    """A project whose profile has file_format: iceberg. `rows` returns the rows that pyiceberg and DuckDB read from its folder."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target):
        return {**dbt_profile_target, "file_format": "iceberg"}

    @pytest.fixture
    def rows(self, project, warehouse):
        def fetch(table, columns):
            location = f"{warehouse}/{project.test_schema}/{table}"
            rows_by_reader = [rows_of(read(location).select(columns)) for read in (read_with_pyiceberg, read_with_duckdb_iceberg)]
            assert sorted(rows_by_reader[0], key=repr) == sorted(rows_by_reader[1], key=repr)
            return sorted(rows_by_reader[0], key=repr)

        return fetch


@pytest.mark.artifacts
class TestStrategies(Iceberg):
    @pytest.fixture(scope="class")
    def models(self):
        return {"orders.sql": ORDERS}

    @pytest.mark.one_of("mode")
    @pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
    def test_every_strategy_writes_its_documented_rows_to_iceberg(self, project, rows, mode):
        def build(values, *arguments, **variables):
            more = {"partition_by": ["bucket(2, id)", "day"], "tblproperties": {"write.merge.mode": mode, "rowmerge.write.mode": mode}}
            dbt_variables = {"rows": values, **variables, "more": more | variables.get("more", {})}
            return run_dbt(["run", "--vars", str(dbt_variables), *arguments])[0]

        def orders():
            return rows("orders", ["id", "day", "amount"])

        build("(1, 'mon', 10), (2, 'mon', 20), (3, 'tue', 30), (4, 'tue', 40)", "--full-refresh")
        merged = build("(2, 'mon', 21), (4, 'tue', 0), (5, 'tue', 50)", more={"delete_condition": "DBT_INTERNAL_SOURCE.amount = 0"})
        assert "merge: 1 inserted, 1 updated, 1 deleted" in merged.message
        assert ("marked" in merged.message) == (mode == "merge-on-read")
        assert orders() == [(1, "mon", 10), (2, "mon", 21), (3, "tue", 30), (5, "tue", 50)]
        response = get_artifact(project.project_root, "target", "run_results.json")["results"][0]["adapter_response"]
        with project.adapter.connection_named("test"):
            description = project.adapter.session.describe(project.test_schema, "orders")
        assert response["version"] == description.version
        assert [field.text for field in description.partitioning] == ["bucket(2, id)", "day"]

        build("(1, 'wed', 11), (1, 'wed', 12)", strategy="delete+insert")
        build("(1, 'wed', 13)", strategy="append")
        assert orders() == [(1, "wed", 11), (1, "wed", 12), (1, "wed", 13), (2, "mon", 21), (3, "tue", 30), (5, "tue", 50)]
        # Only the new row's partition is replaced, not the four others.
        build("(1, 'wed', 14)", strategy="insert_overwrite")
        assert orders() == [(1, "wed", 14), (2, "mon", 21), (3, "tue", 30), (5, "tue", 50)]
        build("(6, 'tue', 60)", strategy="insert_overwrite", more={"partition_by": "day"})
        assert orders() == [(1, "wed", 14), (2, "mon", 21), (6, "tue", 60)]


@pytest.mark.full_suite("TestColumnsChangeInPlace covers changed columns of Iceberg models, test_incremental.py dbt's own class")
class TestOnSchemaChange(Iceberg, BaseIncrementalOnSchemaChange):
    """Tests of dbt's suite: columns of Iceberg tables can be dropped."""


class TestColumnsChangeInPlace(Iceberg):
    @pytest.fixture(scope="class")
    def models(self):
        model = "{{{{ config(materialized='incremental', on_schema_change='sync_all_columns'{more}) }}}} {{{{ var('query') }}}}"
        return {"iceberg.sql": model.format(more=""), "delta.sql": model.format(more=", file_format='delta'")}

    def test_columns_are_dropped_and_widened(self, project, rows):
        for query in ("select 1 as id, 2 as gone", f"select {2**40} as id, 'x' as more"):
            run_dbt(["run", "--vars", str({"query": query})])
        assert rows("iceberg", ["id", "more"]) == [(1, None), (2**40, "x")]
        assert project.run_sql("select id, more from {schema}.delta order by id", fetch="all") == [(1, None), (2**40, "x")]
        for failed in run_dbt(["run", "--vars", str({"query": "select 'text' as id"})], expect_pass=False):
            assert "cannot become" in failed.message and " string" in failed.message
        assert rows("iceberg", ["id", "more"]) == [(1, None), (2**40, "x")]


class TestMaterializations(Iceberg):
    """One project with all materializations, run twice. The second run changes rows and columns."""

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"seeds": {"+partition_by": "town"}}

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"people.csv": "id,town\n1,Rome\n2,Oslo\n"}

    @pytest.fixture(scope="class")
    def snapshots(self):
        return {
            "history.sql": """
{% snapshot history %}
{{ config(unique_key='id', strategy='check', check_cols='all', hard_deletes='invalidate', target_schema=schema) }}
select * from {{ ref('people') }}
{% endsnapshot %}
"""
        }

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "growing.sql": """
{{ config(materialized='incremental', unique_key='id', on_schema_change='append_new_columns') }}
select id, town {{ ", 'new' as more" if is_incremental() }} from {{ ref('people') }}
""",
            "evolving.sql": """
{{ config(materialized='incremental', unique_key='id', merge_with_schema_evolution=true) }}
select id, named_struct('town', town {{ ", 'more', 1" if is_incremental() }}) as place from {{ ref('people') }}
""",
            "batches.sql": """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at', batch_size='day', lookback=1,
          begin=modules.datetime.datetime(2024, 1, 1), partition_by='days(at)') }}
select id, timestamp'{{ model.batch.event_time_start if model.batch }}' as at, town from {{ ref('people') }}
""",
            "in_python.py": """
def model(dbt, session):
    dbt.config(materialized='table', partition_by=['truncate(1, town)'])
    return dbt.ref('people')
""",
            "schema.yml": """
models:
  - name: growing
    description: Grows
    columns: [{name: id, description: The id}]
    config: {persist_docs: {relation: true, columns: true}}
""",
        }

    def test_seeds_snapshots_and_models_are_iceberg_tables(self, project, rows):
        batch = ["--event-time-start", "2024-01-01", "--event-time-end", "2024-01-03"]
        run_dbt(["build", *batch])
        write_file("id,town\n1,Rome\n2,Bonn\n3,Bern\n", project.project_root, "seeds", "people.csv")
        run_dbt(["build", *batch])
        assert rows("people", ["id", "town"]) == [(1, "Rome"), (2, "Bonn"), (3, "Bern")]
        assert rows("growing", ["id", "town", "more"]) == [(1, "Rome", "new"), (2, "Bonn", "new"), (3, "Bern", "new")]
        assert rows("evolving", ["id", "place"])[1:] == [(2, {"town": "Bonn", "more": 1}), (3, {"town": "Bern", "more": 1})]
        assert rows("in_python", ["id", "town"]) == [(1, "Rome"), (2, "Bonn"), (3, "Bern")]
        assert [row[0] for row in rows("batches", ["town"])] == ["Bern", "Bern", "Bonn", "Bonn", "Rome", "Rome"]
        history = project.run_sql("select id, town, dbt_valid_to is null from {schema}.history order by id, town", fetch="all")
        assert history == [(1, "Rome", True), (2, "Bonn", True), (2, "Oslo", False), (3, "Bern", True)]

        catalog = run_dbt(["docs", "generate"])
        stats = {name: {key: item.value for key, item in node.stats.items()} for name, node in catalog.nodes.items()}
        assert {facts["format"] for facts in stats.values()} == {"iceberg"}
        assert stats["model.test.batches"]["partition_columns"] == "days(at)"
        assert stats["seed.test.people"]["partition_columns"] == "town"
        assert catalog.nodes["model.test.growing"].columns["id"].comment == "The id"


class TestCatalog:
    """A profile with a catalog of pyiceberg and without a warehouse."""

    @pytest.fixture(scope="class")
    def catalog(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("catalog")
        return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables", "name": "lake"}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target, catalog):
        return {key: value for key, value in dbt_profile_target.items() if key != "warehouse"} | {"catalog": catalog}

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"towns.csv": "id,town\n1,Rome\n"}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "grown.sql": """
{{ config(materialized='incremental', unique_key='id') }}
select id, town from {{ ref('towns') }}
{% if is_incremental() %} union all select max(id) + 1, 'Oslo' from {{ this }} {% endif %}
""",
            "other.sql": "{{ config(materialized='table', file_format=var('format', 'iceberg')) }} select * from {{ ref('grown') }}",
            "shown.sql": "{{ config(materialized=var('kind', 'view')) }} select id, town from {{ ref('other') }}",
        }

    def test_a_model_changes_between_a_view_and_a_table(self, project, catalog):
        def kind():
            with project.adapter.connection_named("test"):
                relations = project.adapter.session.relations(project.test_schema)
            return {relation.name: relation.kind for relation in relations}["shown"]

        for arguments, expected in (([], "view"), ([], "view"), (["--vars", "kind: table"], "table"), (["--full-refresh"], "view")):
            run_dbt(["build", *arguments])
            assert kind() == expected
            view_rows = project.run_sql("select id, town from {schema}.shown", fetch="all")
            table_rows = project.run_sql("select id, town from {schema}.other", fetch="all")
            assert sorted(view_rows) == sorted(table_rows) and (1, "Rome") in view_rows
            assert ((project.test_schema, "shown") in load_catalog(**catalog).list_tables(project.test_schema)) == (expected == "table")
        run_dbt(["docs", "generate"])

    def test_models_are_tables_of_the_catalog(self, project, catalog):
        run_dbt(["build", "--full-refresh"])
        run_dbt(["build"])
        opened = load_catalog(**catalog)
        for table in ("grown", "other"):
            rows = opened.load_table((project.test_schema, table)).scan().to_arrow()
            assert sorted(rows_of(rows)) == [(1, "Rome"), (2, "Oslo")]
        (failed,) = run_dbt(["run", "--select", "other", "--vars", "format: delta"], expect_pass=False)
        assert "supports only Iceberg tables" in failed.message
        assert opened.load_table((project.test_schema, "other")).scan().to_arrow().num_rows == 2


CHANGING = (
    "{{ config(materialized=var('kind'), file_format=var('format'), persist_docs={'columns': true}) }} select {{ var('value') }} as id"
)


class TestFormatChanges:
    @pytest.fixture(scope="class")
    def models(self):
        return {"changing.sql": CHANGING, "schema.yml": "models: [{name: changing, columns: [{name: id, description: The id}]}]"}

    @pytest.fixture(scope="class")
    def snapshots(self):
        return {
            "kept.sql": """
{% snapshot kept %}
{{ config(unique_key='id', strategy='check', check_cols='all', target_schema=schema, file_format=var('format')) }}
select 1 as id
{% endsnapshot %}
"""
        }

    @pytest.fixture
    def run(self, project):
        def run(command, format_, *arguments, kind="table", value="1", passes=True):
            dbt_variables = {"format": format_, "kind": kind, "value": value}
            return run_dbt([command, "--vars", str(dbt_variables), *arguments], expect_pass=passes)

        return run

    @pytest.fixture
    def read_table(self, project, warehouse):
        """Return the format of a table, and its ids as another reader reads them."""

        def read_table(table):
            with project.adapter.connection_named("test"):
                relations = project.adapter.session.relations(project.test_schema)
            (relation,) = [relation for relation in relations if relation.name.startswith(table)]
            assert relation.name == table, "nothing else is left"
            read = read_with_delta_rs if relation.format == "delta" else read_with_pyiceberg
            return relation.format, rows_of(read(f"{warehouse}/{project.test_schema}/{table}"))

        return read_table

    def test_a_table_changes_its_format_completely(self, run, read_table):
        run("run", "delta")
        assert read_table("changing") == ("delta", [(1,)])
        (result,) = run("run", "iceberg", value="2")
        assert result.message.startswith("OK create: 1 row, 1 file")
        assert read_table("changing") == ("iceberg", [(2,)])
        run("run", "delta", value="3")
        assert read_table("changing") == ("delta", [(3,)])

    def test_an_incremental_model_changes_its_format_only_with_a_full_refresh(self, project, run, read_table):
        run("run", "delta", "--full-refresh", kind="incremental")
        (failed,) = run("run", "iceberg", kind="incremental", passes=False)
        assert "is a table of the format delta, and the model asks for iceberg. Run it with --full-refresh" in failed.message
        assert read_table("changing") == ("delta", [(1,)])
        run("run", "iceberg", "--full-refresh", kind="incremental", value="2")
        run("run", "iceberg", kind="incremental", value="3")
        assert read_table("changing") == ("iceberg", [(2,), (3,)])
        with project.adapter.connection_named("test"):
            assert project.adapter.session.describe(project.test_schema, "changing").columns[0].comment == "The id"

    @pytest.mark.parametrize("wrong", ["cast('x' as int)", "nothing"])
    def test_a_failed_query_leaves_the_table_in_the_old_format(self, run, read_table, wrong):
        run("run", "delta", "--full-refresh")
        run("run", "iceberg", value=wrong, passes=False)
        assert read_table("changing") == ("delta", [(1,)])

    def test_a_snapshot_keeps_its_format(self, run, read_table):
        run("snapshot", "delta")
        (failed,) = run("snapshot", "iceberg", passes=False)
        assert "A snapshot is never built anew: set its file_format to delta" in failed.message
        assert read_table("kept")[0] == "delta"

    @pytest.mark.parametrize("format_", ["parquet", "hudi"])
    def test_an_unknown_format_is_rejected_with_the_valid_formats(self, run, format_):
        (failed,) = run("run", format_, passes=False)
        assert f"file_format is '{format_}'. Set it to `delta` or `iceberg`." in failed.message


class TestSeedFormat:
    @pytest.fixture(scope="class")
    def seeds(self):
        return {
            "towns.csv": "id\n1\n",
            "schema.yml": """
seeds:
  - name: towns
    config: {file_format: "{{ env_var('TOWNS_FORMAT', 'delta') }}", persist_docs: {columns: true}}
    columns: [{name: id, description: The id}]
""",
        }

    def test_a_seed_changes_its_format_and_keeps_its_comments(self, project, warehouse, monkeypatch):
        for format_, read in (("delta", read_with_delta_rs), ("iceberg", read_with_pyiceberg)):
            monkeypatch.setenv("TOWNS_FORMAT", format_)
            run_dbt(["seed"])
            assert rows_of(read(f"{warehouse}/{project.test_schema}/towns")) == [(1,)]
            with project.adapter.connection_named("test"):
                (column,) = project.adapter.session.describe(project.test_schema, "towns").columns
            assert column.comment == "The id"


class TestLocation:
    @pytest.fixture(scope="class")
    def elsewhere(self, tmp_path_factory):
        return tmp_path_factory.mktemp("elsewhere")

    @pytest.fixture(scope="class")
    def models(self, elsewhere):
        config = f"materialized='table', location_root='{elsewhere}/' ~ var('in'), file_format=var('format')"
        return {"away.sql": f"{{{{ config({config}) }}}} select 1 as id"}

    def test_files_of_both_formats_are_never_in_one_folder(self, project, elsewhere):
        def run(format_, folder, **how):
            return run_dbt(["run", "--vars", str({"format": format_, "in": folder})], **how)

        run("delta", "a")
        (failed,) = run("iceberg", "a", expect_pass=False)
        assert "DROP keeps the files of a table with a location_root. Set another location_root" in failed.message
        assert project.run_sql("select * from {schema}.away", fetch="all") == [(1,)]
        run("iceberg", "b")
        assert rows_of(read_with_delta_rs(f"{elsewhere}/a/away")) == rows_of(read_with_pyiceberg(f"{elsewhere}/b/away")) == [(1,)]
        assert [path.name for path in (elsewhere / "b").iterdir()] == ["away"]
