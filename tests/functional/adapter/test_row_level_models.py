"""The effects of the strategies on rows, and their counts in run_results.json."""

from __future__ import annotations

import re
import threading
import time

import pytest
from dbt.tests.util import get_artifact, run_dbt, run_dbt_and_capture

from rowmerge.errors import StatementCancelled

ORDERS = """
{{ config(materialized='incremental', unique_key=var('key', 'id'), incremental_strategy=var('strategy', 'merge'), **var('more', {})) }}
select * from values {{ var('rows') }} as orders(id, day, amount)
"""


class Orders:
    """One incremental model whose rows and configs come from variables."""

    @pytest.fixture(scope="class")
    def models(self):
        return {"orders.sql": ORDERS}

    @pytest.fixture
    def build(self, project):
        def run(rows, *, full_refresh=False, expect_pass=True, **variables):
            arguments = ["run", "--vars", str({"rows": rows, **variables})] + (["--full-refresh"] if full_refresh else [])
            return run_dbt(arguments, expect_pass=expect_pass)[0]

        return run

    @pytest.fixture
    def orders(self, project):
        def fetch():
            return sorted(project.run_sql("select id, day, amount from {schema}.orders", fetch="all"), key=repr)

        return fetch


@pytest.mark.artifacts
class TestMerge(Orders):
    def test_the_response_counts_rows_and_files(self, project, build, orders):
        first = build("(1, 'mon', 10), (2, 'mon', 20)", full_refresh=True)
        assert re.fullmatch(r"OK create: 2 rows, \d files? \([\d.]+ kB\), version 0", first.message)
        second = build("(2, 'tue', 21), (3, 'tue', 30)")
        assert second.message.startswith("OK merge: 1 inserted, 1 updated, ")
        assert second.message.endswith(", version 1")
        response = get_artifact(project.project_root, "target", "run_results.json")["results"][0]["adapter_response"]
        assert {name: response[name] for name in ("code", "rows_affected", "rows_inserted", "rows_updated", "rows_deleted", "version")} == {
            "code": "MERGE",
            "rows_affected": 2,
            "rows_inserted": 1,
            "rows_updated": 1,
            "rows_deleted": 0,
            "version": 1,
        }
        assert response["files_added"] >= 1
        assert "files_removed" in response
        assert orders() == [(1, "mon", 10), (2, "tue", 21), (3, "tue", 30)]

    def test_a_full_refresh_replaces_the_table_and_keeps_its_history(self, project, build, orders):
        build("(1, 'mon', 10)", full_refresh=True)
        first = build("(2, 'tue', 20)")
        result = build("(9, 'sun', 90)", full_refresh=True)
        assert result.adapter_response["version"] == first.adapter_response["version"] + 1
        assert orders() == [(9, "sun", 90)]

    def test_rows_with_null_keys_match_each_other(self, build, orders):
        build("(cast(null as int), 'mon', 10), (1, 'mon', 11)", full_refresh=True)
        result = build("(cast(null as int), 'tue', 12)")
        assert (result.adapter_response["rows_updated"], result.adapter_response["rows_inserted"]) == (1, 0)
        assert orders() == [(1, "mon", 11), (None, "tue", 12)]

    def test_two_source_rows_for_one_target_row_fail_the_model_without_a_change(self, build, orders):
        build("(1, 'mon', 10)", full_refresh=True)
        result = build("(1, 'tue', 11), (1, 'wed', 12)", expect_pass=False)
        assert "more than one source row" in result.message
        assert orders() == [(1, "mon", 10)]

    def test_conditions_decide_which_rows_change(self, build, orders):
        build("(1, 'mon', 10), (2, 'mon', 20), (3, 'mon', 30)", full_refresh=True)
        more = {
            "matched_condition": "DBT_INTERNAL_SOURCE.amount > DBT_INTERNAL_DEST.amount",
            "not_matched_condition": "DBT_INTERNAL_SOURCE.amount > 0",
            "not_matched_by_source_action": "delete",
            "not_matched_by_source_condition": "DBT_INTERNAL_DEST.id = 3",
        }
        build("(1, 'tue', 5), (2, 'tue', 25), (4, 'tue', 0), (5, 'tue', 50)", more=more)
        assert orders() == [(1, "mon", 10), (2, "tue", 25), (5, "tue", 50)]

    def test_an_unknown_column_is_reported_with_similar_columns(self, build):
        build("(1, 'mon', 10)", full_refresh=True)
        result = build("(1, 'tue', 11)", more={"merge_update_columns": ["amout"]}, expect_pass=False)
        assert "there is no column amout. Did you mean amount?" in result.message


