"""The partition of data files as a struct with the partition fields of all specs, in metadata tables and in the column `_partition`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import BucketTransform, DayTransform, TimeTransform, VoidTransform

from rowmerge.iceberg.metadata.partition_values import source_type
from rowmerge.iceberg.metadata.types import columns_of
from rowmerge.iceberg.snapshots.partition_ranges import value_array
from rowmerge.table.metadata.schema import DataType, Field, Primitive, Struct, arrow_type


def partition_type(metadata: TableMetadata) -> Struct:
    """Return the partition fields of all partition specs, in the order of their ids, with the names of the newest spec.

    This is `Partitioning.partitionType` of Iceberg: a field that a newer spec replaced by `void` has the type of the older spec.

    Args:
        metadata: The metadata of the table.
    """
    fields = _partition_fields(metadata)
    return Struct(tuple(Field(name, _value_type(metadata, field), True, {"id": field.field_id}) for name, field in fields.items()))


def partition_transforms(metadata: TableMetadata) -> dict[str, str]:
    """Return the transform of each field of `partition_type`, by the name of the field."""
    return {name: str(field.transform) for name, field in _partition_fields(metadata).items()}


def _partition_fields(metadata: TableMetadata) -> dict[str, PartitionField]:
    """Return the fields of `partition_type` by name."""
    fields: dict[int, PartitionField] = {}
    names: dict[int, str] = {}
    for spec in sorted(metadata.partition_specs, key=lambda spec: spec.spec_id, reverse=True):
        for field in spec.fields:
            names.setdefault(field.field_id, field.name)
            if field.field_id not in fields or isinstance(fields[field.field_id].transform, VoidTransform):
                fields[field.field_id] = field
    return {names[id_]: fields[id_] for id_ in sorted(fields)}


def _value_type(metadata: TableMetadata, field: PartitionField) -> DataType:
    """Return the type of a partition field's values in metadata tables. Days are dates, as in Iceberg."""
    if isinstance(field.transform, DayTransform):
        return Primitive("date")
    if isinstance(field.transform, TimeTransform | BucketTransform):
        return Primitive("integer")
    source = source_type(metadata, field) or t.StringType()
    (column,) = columns_of(Schema(t.NestedField(1, "value", source)), field.name)
    return column.type


def positions_of_fields(metadata: TableMetadata, partition: Struct) -> dict[int, list[int | None]]:
    """Return for each spec id the position of each field of `partition` in the partition values of a file, or None."""
    ids = [field.metadata["id"] for field in partition]
    positions = {}
    for spec in metadata.partition_specs:
        position_by_id = {field.field_id: position for position, field in enumerate(spec.fields)}
        positions[spec.spec_id] = [position_by_id.get(id_) for id_ in ids]
    return positions


def values_in(positions: Sequence[int | None], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a file at these positions. A position can be None, and so is its value."""
    return tuple(None if position is None else values[position] for position in positions)


def partition_array(partitions: Sequence[tuple[int, tuple[Any, ...]]], metadata: TableMetadata, partition: Struct) -> pa.Array | None:
    """Return the partitions of files as a struct array, or None if no spec has fields.

    Args:
        partitions: The spec id and the partition values of each file.
        metadata: The metadata of the table.
        partition: The type of the struct (`partition_type`).
    """
    if not partition.fields:
        return None
    positions = positions_of_fields(metadata, partition)
    return struct_of_values([values_in(positions[spec_id], values) for spec_id, values in partitions], partition)


def struct_of_values(rows: Sequence[tuple[Any, ...]], partition: Struct) -> pa.StructArray:
    """Return rows of values as an Arrow array of the type `partition`."""
    type_ = arrow_type(partition)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(partition.fields)
    return pa.StructArray.from_arrays(
        [value_array(values, field.type) for values, field in zip(columns, type_, strict=True)], fields=list(type_)
    )
