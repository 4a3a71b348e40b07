"""Read the bounds, null counts and partition values of columns from a file listing (`rowmerge.table.snapshots.files`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.plan.bounds.bounds import Buckets, ColumnBounds, as_array, comparison_bounds, unknown_bounds
from rowmerge.plan.bounds.source_ranges import source_range
from rowmerge.table.metadata.schema import Field
from rowmerge.table.snapshots.files import LOCAL, OF_UUIDS, SOURCE, TRANSFORM, FileListing, nested_field


class FileBounds:
    """The bounds of the columns of a file listing. The bounds of each column are computed once."""

    def __init__(self, files: FileListing) -> None:
        self._files = files.rows
        self._bounds_by_column: dict[str, ColumnBounds] = {}

    def __len__(self) -> int:
        return int(self._files.num_rows)

    def for_all_files(self, value: bool) -> pa.Array:
        """Return an array with the same value for every file."""
        return pa.repeat(pa.scalar(value), self._files.num_rows)

    def of_column(self, field: Field, is_partition: bool) -> ColumnBounds:
        """Return the bounds of a column in each file: from statistics or partition values, narrowed by the ranges of transformed values.

        Args:
            field: The column.
            is_partition: Whether the bounds come from partition values instead of statistics.
        """
        if field.name not in self._bounds_by_column:
            column = self._partition_bounds(field) if is_partition else self._statistics_bounds(field)
            for metadata, range_ in self._ranges(field.name):
                column = _with_range(column, field, metadata, range_)
            self._bounds_by_column[field.name] = column
        return self._bounds_by_column[field.name]

    def of_nested(self, path: Sequence[str], field: Field) -> ColumnBounds:
        """Return the bounds of a field in a struct in each file.

        The field is NULL where a struct around it is NULL. Writers may not count these NULLs, so any file may have some.

        Args:
            path: The names of the column, the structs inside it and the field.
            field: The field.
        """
        lower, upper = (self._nested(statistic, path) for statistic in ("lower", "upper"))
        unknown, null_counts = unknown_bounds(self._files.num_rows, field), self._nested("nulls", path)
        has_values = self.for_all_files(True)
        if null_counts is not None and pa.types.is_integer(null_counts.type):
            has_values = pc.invert(pc.fill_null(pc.greater_equal(null_counts, as_array(self._files["records"])), False))
        bounds = (unknown if bound is None else comparison_bounds(bound, field) for bound in (lower, upper))
        return ColumnBounds(*_without_contradictions(*bounds), has_values, self.for_all_files(True))

    def _nested(self, struct: str, path: Sequence[str]) -> pa.Array | None:
        """Return a nested field of the struct column `struct` of the listing, or None if the listing does not have it."""
        return nested_field(as_array(self._files[struct]), path)

    def _ranges(self, column: str) -> Iterator[tuple[Mapping[bytes, bytes], pa.StructArray]]:
        """Yield the metadata and the range of each transform of a column."""
        if "ranges" not in self._files.column_names:
            return
        for index, field in enumerate(self._files.schema.field("ranges").type):
            if (field.metadata or {}).get(SOURCE) == column.encode():
                yield field.metadata, as_array(pc.struct_field(self._files["ranges"], [index]))

    def _partition_bounds(self, field: Field) -> ColumnBounds:
        """Return the bounds of a partition column. Both bounds in a file are the partition value of the file."""
        value = self._child("partition", field.name)
        if value is None:
            unknown = unknown_bounds(self._files.num_rows, field)
            return ColumnBounds(unknown, unknown, self.for_all_files(True), self.for_all_files(True))
        bound = comparison_bounds(value, field)
        # A file of another partitioning has no partition values, which says nothing about its rows.
        is_unknown = as_array(pc.is_null(self._files["partition"]))
        return ColumnBounds(bound, bound, pc.or_(pc.is_valid(value), is_unknown), pc.is_null(value))

    def _statistics_bounds(self, field: Field) -> ColumnBounds:
        """Return a column's bounds from statistics. Without null counts, a file may contain both values and nulls."""
        lower, upper = _without_contradictions(self._bound("lower", field), self._bound("upper", field))
        null_counts = self._child("nulls", field.name)
        if null_counts is None or not pa.types.is_integer(null_counts.type):
            return ColumnBounds(lower, upper, self.for_all_files(True), self.for_all_files(True))
        only_nulls = pc.fill_null(pc.greater_equal(null_counts, as_array(self._files["records"])), False)
        return ColumnBounds(lower, upper, pc.invert(only_nulls), pc.fill_null(pc.greater(null_counts, 0), True))

    def _bound(self, statistic: str, field: Field) -> pa.Array:
        bound = self._child(statistic, field.name)
        return unknown_bounds(self._files.num_rows, field) if bound is None else comparison_bounds(bound, field)

    def _child(self, struct: str, name: str) -> pa.Array | None:
        """Return the field `name` of the struct column `struct` of the listing, or None if the listing does not have it."""
        column = self._files[struct]
        index = column.type.get_field_index(name)
        return None if index < 0 else as_array(pc.struct_field(column, [index]))


