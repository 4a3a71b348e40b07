"""What a file listing tells of one column's values, file by file, and what follows for comparisons; all of it in Arrow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.parquet.transforms import transformed
from rowmerge.parquet.uuids import CANONICAL, uuid_bytes
from rowmerge.plan.pruning.literals import Point, comparison_type
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Field
from rowmerge.table.snapshots.files import OF_UUIDS, SOURCE, TRANSFORM, FileListing

COLLATIONS = "__COLLATIONS"
"""The metadata key under which Spark keeps the collations of a string column: another order than the bytes'."""


@dataclass(frozen=True)
class Extent:
    """One column in every file: bounds (null = unknown), and whether there may be values and nulls; the buckets that all its values are in
    (null = unknown), by the transform's text and whether it is of UUIDs.
    """

    lower: pa.Array
    upper: pa.Array
    has_values: pa.Array
    has_nulls: pa.Array
    buckets: tuple[tuple[str, bool, pa.Array], ...] = ()


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
    """A file listing (`rowmerge.table.snapshots.files.file_listing`), each column of it looked at once."""

    def __init__(self, files: FileListing) -> None:
        self._files = files.rows
        self._extents: dict[str, Extent] = {}

    def constantly(self, value: bool) -> pa.Array:
        """The same for every file."""
        return pa.repeat(pa.scalar(value), self._files.num_rows)

    def extent(self, field: Field, partition: bool) -> Extent:
        """What the listing tells of a column: all of it for a partition column, bounds and null counts for others."""
        if field.name not in self._extents:
            extent = self._partition(field) if partition else self._bounded(field)
            self._extents[field.name] = replace(extent, buckets=self._buckets(field.name))
        return self._extents[field.name]

    def _buckets(self, name: str) -> tuple[tuple[str, bool, pa.Array], ...]:
        if "partition" not in self._files.column_names:
            return ()
        fields = [field for field in self._files["partition"].type if (field.metadata or {}).get(SOURCE) == name.encode()]
        children = ((field.metadata, self._child("partition", field.name)) for field in fields)
        return tuple((told[TRANSFORM].decode(), OF_UUIDS in told, found) for told, found in children if found is not None)

    def _partition(self, field: Field) -> Extent:
        value = self._child("partition", field.name)
        if value is None:
            return self._extent_of_nothing(field)
        typed = _typed(value, field)
        return Extent(typed, typed, pc.is_valid(value), pc.is_null(value))

    def _bounded(self, field: Field) -> Extent:
        unknown = self._extent_of_nothing(field)
        lower, upper, nulls = (self._child(which, field.name) for which in ("lower", "upper", "nulls"))
        has_values, has_nulls = unknown.has_values, unknown.has_nulls
        if nulls is not None and pa.types.is_integer(nulls.type):
            has_values = pc.invert(pc.fill_null(pc.greater_equal(nulls, whole(self._files["records"])), False))
            has_nulls = pc.fill_null(pc.greater(nulls, 0), True)
        return Extent(
            unknown.lower if lower is None else _typed(lower, field),
            unknown.upper if upper is None else _typed(upper, field),
            has_values,
            has_nulls,
        )

    def _extent_of_nothing(self, field: Field) -> Extent:
        bound = pa.nulls(self._files.num_rows, comparison_type(field.type) or pa.null())
        return Extent(bound, bound, self.constantly(True), self.constantly(True))

    def _child(self, struct: str, name: str) -> pa.Array | None:
        """One field of one of the listing's struct columns; None when the listing does not have it."""
        column = self._files[struct]
        index = column.type.get_field_index(name)
        return None if index < 0 else whole(pc.struct_field(column, [index]))


def comparable(field: Field) -> bool:
    """Whether the values of a column may be compared by their bounds."""
    return comparison_type(field.type) is not None and not is_padded(field) and not field.metadata.get(COLLATIONS)


def is_padded(field: Field) -> bool:
    """Whether Spark fills texts up with blanks before it compares them: CHAR(n)."""
    return str(field.metadata.get(CHAR_VARCHAR, "")).lower().lstrip().startswith("char")


def less(column: Extent, point: Point) -> Verdict:
    """`column < point`."""
    below = pc.less_equal if point.between else pc.less
    reverse = pc.greater_equal
    return _verdict(column, below(column.lower, point.below), reverse(column.upper, point.above))


def less_or_equal(column: Extent, point: Point) -> Verdict:
    """`column <= point`."""
    above = pc.greater_equal if point.between else pc.greater
    return _verdict(column, pc.less_equal(column.lower, point.below), above(column.upper, point.above))


