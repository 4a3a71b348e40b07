"""Concurrent creations of one name in two formats: the catalog opens the acknowledged creation, whatever others create and drop."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from rowmerge.catalog import DirectoryCatalog, Relation, View
from rowmerge.delta.maintenance import dropping as delta_dropping
from rowmerge.errors import AlreadyExists, CommitStateUnknown, MetadataChanged, RowmergeError
from rowmerge.execution.insert import NewRows
from rowmerge.execution.table_change import create_table
from rowmerge.iceberg.maintenance import dropping as iceberg_dropping
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.storage.store import Put, Storage, StoredObject
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from tests.support.delta_tables import ID_NAME, committed
from tests.support.faulty_s3 import FaultyS3, needs_moto
from tests.support.table_operations import write_rows_for
from tests.unit.catalog.test_drop_and_create import FORMATS, Act, Killed, Warehouse

MOST_CALLS = 80
"""An upper limit of the storage calls of one creation."""
COLUMNS = Struct((Field("a", Primitive("long")),))
MIXED = [("delta", "iceberg"), ("iceberg", "delta"), ("delta", "view"), ("view", "delta"), ("iceberg", "view"), ("view", "iceberg")]
TABLES = MIXED[:2]
mixed = pytest.mark.parametrize("order", MIXED, ids="-".join)
tables = pytest.mark.parametrize("order", TABLES, ids="-".join)


@dataclass
class Rows:
    """Rows of a CREATE TABLE AS SELECT, with an action of others just after their file is written."""

    ids: Sequence[int]
    act: Act = lambda: None
    reads_table: bool = False

    def write(self, shape: TableShape) -> WriteOutput:
        files = write_rows_for(shape, self.ids) if self.ids else ()
        self.act()
        return WriteOutput(list(files), inserted=len(self.ids))


@dataclass
class Calls:
    """A counter of one process's storage calls that lets others act just before one of them."""

    act: Act
    number: int
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count_call(self) -> None:
        with self.lock:
            self.count += 1
            is_due = self.count == self.number
        if is_due:
            self.act()


def counted(calls: Calls, distant: bool = False) -> type[Storage]:
    class Counted(Storage):
        is_remote = distant  # type: ignore[assignment]

        def child(self, path: str) -> Storage:
            return Counted(f"{self.location}/{path}", self.configuration)

        def at(self, location: str) -> Storage:
            return Counted(location, self.configuration)

        def get(self, path: str) -> bytes:
            calls.count_call()
            return Storage.get(self, path)

        def put(self, path: str, data: bytes) -> None:
            calls.count_call()
            Storage.put(self, path, data)

        def put_if_absent(self, path: str, data: bytes) -> Put:
            calls.count_call()
            return Storage.put_if_absent(self, path, data)

        def folders(self, prefix: str = "") -> list[str]:
            calls.count_call()
            return Storage.folders(self, prefix)

        def exists(self, path: str) -> bool:
            calls.count_call()
            return Storage.exists(self, path)

        def delete(self, paths: Sequence[str]) -> None:
            calls.count_call()
            Storage.delete(self, paths)

        def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
            calls.count_call()
            return Storage.list(self, prefix, after=after)

    return Counted


def create(kind: str, catalog: DirectoryCatalog, ids: Sequence[int], act: Act = lambda: None) -> None:
    """Create a table with rows, or a view."""
    if kind == "view":
        catalog.put_view(View(Relation.of_view("default", "t"), f"SELECT {ids}", "default", COLUMNS))
    else:
        table, definition = catalog.new_table("default", "t", kind), TableDefinition(ID_NAME, (), {}, None)
        create_table(table, "t", definition, cast(NewRows, Rows(ids, act)), or_replace=False)


def drop(kind: str, catalog: DirectoryCatalog) -> None:
    (catalog.drop_view if kind == "view" else catalog.drop_table)("default", "t")


@dataclass
class Creation:
    """A statement that creates a table or a view."""

    kind: str
    folder: Path | str
    ids: Sequence[int]
    storage: type[Storage] = Storage
    options: dict[str, Any] | None = None
    is_acknowledged: bool = False

    def catalog(self) -> DirectoryCatalog:
        return DirectoryCatalog(self.storage(str(self.folder), self.options))

    def run(self) -> None:
        try:
            create(self.kind, self.catalog(), self.ids)
        except CommitStateUnknown:
            raise
        except RowmergeError:
            return
        self.is_acknowledged = True


