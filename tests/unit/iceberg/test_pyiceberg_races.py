"""pyiceberg commits between planning and commit of a command, in a SQL catalog and in a directory with copied metadata."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as PyIcebergTable

from rowmerge.errors import CommitConflict, ConcurrentAppend, ConcurrentDeleteRead, MetadataChanged
from rowmerge.iceberg import CatalogClient, CatalogOperations, IcebergTable
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.snapshots.snapshot import Snapshot
from tests.support.iceberg_lake import Lake
from tests.support.table_operations import NOW, write_rows
from tests.unit.iceberg.races import conflict, deleting, insert_only_merge

ROOT = Path(__file__).parents[3]


def configuration(folder: Path) -> dict[str, Any]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/w"}


def lake_in_catalog(folder: Path, catalog: Mapping[str, Any] | None = None, name: str = "t") -> Lake:
    """Return a table of a catalog, by default the table s.t of the SQL catalog."""
    lake = Lake(folder / "t")
    client = CatalogClient(catalog or configuration(folder))
    if "s" not in client.namespaces():
        client.create_namespace("s", {})
    operations = CatalogOperations(client, "s", name, lake.storage.location)
    lake.operations, lake.table = operations, IcebergTable(operations, f"s.{name}")  # type: ignore[assignment]
    return lake


@pytest.fixture(params=["directory", "sql"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Create a table of two files, with the ids 0 to 9 and 10 to 19."""
    table_lake = Lake(tmp_path / "t") if request.param == "directory" else lake_in_catalog(tmp_path)
    table_lake.create()
    table_lake.append(range(10))
    table_lake.append(range(10, 20))
    return table_lake


def commit_with_pyiceberg(lake: Lake, act: Callable[[PyIcebergTable], object]) -> None:
    """Commit a change of pyiceberg to the newest version as the next version."""
    folder = lake.folder.parent
    if isinstance(lake.operations, CatalogOperations):
        act(load_catalog("default", **configuration(folder)).load_table("s.t"))
        return
    catalog = load_catalog("other", **configuration(folder))
    catalog.create_namespace_if_not_exists("s")
    table = catalog.register_table(f"s.t{uuid.uuid4().hex}", lake.current.path)
    act(table)
    version = lake.current.version
    assert version is not None
    new_metadata = Path(table.refresh().metadata_location.removeprefix("file://")).read_bytes()
    lake.storage.put(f"metadata/v{version + 1}.metadata.json", new_metadata)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"theirs {id_}" for id_ in ids]})


def _append(table: PyIcebergTable) -> None:
    table.append(rows(30))


def _delete_of_a_row(table: PyIcebergTable) -> None:
    table.delete("id = 4")


def _delete_of_a_file(table: PyIcebergTable) -> None:
    table.delete("id >= 10")


def _overwrite(table: PyIcebergTable) -> None:
    table.overwrite(rows(4), "id = 4")


def _schema(table: PyIcebergTable) -> None:
    with table.update_schema() as change:
        change.rename_column("name", "title")


def _property(table: PyIcebergTable) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"write.delete.isolation-level": "snapshot"})


def delete_3(lake: Lake, base: Snapshot) -> CommitRequest:
    return deleting(lake, base, 3)


def delete_13(lake: Lake, base: Snapshot) -> CommitRequest:
    return deleting(lake, base, 13)


def upsert(lake: Lake, base: Snapshot) -> CommitRequest:
    return insert_only_merge(lake, base, 13, every_file)


def append(lake: Lake, base: Snapshot) -> CommitRequest:
    return CommitRequest("WRITE", files=FileChanges(write_rows(base, [40])))


