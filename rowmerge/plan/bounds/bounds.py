"""Evaluate comparisons with the bounds and null counts of columns (`file_bounds.py` reads them from a file listing).

Values, bounds and literals are compared with Arrow, in the comparison type of their column. The order is that of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.parquet.fitting import UUID_TEXT, uuid_bytes
from rowmerge.parquet.transforms import transformed
from rowmerge.table.metadata.schema import CHAR_VARCHAR, DataType, Decimal, Field, Primitive, Struct

INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
PRECISION = 38
"""The maximum precision of a decimal."""
_COMPARISON_TYPES = {
    **dict.fromkeys(INTEGERS, pa.int64()),
    **dict.fromkeys(("float", "double"), pa.float64()),
    "boolean": pa.int8(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

COLLATIONS = "__COLLATIONS"
"""The metadata key under which Spark stores the collations of a string column. A collation's order differs from that of the bytes."""


@dataclass(frozen=True)
class LiteralPosition:
    """A literal as values of a column's comparison type, so that a column's bounds can be compared with the literal.

    `floor`: the greatest value of the type up to the literal. `ceiling`: the least value from the literal on. A literal that is a value of
    the type is its own floor and ceiling. If `is_between`, they are neighbours: 1 and 2 for the literal 1.5 among integers. If
    `is_approximate`, the literal is uncertain, such as a local time in an unknown time zone. `floor` is then its latest possible value, and
    `ceiling` its earliest.
    """

    floor: pa.Scalar
    ceiling: pa.Scalar
    is_between: bool = False
    is_approximate: bool = False


@dataclass(frozen=True)
class ColumnBounds:
    """The min/max statistics of one column in each file, which conditions use to exclude files (data skipping).

    `lower`, `upper`: the bounds of the file's values, or null if unknown. `has_values`, `has_nulls`: whether the file may have values
    and nulls in the column. `buckets`: for each bucket transform of the column, the buckets of each file's values.
    """

    lower: pa.Array
    upper: pa.Array
    has_values: pa.Array
    has_nulls: pa.Array
    buckets: tuple[Buckets, ...] = ()

    @property
    def false_for_all_files(self) -> pa.Array:
        """Return an array that is false for every file."""
        return pc.and_(self.has_values, False)


@dataclass(frozen=True)
class Buckets:
    """The buckets of each file by one bucket transform of a column.

    `of_uuids`: whether the transform hashes strings as UUIDs. `lower`, `upper`: the least and the greatest bucket of each file, which are
    equal for a data file, or null if they are unknown.
    """

    transform: str
    of_uuids: bool
    lower: pa.Array
    upper: pa.Array


@dataclass(frozen=True)
class Verdict:
    """The result of a condition for each file, as far as the bounds determine it: two masks of files.

    `may_be_true`: whether the condition may be true for a row of the file. A scan reads only such files. `may_be_false`: whether the
    condition may be false for a row of the file, which is needed for NOT. NULL counts as neither true nor false.
    """

    may_be_true: pa.Array
    may_be_false: pa.Array

    def negated(self) -> Verdict:
        """Return the verdict on the negation (NOT) of the condition."""
        return Verdict(self.may_be_false, self.may_be_true)

    def and_(self, other: Verdict) -> Verdict:
        """Return the verdict on the AND of two conditions."""
        return Verdict(pc.and_(self.may_be_true, other.may_be_true), pc.or_(self.may_be_false, other.may_be_false))

    def or_(self, other: Verdict) -> Verdict:
        """Return the verdict on the OR of two conditions."""
        return Verdict(pc.or_(self.may_be_true, other.may_be_true), pc.and_(self.may_be_false, other.may_be_false))


def comparison_type(type_: DataType) -> pa.DataType | None:
    """Return the type in which values of a column are compared, or None if the type of the column is not used for pruning."""
    if isinstance(type_, Decimal):
        return pa.decimal128(PRECISION, type_.scale)
    return _COMPARISON_TYPES.get(type_.name) if isinstance(type_, Primitive) else None


