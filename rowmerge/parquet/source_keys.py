"""The keys of a source, as numbers that are looked up in columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = np.ndarray[Any, Any]

_ROWS_PER_HASHED_VALUE, _MAX_ROWS_AT_ONCE = 4, 4_000_000
"""To look up so many rows takes as long as to hash one value; the key columns of up to so many rows are held in memory."""
_FEW_VALUES = 100
"""Fewer values are hashed faster than they are cut to a range."""
_MAX_COMBINATIONS = 2**62
"""Fewer combinations fit into an int64 each."""


@dataclass(frozen=True)
class KeyColumn:
    """A column of the target, and the distinct source `values` for it: sorted, non-null, in the column's type.

    `matches_null`: the source has a NULL, and NULL equals NULL in this key.
    """

    name: str
    values: pa.Array
    matches_null: bool

    def codes(self, column: pa.ChunkedArray) -> Numbers:
        """Return the index in `values` of each value, `len(values)` for a NULL that matches, and -1 for a value that the source lacks."""
        first, values = self._values_in_range(column)
        codes = np.asarray(pc.index_in(column, value_set=values, skip_nulls=True).fill_null(-1), dtype=np.int64)
        codes[codes >= 0] += first
        return np.where(np.asarray(column.is_null()), len(self.values), codes) if self.matches_null else codes

    def _values_in_range(self, column: pa.ChunkedArray) -> tuple[int, pa.Array]:
        """Return the values between a column's minimum and maximum, and the index of the first. Arrow hashes fewer values faster."""
        if not pa.types.is_integer(self.values.type) or len(self.values) < _FEW_VALUES:
            return 0, self.values
        bounds = pc.min_max(column)
        if not bounds["min"].is_valid:
            return 0, self.values.slice(0, 0)
        values = np.asarray(self.values)
        low, high = np.searchsorted(values, bounds["min"].as_py()), np.searchsorted(values, bounds["max"].as_py(), side="right")
        return int(low), self.values.slice(low, high - low)


