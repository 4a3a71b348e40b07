"""Names of three parts, and the catalog as tables."""

from __future__ import annotations

import pytest

import rowmerge


def test_the_catalog_name_can_qualify_a_schema(spark, tmp_path):
    catalog = {"type": "sql", "name": "Lake", "uri": f"sqlite:///{tmp_path}/catalog.db", "init_catalog_tables": "true"}
    session = rowmerge.connect(str(tmp_path / "warehouse"), catalog=catalog, spark=spark)
    session.sql("create schema db")
    session.sql("create table lake.db.orders as select 1 as id")
    session.sql("merge into lake.db.orders t using lake.db.orders s on t.id = s.id + 1 when not matched then insert (id) values (2)")
    rows = session.sql("select lake.db.orders.id from LAKE.db.orders union all select id from db.orders").collect()
    assert sorted(row[0] for row in rows) == [1, 1, 2, 2]
    tables = session.sql("select table_catalog, table_name, data_source_format from lake.information_schema.tables").collect()
    assert [tuple(row) for row in tables] == [("lake", "orders", "ICEBERG")]


def test_the_information_schema_can_be_queried(session):
    session.sql("create table t (id int not null comment 'the id', v string) using delta")
    session.sql("create view v as select id from t")

    def rows(query):
        return sorted(tuple(row) for row in session.sql(query).collect())

    assert rows("select table_name, table_type from information_schema.tables where table_schema ilike 'DEF%'") == [
        ("t", "BASE TABLE"),
        ("v", "VIEW"),
    ]
    assert rows("select schema_name from rowmerge.information_schema.schemata") == [("default",)]
    assert rows("select view_definition from INFORMATION_SCHEMA.views") == [("select id from t",)]
    columns = "select column_name, ordinal_position, is_nullable, data_type, comment from information_schema.columns where table_name = 't'"
    assert rows(columns) == [("id", 1, "NO", "int", "the id"), ("v", 2, "YES", "string", None)]
    (table,) = rows("show table extended in default like 't*'")
    (view,) = rows("show table extended like 'v'")
    assert (table[:3], view[:3]) == (("default", "t", False), ("default", "v", False))
    assert {"Database: default", "Table: t", "Type: MANAGED", "Provider: delta"} < set(table[3].splitlines())
    assert table[3].endswith("Schema: root\n |-- id: int (nullable = false)\n |-- v: string (nullable = true)\n\n")
    assert {"Type: VIEW", "View Text: select id from t"} < set(view[3].splitlines())
    session.sql("drop view v")
    assert rows("select table_name from information_schema.tables") == [("t",)]


@pytest.mark.parametrize(
    "statement",
    [
        "update t set v = 'b' where id = 1",
        "explain update t set v = 'b' where id = 1",
        "delete from default.t where id = 1",
        "merge into t using (select 1 as id) s on t.id = s.id when matched then update set v = 'c'",
        "insert into rowmerge.default.t values (2, 'd')",
    ],
)
def test_a_statement_opens_its_target_once(session, monkeypatch, statement):
    session.sql("create table t (id int, v string) using delta")
    opened = []
    open_table = session._catalog.open
    monkeypatch.setattr(session._catalog, "open", lambda *name: opened.append(name) or open_table(*name))
    session.sql(statement)
    assert opened == [("default", "t")]
