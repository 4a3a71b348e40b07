"""Which files can hold rows of interest: conditions and key values against partition values, bounds and null counts.

A mask is never false for a file with a row that counts. Whatever is not understood prunes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.plan.expressions.conditions import Side
from rowmerge.plan.pruning import bounds
from rowmerge.plan.pruning.bounds import Extent, Listing, comparable, may_hold, whole
from rowmerge.plan.pruning.literals import comparison_type
from rowmerge.plan.pruning.predicates import Predicate, conjunction, understand
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.snapshots.files import FileListing, FileMask


def file_mask(
    conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], *, case_sensitive: bool = False
) -> tuple[FileMask, tuple[str, ...]]:
    """The files that may hold a row for which all conjuncts are true, and the columns whose bounds the mask needs in its listing.

    A conjunct is SQL over the columns of `side`, whose types `schema` has.
    """
    predicate = _all(conjuncts, side, schema, partition_columns, case_sensitive)
    needs = tuple(name for name in schema.names if name in predicate.columns and name not in partition_columns)
    return lambda files: predicate.judge(Listing(files)).true, needs


def exact_partition_mask(
    conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], *, case_sensitive: bool = False
) -> FileMask | None:
    """The files all of whose rows make all conjuncts true, when the conjuncts are about partition columns only and fully understood.

    None when they are not: then some files may be partly in. No conjuncts at all are true everywhere.
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
    """The files that may hold a row with `column op v` for one of the values v (or for NULL, with <=> and `has_null`).

    `values`: non-null, of the column's type. `op`: one of = <=> < <= > >=. For equality a file counts only when a value lies within
    its bounds, not merely within the range of all values.
    """
    field = _comparable(column, schema)
    known = None if field is None else _in_comparison_type(values, field)
    if field is None or known is None:
        return everything, ()
    floating = pa.types.is_floating(known.type)
    numbers = known.filter(pc.invert(pc.is_nan(known))) if floating else known
    if op not in ("=", "<=>") or not len(numbers):
        ends = pc.min_max(numbers)
        greatest = pa.scalar(math.nan, known.type) if len(numbers) < len(known) else ends["max"]
        return range_mask(column, op, ends["min"] if len(numbers) else greatest, greatest, has_null, schema, partition_columns)
    return _column_mask(field, partition_columns, op == "<=>" and has_null, lambda extent: bounds.holds_one_of(extent, numbers))


def range_mask(
    column: str,
    op: str,
    low: pa.Scalar | None,
    high: pa.Scalar | None,
    has_null: bool,
    schema: Struct,
    partition_columns: Collection[str],
) -> tuple[FileMask, tuple[str, ...]]:
    """As `key_mask`, when only the least and the greatest value are known; None or null scalars when there is no value but NULL."""
    field = _comparable(column, schema)
    if field is None:
        return everything, ()
    nulls_match = op == "<=>" and has_null
    if low is None or high is None or not (low.is_valid and high.is_valid):
        return _column_mask(field, partition_columns, nulls_match, lambda extent: pc.and_(extent.has_values, False))
    ends = _in_comparison_type(pa.array([low, high], low.type), field)
    if ends is None:
        return everything, ()
    return _column_mask(field, partition_columns, nulls_match, _range_test(op, ends[0], ends[1]))


def everything(files: FileListing) -> pa.Array:
    """The mask that is true for every file."""
    return Listing(files).constantly(True)


def nothing(files: FileListing) -> pa.Array:
    """The mask that is false for every file."""
    return Listing(files).constantly(False)


def all_of(masks: Sequence[FileMask]) -> FileMask:
    """The files that every mask is true for."""

    def mask(files: FileListing) -> pa.Array:
        result = everything(files)
        for part in masks:
            result = pc.and_(result, whole(part(files)))
        return result

    return mask


def _all(conjuncts: Sequence[str], side: Side, schema: Struct, partition_columns: Collection[str], case_sensitive: bool) -> Predicate:
    return conjunction(understand(text, side, schema, partition_columns, case_sensitive=case_sensitive) for text in conjuncts)


def _comparable(column: str, schema: Struct) -> Field | None:
    field = schema.find(column, case_sensitive=True)
    return field if field is not None and comparable(field) else None


def _in_comparison_type(values: pa.Array | pa.ChunkedArray, field: Field) -> pa.Array | None:
    try:
        cast = pc.drop_null(values).cast(comparison_type(field.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return pc.add(whole(cast), 0.0) if pa.types.is_floating(cast.type) else whole(cast)  # no -0.0, which sorts below 0.0


def _column_mask(
    field: Field, partition_columns: Collection[str], nulls_match: bool, test: Callable[[Extent], pa.Array | None]
) -> tuple[FileMask, tuple[str, ...]]:
    partition = field.name in partition_columns

    def mask(files: FileListing) -> pa.Array:
        column = Listing(files).extent(field, partition)
        held = may_hold(column, test(column))
        return pc.or_(held, column.has_nulls) if nulls_match else held

    return mask, () if partition else (field.name,)


def _range_test(op: str, low: pa.Scalar, high: pa.Scalar) -> Callable[[Extent], pa.Array | None]:
    """Whether the bounds allow `column op v` for a v from low to high. NaN is above all numbers, as in Spark."""
    unbounded = pa.types.is_floating(high.type) and math.isnan(high.as_py())
    match op:
        case "<" | "<=" if unbounded:
            return lambda column: None
        case "<":
            return lambda column: pc.less(column.lower, high)
        case "<=":
            return lambda column: pc.less_equal(column.lower, high)
        case ">":
            return lambda column: pc.greater(column.upper, low)
        case ">=":
            return lambda column: pc.greater_equal(column.upper, low)
    # A file with bounds has no NaN, so the numbers are compared with low alone.
    if unbounded:
        return lambda column: pc.greater_equal(column.upper, low)
    return lambda column: pc.and_kleene(pc.less_equal(column.lower, high), pc.greater_equal(column.upper, low))
