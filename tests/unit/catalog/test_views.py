"""View metadata follows the Iceberg view spec and round trips."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rowmerge.catalog import DirectoryCatalog, Relation, View
from rowmerge.errors import AlreadyExists, CorruptLog, SchemaNotFound, TableError, TableNotFound
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.schema import Array, Decimal, Field, Map, Primitive, Struct

COLUMNS = Struct(
    (
        Field("id", Primitive("short"), False, {"comment": "the key"}),
        Field("price", Decimal(10, 2)),
        Field("at", Primitive("timestamp")),
        Field("tags", Array(Primitive("string"), False)),
        Field("more", Map(Primitive("string"), Struct((Field("x", Primitive("integer")),)))),
    )
)


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryCatalog:
    return DirectoryCatalog(Storage(str(tmp_path / "w")))


def put(catalog: DirectoryCatalog, sql: str = "SELECT 1 AS id", *, or_replace: bool = False, **more: Any) -> Any:
    view = View(Relation.of_view("default", "v"), sql, **{"default_schema": "default", "columns": COLUMNS, **more})
    return catalog.put_view(view, or_replace=or_replace)


def metadata(tmp_path: Path, version: int) -> Any:
    return json.loads((tmp_path / f"w/default/v/metadata/v{version}.metadata.json").read_text())


def test_view_definitions_round_trip(catalog: DirectoryCatalog) -> None:
    created = put(catalog, "SELECT 'ä' AS id", comment="it's a view", properties={"owner": "me"}, default_schema="Sales.eu")
    view = catalog.view("DEFAULT", "V")
    assert view == created
    assert (view.sql, view.default_schema, view.comment, view.properties) == (
        "SELECT 'ä' AS id",
        "Sales.eu",
        "it's a view",
        {"owner": "me"},
    )
    assert view.columns == COLUMNS
    assert view.columns.fields[0].comment == "the key"
    assert (view.version, view.relation.kind, str(view.relation)) == (1, "view", "default.v")
    assert view.modified > 1_700_000_000_000


def test_view_metadata_contains_the_fields_of_the_view_spec(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    put(catalog, comment="hello")
    content = metadata(tmp_path, 1)
    assert content["format-version"] == 1
    assert content["location"] == f"file://{tmp_path}/w/default/v"
    assert content["properties"]["comment"] == "hello"
    version = content["versions"][0]
    assert version["version-id"] == content["current-version-id"] == content["version-log"][0]["version-id"] == 1
    assert version["representations"] == [{"type": "sql", "sql": "SELECT 1 AS id", "dialect": "spark"}]
    assert version["default-namespace"] == ["default"]
    assert version["schema-id"] == content["schemas"][0]["schema-id"]
    fields = {f["name"]: f for f in content["schemas"][0]["fields"]}
    assert fields["id"] == {"id": 1, "name": "id", "required": True, "type": "int", "doc": "the key"}
    assert fields["price"]["type"] == "decimal(10, 2)"
    assert fields["at"]["type"] == "timestamptz"
    assert fields["tags"]["type"]["element-required"] is True
    ids = json.dumps(content["schemas"][0])
    assert all(f'id": {n}' in ids for n in range(1, 10)), "field ids are unique and count on through nested types"


def test_pyiceberg_reads_the_view_schema(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    schema = pytest.importorskip("pyiceberg.schema", reason="pyiceberg is not installed")
    put(catalog)
    read = schema.Schema.model_validate(metadata(tmp_path, 1)["schemas"][0])
    assert [f.name for f in read.fields] == list(COLUMNS.names)


def test_replacing_a_view_writes_the_next_version_and_keeps_its_uuid(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    put(catalog)
    put(catalog, "SELECT 2 AS id", or_replace=True)
    assert catalog.view("default", "v").sql == "SELECT 2 AS id"
    assert catalog.view("default", "v").version == 2
    first, second = metadata(tmp_path, 1), metadata(tmp_path, 2)
    assert first["view-uuid"] == second["view-uuid"]
    assert [v["version-id"] for v in second["versions"]] == [1, 2]
    assert len(second["schemas"]) == 1, "the same columns are the same schema"


def test_only_the_newest_ten_view_versions_are_retained(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    for n in range(1, 26):
        put(catalog, f"SELECT {n} AS id", or_replace=True)
    assert catalog.view("default", "v").sql == "SELECT 25 AS id"
    assert len(list((tmp_path / "w/default/v/metadata").iterdir())) == 10
    assert len(metadata(tmp_path, 25)["versions"]) == 10


def test_creating_a_view_that_exists_is_refused(catalog: DirectoryCatalog) -> None:
    put(catalog)
    with pytest.raises(AlreadyExists, match="default.v already exists"):
        put(catalog)


class _RacedStorage(Storage):
    """Storage on which another session creates the view between the read and the put."""

    def child(self, path: str) -> Storage:
        return _RacedStorage(f"{self.location}/{path}")

    def put_if_absent(self, path: str, data: bytes) -> Any:
        if path.endswith("v1.metadata.json"):
            super().put_if_absent(path, data.replace(b"SELECT 1", b"SELECT 9"))
        return super().put_if_absent(path, data)


def test_a_lost_creation_race_raises_already_exists(tmp_path: Path) -> None:
    with pytest.raises(AlreadyExists):
        put(DirectoryCatalog(_RacedStorage(str(tmp_path / "w"))))
    assert DirectoryCatalog(Storage(str(tmp_path / "w"))).view("default", "v").sql == "SELECT 9 AS id"


def test_a_replacement_after_a_lost_race_follows_the_winner(tmp_path: Path) -> None:
    put(DirectoryCatalog(_RacedStorage(str(tmp_path / "w"))), or_replace=True)
    view = DirectoryCatalog(Storage(str(tmp_path / "w"))).view("default", "v")
    assert (view.sql, view.version) == ("SELECT 1 AS id", 2)


def test_a_dropped_view_can_be_recreated(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    put(catalog)
    put(catalog, or_replace=True)
    catalog.drop_view("default", "v")
    assert catalog.relation("default", "v") is None
    assert {path.name for path in (tmp_path / "w/default/v/metadata").iterdir()} == {"v3.metadata.json"}, "the version that ends the view"
    assert put(catalog).version == 4


def test_a_killed_drop_removes_the_view(tmp_path: Path) -> None:
    class Killed(Storage):
        def child(self, path: str) -> Storage:
            return Killed(f"{self.location}/{path}")

        def delete(self, paths: Sequence[str]) -> None:
            if paths[0].startswith("metadata"):
                super().delete(paths[:1])
                raise KeyboardInterrupt
            super().delete(paths)

    catalog = DirectoryCatalog(Killed(str(tmp_path / "w")))
    for n in (1, 2, 3):
        put(catalog, f"SELECT {n} AS id", or_replace=True)
    with pytest.raises(KeyboardInterrupt):
        catalog.drop_view("default", "v")
    assert catalog.relation("default", "v") is None


def test_a_foreign_view_is_read_from_its_spark_representation(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    put(catalog)
    content = metadata(tmp_path, 1)
    content["versions"][0]["representations"] = [
        {"type": "sql", "sql": "SELECT trino", "dialect": "trino"},
        {"type": "sql", "sql": "SELECT spark", "dialect": "Spark"},
    ]
    del content["properties"]
    (tmp_path / "w/default/v/metadata/v2.metadata.json").write_text(json.dumps(content))
    view = catalog.view("default", "v")
    assert view.sql == "SELECT spark"
    assert [f.sql_type for f in view.columns] == ["int", "decimal(10,2)", "timestamp", "array<string>", "map<string,struct<x:int>>"]


def test_a_view_without_a_spark_representation_is_refused(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    put(catalog)
    content = metadata(tmp_path, 1)
    content["versions"][0]["representations"][0]["dialect"] = "trino"
    (tmp_path / "w/default/v/metadata/v2.metadata.json").write_text(json.dumps(content))
    with pytest.raises(TableError, match="dialects: trino"):
        catalog.view("default", "v")


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"view-uuid": "x"}', '{"view-uuid": "x", "format-version": 2}'])
def test_damaged_view_metadata_is_reported_by_path(catalog: DirectoryCatalog, tmp_path: Path, text: str) -> None:
    put(catalog)
    (tmp_path / "w/default/v/metadata/v2.metadata.json").write_text(text)
    with pytest.raises(CorruptLog, match=r"default/v/metadata/v2\.metadata\.json"):
        catalog.view("default", "v")


def test_creating_a_view_requires_its_schema(catalog: DirectoryCatalog) -> None:
    catalog.create_schema("sales", if_not_exists=False)
    with pytest.raises(SchemaNotFound, match="Did you mean `sales`"):
        catalog.put_view(View(Relation.of_view("sale", "v"), "SELECT 1", "sale", COLUMNS))


def test_a_missing_view_is_reported_with_suggestions(catalog: DirectoryCatalog) -> None:
    catalog.put_view(View(Relation.of_view("default", "customers"), "SELECT 1", "default", COLUMNS))
    with pytest.raises(TableNotFound, match="default.costumers.*`default.customers`"):
        catalog.view("default", "costumers")
    with pytest.raises(TableNotFound, match="`default.customers`"):
        catalog.drop_view("defualt", "customers")
