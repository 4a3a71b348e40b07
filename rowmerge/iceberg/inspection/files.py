"""The metadata tables of files: `files`, `data_files`, `delete_files`, `entries` and `partitions`, and those of all snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as t
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import BucketTransform, DayTransform, TimeTransform, VoidTransform

from rowmerge.iceberg.manifests.bounds import decode_bounds
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry
from rowmerge.iceberg.metadata.partition_values import source_type
from rowmerge.iceberg.metadata.types import columns_of, nested_fields
from rowmerge.iceberg.snapshots.partition_ranges import value_array
from rowmerge.table.metadata.schema import DataType, Field, Primitive, Struct, arrow_type
from rowmerge.table.snapshots.metadata_tables import INT, LONG, MetadataRows, file_types, metrics_type, partition_types, utc_time

_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_counts",
    "nan_value_count": "nan_counts",
}
"""The counts in `readable_metrics`, and the attributes of a file that contain them by field id."""


def file_rows(files: Sequence[ContentFile], metadata: TableMetadata) -> MetadataRows:
    """Return the rows of `files`, `data_files` or `delete_files`: one for each file.

    Args:
        files: The data files and delete files.
        metadata: The metadata of the table.
    """
    leaves = _leaves(metadata.schema())
    partition = partition_type(metadata)
    values: dict[str, pa.Array | Sequence[Any]] = {
        "content": [file.content for file in files],
        "file_path": [file.path for file in files],
        "file_format": [file.format.upper() for file in files],
        "spec_id": [file.spec_id for file in files],
        "partition": _partition_array([(file.spec_id, file.partition) for file in files], metadata, partition),
        "record_count": [file.records for file in files],
        "file_size_in_bytes": [file.size for file in files],
        "column_sizes": _map_array([file.column_sizes for file in files], pa.int64()),
        "value_counts": _map_array([file.value_counts for file in files], pa.int64()),
        "null_value_counts": _map_array([file.null_counts for file in files], pa.int64()),
        "nan_value_counts": _map_array([file.nan_counts for file in files], pa.int64()),
        "lower_bounds": _map_array([file.lower for file in files], pa.binary()),
        "upper_bounds": _map_array([file.upper for file in files], pa.binary()),
        "key_metadata": [file.key_metadata for file in files],
        "split_offsets": [file.split_offsets or None for file in files],
        "equality_ids": [file.equality_ids or None for file in files],
        "sort_order_id": [file.sort_order_id for file in files],
        "first_row_id": [file.first_row_id for file in files],
        "referenced_data_file": [file.referenced_data_file for file in files],
        "content_offset": [file.content_offset for file in files],
        "content_size_in_bytes": [file.content_size for file in files],
        "readable_metrics": _metrics_array(files, leaves),
    }
    return MetadataRows.of(file_types(partition, metrics_type(field for field, _ in leaves.values())), values)


def entry_rows(entries: Sequence[Entry], metadata: TableMetadata) -> MetadataRows:
    """Return the rows of `entries`: one for each manifest entry, also of a deleted file.

    Args:
        entries: The entries of manifests.
        metadata: The metadata of the table.
    """
    files = file_rows([entry.file for entry in entries], metadata)
    metrics_name = "readable_metrics"
    data_file = MetadataRows(Struct(tuple(files.columns)[:-1]), files.rows.drop_columns([metrics_name]))
    file_type, file_values = data_file.as_column()
    numbers: dict[str, DataType] = {"status": INT, **dict.fromkeys(("snapshot_id", "sequence_number", "file_sequence_number"), LONG)}
    values: dict[str, pa.Array | Sequence[Any]] = {name: [getattr(entry, name) for entry in entries] for name in numbers}
    types = {**numbers, "data_file": file_type, metrics_name: tuple(files.columns)[-1].type}
    return MetadataRows.of(types, {**values, "data_file": file_values, metrics_name: files.rows[metrics_name].combine_chunks()})


def partition_rows(entries: Sequence[Entry], metadata: TableMetadata) -> MetadataRows:
    """Return the rows of `partitions`: the counts of live files and their rows in each partition, and its last change.

    Files of several partition specs are in one partition if they have the same values in all partition fields.

    Args:
        entries: The manifest entries of the live files.
        metadata: The metadata of the table.
    """
    partition = partition_type(metadata)
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    positions = _positions_of_fields(metadata, partition)
    partitions: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in entries:
        key = _values_in(positions[entry.file.spec_id], entry.file.partition)
        counts = partitions.setdefault(key, dict.fromkeys(partition_types(partition), 0) | {"last_updated_at": None})
        _count_file(counts, entry, times.get(entry.snapshot_id))
    rows = list(partitions.values())
    values: dict[str, pa.Array | Sequence[Any]] = {name: [row[name] for row in rows] for name in partition_types(partition)}
    values["last_updated_at"] = [None if row["last_updated_at"] is None else utc_time(row["last_updated_at"]) for row in rows]
    if partition.fields:
        values["partition"] = _struct_of_values(list(partitions), partition)
    return MetadataRows.of(partition_types(partition), values)


def _count_file(counts: dict[str, Any], entry: Entry, time: int | None) -> None:
    """Add a file to the counts of its partition. `time`: when the snapshot that added the file was committed, None if it has expired."""
    file = entry.file
    counts["spec_id"] = max(counts.get("spec_id", 0), file.spec_id)
    prefix = {Content.DATA: "", Content.POSITION_DELETES: "position_delete_", Content.EQUALITY_DELETES: "equality_delete_"}[file.content]
    counts[f"{prefix}record_count"] += file.records
    counts[f"{prefix}file_count"] += 1
    if file.content is Content.DATA:
        counts["total_data_file_size_in_bytes"] += file.size
    if time is not None and (counts["last_updated_at"] is None or counts["last_updated_at"] < time):
        counts |= {"last_updated_at": time, "last_updated_snapshot_id": entry.snapshot_id}
    elif counts["last_updated_at"] is None:
        counts["last_updated_snapshot_id"] = None


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
        return INT
    source = source_type(metadata, field) or t.StringType()
    (column,) = columns_of(Schema(t.NestedField(1, "value", source)), field.name)
    return column.type


def _positions_of_fields(metadata: TableMetadata, partition: Struct) -> dict[int, list[int | None]]:
    """Return for each spec id the position of each field of `partition` in the partition values of a file, or None."""
    ids = [field.metadata["id"] for field in partition]
    positions = {}
    for spec in metadata.partition_specs:
        position_by_id = {field.field_id: position for position, field in enumerate(spec.fields)}
        positions[spec.spec_id] = [position_by_id.get(id_) for id_ in ids]
    return positions


def _values_in(positions: Sequence[int | None], values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(None if position is None else values[position] for position in positions)


def _partition_array(partitions: Sequence[tuple[int, tuple[Any, ...]]], metadata: TableMetadata, partition: Struct) -> pa.Array | None:
    """Return the column `partition` from the spec id and the values of each file, or None if no spec has fields."""
    if not partition.fields:
        return None
    positions = _positions_of_fields(metadata, partition)
    return _struct_of_values([_values_in(positions[spec_id], values) for spec_id, values in partitions], partition)


def _struct_of_values(rows: Sequence[tuple[Any, ...]], partition: Struct) -> pa.StructArray:
    type_ = arrow_type(partition)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(partition.fields)
    return pa.StructArray.from_arrays(
        [value_array(values, field.type) for values, field in zip(columns, type_, strict=True)], fields=list(type_)
    )


def _map_array(maps: Sequence[Mapping[int, Any]], value_type: pa.DataType) -> pa.Array:
    """Return maps by field id as an Arrow array. An empty map is null, because manifests omit maps without entries."""
    offsets = pa.array(accumulate(map(len, maps), initial=0), pa.int32())
    keys = pa.array(chain.from_iterable(maps), pa.int32())
    items = pa.array(chain.from_iterable(map_.values() for map_ in maps), value_type)
    is_empty = pa.array([not map_ for map_ in maps], pa.bool_())
    type_ = arrow_type(file_types(Struct(()), Struct(()))["column_sizes" if value_type == pa.int64() else "lower_bounds"])
    return pc.if_else(is_empty, pa.scalar(None, type_), pa.MapArray.from_arrays(offsets, keys, items, type=type_))


def _leaves(schema: Schema) -> dict[int, tuple[Field, t.IcebergType]]:
    """Return the columns and nested fields of primitive types by field id: a field with the path as its name, and Iceberg's type."""
    leaves: dict[int, tuple[Field, t.IcebergType]] = {}
    pending = list(schema.fields)
    while pending:
        field = pending.pop()
        pending += nested_fields(field.field_type)
        if isinstance(field.field_type, t.PrimitiveType):
            name = schema.find_column_name(field.field_id) or field.name
            (column,) = columns_of(Schema(t.NestedField(1, "value", field.field_type)), name)
            leaves[field.field_id] = Field(name, column.type), field.field_type
    return leaves


def _metrics_array(files: Sequence[ContentFile], leaves: Mapping[int, tuple[Field, t.IcebergType]]) -> pa.Array:
    """Return the column `readable_metrics`: the counts and the decoded bounds of each leaf column."""
    type_ = arrow_type(metrics_type(field for field, _ in leaves.values()))
    id_by_name = {field.name: id_ for id_, (field, _) in leaves.items()}
    columns = []
    for column in type_:
        id_ = id_by_name[column.name]
        counts = [pa.array([getattr(file, attribute).get(id_) for file in files], pa.int64()) for attribute in _COUNTS.values()]
        bounds = [
            decode_bounds([bounds.get(id_) for bounds in file_bounds], leaves[id_][1]).cast(column.type.field("lower_bound").type)
            for file_bounds in ([file.lower for file in files], [file.upper for file in files])
        ]
        columns.append(pa.StructArray.from_arrays([*counts, *bounds], fields=list(column.type)))
    if not columns:
        return pa.Array.from_buffers(type_, len(files), [None], children=[])
    return pa.StructArray.from_arrays(columns, fields=list(type_))
