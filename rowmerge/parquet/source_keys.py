"""The keys of a source, represented by numbers so that they can be looked up in columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NumpyArray = np.ndarray[Any, Any]

_ROWS_PER_HASHED_VALUE = 4
"""The number of target rows for each value of the source that one lookup should have at least, if the lookup hashes all values."""
_MAX_ROWS_AT_ONCE = 4_000_000
"""The maximum number of target rows that one lookup waits for. Their key columns are in memory."""
_FEW_VALUES = 100
"""The number of values below which it is faster to hash all of them than to select the values within the range of a column."""
_SEARCHED_VALUES_PER_ROW = 10
"""The number of values per row above which a binary search for each row is faster than hashing the values."""
_MAX_KEY_CODE = 2**62
"""The exclusive upper limit of key codes, which are of the type int64."""
_NO_MATCH = -1
"""Used instead of a code or an id for a value or key that no source row has."""


@dataclass(frozen=True)
class KeyColumn:
    """A key column of the target table, or a nested field of one, with the values that the source has for it.

    Attributes:
        path: The name of the column, followed by the names of nested fields.
        values: The distinct non-null values of the source, sorted, in the column's type.
        matches_null: Whether the source contains a NULL and the comparison treats NULLs as equal (`<=>`).
    """

    path: tuple[str, ...]
    values: pa.Array
    matches_null: bool

    def values_in(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the values of the column or nested field in rows of the table. A field of a NULL struct is NULL."""
        column, *fields = self.path
        # Arrow reads a list as exact names, and a string as an expression: `.id` would be the field `id`.
        return reduce(lambda values, name: pc.struct_field(values, [name]), fields, rows[column])

    def codes(self, column: pa.ChunkedArray) -> NumpyArray:
        """Return a code for each row: the index of its value in `values`, `len(values)` for a NULL that matches, otherwise `_NO_MATCH`."""
        values, rows = _as_integers(self.values), _as_integers(column)
        if pa.types.is_integer(values.type):
            codes = _codes_of_integers(rows, values)
        else:
            codes = _hashed_codes(rows, values)
        return np.where(np.asarray(column.is_null()), len(self.values), codes) if self.matches_null else codes

    def with_codes(self, codes: NumpyArray) -> KeyColumn:
        """Return the column with only the values of these codes, which are sorted. The new code of a value is the index of its old code.

        For example, the codes 0, 1, 2 and 3 represent a, b, c and NULL. With the codes [1, 3], the result has the values b and NULL.
        """
        has_null = len(self.values) in codes[-1:]  # NULL has the highest code
        return KeyColumn(self.path, self.values.take(pa.array(codes[:-1] if has_null else codes)), matches_null=has_null)

    @property
    def is_hashed(self) -> bool:
        """Whether each lookup hashes all `values`. Of integers, it hashes only those within the range of the rows, which is faster."""
        return not pa.types.is_integer(_as_integers(self.values).type)


class FoundRows(NamedTuple):
    """The rows of a table that have a key of the source.

    Attributes:
        indexes: The indexes of the rows in the table, in ascending order.
        key_ids: The id of the key of each of these rows. Equal keys have equal ids, from 0 to the number of source rows minus 1.
    """

    indexes: NumpyArray
    key_ids: NumpyArray


