"""The listing of a snapshot's data files that the engine uses, with absolute paths, typed partition values and column bounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.manifests.bounds import decode_bounds, has_invalid_bounds
from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.partition_values import partition_value_name, partition_value_type
from rowmerge.iceberg.snapshots.live_files import LiveFiles, ManifestFiles
from rowmerge.iceberg.snapshots.partition_ranges import PartitionRange, file_ranges, partition_ranges, value_array
from rowmerge.table.metadata.schema import Decimal, Field, Primitive, Struct, arrow_type, as_nullable
from rowmerge.table.snapshots.exact_statistics import exact_statistics
from rowmerge.table.snapshots.files import FileListing, listing_schema
from rowmerge.table.snapshots.ignored_bounds import report_ignored_bounds

_EXACT_TYPES = (BooleanType, IntegerType, LongType, DateType, TimestampType, TimestamptzType, DecimalType)
"""The types whose bounds are values of the column. Bounds of strings are truncated, and those of floating-point numbers ignore NaN."""
_BOUND_KINDS = ("lower", "upper", "nulls")
"""The kinds of bounds, which are also the names of their columns in the listing. Null counts are treated as bounds."""


@dataclass(frozen=True)
class ColumnBounds:
    """The bounds and null counts of a column by the names of `_BOUND_KINDS`, and whether any bound does not have the column's type."""

    by_kind: Mapping[str, pa.Array]
    has_invalid: bool


def list_files(live: LiveFiles, schema: Schema, columns: Struct, metadata: TableMetadata, bound_names: Collection[str] = ()) -> FileListing:
    """Return the live data files as a listing, in the schema of `rowmerge.table.snapshots.files.listing_schema`.

    Args:
        live: The live files, whose entries have partition values and column bounds.
        schema: The Iceberg schema of the table.
        columns: The columns of `schema` in the engine's types.
        metadata: The metadata of the table. For files of other specs than the current one, the partition in the listing is null.
        bound_names: The names of the top-level columns whose bounds and ranges the listing contains. Fields in lists and maps have none.

    Raises:
        CorruptLog: A partition value does not have the type of its field, or a delete file is damaged or missing.
        StorageError: The store fails while delete files are read to count deleted rows.
    """
    bound_columns = [bound_field for column in columns if column.name in bound_names and (bound_field := _bound_field(column)) is not None]
    ranges = partition_ranges(
        metadata.specs().values(), schema, [column.name for column in bound_columns if not isinstance(column.type, Struct)]
    )
    spec = metadata.spec()
    arrow_schema = _listing_schema(_partition_type(schema, spec), bound_columns, ranges)
    if not live.data:
        return FileListing(arrow_schema.empty_table())
    iceberg_columns = [_selected(schema.find_field(column.name), column) for column in bound_columns]
    # The columns of each manifest's files are cached, so each manifest has its own batch.
    batches = []
    for manifest in live.data_by_manifest:
        file_columns = _manifest_columns(live, manifest, spec, iceberg_columns, arrow_schema)
        range_columns = [_file_range(manifest, range_) for range_ in ranges]
        file_columns["ranges"] = _struct_array(range_columns, arrow_schema.field("ranges").type, len(manifest.entries))
        batches.append(pa.RecordBatch.from_arrays([file_columns[name] for name in arrow_schema.names], schema=arrow_schema))
    return FileListing(pa.Table.from_batches(batches, schema=arrow_schema))


def exact_files(live: LiveFiles, schema: Schema, listing: FileListing) -> FileListing:
    """Return the listing with only those statistics that are exact for live rows (`Snapshot.exact_files`).

    Args:
        live: The live files.
        schema: The Iceberg schema of the table.
        listing: The listing of these files, in the same order.

    Raises:
        CorruptLog: A delete file is damaged or missing.
        StorageError: The store fails while delete files are read.
    """

    def has_exact_bounds(field: pa.Field) -> bool:
        return isinstance(schema.find_type(field.name), _EXACT_TYPES)

    is_tight = pa.array(np.ones(len(listing), np.bool_))
    entries = [entry for manifest in live.data_by_manifest for entry in manifest.entries]
    deleted = pa.array(live.exact_deleted_counts(entries) if live.deletes else np.zeros(len(entries), np.int64), pa.int64())
    return exact_statistics(listing, deleted, is_tight, has_exact_bounds)


