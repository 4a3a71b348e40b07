"""Convert partition specs and sort orders between pyiceberg and the engine. Define the names and types of partition values.

Other readers have limits. Iceberg 1.12 on Spark cannot read manifests with a `fixed` partition value, not even its own manifests. DuckDB's
extension cannot read a table with files of a partition spec whose source column was dropped.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import chain, count
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.partitioning import PartitionField as IcebergPartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField as IcebergSortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    TimeTransform,
    Transform as IcebergTransform,
    TruncateTransform,
    VoidTransform,
    parse_transform,
)
from pyiceberg.utils.datetime import micros_to_timestamp, micros_to_timestamptz

from rowmerge.errors import PlanError, UnknownColumn, UnsupportedTableFeature
from rowmerge.iceberg.metadata.types import columns_of
from rowmerge.parquet.transforms import folder_text
from rowmerge.table.metadata.partitioning import VOID, PartitionField, SortField, Transform
from rowmerge.table.metadata.schema import arrow_type

FIRST_ID = 1000
"""The first partition field id ("Partition Specs" in the Iceberg specification)."""


def partitioning_of(spec: PartitionSpec, schema: Schema, table: str) -> tuple[PartitionField, ...]:
    """Return the fields of a partition spec whose source columns exist.

    A field has two names: its name in the spec, and the name of its value in listings and folders. For example, the field `land` has the
    transform identity and the column `country`. Then its value has the name of the column, as in the folder `country=FR`. The two names
    are equal for most fields, such as the field `day_day` with the transform day and the column `day` (see `partition_value_name`).

    Args:
        spec: The partition spec.
        schema: The schema in which source columns are looked up.
        table: The name of the table in messages.

    Raises:
        UnsupportedTableFeature: A field has an unknown transform.
    """
    fields = []
    for field in spec.fields:
        if schema.find_column_name(field.source_id) is not None:
            value_name = partition_value_name(schema, field)
            # PartitionField has a separate field name only if the two names differ.
            field_name = "" if value_name == field.name else field.name
            source_path = _path_to(schema.fields, field.source_id)
            fields.append(PartitionField(source_path, _parse_transform(field.transform, table), value_name, field_name))
    return tuple(fields)


def ordering_of(order: SortOrder, schema: Schema, table: str) -> tuple[SortField, ...]:
    """Return the fields of a sort order whose source columns exist. Rows cannot be sorted by a dropped column.

    Args:
        order: The sort order.
        schema: The schema in which source columns are looked up.
        table: The name of the table in messages.

    Raises:
        UnsupportedTableFeature: A field has an unknown transform.
    """
    return tuple(
        SortField(
            _path_to(schema.fields, field.source_id),
            _parse_transform(field.transform, table),
            ascending=field.direction is SortDirection.ASC,
            nulls_first=field.null_order is NullOrder.NULLS_FIRST,
        )
        for field in order.fields
        if schema.find_column_name(field.source_id) is not None
    )


def partition_value_name(schema: Schema, field: IcebergPartitionField) -> str:
    """Return the name of a partition field's value: the column name for an identity transform of a top-level column, else the field name.

    Args:
        schema: The schema in which the source column is looked up.
        field: The partition field.
    """
    column = next((column.name for column in schema.fields if column.field_id == field.source_id), None)
    return column if column is not None and str(field.transform) == "identity" else field.name


def partition_value_type(schema: Schema, field: IcebergPartitionField) -> pa.DataType:
    """Return the Arrow type of a partition field's values: int for time and bucket transforms, else the type of the source column.

    The schema does not contain a dropped source column, so the values of its partition fields have the type string.

    Args:
        schema: The schema in which the source column is looked up.
        field: The partition field.

    Raises:
        UnsupportedTableFeature: Spark does not support the type of the source column.
    """
    if isinstance(field.transform, TimeTransform | BucketTransform):
        return pa.int32()
    has_source = schema.find_column_name(field.source_id) is not None
    source_type = schema.find_type(field.source_id) if has_source else t.StringType()
    # `columns_of` converts only the columns of a schema, so build a schema with one column of the source type.
    (value_column,) = columns_of(Schema(t.NestedField(1, "value", source_type)), field.name)
    return arrow_type(value_column.type)


def partition_path_of(metadata: TableMetadata, spec_id: int, values: Sequence[Any]) -> str:
    """Return the path of a partition as Iceberg writes it in summaries, such as `place=a+b/day=2024-02-01`. It is empty without fields.

    It is also empty if another writer has added the spec since the metadata was read.

    Args:
        metadata: The metadata of the table, whose schemas contain the source columns of the spec.
        spec_id: The id of the partition spec.
        values: The partition values as manifests store them, such as dates as ints.
    """
    spec = metadata.specs().get(spec_id)
    if spec is None:
        return ""
    folders = []
    for field, value in zip(spec.fields, values, strict=True):
        has_source_type = isinstance(field.transform, IdentityTransform | TruncateTransform)
        shown_value = _python_value(value, source_type(metadata, field)) if has_source_type else value
        folders.append(f"{folder_text(field.name, 'identity')}={folder_text(shown_value, str(field.transform))}")
    return "/".join(folders)


def source_type(metadata: TableMetadata, field: IcebergPartitionField) -> t.IcebergType | None:
    """Return the newest type of the source column of a partition field, or None if no schema contains the column.

    Args:
        metadata: The metadata of the table.
        field: The partition field.
    """
    schemas = [metadata.schema(), *reversed(metadata.schemas)]
    return next((schema.find_type(field.source_id) for schema in schemas if schema.find_column_name(field.source_id)), None)


def _python_value(value: Any, source_type: t.IcebergType | None) -> Any:
    """Return the stored value of an identity or truncate transform as a Python value that `folder_text` writes as Iceberg does."""
    match source_type:
        case t.DateType() if isinstance(value, int):
            return np.datetime64(value, "D")
        case t.TimestampType() if isinstance(value, int):
            return micros_to_timestamp(value)
        case t.TimestamptzType() if isinstance(value, int):
            return micros_to_timestamptz(value)
        case t.UUIDType() if isinstance(value, bytes):
            return uuid.UUID(bytes=value)
    return value


def find_or_build_spec(
    partitioning: tuple[PartitionField, ...],
    schema: Schema,
    known_specs: Sequence[PartitionSpec],
    last_field_id: int,
    v1_spec: PartitionSpec | None = None,
) -> PartitionSpec:
    """Return the partition spec of a partitioning: a known spec with exactly the same fields, or a new spec.

    A field of a known spec keeps its id ("Partition Evolution" in the Iceberg specification).

    Args:
        partitioning: The partition fields.
        schema: The current schema of the table.
        known_specs: All partition specs of the table; empty for a new table.
        last_field_id: The highest partition field id that the table has ever used. New fields get the next ids.
        v1_spec: The current spec of a table of format version 1; None for other tables.

    Raises:
        UnknownColumn: The schema does not contain the column of a field.
        PlanError: A transform does not support the type of its column, or the name of a field is not unique.
    """
    requested_fields = _without_replaced_voids(partitioning, is_v1=v1_spec is not None)
    fields = _build_fields(requested_fields, schema, known_specs, last_field_id)
    if v1_spec is not None:
        # Format version 1 identifies a field by its position, so a void field replaces a dropped field.
        fields = _at_v1_positions(fields, v1_spec)
    known_spec = next((spec for spec in known_specs if list(spec.fields) == fields), None)
    new_spec_id = max((spec.spec_id for spec in known_specs), default=-1) + 1
    return PartitionSpec(*fields, spec_id=new_spec_id) if known_spec is None else known_spec


def _build_fields(
    requested_fields: Sequence[PartitionField], schema: Schema, known_specs: Sequence[PartitionSpec], last_field_id: int
) -> list[IcebergPartitionField]:
    """Return the requested fields with the ids of equal fields in known specs, or with new ids. Raises UnknownColumn, PlanError."""
    known_fields = chain.from_iterable(spec.fields for spec in known_specs)
    known_ids = {(field.source_id, str(field.transform), field.name): field.field_id for field in known_fields}
    new_ids = count(last_field_id + 1)
    fields: list[IcebergPartitionField] = []
    for requested_field in requested_fields:
        source_id, transform = _partition_source(schema, requested_field)
        name = requested_field.own_name or _default_field_name(requested_field)
        _check_not_repeated(name, fields)
        field_id = known_ids.get((source_id, str(transform), name))
        if field_id is None:
            _check_no_column_has_name(requested_field, name, schema)
            field_id = next(new_ids)
        fields.append(IcebergPartitionField(source_id=source_id, field_id=field_id, transform=transform, name=name))
    return fields


def _without_replaced_voids(partitioning: tuple[PartitionField, ...], *, is_v1: bool) -> list[PartitionField]:
    """Return the fields of a partitioning, except void fields that have the same name as another field.

    For format version 1, omit all void fields: `_at_v1_positions` adds them again.
    """
    names = {field.own_name for field in partitioning if field.transform.name != VOID}
    return [field for field in partitioning if field.transform.name != VOID or not (is_v1 or field.own_name in names)]


def _partition_source(schema: Schema, field: PartitionField) -> tuple[int, IcebergTransform[Any, Any]]:
    """Return the id of a partition field's source column, and the transform of the field. Raises UnknownColumn, PlanError."""
    source = _find_column(schema, field.column)
    transform = parse_transform(str(field.transform))
    if not _transform_accepts(transform, source.field_type):
        reason = f"{field.transform.name} does not support the type {source.field_type}"
        raise PlanError(f"PARTITIONED BY {field.text}: {reason}. Choose another transform.")
    return source.field_id, transform


