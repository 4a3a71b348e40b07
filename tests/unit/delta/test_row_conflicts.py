"""Concurrent commits that change the same file: conflicts by row, and rebased deletion vectors."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rowmerge.delta.log.log_files import commit_path
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import CommitConflict, ConcurrentAppend, ConcurrentDeleteDelete, ConcurrentDeleteRead
from rowmerge.table.commits.request import Committed, Conflicted, Outcome, Reads
from rowmerge.table.snapshots.files import FileListing, Positions
from tests.support.delta_tables import Lake, committed
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of

ROWS = 8


class OneFile(Lake):
    """A table of one file with the ids 0 to 7, each at the position of its number."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.first = self.file(range(ROWS))
        self.path = self.first.path
        committed(self.create(self.first))

    def delete(self, *rows: int, read: tuple[int, ...] = (), base: DeltaSnapshot | None = None, **more: Any) -> Outcome:
        """Delete these rows in addition to the base's deleted rows; `read` lists the other rows that the commit read."""
        base = base or self.table.snapshot()
        deleted = base.deleted_positions([self.path]).get(self.path, Positions()) | Positions(rows)
        reads = Reads(frozenset({self.path}), rows={self.path: Positions(read)} if read else {})
        return self.commit("DELETE", deleted={self.path: deleted}, reads=reads, base=base, **more)

    def action(self, version: int, kind: str) -> Any:
        lines = (self.folder / commit_path(version)).read_text().splitlines()
        return next(json.loads(line)[kind] for line in lines if kind in json.loads(line))

    @property
    def vectors(self) -> int:
        return len(list(self.folder.glob("deletion_vector_*")))


@pytest.fixture
def lake(tmp_path: Path) -> OneFile:
    return OneFile(tmp_path)


def conflict(outcome: Outcome) -> CommitConflict:
    assert isinstance(outcome, Conflicted), outcome
    return outcome.conflict


def test_deletes_of_different_rows_of_a_file_are_rebased(lake: OneFile) -> None:
    base = lake.table.snapshot()
    committed(lake.delete(0, 1, base=base))
    assert lake.delete(5, base=base) == Committed(2, rebases=1)
    assert lake.ids() == [2, 3, 4, 6, 7]
    first, second = lake.action(1, "add"), lake.action(2, "add")
    assert lake.action(2, "remove")["deletionVector"] == first["deletionVector"]
    assert second["deletionVector"]["cardinality"] == 3
    assert json.loads(second["stats"])["numRecords"] == ROWS
    assert {**second, "deletionVector": None} == {**first, "deletionVector": None}
    assert lake.vectors == 2
    expected = [(n, f"n{n}") for n in (2, 3, 4, 6, 7)]
    assert rows_of(read_with_duckdb(str(lake.folder), "id")) == expected == rows_of(read_with_delta_rs(str(lake.folder), "id"))


def test_a_deletion_vector_is_rebased_on_every_winner(lake: OneFile) -> None:
    committed(lake.delete(7))
    base = lake.table.snapshot()
    for row in (0, 2):
        committed(lake.delete(row, base=base))
    committed(lake.append([100]))
    committed(lake.delete(4, base=base))
    assert lake.delete(6, base=base) == Committed(6, rebases=3)
    assert lake.ids() == [1, 3, 5, 100]
    assert lake.action(6, "remove")["deletionVector"] == lake.action(5, "add")["deletionVector"]


def test_deletes_of_the_same_rows_conflict(lake: OneFile) -> None:
    base = lake.table.snapshot()
    committed(lake.delete(0, 3, 4, base=base))
    error = conflict(lake.delete(3, 4, 5, base=base))
    assert isinstance(error, ConcurrentDeleteDelete)
    assert f"row 3 and 1 more of {lake.path}" in error.message
    assert "DELETE committed version 1 first" in error.message
    assert lake.ids() == [1, 2, 5, 6, 7]
    assert lake.vectors == 1