def _with_range(column: ColumnBounds, field: Field, metadata: Mapping[bytes, bytes], range_: pa.StructArray) -> ColumnBounds:
    """Return a column's bounds, narrowed by the range of its transformed values in each file.

    A transform of a value is null only for null. So a file whose transformed values have no null has no null in the column.

    Args:
        column: The bounds of the column.
        field: The column.
        metadata: The metadata of the range, which describes the transform.
        range_: The range for each file (`range_type`), null for files without the transform.
    """
    lower, upper, has_nulls, has_values = (pc.struct_field(range_, [index]) for index in range(4))
    transform = metadata[TRANSFORM].decode()
    may_have_nulls = pc.and_(column.has_nulls, pc.fill_null(has_nulls, True))
    may_have_values = pc.and_(column.has_values, pc.fill_null(has_values, True))
    # If the sources contradict each other, one of them is wrong, and neither excludes the file.
    is_contradictory = pc.and_not(pc.or_(column.has_nulls, column.has_values), pc.or_(may_have_nulls, may_have_values))
    narrowed = replace(column, has_nulls=pc.or_(may_have_nulls, is_contradictory), has_values=pc.or_(may_have_values, is_contradictory))
    if transform.startswith("bucket["):
        return replace(narrowed, buckets=(*column.buckets, Buckets(transform, OF_UUIDS in metadata, lower, upper)))
    bounds = source_range(lower, upper, transform, field, is_local=LOCAL in metadata)
    return narrowed if bounds is None else _intersected(narrowed, *bounds)


def _intersected(column: ColumnBounds, lower: pa.Array, upper: pa.Array) -> ColumnBounds:
    """Return a column's bounds in the intersection with other bounds. Bounds that contradict each other become unknown."""
    if column.lower.type != lower.type:
        return column
    # `max_element_wise` does not support timestamps with a zone.
    greatest_lower = pc.if_else(pc.coalesce(pc.greater(lower, column.lower), pc.is_null(column.lower)), lower, column.lower)
    least_upper = pc.if_else(pc.coalesce(pc.less(upper, column.upper), pc.is_null(column.upper)), upper, column.upper)
    narrowed_lower, narrowed_upper = _without_contradictions(greatest_lower, least_upper)
    return replace(column, lower=narrowed_lower, upper=narrowed_upper)


def _without_contradictions(lower: pa.Array, upper: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the bounds of each file, null where the lower bound is greater than the upper one, so that one of them is wrong."""
    if pa.types.is_null(lower.type):  # the type of the column is not used for pruning
        return lower, upper
    is_possible = pc.fill_null(pc.less_equal(lower, upper), True)
    if pc.all(is_possible).as_py() is not False:
        return lower, upper
    unknown = pa.scalar(None, lower.type)
    return pc.if_else(is_possible, lower, unknown), pc.if_else(is_possible, upper, unknown)