@dataclass(frozen=True)
class SourceKeys:
    """The keys of a source, numbered so that they can be looked up in rows of a table.

    The code of a value is its index among the sorted values of its column (`KeyColumn.codes`). The key code of a row is one integer for its
    values in all key columns. It is the sum of the columns' codes, each multiplied by a factor. The factor of a column is the number of
    combinations of codes in the preceding columns (mixed radix).

    For example, the first column has the values a, b and c, and the second column has x and y. The first column has the factor 1 and four
    codes: 0 for a, 1 for b, 2 for c and 3 for NULL. So the factor of the second column is 4. The key (b, y) has the key code 1 * 1 + 1 * 4
    = 5. Keys with y have the key codes from 4 to 7.

    Attributes:
        columns: The key columns, beginning with the column that has the most distinct values.
        key_codes: The key codes of the source rows that can match, sorted. None if there is only one column, or if there are so many
            combinations that each column is looked up separately.
        row_values: The values of all source rows, for each of `columns`.
        is_distinct: Whether the keys of all source rows are known to be different.
    """

    columns: tuple[KeyColumn, ...]
    key_codes: NumpyArray | None
    row_values: tuple[pa.ChunkedArray, ...]
    is_distinct: bool

    @staticmethod
    def of(keys: Sequence[tuple[KeyColumn, pa.ChunkedArray]]) -> SourceKeys:
        """Return the keys that consist of these key columns. `keys`: At least one column, each with the values of all source rows."""
        ordered = sorted(keys, key=lambda key: -len(key[0].values))
        columns, row_values = tuple(column for column, _ in ordered), tuple(values for _, values in ordered)
        if len(columns) == 1:
            return SourceKeys(columns, None, row_values, _are_distinct(columns[0], row_values[0]))
        if np.prod([float(len(column.values) + 1) for column in columns]) >= _MAX_KEY_CODE:
            return SourceKeys(columns, None, row_values, False)
        row_codes = SourceKeys(columns, None, row_values, False)._key_codes_of_source_rows()
        key_codes = np.sort(row_codes[row_codes >= 0])
        return SourceKeys(columns, key_codes, row_values, not (key_codes[1:] == key_codes[:-1]).any())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the top-level columns that contain the keys."""
        return tuple(dict.fromkeys(column.path[0] for column in self.columns))

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The name of the column of each key, followed by the names of nested fields."""
        return tuple(column.path for column in self.columns)

    @property
    def nbytes(self) -> int:
        """Return the size in bytes of what a lookup needs: the values of the key columns and the key codes."""
        code_bytes = 0 if self.key_codes is None else self.key_codes.nbytes
        return code_bytes + sum(int(column.values.nbytes) for column in self.columns)

    @property
    def min_rows_at_once(self) -> int:
        """Return the minimum number of rows to look up in one call, because each call hashes the values again."""
        rows = (len(column.values) * (_ROWS_PER_HASHED_VALUE if column.is_hashed else 1) for column in self.columns)
        return min(max(rows, default=0), _MAX_ROWS_AT_ONCE)

    @property
    def is_exact(self) -> bool:
        """Return whether `find_rows` returns only rows that are equal to one source row in all key columns."""
        return len(self.columns) == 1 or self.key_codes is not None

    def find_rows(self, rows: pa.Table) -> FoundRows:
        """Find the rows that have a key of the source.

        Keys are compared as integers. The code of a value is its index among the source's sorted values of one column. The key code of a
        row combines the codes of all its key columns. For example, the columns have the values a, b, c and x, y. Then (a, x) has the key
        code 0, (b, x) 1, and (b, y) 1 + 1 * 4 = 5. The factor 4 is the number of codes of the first column: a, b, c and NULL.

        If the keys are not exact (`is_exact`), the result also contains rows that combine values of different source rows.

        Args:
            rows: Rows of the table, with all key columns.
        """
        if self.key_codes is None:
            # Each column is looked up separately. The id of a key is the code of its value in the first column.
            row_indexes, column_codes = self._codes_of_rows(rows)
            return FoundRows(row_indexes, key_ids=column_codes[0])
        # The rows of one partition often have equal values in all key columns but the first. Then one lookup in the first column suffices.
        # `base_code` is the sum that these equal values contribute to each key code: 4 if all rows have y.
        base_code = self._code_of_other_columns(rows)
        if base_code is None:
            return self._find_by_key_code(rows, self.key_codes)
        return self._find_by_first_column(self.columns[0].values_in(rows), base_code, self.key_codes)

    def _find_by_key_code(self, rows: pa.Table, key_codes: NumpyArray) -> FoundRows:
        """Compute the key code of each row, and look it up in the sorted key codes of the source. The id of a key is its index there."""
        row_indexes, column_codes = self._codes_of_rows(rows)
        matches, key_ids = _matching_codes(_index_in_sorted(self._key_codes_of(column_codes), key_codes))
        return FoundRows(row_indexes[matches], key_ids)

    def source_key_ids(self) -> NumpyArray:
        """Return the id of the key of each source row, as in `find_rows`, or `_NO_MATCH` if the row cannot match. Keys must be exact."""
        row_codes = self._key_codes_of_source_rows()
        return row_codes if self.key_codes is None else _index_in_sorted(row_codes, self.key_codes)

    def _codes_of_rows(self, rows: pa.Table) -> tuple[NumpyArray, list[NumpyArray]]:
        """Return the indexes of the rows whose value in every key column occurs in the source, and their codes in each column."""
        first, *other_columns = self.columns
        indexes, first_codes = _matching_codes(first.codes(first.values_in(rows)))
        column_codes = [first_codes]
        for column in other_columns:
            matches, codes = _matching_codes(column.codes(column.values_in(rows).take(pa.array(indexes))))
            indexes = indexes[matches]
            column_codes = [*(earlier_codes[matches] for earlier_codes in column_codes), codes]
        return indexes, column_codes

    def _key_codes_of(self, column_codes: Sequence[NumpyArray]) -> NumpyArray:
        """Return the key codes of rows, given the codes of the rows in each column."""
        return np.asarray(sum(codes * factor for codes, factor in zip(column_codes, self._code_factors, strict=True)))

    @property
    def _code_factors(self) -> list[int]:
        """Return the factor of each column in a key code. A column has one code for each value, and one code for NULL."""
        code_counts = (len(column.values) + 1 for column in self.columns[:-1])
        return list(accumulate(code_counts, lambda factor, count: factor * count, initial=1))

    def _key_codes_of_source_rows(self) -> NumpyArray:
        """Return the key code of each source row, or `_NO_MATCH` for a row that cannot match because a key is NULL."""
        column_codes = [column.codes(values) for column, values in zip(self.columns, self.row_values, strict=True)]
        is_missing = np.any([codes < 0 for codes in column_codes], axis=0)
        return np.where(is_missing, _NO_MATCH, self._key_codes_of(column_codes))

    def _code_of_other_columns(self, rows: pa.Table) -> int | None:
        """Return the part of the key code for the key columns after the first, if all rows have the same values in these columns.

        Rows usually do if these columns are partition columns. A key code is the sum of each column's code times its factor. The factor is
        the number of combinations of codes in the preceding columns (mixed radix). For example, the first column has the codes 0 to 3. The
        second column then has the factor 4. Its values x and y have the codes 0 and 1. So the result is 0 for rows that all have x, and 4
        for rows that all have y.

        Returns:
            The sum of code times factor over these columns. `_NO_MATCH` if the source lacks one of the values, so that no row has a key of
            the source. None if the rows differ in one of the columns, so that each row needs a key code of its own.
        """
        code_sum = 0
        for column, factor in zip(self.columns[1:], self._code_factors[1:], strict=True):
            value = _only_value(column.values_in(rows))
            if value is None:
                return None
            column_code = pc.index(column.values, value).as_py()
            if column_code < 0:  # Arrow's result for a value that the source lacks
                return _NO_MATCH
            code_sum += column_code * factor
        return code_sum

    def _find_by_first_column(self, column: pa.ChunkedArray, base_code: int, key_codes: NumpyArray) -> FoundRows:
        """Return the result of `find_rows` for rows that differ only in the first key column.

        The key code of a row is `base_code` plus the code of its value in the first column. So the source keys that can match have adjacent
        key codes. For example, the first column has the values a, b, c with the codes 0, 1, 2, and NULL has 3. The second column has the
        values x and y, and all rows have y. So `base_code` is 4, and their key codes are 4 to 7. If the key codes of the source are
        [1, 3, 4, 6, 9], the keys 4 and 6 can match: (a, y) and (c, y). So only a and c are looked up.

        Args:
            column: The first key column of the rows.
            base_code: The part of the key code for the other key columns, or `_NO_MATCH`.
            key_codes: The sorted key codes of the source.
        """
        if base_code == _NO_MATCH:
            return FoundRows(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        first = self.columns[0]
        code_count = len(first.values) + 1  # one for each value, and one for NULL
        start, end = np.searchsorted(key_codes, (base_code, base_code + code_count))
        # Source rows with equal keys repeat a key code. The id of a key is the index of its first occurrence.
        first_codes, first_offsets = np.unique(key_codes[start:end] - base_code, return_index=True)
        column_to_find = first.with_codes(first_codes)  # only a and c in the example, with the new codes 0 and 1
        row_indexes, code_indexes = _matching_codes(column_to_find.codes(column))
        return FoundRows(row_indexes, key_ids=start + first_offsets[code_indexes])


def _as_integers(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return dates and timestamps as the integers that represent them, which copies nothing, and other values unchanged."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values


def _codes_of_integers(rows: pa.ChunkedArray, values: pa.Array) -> NumpyArray:
    """Return, for each row, the index of its value in the sorted integers `values`, or `_NO_MATCH`. NULLs have no match.

    A binary search in many values is faster for few rows. For many rows, Arrow hashes the values between their minimum and maximum.
    """
    sorted_values = np.asarray(values)
    if len(rows) * _SEARCHED_VALUES_PER_ROW <= len(sorted_values):
        codes = _index_in_sorted(np.asarray(rows.fill_null(0)), sorted_values)
        return np.where(np.asarray(rows.is_null()), _NO_MATCH, codes) if rows.null_count else codes
    if len(sorted_values) < _FEW_VALUES:
        return _hashed_codes(rows, values)
    bounds = pc.min_max(rows)
    if not bounds["min"].is_valid:
        return np.full(len(rows), _NO_MATCH, dtype=np.int64)
    low = int(np.searchsorted(sorted_values, bounds["min"].as_py()))
    high = int(np.searchsorted(sorted_values, bounds["max"].as_py(), side="right"))
    codes = _hashed_codes(rows, values.slice(low, high - low))
    codes[codes >= 0] += low
    return codes


def _hashed_codes(rows: pa.ChunkedArray, values: pa.Array) -> NumpyArray:
    """Return, for each row, the index of its value in `values`, or `_NO_MATCH`. NULLs have no match. Arrow hashes all values."""
    indexes = pc.index_in(rows, value_set=values, skip_nulls=True).fill_null(_NO_MATCH)
    return np.array(indexes, dtype=np.int64)  # a copy that can be changed


def _are_distinct(column: KeyColumn, row_values: pa.ChunkedArray) -> bool:
    """Return whether the keys of all rows are different. NULLs are considered equal only if the key matches NULL."""
    null_count = row_values.null_count
    return len(row_values) - null_count == len(column.values) and not (column.matches_null and null_count > 1)


def _matching_codes(codes: NumpyArray) -> tuple[NumpyArray, NumpyArray]:
    """Return the indexes of the codes other than `_NO_MATCH`, and the codes at these indexes. [5, -1, 7] leads to [0, 2] and [5, 7]."""
    indexes = np.flatnonzero(codes >= 0)
    return indexes, codes[indexes]


def _only_value(column: pa.ChunkedArray) -> pa.Scalar | None:
    """Return the value that all rows have. None if the rows differ or a row is NULL."""
    if not len(column) or column.null_count or column[0] != column[-1]:
        return None
    bounds = pc.min_max(column)
    return column[0] if bounds["min"] == bounds["max"] else None


def _index_in_sorted(values: NumpyArray, sorted_values: NumpyArray) -> NumpyArray:
    """Return the index of each value in `sorted_values`, or `_NO_MATCH` for a value that does not occur there."""
    if not len(sorted_values):
        return np.full(len(values), _NO_MATCH, dtype=np.int64)
    indexes = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    return np.where(sorted_values[indexes] == values, indexes, _NO_MATCH)
