"""Snapshots record history with one MERGE per run."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

SNAPSHOT = """
{{% snapshot history %}}
{{{{ config({config}) }}}}
select * from {{{{ source('raw', 'people') }}}}
{{% endsnapshot %}}
"""
SOURCES = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: people}]}]'


class History:
    config = ""
    columns = "id int, town string, name string, at timestamp"
    first = "(1, 'Rome', 'a', timestamp'2024-01-01'), (1, 'Bonn', 'b', timestamp'2024-01-01'), (2, 'Rome', 'c', timestamp'2024-01-01')"

    @pytest.fixture(scope="class")
    def models(self):
        return {"sources.yml": SOURCES}

    @pytest.fixture(scope="class")
    def snapshots(self):
        return {"history.sql": SNAPSHOT.format(config=self.config)}

    @pytest.fixture
    def first_snapshot(self, project):
        project.run_sql(f"create or replace table {{schema}}.people ({self.columns})")
        project.run_sql(f"insert into {{schema}}.people values {self.first}")
        run_dbt(["snapshot"])

    @pytest.fixture
    def history(self, project):
        def fetch(columns):
            return sorted(project.run_sql(f"select {columns} from {{schema}}.history", fetch="all"), key=repr)

        return fetch


class TestTimestampWithCompositeKey(History):
    config = "unique_key=['id', 'town'], strategy='timestamp', updated_at='at', hard_deletes='invalidate', target_schema=schema"

    def test_changed_new_and_deleted_rows_are_recorded_without_helper_columns(self, project, first_snapshot, history):
        project.run_sql("update {schema}.people set name = 'A', at = timestamp'2024-02-01' where id = 1 and town = 'Rome'")
        project.run_sql("delete from {schema}.people where id = 2")
        project.run_sql("insert into {schema}.people values (3, 'Oslo', 'd', timestamp'2024-02-01')")
        result = run_dbt(["snapshot"])[0]
        assert (result.adapter_response["rows_inserted"], result.adapter_response["rows_updated"]) == (2, 2)
        assert history("id, town, name, dbt_valid_to is null") == [
            (1, "Bonn", "b", True),
            (1, "Rome", "A", True),
            (1, "Rome", "a", False),
            (2, "Rome", "c", False),
            (3, "Oslo", "d", True),
        ]
        with project.adapter.connection_named("test"):
            names = [field.name for field in project.adapter.session.describe(project.test_schema, "history").columns]
        assert names == ["id", "town", "name", "at", "dbt_scd_id", "dbt_updated_at", "dbt_valid_from", "dbt_valid_to"]
        again = run_dbt(["snapshot"])[0]
        assert again.adapter_response["rows_affected"] == 0


class TestCheckWithNewColumn(History):
    config = "unique_key='id', strategy='check', check_cols='all', target_schema=schema"
    columns = "id int, name string"
    first = "(1, 'a'), (2, 'b')"

    def test_a_new_column_is_added_to_the_history(self, project, first_snapshot, history):
        project.run_sql("alter table {schema}.people add columns (town string)")
        project.run_sql("update {schema}.people set town = 'Rome' where id = 1")
        run_dbt(["snapshot"])
        assert (1, "a", "Rome", True) in history("id, name, town, dbt_valid_to is null")
        assert (1, "a", None, False) in history("id, name, town, dbt_valid_to is null")


class TestDeletesAsRecords(History):
    config = "unique_key='id', strategy='timestamp', updated_at='at', hard_deletes='new_record', target_schema=schema"
    columns = "id int, at timestamp"
    first = "(1, timestamp'2024-01-01'), (2, timestamp'2024-01-01')"

    def test_a_deleted_row_gets_a_separate_record(self, project, first_snapshot, history):
        project.run_sql("delete from {schema}.people where id = 2")
        run_dbt(["snapshot"])
        assert history("id, dbt_is_deleted, dbt_valid_to is null") == [
            (1, "False", True),
            (2, "False", False),
            (2, "True", True),
        ]


class TestCurrentRowsWithAnEnd(History):
    config = "unique_key='id', strategy='timestamp', updated_at='at', target_schema=schema, dbt_valid_to_current=\"timestamp'9999-12-31'\""
    columns = "id int, at timestamp"
    first = "(1, timestamp'2024-01-01'), (2, timestamp'2024-01-01')"

    def test_a_current_row_ends_in_the_far_future(self, project, first_snapshot, history):
        project.run_sql("update {schema}.people set at = timestamp'2024-02-01' where id = 1")
        run_dbt(["snapshot"])
        assert history("id, year(dbt_valid_from), month(dbt_valid_from), year(dbt_valid_to)") == [
            (1, 2024, 1, 2024),
            (1, 2024, 2, 9999),
            (2, 2024, 1, 9999),
        ]


KINDS = {
    "by_time": "strategy='timestamp', updated_at='at', hard_deletes='ignore'",
    "by_columns": "strategy='check', check_cols=['name'], hard_deletes='invalidate'",
    "with_records": "strategy='check', check_cols='all', hard_deletes='new_record', dbt_valid_to_current=\"timestamp'9999-12-31'\"",
    "renamed": "strategy='timestamp', updated_at='at', hard_deletes='new_record', snapshot_meta_column_names={'dbt_valid_from': 'since',"
    " 'dbt_valid_to': 'until', 'dbt_scd_id': 'scd', 'dbt_updated_at': 'changed', 'dbt_is_deleted': 'gone'}",
}


@pytest.mark.full_suite("the classes of dbt's suite below simple_snapshot, and the class below, cover the kinds one by one")
class TestEveryKind:
    """Composite keys, both formats and headers: a row changes, one is deleted, one returns, and the source has a new column."""

    @pytest.fixture(scope="class")
    def models(self):
        return {"sources.yml": SOURCES}

    @pytest.fixture(scope="class")
    def snapshots(self):
        header = "{{% call set_sql_header(config) %}} create or replace temporary view {name}_view as select 1 as one; {{% endcall %}}"
        return {
            f"{format}_{kind}.sql": f"{{% snapshot {format}_{kind} %}}"
            + header.format(name=f"{format}_{kind}")
            + f"{{{{ config(unique_key=['id', 'town'], file_format='{format}', target_schema=schema, {config}) }}}}"
            + f"select people.* from {{{{ source('raw', 'people') }}}} as people cross join {format}_{kind}_view {{% endsnapshot %}}"
            for format in ("delta", "iceberg")
            for kind, config in KINDS.items()
        }

    def test_each_run_records_history_in_one_commit_without_helper_columns(self, project):
        def commits(kind):
            return [len(project.run_sql(f"describe history {{schema}}.{format}_{kind}", fetch="all")) for format in ("delta", "iceberg")]

        project.run_sql("create or replace table {schema}.people (id int, town string, name string, at timestamp)")
        project.run_sql(
            "insert into {schema}.people values (1, 'Rome', 'a', timestamp'2024-01-01'), (1, 'Bonn', 'b', timestamp'2024-01-01'),"
            " (2, 'Rome', 'c', timestamp'2024-01-01')"
        )
        run_dbt(["snapshot"])
        project.run_sql("alter table {schema}.people add columns (size struct<w: int>)")
        project.run_sql("update {schema}.people set name = 'A', at = timestamp'2024-02-01', size.w = 1 where id = 1 and town = 'Rome'")
        project.run_sql("delete from {schema}.people where id = 2")
        old_counts = {kind: commits(kind) for kind in KINDS}
        run_dbt(["snapshot"])
        assert {kind: [count - 1 for count in commits(kind)] for kind in KINDS} == old_counts
        project.run_sql("insert into {schema}.people values (2, 'Rome', 'c', timestamp'2024-03-01', null)")
        run_dbt(["snapshot"])
        changed = [(1, "Bonn", "b", None, True), (1, "Rome", "A", 1, True), (1, "Rome", "a", None, False)]
        expected = {
            "by_time": [*changed, (2, "Rome", "c", None, False), (2, "Rome", "c", None, True)],
            "by_columns": [*changed, (2, "Rome", "c", None, False), (2, "Rome", "c", None, True)],
            # dbt takes every row for changed where all columns are checked and one is new.
            "with_records": [
                *changed,
                (1, "Bonn", "b", None, False),
                (2, "Rome", "c", None, False),
                (2, "Rome", "c", None, False),
                (2, "Rome", "c", None, True),
            ],
            "renamed": [*changed, (2, "Rome", "c", None, False), (2, "Rome", "c", None, False), (2, "Rome", "c", None, True)],
        }
        with project.adapter.connection_named("test"):
            for format in ("delta", "iceberg"):
                for kind, rows in expected.items():
                    described = project.adapter.session.describe(project.test_schema, f"{format}_{kind}")
                    names = [field.name for field in described.columns if not field.name.startswith("dbt_")]
                    assert names[:4] == ["id", "town", "name", "at"] and names[-1] == "size", names
                    assert not any("key" in field.name or "type" in field.name for field in described.columns)
                    end = "until" if kind == "renamed" else "dbt_valid_to"
                    query = f"select id, town, name, size.w, {end} is null or year({end}) = 9999 from {{schema}}.{format}_{kind}"
                    assert sorted(project.run_sql(query, fetch="all"), key=repr) == sorted(rows, key=repr), (format, kind)