def in_comparison_type(values: pa.Array | pa.ChunkedArray, field: Field) -> pa.Array | pa.ChunkedArray | None:
    """Cast values to the comparison type of a column.

    Args:
        values: The values, for example of a merge source or of a file's statistics.
        field: The column. Its comparison type must not be None.

    Returns:
        The values with -0.0 replaced by 0.0, or None if they cannot be cast.
    """
    try:
        cast_values = values.cast(comparison_type(field.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    # Adding 0.0 turns -0.0, which would sort below 0.0, into 0.0.
    return pc.add(cast_values, 0.0) if pa.types.is_floating(cast_values.type) else cast_values


def comparable(field: Field) -> bool:
    """Return whether comparisons with a column can be evaluated with its bounds."""
    return comparison_type(field.type) is not None and not is_padded(field) and not field.metadata.get(COLLATIONS)


def comparison_field(schema: Struct, path: Sequence[str]) -> Field | None:
    """Return the column or nested field at a path, or None if the metadata of a column around it may change how its strings compare.

    The metadata of a column describes also its fields: their lengths, if they are CHAR(n), and their collations.

    Args:
        schema: The columns of the table.
        path: The name of a column, followed by the names of nested fields.
    """
    fields = [schema.at(path[:length], case_sensitive=True) for length in range(1, len(path) + 1)]
    return None if len(fields) > 1 and has_text_rules(filter(None, fields)) else fields[-1]


def has_text_rules(fields: Iterable[Field]) -> bool:
    """Return whether the metadata of one of the fields names a collation, or a length of strings."""
    return any(field.metadata.get(COLLATIONS) or field.metadata.get(CHAR_VARCHAR) for field in fields)


def is_padded(field: Field) -> bool:
    """Return whether a column is a CHAR(n), whose values Spark pads with spaces before it compares them."""
    return str(field.metadata.get(CHAR_VARCHAR, "")).lower().lstrip().startswith("char")


def less(column: ColumnBounds, position: LiteralPosition) -> Verdict:
    """Return the verdict on `column < literal` for each file, for example on `x < 1.5` or `x < 2` with an integer column `x`.

    `position`: the literal among the column's values: between the floor 1 and the ceiling 2 for 1.5, or the value 2 as both.
    """
    # If the literal lies between two values, the neighbour `floor` is less than the literal too.
    is_less = pc.less_equal if position.is_between else pc.less
    return _verdict(
        column, may_be_true=is_less(column.lower, position.floor), may_be_false=pc.greater_equal(column.upper, position.ceiling)
    )


def less_or_equal(column: ColumnBounds, position: LiteralPosition) -> Verdict:
    """Return the verdict on `column <= literal` for each file, for example on `x <= 1.5` or `x <= 2` with an integer column `x`.

    `position`: the literal among the column's values: between the floor 1 and the ceiling 2 for 1.5, or the value 2 as both.
    """
    may_be_true = pc.less_equal(column.lower, position.floor)
    # `x <= 1.5` is false for the ceiling 2, but `x <= 2` is true for 2 and false only for greater values.
    is_greater = pc.greater_equal if position.is_between else pc.greater
    return _verdict(column, may_be_true=may_be_true, may_be_false=is_greater(column.upper, position.ceiling))


def equal(column: ColumnBounds, position: LiteralPosition) -> Verdict:
    """Return the verdict on `column = literal` for each file. `position`: the literal among the column's values.

    - The literal 2 is the integer 2. The condition may be true in a file with the bounds 1 and 3, and is certainly true with 2 and 2.
    - The literal 1.5 lies between the integers 1 and 2, so the condition is true for no integer.
    - A time in an unknown time zone is approximate: from `position.ceiling` (earliest) to `position.floor` (latest).
    """
    if position.is_between:
        return Verdict(may_be_true=column.false_for_all_files, may_be_false=column.has_values)
    is_within_bounds = pc.and_kleene(pc.less_equal(column.lower, position.floor), pc.greater_equal(column.upper, position.ceiling))
    if position.is_approximate:
        # The rows of any file may differ from the exact literal, which is unknown.
        return Verdict(may_contain_match(column, is_within_bounds), may_be_false=column.has_values)
    literal = position.floor  # which is also the ceiling
    if column.buckets:
        is_within_bounds = pc.and_kleene(is_within_bounds, _in_buckets(column, pa.array([literal])))
    # If the literal is both bounds of a file, it is the file's only value.
    is_only_value = pc.and_kleene(pc.equal(column.lower, literal), pc.equal(column.upper, literal))
    return _verdict(column, may_be_true=is_within_bounds, may_be_false=pc.invert(is_only_value))


def in_list(column: ColumnBounds, values: pa.Array, *, has_null: bool) -> Verdict:
    """Return the verdict on `column IN (list)` for each file.

    In SQL, `3 IN (1, 2)` is false, but `3 IN (1, 2, NULL)` is NULL, because 3 may equal the unknown value. So the
    condition is never false if NULL is in the list.

    Args:
        column: The bounds and null counts of the column in each file.
        values: The members of the list except NULL, in the column's comparison type.
        has_null: Whether NULL is a member of the list.
    """
    may_hold_member = holds_one_of(column, values)  # for each file, or null if its bounds are unknown
    if has_null:
        return _verdict(column, may_be_true=may_hold_member, may_be_false=column.false_for_all_files)
    # A file with the bounds 2 and 2 has only the value 2. If 2 is a member, the condition is false for no row of the file.
    has_only_one_member = pc.and_(pc.equal(column.lower, column.upper), pc.is_in(column.lower, value_set=values))
    return _verdict(column, may_be_true=may_hold_member, may_be_false=pc.invert(has_only_one_member))


def starts_with(column: ColumnBounds, prefix: str) -> Verdict:
    """Return the verdict on `column LIKE 'prefix%'` for each file.

    The strings with a prefix form a range. It starts at the prefix itself and ends before the least greater string without the prefix. For
    'ab%', it is the range from 'ab' (inclusive) to 'ac' (exclusive). Spark compares UTF-8 bytes, whose order is that of code points.

    Args:
        column: The bounds and null counts of the column in each file.
        prefix: The prefix without wildcards.
    """
    range_start, range_end = pa.scalar(prefix), _successor(prefix)
    overlaps_range, is_within_range = pc.greater_equal(column.upper, range_start), pc.greater_equal(column.lower, range_start)
    if range_end is not None:  # otherwise, no string is greater than all strings with the prefix
        overlaps_range = pc.and_kleene(overlaps_range, pc.less(column.lower, range_end))
        is_within_range = pc.and_kleene(is_within_range, pc.less(column.upper, range_end))
    # If both bounds lie in the range, all values have the prefix, and the condition is false for none of them.
    return _verdict(column, may_be_true=overlaps_range, may_be_false=pc.invert(is_within_range))


def is_null(column: ColumnBounds) -> Verdict:
    """Return the verdict on `column IS NULL` for each file."""
    return Verdict(may_be_true=column.has_nulls, may_be_false=column.has_values)


def null_safe_equal(column: ColumnBounds, position: LiteralPosition) -> Verdict:
    """Return the verdict on `column <=> literal` for each file. The condition is false, not NULL, for rows with NULL."""
    verdict = equal(column, position)
    return replace(verdict, may_be_false=pc.or_(verdict.may_be_false, column.has_nulls))


def compare_columns(first: ColumnBounds, op: str, second: ColumnBounds) -> Verdict:
    """Return the verdict on a comparison of two columns in the same row for each file.

    Args:
        first: The bounds and null counts of the first column in each file.
        op: One of `=`, `<=>`, `<` and `<=`.
        second: The bounds and null counts of the second column, which has the same comparison type.
    """
    may_be_less, may_be_equal = pc.less(first.lower, second.upper), _overlaps(first, second)
    may_be_greater = pc.greater(first.upper, second.lower)
    match op:
        case "<":
            tests = may_be_less, pc.or_kleene(may_be_equal, may_be_greater)
        case "<=":
            tests = pc.or_kleene(may_be_less, may_be_equal), may_be_greater
        case _:
            tests = may_be_equal, pc.or_kleene(may_be_less, may_be_greater)
    have_values = pc.and_(first.has_values, second.has_values)
    may_be_true, may_be_false = (pc.and_(have_values, pc.fill_null(test, True)) for test in tests)
    if op == "<=>":
        may_be_true = pc.or_(may_be_true, pc.and_(first.has_nulls, second.has_nulls))
        may_be_false = pc.or_(may_be_false, pc.or_(first.has_nulls, second.has_nulls))
    return Verdict(may_be_true, may_be_false)


def _overlaps(first: ColumnBounds, second: ColumnBounds) -> pa.Array:
    """Return for each file whether the bounds of two columns have a value in common, or null if a bound is unknown."""
    return pc.and_kleene(pc.less_equal(first.lower, second.upper), pc.greater_equal(first.upper, second.lower))


def holds_one_of(column: ColumnBounds, values: pa.Array) -> pa.Array:
    """Return for each file whether its bounds and buckets allow at least one of the values, or null if this is unknown.

    Args:
        column: The bounds and null counts of the column in each file.
        values: Values in the column's comparison type, without NULL and NaN.
    """
    within = has_value_within_bounds(column, values)
    return pc.and_kleene(within, _in_buckets(column, values)) if column.buckets else within


def _in_buckets(column: ColumnBounds, values: pa.Array) -> pa.Array:
    """Return for each file whether, for each bucket transform, a value hashes to a bucket of the file. Unknown buckets count as true."""
    result = pa.scalar(True)
    for buckets in column.buckets:
        # A column of UUIDs never equals a string that is not a UUID.
        hashed = uuid_bytes(values.filter(pc.match_substring_regex(values, UUID_TEXT))) if buckets.of_uuids else values
        value_buckets = pc.unique(transformed(hashed, buckets.transform))
        result = pc.and_(result, pc.fill_null(_within(value_buckets, buckets.lower, buckets.upper), True))
    return result


def has_value_within_bounds(column: ColumnBounds, values: pa.Array) -> pa.Array:
    """Return for each file whether at least one of the values lies within the bounds, or null if a bound is unknown.

    For each file, two counts are compared: the values up to the upper bound, and the values below the lower bound. Both counts come from
    a binary search among the sorted values, or from the ranks of values and bounds. So no value is compared with each file.

    Args:
        column: The bounds and null counts of the column in each file.
        values: Values in the column's comparison type, without NULL and NaN.
    """
    return _within(values, column.lower, column.upper)


def _within(values: pa.Array, lower: pa.Array, upper: pa.Array) -> pa.Array:
    """Return for each file whether at least one of the values lies within its bounds, or null if a bound is unknown."""
    has_bounds = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
    if pa.types.is_primitive(lower.type) and not pa.types.is_decimal(lower.type):
        sorted_values = np.sort(_numbers(values.cast(lower.type)))
        below_lower = pa.array(np.searchsorted(sorted_values, _numbers(lower), side="left"))
        up_to_upper = pa.array(np.searchsorted(sorted_values, _numbers(upper), side="right"))
    else:
        below_lower = _count_values_up_to(values, lower, inclusive=False)
        up_to_upper = _count_values_up_to(values, upper, inclusive=True)
    return pc.if_else(has_bounds, pc.greater(up_to_upper, below_lower), pa.scalar(None, pa.bool_()))


def _numbers(values: pa.Array) -> np.ndarray[Any, Any]:
    """Return numbers, or the numbers that represent dates and timestamps, as a NumPy array in which nulls are arbitrary."""
    type_ = values.type
    physical_type = (
        type_ if pa.types.is_floating(type_) or pa.types.is_integer(type_) else {32: pa.int32(), 64: pa.int64()}[type_.bit_width]
    )
    numbers: np.ndarray[Any, Any] = pc.fill_null(values.view(physical_type), 0).to_numpy(zero_copy_only=False)
    return numbers


def may_contain_match(column: ColumnBounds, test: pa.Array) -> pa.Array:
    """Return for each file whether it may contain a matching value: it may have values, and its bounds pass a test or are unknown.

    Args:
        column: The bounds and null counts of the column in each file.
        test: The result of the test for each file, or null if the result is unknown.
    """
    return pc.and_(column.has_values, pc.fill_null(test, True))


def _verdict(column: ColumnBounds, *, may_be_true: pa.Array, may_be_false: pa.Array) -> Verdict:
    """Return the verdict from two tests of the bounds: whether the condition may be true, and whether it may be false.

    A null in a test means that the result is unknown, which counts as true. A file without values, which has only NULLs in the column,
    passes neither test.
    """
    return Verdict(may_contain_match(column, may_be_true), may_contain_match(column, may_be_false))


def _count_values_up_to(values: pa.Array, bounds: pa.Array, *, inclusive: bool) -> pa.Array:
    """Return for each bound how many values are less than the bound or, if `inclusive`, less than or equal to it."""
    tiebreaker = "max" if inclusive else "min"  # the greatest or the least rank among equal items
    # The rank of a bound among values and bounds, less its rank among the bounds, is the number of values that sort before it.
    overall_ranks = pc.rank(pa.concat_arrays([values, bounds]), sort_keys="ascending", tiebreaker=tiebreaker).slice(len(values))
    bound_ranks = pc.rank(bounds, sort_keys="ascending", tiebreaker=tiebreaker)
    return pc.subtract(pc.cast(overall_ranks, pa.int64()), pc.cast(bound_ranks, pa.int64()))


def as_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as a single array, with its chunks combined."""
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def unknown_bounds(files: int, field: Field) -> pa.Array:
    """Return the bounds of a column in files whose bounds are unknown: nulls in the comparison type of the column."""
    return pa.nulls(files, comparison_type(field.type) or pa.null())


def comparison_bounds(bounds: pa.Array, field: Field) -> pa.Array:
    """Return bounds in the column's comparison type. NaN and bounds that cannot be cast become null, which means unknown."""
    cast = None if comparison_type(field.type) is None else in_comparison_type(bounds, field)
    if cast is None:
        return unknown_bounds(len(bounds), field)
    return pc.if_else(pc.is_nan(cast), pa.scalar(None, cast.type), cast) if pa.types.is_floating(cast.type) else cast


def _successor(prefix: str) -> pa.Scalar | None:
    """Return the least string that is greater than all strings with the prefix, or None if there is no such string."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code <= 0x10FFFF:
            return pa.scalar(prefix[: end - 1] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code))
    return None
