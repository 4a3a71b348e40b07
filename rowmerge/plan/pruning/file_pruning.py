"""File pruning: masks that select the files whose partition values, bounds and null counts allow a condition or a join key.

A mask is never false for a file with a matching row. An unsupported condition or type does not exclude any file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.plan.bounds import bounds
from rowmerge.plan.bounds.bounds import ColumnBounds, as_array, comparable, comparison_field, in_comparison_type, may_contain_match
from rowmerge.plan.bounds.file_bounds import FileBounds
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.predicates.predicates import conjunction, to_predicate
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.snapshots.files import FileListing, FileMask, listing_schema

_LOWER_BOUND_TESTS = {"=": pc.less_equal, "<=>": pc.less_equal, "<": pc.less, "<=": pc.less_equal}
"""The comparison of a column's lower bound with the greatest key, by operator. Other operators do not test the lower bound."""
_UPPER_BOUND_TESTS = {"=": pc.greater_equal, "<=>": pc.greater_equal, ">": pc.greater, ">=": pc.greater_equal}
"""The comparison of a column's upper bound with the least key, by operator. Other operators do not test the upper bound."""


class BoundsMask(NamedTuple):
    """A mask of files, and the names of the columns whose lower and upper bounds the mask reads."""

    mask: FileMask
    bound_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeyRange:
    """The least and the greatest key of a source, in the column's type. `has_null`: whether NULL is a key too.

    If the source has no key except NULL, `least` and `greatest` are None or null scalars.
    """

    least: pa.Scalar | None
    greatest: pa.Scalar | None
    has_null: bool

    def least_and_greatest(self) -> pa.Array | None:
        """Return an array of the least and the greatest key, or None if the source has no key except NULL."""
        if self.least is None or self.greatest is None or not (self.least.is_valid and self.greatest.is_valid):
            return None
        return pa.array([self.least, self.greatest], self.least.type)


def file_mask(
    conjuncts: Sequence[str],
    side: Side,
    schema: Struct,
    partition_columns: Collection[str],
    *,
    case_sensitive: bool = False,
    time_zone: str | None = None,
) -> BoundsMask:
    """Return the mask of the files that may contain a row for which all conjuncts are true (data skipping).

    A mask is a function that returns a boolean for each file of a listing. It is evaluated later, when the listing has been read.

    Args:
        conjuncts: SQL conditions on columns of `side`. A file must be read only if all conditions may be true for one of its rows.
        side: The table's alias and column names, by which the conditions refer to the table.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.
        case_sensitive: Whether the names in the conditions are case-sensitive.
        time_zone: The name of the session's time zone, or None if it is unknown or if Spark may have other rules for it than Python.

    Returns:
        The mask, and the names of the columns whose bounds it reads, except partition columns.
    """
    predicate = conjunction(
        to_predicate(text, side, schema, partition_columns, case_sensitive=case_sensitive, time_zone=time_zone) for text in conjuncts
    )
    bound_columns = tuple(name for name in schema.names if name in predicate.columns and name not in partition_columns)
    return BoundsMask(lambda files: predicate.evaluate(FileBounds(files)).may_be_true, bound_columns)


def exact_partition_mask(
    conjuncts: Sequence[str],
    side: Side,
    schema: Struct,
    partition_columns: Collection[str],
    *,
    case_sensitive: bool = False,
    time_zone: str | None = None,
) -> FileMask | None:
    """Return the mask of the files in which all conjuncts are true for each row.

    Args:
        conjuncts: SQL conditions on columns of `side`. Without conjuncts, the mask is true for every file.
        side: The table's alias and column names, by which the conditions refer to the table.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.
        case_sensitive: Whether the names in the conditions are case-sensitive.
        time_zone: The name of the session's time zone, or None if it is unknown or if Spark may have other rules for it than Python.

    Returns:
        The mask, or None if a conjunct is not fully supported or uses a column that is not a partition column. In that case, the conjuncts
        may be true for only some rows of a file.
    """
    predicate = conjunction(
        to_predicate(text, side, schema, partition_columns, case_sensitive=case_sensitive, time_zone=time_zone) for text in conjuncts
    )
    if not predicate.is_exact:
        return None

    def mask(files: FileListing) -> pa.Array:
        verdict = predicate.evaluate(FileBounds(files))
        # A condition that is NULL for the rows of a file is neither true nor false.
        return pc.and_(verdict.may_be_true, pc.invert(verdict.may_be_false))

    return mask


def rejects_null_row(condition: str, side: Side, schema: Struct, *, case_sensitive: bool = False, time_zone: str | None = None) -> bool:
    """Return whether a condition is certainly not true for a row whose columns are all NULL.

    An outer join returns such rows for the side without a match. A WHERE clause with the condition removes them, so that the join has the
    same result as an inner join.

    Args:
        condition: A SQL condition on columns of `side`.
        side: The table's alias and column names, by which the condition refers to the table.
        schema: The columns of the table.
        case_sensitive: Whether the names in the condition are case-sensitive.
        time_zone: The name of the session's time zone, or None if it is unknown or if Spark may have other rules for it than Python.
    """
    predicate = to_predicate(condition, side, schema, (), case_sensitive=case_sensitive, time_zone=time_zone)
    return not predicate.evaluate(FileBounds(_file_of_nulls(predicate.columns))).may_be_true[0].as_py()


