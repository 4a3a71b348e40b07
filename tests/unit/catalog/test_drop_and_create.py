"""A table created after a DROP contains nothing of the dropped table, despite late commits, paused drops and kills."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import deltalake
import pyarrow as pa
import pytest
from deltalake.exceptions import TableNotFoundError
from pyiceberg.catalog.sql import SqlCatalog

from rowmerge.catalog import DirectoryCatalog, Relation, View
from rowmerge.concurrency import wait_for_background
from rowmerge.delta.log.log_files import commit_path
from rowmerge.delta.maintenance import dropping as delta_dropping
from rowmerge.errors import MetadataChanged, StorageError, TableNotFound, VersionNotFound
from rowmerge.execution.insert import NewRows
from rowmerge.execution.table_change import create_table
from rowmerge.iceberg.maintenance import dropping as iceberg_dropping
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.storage.store import Durability, Put, Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Outcome, Reads, Unknown
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.change_feed import Bound
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME, committed, live_rows
from tests.support.readers import read_with_delta_rs, read_with_duckdb, read_with_duckdb_iceberg, read_with_pyiceberg
from tests.support.table_operations import write_rows, write_rows_for

FORMATS = ("delta", "iceberg")
Act = Callable[[], object]
CLEANUP_PROPERTIES = {
    "delta": {"delta.checkpointInterval": "2"},
    "iceberg": {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"},
}


class Killed(BaseException):
    """The end of the process."""


class Warehouse:
    """A warehouse with one table and without caches between calls, as in a new process."""

    def __init__(self, folder: Path, format_: str) -> None:
        self.folder, self.format = folder, format_

    def catalog(self, storage: type[Storage] = Storage) -> DirectoryCatalog:
        return DirectoryCatalog(storage(str(self.folder)))

    def create(self, ids: Sequence[int], storage: type[Storage] = Storage, properties: dict[str, str] | None = None) -> Outcome:
        table = self.catalog(storage).new_table("default", "t", self.format)
        outcome = table.create(TableDefinition(ID_NAME, (), properties or {}, None), CommitRequest("CREATE TABLE"))
        if isinstance(outcome, Committed):
            committed(self.append(ids, table))
        return outcome

    def create_empty(self, storage: type[Storage]) -> None:
        table = self.catalog(storage).new_table("default", "t", self.format)
        committed(table.create(TableDefinition(ID_NAME, (), {}, None), CommitRequest("CREATE TABLE")))

    def drop(self, storage: type[Storage] = Storage) -> None:
        self.catalog(storage).drop_table("default", "t")

    def open(self, storage: type[Storage] = Storage) -> Table:
        return self.catalog(storage).open("default", "t")

    def append(self, ids: Sequence[int], table: Table | None = None) -> Outcome:
        table = table or self.open()
        snapshot = table.snapshot()
        return table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, ids)), reads=Reads()))

    def ids(self) -> list[int] | None:
        """Return the ids of the table, None without a table."""
        if self.catalog().relation("default", "t") is None:
            return None
        return sorted(live_rows(self.open().snapshot())["id"].to_pylist())

    @property
    def table_folder(self) -> Path:
        return self.folder / "default" / "t"

    def read_with_other_engines(self) -> list[list[int]]:
        """Return the ids that two other readers read. Without a table, assert that neither reads a row."""
        location = str(self.table_folder)
        if self.format == "delta":
            try:
                return [read(location)["id"].to_pylist() for read in (read_with_delta_rs, read_with_duckdb)]
            except (TableNotFoundError, KeyError):
                assert _rows_of_delta(location) == 0
                return []
        if not list(self.table_folder.glob("metadata/*.metadata.json")):
            return []
        tables = [read(location) for read in (read_with_pyiceberg, read_with_duckdb_iceberg)]
        assert all("id" in table.column_names or not table.num_rows for table in tables)
        return [table["id"].to_pylist() for table in tables if "id" in table.column_names]

    def assert_ids(self, ids: Sequence[int] | None) -> None:
        assert self.ids() == (None if ids is None else list(ids))
        ids_of_readers = self.read_with_other_engines()
        assert ids_of_readers == [list(ids)] * 2 if ids is not None else all(not reader_ids for reader_ids in ids_of_readers)


def _rows_of_delta(location: str) -> int:
    try:
        return read_with_delta_rs(location).num_rows + read_with_duckdb(location).num_rows
    except TableNotFoundError:
        return 0


@pytest.fixture(params=FORMATS)
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path, request.param)


def pausing(act: Act, call: str = "put_if_absent", number: int = 1, has_begun: Callable[[], bool] = lambda: True) -> type[Storage]:
    """Return a storage class that lets others act just before its n-th call of a kind on the table's log or metadata."""
    remaining = [number]

    def act_before(name: str, path: str) -> None:
        if not has_begun():
            return
        if name == call and (path.startswith(("_delta_log", "metadata/v", "_dropped")) or call != "put_if_absent") and remaining[0]:
            remaining[0] -= 1
            if not remaining[0]:
                act()

    class Pausing(Storage):
        def child(self, path: str) -> Storage:
            return Pausing(f"{self.location}/{path}")

        def at(self, location: str) -> Storage:
            return Pausing(location)

        def put(self, path: str, data: bytes) -> None:
            act_before("put", path)
            Storage.put(self, path, data)

        def put_if_absent(self, path: str, data: bytes) -> Put:
            act_before("put_if_absent", path)
            put = Storage.put_if_absent(self, path, data)
            act_before("after_put", path)
            return put

        def delete(self, paths: Sequence[str]) -> None:
            act_before("delete", paths[0] if paths else "")
            Storage.delete(self, paths)

        def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
            act_before("list", prefix)
            return Storage.list(self, prefix, after=after)

    return Pausing