def test_rows_deleted_before_the_base_do_not_conflict(lake: OneFile) -> None:
    committed(lake.delete(3))
    base = lake.table.snapshot()
    committed(lake.delete(4, base=base))
    assert lake.delete(5, base=base) == Committed(3, rebases=1)


def test_concurrent_deletes_of_read_rows_conflict(lake: OneFile) -> None:
    base = lake.table.snapshot()
    committed(lake.delete(0, base=base))
    error = conflict(lake.delete(5, read=(0, 6), base=base))
    assert isinstance(error, ConcurrentDeleteRead)
    assert f"deleted or updated rows that this statement read: row 0 of {lake.path}" in error.message
    assert lake.delete(5, read=(1, 6), base=base) == Committed(2, rebases=1)


def test_an_insert_conflicts_only_with_deletes_of_its_read_rows(lake: OneFile) -> None:
    base = lake.table.snapshot()
    committed(lake.delete(0, base=base))

    def insert(*read: int) -> Outcome:
        reads = Reads(frozenset({lake.path}), rows={lake.path: Positions(read)})
        return lake.commit("MERGE", added=(lake.file([50]),), reads=reads, base=base)

    assert isinstance(conflict(insert(0)), ConcurrentDeleteRead)
    assert insert(1) == Committed(2)


def test_reads_without_row_positions_cover_the_whole_file(lake: OneFile) -> None:
    base = lake.table.snapshot()
    committed(lake.delete(0, base=base))
    error = conflict(lake.commit("MERGE", added=(lake.file([50]),), reads=Reads(frozenset({lake.path})), base=base))
    assert isinstance(error, ConcurrentDeleteRead)


@pytest.mark.parametrize("data_change", [True, False])
def test_a_removed_file_conflicts_only_if_its_rows_were_read(lake: OneFile, data_change: bool) -> None:
    base = lake.table.snapshot()
    committed(lake.commit("OPTIMIZE", added=(lake.file(range(ROWS)),), removed=(lake.path,), data_change=data_change))
    assert isinstance(conflict(lake.delete(5, base=base)), ConcurrentDeleteRead)
    read = Reads(frozenset({lake.path}), rows={lake.path: Positions([2])})
    assert isinstance(conflict(lake.commit("MERGE", added=(lake.file([50]),), reads=read, base=base)), ConcurrentDeleteRead)
    looked_at = Reads(frozenset({lake.path}), rows={})
    assert lake.commit("MERGE", added=(lake.file([50]),), reads=looked_at, base=base) == Committed(2)


def test_a_rewrite_conflicts_with_a_concurrent_deletion_vector(lake: OneFile) -> None:
    base = lake.table.snapshot()
    committed(lake.delete(0, base=base))
    reads = Reads(frozenset({lake.path}), rows={})
    error = conflict(lake.commit("UPDATE", added=(lake.file([50]),), removed=(lake.path,), reads=reads, base=base))
    assert isinstance(error, ConcurrentDeleteDelete)


def test_a_restored_file_conflicts_with_a_delete(lake: OneFile) -> None:
    committed(lake.delete(0, 1))
    base = lake.table.snapshot()
    # A RESTORE adds the file again without its deletion vector.
    old = lake.action(1, "add")
    remove = {"path": old["path"], "deletionVector": old["deletionVector"], "dataChange": True, "deletionTimestamp": 1}
    lines = [{"remove": remove}, {"add": lake.action(0, "add")}]
    (lake.folder / commit_path(2)).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert isinstance(conflict(lake.delete(5, base=base)), ConcurrentDeleteRead)
    assert lake.ids() == list(range(ROWS))


def test_a_file_without_live_rows_after_a_rebase_is_removed(lake: OneFile) -> None:
    base = lake.table.snapshot()
    committed(lake.delete(*range(5), base=base))
    assert lake.delete(5, 6, 7, base=base) == Committed(2, rebases=1)
    lines = [json.loads(line) for line in (lake.folder / commit_path(2)).read_text().splitlines()]
    assert [key for line in lines for key in line] == ["commitInfo", "remove"]
    assert lake.ids() == []
    assert lake.vectors == 1


