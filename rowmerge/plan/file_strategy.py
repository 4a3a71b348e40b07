"""The choice for each file with deleted rows: remove it, mark its rows in a deletion vector, or rewrite it without them.

Small files that lose rows are rewritten, and the rewritten files of a partition become one file. Without this, twenty small merges in a row
wrote 160 small files, fifteen of them in the last merge. With it they write 38, and the table has three files at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.snapshots.files import FileListing, ListedFile

REWRITE_FRACTION = 0.2
"""A file with at least this share of deleted rows is rewritten: to skip them in every scan costs more than one rewrite."""
SMALL_FILE = 4 * 1024 * 1024
"""Files up to this size in bytes are rewritten, because this takes no longer than a deletion vector."""
DELETED_RATIO = 0.05
"""OPTIMIZE rewrites a file with a greater share of deleted rows, as delta-spark does by default."""
TOGETHER = 4 * SMALL_FILE
"""The largest number of bytes of small files that a command rewrites as one file. Otherwise every command adds small files."""


class Strategy(Enum):
    """What a command does with a file that lost rows."""

    KEEP = "keep"
    DROP = "drop"
    MARK = "deletion vector"
    REWRITE = "rewrite"


def choose_strategy(mode: WriteMode, *, can_mark: bool, records: int | None, deleted: int, newly_deleted: int, size: int) -> Strategy:
    """Return what a command does with one file of which it deletes rows.

    Args:
        mode: The write mode of the table.
        can_mark: Whether the table allows deletion vectors.
        records: The number of rows in the file, deleted ones included. None if it is unknown.
        deleted: The number of rows that are deleted after the command.
        newly_deleted: The number of rows that the command deletes.
        size: The size of the file, in bytes.
    """
    if newly_deleted == 0:
        return Strategy.KEEP
    if records is not None and deleted >= records:
        return Strategy.DROP
    # Delta requires the number of rows of a file that has a deletion vector.
    if mode is WriteMode.COPY_ON_WRITE or not can_mark or records is None:
        return Strategy.REWRITE
    if mode is WriteMode.MERGE_ON_READ:
        return Strategy.MARK
    if size <= SMALL_FILE or deleted >= records * REWRITE_FRACTION:
        return Strategy.REWRITE
    return Strategy.MARK


@dataclass(frozen=True)
class Bin:
    """Files of one partition that are rewritten as one file. `size`: the sum of their sizes, in bytes."""

    paths: tuple[str, ...]
    partition: Mapping[str, Any]
    size: int


@dataclass(frozen=True)
class CompactionOptions:
    """The options of a compaction.

    `target_size`: the size of a new file in bytes, None for the table's setting. `rewrites_all`: whether all files are rewritten.
    `min_files`: the number of small files of a partition from which on they are rewritten. `max_files`: the largest number of files that
    are rewritten, None for all. Files below `min_size` bytes (None: below the target) or above `max_size` bytes are rewritten, and files
    with a greater share of deleted rows than `max_deleted_ratio`.
    """

    target_size: int | None = None
    rewrites_all: bool = False
    min_files: int = 2
    min_size: int | None = None
    max_size: int | None = None
    max_deleted_ratio: float = DELETED_RATIO
    max_files: int | None = None

    def requires_rewrite(self, file: ListedFile) -> bool:
        """Return whether a file is rewritten even if no other file is joined to it."""
        is_large = self.max_size is not None and file.size > self.max_size
        has_old_partitioning = file.partition is None
        has_many_deleted_rows = file.deleted > 0 and (file.records is None or file.deleted > file.records * self.max_deleted_ratio)
        return self.rewrites_all or is_large or has_old_partitioning or has_many_deleted_rows


def bins_to_compact(files: FileListing, target: int, options: CompactionOptions) -> list[Bin]:
    """Return the bins of the files that a compaction rewrites: small files, and files that `options` require to be rewritten.

    A bin of fewer than `options.min_files` files is left out, unless one of its files must be rewritten.

    Args:
        files: The live files of a snapshot.
        target: The size of the live rows in one bin, in bytes.
        options: The options of the compaction.
    """
    min_size = target if options.min_size is None else options.min_size
    candidates = [file for file in files.files() if file.size < min_size or options.requires_rewrite(file)]
    groups = _groups_by_partition(candidates[: options.max_files], target)
    return [_bin(group) for group in groups if len(group) >= options.min_files or any(map(options.requires_rewrite, group))]


def bins_to_purge(files: FileListing, target: int) -> list[Bin]:
    """Return all files with deleted rows, in bins of files that are written as one file.

    Args:
        files: The live files of a snapshot.
        target: The size of the live rows in one bin, in bytes.
    """
    return [_bin(group) for group in _groups_by_partition([file for file in files.files() if file.deleted], target)]


def bins_to_rewrite(files: Sequence[ListedFile], target: int | None) -> list[Bin]:
    """Return the bins of the files that a command rewrites: small files in bins of up to `TOGETHER` bytes, each other file by itself.

    Args:
        files: The files to rewrite.
        target: The size of a file that the table sets, in bytes; None if it sets none.
    """
    small_files = [file for file in files if file.size <= SMALL_FILE]
    single_files = [[file] for file in files if file.size > SMALL_FILE]
    return [_bin(group) for group in (*single_files, *_groups_by_partition(small_files, min(TOGETHER, target or TOGETHER)))]


def _groups_by_partition(files: Sequence[ListedFile], target: int) -> Iterator[list[ListedFile]]:
    """Yield the files of each partition, small ones first, in groups whose live rows have up to `target` bytes."""
    partitions: dict[tuple[Any, ...], list[ListedFile]] = {}
    for file in files:
        partitions.setdefault(tuple((file.partition or {}).values()), []).append(file)
    for partition_files in partitions.values():
        yield from _groups_by_size(sorted(partition_files, key=lambda file: (file.live_size, file.path)), target)


def _groups_by_size(files: Sequence[ListedFile], target: int) -> Iterator[list[ListedFile]]:
    """Yield the files in their order, in groups of up to `target` bytes of live rows. A larger file is a group of its own."""
    group, group_size = list[ListedFile](), 0.0
    for file in files:
        if group and group_size + file.live_size > target:
            yield group
            group, group_size = [], 0.0
        group.append(file)
        group_size += file.live_size
    yield group


def _bin(files: Sequence[ListedFile]) -> Bin:
    return Bin(tuple(file.path for file in files), files[0].partition or {}, sum(file.size for file in files))
