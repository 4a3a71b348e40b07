"""Row positions as bit sets, which a broadcast join adds to the rows of each file."""

from __future__ import annotations

from typing import Any

import numpy as np

from rowmerge.parquet.filesystems import UNREADABLE
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.snapshots.files import Positions


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


def bit_set_of(positions: Positions) -> tuple[np.ndarray[Any, Any], int]:
    """Return one or more positions as a bit set: its 64-bit words without leading empty words, and the index of the first word."""
    ordered_positions = np.array(positions.to_array(), dtype=np.int64)
    first_word, last_word = int(ordered_positions[0]) >> 6, int(ordered_positions[-1]) >> 6
    bits = np.zeros(((last_word - first_word + 1) * 64,), dtype=np.uint8)
    bits[ordered_positions - (first_word << 6)] = 1
    return np.packbits(bits, bitorder="little").view(np.int64), first_word