class TestDeleteInsert(Orders):
    def test_a_composite_key_replaces_exactly_its_rows(self, build, orders):
        """(1, mon) and (2, tue) arrive. (1, tue) and (2, mon) match only in one column, and stay."""
        build("(1, 'mon', 10), (1, 'tue', 11), (2, 'mon', 20), (2, 'tue', 21), (2, 'tue', 22)", full_refresh=True)
        result = build("(1, 'mon', 100), (2, 'tue', 210)", strategy="delete+insert", key=["id", "day"])
        assert orders() == [(1, "mon", 100), (1, "tue", 11), (2, "mon", 20), (2, "tue", 210)]
        assert (result.adapter_response["rows_inserted"], result.adapter_response["rows_deleted"]) == (2, 3)

    def test_all_rows_of_a_repeated_key_are_inserted(self, build, orders):
        build("(1, 'mon', 10)", full_refresh=True)
        build("(1, 'tue', 11), (1, 'tue', 11), (1, 'wed', 12)", strategy="delete+insert")
        assert orders() == [(1, "tue", 11), (1, "tue", 11), (1, "wed", 12)]

    def test_a_null_key_replaces_null_keys(self, build, orders):
        build("(cast(null as int), 'mon', 10), (1, 'mon', 11)", full_refresh=True)
        build("(cast(null as int), 'tue', 12)", strategy="delete+insert")
        assert orders() == [(1, "mon", 11), (None, "tue", 12)]

    def test_delete_and_insert_are_one_version(self, build):
        first = build("(1, 'mon', 10)", full_refresh=True)
        second = build("(1, 'tue', 11)", strategy="delete+insert")
        assert second.adapter_response["version"] == first.adapter_response["version"] + 1


class TestAppend(Orders):
    def test_append_adds_rows_without_comparing_keys(self, build, orders):
        build("(1, 'mon', 10)", full_refresh=True)
        build("(1, 'mon', 10)", strategy="append")
        assert orders() == [(1, "mon", 10), (1, "mon", 10)]


class TestInsertOverwrite(Orders):
    def test_only_the_partitions_of_the_new_rows_are_replaced(self, build, orders):
        parted = {"strategy": "insert_overwrite", "more": {"partition_by": "day"}}
        build("(1, 'mon', 10), (2, 'mon', 20), (3, 'tue', 30)", full_refresh=True, **parted)
        build("(4, 'mon', 40)", **parted)
        assert orders() == [(3, "tue", 30), (4, "mon", 40)]

    def test_a_table_without_partitions_is_replaced_completely(self, build, orders):
        build("(1, 'mon', 10), (3, 'tue', 30)", full_refresh=True)
        build("(4, 'mon', 40)", strategy="insert_overwrite")
        assert orders() == [(4, "mon", 40)]


class TestCustomStrategy(Orders):
    @pytest.fixture(scope="class")
    def macros(self):
        return {
            "insert_only.sql": """
{% macro get_incremental_insert_only_sql(arg_dict) %}
  insert into {{ arg_dict['target_relation'] }}
  select new.* from {{ arg_dict['temp_relation'] }} as new
  left anti join {{ arg_dict['target_relation'] }} as old on new.id = old.id
{% endmacro %}
"""
        }

    def test_a_macro_of_the_project_is_a_strategy(self, build, orders):
        build("(1, 'mon', 10)", full_refresh=True)
        build("(1, 'tue', 11), (2, 'tue', 20)", strategy="insert_only")
        assert orders() == [(1, "mon", 10), (2, "tue", 20)]

    def test_an_unknown_strategy_is_reported_by_name(self, build):
        build("(1, 'mon', 10)", full_refresh=True)
        assert "get_incremental_upsert_sql" in build("(1, 'tue', 11)", strategy="upsert", expect_pass=False).message


