"""The keys of a source, as numbers that are looked up in columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HASHED, _AT_ONCE = 4, 4_000_000
"""To look up so many rows for each value takes as long as to hash the values; the keys of so many rows are held in any case."""


_FEW = 100
"""So few values are hashed sooner than cut."""


@dataclass(frozen=True)
class KeyColumn:
    """A column of the target and the distinct values that the source has for it, sorted, in the column's type; `null`: NULL equals NULL
    here, and the source has one."""

    name: str
    values: pa.Array
    null: bool

    def codes(self, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        """The place of each value among `values`, their number for a NULL that counts, -1 for what the source does not have."""
        first, values = self._within(column)
        places = np.asarray(pc.index_in(column, value_set=values, skip_nulls=True).fill_null(-1), dtype=np.int64)
        places[places >= 0] += first
        return np.where(np.asarray(column.is_null()), len(self.values), places) if self.null else places

    def _within(self, column: pa.ChunkedArray) -> tuple[int, pa.Array]:
        """The values between the least and the greatest of a column, and the place of the first: a smaller set is searched sooner."""
        if not pa.types.is_integer(self.values.type) or len(self.values) < _FEW:
            return 0, self.values
        ends = pc.min_max(column)
        if not ends["min"].is_valid:
            return 0, self.values.slice(0, 0)
        values = np.asarray(self.values)
        low, high = np.searchsorted(values, ends["min"].as_py()), np.searchsorted(values, ends["max"].as_py(), side="right")
        return int(low), self.values.slice(low, high - low)


@dataclass(frozen=True)
class SourceKeys:
    """What the source has: its keys, the one with the most values first, and the combinations of them, as sorted numbers (see `_combined`),
    None where each is looked up by itself. `given`: the key of each source row, column by column. `distinct`: no two rows have the same."""

    columns: tuple[KeyColumn, ...]
    combinations: np.ndarray[Any, Any] | None
    given: tuple[pa.ChunkedArray, ...]
    distinct: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def rows_at_once(self) -> int:
        """So many rows should be looked at together at least: before it looks, Arrow hashes all values; integers are fewer, for only those
        within the column's range count."""
        hashed = (len(column.values) for column in self.columns if not pa.types.is_integer(column.values.type))
        return min(_HASHED * max(hashed, default=0), _AT_ONCE)

    @property
    def exact(self) -> bool:
        """Whether the rows with a key are those that equal a row of the source in all these columns, and no others."""
        return len(self.columns) == 1 or self.combinations is not None

    def look(self, rows: pa.Table) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The indexes of the rows that have a key of the source, and a number from 0 for the key of each, the same for equal keys and less
        than there are rows in the source.

        Without combinations, each of several columns is looked at by itself, and the numbers are those of the first.
        """
        first, *others = self.columns
        if self.combinations is not None and (start := self._one_part(rows)) is not None:
            return self._look_in_part(rows[first.name], start, self.combinations)
        found, numbers = _present(first.codes(rows[first.name]))
        weight = len(first.values) + 1
        for column in others:
            codes = column.codes(rows[column.name].take(pa.array(found)))
            kept = codes >= 0
            found, numbers = found[kept], numbers[kept]
            if self.combinations is not None:
                numbers = numbers + codes[kept] * weight
                weight *= len(column.values) + 1
        if self.combinations is None or not others:
            return found, numbers
        known, numbers = _present(_places(numbers, self.combinations))
        return found[known], numbers

    def _one_part(self, rows: pa.Table) -> int | None:
        """Where all columns but the first hold one value, as in a file of a partition: the number from which on combinations have these
        values, or -1 if none has. None where columns hold more than one."""
        first, *others = self.columns
        start, weight = 0, len(first.values) + 1
        for column in others:
            value = _only_value(rows[column.name])
            if value is None:
                return None
            code = pc.index(column.values, value).as_py()
            if code < 0:
                return -1
            start += code * weight
            weight *= len(column.values) + 1
        return start

    def _look_in_part(
        self, column: pa.ChunkedArray, start: int, combinations: np.ndarray[Any, Any]
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """What `look` finds in rows of one part: only those values of the first column are looked up that stand with the others' there."""
        if start < 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        first = self.columns[0]
        low, high = np.searchsorted(combinations, (start, start + len(first.values) + 1))
        codes, places = np.unique(combinations[low:high] - start, return_index=True)
        null = bool(len(codes)) and codes[-1] == len(first.values)
        values = first.values.take(pa.array(codes[:-1] if null else codes))
        found, numbers = _present(KeyColumn(first.name, values, null).codes(column))
        return found, places[numbers] + low

    def of_source(self) -> np.ndarray[Any, Any]:
        """The number of the key of each source row, as `look` has them; -1 for a row that meets nothing. Only for keys that are exact."""
        codes = [column.codes(values) for column, values in zip(self.columns, self.given, strict=True)]
        return codes[0] if self.combinations is None else _places(_combined(codes, self.columns), self.combinations)


def _present(codes: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The indexes of codes that are not -1, and these codes."""
    found = np.flatnonzero(codes >= 0)
    return found, codes[found]


def _only_value(column: pa.ChunkedArray) -> pa.Scalar | None:
    """The value that all rows have; None where they differ, or some are NULL."""
    if not len(column) or column.null_count or column[0] != column[-1]:
        return None
    ends = pc.min_max(column)
    return column[0] if ends["min"] == ends["max"] else None


def _combined(codes: Sequence[np.ndarray[Any, Any]], columns: Sequence[KeyColumn]) -> np.ndarray[Any, Any]:
    """One number for the codes of each row, -1 where one of them is; those that differ in the first column alone are together."""
    total = np.zeros(len(codes[0]), dtype=np.int64)
    missing = np.zeros(len(codes[0]), dtype=bool)
    weight = 1
    for code, column in zip(codes, columns, strict=True):
        total += code * weight
        weight *= len(column.values) + 1
        missing |= code < 0
    total[missing] = -1
    return total


def _places(values: np.ndarray[Any, Any], known: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The place of each value among the known ones, which are sorted; -1 where it is none of them."""
    if not len(known):
        return np.full(len(values), -1, dtype=np.int64)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[places] == values, places, -1)
