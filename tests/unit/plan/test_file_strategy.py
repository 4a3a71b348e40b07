"""The choice between removing, marking and rewriting each file with deleted rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from rowmerge.plan.file_strategy import (
    FEW_FILES,
    SMALL_FILE,
    TOGETHER,
    Strategy,
    bins_to_rewrite,
    choose_strategy,
    small_files_to_rewrite,
)
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
    is_rewritten_small_file: bool = False,
) -> Strategy:
    return choose_strategy(
        mode,
        can_mark=can_mark,
        is_rewritten_small_file=is_rewritten_small_file,
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


def test_auto_rewrites_combined_files_and_marks_rows_of_other_small_files() -> None:
    assert choose(WriteMode.AUTO, deleted=1, size=SMALL_FILE, is_rewritten_small_file=True) is Strategy.REWRITE
    assert choose(WriteMode.AUTO, deleted=1, size=SMALL_FILE) is Strategy.MARK
    assert choose(WriteMode.MERGE_ON_READ, deleted=1, size=SMALL_FILE, is_rewritten_small_file=True) is Strategy.MARK


@pytest.mark.parametrize(("size", "share"), [(SMALL_FILE, 0.21), (1024 * 1024, 0.23), (128 * 1024, 0.4), (32 * 1024, 1.0)])
def test_auto_requires_a_larger_share_of_deleted_rows_in_smaller_files(size: int, share: float) -> None:
    deleted = round(1000 * share)
    expected_strategy = Strategy.REWRITE if deleted < 1000 else Strategy.DROP
    assert choose(WriteMode.AUTO, deleted=deleted, size=size) is expected_strategy
    assert choose(WriteMode.AUTO, deleted=deleted - 10, size=size) is Strategy.MARK


def _files(count: int, size: int, partition: str = "p") -> list[ListedFile]:
    return [ListedFile(f"{partition}/{size}-{number}.parquet", size, 1000, 0, {"p": partition}) for number in range(count)]


def _sizes(paths: frozenset[str]) -> list[int]:
    return sorted(int(path.split("/")[1].split("-")[0]) for path in paths)


def rewritten(files: list[ListedFile], new_sizes: Sequence[int] = (), target: int | None = None, shares: bool = True) -> frozenset[str]:
    return small_files_to_rewrite(files, new_sizes, target, shares_deletion_files=shares)


def test_few_small_files_are_all_rewritten_and_large_files_are_not() -> None:
    files = [*_files(FEW_FILES, 1000), *_files(100, LARGE), *_files(1, SMALL_FILE + 1)]
    assert rewritten([]) == frozenset()
    assert _sizes(rewritten(files)) == [1000] * FEW_FILES
    assert len(rewritten([_files(1, 1000, f"p{number}")[0] for number in range(FEW_FILES)])) == FEW_FILES


def test_of_many_small_files_the_smallest_are_combined() -> None:
    files = [*_files(FEW_FILES, 2000), *_files(5, 1000)]
    assert _sizes(rewritten(files)) == [1000] * 5 + [2000] * (FEW_FILES - 5)
    files = [*_files(TOGETHER // SMALL_FILE, SMALL_FILE), *_files(2, 1000)]
    assert _sizes(rewritten(files)) == [1000] * 2 + [SMALL_FILE] * (TOGETHER // SMALL_FILE - 1)


def test_many_small_files_are_rewritten_only_if_they_are_combined() -> None:
    single_files = [file for number in range(100) for file in _files(1, 1000, f"p{number:03}")]
    assert rewritten(single_files) == frozenset()
    pair = _files(2, 3000, "pair")
    assert rewritten([*single_files, *pair]) == {file.path for file in pair}
    assert rewritten(_files(40, 1_000_000), target=1_500_000) == frozenset()  # two of them exceed the target size


def test_a_command_may_rewrite_as_much_as_it_has_written() -> None:
    pairs = [file for number in range(100) for file in _files(2, 1000, f"p{number:03}")]
    assert len(rewritten(pairs)) == FEW_FILES
    assert len(rewritten(pairs, new_sizes=[10] * 100)) == 100
    files = [file for number in range(10) for file in _files(2, SMALL_FILE, f"p{number}")]
    assert len(rewritten(files)) == TOGETHER // SMALL_FILE
    assert len(rewritten(files, new_sizes=[8 * SMALL_FILE])) == 8


def test_with_a_deletion_file_for_each_data_file_all_small_files_are_rewritten() -> None:
    assert len(rewritten(_files(100, SMALL_FILE), shares=False)) == 100


@pytest.mark.parametrize("partition_count", [1, 16, 32, 300])
@pytest.mark.parametrize("size", [1000, SMALL_FILE - 10])
def test_small_files_do_not_accumulate(size: int, partition_count: int) -> None:
    """Each of 40 merges changes a row of each file, and writes a file for the new rows of each partition."""
    new_files = [file for number in range(partition_count) for file in _files(1, 500, f"p{number}")]
    files, names = [file._replace(size=size) for file in new_files for _ in range(3)], count()
    for _ in range(40):
        files = [file._replace(path=str(next(names))) for file in files]
        paths = rewritten(files, [500] * partition_count)
        bins = bins_to_rewrite([file for file in files if file.path in paths], None)
        combined = [ListedFile("", bin_.size, 1000, 0, bin_.partition) for bin_ in bins]
        files = [file for file in files if file.path not in paths] + combined + new_files
    assert len(files) <= partition_count * (3 + 40) / 2  # half of the files without the rule


@pytest.mark.parametrize("mode", list(WriteMode))
def test_a_file_of_unknown_length_is_rewritten_in_every_mode(mode: WriteMode) -> None:
    assert choose(mode, deleted=1, records=None) is Strategy.REWRITE
