"""A rename leaves the old or the new name, whatever it meets: kills, other renames, creations, drops and commits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rowmerge.catalog import DirectoryCatalog, Relation, View
from rowmerge.errors import AlreadyExists, MetadataChanged, PlanError, RowmergeError, StorageError, TableNotFound
from rowmerge.storage.store import Put, Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME, committed, live_rows
from tests.support.readers import read_with_delta_rs
from tests.support.table_operations import write_rows

FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])


class Killed(BaseException):
    """The end of the process."""


class Calls:
    """What happens at the storage calls of one process: before the call `at`, counted from 1, `event` runs."""

    def __init__(self, at: int = 0, event: Callable[[], object] = lambda: None) -> None:
        self.at, self.event, self.count = at, event, 0

    def next(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.event()


class CountingStorage(Storage):
    """A storage whose calls are counted."""

    calls: Calls

    def child(self, path: str) -> Storage:
        return _counting(f"{self.location}/{path}", self.calls)

    def at(self, location: str) -> Storage:
        return _counting(location, self.calls)

    def get(self, path: str) -> bytes:
        self.calls.next()
        return super().get(path)

    def put(self, path: str, data: bytes) -> None:
        self.calls.next()
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> Put:
        self.calls.next()
        return super().put_if_absent(path, data)

    def folders(self, prefix: str = "") -> list[str]:
        self.calls.next()
        return super().folders(prefix)

    def delete(self, paths: Any) -> None:
        self.calls.next()
        super().delete(paths)

    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        self.calls.next()
        return super().list(prefix, after=after)


def _counting(location: str, calls: Calls) -> CountingStorage:
    storage = CountingStorage(location)
    storage.calls = calls
    return storage


def catalog_of(folder: Path, calls: Calls | None = None) -> DirectoryCatalog:
    """Return the catalog as a new process sees it. With `calls`, the calls after the opening of the catalog are counted."""
    counted = calls or Calls()
    at, counted.at = counted.at, 0
    catalog = DirectoryCatalog(_counting(str(folder), counted))
    counted.at, counted.count = at, 0
    return catalog


def create(catalog: DirectoryCatalog, name: str, ids: list[int], format_: str, location: str | None = None) -> Table:
    """Create a table as CREATE TABLE … AS SELECT does."""
    table = catalog.new_table("default", name, format_, location)
    committed(table.create(TableDefinition(ID_NAME), CommitRequest("CREATE TABLE")))
    catalog.register("default", name, format_, table.location, is_new=True)
    append(table, ids)
    return table


def append(table: Table, ids: list[int]) -> None:
    snapshot = table.snapshot()
    committed(table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, ids)), reads=Reads())))


def rename(catalog: DirectoryCatalog, name: str, new_name: str) -> None:
    relation = catalog.relation("default", name)
    if relation is None:
        raise TableNotFound(name)
    catalog.rename(relation, "default", new_name)


def contents(folder: Path) -> dict[str, list[int]]:
    """Return the ids of each table by its name."""
    catalog = catalog_of(folder)
    names = [relation.name for relation in catalog.relations("default")]
    return {name: sorted(live_rows(catalog.open("default", name).snapshot())["id"].to_pylist()) for name in names}


def setting(folder: Path, format_: str, kind: str) -> None:
    """Create a table `a` with the row 1: in the folder of its name, at a location, or renamed before."""
    catalog = catalog_of(folder)
    create(catalog, "first" if kind == "renamed" else "a", [1], format_, str(folder.parent / "outside") if kind == "external" else None)
    if kind == "renamed":
        rename(catalog, "first", "a")
        create(catalog, "first", [9], format_)


OTHERS = {"managed": {}, "external": {}, "renamed": {"first": [9]}}
KINDS = pytest.mark.parametrize("kind", list(OTHERS))


def calls_of(folder: Path, act: Callable[[DirectoryCatalog], object]) -> int:
    calls = Calls()
    act(catalog_of(folder, calls))
    return calls.count


@pytest.mark.one_of("format_", "kind")
@FORMATS
@KINDS
def test_a_rename_killed_at_any_storage_call_leaves_one_name_and_can_be_repeated(tmp_path: Path, format_: str, kind: str) -> None:
    setting(tmp_path / "count", format_, kind)
    number = calls_of(tmp_path / "count", lambda catalog: rename(catalog, "a", "b"))
    outcomes = []
    for at in range(1, number + 1):
        folder = tmp_path / str(at) / "w"
        setting(folder, format_, kind)
        with pytest.raises(Killed):
            rename(catalog_of(folder, Calls(at, _kill)), "a", "b")
        tables = contents(folder)
        assert tables in ({"a": [1], **OTHERS[kind]}, {"b": [1], **OTHERS[kind]})
        outcomes.append("b" in tables)
        if "a" in tables:
            rename(catalog_of(folder), "a", "b")
        create(catalog_of(folder), "a", [2], format_)
        assert contents(folder) == {"a": [2], "b": [1], **OTHERS[kind]}
        catalog_of(folder).drop_table("default", "b")
        create(catalog_of(folder), "b", [3], format_)
        assert contents(folder) == {"a": [2], "b": [3], **OTHERS[kind]}
    assert outcomes == sorted(outcomes)  # there is one call before which the old name counts
    assert outcomes[0] is False


@pytest.mark.one_of("format_", "kind")
@FORMATS
@KINDS
def test_the_new_name_of_a_killed_rename_can_be_given_to_a_new_table(tmp_path: Path, format_: str, kind: str) -> None:
    setting(tmp_path / "count", format_, kind)
    number = calls_of(tmp_path / "count", lambda catalog: rename(catalog, "a", "b"))
    for at in range(1, number + 1):
        folder = tmp_path / str(at) / "w"
        setting(folder, format_, kind)
        with pytest.raises(Killed):
            rename(catalog_of(folder, Calls(at, _kill)), "a", "b")
        old_name = "a" if "a" in contents(folder) else "b"
        new_name = "b" if old_name == "a" else "a"
        create(catalog_of(folder), new_name, [2], format_, str(tmp_path / str(at) / "other") if at % 2 else None)
        assert contents(folder) == {old_name: [1], new_name: [2], **OTHERS[kind]}
        rename(catalog_of(folder), old_name, "c")
        assert contents(folder) == {"c": [1], new_name: [2], **OTHERS[kind]}


def _kill() -> None:
    raise Killed


def _create_b_outside(catalog: DirectoryCatalog, format_: str) -> None:
    create(catalog, "b", [2], format_, f"{catalog.location_of('default', 'b')}_outside/x")


def _append(catalog: DirectoryCatalog, format_: str) -> None:
    append(catalog.open("default", "a"), [5])


OTHER = {"other": [7]}
RACES: dict[str, tuple[Callable[[DirectoryCatalog, str], object], list[dict[str, list[int]]]]] = {
    "a creation": (lambda catalog, format_: create(catalog, "b", [2], format_), [{"a": [1], "b": [2], **OTHER}, {"b": [1], **OTHER}]),
    "a creation at a location": (_create_b_outside, [{"a": [1], "b": [2], **OTHER}, {"b": [1], **OTHER}]),
    "another new name": (lambda catalog, _: rename(catalog, "a", "c"), [{"b": [1], **OTHER}, {"c": [1], **OTHER}]),
    "a rename of another table": (
        lambda catalog, _: rename(catalog, "other", "b"),
        [{"b": [1], "other": [7]}, {"a": [1], "b": [7]}, {"a": [1], "other": [7]}],
    ),
    "a drop": (lambda catalog, _: catalog.drop_table("default", "a"), [OTHER, {"b": [1], **OTHER}]),
    "a commit": (_append, [{"b": [1], **OTHER}, {"b": [1, 5], **OTHER}]),
}


def rename_during(folder: Path, format_: str, at: int, act: Callable[[DirectoryCatalog], object], *, is_rename_outside: bool) -> int:
    """Run one of two statements before the storage call `at` of the other one. Return the number of calls of the other one.

    Both statements may fail, but only with an error that says what came first.
    """
    create(catalog_of(folder), "a", [1], format_)
    create(catalog_of(folder), "other", [7], format_)

    def rename_it(catalog: DirectoryCatalog) -> None:
        rename(catalog, "a", "b")

    outer, inner = (rename_it, act) if is_rename_outside else (act, rename_it)

    def attempt(statement: Callable[[DirectoryCatalog], object], calls: Calls | None = None) -> None:
        try:
            statement(catalog_of(folder, calls))
        except (AlreadyExists, MetadataChanged, TableNotFound):
            return

    calls = Calls(at, lambda: attempt(inner))
    attempt(outer, calls)
    return calls.count


@pytest.mark.one_of("format_", "is_rename_outside")
@FORMATS
@pytest.mark.parametrize("is_rename_outside", [True, False])
@pytest.mark.parametrize("race", list(RACES))
def test_a_rename_that_races_another_statement_loses_no_row(tmp_path: Path, format_: str, race: str, is_rename_outside: bool) -> None:
    statement, possible = RACES[race]
    act = lambda catalog: statement(catalog, format_)  # noqa: E731
    count = rename_during(tmp_path / "w0", format_, 0, act, is_rename_outside=is_rename_outside)
    for at in range(1, count + 1):
        folder = tmp_path / f"w{at}"
        rename_during(folder, format_, at, act, is_rename_outside=is_rename_outside)
        assert contents(folder) in possible, f"call {at} of {count}"


@FORMATS
def test_a_writer_that_opened_the_table_before_the_rename_commits_to_the_renamed_table(tmp_path: Path, format_: str) -> None:
    catalog = catalog_of(tmp_path)
    table = create(catalog, "a", [1], format_)
    snapshot = table.snapshot()
    rename(catalog, "a", "b")
    create(catalog, "a", [3], format_)
    committed(table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, [2])), reads=Reads())))
    assert contents(tmp_path) == {"a": [3], "b": [1, 2]}


def test_other_readers_find_the_renamed_table_in_its_folder(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    create(catalog, "a", [1], "delta")
    rename(catalog, "a", "b")
    location = catalog.open("default", "b").location
    assert location.endswith("/default/a")
    assert read_with_delta_rs(location)["id"].to_pylist() == [1]


def test_a_view_killed_in_a_rename_has_one_name(tmp_path: Path) -> None:
    columns = Struct((Field("id", Primitive("long")),))

    def setting_of(folder: Path) -> None:
        catalog_of(folder).put_view(View(Relation.of_view("default", "a"), "select 1L as id", "default", columns))

    setting_of(tmp_path / "count")
    number = calls_of(tmp_path / "count", lambda catalog: rename(catalog, "a", "b"))
    for at in range(1, number + 1):
        folder = tmp_path / str(at)
        setting_of(folder)
        with pytest.raises(Killed):
            rename(catalog_of(folder, Calls(at, _kill)), "a", "b")
        catalog = catalog_of(folder)
        (relation,) = catalog.relations("default")
        assert catalog.view("default", relation.name).sql == "select 1L as id"
        other_name = "b" if relation.name == "a" else "a"
        catalog.put_view(View(Relation.of_view("default", other_name), "select 2L as id", "default", columns))
        assert catalog.view("default", relation.name).sql == "select 1L as id"
        catalog.drop_view("default", relation.name)
        assert [view.name for view in catalog.relations("default")] == [other_name]


def test_a_failed_rename_leaves_the_old_name(tmp_path: Path) -> None:
    create(catalog_of(tmp_path), "a", [1], "delta")

    def fail() -> None:
        raise StorageError("x", "no answer")

    number = calls_of_a_failing_rename(tmp_path)
    for at in range(1, number):
        with suppress(RowmergeError):
            rename(catalog_of(tmp_path, Calls(at, fail)), "a", "b")
        if contents(tmp_path) == {"b": [1]}:
            rename(catalog_of(tmp_path), "b", "a")
        assert contents(tmp_path) == {"a": [1]}


def calls_of_a_failing_rename(folder: Path) -> int:
    number = calls_of(folder, lambda catalog: rename(catalog, "a", "b"))
    rename(catalog_of(folder), "b", "a")
    return number


@KINDS
def test_the_name_of_a_delta_table_can_refer_to_another_location(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "w"
    setting(folder, "delta", kind)
    catalog = catalog_of(folder)
    location = str(tmp_path / "new")
    other = create(catalog, "other", [2], "delta", location)
    relation = catalog.relation("default", "a")
    assert relation is not None
    old_location = catalog.open("default", "a").location
    catalog.set_location(relation, location)
    catalog.set_location(relation, location)
    assert contents(folder) == {"a": [2], "other": [2], **OTHERS[kind]}
    append(other, [3])
    rename(catalog, "a", "b")
    assert contents(folder)["b"] == [2, 3]
    catalog.drop_table("default", "b")
    create(catalog, "a", [4], "delta")
    assert contents(folder) == {"a": [4], "other": [2, 3], **OTHERS[kind]}
    create(catalog, "old", [], "delta", str(tmp_path / "unused"))
    catalog.register("default", "again", "delta", old_location)
    assert contents(folder)["again"] == [1]


def test_the_location_of_an_iceberg_table_in_a_folder_cannot_change(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    create(catalog, "a", [1], "iceberg")
    with pytest.raises(PlanError, match="in a warehouse folder, its folder is its catalog"):
        catalog.set_location(Relation.of_table("default", "a", "iceberg"), str(tmp_path / "new"))


def test_the_folder_of_a_renamed_table_is_no_location_for_a_new_table_of_its_old_name(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    location = create(catalog, "a", [1], "delta").location
    rename(catalog, "a", "b")
    with pytest.raises(AlreadyExists, match="contains a renamed table or view"):
        catalog.new_table("default", "a", "delta", location)
    assert contents(tmp_path) == {"b": [1]}