def around_put(before: Act = lambda: None, after: Act = lambda: None) -> type[Storage]:
    """Return a storage class that lets others act before and after the first put of a table's or a view's version."""
    has_begun: list[bool] = []

    class AroundPut(Storage):
        def child(self, path: str) -> Storage:
            return AroundPut(f"{self.location}/{path}", self.configuration)

        def put_if_absent(self, path: str, data: bytes) -> Put:
            if has_begun or not path.startswith(("_delta_log/", "metadata/v")):
                return Storage.put_if_absent(self, path, data)
            has_begun.append(True)
            before()
            put = Storage.put_if_absent(self, path, data)
            after()
            return put

    return AroundPut


def assert_one_acknowledged(*creations: Creation) -> None:
    """Assert that at most one creation was acknowledged and that the catalog opens it."""
    acknowledged_tables = [(each.kind, each.ids) for each in creations if each.is_acknowledged]
    assert len(acknowledged_tables) <= 1
    assert_opens(Path(creations[0].folder), *(acknowledged_tables or [(None, [])])[0])


def assert_opens(folder: Path, kind: str | None, ids: Sequence[int]) -> None:
    """Assert that the catalog opens a table with these rows, this view, or no relation. Without a relation, the name is available."""
    catalog = DirectoryCatalog(Storage(str(folder)))
    relation = catalog.relation("default", "t")
    if kind is None:
        assert relation is None
        for other in ("iceberg", "view", "delta"):
            create(other, catalog, [7])
            assert_opens(folder, other, [7])
            time.sleep(0.002)
            drop(other, catalog)
    elif kind == "view":
        assert catalog.view("default", "t").sql == f"SELECT {ids}"
    else:
        assert relation is not None
        assert relation.format == kind
        Warehouse(folder, kind).assert_ids(ids)


# ------------------------------------------------------------------ two creations


@pytest.mark.parametrize("distant", [False, True], ids=["local", "distant"])
@mixed
def test_the_catalog_opens_the_acknowledged_creation_of_two_kinds(order: tuple[str, str], distant: bool, tmp_path: Path) -> None:
    for number in range(1, MOST_CALLS):
        folder = tmp_path / str(number)
        second = Creation(order[1], folder, [2])
        calls = Calls(second.run, number)
        first = Creation(order[0], folder, [1], counted(calls, distant))
        first.run()
        assert_one_acknowledged(first, second)
        if calls.count < number:
            return
    raise AssertionError("more calls than expected")


@mixed
def test_at_most_one_overlapping_creation_of_two_kinds_is_acknowledged(order: tuple[str, str], tmp_path: Path) -> None:
    """The first creation pauses just before its put. The second begins and pauses at each of its calls until the first ends."""
    for number in range(1, MOST_CALLS):
        if not is_second_stopped(order, tmp_path / str(number), number):
            return
    raise AssertionError("more calls than expected")


def is_second_stopped(order: tuple[str, str], folder: Path, number: int) -> bool:
    """Let two creations overlap, and return whether the second reached this number of calls."""
    stopped, ended = threading.Event(), threading.Event()

    def stop() -> None:
        stopped.set()
        assert ended.wait(20)

    calls = Calls(stop, number)
    second = Creation(order[1], folder, [2], counted(calls))

    def run_second() -> None:
        second.run()
        stopped.set()

    thread = threading.Thread(target=run_second)

    def begin() -> None:
        thread.start()
        assert stopped.wait(20)

    first = Creation(order[0], folder, [1], around_put(before=begin))
    first.run()
    ended.set()
    thread.join()
    assert_one_acknowledged(first, second)
    return calls.count >= number


@tables
def test_a_conflicting_creation_reports_the_format_of_the_other_table(order: tuple[str, str], tmp_path: Path) -> None:
    catalog, second = DirectoryCatalog(Storage(str(tmp_path))), Creation(order[1], tmp_path, [2])
    name = {"delta": "a Delta table", "iceberg": "an Iceberg table"}[order[1]]
    with pytest.raises(MetadataChanged, match=name):
        create(order[0], catalog, [1], second.run)
    assert_opens(tmp_path, order[1], [2])
    assert len(list((tmp_path / "default" / "t").rglob("part*.parquet"))) == 1
    with pytest.raises(AlreadyExists, match=name):
        create(order[0], catalog, [1])


