"""For each touched file: drop it, mark its deleted rows, or write it again without them, alone or in a bin of its partition.

Small files that lose rows are rewritten, and the rewritten files of a partition become one file. Without this, twenty small merges in a row
wrote 160 small files, fifteen of them in the last merge. With it they write 38 and leave three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.snapshots.files import FileListing, ListedFile

REWRITE_FRACTION = 0.2
"""From this share of deleted rows on, reading round them costs more, scan for scan, than one rewrite."""
SMALL_FILE = 4 * 1024 * 1024
"""Files up to this size in bytes are rewritten: that takes no longer than a deletion vector, and leaves a clean file."""
DELETED_RATIO = 0.05
"""A file with a greater share of deleted rows is written again, as delta-spark does by default."""
TOGETHER = 4 * SMALL_FILE
"""Bytes of small files that a command writes as one: files that it rewrites next time, each by itself, would else grow in number only."""


class Strategy(Enum):
    """What becomes of a file that lost rows."""

    KEEP = "keep"
    DROP = "drop"
    MARK = "deletion vector"
    REWRITE = "rewrite"


def choose_strategy(mode: WriteMode, *, can_mark: bool, records: int | None, deleted: int, newly_deleted: int, size: int) -> Strategy:
    """Return what happens to one file of `records` rows (None: unknown) and `size` bytes.

    `deleted` counts its deleted rows after the command, `newly_deleted` those of them that the command deletes.
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
    """Files of one partition that become one. `size`: their bytes."""

    paths: tuple[str, ...]
    partition: Mapping[str, Any]
    size: int


@dataclass(frozen=True)
class CompactionOptions:
    """What a user may set for a compaction.

    `target_size`: bytes of a new file, None for the table's setting; `rewrites_all`: all files are rewritten; `min_files`: how many small
    files of a partition it takes; `max_files`: how many files are rewritten at most. Files of fewer bytes than `min_size` (None: than the
    target) or more than `max_size` are rewritten, and files with a greater share of deleted rows than `max_deleted_ratio`.
    """

    target_size: int | None = None
    rewrites_all: bool = False
    min_files: int = 2
    min_size: int | None = None
    max_size: int | None = None
    max_deleted_ratio: float = DELETED_RATIO
    max_files: int | None = None

    def requires_rewrite(self, file: ListedFile) -> bool:
        """Return whether a file is rewritten even if it stays a file of its own."""
        is_large = self.max_size is not None and file.size > self.max_size
        has_old_partitioning = file.partition is None
        has_many_deleted_rows = file.deleted > 0 and (file.records is None or file.deleted > file.records * self.max_deleted_ratio)
        return self.rewrites_all or is_large or has_old_partitioning or has_many_deleted_rows


def bins_to_compact(files: FileListing, target: int, options: CompactionOptions) -> list[Bin]:
    """Return the bins of small files and of files that must be rewritten, each of about `target` bytes of live rows.

    A bin of too few small files is left out, unless one of its files must be rewritten.
    """
    min_size = target if options.min_size is None else options.min_size
    candidates = [file for file in files.files() if file.size < min_size or options.requires_rewrite(file)]
    groups = _groups_by_partition(candidates[: options.max_files], target)
    return [_bin(group) for group in groups if len(group) >= options.min_files or any(map(options.requires_rewrite, group))]


def bins_to_purge(files: FileListing, target: int) -> list[Bin]:
    """Return all files with deleted rows in bins of `target` bytes."""
    return [_bin(group) for group in _groups_by_partition([file for file in files.files() if file.deleted], target)]


def bins_to_rewrite(files: Sequence[ListedFile], target: int | None) -> list[Bin]:
    """Return the bins of the files that a command rewrites: small files in bins of up to `TOGETHER` bytes, each other file by itself.

    `target`: bytes of a file, if the table sets them.
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
