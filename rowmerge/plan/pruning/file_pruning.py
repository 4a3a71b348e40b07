"""File pruning: masks that select the files whose partition values, bounds and null counts allow a condition or a join key.

A mask is never false for a file with a matching row. An unsupported condition or type does not exclude any file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.plan.expressions.conditions import Side
from rowmerge.plan.pruning import bounds
from rowmerge.plan.pruning.bounds import ColumnBounds, FileBounds, as_array, comparable, in_comparison_type, may_hold
from rowmerge.plan.pruning.predicates import Predicate, conjunction, to_predicate
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.snapshots.files import FileListing, FileMask

_LOWER_BOUND_TESTS = {"=": pc.less_equal, "<=>": pc.less_equal, "<": pc.less, "<=": pc.less_equal}
"""The comparison of a column's lower bound with the greatest key, by operator. Other operators do not test the lower bound."""
_UPPER_BOUND_TESTS = {"=": pc.greater_equal, "<=>": pc.greater_equal, ">": pc.greater, ">=": pc.greater_equal}
"""The comparison of a column's upper bound with the least key, by operator. Other operators do not test the upper bound."""


class BoundsMask(NamedTuple):
    """A mask of files, and the names of the columns whose lower and upper bounds the mask reads."""

    mask: FileMask
    bound_columns: tuple[str, ...] = ()


def file_mask(
    conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], *, case_sensitive: bool = False
) -> BoundsMask:
    """Return the mask of the files that may contain a row for which all conjuncts are true (data skipping).

    A mask is a function that returns a boolean for each file of a listing. It is evaluated later, when the listing has been read.

    Args:
        conjuncts: SQL conditions on columns of `side`. A file must be read only if all conditions may be true for one of its rows.
        side: The table's alias and column names, by which the conditions refer to the table.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.
        case_sensitive: Whether the names in the conditions are case-sensitive.

    Returns:
        The mask, and the names of the columns whose bounds it reads, except partition columns.
    """
    predicate = _predicate(conjuncts, side, schema, partition_columns, case_sensitive)
    bound_columns = tuple(name for name in schema.names if name in predicate.columns and name not in partition_columns)
    return BoundsMask(lambda files: predicate.judge(FileBounds(files)).may_be_true, bound_columns)


def exact_partition_mask(
    conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], *, case_sensitive: bool = False
) -> FileMask | None:
    """Return the mask of the files in which all conjuncts are true for each row.

    Args:
        conjuncts: SQL conditions on columns of `side`. Without conjuncts, the mask is true for every file.
        side: The table's alias and column names, by which the conditions refer to the table.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.
        case_sensitive: Whether the names in the conditions are case-sensitive.

    Returns:
        The mask, or None if a conjunct is not fully supported or uses a column that is not a partition column. In that case, the conjuncts
        may be true for only some rows of a file.
    """
    predicate = _predicate(conjuncts, side, schema, partition_columns, case_sensitive)
    if not predicate.exact:
        return None

    def mask(files: FileListing) -> pa.Array:
        verdict = predicate.judge(FileBounds(files))
        # A condition that is NULL for the rows of a file is neither true nor false.
        return pc.and_(verdict.may_be_true, pc.invert(verdict.may_be_false))

    return mask


def key_mask(column: str, op: str, values: pa.Array, has_null: bool, schema: Struct, partition_columns: Collection[str]) -> BoundsMask:
    """Return the mask of the files that may contain a row with `column op key` for at least one key of a source.

    The keys are the values of the source's side of a join condition. NULL and NaN never lie within bounds, so separate rules apply to
    them. A NULL key matches only with `<=>`, in files that may contain NULL. NaN is greater than all numbers, and a file with a NaN has no
    bounds.

    Args:
        column: The name of the target's column.
        op: One of `=`, `<=>`, `<`, `<=`, `>` and `>=`.
        values: The keys except NULL, in the column's type.
        has_null: Whether the source has a NULL key.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.

    Returns:
        The mask, and the name of the column if the mask reads its bounds. If these bounds cannot be compared, the mask is true for every
        file.
    """
    field = _comparable_field(column, schema)
    keys = None if field is None else _comparison_keys(values, field)
    if field is None or keys is None:
        return BoundsMask(every_file)
    ordinary_keys = keys.filter(pc.invert(pc.is_nan(keys))) if pa.types.is_floating(keys.type) else keys  # without NaN
    if op in ("=", "<=>") and len(ordinary_keys):
        # A file with a NaN has no bounds and is never excluded, so the key NaN needs no test.
        # Keys can lie far apart, so their range alone would exclude fewer files than each of them.
        nulls_match = op == "<=>" and has_null
        return _column_mask(field, partition_columns, nulls_match, lambda column_bounds: bounds.holds_one_of(column_bounds, ordinary_keys))
    # For `<` and the like, a row matches some key if it matches the least or the greatest key.
    least, greatest = _least_and_greatest(ordinary_keys, has_nan=len(ordinary_keys) < len(keys))
    return range_mask(column, op, least, greatest, has_null, schema, partition_columns)


