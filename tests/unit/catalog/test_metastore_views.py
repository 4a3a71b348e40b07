"""Views of Hive metastores and of Glue (moto): their form, concurrent changes, lost answers, and views of other tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from rowmerge.catalog import IcebergCatalog, Relation, View
from rowmerge.errors import AlreadyExists, CatalogFailed, RowmergeError, TableError
from rowmerge.table.commits.request import CommitRequest, Conflicted
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.glue import needs_moto, serving_glue
from tests.support.hive_metastore import emptied_hive, needs_hive

COLUMNS = Struct((Field("id", Primitive("long"), metadata={"comment": "key"}), Field("at", Primitive("timestamp"))))
DEFINITION = TableDefinition(COLUMNS)
SCHEMA = Schema(NestedField(1, "id", LongType()))


@pytest.fixture(params=[pytest.param("hive", marks=needs_hive), pytest.param("glue", marks=needs_moto)])
def configuration(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    if request.param == "hive":
        with emptied_hive(request.getfixturevalue("hive_metastore"), f"file://{tmp_path}/elsewhere") as hive:
            yield hive
    else:
        with serving_glue() as glue:
            yield {**glue, "warehouse": f"file://{tmp_path}/elsewhere"}


@pytest.fixture
def catalog(configuration: dict[str, Any]) -> IcebergCatalog:
    catalog = IcebergCatalog(configuration, None)
    catalog.create_schema("raw")
    return catalog


def put_view(catalog: IcebergCatalog, sql: str, *, or_replace: bool = True, name: str = "v", **more: Any) -> View:
    return catalog.put_view(View(Relation.of_view("raw", name), sql, "raw", COLUMNS, **more), or_replace=or_replace)


def entries(catalog: IcebergCatalog) -> Any:
    return catalog._client.view_store._entries  # type: ignore[attr-defined]


def interrupt(catalog: IcebergCatalog, method: str, monkeypatch: pytest.MonkeyPatch, interference: Callable[[], object]) -> None:
    """Let another writer act once, right before the next call of a method of the metastore's views."""
    original = getattr(entries(catalog), method)

    def interfere(*arguments: Any) -> Any:
        monkeypatch.setattr(entries(catalog), method, original)
        interference()
        return original(*arguments)

    monkeypatch.setattr(entries(catalog), method, interfere)


def stored_view(catalog: IcebergCatalog, name: str) -> dict[str, Any]:
    """Return what the metastore stores of a view, in Glue's form."""
    client = catalog._client.catalog
    if hasattr(client, "glue"):
        table: dict[str, Any] = client.glue.get_table(DatabaseName="raw", Name=name)["Table"]
        return table
    with client._client as metastore:  # type: ignore[attr-defined]
        view = metastore.get_table("raw", name)
    return {
        "TableType": view.tableType,
        "ViewOriginalText": view.viewOriginalText,
        "ViewExpandedText": view.viewExpandedText,
        "Parameters": view.parameters,
        "StorageDescriptor": {
            "Columns": [{"Name": column.name, "Type": column.type, "Comment": column.comment} for column in view.sd.cols]
        },
    }


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*.json"))


def test_a_view_has_the_form_of_icebergs_java_catalog(catalog: IcebergCatalog) -> None:
    put_view(catalog, "select 1 as id, current_timestamp() as at", properties={"team": "a", "note": "x"}, comment="words")
    first = stored_view(catalog, "v")
    put_view(catalog, "select 2 as id, current_timestamp() as at", properties={"team": "b"}, comment="words")
    view = stored_view(catalog, "v")
    assert view["TableType"] == "VIRTUAL_VIEW"
    assert view["ViewOriginalText"] == view["ViewExpandedText"] == "select 2 as id, current_timestamp() as at"
    parameters = view["Parameters"]
    path = parameters["metadata_location"].removeprefix("file://")
    metadata = json.loads(Path(path).read_text())
    assert metadata["format-version"] == 1 and metadata["location"] == f"file://{path.rpartition('/metadata/')[0]}"
    assert parameters["previous_metadata_location"] == first["Parameters"]["metadata_location"]
    expected = {"table_type": "ICEBERG-VIEW", "uuid": metadata["view-uuid"], "team": "b", "comment": "words"}
    assert expected.items() <= parameters.items() and "note" not in parameters
    columns = [(column["Name"], column["Type"], column.get("Comment")) for column in view["StorageDescriptor"]["Columns"]]
    assert columns == [("id", "bigint", "key"), ("at", "timestamp", None)]