def equal(column: Extent, point: Point) -> Verdict:
    """`column = point`."""
    if point.between:
        return Verdict(pc.and_(column.has_values, False), column.has_values)
    inside = pc.and_kleene(pc.less_equal(column.lower, point.below), pc.greater_equal(column.upper, point.above))
    if point.exact and column.buckets:
        inside = pc.and_kleene(inside, _in_buckets(column, pa.array([point.below])))
    differs = pc.invert(pc.and_kleene(pc.equal(column.lower, point.below), pc.equal(column.upper, point.above))) if point.exact else None
    return _verdict(column, inside, differs)


def among(column: Extent, values: pa.Array) -> Verdict:
    """`column IN (values)`."""
    single = pc.and_(pc.equal(column.lower, column.upper), pc.is_in(column.lower, value_set=values))
    return _verdict(column, holds_one_of(column, values), pc.invert(single))


def starts_with(column: Extent, prefix: str) -> Verdict:
    """`column LIKE 'prefix%'`; UTF-8 bytes and code points have the same order."""
    low, high = pa.scalar(prefix), _successor(prefix)
    may, certainly = pc.greater_equal(column.upper, low), pc.greater_equal(column.lower, low)
    if high is not None:
        may = pc.and_kleene(may, pc.less(column.lower, high))
        certainly = pc.and_kleene(certainly, pc.less(column.upper, high))
    return _verdict(column, may, pc.invert(certainly))


def is_null(column: Extent) -> Verdict:
    return Verdict(column.has_nulls, column.has_values)


def null_safe(comparison: Verdict, column: Extent) -> Verdict:
    """`column <=> literal` from `column = literal`: false, not NULL, for null rows."""
    return Verdict(comparison.true, pc.or_(comparison.false, column.has_nulls))


def holds_one_of(column: Extent, values: pa.Array) -> pa.Array:
    """Whether at least one of the values lies within the bounds, and one in the buckets; null where it cannot be told."""
    within = reaches(column, values)
    return pc.and_kleene(within, _in_buckets(column, values)) if column.buckets else within


def _in_buckets(column: Extent, values: pa.Array) -> pa.Array:
    """Whether one of the values, which are in the comparison type, is hashed into the buckets of a file; true where these are not known."""
    result = pa.scalar(True)
    for transform, of_uuids, found in column.buckets:
        # A text that is no UUID is in no row.
        hashed = uuid_bytes(values.filter(pc.match_substring_regex(values, CANONICAL))) if of_uuids else values
        wanted = pc.unique(transformed(hashed, transform))
        result = pc.and_(result, pc.or_(pc.is_null(found), pc.is_in(found, value_set=wanted)))
    return result


def reaches(column: Extent, values: pa.Array) -> pa.Array:
    """Whether at least one of the values lies within the bounds; null where a bound is unknown.

    Counts with two rankings: the values that are below the lower bound are those before it in the order of both together, less the
    bounds before it. One sort of values and bounds, whatever their type.
    """
    below_lower = _position(values, column.lower, "min")
    up_to_upper = _position(values, column.upper, "max")
    known = pc.and_(pc.is_valid(column.lower), pc.is_valid(column.upper))
    return pc.if_else(known, pc.greater(up_to_upper, below_lower), pa.scalar(None, pa.bool_()))


def may_hold(column: Extent, test: pa.Array | None) -> pa.Array:
    """Files that may hold a value for which a test of the bounds is true; a test that is null or None cannot tell."""
    return column.has_values if test is None else pc.and_(column.has_values, pc.fill_null(test, True))


def _verdict(column: Extent, true: pa.Array, false: pa.Array | None) -> Verdict:
    return Verdict(may_hold(column, true), may_hold(column, false))


def _position(values: pa.Array, bounds: pa.Array, tiebreaker: str) -> pa.Array:
    """How many values sort before each bound (`min`), or not after it (`max`)."""
    together = pc.rank(pa.concat_arrays([values, bounds]), sort_keys="ascending", tiebreaker=tiebreaker).slice(len(values))
    alone = pc.rank(bounds, sort_keys="ascending", tiebreaker=tiebreaker)
    return pc.subtract(pc.cast(together, pa.int64()), pc.cast(alone, pa.int64()))


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def _typed(bound: pa.Array, field: Field) -> pa.Array:
    """Bounds in the type that they are compared in; those of no use (NaN, or another type than the column's) become null."""
    domain = comparison_type(field.type)
    if domain is None:
        return pa.nulls(len(bound))
    try:
        typed = bound.cast(domain)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(bound), domain)
    if pa.types.is_floating(domain):
        return pc.add(pc.if_else(pc.is_nan(typed), pa.scalar(None, domain), typed), 0.0)  # no -0.0, which sorts below 0.0
    return typed


def _successor(prefix: str) -> pa.Scalar | None:
    """The least string after all those that start with the prefix; None when there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code <= 0x10FFFF:
            return pa.scalar(prefix[: end - 1] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code))
    return None