def die() -> None:
    raise Killed


def late_commit(warehouse: Warehouse, storage: type[Storage], versions: int = 1) -> Outcome:
    """Return the outcome of an append planned on the present version. The storage lets others act while it commits."""
    table = warehouse.open(storage)
    snapshot = table.snapshot()
    for id_ in range(versions - 1):
        warehouse.append([50 + id_])
    change = CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, [99])), reads=Reads())
    return table.commit(snapshot, change)


# ------------------------------------------------------------------ state after a drop and a creation


def test_a_recreated_table_has_no_rows_files_or_history_of_the_dropped_table(warehouse: Warehouse) -> None:
    warehouse.create([1, 2])
    old_versions = {entry.version for entry in warehouse.open().history()}
    old_files = set(warehouse.table_folder.rglob("*.parquet"))
    time.sleep(0.005)
    warehouse.drop()
    warehouse.assert_ids(None)
    with pytest.raises(TableNotFound):
        warehouse.drop()
    with pytest.raises(TableNotFound):
        warehouse.open()
    assert not list(warehouse.table_folder.rglob("part*.parquet"))
    warehouse.create([7])
    warehouse.assert_ids([7])
    history = warehouse.open().history()
    assert [entry.operation for entry in history] in (["WRITE", "CREATE TABLE"], ["WRITE"])
    assert not old_versions & {entry.version for entry in history}
    for version in old_versions:
        with pytest.raises(VersionNotFound):
            warehouse.open().snapshot_at(version=version)
    assert not any(path.exists() for path in old_files)
    assert not (warehouse.table_folder / "_dropped").exists()


def test_the_version_of_the_drop_is_not_a_version_of_the_new_table(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path, "delta")
    warehouse.create([1])
    warehouse.drop()
    warehouse.create([7], properties={"delta.enableChangeDataFeed": "true"})
    table = warehouse.open()
    versions = sorted(entry.version for entry in table.history())
    assert versions == [3, 4]
    with pytest.raises(VersionNotFound, match="dropped"):
        table.snapshot_at(version=2)
    assert [file.version for file in table.change_feed.changes(table.snapshot(), Bound(version=3), None).changed_files] == [4]


def test_repeated_drops_and_creations_leave_few_files(warehouse: Warehouse) -> None:
    for round_ in range(4):
        warehouse.create([round_], properties=CLEANUP_PROPERTIES[warehouse.format])
        warehouse.append([10 + round_])
        warehouse.assert_ids([round_, 10 + round_])
        time.sleep(0.005)
        warehouse.drop()
        warehouse.assert_ids(None)
    assert len(list(warehouse.table_folder.rglob("*"))) < 12


