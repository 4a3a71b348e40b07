"""Row positions as bit sets, which a query tests at the position of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rowmerge.parquet.filesystems import UNREADABLE
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.snapshots.files import Positions

BitSet = tuple[np.ndarray[Any, Any], int]
"""The 64-bit words of a bit set without leading empty words, and the index of its first word."""


def bit_at_position(words: str, first_word: str) -> str:
    """Return SQL for the bit at a row's POSITION in the bit set of its file. The bit is 0 for a position outside the bit set.

    Args:
        words: The name of the column with the 64-bit words of the bit set (see `bit_set_of`).
        first_word: The name of the column with the index of the first word.
    """
    word = f"get({words}, cast(shiftright({POSITION}, 6) - {first_word} as int))"
    return f"coalesce(bit_get({word}, cast({POSITION} & 63 as int)), 0)"


def stop_query_sql(reason: str) -> str:
    """Return SQL that stops the query with an error about a row's FILE. `rowmerge.spark.failures` parses the JSON array in the message."""
    return f"raise_error(concat('{UNREADABLE} ', to_json(array({FILE}, '{reason}'))))"


def bit_set_of(positions: Positions) -> BitSet:
    """Return one or more positions as a bit set."""
    ordered_positions = np.array(positions.to_array(), dtype=np.int64)
    first_word, last_word = int(ordered_positions[0]) >> 6, int(ordered_positions[-1]) >> 6
    bits = np.zeros(((last_word - first_word + 1) * 64,), dtype=np.uint8)
    bits[ordered_positions - (first_word << 6)] = 1
    return np.packbits(bits, bitorder="little").view(np.int64), first_word


class BitSlice(NamedTuple):
    """The bit set of one file in an array of the words of several files.

    `start`: the index in the array of the word for the positions 0 to 63. It is negative if the bit set has no words for these positions.
    `first`, `end`: the first position of the bit set, and the position after its last one.
    """

    start: int
    first: int
    end: int


def concatenated(bit_sets: Sequence[BitSet]) -> tuple[np.ndarray[Any, Any], list[BitSlice]]:
    """Return the words of some bit sets (see `bit_set_of`) in one array, and the slice of each bit set."""
    offsets = np.cumsum([0, *(len(words) for words, _ in bit_sets)]).tolist()
    slices = [
        BitSlice(offset - first_word, 64 * first_word, 64 * (first_word + len(words)))
        for (words, first_word), offset in zip(bit_sets, offsets[:-1], strict=True)
    ]
    return np.concatenate([words for words, _ in bit_sets]), slices


def word_index_sql(key: str, slices: Mapping[int, BitSlice | None]) -> str:
    """Return SQL for the index of the word that contains the bit of a row. It is -1 if the bit set of the file has no such word.

    The SQL is a binary search of the file by nested IFs, because Spark evaluates a CASE with many branches one after another.

    Args:
        key: The column with the number that identifies a row's file.
        slices: By this number, the slice of each file; None for a file without a bit set. At least one file.
    """
    keys = sorted(slices)
    if len(keys) > 1:
        middle = len(keys) // 2
        below, above = ({number: slices[number] for number in half} for half in (keys[:middle], keys[middle:]))
        return f"if({key} < {keys[middle]}, {word_index_sql(key, below)}, {word_index_sql(key, above)})"
    bits = slices[keys[0]]
    if bits is None:
        return "-1L"
    return f"if({POSITION} >= {bits.first} and {POSITION} < {bits.end}, shiftright({POSITION}, 6) + {bits.start}, -1L)"
