"""The strategy for each file with deleted rows: remove the file, mark the rows in a deletion vector, or rewrite the file without them.

In mode `auto`, a statement also rewrites small files that lose rows, and combines those of a partition into one file. Without this rule,
twenty successive small merges wrote 160 small files, fifteen of them in the last merge. With the rule, they write 38 files, and the table
has three files at the end. The number and size of these files are limited, so that a statement does not compact the table. A DELETE of a
tenth of the rows in 1,000 files of 20 KB then marks the rows in 1.1 s. A rewrite of all files takes 4.6 s, and saves no time in scans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Any

from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.snapshots.files import FileListing, ListedFile

REWRITE_FRACTION = 0.2
"""The minimum fraction of deleted rows for which a large file is rewritten. To skip more rows in every scan costs more than one rewrite."""
REWRITE_BYTES = 128 * 1024
"""The fixed cost of a rewrite, as a number of bytes that take as long to write. It is added to the size of the file."""
SMALL_FILE = 4 * 1024 * 1024
"""The maximum size, in bytes, of the files that a command in mode `auto` may rewrite because they are small."""
DELETED_RATIO = 0.05
"""OPTIMIZE rewrites a file with a greater fraction of deleted rows, as delta-spark does by default."""
TOGETHER = 4 * SMALL_FILE
"""The maximum total size, in bytes, of small files that a command combines into one file, so that small files do not accumulate."""
FEW_FILES = 32
"""The number of small files that a command in mode `auto` may always rewrite, whatever it writes itself."""


class Strategy(Enum):
    """What a command does with a file from which it deletes rows."""

    KEEP = "keep"
    DROP = "drop"
    MARK = "deletion vector"
    REWRITE = "rewrite"


def small_files_to_rewrite(
    files: Sequence[ListedFile], written_sizes: Sequence[int], target: int | None, *, shares_deletion_files: bool
) -> frozenset[str]:
    """Return the paths of the small files that a command rewrites in mode `auto`, although they lose few rows.

    Few small files are all rewritten. Many are rewritten only if they are combined, and only up to a limit. The limit is FEW_FILES files
    and TOGETHER bytes, or as many files and bytes as the command has written. So the command takes at most about twice the time. Files do
    not accumulate even if each command writes a file for each partition.

    Args:
        files: The files that lose some of their rows, and keep others.
        written_sizes: The sizes in bytes of the files that the command has written.
        target: The file size set by the table, in bytes, or None if the table does not set it.
        shares_deletion_files: Whether one file lists the deleted rows of many data files. Otherwise, each small file is rewritten, because
            its own delete file would take as long to write, and longer to read.
    """
    small_files = [file for file in files if file.size <= SMALL_FILE]
    size = sum(file.size for file in small_files)
    if not shares_deletion_files or (len(small_files) <= FEW_FILES and size <= TOGETHER):
        return frozenset(file.path for file in small_files)
    max_count, max_size = max(FEW_FILES, len(written_sizes)), max(TOGETHER, sum(written_sizes))
    paths = set[str]()
    for group in sorted(_groups_of_small_files(small_files, target), key=len, reverse=True):
        sizes = list(accumulate(file.size for file in group[: max_count - len(paths)]))
        count = bisect_right(sizes, max_size)  # the smallest files come first
        if count > 1:
            paths.update(file.path for file in group[:count])
            max_size -= sizes[count - 1]
    return frozenset(paths)


def choose_strategy(
    mode: WriteMode,
    *,
    can_mark: bool,
    is_rewritten_small_file: bool,
    records: int | None,
    deleted: int,
    newly_deleted: int,
    size: int,
) -> Strategy:
    """Return what a command does with one file from which it deletes rows.

    Args:
        mode: The write mode of the table.
        can_mark: Whether the table allows deletion vectors.
        is_rewritten_small_file: Whether `small_files_to_rewrite` returned the file.
        records: The number of rows in the file, including deleted rows, or None if the number is unknown.
        deleted: The total number of deleted rows in the file after the command.
        newly_deleted: The number of rows that the command deletes.
        size: The size of the file, in bytes.
    """
    if newly_deleted == 0:
        return Strategy.KEEP
    if records is not None and deleted >= records:
        return Strategy.DROP
    # Delta requires the number of rows in a file that has a deletion vector.
    if mode is WriteMode.COPY_ON_WRITE or not can_mark or records is None:
        return Strategy.REWRITE
    if mode is WriteMode.MERGE_ON_READ:
        return Strategy.MARK
    has_many_deleted_rows = size * deleted / records >= REWRITE_FRACTION * (size + REWRITE_BYTES)
    return Strategy.REWRITE if is_rewritten_small_file or has_many_deleted_rows else Strategy.MARK


@dataclass(frozen=True)
class Bin:
    """Files of one partition that are rewritten as one file. `size`: the total size of the files, in bytes."""

    paths: tuple[str, ...]
    partition: Mapping[str, Any]
    size: int


@dataclass(frozen=True)
class CompactionOptions:
    """The options of a compaction.

    `target_size`: the size of a new file in bytes, or None for the table's setting. `rewrites_all`: whether all files are rewritten.
    `min_files`: the minimum number of small files in a partition for which these files are rewritten. `max_files`: the maximum number of
    files to rewrite, or None for no limit. `rewrites_single_files`: whether a file is also rewritten alone.

    Files below `min_size` bytes (or below the target size if None) or above `max_size` bytes are rewritten. The same applies to files whose
    fraction of deleted rows is above `max_deleted_ratio`.
    """

    target_size: int | None = None
    rewrites_all: bool = False
    min_files: int = 2
    min_size: int | None = None
    max_size: int | None = None
    max_deleted_ratio: float = DELETED_RATIO
    max_files: int | None = None
    rewrites_single_files: bool = True

    def requires_rewrite(self, file: ListedFile) -> bool:
        """Return whether a file must be rewritten even if it is not combined with other files."""
        is_large = self.max_size is not None and file.size > self.max_size
        has_old_partitioning = file.partition is None
        has_many_deleted_rows = file.deleted > 0 and (file.records is None or file.deleted > file.records * self.max_deleted_ratio)
        return self.rewrites_all or is_large or has_old_partitioning or has_many_deleted_rows


def bins_to_compact(files: FileListing, target: int, options: CompactionOptions) -> list[Bin]:
    """Return the files that a compaction rewrites, grouped into bins: small files, and files that `options` require to be rewritten.

    A bin with fewer than `options.min_files` files is left out unless one of its files must be rewritten.

    Args:
        files: The live files of a snapshot.
        target: The maximum size of the live rows in one bin, in bytes.
        options: The options of the compaction.
    """
    min_size = target if options.min_size is None else options.min_size
    candidates = [file for file in files.files() if file.size < min_size or options.requires_rewrite(file)]
    groups = _groups_by_partition(candidates[: options.max_files], target)
    forced = options.requires_rewrite if options.rewrites_single_files else lambda file: False
    return [_bin(group) for group in groups if len(group) >= options.min_files or any(map(forced, group))]


def bins_to_purge(files: FileListing, target: int) -> list[Bin]:
    """Return all files with deleted rows, grouped into bins of which each is rewritten as one file.

    Args:
        files: The live files of a snapshot.
        target: The maximum size of the live rows in one bin, in bytes.
    """
    return [_bin(group) for group in _groups_by_partition([file for file in files.files() if file.deleted], target)]


def bins_to_rewrite(files: Sequence[ListedFile], target: int | None) -> list[Bin]:
    """Return the files that a command rewrites, grouped into bins: small files in bins of up to `TOGETHER` bytes, other files separately.

    Args:
        files: The files to rewrite.
        target: The file size set by the table, in bytes, or None if the table does not set it.
    """
    small_files = [file for file in files if file.size <= SMALL_FILE]
    single_files = [[file] for file in files if file.size > SMALL_FILE]
    return [_bin(group) for group in (*single_files, *_groups_of_small_files(small_files, target))]


def _groups_of_small_files(files: Sequence[ListedFile], target: int | None) -> Iterator[list[ListedFile]]:
    """Yield groups of small files that a command combines into one file each. `target`: see `bins_to_rewrite`."""
    return _groups_by_partition(files, min(TOGETHER, target or TOGETHER))


def _groups_by_partition(files: Sequence[ListedFile], target: int) -> Iterator[list[ListedFile]]:
    """Yield groups of files of the same partition, small files first. The live rows of a group have up to `target` bytes."""
    partitions: dict[tuple[str, ...], list[ListedFile]] = {}
    for file in files:
        # The text of a value separates -0.0 from 0.0, and does not separate one NaN from another.
        partitions.setdefault(tuple(map(repr, (file.partition or {}).values())), []).append(file)
    for partition_files in partitions.values():
        yield from _groups_by_size(sorted(partition_files, key=lambda file: (file.live_size, file.path)), target)


def _groups_by_size(files: Sequence[ListedFile], target: int) -> Iterator[list[ListedFile]]:
    """Yield the files in order, in groups with up to `target` bytes of live rows. A larger file forms its own group."""
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