@dataclass(frozen=True)
class SourceKeys:
    """The keys of a source.

    `columns`: the key with the most values first. `row_values`: the key of each source row, column by column. `combinations`: the sorted
    numbers of the keys of several columns, None if each column is looked up alone. `is_distinct`: no two source rows have equal keys.

    The number of a combination is the sum of its codes times `_weights`, so combinations that differ in the first column alone are
    neighbours.
    """

    columns: tuple[KeyColumn, ...]
    combinations: Numbers | None
    row_values: tuple[pa.ChunkedArray, ...]
    is_distinct: bool

    @staticmethod
    def of(keys: Sequence[tuple[KeyColumn, pa.ChunkedArray]]) -> SourceKeys:
        """Return the keys of these columns, at least one, each with the value of each source row."""
        ordered = sorted(keys, key=lambda key: -len(key[0].values))
        columns, row_values = tuple(column for column, _ in ordered), tuple(values for _, values in ordered)
        if len(columns) == 1:
            return SourceKeys(columns, None, row_values, _are_distinct(columns[0], row_values[0]))
        if np.prod([float(len(column.values) + 1) for column in columns]) >= _MAX_COMBINATIONS:
            return SourceKeys(columns, None, row_values, False)
        numbers = SourceKeys(columns, None, row_values, False)._numbers_of_source_rows()
        combinations = np.sort(numbers[numbers >= 0])
        return SourceKeys(columns, combinations, row_values, not (combinations[1:] == combinations[:-1]).any())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def min_rows_at_once(self) -> int:
        """Return how many rows to look up together at least: each call of Arrow hashes all values, but only integers within range."""
        hashed_values = (len(column.values) for column in self.columns if not pa.types.is_integer(column.values.type))
        return min(_ROWS_PER_HASHED_VALUE * max(hashed_values, default=0), _MAX_ROWS_AT_ONCE)

    @property
    def is_exact(self) -> bool:
        """Return whether a row has a key if and only if it equals one source row in all these columns."""
        return len(self.columns) == 1 or self.combinations is not None

    def find_rows(self, rows: pa.Table) -> tuple[Numbers, Numbers]:
        """Return the indexes of the rows that have a key of the source, and the numbers of their keys.

        Numbers are equal for equal keys, and from 0 to below the number of source rows. Without combinations, each of several columns is
        looked up alone, and the numbers are those of the first column.
        """
        first, *other_columns = self.columns
        offset = None if self.combinations is None else self._shared_offset(rows)
        if self.combinations is not None and offset is not None:
            return self._find_in_partition(rows[first.name], offset, self.combinations)
        indexes, numbers = _present(first.codes(rows[first.name]))
        for column, weight in zip(other_columns, self._weights[1:], strict=True):
            matches, codes = _present(column.codes(rows[column.name].take(pa.array(indexes))))
            indexes, numbers = indexes[matches], numbers[matches]
            if self.combinations is not None:
                numbers = numbers + codes * weight
        if self.combinations is None:
            return indexes, numbers
        matches, combination_indexes = _present(_index_in_sorted(numbers, self.combinations))
        return indexes[matches], combination_indexes

    def source_numbers(self) -> Numbers:
        """Return the number of the key of each source row, as in `find_rows`, and -1 for a row that matches nothing. Keys must be exact."""
        numbers = self._numbers_of_source_rows()
        return numbers if self.combinations is None else _index_in_sorted(numbers, self.combinations)

    @property
    def _weights(self) -> list[int]:
        """Return what the code of each column counts in the number of a combination."""
        return list(accumulate((len(column.values) + 1 for column in self.columns[:-1]), lambda weight, count: weight * count, initial=1))

    def _numbers_of_source_rows(self) -> Numbers:
        """Return the number of the combination of each source row, and -1 if one of its codes is -1."""
        codes = [column.codes(values) for column, values in zip(self.columns, self.row_values, strict=True)]
        is_missing = np.any([column_codes < 0 for column_codes in codes], axis=0)
        return np.where(is_missing, -1, sum(column_codes * weight for column_codes, weight in zip(codes, self._weights, strict=True)))

    def _shared_offset(self, rows: pa.Table) -> int | None:
        """Return the number of the first combination with the rows' values if each column but the first has one value, as in a partition.

        Returns -1 if no combination has these values, and None if a column has several values.
        """
        offset = 0
        for column, weight in zip(self.columns[1:], self._weights[1:], strict=True):
            value = _only_value(rows[column.name])
            if value is None:
                return None
            code = pc.index(column.values, value).as_py()
            if code < 0:
                return -1
            offset += code * weight
        return offset

    def _find_in_partition(self, column: pa.ChunkedArray, offset: int, combinations: Numbers) -> tuple[Numbers, Numbers]:
        """Return what `find_rows` returns for rows with this shared offset. Only values of combinations with this offset are hashed."""
        if offset < 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        first = self.columns[0]
        low, high = np.searchsorted(combinations, (offset, offset + len(first.values) + 1))
        codes, places = np.unique(combinations[low:high] - offset, return_index=True)
        has_null = bool(len(codes)) and codes[-1] == len(first.values)
        values = first.values.take(pa.array(codes[:-1] if has_null else codes))
        indexes, numbers = _present(KeyColumn(first.name, values, has_null).codes(column))
        return indexes, places[numbers] + low


def _are_distinct(column: KeyColumn, row_values: pa.ChunkedArray) -> bool:
    """Return whether no two rows have equal keys. NULLs are equal only if the key matches them."""
    null_count = row_values.null_count
    return len(row_values) - null_count == len(column.values) and not (column.matches_null and null_count > 1)


def _present(codes: Numbers) -> tuple[Numbers, Numbers]:
    """Return the indexes of the codes that are not -1, and these codes."""
    indexes = np.flatnonzero(codes >= 0)
    return indexes, codes[indexes]


def _only_value(column: pa.ChunkedArray) -> pa.Scalar | None:
    """Return the value that all rows have, None if the rows differ or one is NULL."""
    if not len(column) or column.null_count or column[0] != column[-1]:
        return None
    bounds = pc.min_max(column)
    return column[0] if bounds["min"] == bounds["max"] else None


def _index_in_sorted(values: Numbers, sorted_values: Numbers) -> Numbers:
    """Return the index of each value in `sorted_values`, -1 for a value that is not there."""
    if not len(sorted_values):
        return np.full(len(values), -1, dtype=np.int64)
    indexes = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    return np.where(sorted_values[indexes] == values, indexes, -1)
