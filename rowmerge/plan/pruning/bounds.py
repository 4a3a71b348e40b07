"""Read from a file listing what each file holds of one column, and judge comparisons by it, all of it in Arrow.

Values, bounds and literals are compared in the comparison type of their column, in Spark's order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.parquet.fitting import UUID_TEXT, uuid_bytes
from rowmerge.parquet.transforms import transformed
from rowmerge.table.metadata.schema import CHAR_VARCHAR, DataType, Decimal, Field, Primitive
from rowmerge.table.snapshots.files import OF_UUIDS, SOURCE, TRANSFORM, FileListing

INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
PRECISION = 38
"""Digits of the widest decimal."""
_COMPARISON_TYPES = {
    **dict.fromkeys(INTEGERS, pa.int64()),
    "float": pa.float64(),
    "double": pa.float64(),
    "boolean": pa.int8(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

COLLATIONS = "__COLLATIONS"
"""The metadata key under which Spark keeps the collations of a string column: another order than the bytes'."""


@dataclass(frozen=True)
class Point:
    """A literal among the values of a column, in the column's comparison type.

    `below` and `above` are the same value v where v is a value of the type. With `between` the literal lies strictly between two
    neighbouring values (1.5 among integers: below 1, above 2). With `vague` it is somewhere from `above` to `below`, ends included
    (a local time before the session's time zone is known).
    """

    below: pa.Scalar
    above: pa.Scalar
    between: bool = False
    vague: bool = False


@dataclass(frozen=True)
class Extent:
    """The bounds of one column in every file (null = unknown), and whether a file may have values and nulls of it.

    `buckets` holds the bucket of all values of each file (null = unknown), for every bucket transform of the column.
    """

    lower: pa.Array
    upper: pa.Array
    has_values: pa.Array
    has_nulls: pa.Array
    buckets: tuple[Buckets, ...] = ()

    @property
    def no_file(self) -> pa.Array:
        """Return false for every file."""
        return pc.and_(self.has_values, False)


@dataclass(frozen=True)
class Buckets:
    """The bucket of each file by one transform, and whether the transform hashes texts as UUIDs."""

    transform: str
    of_uuids: bool
    file_buckets: pa.Array


@dataclass(frozen=True)
class Verdict:
    """For every file, whether a condition may be true, and whether it may be false, for some row of it. NULL is neither."""

    true: pa.Array
    false: pa.Array

    def negated(self) -> Verdict:
        return Verdict(self.false, self.true)

    def both(self, other: Verdict) -> Verdict:
        return Verdict(pc.and_(self.true, other.true), pc.or_(self.false, other.false))

    def either(self, other: Verdict) -> Verdict:
        return Verdict(pc.or_(self.true, other.true), pc.and_(self.false, other.false))


class Listing:
    """A file listing (`rowmerge.table.snapshots.files.listing_schema`), each column of it looked at once."""

    def __init__(self, files: FileListing) -> None:
        self._files = files.rows
        self._extents: dict[str, Extent] = {}

    def constantly(self, value: bool) -> pa.Array:
        """Return the same value for every file."""
        return pa.repeat(pa.scalar(value), self._files.num_rows)

    def extent(self, field: Field, is_partition: bool) -> Extent:
        """Return what the listing says about a column: its value for a partition column, bounds and null counts for others."""
        if field.name not in self._extents:
            extent = self._partition_extent(field) if is_partition else self._statistics_extent(field)
            self._extents[field.name] = replace(extent, buckets=self._buckets(field.name))
        return self._extents[field.name]

    def _buckets(self, column: str) -> tuple[Buckets, ...]:
        """Return the buckets of the partition fields whose source is the column."""
        if "partition" not in self._files.column_names:
            return ()
        buckets = []
        for field in self._files["partition"].type:
            metadata = field.metadata or {}
            file_buckets = self._child("partition", field.name)
            if metadata.get(SOURCE) == column.encode() and file_buckets is not None:
                buckets.append(Buckets(metadata[TRANSFORM].decode(), OF_UUIDS in metadata, file_buckets))
        return tuple(buckets)

    def _partition_extent(self, field: Field) -> Extent:
        value = self._child("partition", field.name)
        if value is None:
            unknown = _unknown_bounds(self._files.num_rows, field)
            return Extent(unknown, unknown, self.constantly(True), self.constantly(True))
        bound = _comparison_bounds(value, field)
        return Extent(bound, bound, pc.is_valid(value), pc.is_null(value))

    def _statistics_extent(self, field: Field) -> Extent:
        """Return a column's bounds, and whether its null counts allow values and nulls. Missing statistics exclude neither."""
        lower, upper = self._bound("lower", field), self._bound("upper", field)
        null_counts = self._child("nulls", field.name)
        if null_counts is None or not pa.types.is_integer(null_counts.type):
            return Extent(lower, upper, self.constantly(True), self.constantly(True))
        only_nulls = pc.fill_null(pc.greater_equal(null_counts, whole(self._files["records"])), False)
        return Extent(lower, upper, pc.invert(only_nulls), pc.fill_null(pc.greater(null_counts, 0), True))

    def _bound(self, statistic: str, field: Field) -> pa.Array:
        bound = self._child(statistic, field.name)
        return _unknown_bounds(self._files.num_rows, field) if bound is None else _comparison_bounds(bound, field)

    def _child(self, struct: str, name: str) -> pa.Array | None:
        """Return one field of a struct column of the listing, or None if the listing does not have it."""
        column = self._files[struct]
        index = column.type.get_field_index(name)
        return None if index < 0 else whole(pc.struct_field(column, [index]))