def _listing_schema(partition_type: pa.StructType, bound_columns: Sequence[Field], ranges: Sequence[PartitionRange]) -> pa.Schema:
    """Return the Arrow schema of a listing. Bounds and null counts are structs with a field for each column in `bound_columns`."""
    bounds_type = arrow_type(as_nullable(Struct(tuple(bound_columns))))  # a file may lack the bounds of a NOT NULL field
    null_counts_type = _counts_type(bounds_type)
    return listing_schema(partition_type, bounds_type, null_counts_type, pa.struct([range_.arrow_field for range_ in ranges]))


def _bound_field(field: Field) -> Field | None:
    """Return a field with those nested fields that have bounds, or None if it has none. Fields in lists and maps have no bounds here."""
    if not isinstance(field.type, Struct):
        return field if isinstance(field.type, Primitive | Decimal) else None
    children = [child for nested in field.type if (child := _bound_field(nested)) is not None]
    return replace(field, type=Struct(tuple(children))) if children else None


def _selected(iceberg_field: NestedField, field: Field) -> NestedField:
    """Return the Iceberg field with only the nested fields of `field`."""
    if not isinstance(field.type, Struct):
        return iceberg_field
    children = {child.name: child for child in cast(StructType, iceberg_field.field_type).fields}
    selected = StructType(*(_selected(children[nested.name], nested) for nested in field.type))
    return NestedField(iceberg_field.field_id, iceberg_field.name, selected, required=iceberg_field.required)


def _counts_type(bounds_type: pa.DataType) -> pa.DataType:
    """Return the type of null counts for a type of bounds: an int64 for each leaf."""
    if not pa.types.is_struct(bounds_type):
        return pa.int64()
    return pa.struct([(field.name, _counts_type(field.type)) for field in bounds_type])


def _manifest_columns(
    live: LiveFiles, manifest: ManifestFiles, spec: PartitionSpec, bound_columns: Sequence[NestedField], arrow_schema: pa.Schema
) -> dict[str, pa.Array]:
    """Return the columns of the listing of one manifest's data files, except `ranges`.

    All columns except `deleted` come from a cache, because a manifest never changes. Only the delete files that apply to its files may
    change.
    """
    columns = dict(_file_columns(manifest))
    columns["deleted"] = _deleted_counts(live, manifest.entries)
    columns["partition"] = _partition_values(manifest, spec, arrow_schema.field("partition").type)
    bounds_by_column = [column_bounds(manifest, column) for column in bound_columns]
    report_ignored_bounds(
        live.storage.location, [column.name for column, bounds in zip(bound_columns, bounds_by_column, strict=True) if bounds.has_invalid]
    )
    for kind in _BOUND_KINDS:
        # The listing has one column for each kind. For example, `lower` is a struct of the lower bounds of all bound columns.
        children = [bounds.by_kind[kind] for bounds in bounds_by_column]
        columns[kind] = _struct_array(children, arrow_schema.field(kind).type, len(manifest.entries))
    return columns


def _file_range(manifest: ManifestFiles, range_: PartitionRange) -> pa.StructArray:
    """Return the range of each file of a manifest by one partition field, from the cache."""
    return manifest.compute_once(("range", str(range_.arrow_field)), lambda: file_ranges(manifest.entries, range_))


def _partition_type(schema: Schema, spec: PartitionSpec) -> pa.StructType:
    """Return the Arrow type of a spec's partition values."""
    return pa.struct([(partition_value_name(schema, field), partition_value_type(schema, field)) for field in spec.fields])


def _file_columns(manifest: ManifestFiles) -> Mapping[str, pa.Array]:
    """Return the columns `path`, `size` and `records` of a manifest's listing, from the cache."""

    def compute() -> dict[str, pa.Array]:
        files = [entry.file for entry in manifest.entries]
        return {
            "path": pa.array([plain_path(file.path) for file in files], pa.string()),
            "size": pa.array([file.size for file in files], pa.int64()),
            "records": pa.array([file.records for file in files], pa.int64()),
        }

    return cast(Mapping[str, pa.Array], manifest.compute_once("files", compute))


def _deleted_counts(files: LiveFiles, entries: Sequence[Entry]) -> pa.Array:
    """Return the number of deleted rows of each file. Equality deletes count as one row, because only a scan could count their rows."""
    if not files.deletes:
        return pa.array(np.zeros(len(entries), np.int64))
    return pa.array([files.deleted_count(entry) + (1 if files.equality_deletes_of(entry) else 0) for entry in entries], pa.int64())


def _partition_values(manifest: ManifestFiles, spec: PartitionSpec, type_: pa.StructType) -> pa.StructArray:
    """Return the column `partition` of a manifest's listing, from the cache. Raises CorruptLog for values of a wrong type."""
    key = ("partition", spec.spec_id, str(type_))
    return manifest.compute_once(key, lambda: _compute_partition_values(manifest, spec, type_))


