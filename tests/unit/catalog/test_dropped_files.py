"""DROP TABLE in an Iceberg catalog deletes only the table's own files, and names cannot refer to folders outside the warehouse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from rowmerge.catalog import DirectoryCatalog, IcebergCatalog, Relation, View
from rowmerge.commands.functions import FunctionDefinition
from rowmerge.errors import TableError
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.schema import Field, Primitive, Struct

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
COLUMNS = Struct((Field("id", Primitive("long")),))
NAMES = ["..", ".", "../../outside", "a/b", "a\\b", "%2e%2e", "..%2foutside", "a%252fb", "", " ", "a\0", "a\nb"]


@pytest.fixture
def configuration(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def pyiceberg_catalog(configuration: dict[str, str]) -> Catalog:
    catalog = load_catalog("default", **configuration)
    catalog.create_namespace("s")
    return catalog


@pytest.fixture
def catalog(configuration: dict[str, str], pyiceberg_catalog: Catalog, tmp_path: Path) -> IcebergCatalog:
    return IcebergCatalog(configuration, f"file://{tmp_path}/warehouse")


def create_table(pyiceberg_catalog: Catalog, tmp_path: Path, **properties: str) -> Table:
    new_table = pyiceberg_catalog.create_table("s.t", ROWS.schema, location=f"file://{tmp_path}/warehouse/s/t", properties=properties)
    new_table.append(ROWS)
    return new_table


def write_foreign_file(tmp_path: Path, path: str) -> Path:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(ROWS, file)
    return file


def drop_and_list(catalog: IcebergCatalog, tmp_path: Path) -> list[str]:
    """Drop the table and return the names of the remaining files in its folder."""
    catalog.drop_table("s", "t")
    assert catalog.relations("s") == []
    return [file.name for file in (tmp_path / "warehouse/s/t").rglob("*") if file.is_file()]


@pytest.mark.parametrize("spelled", ["file://{file}", "file:{file}", "{file}", "file://{t}/../../../landing/raw.parquet"])
def test_registered_files_outside_the_table_are_retained(
    catalog: IcebergCatalog, pyiceberg_catalog: Catalog, tmp_path: Path, spelled: str
) -> None:
    file = write_foreign_file(tmp_path, "landing/raw.parquet")
    create_table(pyiceberg_catalog, tmp_path).add_files([spelled.format(file=file, t=tmp_path / "warehouse/s/t")])
    assert drop_and_list(catalog, tmp_path) == []
    assert pq.read_table(file).equals(ROWS)


def test_files_behind_a_symbolic_link_are_retained(catalog: IcebergCatalog, pyiceberg_catalog: Catalog, tmp_path: Path) -> None:
    file, linked_table = write_foreign_file(tmp_path, "landing/raw.parquet"), create_table(pyiceberg_catalog, tmp_path)
    (tmp_path / "warehouse/s/t/link").symlink_to(tmp_path / "landing")
    linked_table.add_files([f"file://{tmp_path}/warehouse/s/t/link/raw.parquet"])
    drop_and_list(catalog, tmp_path)
    assert file.exists()


@pytest.mark.parametrize("gc_enabled", ["false", " False ", None])
def test_dropping_a_shallow_clone_keeps_its_source(
    catalog: IcebergCatalog, pyiceberg_catalog: Catalog, tmp_path: Path, gc_enabled: str | None
) -> None:
    """The clone equals one of Iceberg's procedure `snapshot`; users may have changed the property that protects its files."""
    source = pyiceberg_catalog.create_table("s.source", ROWS.schema)
    source.append(ROWS)
    clone = create_table(pyiceberg_catalog, tmp_path, **({} if gc_enabled is None else {"gc.enabled": gc_enabled}))
    path = Path(clone.metadata_location.removeprefix("file://"))
    cloned = json.loads(Path(source.metadata_location.removeprefix("file://")).read_text())
    snapshots = {name: cloned[name] for name in ("snapshots", "current-snapshot-id", "refs", "snapshot-log", "last-sequence-number")}
    path.write_text(json.dumps({**json.loads(path.read_text()), **snapshots}))
    assert pyiceberg_catalog.load_table("s.t").scan().to_arrow().num_rows == 2
    catalog.drop_table("s", "t")
    assert pyiceberg_catalog.load_table("s.source").scan().to_arrow().equals(ROWS)


