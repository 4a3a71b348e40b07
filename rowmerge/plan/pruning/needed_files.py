"""Choice of the files that suffice for a minimum, a maximum or a limited number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.plan.bounds.bounds import as_array, comparable
from rowmerge.plan.bounds.file_bounds import FileBounds
from rowmerge.table.metadata.schema import Field
from rowmerge.table.snapshots.files import FileListing


class Extreme(NamedTuple):
    """The least or, if `is_greatest`, the greatest value of a column. `is_partition`: whether the listing has the column's values."""

    column: Field
    is_greatest: bool
    is_partition: bool


def files_with_extremes(files: FileListing, exact: FileListing, extremes: Sequence[Extreme]) -> FileListing:
    """Return the files that together contain a row with each of these extremes.

    Args:
        files: The files in which all rows count, with the bounds of the columns.
        exact: The same files in the same order, with the exact numbers of deleted rows and null counts.
        extremes: The extremes. A column whose values are not compared by bounds needs all files.
    """
    bounds = FileBounds(files)
    masks = [_may_hold(extreme, files, exact, bounds) for extreme in extremes]
    return files.filter(reduce(pc.or_, masks, bounds.for_all_files(False)))


def _may_hold(extreme: Extreme, files: FileListing, exact: FileListing, bounds: FileBounds) -> pa.Array:
    """Return the mask of the files that may contain the extreme.

    If a file with the bounds 3 and 9 certainly has a live value, the maximum is 3 or greater. So files whose upper bound is less than 3
    cannot contain the maximum.
    """
    field = extreme.column
    if not comparable(field):
        return bounds.for_all_files(True)
    column = bounds.of_column(field, extreme.is_partition)
    outer, inner = (column.upper, column.lower) if extreme.is_greatest else (column.lower, column.upper)
    certain = inner.filter(_certainly_holds_value(field, exact, is_partition=extreme.is_partition))
    threshold = pc.max(certain) if extreme.is_greatest else pc.min(certain)
    if not threshold.is_valid:
        return column.has_values
    is_reached = pc.greater_equal(outer, threshold) if extreme.is_greatest else pc.less_equal(outer, threshold)
    return pc.and_(column.has_values, pc.fill_null(is_reached, True))


def _certainly_holds_value(field: Field, exact: FileListing, *, is_partition: bool) -> pa.Array:
    """Return the mask of the files with at least one live row in which the column is not NULL."""
    has_live_rows = pc.fill_null(pc.greater(exact.records, exact.deleted), False)
    if is_partition:
        return as_array(has_live_rows)
    nulls = exact.rows["nulls"]
    index = nulls.type.get_field_index(field.name)
    if index < 0 or not pa.types.is_integer(nulls.type.field(index).type):
        return as_array(pc.and_(has_live_rows, False))
    live_rows = pc.subtract(exact.records, exact.deleted)
    return as_array(pc.fill_null(pc.greater(live_rows, pc.struct_field(nulls, [index])), False))


def files_with_rows(exact: FileListing, count: int) -> FileListing:
    """Return few files that together certainly contain a number of live rows, or all files if they may contain fewer.

    Files without deleted rows are preferred, because Spark reads them faster.

    Args:
        exact: The files, with the exact numbers of rows and of deleted rows.
        count: The number of live rows.
    """
    live_rows = pc.fill_null(pc.subtract(exact.records, exact.deleted), 0).to_numpy()
    has_deletes = pc.fill_null(pc.not_equal(exact.deleted, 0), True).to_numpy()
    order = np.lexsort((-live_rows, has_deletes))
    # The number of files in this order before the sum of their rows reaches the count.
    number = int(np.searchsorted(np.cumsum(live_rows[order]), count)) + 1 if count > 0 else 0
    return FileListing(exact.rows.take(pa.array(np.sort(order[:number]), pa.int64())))
