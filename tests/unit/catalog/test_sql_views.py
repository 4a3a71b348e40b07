"""Views of a SQL catalog: concurrent changes, names that tables have, other clients of the database, and interrupted statements."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from rowmerge.catalog import IcebergCatalog, Relation, View
from rowmerge.errors import AlreadyExists, CatalogFailed, TableError
from rowmerge.iceberg.catalogs.sql_views import SqlViews
from rowmerge.table.commits.request import CommitRequest, Conflicted
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.iceberg_rest_server import needs_jars, serving_with_java

COLUMNS = Struct((Field("id", Primitive("long")),))
DEFINITION = TableDefinition(COLUMNS, (), {})


@pytest.fixture
def configuration(tmp_path: Path) -> dict[str, Any]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/rest.db", "warehouse": f"file://{tmp_path}/elsewhere"}


@pytest.fixture
def catalog(configuration: dict[str, Any]) -> IcebergCatalog:
    catalog = IcebergCatalog(configuration, None)
    catalog.create_schema("raw")
    return catalog


def put_view(catalog: IcebergCatalog, sql: str, *, or_replace: bool = True) -> View:
    return catalog.put_view(View(Relation.of_view("raw", "v"), sql, "raw", COLUMNS), or_replace=or_replace)


def interrupt(method: str, monkeypatch: pytest.MonkeyPatch, interference: Callable[[], object]) -> None:
    """Let another writer act once, right before the next call of a method of SqlViews."""
    original = getattr(SqlViews, method)

    def interfere(self: SqlViews, *arguments: Any) -> Any:
        monkeypatch.setattr(SqlViews, method, original)
        interference()
        return original(self, *arguments)

    monkeypatch.setattr(SqlViews, method, interfere)


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*.json"))


def test_concurrent_replacements_do_not_lose_a_version(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = IcebergCatalog(configuration, None)
    put_view(catalog, "select 1 as id")
    interrupt("_execute", monkeypatch, lambda: put_view(other, "select 2 as id"))
    assert put_view(catalog, "select 3 as id").sql == "select 3 as id"
    metadata = catalog._client.load_view("raw", "v")
    assert metadata is not None
    assert [version["representations"][0]["sql"] for version in metadata["versions"]] == [f"select {n} as id" for n in (1, 2, 3)]
    assert [version["version-id"] for version in metadata["versions"]] == [1, 2, 3]


def test_two_creations_at_the_same_time_create_one_view(
    catalog: IcebergCatalog, configuration: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = IcebergCatalog(configuration, None)
    interrupt("_execute", monkeypatch, lambda: put_view(other, "select 2 as id"))
    with pytest.raises(AlreadyExists, match="concurrent"):
        put_view(catalog, "select 1 as id", or_replace=False)
    assert catalog.view("raw", "v").sql == "select 2 as id"
    assert len(files(tmp_path)) == 1, "the file of the view that was not created is deleted"


def test_a_view_and_a_table_cannot_have_the_same_name(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pyiceberg_catalog = load_catalog("default", **configuration)
    schema = Schema(NestedField(1, "id", LongType()))
    interrupt("_execute", monkeypatch, lambda: pyiceberg_catalog.create_table("raw.v", schema))
    with pytest.raises(AlreadyExists):
        put_view(catalog, "select 1 as id")
    pyiceberg_catalog.drop_table("raw.v")
    table = catalog.new_table("raw", "v", "iceberg")
    put_view(catalog, "select 1 as id")
    with pytest.raises(TableAlreadyExistsError):
        pyiceberg_catalog.create_table("raw.v", schema)
    assert isinstance(table.create(DEFINITION, CommitRequest("CREATE TABLE", definition=DEFINITION)), Conflicted)
    pyiceberg_catalog.create_table("raw.t", schema)
    with pytest.raises(AlreadyExists):
        catalog.rename(Relation.of_view("raw", "v"), "raw", "t")
    with pytest.raises(TableAlreadyExistsError):
        pyiceberg_catalog.rename_table("raw.t", "raw.v")


def test_other_clients_see_only_tables(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    put_view(catalog, "select 1 as id")
    pyiceberg_catalog = load_catalog("default", **configuration)
    assert pyiceberg_catalog.list_tables("raw") == [] and not pyiceberg_catalog.table_exists("raw.v")
    pyiceberg_catalog.create_table("raw.t", Schema(NestedField(1, "id", LongType())))
    assert [str(relation) for relation in catalog.relations("raw")] == ["raw.t", "raw.v"]
    catalog.drop_schema("raw", cascade=True)
    assert pyiceberg_catalog.list_namespaces() == []


def test_a_table_with_the_old_name_of_a_view_does_not_share_its_folder(catalog: IcebergCatalog) -> None:
    put_view(catalog, "select 1 as id")
    catalog.rename(Relation.of_view("raw", "v"), "raw", "w")
    table = catalog.new_table("raw", "v", "iceberg")
    metadata = catalog._client.load_view("raw", "w")
    assert metadata is not None and not metadata["location"].startswith(f"{table.location}/")


def test_a_drop_does_not_delete_the_files_of_a_view_that_is_renamed_at_the_same_time(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = IcebergCatalog(configuration, None)
    put_view(catalog, "select 1 as id")
    interrupt("_execute", monkeypatch, lambda: other.rename(Relation.of_view("raw", "v"), "raw", "w"))
    catalog.drop_view("raw", "v")
    assert catalog.view("raw", "w").sql == "select 1 as id"


def test_a_lost_answer_of_the_database_does_not_repeat_the_creation(catalog: IcebergCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = SqlViews._execute

    def lose_answer(self: SqlViews, statement: Any) -> int:
        execute(self, statement)
        raise OSError("connection lost")

    monkeypatch.setattr(SqlViews, "_execute", lose_answer)
    assert put_view(catalog, "select 1 as id").version == 1
    monkeypatch.setattr(SqlViews, "_execute", lambda self, statement: (_ for _ in ()).throw(OSError("connection lost")))
    with pytest.raises(CatalogFailed, match="connection lost"):
        put_view(catalog, "select 2 as id")
    assert catalog.view("raw", "v").sql == "select 1 as id"


def test_old_versions_are_deleted_and_the_last_ten_stay(catalog: IcebergCatalog, tmp_path: Path) -> None:
    for number in range(14):
        put_view(catalog, f"select {number} as id")
    metadata = catalog._client.load_view("raw", "v")
    assert metadata is not None and len(metadata["versions"]) == 10
    numbers = [int(os.path.basename(file)[:5]) for file in files(tmp_path)]
    assert sorted(numbers)[-1] == 13 and 10 <= len(numbers) <= 11


def test_a_database_without_types_of_rows_is_refused_with_the_setting_that_adds_them(
    catalog: IcebergCatalog, configuration: dict[str, Any], tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "rest.db") as database:
        database.execute("alter table iceberg_tables drop column iceberg_type")
    old = IcebergCatalog(configuration, None)
    with pytest.raises(TableError, match="Set schema_version: v1"):
        put_view(old, "select 1 as id")
    assert old.relations("raw") == []
    put_view(IcebergCatalog({**configuration, "schema_version": "v1"}, None), "select 1 as id")
    assert [str(relation) for relation in IcebergCatalog(configuration, None).relations("raw")] == ["raw.v"]


@needs_jars
def test_icebergs_jdbc_catalog_reads_and_replaces_the_views(tmp_path: Path) -> None:
    configuration = {"type": "sql", "uri": f"sqlite:///{tmp_path}/rest.db", "warehouse": f"file://{tmp_path}/elsewhere"}
    with serving_with_java(tmp_path) as uri:
        java = IcebergCatalog({"type": "rest", "uri": uri}, None)
        java.create_schema("raw")
        # The server's JdbcCatalog has a name of its own in the database.
        with sqlite3.connect(tmp_path / "rest.db") as database:
            ((name,),) = database.execute("select distinct catalog_name from iceberg_namespace_properties").fetchall()
        ours = IcebergCatalog({"name": name, **configuration}, None)
        put_view(ours, "select 1 as id")
        assert java.view("raw", "v").sql == "select 1 as id"
        put_view(java, "select 2 as id")
        assert ours.view("raw", "v").sql == "select 2 as id"
        put_view(ours, "select 3 as id")
        assert java.view("raw", "v").sql == "select 3 as id" and java.view("raw", "v").version == 3
        java.rename(Relation.of_view("raw", "v"), "raw", "w")
        assert [str(relation) for relation in ours.relations("raw")] == ["raw.w"]
        ours.drop_view("raw", "w")
        assert java.relations("raw") == []