@pytest.mark.parametrize("order", [("delta", "iceberg"), ("iceberg", "delta")], ids="-".join)
def test_a_name_can_be_reused_for_other_formats_and_kinds(tmp_path: Path, order: tuple[str, str]) -> None:
    first, second = (Warehouse(tmp_path, format_) for format_ in order)
    for round_ in range(2):
        for warehouse in (first, second):
            warehouse.create([round_])
            relation = warehouse.catalog().relation("default", "t")
            assert relation is not None
            assert relation.format == warehouse.format
            warehouse.assert_ids([round_])
            time.sleep(0.005)
            warehouse.drop()
            assert warehouse.ids() is None
        catalog = first.catalog()
        columns = Struct((Field("a", Primitive("long")),))
        for text in ("SELECT 1", "SELECT 2"):
            catalog.put_view(View(Relation.of_view("default", "t"), text, "default", columns), or_replace=True)
        assert first.catalog().view("default", "t").sql == "SELECT 2"
        first.catalog().drop_view("default", "t")
        assert first.catalog().relation("default", "t") is None


def test_a_schema_with_dropped_tables_is_empty(warehouse: Warehouse) -> None:
    warehouse.catalog().create_schema("raw")
    table = warehouse.catalog().new_table("raw", "t", warehouse.format)
    committed_or_created = table.create(TableDefinition(ID_NAME, (), {}, None), CommitRequest("CREATE TABLE"))
    assert isinstance(committed_or_created, Committed)
    warehouse.catalog().drop_table("raw", "t")
    warehouse.catalog().drop_schema("raw")
    assert warehouse.catalog().schemas() == ["default"]


def test_a_table_with_an_unreadable_log_can_be_dropped(warehouse: Warehouse) -> None:
    warehouse.create([1])
    pattern = "_delta_log/*.json" if warehouse.format == "delta" else "metadata/v*.json"
    for file in warehouse.table_folder.glob(pattern):
        file.write_text("{" if warehouse.format == "delta" else '{"format-version": 2}')
    time.sleep(0.005)
    warehouse.drop()
    assert warehouse.ids() is None
    warehouse.create([7])
    warehouse.assert_ids([7])


def write_with_other_engine(warehouse: Warehouse, rows: pa.Table, mode: Literal["overwrite", "append"] = "append") -> None:
    """Write to a dropped table as an engine that ignores drops and keeps the table's properties."""
    if warehouse.format == "delta":
        schema_mode = "overwrite" if mode == "overwrite" else "merge"
        deltalake.write_deltalake(str(warehouse.table_folder), rows, mode=mode, schema_mode=schema_mode)
        return
    metadata = warehouse.table_folder / "metadata"
    newest = max(int(path.name[1:].split(".")[0]) for path in metadata.glob("v*.metadata.json"))
    catalog = SqlCatalog("other", uri="sqlite:///:memory:", warehouse=str(warehouse.table_folder))
    catalog.create_namespace("s")
    table = catalog.register_table("s.t", str(metadata / f"v{newest}.metadata.json"))
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.union_by_name(rows.schema)
        if mode == "overwrite":
            transaction.overwrite(rows)
        else:
            transaction.append(rows)
    committed_file = catalog.load_table("s.t").metadata_location.removeprefix("file://")
    shutil.copy(committed_file, metadata / f"v{newest + 1}.metadata.json")


def test_a_dropped_table_can_be_dropped_again_after_foreign_writes(warehouse: Warehouse) -> None:
    warehouse.create([1])
    warehouse.drop()
    write_with_other_engine(warehouse, pa.table({"dropped": [True]}))
    warehouse.drop()
    assert warehouse.ids() is None
    warehouse.create([7])
    warehouse.assert_ids([7])


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_foreign_writes_with_table_columns_restore_a_dropped_table(warehouse: Warehouse, mode: Literal["overwrite", "append"]) -> None:
    warehouse.create([1])
    warehouse.drop()
    write_with_other_engine(warehouse, pa.table({"id": [7, 8], "name": ["a", "b"]}), mode)
    warehouse.assert_ids([7, 8])
    assert isinstance(warehouse.create([9]), Conflicted)
    warehouse.drop()
    assert warehouse.ids() is None
    warehouse.create([11])
    warehouse.assert_ids([11])


