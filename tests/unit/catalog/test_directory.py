"""The directory catalog lists the tables in a warehouse, and creates and drops them atomically."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from rowmerge.catalog import DirectoryCatalog, Relation, View
from rowmerge.errors import (
    AlreadyExists,
    ConfigurationError,
    CorruptLog,
    SchemaNotFound,
    StorageError,
    TableError,
    TableNotFound,
    UnsupportedTableFeature,
)
from rowmerge.storage.store import Put, Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition

COLUMNS = Struct((Field("a", Primitive("long")),))
COMMITS = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}',
            "partitionColumns": [],
            "configuration": {},
            "createdTime": 1700000000000,
        }
    },
]
END_OF_LOG = {
    "_delta_log/00000000000000000002.checkpoint.parquet",
    "_delta_log/00000000000000000002.json",
    "_delta_log/_last_checkpoint",
    "_dropped/delta-00000000000000000002",
}
"""The files that remain after a drop of a table of `make_table`."""


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "w"


@pytest.fixture
def catalog(warehouse: Path) -> DirectoryCatalog:
    return DirectoryCatalog(Storage(str(warehouse)))


def make_table(folder: Path, files: int = 2) -> Path:
    """Write a Delta table with two commits and empty data files."""
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log/00000000000000000000.json").write_text("\n".join(json.dumps(c) for c in COMMITS))
    (folder / "_delta_log/00000000000000000001.json").write_text('{"commitInfo":{}}')
    (folder / "p=1").mkdir()
    for n in range(files):
        (folder / f"p=1/part-{n}.parquet").write_bytes(b"")
    return folder


def everything_in(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


# ------------------------------------------------------------------ the warehouse


def test_the_warehouse_folder_is_created(catalog: DirectoryCatalog, warehouse: Path) -> None:
    assert warehouse.is_dir()
    assert list(warehouse.iterdir()) == [], "the probe leaves nothing behind"
    assert catalog.schemas() == ["default"]


def test_a_file_as_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(StorageError, match=r"/f: it is a file\. Set the warehouse to a folder"):
        DirectoryCatalog(Storage(str(tmp_path / "f")))


def test_a_warehouse_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(StorageError, match="/f/sub: .*must be a writable folder"):
        DirectoryCatalog(Storage(str(tmp_path / "f/sub")))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir(mode=0o555)
    with pytest.raises(StorageError, match="permissions"):
        DirectoryCatalog(Storage(str(tmp_path / "w")))


@pytest.mark.parametrize("location", ["s3://AKIA:secret@bucket/w", "https://host/w?sig=secret", "abfss://c:secret@account.x/w"])
def test_credentials_in_a_location_are_refused_without_showing_them(location: str) -> None:
    with pytest.raises(ConfigurationError, match="storage_options") as caught:
        DirectoryCatalog(Storage(location))
    assert "secret" not in str(caught.value)


# ------------------------------------------------------------------ schemas


def test_creating_an_existing_schema_is_refused(catalog: DirectoryCatalog) -> None:
    catalog.create_schema("Sales", if_not_exists=False, comment="c", properties={"k": "v"})
    assert catalog.schemas() == ["default", "sales"]
    assert catalog.schema_exists("SALES")
    with pytest.raises(AlreadyExists, match="sales already exists"):
        catalog.create_schema("sales", if_not_exists=False)
    catalog.create_schema("sales", if_not_exists=True)


def test_the_default_schema_always_exists(catalog: DirectoryCatalog) -> None:
    assert catalog.schema_exists("default")
    with pytest.raises(AlreadyExists):
        catalog.create_schema("DEFAULT")
    with pytest.raises(TableError, match="cannot be dropped"):
        catalog.drop_schema("default", cascade=True)


def test_a_folder_with_a_table_is_a_schema(catalog: DirectoryCatalog, warehouse: Path) -> None:
    make_table(warehouse / "raw/orders")
    (warehouse / "junk/x").mkdir(parents=True)
    (warehouse / "Not_Ours").mkdir()
    make_table(warehouse / "Not_Ours/orders")
    assert catalog.schemas() == ["default", "raw"]


def test_a_created_schema_exists_after_its_last_table_is_dropped(catalog: DirectoryCatalog, warehouse: Path) -> None:
    make_table(warehouse / "raw/orders")
    catalog.create_schema("raw", if_not_exists=True)
    catalog.drop_table("raw", "orders")
    assert catalog.schema_exists("raw")


def test_dropping_a_nonempty_schema_requires_cascade(catalog: DirectoryCatalog, warehouse: Path) -> None:
    catalog.create_schema("raw")
    make_table(warehouse / "raw/orders")
    catalog.put_view(View(Relation.of_view("raw", "v"), "SELECT 1", "raw", COLUMNS))
    with pytest.raises(TableError, match="raw is not empty: it contains orders, v"):
        catalog.drop_schema("raw")
    assert catalog.relations("raw") != []
    catalog.drop_schema("raw", cascade=True)
    assert catalog.schemas() == ["default"]
    assert not catalog.schema_exists("raw")


def test_dropping_a_missing_schema_requires_if_exists(catalog: DirectoryCatalog) -> None:
    catalog.drop_schema("nope", if_exists=True)
    catalog.create_schema("raw")
    with pytest.raises(SchemaNotFound, match="rwa.*Did you mean `raw`"):
        catalog.drop_schema("rwa")


def test_cascade_drops_no_tables_if_one_cannot_be_dropped(catalog: DirectoryCatalog, warehouse: Path) -> None:
    make_table(warehouse / "raw/a")
    (warehouse / "raw/z/metadata").mkdir(parents=True)
    (warehouse / "raw/z/metadata/00000-ab.metadata.json").write_text('{"table-uuid": "x"}')
    with pytest.raises(UnsupportedTableFeature, match=r"raw\.z.*iceberg"):
        catalog.drop_schema("raw", cascade=True)
    assert [r.name for r in catalog.relations("raw")] == ["a", "z"]


def test_dropping_a_schema_keeps_unrelated_files(catalog: DirectoryCatalog, warehouse: Path) -> None:
    catalog.create_schema("raw")
    (warehouse / "raw/notes.txt").write_text("mine")
    catalog.drop_schema("raw")
    assert (warehouse / "raw/notes.txt").read_text() == "mine"


# ------------------------------------------------------------------ relations


def test_tables_are_detected_by_their_metadata_folders(catalog: DirectoryCatalog, warehouse: Path) -> None:
    make_table(warehouse / "default/orders")
    (warehouse / "default/ice/metadata").mkdir(parents=True)
    (warehouse / "default/ice/metadata/00000-ab.metadata.json").write_text("{}")
    (warehouse / "default/empty/_delta_log").mkdir(parents=True)
    (warehouse / "default/void").mkdir()
    catalog.put_view(View(Relation.of_view("default", "v"), "SELECT 1", "default", COLUMNS))
    assert catalog.relations("default") == [
        Relation("default", "ice", "table", "iceberg"),
        Relation("default", "orders", "table", "delta"),
        Relation("default", "v", "view", None),
    ]
    assert catalog.relation("Default", "ORDERS") == Relation("default", "orders", "table", "delta")
    assert catalog.relation("default", "void") is None
    assert catalog.relations("nope") == []


def test_a_table_with_a_cleaned_log_is_detected(catalog: DirectoryCatalog, warehouse: Path) -> None:
    log = warehouse / "default/orders/_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000010.checkpoint.parquet").write_bytes(b"")
    assert catalog.relation("default", "orders") is not None


@pytest.mark.parametrize("name", ["", "x" * 300, "a\ud800"])
def test_invalid_names_are_not_found_and_refused_for_creation(catalog: DirectoryCatalog, name: str) -> None:
    assert catalog.relation("default", name) is None
    assert catalog.relation(name, "t") is None
    assert not catalog.schema_exists(name)
    with pytest.raises(TableError, match="name"):
        catalog.new_table("default", name, "delta")
    with pytest.raises(TableError, match="name"):
        catalog.create_schema(name)


@pytest.mark.parametrize("name", ["a/b", "../../up", "..", "a b", "_hidden", "50%", "größe", "{x}[y]*?\\", "tab\t"])
def test_special_characters_in_names_stay_in_the_warehouse_and_round_trip(catalog: DirectoryCatalog, warehouse: Path, name: str) -> None:
    catalog.create_schema(name)
    catalog.put_view(View(Relation.of_view(name, name), "SELECT 1", name, COLUMNS))
    assert catalog.schemas() == sorted(["default", name])
    assert catalog.relations(name) == [Relation(name, name, "view", None)]
    assert catalog.view(name, name).default_schema == name
    assert [p for p in warehouse.parent.rglob("*.metadata.json") if warehouse not in p.parents] == []
    assert len(list(warehouse.iterdir())) == 1
    catalog.drop_schema(name, cascade=True)
    assert catalog.schemas() == ["default"]
    remaining = {path.name for path in warehouse.rglob("*") if path.is_file()}
    assert remaining == {"v2.metadata.json", "iceberg-00000000000000000002"}, "what a dropped view keeps"


# ------------------------------------------------------------------ tables


def test_opening_a_table_twice_returns_the_same_object(catalog: DirectoryCatalog, warehouse: Path) -> None:
    make_table(warehouse / "default/orders")
    table = catalog.open("default", "Orders")
    assert catalog.open("DEFAULT", "orders") is table
    assert table.location == f"file://{warehouse}/default/orders"


def test_a_missing_table_is_reported_with_suggestions(catalog: DirectoryCatalog, warehouse: Path) -> None:
    make_table(warehouse / "default/orders")
    with pytest.raises(TableNotFound, match=r"default\.ordres\. Did you mean `default\.orders`"):
        catalog.open("default", "ordres")
    with pytest.raises(TableNotFound, match="default.orders"):
        catalog.drop_table("defalt", "orders")


def test_opening_a_foreign_iceberg_table_or_a_view_is_refused(catalog: DirectoryCatalog, warehouse: Path) -> None:
    (warehouse / "default/ice/metadata").mkdir(parents=True)
    (warehouse / "default/ice/metadata/00000-ab.metadata.json").write_text('{"table-uuid": "x"}')
    catalog.put_view(View(Relation.of_view("default", "v"), "SELECT 1", "default", COLUMNS))
    with pytest.raises(UnsupportedTableFeature, match=r"open default\.ice.*iceberg"):
        catalog.open("default", "ice")
    with pytest.raises(TableError, match="is a view"):
        catalog.open("default", "v")


def test_statements_for_the_wrong_relation_kind_are_refused(catalog: DirectoryCatalog, warehouse: Path) -> None:
    make_table(warehouse / "default/t")
    catalog.put_view(View(Relation.of_view("default", "v"), "SELECT 1", "default", COLUMNS))
    with pytest.raises(TableError, match="DROP TABLE"):
        catalog.drop_view("default", "t")
    with pytest.raises(TableError, match="DROP VIEW"):
        catalog.drop_table("default", "v")
    with pytest.raises(TableError, match="is a table"):
        catalog.view("default", "t")
    with pytest.raises(AlreadyExists):
        catalog.put_view(View(Relation.of_view("default", "t"), "SELECT 1", "default", COLUMNS), or_replace=True)
    assert len(catalog.relations("default")) == 2


def test_creating_a_table_requires_its_schema(catalog: DirectoryCatalog, warehouse: Path) -> None:
    with pytest.raises(SchemaNotFound, match="nope"):
        catalog.new_table("nope", "t", "delta")
    table = catalog.new_table("default", "T", "delta")
    assert table.location == f"file://{warehouse}/default/t"
    assert catalog.relation("default", "t") is None, "nothing exists before the first commit"


# ------------------------------------------------------------------ external tables


def test_dropping_an_external_table_keeps_its_files(catalog: DirectoryCatalog, warehouse: Path, tmp_path: Path) -> None:
    files = everything_in(make_table(tmp_path / "elsewhere"))
    catalog.register("default", "ext", "delta", str(tmp_path / "elsewhere"))
    assert catalog.relation("default", "ext") == Relation("default", "ext", "table", "delta")
    assert catalog.open("default", "ext").location == f"file://{tmp_path}/elsewhere"
    catalog.register("default", "ext", "delta", f"file://{tmp_path}/elsewhere/")
    with pytest.raises(AlreadyExists):
        catalog.register("default", "ext", "delta", str(tmp_path / "other"))
    catalog.drop_table("default", "ext")
    assert everything_in(tmp_path / "elsewhere") == files
    assert not (warehouse / "default/ext").exists()


def test_a_location_with_a_table_of_another_format_is_refused(catalog: DirectoryCatalog, warehouse: Path, tmp_path: Path) -> None:
    catalog.create_schema("main")
    make_table(tmp_path / "delta")
    (tmp_path / "iceberg/metadata").mkdir(parents=True)
    (tmp_path / "iceberg/metadata/v1.metadata.json").write_text("{}")
    for existing, requested in (("delta", "iceberg"), ("iceberg", "delta")):
        with pytest.raises(AlreadyExists, match=f"contains a table in the format {existing}. Write USING {existing}"):
            catalog.new_table("main", "t", requested, str(tmp_path / existing))
        assert catalog.new_table("main", "t", existing, str(tmp_path / existing)).location == f"file://{tmp_path}/{existing}"


def test_registering_the_name_of_a_table_or_view_is_refused(catalog: DirectoryCatalog, warehouse: Path, tmp_path: Path) -> None:
    make_table(warehouse / "default/t")
    catalog.put_view(View(Relation.of_view("default", "v"), "SELECT 1", "default", COLUMNS))
    for name in ("t", "v"):
        with pytest.raises(AlreadyExists):
            catalog.register("default", name, "delta", str(tmp_path / "elsewhere"))


def test_registering_the_default_location_creates_no_pointer(catalog: DirectoryCatalog, warehouse: Path) -> None:
    catalog.register("default", "t", "delta", str(warehouse / "default/t"))
    assert not (warehouse / "default/t").exists()


def test_a_location_with_credentials_is_refused(catalog: DirectoryCatalog) -> None:
    for call in (catalog.register, catalog.new_table):
        with pytest.raises(ConfigurationError) as caught:
            call("default", "t", "delta", "s3://key:secret@bucket/t")
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 100_000, '{"location": 3}'])
def test_a_damaged_pointer_is_reported_by_path(catalog: DirectoryCatalog, warehouse: Path, text: str) -> None:
    (warehouse / "default/ext").mkdir(parents=True)
    (warehouse / "default/ext/.rowmerge-location.json").write_text(text)
    with pytest.raises(CorruptLog, match=r"default/ext/\.rowmerge-location\.json"):
        catalog.open("default", "ext")


# ------------------------------------------------------------------ dropping


def test_a_dropped_table_keeps_only_the_end_of_its_log(catalog: DirectoryCatalog, warehouse: Path) -> None:
    make_table(warehouse / "default/t")
    time.sleep(0.003)
    original = catalog.open("default", "t")
    catalog.drop_table("default", "T")
    assert catalog.relation("default", "t") is None
    assert everything_in(warehouse / "default/t") == END_OF_LOG
    assert catalog.new_table("default", "t", "delta") is not original


class Killed(BaseException):
    pass


def mortal(after: int) -> type[Storage]:
    """Return a storage class that dies at its n-th deletion."""
    remaining = [after]

    class Mortal(Storage):
        def child(self, path: str) -> Storage:
            return Mortal(f"{self.location}/{path}")

        def delete(self, paths: Sequence[str]) -> None:
            for path in paths:
                if not path.startswith(".rowmerge-probe"):
                    if remaining[0] == 0:
                        raise Killed
                    remaining[0] -= 1
                super().delete([path])

    return Mortal


@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize(
    "again",
    [
        lambda c: c.new_table("default", "t", "delta"),
        lambda c: c.put_view(View(Relation.of_view("default", "t"), "SELECT 1", "default", COLUMNS)),
        lambda c: c.register("default", "t", "delta", "/elsewhere/t"),
    ],
)
def test_a_killed_drop_removes_the_table_and_the_next_creation_cleans_up(
    warehouse: Path, after: int, again: Callable[[DirectoryCatalog], object]
) -> None:
    make_table(warehouse / "default/t", files=3)
    time.sleep(0.003)
    with pytest.raises(Killed):
        DirectoryCatalog(mortal(after)(str(warehouse))).drop_table("default", "t")
    catalog = DirectoryCatalog(Storage(str(warehouse)))
    assert catalog.relation("default", "t") is None
    assert catalog.relations("default") == []
    with pytest.raises(TableNotFound):
        catalog.drop_table("default", "t")
    again(catalog)
    remaining = {p.name for p in (warehouse / "default").rglob("*") if p.is_file() and "0000002" not in p.name}
    assert remaining <= {"v1.metadata.json", ".rowmerge-location.json", "_last_checkpoint"}


def begin_old_removal(folder: Path) -> None:
    """Run the steps of a DROP of rowmerge 0.1.0 up to the point of a kill."""
    (folder / "_delta_log/_dropped.json").write_text('{"id": "6a1b"}')
    next(folder.rglob("*.parquet")).unlink()


@pytest.mark.parametrize("after", range(5))
def test_a_killed_drop_of_release_0_1_0_is_finished(warehouse: Path, after: int) -> None:
    """Verify this also for a process killed at its n-th deletion while it finishes the drop."""
    begin_old_removal(make_table(warehouse / "default/t"))
    time.sleep(0.003)
    with suppress(Killed):
        DirectoryCatalog(mortal(after)(str(warehouse))).new_table("default", "t", "delta")
    catalog = DirectoryCatalog(Storage(str(warehouse)))
    assert catalog.relation("default", "t") is None
    catalog.new_table("default", "t", "delta")
    assert catalog.relation("default", "t") is None
    assert everything_in(warehouse / "default/t") == END_OF_LOG


def test_dropping_a_schema_deletes_files_of_killed_drops(warehouse: Path) -> None:
    make_table(warehouse / "raw/t")
    time.sleep(0.003)
    with pytest.raises(Killed):
        DirectoryCatalog(mortal(1)(str(warehouse))).drop_table("raw", "t")
    begin_old_removal(make_table(warehouse / "raw/u"))
    catalog = DirectoryCatalog(Storage(str(warehouse)))
    catalog.create_schema("raw")
    catalog.drop_schema("raw")
    assert not list((warehouse / "raw").rglob("part-*"))
    assert not list((warehouse / "raw").rglob("_dropped.json"))
    assert not catalog.schema_exists("raw")


@pytest.mark.parametrize(
    ("call", "text", "earlier"),
    [
        ("get", "_dropped.json", 0),
        ("list", "_delta_log", 0),
        ("get", "_dropped.json", 1),
        ("put_if_absent", "_delta_log/", 0),
        ("get", "_dropped.json", 2),
        ("delete", "_dropped.json", 0),
    ],
)
def test_finishing_an_old_drop_keeps_a_concurrently_created_table(warehouse: Path, call: str, text: str, earlier: int) -> None:
    """The other session acts before a storage call, after this number of earlier calls of its kind."""
    begin_old_removal(make_table(warehouse / "default/t"))
    time.sleep(0.003)

    def finish_and_create() -> None:
        table = DirectoryCatalog(Storage(str(warehouse))).new_table("default", "t", "delta")
        assert isinstance(table.create(TableDefinition(COLUMNS, (), {}, None), CommitRequest("CREATE TABLE")), Committed)

    acts: list[Callable[[], None]] = [finish_and_create, *[lambda: None] * earlier]

    class Overtaken(Storage):
        def child(self, path: str) -> Storage:
            return Overtaken(f"{self.location}/{path}")

        def get(self, path: str) -> bytes:
            self._let_others_act("get", path)
            return super().get(path)

        def put_if_absent(self, path: str, data: bytes) -> Put:
            self._let_others_act("put_if_absent", path)
            return super().put_if_absent(path, data)

        def delete(self, paths: Sequence[str]) -> None:
            self._let_others_act("delete", *paths)
            super().delete(paths)

        def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
            self._let_others_act("list", prefix)
            return super().list(prefix, after=after)

        def _let_others_act(self, name: str, *paths: str) -> None:
            if acts and name == call and any(text in path for path in paths):
                acts.pop()()

    DirectoryCatalog(Overtaken(str(warehouse))).new_table("default", "t", "delta")
    catalog = DirectoryCatalog(Storage(str(warehouse)))
    assert not acts
    assert catalog.open("default", "t").snapshot().version == 3


def test_dropping_a_table_does_not_follow_symbolic_links(catalog: DirectoryCatalog, warehouse: Path, tmp_path: Path) -> None:
    make_table(warehouse / "default/t")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("mine")
    (warehouse / "default/t/link").symlink_to(tmp_path / "precious")
    catalog.drop_table("default", "t")
    assert (tmp_path / "precious/file").read_text() == "mine"
    assert catalog.relation("default", "t") is None
