"""Which files can hold rows of interest: conditions and key values against partition values, bounds and null counts.

A mask is never false for a file with a row that counts. Whatever is not understood prunes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.plan.expressions.conditions import Side
from rowmerge.plan.pruning import bounds
from rowmerge.plan.pruning.bounds import Extent, Listing, comparable, in_comparison_type, may_hold, whole
from rowmerge.plan.pruning.predicates import Predicate, conjunction, understand
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.snapshots.files import FileListing, FileMask

_LOWER_BOUND_TESTS = {"=": pc.less_equal, "<=>": pc.less_equal, "<": pc.less, "<=": pc.less_equal}
"""By operator, what the lower bound of a column must be to the highest key. It does not matter for other operators."""
_UPPER_BOUND_TESTS = {"=": pc.greater_equal, "<=>": pc.greater_equal, ">": pc.greater, ">=": pc.greater_equal}
"""By operator, what the upper bound of a column must be to the lowest key. It does not matter for other operators."""

BoundsMask = tuple[FileMask, tuple[str, ...]]
"""A mask, and the columns whose bounds it needs."""


def file_mask(
    conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], *, case_sensitive: bool = False
) -> BoundsMask:
    """Return the mask of the files that may hold a row for which all conjuncts are true.

    A conjunct is SQL over the columns of `side`, whose types `schema` has.
    """
    predicate = _all(conjuncts, side, schema, partition_columns, case_sensitive)
    bound_columns = tuple(name for name in schema.names if name in predicate.columns and name not in partition_columns)
    return lambda files: predicate.judge(Listing(files)).true, bound_columns


def exact_partition_mask(
    conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], *, case_sensitive: bool = False
) -> FileMask | None:
    """Return the mask of the files in which every row makes all conjuncts true. Without conjuncts these are all files.

    Returns None if a conjunct is not fully understood or uses other than partition columns: files may then match in part.
    """
    predicate = _all(conjuncts, side, schema, partition_columns, case_sensitive)
    if not predicate.exact:
        return None

    def mask(files: FileListing) -> pa.Array:
        verdict = predicate.judge(Listing(files))
        return pc.and_(verdict.true, pc.invert(verdict.false))

    return mask


def key_mask(column: str, op: str, values: pa.Array, has_null: bool, schema: Struct, partition_columns: Collection[str]) -> BoundsMask:
    """Return the mask of the files that may hold a row with `column op key` for one of a source's keys.

    `values`: the keys, non-null, of the column's type; `op`: one of = <=> < <= > >=; `has_null`: the source has a NULL key too.
    """
    field = _comparable_field(column, schema)
    keys = None if field is None else _comparison_keys(values, field)
    if field is None or keys is None:
        return every_file, ()
    keys_but_nan = keys.filter(pc.invert(pc.is_nan(keys))) if pa.types.is_floating(keys.type) else keys
    if op in ("=", "<=>") and len(keys_but_nan):
        # Keys may lie far apart, so a file counts only with one of them within its bounds. A file with bounds has no NaN.
        nulls_match = op == "<=>" and has_null
        return _column_mask(field, partition_columns, nulls_match, lambda extent: bounds.holds_one_of(extent, keys_but_nan))
    least, greatest = _least_and_greatest(keys_but_nan, has_nan=len(keys_but_nan) < len(keys))
    return range_mask(column, op, least, greatest, has_null, schema, partition_columns)


def _least_and_greatest(keys: pa.Array, *, has_nan: bool) -> tuple[pa.Scalar, pa.Scalar]:
    """Return the least and the greatest of the keys, and of NaN if `has_nan`, which is above all numbers as in Spark."""
    least, greatest = pc.min_max(keys).values()
    if not has_nan:
        return least, greatest
    not_a_number = pa.scalar(math.nan, keys.type)
    return (least if len(keys) else not_a_number), not_a_number


def range_mask(
    column: str, op: str, low: pa.Scalar | None, high: pa.Scalar | None, has_null: bool, schema: Struct, partition_columns: Collection[str]
) -> BoundsMask:
    """Return what `key_mask` does, from the least and the greatest key only. These are None or null if NULL is the only key."""
    field = _comparable_field(column, schema)
    if field is None:
        return every_file, ()
    nulls_match = op == "<=>" and has_null
    if low is None or high is None or not (low.is_valid and high.is_valid):
        return _column_mask(field, partition_columns, nulls_match, lambda extent: extent.no_file)
    low_and_high = _comparison_keys(pa.array([low, high], low.type), field)
    if low_and_high is None:
        return every_file, ()
    return _column_mask(field, partition_columns, nulls_match, lambda extent: _bounds_allow(extent, op, *low_and_high))


def every_file(files: FileListing) -> pa.Array:
    """Return true for every file."""
    return Listing(files).constantly(True)


def no_file(files: FileListing) -> pa.Array:
    """Return false for every file."""
    return Listing(files).constantly(False)


def all_of(masks: Sequence[FileMask]) -> FileMask:
    """Return the mask of the files that every mask is true for."""
    return lambda files: reduce(pc.and_, (whole(mask(files)) for mask in masks), every_file(files))


def _all(conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], case_sensitive: bool) -> Predicate:
    return conjunction(understand(text, side, schema, partition_columns, case_sensitive=case_sensitive) for text in conjuncts)


def _comparable_field(column: str, schema: Struct) -> Field | None:
    field = schema.find(column, case_sensitive=True)
    return field if field is not None and comparable(field) else None


def _comparison_keys(values: pa.Array | pa.ChunkedArray, field: Field) -> pa.Array | None:
    keys = in_comparison_type(pc.drop_null(values), field)
    return None if keys is None else whole(keys)


def _column_mask(
    field: Field, partition_columns: Collection[str], nulls_match: bool, test: Callable[[Extent], pa.Array | None]
) -> BoundsMask:
    """Return the mask of the files that may hold a value for which a test of the column's bounds is true, or NULL if `nulls_match`."""
    is_partition = field.name in partition_columns

    def mask(files: FileListing) -> pa.Array:
        column = Listing(files).extent(field, is_partition)
        may_match = may_hold(column, test(column))
        return pc.or_(may_match, column.has_nulls) if nulls_match else may_match

    return mask, () if is_partition else (field.name,)


def _bounds_allow(column: Extent, op: str, low: pa.Scalar, high: pa.Scalar) -> pa.Array | None:
    """Return for each file whether its bounds allow `column op key` for a key from low to high; None if they exclude no file."""
    bound_tests = []
    # NaN is above all numbers, as in Spark. So if it is the highest key, no lower bound is above the keys.
    has_nan = pa.types.is_floating(high.type) and math.isnan(high.as_py())
    if op in _LOWER_BOUND_TESTS and not has_nan:
        bound_tests.append(_LOWER_BOUND_TESTS[op](column.lower, high))
    if op in _UPPER_BOUND_TESTS:
        bound_tests.append(_UPPER_BOUND_TESTS[op](column.upper, low))
    return reduce(pc.and_kleene, bound_tests) if bound_tests else None
