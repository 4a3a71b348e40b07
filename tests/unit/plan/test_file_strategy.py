"""The choice between removing, marking and rewriting each file with deleted rows."""

from __future__ import annotations

import pytest

from rowmerge.plan.file_strategy import FEW_FILES, SMALL_FILE, TOGETHER, Strategy, choose_strategy, combines_small_files
from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.snapshots.files import ListedFile

LARGE = 10 * SMALL_FILE


def choose(
    mode: WriteMode,
    *,
    deleted: int,
    newly: int | None = None,
    records: int | None = 1000,
    size: int = LARGE,
    can_mark: bool = True,
    rewrites_small_files: bool = False,
) -> Strategy:
    return choose_strategy(
        mode,
        can_mark=can_mark,
        rewrites_small_files=rewrites_small_files,
        records=records,
        deleted=deleted,
        newly_deleted=deleted if newly is None else newly,
        size=size,
    )


@pytest.mark.parametrize("mode", list(WriteMode))
def test_a_file_without_live_rows_is_removed_in_every_mode(mode: WriteMode) -> None:
    assert choose(mode, deleted=1000) is Strategy.DROP


@pytest.mark.parametrize("mode", list(WriteMode))
def test_a_file_without_newly_deleted_rows_is_unchanged(mode: WriteMode) -> None:
    assert choose(mode, deleted=500, newly=0) is Strategy.KEEP


def test_copy_on_write_rewrites_and_merge_on_read_marks_rows() -> None:
    assert choose(WriteMode.COPY_ON_WRITE, deleted=1) is Strategy.REWRITE
    assert choose(WriteMode.MERGE_ON_READ, deleted=999) is Strategy.MARK


def test_a_table_without_deletion_vectors_is_rewritten_whatever_the_mode() -> None:
    assert choose(WriteMode.MERGE_ON_READ, deleted=1, can_mark=False) is Strategy.REWRITE
    assert choose(WriteMode.AUTO, deleted=1, can_mark=False) is Strategy.REWRITE


def test_auto_marks_few_rows_and_rewrites_for_many() -> None:
    assert choose(WriteMode.AUTO, deleted=199) is Strategy.MARK
    assert choose(WriteMode.AUTO, deleted=201) is Strategy.REWRITE  # a rewrite also takes as long as writing 128 KiB, 0.3 % of the file


def test_auto_counts_rows_that_are_already_deleted() -> None:
    assert choose(WriteMode.AUTO, deleted=250, newly=1) is Strategy.REWRITE


def test_auto_rewrites_small_files_only_if_they_are_few() -> None:
    assert choose(WriteMode.AUTO, deleted=1, size=SMALL_FILE, rewrites_small_files=True) is Strategy.REWRITE
    assert choose(WriteMode.AUTO, deleted=1, size=SMALL_FILE + 1, rewrites_small_files=True) is Strategy.MARK
    assert choose(WriteMode.AUTO, deleted=1, size=SMALL_FILE) is Strategy.MARK


@pytest.mark.parametrize(("size", "share"), [(SMALL_FILE, 0.21), (1024 * 1024, 0.23), (128 * 1024, 0.4), (32 * 1024, 1.0)])
def test_auto_requires_a_larger_share_of_deleted_rows_in_smaller_files(size: int, share: float) -> None:
    deleted = round(1000 * share)
    expected_strategy = Strategy.REWRITE if deleted < 1000 else Strategy.DROP
    assert choose(WriteMode.AUTO, deleted=deleted, size=size) is expected_strategy
    assert choose(WriteMode.AUTO, deleted=deleted - 10, size=size) is Strategy.MARK


def _files(count: int, size: int) -> list[ListedFile]:
    return [ListedFile(f"{number}.parquet", size, 1000, 0, {}) for number in range(count)]


def test_few_small_files_are_rewritten() -> None:
    assert combines_small_files([])
    assert combines_small_files(_files(FEW_FILES, 1000))
    assert not combines_small_files(_files(FEW_FILES + 1, 1000))


def test_small_files_with_many_bytes_are_not_rewritten_and_large_files_do_not_count() -> None:
    assert combines_small_files([*_files(TOGETHER // SMALL_FILE, SMALL_FILE), *_files(1000, LARGE)])
    assert not combines_small_files(_files(TOGETHER // SMALL_FILE + 1, SMALL_FILE))


@pytest.mark.parametrize("mode", list(WriteMode))
def test_a_file_of_unknown_length_is_rewritten_in_every_mode(mode: WriteMode) -> None:
    assert choose(mode, deleted=1, records=None) is Strategy.REWRITE
