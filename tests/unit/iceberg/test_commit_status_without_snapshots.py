"""After an error of a REST catalog, the metadata determines whether a commit without a new snapshot succeeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate

from rowmerge.errors import CommitStateUnknown
from rowmerge.iceberg.catalogs import catalog_operations
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Outcome, Reads, Unknown
from rowmerge.table.maintenance import ExpiryOptions
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.table import SnapshotReference
from tests.support.delta_tables import ID_NAME, live_rows
from tests.support.iceberg_lake import Lake
from tests.unit.iceberg.rest_faults import CUT, Server, append, expire, failing, load_pyiceberg_table, serving_faults, set_property

INITIAL_IDS = list(range(20))
FAULTS = pytest.mark.parametrize("status", [409, 500, CUT])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(catalog_operations, "RETRY_WAITS", (0.01, 0.01))
    with serving_faults(tmp_path) as server:
        yield server


@pytest.fixture
def lake(server: Server) -> Lake:
    """Create a table of two files, with the ids 0 to 9 and 10 to 19."""
    table_lake = server.lake()
    table_lake.create()
    table_lake.append(range(10))
    table_lake.append(range(10, 20))
    return table_lake


def restore_of(lake: Lake, snapshot_id: int) -> Callable[[], Outcome]:
    base, target = lake.table.snapshot(), lake.table.snapshot_at(version=snapshot_id)
    reads = Reads(frozenset(lake.paths), lambda listing: pa.array([True] * len(listing)))
    return lambda: lake.table.commit(base, CommitRequest("RESTORE", reads=reads, restored=target))


def set_main(server: Server, snapshot_id: int) -> None:
    with load_pyiceberg_table(server).transaction() as transaction:
        update = SetSnapshotRefUpdate(
            ref_name="main",
            type=SnapshotRefType.BRANCH,
            snapshot_id=snapshot_id,
            max_ref_age_ms=None,
            max_snapshot_age_ms=None,
            min_snapshots_to_keep=None,
        )
        transaction._apply((update,), ())


@FAULTS
def test_a_restore_with_later_appends_is_committed(server: Server, lake: Lake, status: int | None) -> None:
    restore = restore_of(lake, lake.snapshots[0])
    server.acts = [failing(status, happened=True, meanwhile=lambda: append(server, 30, 31))]
    assert isinstance(restore(), Committed)
    assert server.lake().ids() == [*range(10), 30, 31]


@FAULTS
def test_a_restore_undone_by_another_client_is_committed(server: Server, lake: Lake, status: int | None) -> None:
    restore, newest = restore_of(lake, lake.snapshots[0]), lake.snapshots[-1]
    server.acts = [failing(status, happened=True, meanwhile=lambda: set_main(server, newest))]
    assert isinstance(restore(), Committed)
    assert server.lake().ids() == INITIAL_IDS


@FAULTS
def test_a_restore_that_lost_to_appends_conflicts(server: Server, lake: Lake, status: int | None) -> None:
    restore = restore_of(lake, lake.snapshots[0])
    server.acts = [failing(status, meanwhile=lambda: append(server, 30, 31))]
    assert isinstance(restore(), Conflicted)
    assert server.lake().ids() == [*INITIAL_IDS, 30, 31]


@FAULTS
def test_a_restore_with_an_expired_base_has_an_unknown_outcome(server: Server, lake: Lake, status: int | None) -> None:
    restored, replaced = lake.snapshots
    restore = restore_of(lake, restored)
    server.acts = [failing(status, happened=True, meanwhile=lambda: expire(append(server, 30), replaced))]
    assert isinstance(restore(), Unknown)
    assert server.lake().ids() == [*range(10), 30]


@FAULTS
@pytest.mark.parametrize("base", ["older", "none"])
def test_setting_a_branch_with_later_appends_succeeds(server: Server, lake: Lake, status: int | None, base: str) -> None:
    oldest = lake.snapshots[0]
    if base == "older":
        lake.table.branches.set_reference(SnapshotReference("side", False, oldest), create=True, replace=False, if_not_exists=False)
    server.acts = [failing(status, happened=True, meanwhile=lambda: append(server, 30, branch="side"))]
    lake.table.branches.set_reference(SnapshotReference("side", tag=False), create=True, replace=base == "older", if_not_exists=False)
    assert sorted(live_rows(server.lake().table.branches.snapshot("side"))["id"].to_pylist()) == [*INITIAL_IDS, 30]


@FAULTS
def test_setting_a_branch_with_an_expired_snapshot_has_an_unknown_outcome(server: Server, lake: Lake, status: int | None) -> None:
    def follow() -> None:
        append(server, 30, branch="side")
        table = load_pyiceberg_table(server)
        expire(append(server, 31, branch="side"), table.metadata.refs["side"].snapshot_id)

    server.acts = [failing(status, happened=True, meanwhile=follow)]
    with pytest.raises(CommitStateUnknown):
        lake.table.branches.set_reference(SnapshotReference("side", tag=False), create=True, replace=False, if_not_exists=False)


def replace_without_rows(lake: Lake) -> Outcome:
    definition = TableDefinition(ID_NAME, (), {}, None)
    return lake.table.commit(lake.table.snapshot(), CommitRequest("CREATE OR REPLACE TABLE", definition=definition, replace=True))


@FAULTS
def test_an_empty_replacement_with_later_appends_has_an_unknown_outcome(server: Server, lake: Lake, status: int | None) -> None:
    server.acts = [failing(status, happened=True, meanwhile=lambda: append(server, 30))]
    assert isinstance(replace_without_rows(lake), Unknown)
    assert server.lake().ids() == [30]


@FAULTS
def test_an_empty_replacement_that_lost_to_appends_is_retried(server: Server, lake: Lake, status: int | None) -> None:
    server.acts = [failing(status, meanwhile=lambda: append(server, 30, 31))]
    assert isinstance(replace_without_rows(lake), Committed)
    assert server.lake().ids() == []


# ------------------------------------------------------------ definitions


def add_column(lake: Lake) -> Outcome:
    base = lake.table.snapshot()
    columns = Struct((*base.schema.fields, Field("n", Primitive("long"))))
    return lake.table.commit(base, CommitRequest("ADD COLUMNS", definition=TableDefinition(schema=columns)))


def set_own_property(lake: Lake) -> Outcome:
    return lake.table.commit(
        lake.table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={"ours": "1"}))
    )


def expire_first_snapshot(lake: Lake) -> Outcome:
    lake.table.maintenance.expire(ExpiryOptions(snapshot_ids=(lake.snapshots[0],)))
    return Committed(0, 0)


def rename_column(server: Server) -> None:
    load_pyiceberg_table(server).update_schema().rename_column("name", "title").commit()


@FAULTS
@pytest.mark.parametrize("change", [add_column, set_own_property, expire_first_snapshot])
def test_a_metadata_change_with_later_commits_is_committed(
    server: Server, lake: Lake, status: int | None, change: Callable[[Lake], Outcome]
) -> None:
    def follow() -> None:
        set_property(server, owner="them")
        append(server, 30)

    server.acts = [failing(status, happened=True, meanwhile=follow)]
    assert isinstance(change(lake), Committed)
    assert server.lake().ids() == [*INITIAL_IDS, 30]


@FAULTS
def test_conflicting_metadata_changes_conflict(server: Server, lake: Lake, status: int | None) -> None:
    server.acts = [failing(status, meanwhile=lambda: rename_column(server))]
    assert isinstance(add_column(lake), Conflicted)
    assert server.lake().table.snapshot().schema.names == ("id", "title")
