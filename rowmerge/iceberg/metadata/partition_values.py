"""Partition specs and sort orders between pyiceberg and the engine's words; the values that files have.

Other readers have gaps. Iceberg 1.12 on Spark reads no manifest with a `fixed` partition value, not even its own. DuckDB's extension reads
no table with files of a partition spec whose column was dropped.
"""

from __future__ import annotations

import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.partitioning import PartitionField as IcebergPartitionField
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder
from pyiceberg.table.sorting import SortField as IcebergSortField
from pyiceberg.transforms import VoidTransform, parse_transform

from rowmerge.errors import PlanError, UnknownColumn, UnsupportedTableFeature
from rowmerge.iceberg.metadata.types import columns_of
from rowmerge.table.metadata.partitioning import VOID, PartitionField, SortField, Transform
from rowmerge.table.metadata.schema import arrow_type

FIRST_ID = 1000
"""Partition field ids begin here (Iceberg spec, Partition Specs)."""


def partitioning_of(spec: PartitionSpec, schema: Schema, table: str) -> tuple[PartitionField, ...]:
    """The fields of a spec in the engine's words. Raises UnsupportedTableFeature for a transform that is not known."""
    found = []
    for index, part in enumerate(spec.fields):
        if schema.find_column_name(part.source_id) is not None:
            key = key_of(spec, schema, index)
            called = "" if key == part.name else part.name
            found.append(PartitionField(_path(schema, part.source_id), _transform(str(part.transform), table), key, called))
    return tuple(found)


def ordering_of(order: SortOrder, schema: Schema, table: str) -> tuple[SortField, ...]:
    """The fields of a sort order in the engine's words."""
    return tuple(
        SortField(
            _path(schema, part.source_id),
            _transform(str(part.transform), table),
            part.direction is SortDirection.ASC,
            part.null_order is NullOrder.NULLS_FIRST,
        )
        for part in order.fields
        if schema.find_column_name(part.source_id) is not None
    )


def key_of(spec: PartitionSpec, schema: Schema, index: int) -> str:
    """What a partition field's value is called: by its column where it is the value of a top-level column, else by the field's name."""
    part = spec.fields[index]
    column = schema.find_column_name(part.source_id)
    top = any(field.field_id == part.source_id for field in schema.fields)
    return column if column is not None and top and str(part.transform) == "identity" else part.name


def value_type(schema: Schema, part: IcebergPartitionField) -> pa.DataType:
    """The Arrow type of a partition field's values; all time transforms are int."""
    source = schema.find_type(part.source_id) if schema.find_column_name(part.source_id) is not None else t.StringType()
    transform = str(part.transform)
    if transform.startswith(("year", "month", "day", "hour", "bucket")):
        return pa.int32()
    (field,) = columns_of(Schema(t.NestedField(1, "value", source)), part.name)
    return arrow_type(field.type)


def spec_of(
    partitioning: tuple[PartitionField, ...],
    schema: Schema,
    known: tuple[PartitionSpec, ...],
    last_id: int,
    places: PartitionSpec | None = None,
) -> PartitionSpec:
    """The spec with these fields: a known one where there is one, else a new one. Fields that were there before keep their ids.

    `places`: the spec before, in a table of format version 1, where a field is told by its place: one that goes stays there as void.

    Raises UnknownColumn, PlanError for a source that the transform does not take or a name that is used twice.
    """
    before = {(part.source_id, str(part.transform), part.name): part.field_id for spec in known for part in spec.fields}
    fields: list[IcebergPartitionField] = []
    taken = {asked.own_name for asked in partitioning if asked.transform.name != VOID}
    for asked in partitioning:
        if asked.transform.name == VOID and (places is not None or asked.own_name in taken):
            continue
        source = _source(schema, asked.column)
        transform = parse_transform(str(asked.transform))
        if not transform.can_transform(source.field_type) or not isinstance(source.field_type, t.PrimitiveType):
            raise PlanError(f"PARTITIONED BY {asked.told}: {asked.transform.name} takes no {source.field_type}. Choose another transform.")
        name = asked.own_name or default_name(asked)
        if any(field.name == name for field in fields):
            raise PlanError(f"Two partition fields are named {name}. Give one of them another name: ADD PARTITION FIELD … AS name.")
        id_ = before.get((source.field_id, str(transform), name))
        if id_ is None:
            if (clash := schema.find_column_name(_id(schema, name))) and not (asked.identity and asked.column == (name,)):
                raise PlanError(f"The partition field {name} ({asked.told}) has the name of the column {clash}. Give it another name.")
            last_id += 1
            id_ = last_id
        fields.append(IcebergPartitionField(source_id=source.field_id, field_id=id_, transform=transform, name=name))
    if places is not None:
        fields = _in_place(fields, places)
    same = next((spec for spec in known if list(spec.fields) == fields), None)
    next_id = max((spec.spec_id for spec in known), default=-1) + 1
    return same if same is not None else PartitionSpec(*fields, spec_id=next_id)