def _file_of_nulls(columns: Collection[str]) -> FileListing:
    """Return a listing of one file with one row, in which the columns are NULL."""
    empty, null_counts = pa.struct([]), pa.struct([(name, pa.int64()) for name in columns])
    file = {"path": "", "size": 0, "records": 1, "deleted": 0, "nulls": dict.fromkeys(columns, 1)}
    return FileListing(pa.Table.from_pylist([file], listing_schema(empty, empty, null_counts)))


def key_mask(
    path: Sequence[str], op: str, values: pa.Array, has_null: bool, schema: Struct, partition_columns: Collection[str]
) -> BoundsMask:
    """Return the mask of the files that may contain a row with `column op key` for at least one key of a source.

    The keys are the values of the source's side of a join condition.

    Args:
        path: The name of the target's column, followed by the names of nested fields.
        op: One of `=`, `<=>`, `<`, `<=`, `>` and `>=`.
        values: The keys except NULL, in the column's type.
        has_null: Whether the source has a NULL key.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.

    Returns:
        The mask, and the name of the column if the mask reads its bounds. If these bounds cannot be compared, the mask is true for every
        file.
    """
    column = _BoundedColumn.of(path, schema, partition_columns)
    keys = None if column is None else _comparison_keys(values, column.field)
    if column is None or keys is None:
        return BoundsMask(every_file)
    keys_without_nan = keys.filter(pc.invert(pc.is_nan(keys))) if pa.types.is_floating(keys.type) else keys
    if op in ("=", "<=>") and len(keys_without_nan):
        return _equal_key_mask(column, keys_without_nan, nulls_match=op == "<=>" and has_null)
    # A value is less than some key if it is less than the greatest key. It is greater than some key if it is greater than the least key.
    least, greatest = _least_and_greatest(keys_without_nan, has_nan=len(keys_without_nan) < len(keys))
    return range_mask(path, op, KeyRange(least, greatest, has_null), schema, partition_columns)


def _equal_key_mask(column: _BoundedColumn, keys: pa.Array, *, nulls_match: bool) -> BoundsMask:
    """Return the mask of the files that may contain a row whose value equals one of the keys.

    Each key is tested, because keys can lie far apart: from 1 to 900, the keys 1 and 900 exclude files that their range includes. `keys`:
    the keys except NULL and NaN. The key NaN needs no test, because a file with a NaN has no bounds and is never excluded.
    """
    return _column_mask(column, nulls_match, lambda column_bounds: bounds.holds_one_of(column_bounds, keys))


def _least_and_greatest(keys_without_nan: pa.Array, *, has_nan: bool) -> tuple[pa.Scalar, pa.Scalar]:
    """Return the least and the greatest key, or null scalars if there are no keys.

    `has_nan`: whether NaN is a key too, which is greater than all numbers, as in Spark.
    """
    least, greatest = pc.min_max(keys_without_nan).values()
    if not has_nan:
        return least, greatest
    not_a_number = pa.scalar(math.nan, keys_without_nan.type)
    return (least if len(keys_without_nan) else not_a_number), not_a_number


def range_mask(path: Sequence[str], op: str, keys: KeyRange, schema: Struct, partition_columns: Collection[str]) -> BoundsMask:
    """Return the mask of the files that may contain a row with `column op key` for a key from the least to the greatest key.

    For `=` and the keys from 3 to 9, a file with the bounds 7 and 20 may contain such a row. One with the bounds 10 and 20 does not.

    Args:
        path: The name of the target's column, followed by the names of nested fields.
        op: One of `=`, `<=>`, `<`, `<=`, `>` and `>=`.
        keys: The least and the greatest key of the source, and whether NULL is a key.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.

    Returns:
        The mask, and the name of the column if the mask reads its bounds. If these bounds cannot be compared, the mask is true for every
        file.
    """
    column = _BoundedColumn.of(path, schema, partition_columns)
    if column is None:
        return BoundsMask(every_file)
    nulls_match = op == "<=>" and keys.has_null
    key_range = keys.least_and_greatest()
    if key_range is None:  # every key is NULL, so no value of a file matches, but its NULLs can
        return _column_mask(column, nulls_match, lambda column_bounds: column_bounds.false_for_all_files)
    comparison_range = _comparison_keys(key_range, column.field)  # the same two keys, in the type of the bounds
    if comparison_range is None:
        return BoundsMask(every_file)
    least, greatest = comparison_range
    return _column_mask(column, nulls_match, lambda column_bounds: _bounds_allow(column_bounds, op, least, greatest))