@tables
def test_appends_to_a_withdrawn_table_do_not_hide_the_acknowledged_table(order: tuple[str, str], tmp_path: Path) -> None:
    own, second = Warehouse(tmp_path, order[0]), Creation(order[1], tmp_path, [2])

    def append() -> None:
        # The catalog does not open an Iceberg table in the folder of a Delta table.
        if order[0] == "delta":
            committed(own.append([5]))

    first = Creation(order[0], tmp_path, [1], around_put(second.run, append))
    first.run()
    assert second.is_acknowledged
    assert_one_acknowledged(first, second)


# ------------------------------------------------------------------ a creation, and a drop of another format


@mixed
def test_a_creation_keeps_its_rows_during_creations_and_drops_of_another_kind(order: tuple[str, str], tmp_path: Path) -> None:
    for number in range(1, MOST_CALLS):
        folder = tmp_path / str(number)
        calls = Calls(partial(create_and_drop, order[1], folder), number)
        first = Creation(order[0], folder, [1], counted(calls))
        first.run()
        assert_opens(folder, *((order[0], [1]) if first.is_acknowledged else (None, [])))
        if calls.count < number:
            return
    raise AssertionError("more calls than expected")


def create_and_drop(kind: str, folder: Path) -> None:
    creation = Creation(kind, folder, [2])
    time.sleep(0.003)
    creation.run()
    if creation.is_acknowledged:
        time.sleep(0.003)
        drop(kind, creation.catalog())


@pytest.mark.parametrize("earlier_tables", [0, 1])
@tables
def test_create_table_as_select_fails_after_a_concurrent_drop_of_another_format(
    order: tuple[str, str], earlier_tables: int, tmp_path: Path
) -> None:
    catalog = DirectoryCatalog(Storage(str(tmp_path)))
    for _ in range(earlier_tables):
        create_and_drop(order[1], tmp_path)
    with pytest.raises(MetadataChanged, match="dropped"):
        create(order[0], catalog, [1], partial(create_and_drop, order[1], tmp_path))
    assert_opens(tmp_path, None, [])
    create(order[0], catalog, [1])
    assert_opens(tmp_path, order[0], [1])


# ------------------------------------------------------------------ two tables in a folder


def die() -> None:
    raise Killed


@pytest.mark.parametrize("dropped", FORMATS)
def test_a_drop_keeps_files_of_a_table_of_another_format(dropped: str, tmp_path: Path) -> None:
    """The creation of a Delta table is killed just after its put, and an Iceberg table is created just before the put."""
    iceberg = Creation("iceberg", tmp_path, [2])
    with suppress(Killed):
        Creation("delta", tmp_path, [1], around_put(iceberg.run, die)).run()
    assert iceberg.is_acknowledged
    assert_opens(tmp_path, "delta", [1])
    time.sleep(0.005)
    folder = tmp_path / "default" / "t"
    (delta_dropping if dropped == "delta" else iceberg_dropping).drop_table(Storage(str(folder)), "t")
    other_format, ids = ("iceberg", [2]) if dropped == "delta" else ("delta", [1])
    assert_opens(tmp_path, other_format, ids)
    assert len(list(folder.rglob("part*.parquet"))) == 1
    committed(Warehouse(tmp_path, other_format).append([8]))
    time.sleep(0.005)
    drop(other_format, iceberg.catalog())
    assert_opens(tmp_path, None, [])


# ------------------------------------------------------------------ an object store


@needs_moto
@pytest.mark.parametrize("moment", ["before", "after"])
@mixed
def test_one_of_two_creations_on_an_object_store_is_withdrawn(order: tuple[str, str], moment: str, s3: FaultyS3) -> None:
    """The second creation runs just before the put of the first, or just after it."""
    location = f"{s3.location}/{uuid.uuid4()}"
    second = Creation(order[1], location, [], options=s3.options())
    first = Creation(order[0], location, [], around_put(**{moment: second.run}), s3.options())
    first.run()
    acknowledged_kinds = [creation.kind for creation in (first, second) if creation.is_acknowledged]
    assert len(acknowledged_kinds) <= 1
    relation = second.catalog().relation("default", "t")
    assert ([] if relation is None else [relation.format or "view"]) == acknowledged_kinds
