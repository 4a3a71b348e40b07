"""The metadata tables of files: `files`, `data_files`, `delete_files`, `entries` and `partitions`, and those of all snapshots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.manifests.bounds import decode_bounds
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry
from rowmerge.iceberg.metadata.types import columns_of, nested_fields
from rowmerge.iceberg.snapshots.live_files import ManifestFiles
from rowmerge.iceberg.snapshots.partition_structs import partition_array, partition_type, positions_of_fields, struct_of_values, values_in
from rowmerge.table.metadata.schema import DataType, Field, Struct, arrow_schema
from rowmerge.table.snapshots.metadata_tables import (
    INT,
    LONG,
    MetadataRows,
    as_struct,
    file_types,
    metrics_type,
    needed_types,
    partition_types,
    utc_time,
)

_Leaves = Mapping[int, tuple[Field, t.IcebergType]]
"""The columns and nested fields of primitive types by field id: a field with the path as its name, and Iceberg's type."""
_MAPS: Mapping[str, str] = {
    "column_sizes": "column_sizes",
    "value_counts": "value_counts",
    "null_value_counts": "null_counts",
    "nan_value_counts": "nan_counts",
    "lower_bounds": "lower",
    "upper_bounds": "upper",
}
"""The columns of metrics by field id, and the attributes of `ContentFile` that contain them."""
_VALUES: Mapping[str, Callable[[ContentFile], Any]] = {
    "content": lambda file: file.content,
    "file_path": lambda file: file.path,
    "file_format": lambda file: file.format.upper(),
    "spec_id": lambda file: file.spec_id,
    "record_count": lambda file: file.records,
    "file_size_in_bytes": lambda file: file.size,
    "key_metadata": lambda file: file.key_metadata,
    "split_offsets": lambda file: file.split_offsets or None,
    "equality_ids": lambda file: file.equality_ids or None,
    "sort_order_id": lambda file: file.sort_order_id,
    "first_row_id": lambda file: file.first_row_id,
    "referenced_data_file": lambda file: file.referenced_data_file,
    "content_offset": lambda file: file.content_offset,
    "content_size_in_bytes": lambda file: file.content_size,
}
_METRICS = "readable_metrics"


def file_rows(groups: Sequence[ManifestFiles], metadata: TableMetadata, columns: Collection[str] | None = None) -> MetadataRows:
    """Return the rows of `files`, `data_files` or `delete_files`: one for each file.

    Args:
        groups: The data files and delete files, usually those of one manifest in each group. A group caches its columns.
        metadata: The metadata of the table.
        columns: Names that include those of the needed columns (see `MetadataTables.read`), or None for all columns.
    """
    leaves, partition = _leaves(metadata.schema()), partition_type(metadata)
    types = as_struct(needed_types(file_types(partition, metrics_type(leaf for leaf, _ in leaves.values())), columns))
    schema = arrow_schema(types)
    batches = []
    # Spark needs one batch, and ignores the rows after a batch without rows.
    for group in [group for group in groups if group.entries] or [ManifestFiles(())]:
        arrays = [_file_column(group, field, metadata, partition, leaves) for field in schema]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return MetadataRows(types, pa.Table.from_batches(batches, schema=schema))


def _file_column(group: ManifestFiles, field: pa.Field, metadata: TableMetadata, partition: Struct, leaves: _Leaves) -> pa.Array:
    """Return a column of `file_rows` for the files of a group, from its cache. Its key has all that is not about these files."""

    def compute() -> pa.Array:
        match field.name:
            case "partition":
                return partition_array([(entry.file.spec_id, entry.file.partition) for entry in group.entries], metadata, partition)
            case name if name == _METRICS:
                return _metrics_array(group, field.type, leaves)
        value_of = _VALUES[field.name]
        return pa.array([value_of(entry.file) for entry in group.entries], field.type)

    if field.name in _MAPS:
        return group.compute_once(("inspection", field.name), group.maps(_MAPS[field.name]).as_array)
    ids = {"partition": [field.metadata["id"] for field in partition], _METRICS: [(id_, str(type_)) for id_, (_, type_) in leaves.items()]}
    return group.compute_once(("inspection", field.name, str(field.type), str(ids.get(field.name))), compute)


def entry_rows(entries: Sequence[Entry], metadata: TableMetadata, columns: Collection[str] | None = None) -> MetadataRows:
    """Return the rows of `entries`: one for each manifest entry, also of a deleted file.

    Args:
        entries: The entries of manifests.
        metadata: The metadata of the table.
        columns: Names that include those of the needed columns (see `MetadataTables.read`), or None for all columns.
    """
    file_columns = file_types(partition_type(metadata), metrics_type(leaf for leaf, _ in _leaves(metadata.schema()).values()))
    metrics = file_columns.pop(_METRICS)
    numbers: dict[str, DataType] = {"status": INT, **dict.fromkeys(("snapshot_id", "sequence_number", "file_sequence_number"), LONG)}
    types = needed_types({**numbers, "data_file": as_struct(file_columns), _METRICS: metrics}, columns)
    values: dict[str, pa.Array | Sequence[Any]] = {name: [getattr(entry, name) for entry in entries] for name in numbers if name in types}
    group = [ManifestFiles(tuple(entries))]
    if "data_file" in types:
        values["data_file"] = file_rows(group, metadata, file_columns).as_column()
    if _METRICS in types:
        values[_METRICS] = file_rows(group, metadata, [_METRICS]).rows[_METRICS].combine_chunks()
    return MetadataRows.of(types, values)


def partition_rows(entries: Sequence[Entry], metadata: TableMetadata) -> MetadataRows:
    """Return the rows of `partitions`: the counts of live files and their rows in each partition, and its last change.

    Files of several partition specs are in one partition if they have the same values in all partition fields.

    Args:
        entries: The manifest entries of the live files.
        metadata: The metadata of the table.
    """
    partition = partition_type(metadata)
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    positions = positions_of_fields(metadata, partition)
    partitions: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in entries:
        key = values_in(positions[entry.file.spec_id], entry.file.partition)
        counts = partitions.setdefault(key, dict.fromkeys(partition_types(partition), 0) | {"last_updated_at": None})
        _count_file(counts, entry, times.get(entry.snapshot_id))
    rows = list(partitions.values())
    values: dict[str, pa.Array | Sequence[Any]] = {name: [row[name] for row in rows] for name in partition_types(partition)}
    values["last_updated_at"] = [None if row["last_updated_at"] is None else utc_time(row["last_updated_at"]) for row in rows]
    if partition.fields:
        values["partition"] = struct_of_values(list(partitions), partition)
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


def _leaves(schema: Schema) -> _Leaves:
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


def _metrics_array(group: ManifestFiles, type_: pa.StructType, leaves: _Leaves) -> pa.Array:
    """Return the column `readable_metrics`: the counts and the decoded bounds of each leaf column."""
    *counts, lower, upper = (group.maps(metric) for metric in _MAPS.values())
    id_by_name = {field.name: id_ for id_, (field, _) in leaves.items()}
    columns = []
    for column in type_:
        id_ = id_by_name[column.name]
        bounds = [decode_bounds(maps.values_of(id_), leaves[id_][1]) for maps in (lower, upper)]
        bound_type = column.type.field("lower_bound").type
        arrays = [*(maps.values_of(id_) for maps in counts), *(bound.cast(bound_type) for bound in bounds)]
        columns.append(pa.StructArray.from_arrays(arrays, fields=list(column.type)))
    if not columns:
        return pa.Array.from_buffers(type_, len(group.entries), [None], children=[])
    return pa.StructArray.from_arrays(columns, fields=list(type_))