class TestThreads:
    @pytest.fixture(scope="class")
    def models(self):
        model = "{{{{ config(materialized='incremental', unique_key='id') }}}} select id, {number} as model from range(100)"
        return {f"model_{number}.sql": model.format(number=number) for number in range(6)}

    def test_models_run_concurrently_on_one_session(self, project):
        for _ in range(2):
            results = run_dbt(["run", "--threads", "4"])
            assert [result.status for result in results] == ["success"] * 6
        assert len({result.thread_id for result in results}) > 1
        for number in range(6):
            assert project.run_sql(f"select count(*), min(model), max(model) from {{schema}}.model_{number}", fetch="one") == (
                100,
                number,
                number,
            )


class TestNames:
    """Names that must be quoted, and values that contain quotes."""

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "odd-name.sql": """
{{ config(materialized='incremental', unique_key=['the-key', 'a`b']) }}
select 1 as `the-key`, 2 as `a``b`, '{{ "second" if is_incremental() else "it\\\\'s first" }}' as `select`
""",
            "on_top.sql": "{{ config(materialized='view') }} select `the-key`, `select` from {{ ref('odd-name') }}",
        }

    def test_names_can_contain_dashes_quotes_and_keywords(self, project):
        run_dbt(["run"])
        assert project.run_sql("select * from {schema}.on_top", fetch="all") == [(1, "it's first")]
        run_dbt(["run"])
        assert project.run_sql("select * from {schema}.on_top", fetch="all") == [(1, "second")]


class TestErrors:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "wrong_column.sql": "{{ config(materialized='table') }}\nselect\n  amout\nfrom (select 1 as amount) as t",
            "wrong_value.sql": "{{ config(materialized='table') }} select cast('x' as int) as a",
        }

    def test_a_wrong_column_is_reported_with_its_line_and_without_a_stack(self, project):
        results, output = run_dbt_and_capture(["run", "--select", "wrong_column"], expect_pass=False)
        assert "amout" in results[0].message
        assert "at org.apache.spark" not in results[0].message
        assert "Traceback" not in output

    def test_a_value_that_cannot_be_cast_is_reported(self, project):
        results = run_dbt(["run", "--select", "wrong_value"], expect_pass=False)
        assert "CAST_INVALID_INPUT" in results[0].message
        assert "at org.apache.spark" not in results[0].message


class TestTableProperties:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "parted.sql": """
{{ config(materialized='table', partition_by='day', tblproperties={'delta.enableChangeDataFeed': false, 'team': "o'hara", 'unset': none}) }}
select 1 as id, 'mon' as day
""",
            "schema.yml": """
models:
  - name: parted
    description: "It's a table"
    config: {persist_docs: {relation: true, columns: true}}
    columns: [{name: id, description: "The \\"key\\""}]
""",
        }

    def test_partitions_properties_and_comments_are_set(self, project):
        run_dbt(["run"])
        with project.adapter.connection_named("test"):
            description = project.adapter.session.describe(project.test_schema, "parted")
        assert description.partition_columns == ("day",)
        assert description.properties["team"] == "o'hara"
        assert "unset" not in description.properties
        assert description.comment == "It's a table"
        assert [field.comment for field in description.columns] == ['The "key"', None]

    def test_a_second_run_changes_only_what_changed(self, project):
        first, second = (run_dbt(["run"])[0].adapter_response["version"] for _ in range(2))
        assert second - first <= 2


class TestSqlHeader:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "with_header.sql": """
{% call set_sql_header(config) %}
create or replace temporary view header_rows as select 7 as id;
{% endcall %}
{{ config(materialized='table') }}
select id from header_rows
"""
        }

    def test_statements_of_the_header_run_before_the_model(self, project):
        run_dbt(["run"])
        assert project.run_sql("select id from {schema}.with_header", fetch="all") == [(7,)]