def overlap_shares(column: str, files: FileListing, schema: Struct, partition_columns: Collection[str]) -> np.ndarray[Any, Any]:
    """Return for each file the share of the other files whose range of a column overlaps its own, from 0 to 1.

    The keys of a join hardly exclude files with the share 1, because each of these files can contain most keys.

    Args:
        column: The name of the column.
        files: The files.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.

    Returns:
        The shares. They are 1 for files with unknown bounds, and 0 for a column with buckets, by which keys can exclude files.
    """
    key_column, others = _BoundedColumn.of((column,), schema, partition_columns), max(1, len(files) - 1)
    if key_column is None:
        return np.ones(len(files))
    bounds_of_column = key_column.bounds(files)
    lower, upper = bounds_of_column.lower, bounds_of_column.upper
    if bounds_of_column.buckets or not len(files):
        return np.zeros(len(files))
    ranks = pc.rank(pa.concat_arrays([lower, upper]), tiebreaker="dense").to_numpy()
    lower_ranks, upper_ranks = np.split(ranks, 2)
    is_known = pc.and_(pc.is_valid(lower), pc.is_valid(upper)).to_numpy(zero_copy_only=False)
    files_below = np.searchsorted(np.sort(upper_ranks[is_known]), lower_ranks, "left")
    files_above = is_known.sum() - np.searchsorted(np.sort(lower_ranks[is_known]), upper_ranks, "right")
    shares: np.ndarray[Any, Any] = np.where(is_known, 1 - (files_below + files_above) / others, 1.0)
    return shares


def every_file(files: FileListing) -> pa.Array:
    """Return a mask that is true for every file."""
    return FileBounds(files).for_all_files(True)


def no_file(files: FileListing) -> pa.Array:
    """Return a mask that is false for every file."""
    return FileBounds(files).for_all_files(False)


def all_of(masks: Sequence[FileMask]) -> FileMask:
    """Return the mask of the files for which all masks are true."""
    return lambda files: reduce(pc.and_, (as_array(mask(files)) for mask in masks), every_file(files))


@dataclass(frozen=True)
class _BoundedColumn:
    """A column or nested field whose bounds can be compared with keys. `is_partition`: whether its bounds come from partition values."""

    path: tuple[str, ...]
    field: Field
    is_partition: bool

    @staticmethod
    def of(path: Sequence[str], schema: Struct, partition_columns: Collection[str]) -> _BoundedColumn | None:
        """Return the column or nested field at a path, or None if its bounds cannot be compared with keys."""
        field = comparison_field(schema, path)
        if field is None or not comparable(field):
            return None
        return _BoundedColumn(tuple(path), field, len(path) == 1 and field.name in partition_columns)

    def bounds(self, files: FileListing) -> ColumnBounds:
        """Return the bounds in each file."""
        file_bounds = FileBounds(files)
        return file_bounds.of_column(self.field, self.is_partition) if len(self.path) == 1 else file_bounds.of_nested(self.path, self.field)


def _comparison_keys(values: pa.Array | pa.ChunkedArray, field: Field) -> pa.Array | None:
    """Return the keys except NULL in the comparison type of a column, or None if they cannot be cast."""
    keys = in_comparison_type(pc.drop_null(values), field)
    return None if keys is None else as_array(keys)


def _column_mask(column: _BoundedColumn, nulls_match: bool, test_bounds: Callable[[ColumnBounds], pa.Array]) -> BoundsMask:
    """Return the mask of the files that pass a test of a column's bounds, or that may contain NULL if `nulls_match` is set.

    If the test returns [true, false, null] for three files, the first may match and the second cannot. The bounds of the third are unknown,
    so it may match too. If only the second file has a NULL in the column, the mask is [true, `nulls_match`, true].

    Args:
        column: The column.
        nulls_match: Whether a NULL in the column matches a key, which is NULL too.
        test_bounds: A function that returns for each file whether its bounds allow a match: true, false, or null for unknown.
    """

    def mask(files: FileListing) -> pa.Array:
        column_bounds = column.bounds(files)
        may_match = may_contain_match(column_bounds, test_bounds(column_bounds))
        return pc.or_(may_match, column_bounds.has_nulls) if nulls_match else may_match

    # A partition column has values in the log instead of bounds.
    return BoundsMask(mask, () if column.is_partition else column.path[:1])


def _bounds_allow(column: ColumnBounds, op: str, least: pa.Scalar, greatest: pa.Scalar) -> pa.Array:
    """Return for each file whether its bounds allow `column op key` for a key from the least to the greatest key.

    `column < key` is possible if the lower bound is less than the greatest key, and `column > key` if the upper bound is greater than the
    least key. `=` needs both tests, with equality. The result is null for a file with unknown bounds. It is null for all files if no bound
    excludes a file, as for `column < NaN`, because NaN is greater than every number.
    """
    bound_tests = []
    # NaN is greater than all numbers, as in Spark. So if it is the greatest key, no lower bound is greater than the keys.
    has_nan = pa.types.is_floating(greatest.type) and math.isnan(greatest.as_py())
    if op in _LOWER_BOUND_TESTS and not has_nan:
        bound_tests.append(_LOWER_BOUND_TESTS[op](column.lower, greatest))
    if op in _UPPER_BOUND_TESTS:
        bound_tests.append(_UPPER_BOUND_TESTS[op](column.upper, least))
    return reduce(pc.and_kleene, bound_tests) if bound_tests else pa.nulls(len(column.lower), pa.bool_())
