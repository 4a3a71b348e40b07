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

from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.metadata.partition_values import partition_value_type
from rowmerge.parquet.fitting import uuid_texts
from rowmerge.table.snapshots.files import OF_UUIDS, SOURCE, TRANSFORM, range_type

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
