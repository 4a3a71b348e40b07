"""The live files of a table version, in immutable blocks. Versions share blocks and the values that blocks cache.

A commit adds rows to the last block and copies the blocks from which it removes files. Statistics remain compressed in the checkpoint until
a column is needed. Parsed statistics are cached by the source of a block, which later versions share.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import repartitioned, row_schema
from rowmerge.delta.files.file_statistics import FileIndices, StatisticsSource, TableStatistics

T = TypeVar("T")

_MAX_BLOCK_FILES = 65_536
"""The maximum number of files in a block."""
_MAX_MERGED_FILES = 2_048
"""The maximum number of files in the last block and a new commit together for which both are merged into one block."""
_STATISTICS = ("stats", "parsed")


class Block:
    """Some live files of a table version. `rows`: the files without statistics. `numbers`: the indices of their statistics in `source`."""

    def __init__(self, rows: pa.Table, source: StatisticsSource, numbers: FileIndices) -> None:
        self.rows, self.source, self.numbers = rows, source, numbers
        self._cache: dict[Hashable, object] = {}

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value that is derived from this block. The value is computed on first use and then cached.

        Args:
            key: The key of the cache entry, which identifies the computation and its parameters.
            compute: A function that computes the value from this block.
        """
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]  # type: ignore[return-value]

    def filter(self, mask: pa.Array) -> Block:
        return Block(self.rows.filter(mask), self.source, self.numbers[mask.to_numpy(zero_copy_only=False)])

    def table(self) -> pa.Table:
        """Return the rows with their statistics, which have the same form as in the log."""
        return _append_columns(self.rows, self.source.read_raw(self.numbers))

    def repartitioned(self, type_: pa.StructType) -> Block:
        """Return the block with the column `partition` converted to `type_`."""
        rows = repartitioned(self.rows, type_)
        return self if rows is self.rows else Block(rows, self.source, self.numbers)


@dataclass(frozen=True)
class LiveFiles:
    """The live files of a table version, in no particular order. Columns and listings follow the order of the blocks."""

    blocks: tuple[Block, ...] = ()

    @classmethod
    def of(cls, table: pa.Table) -> LiveFiles:
        """Return the live files of a file table that includes the statistics."""
        rows = table.drop_columns([name for name in _STATISTICS if name in table.column_names])
        return cls.with_source(rows, TableStatistics(table))

    @classmethod
    def with_source(cls, rows: pa.Table, source: StatisticsSource) -> LiveFiles:
        """Return live files whose statistics stay in a source until they are needed.

        Args:
            rows: The files without statistics, in the schema of `row_schema`.
            source: The statistics of these files, in the same order.
        """
        numbers = np.arange(rows.num_rows)
        starts = range(0, rows.num_rows, _MAX_BLOCK_FILES)
        slices = ((_compact(rows.slice(start, _MAX_BLOCK_FILES)), numbers[start : start + _MAX_BLOCK_FILES]) for start in starts)
        return cls(tuple(Block(block_rows, source, block_numbers) for block_rows, block_numbers in slices))

    @cached_property
    def count(self) -> int:
        return sum(block.rows.num_rows for block in self.blocks)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column of the file table for all files. Columns with statistics are not available."""
        chunks = list(chain.from_iterable(block.rows[name].chunks for block in self.blocks))
        return pa.chunked_array(chunks) if chunks else row_schema(()).empty_table()[name]

    def filter(self, mask_of: Callable[[Block], pa.ChunkedArray]) -> LiveFiles:
        """Return the files for which a mask is true. `mask_of` returns the mask of a block."""
        blocks = []
        for block in self.blocks:
            mask = mask_of(block).combine_chunks()
            count = pc.sum(mask).as_py() or 0
            if count:
                blocks.append(block if count == len(mask) else block.filter(mask))
        return LiveFiles(tuple(blocks))

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows in batches, with their statistics in the same form as in the log. Each source is read once."""
        for _, blocks in groupby(self.blocks, key=lambda block: id(block.source)):
            yield from _scan_blocks(tuple(blocks))

    def repartitioned(self, type_: pa.StructType) -> LiveFiles:
        """Return the files with the column `partition` converted to `type_`."""
        return LiveFiles(tuple(block.repartitioned(type_) for block in self.blocks))

    def replace_files(self, keys: pa.Array, new_rows: pa.Table) -> LiveFiles:
        """Return the files of the next version, without the removed files and with the new files in the last block.

        Blocks are immutable. Both versions share each block from which no file is removed, including its cached values.

        Args:
            keys: The keys of the removed files (`file_keys`).
            new_rows: The new files with their statistics, in the schema of `file_schema`.
        """
        remaining = self.filter(lambda block: pc.invert(pc.is_in(block.rows["key"], value_set=keys)))
        return remaining._append(new_rows) if new_rows.num_rows else remaining

    def _append(self, new_rows: pa.Table) -> LiveFiles:
        """Return these files and new files. `new_rows` has the schema of `file_schema`.

        If every commit appended its own block, a version after many small commits would have just as many tiny blocks. So the new files are
        merged with each small block at the end.
        """
        blocks, tables = list(self.blocks), [new_rows]
        while blocks and blocks[-1].rows.num_rows + new_rows.num_rows <= _MAX_MERGED_FILES:
            tables.insert(0, blocks.pop().table())
        merged = LiveFiles.of(pa.concat_tables(tables, promote_options="default"))
        return LiveFiles((*blocks, *merged.blocks))

    def difference(self, others: LiveFiles) -> LiveFiles:
        """Return the files that are not in `others`. Shared blocks are not compared."""
        shared_ids = {id(block) for block in others.blocks} & {id(block) for block in self.blocks}
        unshared = LiveFiles(tuple(block for block in self.blocks if id(block) not in shared_ids))
        unshared_others = LiveFiles(tuple(block for block in others.blocks if id(block) not in shared_ids))
        other_keys = unshared_others.column("key").combine_chunks()
        return unshared.filter(lambda block: pc.invert(pc.is_in(block.rows["key"], value_set=other_keys)))


def _scan_blocks(blocks: tuple[Block, ...]) -> Iterator[pa.Table]:
    """Yield the rows of blocks with their statistics. The blocks have the same source, and `numbers` ascends across them."""
    rows = pa.concat_tables([block.rows for block in blocks])
    numbers = np.concatenate([block.numbers for block in blocks])
    start = 0
    for statistics in blocks[0].source.scan_raw():
        first, end = np.searchsorted(numbers, [start, start + statistics.num_rows])
        if end > first:
            yield _append_columns(rows.slice(first, end - first), statistics.take(pa.array(numbers[first:end] - start)))
        start += statistics.num_rows


def _append_columns(rows: pa.Table, statistics: pa.Table) -> pa.Table:
    return pa.Table.from_arrays([*rows.columns, *statistics.columns], schema=pa.schema([*rows.schema, *statistics.schema]))


def _compact(rows: pa.Table) -> pa.Table:
    """Return the rows with at most one chunk per column. If this is already the case, no memory is copied."""
    return rows if all(column.num_chunks <= 1 for column in rows.columns) else rows.combine_chunks()
