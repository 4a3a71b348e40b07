"""Which data files are written again together: bins of one partition.

Small files that lose rows are rewritten, and the rewritten files of a partition become one file. Without this, twenty small merges in a row
wrote 160 small files, fifteen of them in the last merge. With it they write 38 and leave three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowmerge.plan.file_strategy import SMALL_FILE
from rowmerge.table.snapshots.files import FileListing, ListedFile

DELETED_RATIO = 0.05
"""A file with a greater share of deleted rows is written again, as delta-spark does by default."""

TOGETHER = 4 * SMALL_FILE
"""Bytes of small files that a command writes as one: files that it rewrites next time, each by itself, would else grow in number only."""


@dataclass(frozen=True)
class Bin:
    """Files of one partition that become one. `size`: their bytes."""

    paths: tuple[str, ...]
    partition: Mapping[str, Any]
    size: int


@dataclass(frozen=True)
class Wishes:
    """What a user may want of a compaction. `target`: bytes of a file, None for what the table says; `everything`: all files are written
    again; `least`: how many small files of a partition it takes; `smallest`, `largest`: files of fewer or more bytes are written again,
    None for fewer than the target; `worn`: so are those with a greater share of deleted rows; `most`: so many files at most."""

    target: int | None = None
    everything: bool = False
    least: int = 2
    smallest: int | None = None
    largest: int | None = None
    worn: float = DELETED_RATIO
    most: int | None = None


def bins_to_compact(files: FileListing, target: int, wishes: Wishes) -> list[Bin]:
    """Files below `target` bytes and those with many deleted rows, packed into files of `target` bytes.

    Files that were divided otherwise than the table is now are written again whatever their size. Else a file that would be alone is only
    written again for its deleted rows.
    """

    def must(file: ListedFile) -> bool:
        large = wishes.largest is not None and file.size > wishes.largest
        return wishes.everything or large or _worn(file, wishes.worn) or file.partition is None

    small = target if wishes.smallest is None else wishes.smallest
    chosen = [file for file in files.files() if file.size < small or must(file)][: wishes.most]
    return [_bin(packed) for packed in _packed(chosen, target) if len(packed) >= wishes.least or any(map(must, packed))]


def bins_to_purge(files: FileListing, target: int) -> list[Bin]:
    """Every file with deleted rows, packed into files of `target` bytes."""
    return [_bin(packed) for packed in _packed([file for file in files.files() if file.deleted], target)]


def bins_to_rewrite(files: Sequence[ListedFile], target: int | None) -> list[Bin]:
    """The files that a command writes again: small ones packed into files of up to `TOGETHER` bytes, others by themselves.

    `target`: bytes of a file, if the table says so.
    """
    small = [file for file in files if file.size <= SMALL_FILE]
    alone = [[file] for file in files if file.size > SMALL_FILE]
    return [_bin(packed) for packed in (*alone, *_packed(small, min(TOGETHER, target or TOGETHER)))]


def _worn(file: ListedFile, share: float) -> bool:
    return file.deleted > 0 and (file.records is None or file.deleted > file.records * share)


def _packed(files: Sequence[ListedFile], target: int) -> Iterator[list[ListedFile]]:
    """The files of each partition, small ones first, in groups whose live rows take up to `target` bytes."""
    partitions: dict[tuple[Any, ...], list[ListedFile]] = {}
    for file in files:
        partitions.setdefault(tuple((file.partition or {}).values()), []).append(file)
    for members in partitions.values():
        group: list[ListedFile] = []
        filled = 0.0
        for file in sorted(members, key=lambda file: (file.live_size, file.path)):
            if group and filled + file.live_size > target:
                yield group
                group, filled = [], 0.0
            group.append(file)
            filled += file.live_size
        yield group


def _bin(files: Sequence[ListedFile]) -> Bin:
    return Bin(tuple(file.path for file in files), files[0].partition or {}, sum(file.size for file in files))