def _check_not_repeated(name: str, fields: Sequence[IcebergPartitionField]) -> None:
    if any(field.name == name for field in fields):
        raise PlanError(f"Two partition fields are named {name}. Give one of them a different name: ADD PARTITION FIELD … AS name.")


def _check_no_column_has_name(field: PartitionField, name: str, schema: Schema) -> None:
    """Raise PlanError if a new field has the name of a column, unless the field is the identity transform of this column."""
    is_identity_of_column = field.identity and field.column == (name,)
    if any(column.name == name for column in schema.fields) and not is_identity_of_column:
        raise PlanError(f"The partition field {name} ({field.text}) has the same name as the column {name}. Give it a different name.")


def _at_v1_positions(fields: list[IcebergPartitionField], previous_spec: PartitionSpec) -> list[IcebergPartitionField]:
    """Return the fields of the previous spec at their old positions, followed by the new fields. Dropped fields get the transform void.

    Format version 1 identifies a partition field by its position ("Partition Evolution" in the Iceberg specification).
    """
    fields_by_id = {field.field_id: field for field in fields}
    names = {field.name for field in fields}
    previous_ids = {field.field_id for field in previous_spec.fields}
    previous_fields = [fields_by_id.get(field.field_id) or _void_field(field, names) for field in previous_spec.fields]
    return previous_fields + [field for field in fields if field.field_id not in previous_ids]


