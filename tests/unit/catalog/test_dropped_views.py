"""Statements on views delete no files of a concurrently created table or view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from rowmerge.catalog import DirectoryCatalog, Relation, View
from rowmerge.catalog.views import KEPT_VERSIONS
from rowmerge.errors import AlreadyExists, TableError, TableNotFound
from rowmerge.storage.store import Put, Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from tests.support.delta_tables import ID_NAME, committed, live_rows
from tests.support.table_operations import write_rows_for


class Paused(Storage):
    """A warehouse in which others act before the call of a number. `calls` lists the calls on the view's folder."""

    def __init__(self, location: str, number: int, turn: Callable[[], None], calls: list[str] | None = None) -> None:
        super().__init__(location)
        self._number, self._turn, self.calls = number, turn, [] if calls is None else calls

    def child(self, path: str) -> Storage:
        return Paused(f"{self.location}/{path}", self._number, self._turn, self.calls)

    def _record_call(self, path: str) -> None:
        if "default/v/" in f"{self.location}/{path}":
            self.calls.append(path)
            if len(self.calls) == self._number:
                self._turn()

    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        self._record_call(prefix)
        return super().list(prefix, after=after)

    def get(self, path: str) -> bytes:
        self._record_call(path)
        return super().get(path)

    def put(self, path: str, data: bytes) -> None:
        self._record_call(path)
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> Put:
        self._record_call(path)
        return super().put_if_absent(path, data)

    def delete(self, paths: Sequence[str]) -> None:
        self._record_call(paths[0])
        super().delete(paths)


def put_view(catalog: DirectoryCatalog, number: int = 1) -> None:
    catalog.put_view(View(Relation.of_view("default", "v"), f"SELECT {number} AS id", "default", ID_NAME), or_replace=True)


def replace_by_table(location: str, format_: str) -> None:
    """Drop the view as another session and create a table of its name in one version."""
    catalog = DirectoryCatalog(Storage(location))
    with suppress(TableNotFound):
        catalog.drop_view("default", "v")
    table = catalog.new_table("default", "v", format_)
    definition = TableDefinition(ID_NAME, (), {})
    files = FileChanges(write_rows_for(table.resolve_shape(definition), [1, 2, 3]))
    committed(table.create(definition, CommitRequest("CREATE TABLE", files=files, definition=definition)))


def rows_of(location: str) -> list[int]:
    table = DirectoryCatalog(Storage(location)).open("default", "v")
    return sorted(live_rows(table.snapshot())["id"].to_pylist())


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("views", [1, KEPT_VERSIONS])
@pytest.mark.parametrize("statement", ["drop", "replace"])
def test_a_paused_statement_on_a_view_keeps_a_concurrently_created_table(tmp_path: Path, statement: str, views: int, format_: str) -> None:
    for number in range(1, 100):
        location = str(tmp_path / f"w{number}")
        for version in range(views):
            put_view(DirectoryCatalog(Storage(location)), version)
        storage = Paused(location, number, partial(replace_by_table, location, format_))
        catalog = DirectoryCatalog(storage)
        with suppress(TableError, AlreadyExists):  # The statement fails if it reads the table.
            catalog.drop_view("default", "v") if statement == "drop" else put_view(catalog, 99)
        if len(storage.calls) < number:
            assert number > 5, "the last statement was not paused"
            return
        assert rows_of(location) == [1, 2, 3], f"paused before call {number}: {storage.calls[number - 1]}"
    pytest.fail("the statement makes too many calls")


def test_a_view_can_be_created_after_a_killed_drop(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    for number in range(1, 100):
        location = str(tmp_path / f"w{number}")
        put_view(DirectoryCatalog(Storage(location)), 1)
        storage = Paused(location, number, interrupt)
        with suppress(KeyboardInterrupt):
            DirectoryCatalog(storage).drop_view("default", "v")
        catalog = DirectoryCatalog(Storage(location))
        relation = catalog.relation("default", "v")
        assert relation is None or catalog.view("default", "v").sql == "SELECT 1 AS id"
        for statement in (put_view, put_view, drop, put_view):
            statement(catalog)
        assert catalog.view("default", "v").sql == "SELECT 1 AS id"
        drop(catalog)
        assert catalog.relation("default", "v") is None
        if len(storage.calls) < number:
            return
    pytest.fail("the statement makes too many calls")


def drop(catalog: DirectoryCatalog) -> None:
    catalog.drop_view("default", "v")