def _in_place(fields: list[IcebergPartitionField], before: PartitionSpec) -> list[IcebergPartitionField]:
    """The fields of the spec before where they were, those that are gone as void; then the new ones, which may take a gone one's name."""
    stay = {field.field_id: field for field in fields}
    there = {part.field_id for part in before.fields}
    added = [field for field in fields if field.field_id not in there]
    taken = {field.name for field in fields if not isinstance(field.transform, VoidTransform)}
    kept = []
    for part in before.fields:
        field = stay.get(part.field_id)
        if field is None or isinstance(field.transform, VoidTransform):
            name = f"{part.name}_{part.field_id}" if part.name in taken else part.name
            field = IcebergPartitionField(source_id=part.source_id, field_id=part.field_id, transform=VoidTransform(), name=name)
        kept.append(field)
    return [*kept, *added]


def undivided_specs(metadata: TableMetadata) -> frozenset[int]:
    """The ids of the specs that divide nothing (Java's PartitionSpec.isUnpartitioned): their equality deletes hold for the whole table."""
    return frozenset(
        spec.spec_id for spec in metadata.partition_specs if all(isinstance(part.transform, VoidTransform) for part in spec.fields)
    )


def order_of(ordering: tuple[SortField, ...], schema: Schema, known: tuple[SortOrder, ...]) -> SortOrder:
    """The sort order with these fields: a known one where there is one, else a new one. Raises UnknownColumn, PlanError."""
    fields = []
    for asked in ordering:
        source = _source(schema, asked.column)
        transform = parse_transform(str(asked.transform))
        if not isinstance(source.field_type, t.PrimitiveType) or not transform.can_transform(source.field_type):
            raise PlanError(f"WRITE ORDERED BY {asked.told}: there is no such order of a {source.field_type}. Choose another column.")
        fields.append(
            IcebergSortField(
                source_id=source.field_id,
                transform=transform,
                direction=SortDirection.ASC if asked.ascending else SortDirection.DESC,
                null_order=NullOrder.NULLS_FIRST if asked.nulls_first else NullOrder.NULLS_LAST,
            )
        )
    if not fields:
        return next((order for order in known if order.order_id == 0), SortOrder(order_id=0))
    same = next((order for order in known if list(order.fields) == fields), None)
    return same if same is not None else SortOrder(*fields, order_id=max([0, *(order.order_id for order in known)]) + 1)


def default_name(field: PartitionField) -> str:
    """The name of a partition field that was given none, as Iceberg on Spark makes it."""
    column = ".".join(field.column)
    suffix = {"identity": "", "truncate": "_trunc", "void": "_null"}.get(field.transform.name, f"_{field.transform.name}")
    return f"{column}{suffix}"


def _transform(text: str, table: str) -> Transform:
    try:
        return Transform.parse(text)
    except ValueError as error:
        advice = "Change its rows in an engine that knows the transform."
        raise UnsupportedTableFeature(table, f"partition transform {text}", action="read", advice=advice) from error


def _path(schema: Schema, id_: int) -> tuple[str, ...]:
    """The names of a field from the top."""
    for field in schema.fields:
        if (found := _below(field, id_)) is not None:
            return found
    return ()


def _below(field: t.NestedField, id_: int) -> tuple[str, ...] | None:
    if field.field_id == id_:
        return (field.name,)
    if isinstance(field.field_type, t.StructType):
        for inner in field.field_type.fields:
            if (found := _below(inner, id_)) is not None:
                return (field.name, *found)
    return None


def _source(schema: Schema, column: tuple[str, ...]) -> t.NestedField:
    fields, found = schema.fields, None
    for name in column:
        found = next((field for field in fields if field.name.lower() == name.lower()), None)
        if found is None:
            raise UnknownColumn(".".join(column), [field.name for field in schema.fields], where="the partitioning or the sort order")
        fields = found.field_type.fields if isinstance(found.field_type, t.StructType) else ()
    assert found is not None
    return found


def _id(schema: Schema, name: str) -> int:
    return next((field.field_id for field in schema.fields if field.name == name), -1)