def test_long_texts_and_properties_are_in_the_metadata_file(catalog: IcebergCatalog) -> None:
    columns = Struct(tuple(Field(f"column_{number:03d}", Primitive("string")) for number in range(300)))
    sql = f"select {', '.join(f'1 as {name}' for name in columns.names)}"
    for properties in ({"long": "short at first"}, {"long": "x" * 40_000}):
        catalog.put_view(View(Relation.of_view("raw", "v"), sql, "raw", columns, properties=properties), or_replace=True)
    view = catalog.view("raw", "v")
    assert view.columns == columns and view.properties == {"long": "x" * 40_000} and view.sql == sql
    assert "long" not in stored_view(catalog, "v")["Parameters"]


def test_columns_of_types_that_the_metastore_lacks_are_stored(catalog: IcebergCatalog) -> None:
    columns = Struct((Field("nothing", Primitive("void")), Field("any", Primitive("variant"))))
    catalog.put_view(View(Relation.of_view("raw", "v"), "select null as nothing, x as any from t", "raw", columns))
    assert catalog.view("raw", "v").columns == columns


def test_concurrent_replacements_do_not_lose_a_version(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = IcebergCatalog(configuration, None)
    put_view(catalog, "select 1 as id")
    interrupt(catalog, "replace", monkeypatch, lambda: put_view(other, "select 2 as id"))
    assert put_view(catalog, "select 3 as id").sql == "select 3 as id"
    metadata = catalog._client.load_view("raw", "v")
    assert metadata is not None
    assert [version["representations"][0]["sql"] for version in metadata["versions"]] == [f"select {n} as id" for n in (1, 2, 3)]


def test_two_creations_at_the_same_time_create_one_view(
    catalog: IcebergCatalog, configuration: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = IcebergCatalog(configuration, None)
    interrupt(catalog, "create", monkeypatch, lambda: put_view(other, "select 2 as id"))
    with pytest.raises(AlreadyExists, match="concurrent"):
        put_view(catalog, "select 1 as id", or_replace=False)
    assert catalog.view("raw", "v").sql == "select 2 as id"
    assert len(files(tmp_path)) == 1, "the file of the view that was not created is deleted"


def test_a_view_and_a_table_cannot_have_the_same_name(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pyiceberg_catalog = load_catalog("default", **configuration)
    interrupt(catalog, "create", monkeypatch, lambda: pyiceberg_catalog.create_table("raw.v", SCHEMA))
    with pytest.raises(AlreadyExists):
        put_view(catalog, "select 1 as id")
    pyiceberg_catalog.drop_table("raw.v")
    table = catalog.new_table("raw", "v", "iceberg")
    put_view(catalog, "select 1 as id")
    with pytest.raises(TableAlreadyExistsError):
        pyiceberg_catalog.create_table("raw.v", SCHEMA)
    assert isinstance(table.create(DEFINITION, CommitRequest("CREATE TABLE", definition=DEFINITION)), Conflicted)
    pyiceberg_catalog.create_table("raw.t", SCHEMA)
    assert catalog._client.rename_view(("raw", "v"), ("raw", "t")) is False
    assert catalog._client.rename_table(("raw", "t"), ("raw", "v")) is False
    assert [str(relation) for relation in catalog.relations("raw")] == ["raw.t", "raw.v"]


def test_other_clients_see_only_tables(catalog: IcebergCatalog, configuration: dict[str, Any]) -> None:
    put_view(catalog, "select 1 as id")
    pyiceberg_catalog = load_catalog("default", **configuration)
    assert pyiceberg_catalog.list_tables("raw") == [] and not pyiceberg_catalog.table_exists("raw.v")
    pyiceberg_catalog.create_table("raw.t", SCHEMA)
    assert [str(relation) for relation in catalog.relations("raw")] == ["raw.t", "raw.v"]
    with pytest.raises(TableError, match="not empty: it contains t, v"):
        catalog.drop_schema("raw")
    catalog.drop_schema("raw", cascade=True)
    assert ("raw",) not in pyiceberg_catalog.list_namespaces()


def test_a_drop_does_not_delete_the_files_of_a_view_that_is_renamed_at_the_same_time(
    catalog: IcebergCatalog, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = IcebergCatalog(configuration, None)
    put_view(catalog, "select 1 as id")
    interrupt(catalog, "drop", monkeypatch, lambda: other.rename(Relation.of_view("raw", "v"), "raw", "w"))
    catalog.drop_view("raw", "v")
    assert catalog.view("raw", "w").sql == "select 1 as id"


def test_a_view_that_is_replaced_during_its_drop_is_dropped_with_its_files(
    catalog: IcebergCatalog, configuration: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = IcebergCatalog(configuration, None)
    put_view(catalog, "select 1 as id")
    interrupt(catalog, "drop", monkeypatch, lambda: put_view(other, "select 2 as id"))
    catalog.drop_view("raw", "v")
    assert catalog.relations("raw") == [] and files(tmp_path) == []


def test_a_view_that_is_dropped_during_its_replacement_is_created_again(
    catalog: IcebergCatalog, configuration: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = IcebergCatalog(configuration, None)
    put_view(catalog, "select 1 as id")
    interrupt(catalog, "replace", monkeypatch, lambda: other.drop_view("raw", "v"))
    assert put_view(catalog, "select 2 as id").version == 1
    assert len(files(tmp_path)) == 1


def test_a_lost_answer_of_the_metastore_does_not_repeat_the_change(
    catalog: IcebergCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in ("create", "replace"):
        original = getattr(entries(catalog), method)

        def lose_answer(*arguments: Any, original: Any = original) -> bool:
            original(*arguments)
            raise OSError("connection lost")

        def fail(*arguments: Any) -> bool:
            raise OSError("connection lost")

        monkeypatch.setattr(entries(catalog), method, lose_answer)
        put_view(catalog, f"select '{method}' as id")
        assert catalog.view("raw", "v").sql == f"select '{method}' as id"
        monkeypatch.setattr(entries(catalog), method, fail)
    with pytest.raises(CatalogFailed, match="connection lost"):
        put_view(catalog, "select 2 as id")
    assert catalog.view("raw", "v").sql == "select 'replace' as id" and catalog.view("raw", "v").version == 2


@pytest.mark.parametrize("method", ["create", "replace"])
def test_a_repeated_request_does_not_delete_the_metadata_file(
    catalog: IcebergCatalog, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients and servers repeat a request after a lost answer, and refuse it because it has already succeeded."""
    if method == "replace":
        put_view(catalog, "select 1 as id")
    original = getattr(entries(catalog), method)
    monkeypatch.setattr(entries(catalog), method, lambda *arguments: original(*arguments) and original(*arguments))
    put_view(catalog, "select 2 as id", or_replace=method == "replace")
    assert catalog.view("raw", "v").sql == "select 2 as id"


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_file_to_which_the_metastore_may_refer_stays(
    catalog: IcebergCatalog, tmp_path: Path, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    original_create, original_path = entries(catalog).create, entries(catalog).path

    def create(*arguments: Any) -> bool:
        assert original_create(*arguments)
        monkeypatch.setattr(entries(catalog), "path", fail)
        if not is_refused:
            raise OSError("connection lost")
        return False

    def fail(*arguments: Any) -> None:
        raise OSError("the metastore does not answer")

    monkeypatch.setattr(entries(catalog), "create", create)
    with pytest.raises(CatalogFailed, match="does not answer" if is_refused else "connection lost"):
        put_view(catalog, "select 1 as id")
    monkeypatch.setattr(entries(catalog), "path", original_path)
    assert catalog.view("raw", "v").sql == "select 1 as id"


def test_old_versions_are_deleted_and_the_last_ten_stay(catalog: IcebergCatalog, tmp_path: Path) -> None:
    for number in range(13):
        put_view(catalog, f"select {number} as id")
    metadata = catalog._client.load_view("raw", "v")
    assert metadata is not None and len(metadata["versions"]) == 10
    assert 10 <= len(files(tmp_path)) <= 11


@needs_moto
def test_glue_compares_the_version_of_a_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_glue() as configuration:
        catalog = IcebergCatalog({**configuration, "warehouse": f"file://{tmp_path}", "glue.skip-archive": "false"}, None)
        catalog.create_schema("raw")
        put_view(catalog, "select 1 as id")
        glue, versions = catalog._client.catalog.glue, []  # type: ignore[attr-defined]
        update_table = glue.update_table

        def overtake(**arguments: Any) -> Any:
            """Let another client replace the view before the first update, and compare versions as Glue documents. moto ignores them."""
            versions.append((arguments["VersionId"], arguments["SkipArchive"]))
            if len(versions) == 1:
                put_view(IcebergCatalog({**configuration, "warehouse": f"file://{tmp_path}"}, None), "select 2 as id")
            if arguments["VersionId"] != glue.get_table(DatabaseName="raw", Name="v")["Table"]["VersionId"]:
                error = {"Error": {"Code": "ConcurrentModificationException"}}
                raise glue.exceptions.ConcurrentModificationException(error, "UpdateTable")
            return update_table(**arguments)

        monkeypatch.setattr(glue, "update_table", overtake)
        assert put_view(catalog, "select 3 as id").version == 3
        assert [skips for _, skips in versions] == [False, False] and versions[0][0] != versions[1][0]


@needs_moto
@pytest.mark.parametrize("operation", ["CreateTable", "DeleteTable"])
def test_requests_to_glue_that_botocore_repeats_change_views_once(tmp_path: Path, operation: str) -> None:
    with serving_glue() as configuration:
        catalog = IcebergCatalog({**configuration, "warehouse": f"file://{tmp_path}"}, None)
        catalog.create_schema("raw")
        events = catalog._client.catalog.glue.meta.events  # type: ignore[attr-defined]
        events.register(f"needs-retry.glue.{operation}", lambda attempts, **_: 0 if attempts == 1 else None)
        put_view(catalog, "select 1 as id", or_replace=False)
        put_view(catalog, "select 2 as id")
        catalog.rename(Relation.of_view("raw", "v"), "raw", "w")
        assert catalog.view("raw", "w").sql == "select 2 as id"
        assert [relation.name for relation in catalog.relations("raw")] == ["w"]


@needs_moto
@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_view_whose_old_name_glue_does_not_delete_keeps_only_this_name(
    tmp_path: Path, is_deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_glue() as configuration:
        catalog = IcebergCatalog({**configuration, "warehouse": f"file://{tmp_path}"}, None)
        catalog.create_schema("raw")
        put_view(catalog, "select 1 as id")
        glue = catalog._client.catalog.glue  # type: ignore[attr-defined]
        delete_table = glue.delete_table

        def fail(**arguments: Any) -> None:
            monkeypatch.setattr(glue, "delete_table", delete_table)
            if is_deleted:
                delete_table(**arguments)
            raise OSError("connection lost")

        monkeypatch.setattr(glue, "delete_table", fail)
        if is_deleted:
            catalog.rename(Relation.of_view("raw", "v"), "raw", "w")
        else:
            with pytest.raises(CatalogFailed, match="connection lost"):
                catalog.rename(Relation.of_view("raw", "v"), "raw", "w")
        assert [relation.name for relation in catalog.relations("raw")] == ["w" if is_deleted else "v"]


@needs_moto
def test_views_of_athena_are_neither_listed_nor_changed(tmp_path: Path) -> None:
    with serving_glue() as configuration:
        catalog = IcebergCatalog({**configuration, "warehouse": f"file://{tmp_path}"}, None)
        catalog.create_schema("raw")
        glue = catalog._client.catalog.glue  # type: ignore[attr-defined]
        text = "/* Presto View: e30= */"
        of_athena = {"Name": "v", "TableType": "VIRTUAL_VIEW", "Parameters": {"presto_view": "true"}, "ViewOriginalText": text}
        glue.create_table(DatabaseName="raw", TableInput=of_athena)
        entry = glue.get_table(DatabaseName="raw", Name="v")["Table"]
        for change in (
            lambda: put_view(catalog, "select 1 as id"),
            lambda: put_view(catalog, "select 1 as id", or_replace=False),
            lambda: catalog.drop_view("raw", "v"),
            lambda: catalog.rename(Relation.of_view("raw", "v"), "raw", "w"),
            lambda: catalog.drop_schema("raw", cascade=True),
        ):
            with pytest.raises(RowmergeError):
                change()
        assert catalog.relations("raw") == [] and glue.get_table(DatabaseName="raw", Name="v")["Table"] == entry
