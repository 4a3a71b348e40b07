"""List the data files of a table version with absolute paths, typed partition values and bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import struct_of
from rowmerge.delta.files.live_files import Block, LiveFiles
from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.files.statistics_reading import bounds_type, nulls_type
from rowmerge.delta.files.text_values import from_text
from rowmerge.delta.metadata.actions import Metadata
from rowmerge.delta.metadata.schema_changes import TYPE_CHANGES
from rowmerge.delta.snapshots.generated_ranges import GeneratedRange, generated_ranges
from rowmerge.errors import CorruptLog
from rowmerge.table.metadata.schema import Field, Struct, arrow_type
from rowmerge.table.snapshots.exact_statistics import exact_statistics
from rowmerge.table.snapshots.files import FileListing, listing_schema
from rowmerge.table.snapshots.ignored_bounds import report_ignored_bounds


def files_of(files: LiveFiles, location: str, paths: Collection[str]) -> LiveFiles:
    """Return those live files whose absolute path is in `paths`.

    Args:
        files: The live files of a version.
        location: The absolute path of the table's folder.
        paths: Absolute, percent-decoded paths. Paths that are not live files are ignored.
    """
    selected_paths = pa.array(sorted(paths), pa.string())
    return files.filter(lambda block: pc.is_in(_paths(block, location), value_set=selected_paths))


def list_files(
    files: LiveFiles, location: str, metadata: Metadata, columns: Collection[str] = (), generated: Mapping[str, str] = MappingProxyType({})
) -> FileListing:
    """Return the listing of files (`rowmerge.table.snapshots.files.listing_schema`), in the order of `files`.

    Args:
        files: The files of a version.
        location: The absolute path of the table's folder.
        metadata: The schema and the partition columns of the version.
        columns: The top-level columns whose bounds and null counts are included. Partition columns have no bounds.
        generated: The expressions of generated columns. The listing has the ranges that follow from generated partition columns.

    Raises:
        CorruptLog: A partition value is not valid for the type of its column.
    """
    bounded_fields = [field for field in metadata.schema if field.name in columns and field.name not in metadata.partition_columns]
    # `check_action` has verified that the schema contains all partition columns.
    partition_fields = [field for field in map(metadata.schema.find, metadata.partition_columns) if field is not None]
    partition_type = pa.struct([(field.name, arrow_type(field.type)) for field in partition_fields])
    ranges = generated_ranges(metadata.schema, generated, metadata.partition_columns, [field.name for field in bounded_fields])
    ranges_type = pa.struct([range_.arrow_field for range_ in ranges])
    result_schema = listing_schema(partition_type, bounds_type(bounded_fields), nulls_type(bounded_fields), ranges_type)
    if not files.count:
        return FileListing(result_schema.empty_table())
    # With column mapping, statistics in the log have the physical names of columns, and the listing has the logical names.
    physical_fields = dict(zip(metadata.schema.names, metadata.stored_schema, strict=True))
    partitions = [_partition_values(block, partition_fields, metadata, location) for block in files.blocks]
    statistics = _statistics_columns(files, [physical_fields[field.name] for field in bounded_fields], result_schema, location)
    if any(map(_was_float, bounded_fields)):
        for kind, extreme in (("lower", pc.min_element_wise), ("upper", pc.max_element_wise)):
            statistics[kind] = pa.chunked_array([_around_floats(chunk, bounded_fields, extreme) for chunk in statistics[kind].chunks])
    columns_by_name = {
        **statistics,
        "partition": pa.chunked_array(partitions),
        "ranges": pa.chunked_array([_ranges(values, ranges) for values in partitions]),
        **_action_columns(files, location),
    }
    return FileListing(pa.Table.from_pydict(columns_by_name, schema=result_schema))


def exact_files(files: LiveFiles, listing: FileListing) -> FileListing:
    """Return the listing with only those statistics that are exact for live rows (`Snapshot.exact_files`).

    Args:
        files: The files of a version.
        listing: The listing of these files, in the same order.
    """
    is_tight = pa.chunked_array([block.source.read_tight(block.numbers) for block in files.blocks], pa.bool_())
    return exact_statistics(listing, listing.deleted.combine_chunks(), is_tight.combine_chunks(), _has_exact_bounds)


def _has_exact_bounds(field: pa.Field) -> bool:
    """Return whether bounds in the log are values of the column.

    Writers truncate strings and round timestamps to milliseconds. Some write decimals as floating-point numbers, or ignore NaN.
    """
    return bool(pa.types.is_integer(field.type) or pa.types.is_date(field.type))


def _action_columns(files: LiveFiles, location: str) -> dict[str, pa.ChunkedArray]:
    """Return the columns of a listing that come from `add` actions: the path, the size and the number of deleted rows."""
    path_chunks = chain.from_iterable(_paths(block, location).chunks for block in files.blocks)
    cardinalities = pc.struct_field(files.column("deletionVector"), ["cardinality"])
    return {"path": pa.chunked_array(path_chunks), "size": files.column("size"), "deleted": pc.fill_null(cardinalities, 0)}


def _statistics_columns(files: LiveFiles, stored_fields: Sequence[Field], schema: pa.Schema, location: str) -> dict[str, pa.ChunkedArray]:
    """Return the columns of a listing that come from statistics. `stored_fields` are the columns with bounds, with physical names."""
    statistics_by_block = [block.source.read(stored_fields, block.numbers) for block in files.blocks]
    has_invalid = any(statistics.has_invalid for statistics in statistics_by_block)
    report_ignored_bounds(location, schema.field("nulls").type.names if has_invalid else ())
    lower, upper = ([getattr(statistics, kind) for statistics in statistics_by_block] for kind in ("lower", "upper"))
    return {
        "records": pa.chunked_array([statistics.records for statistics in statistics_by_block], pa.int64()),
        "lower": _rename_fields(lower, schema.field("lower").type),
        "upper": _rename_fields(upper, schema.field("upper").type),
        "nulls": _rename_fields([statistics.nulls for statistics in statistics_by_block], schema.field("nulls").type),
    }


def _was_float(field: Field) -> bool:
    """Return whether a column, or a field in it, was widened from float to double."""
    if isinstance(field.type, Struct):
        return any(map(_was_float, field.type))
    return any(change.get("fromType") == "float" for change in field.metadata.get(TYPE_CHANGES, ()))


def _around_floats(bounds: pa.StructArray, fields: Iterable[Field], extreme: Callable[..., pa.Array]) -> pa.StructArray:
    """Return bounds that also hold for values that were stored as floats: the bound 0.1 stands for the float 0.100000001490116, too.

    Args:
        bounds: The lower or the upper bounds.
        fields: The columns.
        extreme: The function that returns the lesser or the greater of two values.
    """
    children, field_by_name = [], {field.name: field for field in fields}
    for index, bound in enumerate(bounds.type):
        field, values = field_by_name[bound.name], pc.struct_field(bounds, [index])
        if isinstance(field.type, Struct):
            values = _around_floats(values, field.type, extreme)
        elif _was_float(field):
            values = extreme(values, values.cast(pa.float32(), safe=False).cast(values.type), skip_nulls=False)
        children.append(values)
    return struct_of(children, list(bounds.type), len(bounds))


def _paths(block: Block, location: str) -> pa.ChunkedArray:
    return block.cached(("paths", location), lambda: absolute_paths(location, block.rows["path"]))


def _rename_fields(chunks: Sequence[pa.StructArray], type_: pa.StructType) -> pa.ChunkedArray:
    """Convert structs with physical column names to structs of `type_`, which has logical names at every level."""
    return pa.chunked_array([chunk if chunk.type.equals(type_) else chunk.view(type_) for chunk in chunks], type_)


def _partition_values(block: Block, fields: Sequence[Field], metadata: Metadata, location: str) -> pa.StructArray:
    """Return the typed values of the partition columns `fields`. Each column is converted on first use and cached by the block."""
    children = [
        block.cached(("partition", stored_name, field.type), partial(_convert_texts, block, field, stored_name, location))
        for field, stored_name in zip(fields, metadata.stored_partition_columns, strict=True)
    ]
    return struct_of(children, [pa.field(field.name, arrow_type(field.type)) for field in fields], block.rows.num_rows)


def _ranges(partitions: pa.StructArray, ranges: Sequence[GeneratedRange]) -> pa.StructArray:
    """Return for each file the ranges of the source columns of its generated partition columns (see `generated_ranges`)."""
    children = [range_.of([partitions.field(column) for column in range_.columns]) for range_ in ranges]
    return struct_of(children, [range_.arrow_field for range_ in ranges], len(partitions))


def _convert_texts(block: Block, field: Field, stored_name: str, location: str) -> pa.Array:
    """Return the typed values of one partition column. Each distinct string is converted once, and an empty string becomes null."""
    texts = pc.struct_field(block.rows["partition"].combine_chunks(), [stored_name])
    encoded = pc.dictionary_encode(pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts))
    try:
        return from_text(encoded.dictionary, arrow_type(field.type)).take(encoded.indices)
    except pa.ArrowInvalid as error:
        raise CorruptLog(f"{location}/_delta_log", f"the partition column {field.name} has an invalid value: {error}") from error