def comparison_type(type_: DataType) -> pa.DataType | None:
    """Return the type in which values of a column are compared, or None for types that files are not pruned by."""
    if isinstance(type_, Decimal):
        return pa.decimal128(PRECISION, type_.scale)
    return _COMPARISON_TYPES.get(type_.name) if isinstance(type_, Primitive) else None


def in_comparison_type(values: pa.Array | pa.ChunkedArray, field: Field) -> pa.Array | pa.ChunkedArray | None:
    """Return values in the type that the column is compared in, or None if they cannot be cast."""
    try:
        cast = values.cast(comparison_type(field.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return pc.add(cast, 0.0) if pa.types.is_floating(cast.type) else cast  # no -0.0, which sorts below 0.0


def comparable(field: Field) -> bool:
    """Return whether the values of a column may be compared by their bounds."""
    return comparison_type(field.type) is not None and not is_padded(field) and not field.metadata.get(COLLATIONS)


def is_padded(field: Field) -> bool:
    """Return whether Spark fills texts up with blanks before it compares them: CHAR(n)."""
    return str(field.metadata.get(CHAR_VARCHAR, "")).lower().lstrip().startswith("char")


def less(column: Extent, point: Point) -> Verdict:
    """Judge `column < point`."""
    below = pc.less_equal if point.between else pc.less
    return _verdict(column, below(column.lower, point.below), pc.greater_equal(column.upper, point.above))


def less_or_equal(column: Extent, point: Point) -> Verdict:
    """Judge `column <= point`."""
    above = pc.greater_equal if point.between else pc.greater
    return _verdict(column, pc.less_equal(column.lower, point.below), above(column.upper, point.above))


def equal(column: Extent, point: Point) -> Verdict:
    """Judge `column = point`."""
    if point.between:
        return Verdict(column.no_file, column.has_values)
    is_inside = pc.and_kleene(pc.less_equal(column.lower, point.below), pc.greater_equal(column.upper, point.above))
    if point.vague:
        return _verdict(column, is_inside, None)
    if column.buckets:
        is_inside = pc.and_kleene(is_inside, _in_buckets(column, pa.array([point.below])))
    is_constant = pc.and_kleene(pc.equal(column.lower, point.below), pc.equal(column.upper, point.above))
    return _verdict(column, is_inside, pc.invert(is_constant))


def among(column: Extent, values: pa.Array, *, has_null: bool) -> Verdict:
    """Judge `column IN (values)`, with NULL among them if `has_null`."""
    if has_null:
        # A value that is not in the list is then NULL instead of false.
        return Verdict(may_hold(column, holds_one_of(column, values)), column.no_file)
    is_single_member = pc.and_(pc.equal(column.lower, column.upper), pc.is_in(column.lower, value_set=values))
    return _verdict(column, holds_one_of(column, values), pc.invert(is_single_member))


def starts_with(column: Extent, prefix: str) -> Verdict:
    """Judge `column LIKE 'prefix%'`. UTF-8 bytes and code points have the same order."""
    low, high = pa.scalar(prefix), _successor(prefix)
    may_start, must_start = pc.greater_equal(column.upper, low), pc.greater_equal(column.lower, low)
    if high is not None:
        may_start = pc.and_kleene(may_start, pc.less(column.lower, high))
        must_start = pc.and_kleene(must_start, pc.less(column.upper, high))
    return _verdict(column, may_start, pc.invert(must_start))


def is_null(column: Extent) -> Verdict:
    return Verdict(column.has_nulls, column.has_values)


def null_safe_equal(column: Extent, point: Point) -> Verdict:
    """Judge `column <=> point`, which is false, not NULL, for null rows."""
    verdict = equal(column, point)
    return Verdict(verdict.true, pc.or_(verdict.false, column.has_nulls))


def holds_one_of(column: Extent, values: pa.Array) -> pa.Array:
    """Return whether at least one of the values lies within the bounds, and one in the buckets, null where that is uncertain."""
    within = reaches(column, values)
    return pc.and_kleene(within, _in_buckets(column, values)) if column.buckets else within


def _in_buckets(column: Extent, values: pa.Array) -> pa.Array:
    """Return whether one of the values, in the comparison type, is hashed into the buckets of a file; true where these are unknown."""
    result = pa.scalar(True)
    for buckets in column.buckets:
        # A text that is no UUID is in no row.
        hashed = uuid_bytes(values.filter(pc.match_substring_regex(values, UUID_TEXT))) if buckets.of_uuids else values
        value_buckets = pc.unique(transformed(hashed, buckets.transform))
        in_bucket = pc.is_in(buckets.file_buckets, value_set=value_buckets)
        result = pc.and_(result, pc.or_(pc.is_null(buckets.file_buckets), in_bucket))
    return result


def reaches(column: Extent, values: pa.Array) -> pa.Array:
    """Return whether at least one of the values lies within the bounds, null where a bound is unknown.

    Counts with two rankings: the values that are below the lower bound are those before it in the order of both together, less the
    bounds before it. One sort of values and bounds, whatever their type.
    """
    below_lower = _position(values, column.lower, "min")
    up_to_upper = _position(values, column.upper, "max")
    known = pc.and_(pc.is_valid(column.lower), pc.is_valid(column.upper))
    return pc.if_else(known, pc.greater(up_to_upper, below_lower), pa.scalar(None, pa.bool_()))


def may_hold(column: Extent, test: pa.Array | None) -> pa.Array:
    """Return whether files may hold a value for which a test of the bounds is true. A test that is null or None excludes no file."""
    return column.has_values if test is None else pc.and_(column.has_values, pc.fill_null(test, True))


def _verdict(column: Extent, true: pa.Array, false: pa.Array | None) -> Verdict:
    return Verdict(may_hold(column, true), may_hold(column, false))


def _position(values: pa.Array, bounds: pa.Array, tiebreaker: str) -> pa.Array:
    """Return how many values sort before each bound (`min`), or not after it (`max`)."""
    together = pc.rank(pa.concat_arrays([values, bounds]), sort_keys="ascending", tiebreaker=tiebreaker).slice(len(values))
    alone = pc.rank(bounds, sort_keys="ascending", tiebreaker=tiebreaker)
    return pc.subtract(pc.cast(together, pa.int64()), pc.cast(alone, pa.int64()))


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def _unknown_bounds(files: int, field: Field) -> pa.Array:
    return pa.nulls(files, comparison_type(field.type) or pa.null())


def _comparison_bounds(bounds: pa.Array, field: Field) -> pa.Array:
    """Return bounds in the column's comparison type. NaN and bounds of another type than the column's become null."""
    cast = None if comparison_type(field.type) is None else in_comparison_type(bounds, field)
    if cast is None:
        return _unknown_bounds(len(bounds), field)
    return pc.if_else(pc.is_nan(cast), pa.scalar(None, cast.type), cast) if pa.types.is_floating(cast.type) else cast


def _successor(prefix: str) -> pa.Scalar | None:
    """Return the least string after all those that start with the prefix, None if there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code <= 0x10FFFF:
            return pa.scalar(prefix[: end - 1] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code))
    return None