class TestHooks:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "hooked.sql": """
{{ config(
    materialized='table',
    pre_hook=["create table if not exists {{ target.schema }}.log (what string)", "insert into {{ target.schema }}.log values ('before')"],
    post_hook=[after_commit("insert into {{ target.schema }}.log values ('after')")]
) }}
select 1 as id
"""
        }

    def test_hooks_run_inside_and_outside_of_transactions(self, project):
        run_dbt(["run"])
        assert sorted(project.run_sql("select what from {schema}.log", fetch="all")) == [("after",), ("before",)]


class TestContract:
    @pytest.fixture(scope="class")
    def models(self):
        model = "{{ config(materialized='table') }} select 'a' as name, 1 as id"
        contract = "config: {contract: {enforced: true}}"
        return {
            "kept.sql": model,
            "broken.sql": model,
            "schema.yml": f"""
models:
  - name: kept
    {contract}
    columns: [{{name: id, data_type: int, constraints: [{{type: not_null}}]}}, {{name: name, data_type: string}}]
  - name: broken
    {contract}
    columns: [{{name: id, data_type: bigint}}, {{name: title, data_type: string}}]
""",
        }

    def test_a_contract_defines_the_column_order(self, project):
        run_dbt(["run", "--select", "kept"])
        assert project.run_sql("select * from {schema}.kept", fetch="all") == [(1, "a")]

    def test_a_violated_contract_reports_the_missing_columns(self, project):
        results = run_dbt(["run", "--select", "broken"], expect_pass=False)
        assert "missing in contract" in results[0].message
        assert "data type mismatch" in results[0].message


class TestCancel:
    def test_a_running_statement_is_cancelled_from_another_thread(self, project):
        with project.adapter.connection_named("long"):
            handle = project.adapter.connections.get_thread_connection().handle
        raised = []

        def work():
            cursor = handle.cursor()
            try:
                cursor.execute("select count(*) from range(1000000000000) where sin(id) > 2")
                cursor.fetchall()
            except StatementCancelled as error:
                raised.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        deadline = time.monotonic() + 60
        jobs = handle.session.spark.sparkContext.statusTracker()
        while not jobs.getActiveJobsIds() and time.monotonic() < deadline:
            time.sleep(0.05)
        handle.cancel()
        thread.join(deadline - time.monotonic())
        assert not thread.is_alive()
        assert "cancel" in raised[0].lower()


class TestLocation:
    @pytest.fixture(scope="class")
    def elsewhere(self, tmp_path_factory):
        return tmp_path_factory.mktemp("elsewhere")

    @pytest.fixture(scope="class")
    def models(self, elsewhere):
        return {"away.sql": f"{{{{ config(materialized='table', location_root='{elsewhere}') }}}} select 1 as id"}

    def test_the_model_sets_the_location_of_the_table(self, project, elsewhere):
        for _ in range(2):
            run_dbt(["run"])
        assert (elsewhere / "away" / "_delta_log").is_dir()
        assert project.run_sql("select * from {schema}.away", fetch="all") == [(1,)]


EVOLVING = """
{{ config(materialized='incremental', unique_key='id', merge_with_schema_evolution=true, **var('more', {})) }}
{{ var('query') }}
"""


class TestSchemaEvolution:
    @pytest.fixture(scope="class")
    def models(self):
        return {"orders.sql": EVOLVING}

    def test_a_merge_adds_the_columns_and_fields_of_the_model(self, project):
        def build(query, **variables):
            return run_dbt(["run", "--vars", str({"query": query, **variables})])[0]

        def rows(columns):
            return project.run_sql(f"select {columns} from {{schema}}.orders order by id", fetch="all")

        build("select 1 as id, named_struct('a', 1) as s")
        result = build("select id, named_struct('a', id, 'b', id) as s, 'new' as Extra from values (1), (2) as v (id)")
        assert "merge: 1 inserted, 1 updated" in result.message
        assert rows("id, s.a, s.b, extra") == [(1, 1, 1, "new"), (2, 2, 2, "new")]
        # Updates set only the chosen columns. Inserts set all columns of the model.
        build("select id, 'x' as more, 'y' as other from values (2), (3) as v (id)", more={"merge_update_columns": ["more"]})
        assert rows("id, s.a, extra, more, other") == [(1, 1, "new", None, None), (2, 2, "new", "x", None), (3, None, None, "x", "y")]
