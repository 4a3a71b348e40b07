"""A catalog that looks up an open table lists its newest versions at the same time. The result is that of two separate requests."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

import pytest

from rowmerge.catalog import DirectoryCatalog, Relation
from rowmerge.concurrency import wait_for_background
from rowmerge.errors import TableNotFound
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME, committed
from tests.support.table_operations import write_rows

OTHER = Struct((Field("other", Primitive("long")),))


class Recording(Storage):
    """A storage that behaves as a remote one or not, and records the calls of all its instances."""

    is_remote = False
    calls: ClassVar[list[str]] = []

    def child(self, path: str) -> Storage:
        return Recording(f"{self.location}/{path}")

    def exists(self, path: str) -> bool:
        self.calls.append(f"exists {path}")
        return Storage.exists(self, path)

    def get(self, path: str) -> bytes:
        self.calls.append(f"get {path}")
        return Storage.get(self, path)

    def folders(self, prefix: str = "") -> list[str]:
        self.calls.append(f"folders {prefix}")
        return Storage.folders(self, prefix)

    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        self.calls.append(f"list {prefix}")
        return Storage.list(self, prefix, after=after)


@pytest.fixture(params=["delta", "iceberg"])
def format_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["disk", "store"], autouse=True)
def is_remote(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(Recording, "is_remote", request.param)
    return bool(request.param)


@pytest.fixture
def catalog(tmp_path: Path, format_: str) -> DirectoryCatalog:
    """Return a catalog that has read a table of one row."""
    catalog = DirectoryCatalog(Recording(str(tmp_path / "warehouse")))
    create(catalog, format_)
    append(catalog.open("default", "t"), 1)
    assert row_count(catalog.open("default", "t")) == 1
    wait_for_background(60)
    Recording.calls.clear()
    return catalog


@pytest.fixture
def others(tmp_path: Path, catalog: DirectoryCatalog) -> DirectoryCatalog:
    """Return the catalog of another process."""
    return DirectoryCatalog(Storage(str(tmp_path / "warehouse")))


def create(catalog: DirectoryCatalog, format_: str, columns: Struct = ID_NAME) -> None:
    table = catalog.new_table("default", "t", format_)
    committed(table.create(TableDefinition(columns, (), {}, None), CommitRequest("CREATE TABLE")))


def append(table: Table, id_: int) -> None:
    snapshot = table.snapshot()
    committed(table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, [id_])), reads=Reads())))


def row_count(table: Table) -> int:
    return len(table.snapshot().files().paths)


def looked_up(catalog: DirectoryCatalog) -> Table:
    """Return the table as a query looks it up."""
    _, table = catalog.look_up("DEFAULT", "T") or (None, None)
    assert table is not None
    return table


def test_a_known_table_needs_no_further_request(catalog: DirectoryCatalog, format_: str, is_remote: bool) -> None:
    tables = [looked_up(catalog), catalog.open("default", "t")]
    sent = len(Recording.calls)
    assert [row_count(table) for table in tables] == [1, 1]
    assert len(Recording.calls) == sent
    if is_remote:
        # Local files have no ETag, so the content of Iceberg's newest metadata file is read each time.
        assert sent / 2 <= {"delta": 2, "iceberg": 4}[format_], Recording.calls


def test_a_lookup_returns_the_relation(catalog: DirectoryCatalog, format_: str) -> None:
    relation, _ = catalog.look_up("DEFAULT", "T") or (None, None)
    assert relation == catalog.relation("default", "t") == Relation.of_table("default", "t", format_)
    assert catalog.look_up("default", "missing") is None


def test_commits_of_others_before_the_lookup_are_seen(catalog: DirectoryCatalog, others: DirectoryCatalog) -> None:
    for count in (2, 3, 4):
        append(others.open("default", "t"), count)
        assert row_count(looked_up(catalog)) == row_count(catalog.open("default", "t")) == count


def test_the_result_of_a_lookup_is_used_once(catalog: DirectoryCatalog, others: DirectoryCatalog) -> None:
    table = catalog.open("default", "t")
    assert row_count(table) == 1
    append(others.open("default", "t"), 2)
    assert row_count(table) == 2


def test_a_table_that_others_dropped_is_not_found(catalog: DirectoryCatalog, others: DirectoryCatalog) -> None:
    others.drop_table("default", "t")
    assert catalog.relation("default", "t") is None
    with pytest.raises(TableNotFound):
        catalog.open("default", "t")


@pytest.mark.parametrize("new_format", ["delta", "iceberg"])
def test_a_table_that_others_dropped_and_created_is_the_new_one(
    catalog: DirectoryCatalog, others: DirectoryCatalog, new_format: str
) -> None:
    others.drop_table("default", "t")
    create(others, new_format, OTHER)
    assert catalog.open("default", "t").snapshot().schema.names == ("other",)
    assert catalog.relation("default", "t") == Relation.of_table("default", "t", new_format)


def test_a_deleted_folder_is_no_table(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "warehouse/default/t")
    assert catalog.relation("default", "t") is None


def test_a_folder_with_a_new_table_of_fewer_versions_has_the_new_table(catalog: DirectoryCatalog, tmp_path: Path, format_: str) -> None:
    shutil.rmtree(tmp_path / "warehouse/default/t")
    create(DirectoryCatalog(Storage(str(tmp_path / "warehouse"))), format_, OTHER)
    assert catalog.open("default", "t").snapshot().schema.names == ("other",)


def test_a_table_that_others_renamed_has_only_its_new_name(catalog: DirectoryCatalog, others: DirectoryCatalog) -> None:
    relation = others.relation("default", "t")
    assert relation is not None
    others.rename(relation, "default", "renamed")
    assert catalog.relation("default", "t") is None
    assert row_count(catalog.open("default", "renamed")) == 1


def test_a_table_that_release_0_1_0_drops_is_not_found(catalog: DirectoryCatalog, tmp_path: Path, format_: str) -> None:
    folder = {"delta": "_delta_log", "iceberg": "metadata"}[format_]
    (tmp_path / "warehouse/default/t" / folder / "_dropped.json").write_text("{}")
    assert catalog.relation("default", "t") is None