@pytest.mark.parametrize("value", ["false", " False "])
def test_files_are_retained_if_gc_is_disabled(catalog: IcebergCatalog, pyiceberg_catalog: Catalog, tmp_path: Path, value: str) -> None:
    create_table(pyiceberg_catalog, tmp_path, **{"gc.enabled": value})
    remaining = drop_and_list(catalog, tmp_path)
    assert {Path(name).suffix for name in remaining} == {".parquet", ".avro", ".json"}


@pytest.mark.parametrize("name", ["write.data.path", "write.object-storage.path", "write.folder-storage.path"])
def test_only_registered_files_in_configured_locations_are_deleted(
    catalog: IcebergCatalog, pyiceberg_catalog: Catalog, tmp_path: Path, name: str
) -> None:
    registered, unnamed = (write_foreign_file(tmp_path, f"elsewhere/{file}.parquet") for file in ("registered", "unnamed"))
    create_table(pyiceberg_catalog, tmp_path, **{name: f"file://{tmp_path}/elsewhere"}).add_files([f"file://{registered}"])
    assert drop_and_list(catalog, tmp_path) == []
    assert list((tmp_path / "elsewhere").iterdir()) == [unnamed]


@pytest.mark.parametrize(
    "path", ["file://{t}/../victim", "file://{t}/%2e%2e/victim", "file://{t}/link/victim", "file://{t}/../../../victim"]
)
def test_a_crafted_metadata_log_deletes_no_files(catalog: IcebergCatalog, pyiceberg_catalog: Catalog, tmp_path: Path, path: str) -> None:
    crafted_table, folder = create_table(pyiceberg_catalog, tmp_path), tmp_path / "warehouse/s/t"
    (folder / "link").symlink_to(tmp_path)
    for place in (folder.parent, tmp_path):
        (place / "victim").write_text("precious")
    file = Path(crafted_table.metadata_location.removeprefix("file://"))
    content = json.loads(file.read_text())
    entry = {"timestamp-ms": content["last-updated-ms"] - 1, "metadata-file": path.format(t=folder)}
    file.write_text(json.dumps({**content, "metadata-log": [entry, *content["metadata-log"]]}))
    drop_and_list(catalog, tmp_path)
    assert (folder.parent / "victim").exists() and (tmp_path / "victim").exists()


# ------------------------------------------------------------------ names


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "use",
    [
        lambda c, name: c.new_table("s", name, "iceberg"),
        lambda c, name: c.new_table("s", name, "iceberg", "/somewhere"),
        lambda c, name: c.register("s", name, "iceberg", "/somewhere"),
        lambda c, name: c.location_of("s", name),
        lambda c, name: c.open("s", name),
        lambda c, name: c.drop_table("s", name),
        lambda c, name: c.view("s", name),
        lambda c, name: c.put_view(View(Relation.of_view("s", name), "select 1", "s", COLUMNS)),
        lambda c, name: c.drop_view("s", name),
        lambda c, name: c.functions.put("s", name, FunctionDefinition((), "int", "1"), "s", or_replace=True),
        lambda c, name: c.create_schema(name),
        lambda c, name: c.relations(name),
        lambda c, name: c.location_of(name, "t"),
        lambda c, name: c.open(name, "t"),
    ],
)
def test_names_that_are_not_path_segments_are_refused(
    catalog: IcebergCatalog, name: str, use: Callable[[IcebergCatalog, str], Any], tmp_path: Path
) -> None:
    with pytest.raises(TableError, match="is not a single path segment") as error:
        use(catalog, name)
    assert repr(name) in str(error.value)
    assert catalog.schemas() == ["s"]


@pytest.mark.parametrize("name", ["orders", "größe", "a b", "a.b", "...", "50%", "a..b", "x=1"])
def test_valid_names_have_locations_in_the_warehouse(catalog: IcebergCatalog, name: str, tmp_path: Path) -> None:
    assert catalog.new_table("s", name, "iceberg").location == f"file://{tmp_path}/warehouse/s/{name}"


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_the_directory_catalog_encodes_names_as_one_folder(tmp_path: Path, name: str) -> None:
    catalog = DirectoryCatalog(Storage(str(tmp_path)))
    location = Path(catalog.new_table("default", name, "delta").location.removeprefix("file://"))
    assert location.parent == tmp_path / "default" and ".." not in location.name
