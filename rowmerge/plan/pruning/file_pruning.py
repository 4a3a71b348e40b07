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


def file_mask(
    conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], *, case_sensitive: bool = False
) -> tuple[FileMask, tuple[str, ...]]:
    """Return the mask of the files that may hold a row for which all conjuncts are true, and the columns whose bounds the mask needs.

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


def key_mask(
    column: str, op: str, values: pa.Array, has_null: bool, schema: Struct, partition_columns: Collection[str]
) -> tuple[FileMask, tuple[str, ...]]:
    """Return the mask of the files that may hold a row with `column op v` for a value v (or NULL, with <=> and `has_null`).

    `values` are non-null and of the column's type; `op` is one of = <=> < <= > >=. For equality a file counts only if a value lies
    within its bounds, not merely within the range of all values. The second result is the columns whose bounds the mask needs.
    """
    field = _comparable_field(column, schema)
    keys = None if field is None else _comparison_keys(values, field)
    if field is None or keys is None:
        return everything, ()
    numbers = keys.filter(pc.invert(pc.is_nan(keys))) if pa.types.is_floating(keys.type) else keys
    if op in ("=", "<=>") and len(numbers):
        return _column_mask(field, partition_columns, op == "<=>" and has_null, lambda extent: bounds.holds_one_of(extent, numbers))
    low, high = pc.min_max(numbers).values()
    if len(numbers) < len(keys):
        high = pa.scalar(math.nan, numbers.type)  # NaN is above all numbers, as in Spark
        low = low if len(numbers) else high
    return range_mask(column, op, low, high, has_null, schema, partition_columns)


def range_mask(
    column: str, op: str, low: pa.Scalar | None, high: pa.Scalar | None, has_null: bool, schema: Struct, partition_columns: Collection[str]
) -> tuple[FileMask, tuple[str, ...]]:
    """Return what `key_mask` does, from the least and the greatest value only. These are None or null if NULL is the only value."""
    field = _comparable_field(column, schema)
    if field is None:
        return everything, ()
    nulls_match = op == "<=>" and has_null
    if low is None or high is None or not (low.is_valid and high.is_valid):
        return _column_mask(field, partition_columns, nulls_match, lambda extent: extent.no_file)
    ends = _comparison_keys(pa.array([low, high], low.type), field)
    if ends is None:
        return everything, ()
    return _column_mask(field, partition_columns, nulls_match, lambda extent: _bounds_allow(extent, op, ends[0], ends[1]))


def everything(files: FileListing) -> pa.Array:
    """Return true for every file."""
    return Listing(files).constantly(True)


def nothing(files: FileListing) -> pa.Array:
    """Return false for every file."""
    return Listing(files).constantly(False)


def all_of(masks: Sequence[FileMask]) -> FileMask:
    """Return the mask of the files that every mask is true for."""
    return lambda files: reduce(pc.and_, (whole(mask(files)) for mask in masks), everything(files))


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
) -> tuple[FileMask, tuple[str, ...]]:
    is_partition = field.name in partition_columns

    def mask(files: FileListing) -> pa.Array:
        column = Listing(files).extent(field, is_partition)
        may_match = may_hold(column, test(column))
        return pc.or_(may_match, column.has_nulls) if nulls_match else may_match

    return mask, () if is_partition else (field.name,)


def _bounds_allow(column: Extent, op: str, low: pa.Scalar, high: pa.Scalar) -> pa.Array | None:
    """Return for each file whether its bounds allow `column op v` for a v from low to high; None if they cannot exclude a file."""
    is_unbounded = pa.types.is_floating(high.type) and math.isnan(high.as_py())  # NaN is above all numbers, as in Spark
    match op:
        case ">":
            return pc.greater(column.upper, low)
        case ">=":
            return pc.greater_equal(column.upper, low)
        case "<" | "<=" if is_unbounded:
            return None
        case "<":
            return pc.less(column.lower, high)
        case "<=":
            return pc.less_equal(column.lower, high)
    reaches_low = pc.greater_equal(column.upper, low)
    # A file with bounds has no NaN, so the numbers are compared with low alone.
    return reaches_low if is_unbounded else pc.and_kleene(pc.less_equal(column.lower, high), reaches_low)