def _compute_partition_values(manifest: ManifestFiles, spec: PartitionSpec, type_: pa.StructType) -> pa.StructArray:
    """Return the partition values of a manifest's files, or null for files of another spec. Raises CorruptLog for a wrong type."""
    entries = manifest.entries
    if not type_.num_fields:
        return _struct_array([], type_, len(entries))
    null_partition = (None,) * type_.num_fields
    partitions = [entry.file.partition if entry.file.spec_id == spec.spec_id else null_partition for entry in entries]
    try:
        children = [value_array([partition[index] for partition in partitions], field.type) for index, field in enumerate(type_)]
    except (ArithmeticError, TypeError, ValueError, pa.ArrowException) as error:
        path = manifest.path or plain_path(entries[0].file.path)
        raise CorruptLog(path, f"a partition value does not have the type of its field ({error})") from error
    is_null = pa.array([entry.file.spec_id != spec.spec_id for entry in entries])
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=is_null)


def column_bounds(manifest: ManifestFiles, column: NestedField) -> ColumnBounds:
    """Return the bounds and null counts of a column in each file of a manifest, from the cache.

    Args:
        manifest: The files.
        column: The column, whose fields may be structs, but not lists or maps.
    """
    key = ("bounds", column.field_id, str(column.field_type))
    return cast(ColumnBounds, manifest.compute_once(key, lambda: _compute_bounds(manifest, column)))


def _compute_bounds(manifest: ManifestFiles, column: NestedField) -> ColumnBounds:
    """Return the bounds and null counts of a column, with one value for each file of the manifest."""
    if isinstance(column.field_type, StructType):
        return _struct_bounds([(nested.name, _compute_bounds(manifest, nested)) for nested in column.field_type.fields])
    type_, stored_bounds = column.field_type, {kind: manifest.maps(kind).values_of(column.field_id) for kind in ("lower", "upper")}
    has_invalid = any(has_invalid_bounds(bounds, type_) for bounds in stored_bounds.values())
    by_kind = {kind: decode_bounds(_enclosing_bounds(manifest, column, bounds), type_) for kind, bounds in stored_bounds.items()}
    return ColumnBounds({**by_kind, "nulls": _null_counts(manifest, column.field_id)}, has_invalid)


def _enclosing_bounds(manifest: ManifestFiles, column: NestedField, bounds: pa.Array) -> pa.Array:
    """Return the bounds of a column that enclose all values of a file, and null for the other files.

    A float column has bounds only in files without NaN, because Iceberg's bounds ignore NaN and the engine's bounds include it. UUIDs have
    bounds only in files with one row group: Java compares the bounds of several row groups as pairs of signed integers.
    """
    if isinstance(column.field_type, FloatType | DoubleType):
        return _or_null(bounds, pc.equal(manifest.maps("nan_counts").values_of(column.field_id), 0))
    if isinstance(column.field_type, UUIDType):
        return _or_null(bounds, pa.array([len(entry.file.split_offsets) <= 1 for entry in manifest.entries], pa.bool_()))
    return bounds


def _or_null(values: pa.Array, condition: pa.BooleanArray) -> pa.Array:
    """Return the values for which the condition is true, and null for the others."""
    return pc.if_else(pc.fill_null(condition, False), values, pa.scalar(None, values.type))


def _struct_bounds(children: Sequence[tuple[str, ColumnBounds]]) -> ColumnBounds:
    """Return the bounds and null counts of a struct from those of its fields, with their names."""
    names = [name for name, _ in children]
    by_kind = {kind: pa.StructArray.from_arrays([bounds.by_kind[kind] for _, bounds in children], names) for kind in _BOUND_KINDS}
    return ColumnBounds(by_kind, any(bounds.has_invalid for _, bounds in children))


def _null_counts(manifest: ManifestFiles, field_id: int) -> pa.Array:
    """Return the number of nulls of a column in each file, or null if the count is missing or impossible."""
    counts, row_counts = manifest.maps("null_counts").values_of(field_id), _file_columns(manifest)["records"]
    return _or_null(counts, pc.and_(pc.greater_equal(counts, 0), pc.less_equal(counts, row_counts)))


def _struct_array(children: Sequence[Any], type_: pa.StructType, length: int) -> pa.StructArray:
    # Arrow takes the length of a struct array from its children, so a struct without fields needs its length from elsewhere.
    if not type_.num_fields:
        return pa.Array.from_buffers(type_, length, [None], children=[])
    return pa.StructArray.from_arrays(list(children), fields=list(type_))
