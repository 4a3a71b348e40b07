"""Catalogs of pyiceberg in a session: SQL on SQLite, Glue, Hive, and REST on a small server and on Iceberg's server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from rowmerge.catalog import IcebergCatalog, Relation, View
from rowmerge.commands.functions import FunctionDefinition
from rowmerge.errors import (
    AlreadyExists,
    CatalogFailed,
    ConfigurationError,
    FunctionNotFound,
    MetadataChanged,
    SchemaNotFound,
    TableError,
    TableNotFound,
)
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.schema import Array, Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from tests.support.glue import needs_moto, serving_glue
from tests.support.hive_metastore import emptied_hive, needs_hive
from tests.support.iceberg_rest_server import needs_jars, serving_with_java
from tests.support.postgresql import needs_postgresql, new_database
from tests.support.rest_catalog import ENDPOINTS, Answer, serving
from tests.support.table_operations import write_rows_for

COLUMNS = Struct((Field("id", Primitive("long")), Field("v", Primitive("string"))))
DEFINITION = TableDefinition(COLUMNS, (), {"owner": "us"})


def _sql(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/elsewhere"}


@pytest.fixture(
    params=[
        "sql",
        "rest",
        pytest.param("java", marks=needs_jars),
        pytest.param("glue", marks=needs_moto),
        pytest.param("hive", marks=[needs_hive, pytest.mark.full_suite("test_hive_catalog.py tests Hive in the gate")]),
        pytest.param("postgresql", marks=[needs_postgresql, pytest.mark.full_suite("pyiceberg treats all databases alike")]),
    ]
)
def configuration(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    sql = _sql(tmp_path)
    if request.param == "sql":
        yield sql
        return
    if request.param == "glue":
        with serving_glue() as glue:
            yield {**glue, "warehouse": f"file://{tmp_path}/elsewhere"}
        return
    if request.param == "hive":
        with emptied_hive(request.getfixturevalue("hive_metastore"), f"file://{tmp_path}/elsewhere") as hive:
            yield hive
        return
    if request.param == "postgresql":
        with new_database(request.getfixturevalue("postgresql")) as uri:
            yield {**sql, "uri": uri}
        return
    with serving_with_java(tmp_path) if request.param == "java" else serving(sql) as uri:
        yield {"type": "rest", "uri": uri}


@pytest.fixture
def catalog(configuration: dict[str, Any], tmp_path: Path) -> IcebergCatalog:
    catalog = IcebergCatalog(configuration, str(tmp_path / "w"))
    catalog.create_schema("raw")
    return catalog


def schemas_of(catalog: IcebergCatalog) -> list[str]:
    """Return the schemas without the one that a Hive metastore always has."""
    return [schema for schema in catalog.schemas() if schema != "default"]


def create_table(catalog: IcebergCatalog, name: str = "t", location: str | None = None) -> Any:
    table = catalog.new_table("raw", name, "iceberg", location)
    assert isinstance(table.create(DEFINITION, CommitRequest("CREATE TABLE", definition=DEFINITION)), Committed)
    return table


def test_schemas_are_namespaces(catalog: IcebergCatalog) -> None:
    catalog.create_schema("Other", comment="words", properties={"p": "1"})
    assert schemas_of(catalog) == ["other", "raw"]
    assert catalog.schema_exists("OTHER") and not catalog.schema_exists("missing")
    with pytest.raises(AlreadyExists, match="already exists"):
        catalog.create_schema("raw")
    catalog.create_schema("raw", if_not_exists=True)
    catalog.drop_schema("other")
    catalog.drop_schema("other", if_exists=True)
    with pytest.raises(SchemaNotFound, match="`raw`"):
        catalog.drop_schema("other")
    assert schemas_of(catalog) == ["raw"]


def test_functions_are_not_supported_in_iceberg_catalogs(catalog: IcebergCatalog) -> None:
    assert catalog.functions.names("raw") == [] and catalog.functions.get("raw", "f") is None
    with pytest.raises(TableError, match=r"The function raw.f cannot be created: .* does not support functions.*use a warehouse"):
        catalog.functions.put("raw", "f", FunctionDefinition((), "int", "1"), "raw", or_replace=True)
    with pytest.raises(FunctionNotFound):
        catalog.functions.drop("raw", "f")


def test_a_created_table_is_listed_and_a_second_creation_conflicts(catalog: IcebergCatalog, tmp_path: Path) -> None:
    table = catalog.new_table("raw", "t", "iceberg")
    assert not table.exists() and catalog.relation("raw", "t") is None
    assert isinstance(table.create(DEFINITION, CommitRequest("CREATE TABLE", definition=DEFINITION)), Committed)
    assert isinstance(table.create(DEFINITION, CommitRequest("CREATE TABLE", definition=DEFINITION)), Conflicted)
    assert catalog.relations("raw") == [Relation("raw", "t", "table", "iceberg")] == [catalog.relation("RAW", "T")]
    assert catalog.open("raw", "t") is table
    assert catalog.location_of("raw", "t") == table.location == f"file://{tmp_path}/w/raw/t"
    snapshot = catalog.open("raw", "T").snapshot()
    assert snapshot.schema.names == COLUMNS.names and snapshot.settings.properties["owner"] == "us"


def test_earlier_commits_of_other_clients_conflict(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    table = create_table(catalog)
    base = table.snapshot()
    pyiceberg_table = load_catalog("default", **configuration).load_table("raw.t")
    with pyiceberg_table.update_schema() as change:
        change.add_column("n", LongType())
    rename = CommitRequest("ALTER TABLE", definition=TableDefinition(properties={**base.settings.properties, "x": "1"}))
    outcome = table.commit(base, rename)
    assert isinstance(outcome, Conflicted)
    assert isinstance(outcome.conflict, MetadataChanged)
    assert "x" not in table.snapshot().settings.properties
    assert table.snapshot().schema.names == ("id", "v", "n")


def test_concurrent_commits_of_other_clients_conflict(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_table(catalog)
    base = table.snapshot()
    commit_table = catalog._client.catalog.commit_table

    def add_column_and_commit(*arguments: Any) -> Any:
        with load_catalog("default", **configuration).load_table("raw.t").update_schema() as change:
            change.add_column("n", LongType())
        return commit_table(*arguments)

    monkeypatch.setattr(catalog._client.catalog, "commit_table", add_column_and_commit)
    outcome = table.commit(
        base, CommitRequest("ALTER TABLE", definition=TableDefinition(properties={**base.settings.properties, "x": "1"}))
    )
    assert isinstance(outcome, Conflicted) and isinstance(outcome.conflict, MetadataChanged)
    assert "x" not in table.snapshot().settings.properties and table.snapshot().schema.names == ("id", "v", "n")


def test_dropping_a_table_deletes_only_its_own_files(catalog: IcebergCatalog, tmp_path: Path) -> None:
    create_table(catalog)
    assert list((tmp_path / "w/raw/t/metadata").iterdir())
    (tmp_path / "w/raw/t/notes.txt").write_text("of somebody else")
    catalog.drop_table("raw", "T")
    assert [file.name for file in (tmp_path / "w").rglob("*") if file.is_file()] == ["notes.txt"]
    assert catalog.relations("raw") == []
    with pytest.raises(TableNotFound):
        catalog.drop_table("raw", "t")
    create_table(catalog)


def test_dropping_an_external_table_keeps_its_files(catalog: IcebergCatalog, tmp_path: Path) -> None:
    place = str(tmp_path / "there")
    create_table(catalog, location=place)
    catalog.register("raw", "t", "iceberg", place)
    with pytest.raises(AlreadyExists):
        catalog.register("raw", "t", "iceberg", str(tmp_path / "elsewhere"))
    assert catalog.open("raw", "t").location == f"file://{place}"
    catalog.drop_table("raw", "t")
    assert list((tmp_path / "there/metadata").iterdir())


def test_without_a_warehouse_the_catalog_determines_locations(configuration: dict[str, Any], tmp_path: Path) -> None:
    catalog = IcebergCatalog(configuration, None)
    catalog.create_schema("raw")
    assert create_table(catalog).location.startswith(f"file://{tmp_path}/elsewhere/")
    catalog.drop_schema("raw", cascade=True)
    assert not [file for file in (tmp_path / "elsewhere").rglob("*") if file.is_file()]


def test_names_are_case_insensitive(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    pyiceberg_catalog = load_catalog("default", **configuration)
    pyiceberg_catalog.create_namespace("Mixed")
    pyiceberg_catalog.create_table("Mixed.Orders", Schema(NestedField(1, "id", LongType())))
    other_catalog = IcebergCatalog(configuration, None)
    assert other_catalog.relations("mixed") == [Relation("mixed", "orders", "table", "iceberg")]
    assert other_catalog.open("MIXED", "orders").snapshot().schema.names == ("id",)
    with pytest.raises(TableError, match="not empty: it contains orders"):
        other_catalog.drop_schema("mixed")
    other_catalog.drop_schema("mixed", cascade=True)
    assert schemas_of(other_catalog) == ["raw"]


def test_missing_tables_and_schemas_are_reported(catalog: IcebergCatalog) -> None:
    create_table(catalog, "orders")
    with pytest.raises(TableNotFound, match="orders"):
        catalog.open("raw", "order")
    with pytest.raises(SchemaNotFound):
        catalog.new_table("row", "t", "iceberg")
    assert catalog.relation("nowhere", "t") is None and catalog.relations("nowhere") == []


def test_delta_tables_are_refused(catalog: IcebergCatalog) -> None:
    with pytest.raises(ConfigurationError, match="supports only Iceberg tables.*USING iceberg"):
        catalog.new_table("raw", "t", "delta")


def test_views_are_created_replaced_and_dropped(catalog: IcebergCatalog, configuration: dict[str, Any], tmp_path: Path) -> None:
    def put(sql: str, *, or_replace: bool = False, **more: Any) -> Any:
        fields = {"default_schema": "raw", "columns": COLUMNS, "comment": "words", **more}
        return catalog.put_view(View(Relation.of_view("raw", "v"), sql, **fields), or_replace=or_replace)

    assert put("select 1 as id, 'a' as v").sql == "select 1 as id, 'a' as v"
    with pytest.raises(AlreadyExists):
        put("select 2")
    original = catalog._client.load_view("raw", "v")
    assert original is not None
    assert put("select 2 as id, 'b' as v", or_replace=True, properties={"owner": "us"}).columns == COLUMNS
    wider = Struct((*COLUMNS.fields, Field("s", Struct((Field("a", Array(Primitive("date"), True)), Field("b", Primitive("double")))))))
    assert put("select 3", or_replace=True, columns=wider).columns == wider
    assert put("select 4", or_replace=True, columns=wider).sql == "select 4"
    replaced = catalog._client.load_view("raw", "v")
    assert replaced is not None
    assert replaced["view-uuid"] == original["view-uuid"] and len(replaced["versions"]) == 4, "replaced in its place"
    assert catalog.view("raw", "v").comment == "words" and "owner" not in replaced["properties"]
    assert catalog.relation("raw", "v") == Relation("raw", "v", "view", None) == catalog.relations("raw")[0]
    with pytest.raises(TableError, match="is a view"):
        catalog.open("raw", "v")
    with pytest.raises(TableError, match="DROP VIEW"):
        catalog.drop_table("raw", "v")
    with pytest.raises(TableError, match="not empty: it contains v"):
        catalog.drop_schema("raw")
    catalog.rename(Relation.of_view("raw", "v"), "raw", "w")
    assert catalog.relations("raw") == [Relation("raw", "w", "view", None)] and catalog.view("raw", "w").sql == "select 4"
    catalog.drop_view("raw", "w")
    assert catalog.relations("raw") == []
    assert [file for file in tmp_path.rglob("*") if ".view-" in str(file)] == []


def test_a_view_is_recreated_if_the_server_cannot_replace_views(tmp_path: Path) -> None:
    def put(catalog: IcebergCatalog, sql: str) -> str:
        return catalog.put_view(View(Relation.of_view("raw", "v"), sql, "raw", COLUMNS), or_replace=True).sql

    def refuse_replacement(request: str, answer: Callable[[], Answer]) -> Answer:
        return (405, {}) if request == "POST /v1/namespaces/raw/views/v" else answer()

    with serving(_sql(tmp_path), refuse_replacement) as uri:
        catalog = IcebergCatalog({"type": "rest", "uri": uri}, None)
        catalog.create_schema("raw")
        assert [put(catalog, "select 1 as id"), put(catalog, "select 2 as id")] == ["select 1 as id", "select 2 as id"]


def test_a_refused_view_replacement_keeps_the_view(tmp_path: Path) -> None:
    def refuse_view(request: str, answer: Callable[[], Answer]) -> Answer:
        answer_content = {"error": {"message": "loss of view dialects", "type": "IllegalStateException", "code": 400}}
        return (400, answer_content) if request == "POST /v1/namespaces/raw/views/v" else answer()

    with serving(_sql(tmp_path), refuse_view) as uri:
        catalog = IcebergCatalog({"type": "rest", "uri": uri}, None)
        catalog.create_schema("raw")
        catalog.put_view(View(Relation.of_view("raw", "v"), "select 1 as id", "raw", COLUMNS))
        with pytest.raises(CatalogFailed, match="loss of view dialects"):
            catalog.put_view(View(Relation.of_view("raw", "v"), "select 2 as id", "raw", COLUMNS), or_replace=True)
        assert catalog.view("raw", "v").sql == "select 1 as id"


def test_a_server_interprets_the_name_of_its_warehouse(tmp_path: Path) -> None:
    with serving(_sql(tmp_path)) as uri:
        catalog = IcebergCatalog({"type": "rest", "uri": uri, "warehouse": "bl://projects/p/catalogs/lake"}, None)
        catalog.create_schema("raw")
        assert catalog.schemas() == ["raw"]


def test_a_server_without_view_endpoints_supports_tables(tmp_path: Path) -> None:
    def hide_views(request: str, answer: Callable[[], Answer]) -> Answer:
        if request == "GET /v1/config":
            return 200, {"defaults": {}, "overrides": {}, "endpoints": [each for each in ENDPOINTS if "views" not in each]}
        return (404, {"error": {"message": "no endpoint", "type": "NotFound", "code": 404}}) if "/views" in request else answer()

    with serving(_sql(tmp_path), hide_views) as uri:
        catalog = IcebergCatalog({"type": "rest", "uri": uri}, None)
        catalog.create_schema("raw")
        assert catalog.relation("raw", "t") is None
        create_table(catalog)
        assert catalog.relations("raw") == [Relation("raw", "t", "table", "iceberg")]
        with pytest.raises(TableError, match="does not support views"):
            catalog.put_view(View(Relation.of_view("raw", "v"), "select 1 as id", "raw", COLUMNS))


def test_error_messages_contain_no_secrets(tmp_path: Path) -> None:
    secret = "s3cr3t-w0rd"
    for uri in (
        f"sqlite:////nowhere/{secret}/x.db?token={secret}",
        f"mysql+{secret}://me:{secret}@h/x",
        f"http://me:{secret}@127.0.0.1:1/x",
    ):
        configuration = {"type": "rest" if uri.startswith("http") else "sql", "uri": uri, "password": secret, "credential": f"id:{secret}"}
        with pytest.raises((CatalogFailed, ConfigurationError)) as raised:
            IcebergCatalog(configuration, str(tmp_path)).schemas()
        assert secret not in str(raised.value)
        assert raised.value.__cause__ is None and raised.value.__suppress_context__


def test_an_unreachable_metastore_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises((CatalogFailed, ConfigurationError)) as raised:
        IcebergCatalog(
            {"type": "hive", "uri": "thrift://127.0.0.1:1", "name": "metastore", "s3.secret-access-key": "s3cr3t"}, None
        ).schemas()
    assert "metastore" in str(raised.value) and "s3cr3t" not in str(raised.value)
    if find_spec("thrift") is None:
        assert "pyiceberg[hive]" in str(raised.value)
    else:
        assert isinstance(raised.value, CatalogFailed)


def test_invalid_catalog_configurations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        IcebergCatalog({"type": "sqlite"}, str(tmp_path))
    with pytest.raises(ConfigurationError, match="URI missing"):
        IcebergCatalog({"type": "rest"}, str(tmp_path))


def _rename(catalog: IcebergCatalog, name: str, new_name: str, schema: str = "raw") -> None:
    relation = catalog.relation("raw", name)
    assert relation is not None
    catalog.rename(relation, schema, new_name)


def test_a_renamed_table_keeps_its_folder_and_a_new_table_of_the_old_name_gets_another_one(catalog: IcebergCatalog, tmp_path: Path) -> None:
    table = create_table(catalog, "a")
    _rename(catalog, "a", "B")
    assert catalog.open("raw", "b").location == table.location == f"file://{tmp_path}/w/raw/a"
    with pytest.raises(TableNotFound):
        catalog.open("raw", "a")
    new_table = create_table(catalog, "a")
    assert new_table.location.startswith(f"file://{tmp_path}/w/raw/a-")
    with pytest.raises(AlreadyExists, match=r"raw\.b already exists"):
        _rename(catalog, "a", "b")
    with pytest.raises(SchemaNotFound):
        _rename(catalog, "a", "c", "nowhere")
    catalog.drop_table("raw", "a")
    assert not [file for file in (tmp_path / "w").rglob("*") if file.is_file() and "/a-" in str(file)]
    catalog.create_schema("other")
    _rename(catalog, "b", "a", "other")
    assert catalog.relations("raw") == [] and catalog.open("other", "a").snapshot().schema.names == COLUMNS.names


def test_a_commit_to_a_table_that_another_client_renamed_is_an_error_and_changes_nothing(
    catalog: IcebergCatalog, configuration: dict[str, Any]
) -> None:
    table = create_table(catalog, "a")
    base = table.snapshot()
    _rename(IcebergCatalog(configuration, None), "a", "b")
    change = CommitRequest("ALTER TABLE", definition=TableDefinition(properties={**base.settings.properties, "x": "1"}))
    assert isinstance(table.commit(base, change), Conflicted)
    with pytest.raises(TableNotFound):
        table.snapshot()
    assert "x" not in catalog.open("raw", "b").snapshot().settings.properties


def test_vacuum_of_a_table_in_the_folder_of_another_table_is_refused(
    catalog: IcebergCatalog, configuration: dict[str, Any], tmp_path: Path
) -> None:
    """pyiceberg gives the default folder of a renamed table to a new one."""
    table = create_table(catalog, "a")
    _rename(catalog, "a", "b")
    schema = Schema(NestedField(1, "id", LongType()))
    load_catalog("default", **configuration).create_table("raw.a", schema, location=table.location)
    vacuum = VacuumOptions(retain_hours=0, check_retention=False)
    for name, other in (("a", "b"), ("b", "a")):
        with pytest.raises(TableError, match=rf"files of raw\.{other} are in the same folder as those of raw\.{name}"):
            catalog.open("raw", name).vacuum(vacuum)
    load_catalog("default", **configuration).drop_table("raw.a")
    files = [file for file in (tmp_path / "w").rglob("*") if file.is_file()]
    assert set(catalog.open("raw", "b").vacuum(vacuum).paths) < {f"file://{file}" for file in files}
    assert catalog.open("raw", "b").snapshot().schema.names == COLUMNS.names


def test_a_view_can_be_renamed(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    create_table(catalog, "t")
    catalog.put_view(View(Relation.of_view("raw", "v"), "select 1", "raw", COLUMNS))
    _rename(catalog, "v", "w")
    assert catalog.relation("raw", "v") is None and catalog.view("raw", "w").sql == "select 1"
    with pytest.raises(AlreadyExists):
        _rename(catalog, "w", "t")


def test_new_files_go_to_a_new_location_and_old_files_stay(catalog: IcebergCatalog, tmp_path: Path) -> None:
    columns = Struct((Field("id", Primitive("long")), Field("name", Primitive("string"))))
    table = catalog.new_table("raw", "t", "iceberg")
    assert isinstance(table.create(TableDefinition(columns), CommitRequest("CREATE TABLE")), Committed)
    snapshot = table.snapshot()
    request = CommitRequest("WRITE", files=FileChanges(write_rows_for(snapshot.shape, [1])), reads=Reads())
    assert isinstance(table.commit(snapshot, request), Committed)
    relation = catalog.relation("raw", "t")
    assert relation is not None
    catalog.set_location(relation, str(tmp_path / "new"))
    moved = catalog.open("raw", "t")
    assert moved.location == f"file://{tmp_path}/new"
    snapshot = moved.snapshot()
    request = CommitRequest("WRITE", files=FileChanges(write_rows_for(snapshot.shape, [2])), reads=Reads())
    assert isinstance(moved.commit(snapshot, request), Committed)
    paths = sorted(catalog.open("raw", "t").snapshot().files().paths)
    assert [path.startswith(f"file://{tmp_path}/{folder}/") for path, folder in zip(paths, ("new", "w"), strict=True)] == [True, True]
    catalog.drop_table("raw", "t")
    assert all(Path(path.removeprefix("file://")).exists() for path in paths)
