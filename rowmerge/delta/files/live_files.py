"""The live files of a version, in blocks that versions have in common: what was found out of a block for one is known to the next.

A commit adds rows to the last block and copies the blocks from which it removes files. Statistics stay in the checkpoint, compressed, until
a column is needed. Parsed statistics belong to the block's source, so the next version has them too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import repartitioned
from rowmerge.delta.files.file_statistics import HeldStatistics, Rows, StatisticsSource

T = TypeVar("T")

_LARGE = 65_536
"""The most files of a block."""
_SMALL = 2_048
"""Blocks of fewer files take in the files of later commits: there are never many of them."""
_STATISTICS = ("stats", "parsed")


class Block:
    """Some files: `rows` of `rowmerge.delta.files.columns` but for their statistics, which are rows of a source."""

    def __init__(self, rows: pa.Table, source: StatisticsSource, numbers: Rows) -> None:
        self.rows, self.source, self.numbers = rows, source, numbers
        self._known: dict[Hashable, object] = {}

    def known(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made of this block before; otherwise it is made now."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]  # type: ignore[return-value]

    def where(self, mask: pa.Array) -> Block:
        return Block(self.rows.filter(mask), self.source, self.numbers[mask.to_numpy(zero_copy_only=False)])

    def table(self) -> pa.Table:
        """The rows with their statistics as the log has them."""
        return _joined(self.rows, self.source.raw(self.numbers))

    def repartitioned(self, type_: pa.StructType) -> Block:
        rows = repartitioned(self.rows, type_)
        return self if rows is self.rows else Block(rows, self.source, self.numbers)


@dataclass(frozen=True)
class LiveFiles:
    """Files in no order that means anything; that of the blocks is the order of every column and listing."""

    blocks: tuple[Block, ...] = ()
    empty_rows: pa.Table | None = None
    """The columns of a version without files."""

    @classmethod
    def of(cls, table: pa.Table) -> LiveFiles:
        """Rows with their statistics."""
        rows = table.drop_columns([name for name in _STATISTICS if name in table.column_names])
        return cls.with_source(rows, HeldStatistics(table)) if rows.num_rows else cls((), rows)

    @classmethod
    def with_source(cls, rows: pa.Table, source: StatisticsSource) -> LiveFiles:
        """Rows whose statistics are those of a source, row by row."""
        numbers = np.arange(rows.num_rows)
        starts = range(0, rows.num_rows, _LARGE)
        blocks = (Block(_compact(rows.slice(start, _LARGE)), source, numbers[start : start + _LARGE]) for start in starts)
        return cls(tuple(blocks), rows.slice(0, 0))

    @cached_property
    def count(self) -> int:
        return sum(block.rows.num_rows for block in self.blocks)

    def column(self, name: str) -> pa.ChunkedArray:
        """One column of all files, statistics excepted."""
        assert self.blocks or self.empty_rows is not None
        type_ = (self.blocks[0].rows if self.blocks else self.empty_rows).schema.field(name).type  # type: ignore[union-attr]
        return pa.chunked_array([chunk for block in self.blocks for chunk in block.rows[name].chunks], type_)

    def where(self, mask_of: Callable[[Block], pa.Array | pa.ChunkedArray]) -> LiveFiles:
        """The files that a mask of each block is true for."""
        found = []
        for block in self.blocks:
            mask = _whole(mask_of(block))
            chosen = pc.sum(mask).as_py() or 0
            if chosen:
                found.append(block if chosen == len(mask) else block.where(mask))
        return replace(self, blocks=tuple(found))

    def tables(self) -> Iterator[pa.Table]:
        """All rows with their statistics as the log has them, some at a time; each source is read once."""
        at = 0
        while at < len(self.blocks):
            source, end = self.blocks[at].source, at
            while end < len(self.blocks) and self.blocks[end].source is source:
                end += 1
            yield from _with_statistics(source, self.blocks[at:end])
            at = end

    def table(self) -> pa.Table:
        """The same at once, which may be much."""
        tables = list(self.tables())
        return pa.concat_tables(tables, promote_options="default") if tables else self.no_rows

    @property
    def no_rows(self) -> pa.Table:
        """No file at all, in the columns of `tables` but for typed statistics."""
        empty = self.blocks[0].rows.slice(0, 0) if self.blocks else self.empty_rows
        return _joined(empty, pa.table({"stats": pa.array([], pa.string())})).combine_chunks()

    def repartitioned(self, type_: pa.StructType) -> LiveFiles:
        empty = None if self.empty_rows is None else repartitioned(self.empty_rows, type_)
        return LiveFiles(tuple(block.repartitioned(type_) for block in self.blocks), empty)

    def replaced(self, named: pa.Array, new: pa.Table) -> LiveFiles:
        """Without the files that keys name, and with new ones, rows with statistics. Blocks in which nothing is named stay as they are."""
        blocks = list(self.where(lambda block: pc.invert(pc.is_in(block.rows["key"], value_set=named))).blocks)
        if not new.num_rows:
            return replace(self, blocks=tuple(blocks))
        together = []
        while blocks and blocks[-1].rows.num_rows + new.num_rows <= _SMALL:
            together.append(blocks.pop().table())
        added = LiveFiles.of(pa.concat_tables([*reversed(together), new], promote_options="default"))
        return LiveFiles((*blocks, *added.blocks), added.empty_rows)

    def but(self, others: LiveFiles) -> LiveFiles:
        """The files that others do not have."""
        common = {id(block) for block in others.blocks} & {id(block) for block in self.blocks}
        left = replace(self, blocks=tuple(block for block in self.blocks if id(block) not in common))
        keys = [block.rows["key"] for block in others.blocks if id(block) not in common]
        there = pa.concat_arrays([chunk for key in keys for chunk in key.chunks]) if keys else pa.array([], pa.string())
        return left.where(lambda block: pc.invert(pc.is_in(block.rows["key"], value_set=there)))


def _with_statistics(source: StatisticsSource, blocks: tuple[Block, ...]) -> Iterator[pa.Table]:
    """Blocks of one source, whose numbers ascend, with what it holds."""
    rows = pa.concat_tables([block.rows for block in blocks])
    numbers = np.concatenate([block.numbers for block in blocks])
    start = 0
    for raw in source.every_raw():
        first, last = np.searchsorted(numbers, [start, start + raw.num_rows])
        if last > first:
            yield _joined(rows.slice(first, last - first), raw.take(pa.array(numbers[first:last] - start)))
        start += raw.num_rows


def _joined(rows: pa.Table | None, raw: pa.Table) -> pa.Table:
    assert rows is not None
    for name in raw.column_names:
        rows = rows.append_column(name, raw[name])
    return rows


def _compact(rows: pa.Table) -> pa.Table:
    """The rows with each column in one piece; columns that share their memory go on sharing it."""
    return rows if all(column.num_chunks <= 1 for column in rows.columns) else rows.combine_chunks()


def _whole(mask: pa.Array | pa.ChunkedArray) -> pa.Array:
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
