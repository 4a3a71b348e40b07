"""The ranges of transformed values in data files and in manifests, with which conditions on the source columns exclude them.

Each partition spec of the table has its own ranges, so files of older specs are excluded too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as t
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TimeTransform, TruncateTransform

from rowmerge.iceberg.manifests.bounds import decode_bounds
from rowmerge.iceberg.manifests.content import Entry, Manifest, PartitionSummary
from rowmerge.iceberg.metadata.partition_values import partition_value_type
from rowmerge.parquet.fitting import uuid_texts
from rowmerge.table.snapshots.files import OF_UUIDS, SOURCE, TRANSFORM, FileListing, listing_schema, range_type

_TRANSFORMS = (BucketTransform, IdentityTransform, TimeTransform, TruncateTransform)
"""The transforms whose values tell about the values of the source column."""


@dataclass(frozen=True)
class PartitionRange:
    """A partition field of one partition spec, whose source is a top-level column.

    `index`: the position of the field in the spec. `source_type`: the type of the column. `arrow_field`: the field of the range in the
    column `ranges` of a listing.
    """

    spec_id: int
    index: int
    source_type: t.IcebergType
    arrow_field: pa.Field

    @property
    def value_type(self) -> pa.DataType:
        """The Arrow type of the transformed values."""
        return self.arrow_field.type.field("lower").type


def partition_ranges(specs: Iterable[PartitionSpec], schema: Schema, columns: Collection[str]) -> list[PartitionRange]:
    """Return the partition fields of all specs whose source is one of the columns.

    Args:
        specs: The partition specs of the table.
        schema: The schema with which the snapshot is read.
        columns: The names of top-level columns.
    """
    sources = {field.field_id: field for field in schema.fields if field.name in columns}
    ranges = []
    for spec in specs:
        for index, field in enumerate(spec.fields):
            source = sources.get(field.source_id)
            if source is not None and isinstance(field.transform, _TRANSFORMS):
                ranges.append(PartitionRange(spec.spec_id, index, source.field_type, _arrow_field(spec, field, schema, source)))
    return ranges


def _arrow_field(spec: PartitionSpec, field: PartitionField, schema: Schema, source: t.NestedField) -> pa.Field:
    """Return the field of a listing for the range of a partition field. Its metadata describes the transform."""
    metadata = {SOURCE: source.name.encode(), TRANSFORM: str(field.transform).encode()}
    if isinstance(source.field_type, t.UUIDType):
        metadata[OF_UUIDS] = b"true"
    return pa.field(f"{spec.spec_id}.{field.field_id}", range_type(partition_value_type(schema, field)), metadata=metadata)


def file_ranges(entries: Sequence[Entry], range_: PartitionRange) -> pa.StructArray:
    """Return the range of each data file by one partition field (`range_type`), null for files of another spec.

    Args:
        entries: The entries of the files.
        range_: The partition field. Values that do not have its type are unknown.
    """
    is_other = [entry.file.spec_id != range_.spec_id or len(entry.file.partition) <= range_.index for entry in entries]
    if all(is_other):
        return pa.nulls(len(entries), range_.arrow_field.type)
    values = [None if other else entry.file.partition[range_.index] for entry, other in zip(entries, is_other, strict=True)]
    try:
        array = value_array(values, range_.value_type)
    except (ArithmeticError, TypeError, ValueError, pa.ArrowException):
        return pa.nulls(len(entries), range_.arrow_field.type)
    children = [array, array, pc.is_null(array), pc.is_valid(array)]
    return pa.StructArray.from_arrays(children, fields=list(range_.arrow_field.type), mask=pa.array(is_other))


def value_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return values of a partition field as the engine represents them. For example, manifests store a UUID as bytes.

    Args:
        values: The values, one for each file.
        type_: The type of the values (`partition_value_type`).

    Raises:
        ArithmeticError, TypeError, ValueError, ArrowException: A value does not have the type.
    """
    if pa.types.is_string(type_) and any(isinstance(value, bytes) for value in values):
        return uuid_texts(pa.array(values, pa.binary(16)))
    return pa.array(values, type_)


def list_manifests(manifests: Sequence[Manifest], ranges: Sequence[PartitionRange]) -> FileListing:
    """Return a listing with one row for each manifest, whose only bounds are the ranges of its partition summaries.

    Args:
        manifests: The manifests, as the manifest list describes them.
        ranges: The partition fields of all specs of the table.
    """
    count, empty = len(manifests), pa.struct([])
    no_fields = pa.Array.from_buffers(empty, count, [None], children=[])
    fields = [range_.arrow_field for range_ in ranges]
    arrays = [_manifest_ranges(manifests, range_) for range_ in ranges]
    columns = {
        "path": pa.array([manifest.path for manifest in manifests], pa.string()),
        "size": pa.array([manifest.length for manifest in manifests], pa.int64()),
        "records": pa.nulls(count, pa.int64()),
        "deleted": pa.nulls(count, pa.int64()),
        **dict.fromkeys(("partition", "lower", "upper", "nulls"), no_fields),
        "ranges": pa.StructArray.from_arrays(arrays, fields=fields) if fields else no_fields,
    }
    return FileListing(pa.Table.from_pydict(columns, schema=listing_schema(empty, empty, empty, pa.struct(fields))))


def _manifest_ranges(manifests: Sequence[Manifest], range_: PartitionRange) -> pa.StructArray:
    """Return the range of the files of each manifest by one partition field, null for manifests of another spec."""
    summaries = [
        manifest.partitions[range_.index] if manifest.spec_id == range_.spec_id and range_.index < len(manifest.partitions) else None
        for manifest in manifests
    ]
    lower, upper = (_summary_bounds([getattr(summary, side, None) for summary in summaries], range_) for side in ("lower", "upper"))
    if isinstance(range_.source_type, t.FloatType | t.DoubleType):
        # The bounds ignore NaN, which is greater than all numbers.
        has_nan = pa.array([summary is None or summary.contains_nan is not False for summary in summaries])
        unknown = pa.scalar(None, lower.type)
        lower, upper = pc.if_else(has_nan, unknown, lower), pc.if_else(has_nan, unknown, upper)
    has_nulls = pa.array([summary is None or summary.contains_null for summary in summaries])
    has_values = pa.array([summary is None or _may_have_values(summary, range_) for summary in summaries])
    is_other = pa.array([summary is None for summary in summaries])
    return pa.StructArray.from_arrays([lower, upper, has_nulls, has_values], fields=list(range_.arrow_field.type), mask=is_other)


def _summary_bounds(stored_bounds: Sequence[bytes | None], range_: PartitionRange) -> pa.Array:
    """Return the least or the greatest transformed values of manifests, null if they are unknown."""
    if isinstance(range_.source_type, t.UUIDType) and pa.types.is_string(range_.value_type):
        return pa.nulls(len(stored_bounds), range_.value_type)  # Java compares UUIDs as pairs of signed integers.
    type_ = t.IntegerType() if pa.types.is_int32(range_.value_type) else range_.source_type
    bounds = decode_bounds(pa.array(stored_bounds, pa.binary()), type_)
    return bounds if bounds.type == range_.value_type else pa.nulls(len(stored_bounds), range_.value_type)


def _may_have_values(summary: PartitionSummary, range_: PartitionRange) -> bool:
    """Return whether the column may have values other than NULL in the files of a manifest. Without bounds, all values are null or NaN."""
    if not summary.contains_null or summary.lower is not None or summary.upper is not None:
        return True
    return isinstance(range_.source_type, t.FloatType | t.DoubleType) and summary.contains_nan is not False