INITIAL_IDS = set(range(20))
RACES: list[tuple[Callable[[PyIcebergTable], None], Callable[[Lake, Snapshot], CommitRequest], type[CommitConflict] | None, set[int]]] = [
    (_append, delete_3, None, {*INITIAL_IDS, 30} - {3}),
    (_append, append, None, {*INITIAL_IDS, 30, 40}),
    (_append, upsert, ConcurrentAppend, {*INITIAL_IDS, 30}),
    (_delete_of_a_row, delete_3, ConcurrentDeleteRead, INITIAL_IDS - {4}),
    (_delete_of_a_row, delete_13, None, INITIAL_IDS - {4, 13}),
    (_delete_of_a_row, append, None, {*INITIAL_IDS, 40} - {4}),
    (_delete_of_a_file, delete_3, None, set(range(10)) - {3}),
    (_delete_of_a_file, delete_13, ConcurrentDeleteRead, set(range(10))),
    (_delete_of_a_file, upsert, ConcurrentDeleteRead, set(range(10))),
    (_overwrite, delete_3, ConcurrentDeleteRead, INITIAL_IDS),
    (_overwrite, delete_13, None, INITIAL_IDS - {13}),
    (_overwrite, upsert, ConcurrentAppend, INITIAL_IDS),
    (_schema, delete_3, MetadataChanged, INITIAL_IDS),
    (_schema, append, MetadataChanged, INITIAL_IDS),
    (_property, delete_3, MetadataChanged, INITIAL_IDS),
]


@pytest.mark.parametrize(("winner", "loser", "ending", "ids"), RACES, ids=[f"{row[0].__name__[1:]}-{row[1].__name__}" for row in RACES])
def test_concurrent_pyiceberg_commits_conflict_or_are_retained(
    lake: Lake,
    winner: Callable[[PyIcebergTable], None],
    loser: Callable[[Lake, Snapshot], CommitRequest],
    ending: type[CommitConflict] | None,
    ids: set[int],
) -> None:
    base = lake.table.snapshot()
    change = loser(lake, base)
    commit_with_pyiceberg(lake, winner)
    outcome = lake.table.commit(base, change)
    if ending is None:
        assert isinstance(outcome, Committed), outcome
    else:
        assert conflict(outcome) is ending
    assert lake.ids() == sorted(ids)
    if isinstance(lake.operations, CatalogOperations):
        pyiceberg_rows = load_catalog("default", **configuration(lake.folder.parent)).load_table("s.t").scan().to_arrow()
        assert sorted(pyiceberg_rows["id"].to_pylist()) == sorted(ids)


DYING = """
import os, signal, sys
from pathlib import Path
from pyiceberg.catalog.sql import SqlCatalog
from tests.unit.iceberg.races import deleting
from tests.unit.iceberg.test_pyiceberg_races import lake_in_catalog

commit_table = SqlCatalog.commit_table

def dying(*arguments):
    if sys.argv[2] == "after":
        commit_table(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

lake = lake_in_catalog(Path(sys.argv[1]))
base = lake.table.snapshot()
SqlCatalog.commit_table = dying
lake.table.commit(base, deleting(lake, base, 3))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_the_catalog_commit_leaves_the_old_or_new_table(tmp_path: Path, when: str) -> None:
    lake = lake_in_catalog(tmp_path)
    lake.create()
    lake.append(range(10))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.run([sys.executable, "-c", DYING, str(tmp_path), when], cwd=ROOT, env=environment, check=False)
    assert process.returncode == -signal.SIGKILL
    remaining = set(range(10)) - ({3} if when == "after" else set())
    assert lake.ids() == sorted(remaining)
    commit_with_pyiceberg(lake, _append)
    lake.delete(5)
    assert lake.ids() == sorted({*remaining, 30} - {5})
    lake.table.vacuum(NOW)
    assert lake.ids() == sorted({*remaining, 30} - {5})


@pytest.mark.parametrize("happened", [False, True])
def test_a_commit_is_applied_once_after_a_catalog_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happened: bool) -> None:
    lake = lake_in_catalog(tmp_path)
    lake.create()
    lake.append(range(10))
    commit_table, failed = SqlCatalog.commit_table, []

    def fail_first_commit(*arguments: Any) -> Any:
        if failed:
            return commit_table(*arguments)
        failed.append(1)
        if happened:
            commit_table(*arguments)
        raise ConnectionError("did not respond")

    monkeypatch.setattr(SqlCatalog, "commit_table", fail_first_commit)
    base = lake.table.snapshot()
    outcome = lake.table.commit(base, deleting(lake, base, 3))
    assert isinstance(outcome, Committed) and failed
    assert lake.ids() == [0, 1, 2, *range(4, 10)]
    assert [snapshot.operation for snapshot in lake.table.history()].count("DELETE") == 1