def _void_field(dropped: IcebergPartitionField, taken_names: set[str]) -> IcebergPartitionField:
    """Return a dropped field with the transform void. If another field now has the same name, the name gets the field id."""
    name = f"{dropped.name}_{dropped.field_id}" if dropped.name in taken_names else dropped.name
    return IcebergPartitionField(source_id=dropped.source_id, field_id=dropped.field_id, transform=VoidTransform(), name=name)


def unpartitioned_spec_ids(metadata: TableMetadata) -> frozenset[int]:
    """Return the ids of partition specs with no fields or only void fields (see Iceberg's PartitionSpec.isUnpartitioned)."""
    specs = [spec for spec in metadata.partition_specs if all(isinstance(field.transform, VoidTransform) for field in spec.fields)]
    return frozenset(spec.spec_id for spec in specs)


def find_or_build_order(ordering: tuple[SortField, ...], schema: Schema, known_orders: Sequence[SortOrder]) -> SortOrder:
    """Return a sort order with the given fields: a known sort order, or a new one.

    Args:
        ordering: The sort fields; empty for the unsorted order, which has the id 0.
        schema: The current schema of the table.
        known_orders: All sort orders of the table; empty for a new table.

    Raises:
        UnknownColumn: The schema does not contain the column of a field.
        PlanError: A transform does not support the type of its column.
    """
    if not ordering:
        return next((order for order in known_orders if order.order_id == 0), SortOrder(order_id=0))
    fields = [_iceberg_sort_field(schema, field) for field in ordering]
    known_order = next((order for order in known_orders if list(order.fields) == fields), None)
    return known_order or SortOrder(*fields, order_id=max([0, *(order.order_id for order in known_orders)]) + 1)


