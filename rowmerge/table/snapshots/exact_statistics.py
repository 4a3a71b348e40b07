"""The statistics of a file listing that are exact for live rows, so that they can answer queries instead of only excluding files."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.table.snapshots.files import FileListing


def exact_statistics(
    files: FileListing, deleted: pa.Array, is_tight: pa.Array, has_exact_bounds: Callable[[pa.Field], bool]
) -> FileListing:
    """Return a listing whose counts and bounds are exact for live rows. The other counts and bounds become null.

    Bounds of files with deleted rows are null, because a deleted row may have been the only row with such a value.

    Args:
        files: A listing whose bounds may be wide.
        deleted: The exact number of deleted rows of each file, or null if it is unknown.
        is_tight: For each file, whether its bounds are values of its rows.
        has_exact_bounds: A function that returns whether bounds of a column (a field of `lower`) are neither truncated nor rounded.
    """
    rows = files.rows
    is_exact = pc.and_(is_tight, pc.fill_null(pc.equal(deleted, 0), False))
    records = rows["records"].combine_chunks()

    def exact_bounds(field: pa.Field, bounds: pa.Array) -> pa.Array:
        is_known = is_exact if has_exact_bounds(field) else pc.and_(is_exact, False)
        return pc.if_else(is_known, bounds, pa.scalar(None, bounds.type))

    columns = {
        "deleted": deleted,
        "lower": _map_children(rows["lower"], exact_bounds),
        "upper": _map_children(rows["upper"], exact_bounds),
        "nulls": _map_children(rows["nulls"], lambda _, nulls: _live_nulls(nulls, records, deleted)),
    }
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), pa.field(name, values.type), values)
    return FileListing(rows)


def _live_nulls(nulls: pa.Array, records: pa.Array, deleted: pa.Array) -> pa.Array:
    """Return the null counts of live rows. In a file with deleted rows, the count is known if no row or every row contains NULL."""
    if not pa.types.is_integer(nulls.type):
        return pa.nulls(len(nulls), nulls.type)
    live = pc.subtract(records, deleted)
    in_files_with_deletes = pc.if_else(pc.equal(nulls, 0), nulls, pc.if_else(pc.equal(nulls, records), live, pa.scalar(None, pa.int64())))
    return pc.if_else(pc.equal(deleted, 0), nulls, in_files_with_deletes)


def _map_children(structs: pa.ChunkedArray, convert: Callable[[pa.Field, pa.Array], pa.Array]) -> pa.Array:
    """Apply a function to each field of a column of structs."""
    column = structs.combine_chunks()
    if not column.type.num_fields:
        return column
    children = [convert(field, pc.struct_field(column, [index])) for index, field in enumerate(column.type)]
    return pa.StructArray.from_arrays(children, fields=list(column.type))