def _least_and_greatest(ordinary_keys: pa.Array, *, has_nan: bool) -> tuple[pa.Scalar, pa.Scalar]:
    """Return the least and the greatest key, or null scalars if there are no keys.

    `ordinary_keys`: the keys except NaN. `has_nan`: whether NaN is a key too, which is greater than all numbers, as in Spark.
    """
    least, greatest = pc.min_max(ordinary_keys).values()
    if not has_nan:
        return least, greatest
    not_a_number = pa.scalar(math.nan, ordinary_keys.type)
    return (least if len(ordinary_keys) else not_a_number), not_a_number


def range_mask(
    column: str, op: str, low: pa.Scalar | None, high: pa.Scalar | None, has_null: bool, schema: Struct, partition_columns: Collection[str]
) -> BoundsMask:
    """Return the mask of the files that may contain a row with `column op key` for a key from the least to the greatest key.

    Args:
        column: The name of the target's column.
        op: One of `=`, `<=>`, `<`, `<=`, `>` and `>=`.
        low: The least key, in the column's type. None or a null scalar if the source has no key except NULL.
        high: The greatest key, under the same rules as `low`.
        has_null: Whether the source has a NULL key.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.

    Returns:
        The mask, and the name of the column if the mask reads its bounds. If these bounds cannot be compared, the mask is true for every
        file.
    """
    field = _comparable_field(column, schema)
    if field is None:
        return BoundsMask(every_file)
    nulls_match = op == "<=>" and has_null
    if low is None or high is None or not (low.is_valid and high.is_valid):
        # The only key is NULL, so only the NULLs of a file can match.
        return _column_mask(field, partition_columns, nulls_match, lambda column_bounds: column_bounds.no_file)
    key_range = _comparison_keys(pa.array([low, high], low.type), field)
    if key_range is None:
        return BoundsMask(every_file)
    return _column_mask(field, partition_columns, nulls_match, lambda column_bounds: _bounds_allow(column_bounds, op, *key_range))


def every_file(files: FileListing) -> pa.Array:
    """Return a mask that is true for every file."""
    return FileBounds(files).for_all_files(True)


def no_file(files: FileListing) -> pa.Array:
    """Return a mask that is false for every file."""
    return FileBounds(files).for_all_files(False)


def all_of(masks: Sequence[FileMask]) -> FileMask:
    """Return the mask of the files for which all masks are true."""
    return lambda files: reduce(pc.and_, (as_array(mask(files)) for mask in masks), every_file(files))


def _predicate(conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], case_sensitive: bool) -> Predicate:
    """Return the predicate of the AND of all conjuncts."""
    return conjunction(to_predicate(text, side, schema, partition_columns, case_sensitive=case_sensitive) for text in conjuncts)


def _comparable_field(column: str, schema: Struct) -> Field | None:
    """Return a column by name, or None if its bounds cannot be compared with keys."""
    field = schema.find(column, case_sensitive=True)
    return field if field is not None and comparable(field) else None


def _comparison_keys(values: pa.Array | pa.ChunkedArray, field: Field) -> pa.Array | None:
    """Return the keys except NULL in the comparison type of a column, or None if they cannot be cast."""
    keys = in_comparison_type(pc.drop_null(values), field)
    return None if keys is None else as_array(keys)


def _column_mask(
    field: Field, partition_columns: Collection[str], nulls_match: bool, test_bounds: Callable[[ColumnBounds], pa.Array | None]
) -> BoundsMask:
    """Return the mask of the files that pass a test of a column's bounds. If `nulls_match` is set, files with possible NULLs pass too.

    `test_bounds`: a function that returns for each file whether its bounds allow a match, or None if the bounds do not exclude any file.
    The function's result is null for a file with unknown bounds, which then passes.
    """
    is_partition = field.name in partition_columns

    def mask(files: FileListing) -> pa.Array:
        column_bounds = FileBounds(files).of_column(field, is_partition)
        may_match = may_hold(column_bounds, test_bounds(column_bounds))
        return pc.or_(may_match, column_bounds.has_nulls) if nulls_match else may_match

    # A partition column has values in the log instead of bounds.
    return BoundsMask(mask, () if is_partition else (field.name,))


def _bounds_allow(column: ColumnBounds, op: str, low: pa.Scalar, high: pa.Scalar) -> pa.Array | None:
    """Return for each file whether its bounds allow `column op key` for a key from `low` to `high`.

    Returns None if the bounds do not exclude any file.
    """
    bound_tests = []
    # NaN is greater than all numbers, as in Spark. So if it is the greatest key, no lower bound is greater than the keys.
    has_nan = pa.types.is_floating(high.type) and math.isnan(high.as_py())
    if op in _LOWER_BOUND_TESTS and not has_nan:
        bound_tests.append(_LOWER_BOUND_TESTS[op](column.lower, high))
    if op in _UPPER_BOUND_TESTS:
        bound_tests.append(_UPPER_BOUND_TESTS[op](column.upper, low))
    return reduce(pc.and_kleene, bound_tests) if bound_tests else None
