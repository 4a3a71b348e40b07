"""The choice between removing, marking and rewriting each file with deleted rows."""

from __future__ import annotations

import pytest

from rowmerge.plan.file_strategy import SMALL_FILE, Strategy, choose_strategy
from rowmerge.table.metadata.settings import WriteMode

LARGE = 10 * SMALL_FILE


def choose(
    mode: WriteMode, *, deleted: int, newly: int | None = None, records: int | None = 1000, size: int = LARGE, can_mark: bool = True
) -> Strategy:
    return choose_strategy(
        mode, can_mark=can_mark, records=records, deleted=deleted, newly_deleted=deleted if newly is None else newly, size=size
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
    assert choose(WriteMode.AUTO, deleted=200) is Strategy.REWRITE


def test_auto_counts_rows_that_are_already_deleted() -> None:
    assert choose(WriteMode.AUTO, deleted=250, newly=1) is Strategy.REWRITE


def test_auto_rewrites_small_files() -> None:
    assert choose(WriteMode.AUTO, deleted=1, size=SMALL_FILE) is Strategy.REWRITE


@pytest.mark.parametrize("mode", list(WriteMode))
def test_a_file_of_unknown_length_is_rewritten_in_every_mode(mode: WriteMode) -> None:
    assert choose(mode, deleted=1, records=None) is Strategy.REWRITE