def _iceberg_sort_field(schema: Schema, field: SortField) -> IcebergSortField:
    """Return pyiceberg's sort field for a sort field of the engine. Raises UnknownColumn, PlanError."""
    source = _find_column(schema, field.column)
    transform = parse_transform(str(field.transform))
    if not _transform_accepts(transform, source.field_type):
        reason = f"the transform does not support the type {source.field_type}"
        raise PlanError(f"WRITE ORDERED BY {field.text}: {reason}. Choose a different column.")
    return IcebergSortField(
        source_id=source.field_id,
        transform=transform,
        direction=SortDirection.ASC if field.ascending else SortDirection.DESC,
        null_order=NullOrder.NULLS_FIRST if field.nulls_first else NullOrder.NULLS_LAST,
    )


def _transform_accepts(transform: IcebergTransform[Any, Any], type_: t.IcebergType) -> bool:
    return isinstance(type_, t.PrimitiveType) and transform.can_transform(type_)


def _default_field_name(field: PartitionField) -> str:
    """Return the name that Iceberg on Spark gives to a partition field without a name."""
    suffix = {"identity": "", "truncate": "_trunc", "void": "_null"}.get(field.transform.name, f"_{field.transform.name}")
    return ".".join(field.column) + suffix


def _parse_transform(transform: IcebergTransform[Any, Any], table: str) -> Transform:
    """Return the engine's transform for a transform of pyiceberg. Raises UnsupportedTableFeature for an unknown transform."""
    try:
        return Transform.parse(str(transform))
    except ValueError as error:
        advice = "Change its rows with an engine that supports the transform."
        raise UnsupportedTableFeature(table, f"partition transform {transform}", action="read", advice=advice) from error


def _path_to(fields: Sequence[t.NestedField], field_id: int) -> tuple[str, ...]:
    """Return the path of a field: the names from the top-level field through its structs. Return an empty tuple for an unknown id."""
    for field in fields:
        if field.field_id == field_id:
            return (field.name,)
        if isinstance(field.field_type, t.StructType) and (path := _path_to(field.field_type.fields, field_id)):
            return (field.name, *path)
    return ()


def _find_column(schema: Schema, path: tuple[str, ...]) -> t.NestedField:
    """Return the field at a path of names. Names are not case-sensitive. Raises UnknownColumn."""
    struct: t.IcebergType = schema.as_struct()
    for name in path:
        fields = struct.fields if isinstance(struct, t.StructType) else ()
        column = next((field for field in fields if field.name.lower() == name.lower()), None)
        if column is None:
            raise UnknownColumn(".".join(path), [field.name for field in schema.fields], where="the partitioning or the sort order")
        struct = column.field_type
    assert column is not None, "a column path has at least one name"
    return column
