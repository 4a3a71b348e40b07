"""Which data files are written again together: bins of one partition.

Small files that lose rows are rewritten, and the rewritten files of a partition become one file. Without this, twenty small merges in a row
wrote 160 small files, fifteen of them in the last merge. With it they write 38 and leave three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rowmerge.plan.file_strategy import SMALL_FILE

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


def bins_to_compact(files: pa.Table, target: int, wishes: Wishes) -> list[Bin]:
    """Files below `target` bytes and those with many deleted rows, packed into files of `target` bytes.

    Files that were divided otherwise than the table is now are written again whatever their size. Else a file that would be alone is only
    written again for its deleted rows. `files`: rows of a file listing.
    """

    def must(row: Mapping[str, Any]) -> bool:
        large = wishes.largest is not None and row["size"] > wishes.largest
        return wishes.everything or large or _worn(row, wishes.worn) or _divided_otherwise(row)

    small = target if wishes.smallest is None else wishes.smallest
    chosen = [row for row in _rows(files) if row["size"] < small or must(row)][: wishes.most]
    return [_bin(packed) for packed in _packed(chosen, target) if len(packed) >= wishes.least or any(map(must, packed))]


def bins_to_purge(files: pa.Table, target: int) -> list[Bin]:
    """Every file with deleted rows, packed into files of `target` bytes."""
    return [_bin(packed) for packed in _packed([row for row in _rows(files) if row["deleted"]], target)]


def bins_to_rewrite(rows: Sequence[Mapping[str, Any]], target: int | None) -> list[Bin]:
    """The files that a command writes again: small ones packed into files of up to `TOGETHER` bytes, others by themselves.

    `rows`: of a file listing, path, size, records, deleted, partition. `target`: bytes of a file, if the table says so.
    """
    small = [row for row in rows if row["size"] <= SMALL_FILE]
    alone = [[row] for row in rows if row["size"] > SMALL_FILE]
    return [_bin(packed) for packed in (*alone, *_packed(small, min(TOGETHER, target or TOGETHER)))]


def _rows(files: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = files.select(["path", "size", "records", "deleted", "partition"]).to_pylist()
    return rows


def _worn(row: Mapping[str, Any], share: float) -> bool:
    return bool(row["deleted"]) and (row["records"] is None or row["deleted"] > row["records"] * share)


def _divided_otherwise(row: Mapping[str, Any]) -> bool:
    return row["partition"] is None


def _packed(rows: Sequence[Mapping[str, Any]], target: int) -> Iterator[list[Mapping[str, Any]]]:
    """The files of each partition, small ones first, in groups whose live rows take up to `target` bytes."""
    partitions: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        partitions.setdefault(tuple((row["partition"] or {}).values()), []).append(row)
    for members in partitions.values():
        group: list[Mapping[str, Any]] = []
        filled = 0.0
        for row in sorted(members, key=lambda row: (_live_size(row), row["path"])):
            if group and filled + _live_size(row) > target:
                yield group
                group, filled = [], 0.0
            group.append(row)
            filled += _live_size(row)
        yield group


def _live_size(row: Mapping[str, Any]) -> float:
    records = row["records"]
    return float(row["size"] * (1 - row["deleted"] / records) if records else row["size"])


def _bin(rows: Sequence[Mapping[str, Any]]) -> Bin:
    return Bin(tuple(row["path"] for row in rows), rows[0]["partition"] or {}, sum(row["size"] for row in rows))