def test_a_rebase_leaves_other_files_of_the_commit_unchanged(lake: OneFile) -> None:
    other = lake.file([50, 51])
    committed(lake.commit("WRITE", added=(other,)))
    base = lake.table.snapshot()
    committed(lake.delete(0, base=base))
    deleted = {lake.path: Positions([1]), other.path: Positions([1])}
    reads = Reads(frozenset(deleted), rows={})
    assert lake.commit("UPDATE", added=(lake.file([1, 51]),), deleted=deleted, reads=reads, base=base) == Committed(3, rebases=1)
    assert lake.ids() == [1, 2, 3, 4, 5, 6, 7, 50, 51]


def test_a_rebase_keeps_recomputed_file_metadata(lake: OneFile) -> None:
    base = lake.table.snapshot()
    add = {**lake.action(0, "add"), "dataChange": False, "tags": {"seen": "yes"}}
    (lake.folder / commit_path(1)).write_text(json.dumps({"add": add}) + "\n")
    assert lake.delete(5, base=base) == Committed(2, rebases=1)
    assert lake.action(2, "add")["tags"] == {"seen": "yes"}


def test_a_conflict_after_a_rebase_deletes_its_deletion_vectors(lake: OneFile) -> None:
    base = lake.table.snapshot()
    committed(lake.delete(0, base=base))
    committed(lake.delete(1, base=base))
    assert lake.vectors == 2
    assert isinstance(conflict(lake.delete(1, 2, base=base)), ConcurrentDeleteDelete)
    assert lake.vectors == 2


def test_concurrent_deletes_of_different_rows_all_commit(lake: OneFile) -> None:
    base = lake.table.snapshot()
    outcomes: list[Outcome] = []
    threads = [threading.Thread(target=lambda row=row: outcomes.append(lake.delete(row, base=base))) for row in range(ROWS)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(committed(outcome) for outcome in outcomes) == list(range(1, ROWS + 1))
    assert sum(outcome.rebases for outcome in outcomes if isinstance(outcome, Committed)) >= ROWS - 1
    assert lake.ids() == []


# ------------------------------------------------------------------ files added by winners


def test_added_files_within_the_bounds_are_searched_for_matching_rows(lake: OneFile) -> None:
    base = lake.table.snapshot()
    added = lake.file([20, 60])
    committed(lake.commit("MERGE", added=(added,), reads=Reads(may_match=lambda listing: listing.rows["path"].is_valid())))
    searched_paths: list[list[str]] = []

    def update(holds: bool, may_match: bool = True) -> Outcome:
        def matching(files: FileListing) -> pa.Array:
            searched_paths.append(files.paths)
            return pa.array([holds], pa.bool_())

        def mask(files: FileListing) -> pa.Array:
            return pa.repeat(pa.scalar(may_match), len(files))

        reads = Reads(may_match=mask, rows={}, has_matching_rows=matching)
        return lake.commit("MERGE", added=(lake.file([40]),), reads=reads, base=base)

    assert isinstance(conflict(update(holds=True)), ConcurrentAppend)
    assert update(holds=False) == Committed(2)
    assert searched_paths == [[added.path], [added.path]]
    # The bounds now exclude both files, including the one just committed.
    assert update(holds=True, may_match=False) == Committed(3)
    assert len(searched_paths) == 2


def test_added_files_with_deletion_vectors_conflict_without_a_search(lake: OneFile) -> None:
    committed(lake.delete(0))
    base = lake.table.snapshot()
    committed(lake.delete(1))

    def matching(files: FileListing) -> pa.Array:
        raise AssertionError("files with deletion vectors cannot be read here")

    reads = Reads(may_match=lambda listing: listing.rows["path"].is_valid(), rows={}, has_matching_rows=matching)
    assert isinstance(conflict(lake.commit("MERGE", added=(lake.file([40]),), reads=reads, base=base)), ConcurrentAppend)