def test_undeletable_drop_markers_do_not_fail_a_creation(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error here would make the caller delete the files of the table."""
    original_list, versions = Storage.list, {"delta": "_delta_log/*3.json", "iceberg": "metadata/v4.*"}

    def list_(storage: Storage, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        if prefix == "_dropped" and list(warehouse.table_folder.glob(versions[warehouse.format])):
            raise StorageError(f"{storage.location}/{prefix}", "too many requests")
        return original_list(storage, prefix, after=after)

    warehouse.create([1])
    warehouse.drop()
    with monkeypatch.context() as patched:
        patched.setattr(Storage, "list", list_)
        assert isinstance(warehouse.create([7]), Committed)
    warehouse.assert_ids([7])


def test_temporary_files_of_killed_writers_are_not_versions(warehouse: Warehouse) -> None:
    warehouse.create([1])
    name = "_delta_log/00000000000000000002.json" if warehouse.format == "delta" else "metadata/v3.metadata.json"
    temporary = warehouse.table_folder / f"{name}#1"
    temporary.write_bytes(b"{")
    orphan = warehouse.table_folder / "part-0.parquet"
    orphan.write_bytes(b"")
    time.sleep(0.005)
    warehouse.drop()
    assert (warehouse.table_folder / name).exists()
    assert not temporary.exists()
    assert not orphan.exists()
    warehouse.create([7])
    warehouse.assert_ids([7])


def test_a_recreated_table_has_no_old_transactions_or_timestamps(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path, "delta")
    properties = {"delta.enableInCommitTimestamps": "true", "delta.enableRowTracking": "true"}
    warehouse.create([1], properties=properties)
    table = warehouse.open()
    change = CommitRequest("WRITE", reads=Reads(), transaction=("app", 5))
    committed(table.commit(table.snapshot(), change))
    warehouse.drop()
    warehouse.create([7], properties=properties)
    table = warehouse.open()
    assert table.version_of_transaction("app", 9) is None
    snapshot = table.snapshot()
    first_version = snapshot.version - 1
    assert snapshot.settings.properties["delta.inCommitTimestampEnablementVersion"] == str(first_version)
    commit_info = json.loads((warehouse.table_folder / commit_path(first_version)).read_text().splitlines()[0])["commitInfo"]
    assert snapshot.settings.properties["delta.inCommitTimestampEnablementTimestamp"] == str(commit_info["inCommitTimestamp"])
    newest = table.snapshot_at(timestamp=time.time_ns() // 1_000_000 + 1000)
    assert newest.version == snapshot.version
    committed(table.commit(snapshot, change))
    warehouse.assert_ids([7])


def test_a_recreated_table_can_have_another_partitioning(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path, "delta")
    warehouse.create([1])
    warehouse.drop()
    table = warehouse.catalog().new_table("default", "t", "delta")
    definition = TableDefinition(ID_NAME, identities(("name",)), {}, None)
    assert isinstance(table.create(definition, CommitRequest("CREATE TABLE")), Committed)
    committed(warehouse.append([7, 8]))
    warehouse.assert_ids([7, 8])


# ------------------------------------------------------------------ late commits


@pytest.mark.parametrize("moment", ["put_if_absent", "after_put"])
@pytest.mark.parametrize("is_recreated", [True, False], ids=["recreated", "dropped"])
@pytest.mark.parametrize("versions", [1, 4])
@pytest.mark.parametrize("cleaned", [True, False], ids=["cleaned", "whole"])
def test_a_commit_planned_on_a_dropped_table_changes_no_rows(
    warehouse: Warehouse, moment: str, is_recreated: bool, versions: int, cleaned: bool
) -> None:
    warehouse.create([1], properties=CLEANUP_PROPERTIES[warehouse.format] if cleaned else {})

    def drop_and_create() -> None:
        time.sleep(0.005)
        warehouse.drop()
        if is_recreated:
            warehouse.create([7])

    outcome = late_commit(warehouse, pausing(drop_and_create, moment), versions)
    if moment == "put_if_absent" or versions > 1:
        assert isinstance(outcome, Conflicted)
        assert isinstance(outcome.conflict, MetadataChanged)
    else:
        # The commit preceded the drop of the table.
        assert isinstance(outcome, Committed | Conflicted | Unknown)
    warehouse.assert_ids([7] if is_recreated else None)
    if is_recreated:
        committed(warehouse.append([8]))
        warehouse.assert_ids([7, 8])


@pytest.mark.parametrize("is_recreated", [True, False], ids=["recreated", "dropped"])
@pytest.mark.parametrize("versions", [1, 4])
def test_a_late_commit_of_a_killed_process_is_ignored_by_all_readers(warehouse: Warehouse, is_recreated: bool, versions: int) -> None:
    warehouse.create([1])

    def drop_and_create() -> None:
        time.sleep(0.005)
        warehouse.drop()
        if is_recreated:
            warehouse.create([7])

    class Dying(pausing(drop_and_create)):  # type: ignore[misc]
        def child(self, path: str) -> Storage:
            return Dying(f"{self.location}/{path}")

        def put_if_absent(self, path: str, data: bytes) -> Put:
            put = super().put_if_absent(path, data)
            if put is Put.CREATED:
                raise Killed
            return put  # type: ignore[no-any-return]

    with suppress(Killed):
        assert isinstance(late_commit(warehouse, Dying, versions), Conflicted)
    warehouse.assert_ids([7] if is_recreated else None)
    if not is_recreated:
        warehouse.create([7])
    committed(warehouse.append([8]))
    warehouse.assert_ids([7, 8])


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_late_commit_does_not_decrease_the_version_hint(tmp_path: Path, is_remote: bool) -> None:
    warehouse = Warehouse(tmp_path, "iceberg")
    warehouse.create([1])

    def recreate_twice() -> None:
        for id_ in (5, 7):
            time.sleep(0.005)
            warehouse.drop()
            warehouse.create([id_])
        hints.append(hint.read_text())

    hint = warehouse.table_folder / "metadata" / "version-hint.text"
    hints: list[str] = []

    def read_hint() -> None:
        hints.append(hint.read_text())

    class Reading(pausing(recreate_twice)):  # type: ignore[misc]
        def at(self, location: str) -> Storage:
            return Reading(location)

        def child(self, path: str) -> Storage:
            return Reading(f"{self.location}/{path}")

        def delete(self, paths: Sequence[str]) -> None:
            if hints:
                read_hint()
            Storage.delete(self, paths)

    Reading.is_remote = is_remote  # type: ignore[method-assign,assignment]
    assert isinstance(late_commit(warehouse, Reading), Conflicted)
    wait_for_background(60)
    read_hint()
    newest = max(int(path.name[1:].split(".")[0]) for path in hint.parent.glob("v*.metadata.json"))
    assert {int(text) for text in hints} == {newest}
    warehouse.assert_ids([7])


def test_a_creation_after_a_concurrent_creation_and_drop_conflicts(warehouse: Warehouse) -> None:
    warehouse.create([1])
    warehouse.drop()

    def create_and_drop() -> None:
        warehouse.create([5])
        time.sleep(0.005)
        warehouse.drop()

    outcome = warehouse.create([6], pausing(create_and_drop))
    assert isinstance(outcome, Conflicted)
    warehouse.assert_ids(None)
    warehouse.create([7])
    warehouse.assert_ids([7])


@pytest.mark.parametrize("durability", Durability)
def test_a_creation_conflicts_with_a_paused_drop_of_its_files(warehouse: Warehouse, durability: Durability) -> None:
    """A CREATE TABLE AS SELECT has written its file when others create and drop a table. The drop pauses before its first deletion."""
    table = DirectoryCatalog(Storage(str(warehouse.folder), durability=durability)).new_table("default", "t", warehouse.format)
    version = table.creation_version()
    definition = TableDefinition(ID_NAME, (), {}, None)
    files = write_rows_for(table.resolve_shape(definition), [1])
    time.sleep(0.005)
    warehouse.create([5])
    outcomes: list[Outcome] = []

    def create() -> None:
        outcomes.append(table.create(definition, CommitRequest("CREATE TABLE AS SELECT", files=FileChanges(files)), version))

    warehouse.drop(pausing(create, "delete", has_begun=lambda: warehouse.ids() is None))
    assert [type(outcome) for outcome in outcomes] == [Conflicted]
    warehouse.assert_ids(None)
    warehouse.create([7])
    warehouse.assert_ids([7])


@dataclass
class LateRows:
    """Rows of a CREATE TABLE AS SELECT, with an action of others just after its file is written."""

    act: Act
    reads_table: bool = False

    def write(self, shape: TableShape) -> WriteOutput:
        files = write_rows_for(shape, [1])
        time.sleep(0.005)
        self.act()
        return WriteOutput(list(files), inserted=1)


@pytest.mark.parametrize("earlier_tables", [0, 1])
def test_create_table_as_select_fails_after_a_concurrent_drop(warehouse: Warehouse, earlier_tables: int) -> None:
    def create_and_drop() -> None:
        warehouse.create([5])
        warehouse.drop()

    for _ in range(earlier_tables):
        create_and_drop()
    table = warehouse.catalog().new_table("default", "t", warehouse.format)
    rows = cast(NewRows, LateRows(create_and_drop))
    with pytest.raises(MetadataChanged, match="DROP TABLE"):
        create_table(table, "t", TableDefinition(ID_NAME, (), {}, None), rows, or_replace=False)
    warehouse.assert_ids(None)
    create_table(table, "t", TableDefinition(ID_NAME, (), {}, None), cast(NewRows, LateRows(lambda: None)), or_replace=False)
    warehouse.assert_ids([1])


# ------------------------------------------------------------------ paused and killed drops


@pytest.mark.parametrize("call", ["put", "put_if_absent", "delete", "list"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_paused_drop_keeps_a_concurrently_created_table(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    warehouse.create([1])
    acted: list[bool] = []
    # A drop that has not yet read its table counts as a later statement.
    module = delta_dropping if warehouse.format == "delta" else iceberg_dropping
    put, has_begun = module.Drop.put, []
    monkeypatch.setattr(module.Drop, "put", lambda self: has_begun.append(True) or put(self))

    def create() -> None:
        time.sleep(0.005)
        if warehouse.ids() is not None:
            warehouse.drop()
        warehouse.create([7])
        acted.append(True)

    warehouse.drop(pausing(create, call, number, lambda: bool(has_begun)))
    warehouse.assert_ids([7] if acted else None)
    assert acted or number > 1


@pytest.mark.parametrize("step", ["drop", "create"])
def test_all_readers_agree_after_a_killed_drop_or_creation(warehouse: Warehouse, step: str) -> None:
    for number in range(1, 40):
        location = warehouse.folder / str(number)
        each = Warehouse(location, warehouse.format)
        each.create([1, 2])
        each.append([3])
        time.sleep(0.003)
        if step == "create":
            each.drop()
        try:
            (each.drop if step == "drop" else each.create_empty)(mortal(number))
            break
        except Killed:
            pass
        ids = each.ids()
        assert ids in ((None, [1, 2, 3]) if step == "drop" else (None, []))
        ids_of_readers = each.read_with_other_engines()
        assert all(reader_ids == (ids or []) for reader_ids in ids_of_readers), f"killed at call {number}"
        if ids is not None:
            time.sleep(0.003)
            each.drop()
        each.create([7])
        each.assert_ids([7])
        time.sleep(0.003)
        each.drop()
        each.assert_ids(None)
        assert not list(each.table_folder.rglob("part*.parquet"))
    else:
        raise AssertionError("more calls than expected")
    assert number > 5


def mortal(number: int) -> type[Storage]:
    """Return a storage class whose process dies at its n-th call that concerns the table."""
    remaining = [number]

    def call() -> None:
        remaining[0] -= 1
        if remaining[0] <= 0:
            raise Killed

    class Mortal(Storage):
        def child(self, path: str) -> Storage:
            return Mortal(f"{self.location}/{path}")

        def get(self, path: str) -> bytes:
            call()
            return Storage.get(self, path)

        def put(self, path: str, data: bytes) -> None:
            if ".rowmerge-probe" not in path:
                call()
            Storage.put(self, path, data)

        def put_if_absent(self, path: str, data: bytes) -> Put:
            call()
            return Storage.put_if_absent(self, path, data)

        def delete(self, paths: Sequence[str]) -> None:
            for path in paths:
                if ".rowmerge-probe" not in path:
                    call()
                Storage.delete(self, [path])

    return Mortal
