"""The metadata tables of files: `files`, `data_files`, `delete_files`, `entries` and `partitions`, and those of all snapshots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as t
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.manifests.bounds import decode_bounds
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry
from rowmerge.iceberg.metadata.types import columns_of, nested_fields
from rowmerge.iceberg.snapshots.live_files import ManifestFiles
from rowmerge.iceberg.snapshots.partition_structs import partition_array, partition_type, positions_of_fields, struct_of_values, values_in
from rowmerge.table.metadata.schema import DataType, Field, Struct, arrow_schema, arrow_type
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
_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_value_counts",
    "nan_value_count": "nan_value_counts",
}
"""The counts in `readable_metrics`, and the columns of a file that contain them by field id."""
_MAPS: Mapping[str, Callable[[ContentFile], Mapping[int, Any]]] = {
    "column_sizes": lambda file: file.column_sizes,
    "value_counts": lambda file: file.value_counts,
    "null_value_counts": lambda file: file.null_counts,
    "nan_value_counts": lambda file: file.nan_counts,
    "lower_bounds": lambda file: file.lower,
    "upper_bounds": lambda file: file.upper,
}
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
        return _map_column(group, field.name)
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


def _map_column(group: ManifestFiles, name: str) -> pa.MapArray:
    """Return a column of maps for the files of a group, from its cache."""
    type_ = arrow_type(file_types(Struct(), Struct())[name])
    return group.compute_once(("inspection", name), lambda: _map_array([_MAPS[name](entry.file) for entry in group.entries], type_))


def _map_array(maps: Sequence[Mapping[int, Any]], type_: pa.MapType) -> pa.MapArray:
    """Return maps by field id as an Arrow array. An empty map is null, because manifests omit maps without entries."""
    lengths = np.fromiter(map(len, maps), np.int32, len(maps))
    offsets = pa.array(np.concatenate([[0], lengths.cumsum()]), pa.int32())
    keys = pa.array(np.fromiter(chain.from_iterable(maps), np.int32), pa.int32())
    items = pa.array(list(chain.from_iterable(map_.values() for map_ in maps)), type_.item_type)
    return pc.if_else(pa.array(lengths == 0), pa.scalar(None, type_), pa.MapArray.from_arrays(offsets, keys, items, type=type_))


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
    maps = {name: _MapEntries.of(_map_column(group, name)) for name in _MAPS}
    id_by_name = {field.name: id_ for id_, (field, _) in leaves.items()}
    columns = []
    for column in type_:
        id_ = id_by_name[column.name]
        bounds = [decode_bounds(maps[name].items_of(id_), leaves[id_][1]) for name in ("lower_bounds", "upper_bounds")]
        bound_type = column.type.field("lower_bound").type
        arrays = [*(maps[name].items_of(id_) for name in _COUNTS.values()), *(bound.cast(bound_type) for bound in bounds)]
        columns.append(pa.StructArray.from_arrays(arrays, fields=list(column.type)))
    if not columns:
        return pa.Array.from_buffers(type_, len(group.entries), [None], children=[])
    return pa.StructArray.from_arrays(columns, fields=list(type_))


@dataclass(frozen=True)
class _MapEntries:
    """The entries of maps by field id: the index of the map, the key and the item of each entry, and the number of maps."""

    rows: np.ndarray[Any, Any]
    keys: np.ndarray[Any, Any]
    items: pa.Array
    count: int

    @classmethod
    def of(cls, maps: pa.MapArray) -> _MapEntries:
        rows = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
        return cls(rows, maps.keys.to_numpy(), maps.items, len(maps))

    def items_of(self, id_: int) -> pa.Array:
        """Return the item of a field id in each map, or null if the map lacks it."""
        positions = np.flatnonzero(self.keys == id_)
        indices = np.zeros(self.count, np.int64)
        is_missing = np.ones(self.count, np.bool_)
        indices[self.rows[positions]], is_missing[self.rows[positions]] = positions, False
        return self.items.take(pa.array(indices, mask=is_missing))
