"""Commands planned on one version of a table, and the outcomes of their commits."""

from __future__ import annotations

import pyarrow as pa

from rowmerge.errors import CommitConflict
from rowmerge.table.commits.request import CommitRequest, Conflicted, Outcome, Reads
from rowmerge.table.snapshots.files import FileChanges, FileListing, FileMask, Positions
from rowmerge.table.snapshots.snapshot import Snapshot
from tests.support.iceberg_lake import Lake
from tests.support.table_operations import write_rows


def _match_no_file(listing: FileListing) -> pa.Array:
    return pa.array([False] * len(listing))


def path_of(lake: Lake, snapshot: Snapshot, id_: int) -> str:
    return next(path for path in snapshot.files().paths if id_ in lake.ids_in(path))


def deleting(lake: Lake, base: Snapshot, *ids: int) -> CommitRequest:
    """Return a merge-on-read DELETE of rows of one file."""
    path = path_of(lake, base, ids[0])
    deleted = base.deleted_positions([path]).get(path, Positions())
    rows = Positions(lake.ids_in(path).index(id_) for id_ in ids)
    return CommitRequest("DELETE", files=FileChanges(deleted={path: deleted | rows}), reads=Reads(frozenset({path}), rows={}))


def insert_only_merge(lake: Lake, base: Snapshot, id_: int, may_match: FileMask = _match_no_file) -> CommitRequest:
    """Return an insert-only MERGE: the row of this id matches one source row, another source row is inserted."""
    path = path_of(lake, base, id_)
    rows = {path: Positions([lake.ids_in(path).index(id_)])}
    return CommitRequest("MERGE", files=FileChanges(write_rows(base, [100])), reads=Reads(frozenset({path}), may_match, rows=rows))


def conflict(outcome: Outcome) -> type[CommitConflict]:
    assert isinstance(outcome, Conflicted), outcome
    return type(outcome.conflict)
