"""The metadata tables of one Delta table, with the columns of Iceberg's: `snapshots` has a row for each version in the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.log.log_files import commit_path
from rowmerge.delta.snapshots.deletion_vectors import read_vector, vector_path
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, as_delta_snapshot
from rowmerge.table.metadata.partitioning import IDENTITY
from rowmerge.table.metadata.schema import DataType, Decimal, Field, Primitive, Struct, arrow_type, bare
from rowmerge.table.snapshots.files import nested_field
from rowmerge.table.snapshots.metadata_tables import (
    HISTORY,
    LONG,
    REFS,
    SNAPSHOTS,
    STRING,
    MetadataRows,
    as_struct,
    file_types,
    metrics_type,
    needed_types,
    partition_types,
    utc_time,
)
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import HistoryEntry

_DATA, _DELETES = 0, 1


class DeltaMetadataTables:
    """The metadata tables of one Delta table, which implement `rowmerge.table.snapshots.metadata_tables.MetadataTables`."""

    names = ("snapshots", "history", "refs", "files", "data_files", "delete_files", "partitions", "position_deletes")

    def __init__(self, read_history: Callable[[], Sequence[HistoryEntry]]) -> None:
        """Create the metadata tables. `read_history`: a function that returns all commits of the table, newest first."""
        self._read_history = read_history

    def partition_transforms(self, snapshot: Snapshot) -> Mapping[str, str]:
        return dict.fromkeys(snapshot.partition_columns, IDENTITY)

    def read(self, name: str, snapshot: Snapshot, columns: Collection[str] | None = None) -> MetadataRows:
        """Return the rows of a metadata table (see `MetadataTables.read`).

        Args:
            name: One of `names`.
            snapshot: The version of the table.
            columns: Names that include those of the needed columns, or None for all columns.
        """
        version = as_delta_snapshot(snapshot)
        match name:
            case "snapshots":
                return _snapshot_rows(self._entries(version), version)
            case "history":
                return _history_rows(self._entries(version))
            case "refs":
                return MetadataRows.of(REFS, {"name": ["main"], "type": ["BRANCH"], "snapshot_id": [version.version]})
            case "partitions":
                return _partition_rows(version)
            case "position_deletes":
                return _position_delete_rows(version)
        parts = [rows for rows, is_in in ((_data_files, name != "delete_files"), (_delete_files, name != "data_files")) if is_in]
        tables = [part(version, columns) for part in parts]
        return MetadataRows(tables[0].columns, pa.concat_tables([table.rows for table in tables]))

    def _entries(self, version: DeltaSnapshot) -> list[HistoryEntry]:
        """Return the commits up to a version, oldest first."""
        return [entry for entry in reversed(self._read_history()) if entry.version <= version.version]


def _snapshot_rows(entries: Sequence[HistoryEntry], version: DeltaSnapshot) -> MetadataRows:
    """Return the rows of `snapshots`. The manifest list is the commit in the log, and the summary has its metrics and its parameters."""
    return MetadataRows.of(
        SNAPSHOTS,
        {
            "committed_at": [utc_time(entry.timestamp) for entry in entries],
            "snapshot_id": [entry.version for entry in entries],
            "parent_id": _parents(entries),
            "operation": [entry.operation for entry in entries],
            "manifest_list": [f"{version.storage.location}/{commit_path(entry.version)}" for entry in entries],
            "summary": [list({**entry.parameters, **entry.metrics}.items()) for entry in entries],
        },
    )


def _history_rows(entries: Sequence[HistoryEntry]) -> MetadataRows:
    return MetadataRows.of(
        HISTORY,
        {
            "made_current_at": [utc_time(entry.timestamp) for entry in entries],
            "snapshot_id": [entry.version for entry in entries],
            "parent_id": _parents(entries),
            "is_current_ancestor": [True] * len(entries),
        },
    )


def _parents(entries: Sequence[HistoryEntry]) -> list[int | None]:
    """Return the version before each commit: None for the first commit of the table, or the oldest one in the log."""
    return [None, *(entry.version - 1 for entry in entries[1:])][: len(entries)]


def _data_files(version: DeltaSnapshot, columns: Collection[str] | None = None) -> MetadataRows:
    """Return the rows of `data_files`: the live data files, with their counts and bounds. `columns`: see `MetadataTables.read`."""
    leaves = dict(_leaves(version.schema))
    partition = _partition_type(version)
    types = needed_types(file_types(partition, metrics_type(leaves.values())), columns)
    has_metrics = "readable_metrics" in types
    listing = version.files(version.schema.names if has_metrics else ()).rows.combine_chunks()
    count = listing.num_rows
    return MetadataRows.of(
        types,
        {
            "content": [_DATA] * count,
            "file_path": _chunk(listing["path"]),
            "file_format": ["PARQUET"] * count,
            "spec_id": [0] * count,
            "partition": _partition_values(listing, partition),
            "record_count": _chunk(listing["records"]),
            "file_size_in_bytes": _chunk(listing["size"]),
            "readable_metrics": _metrics(listing, leaves) if has_metrics else [None] * count,
        },
    )


def _delete_files(version: DeltaSnapshot, columns: Collection[str] | None = None) -> MetadataRows:
    """Return the rows of `delete_files`: the deletion vectors of live data files. A vector in the log itself has no path.

    Args:
        version: The version of the table.
        columns: See `MetadataTables.read`.
    """
    descriptors = version.state.files.column("deletionVector")
    listing = version.files().rows.filter(descriptors.is_valid()).combine_chunks()
    vectors = descriptors.drop_null().to_pylist()
    partition = _partition_type(version)
    return MetadataRows.of(
        needed_types(file_types(partition, metrics_type(leaf for _, leaf in _leaves(version.schema))), columns),
        {
            "content": [_DELETES] * len(vectors),
            "file_path": [_vector_path(version, vector) for vector in vectors],
            "file_format": ["BIN"] * len(vectors),
            "spec_id": [0] * len(vectors),
            "partition": _partition_values(listing, partition),
            "record_count": [vector["cardinality"] for vector in vectors],
            "referenced_data_file": _chunk(listing["path"]),
            "content_offset": [vector["offset"] for vector in vectors],
            "content_size_in_bytes": [vector["sizeInBytes"] for vector in vectors],
        },
    )


def _vector_path(version: DeltaSnapshot, vector: Mapping[str, Any]) -> str | None:
    return None if vector["storageType"] == "i" else vector_path(version.storage.location, vector)


def _position_delete_rows(version: DeltaSnapshot) -> MetadataRows:
    """Return the rows of `position_deletes`: one for each row that a deletion vector deletes. Deleted rows themselves are NULL."""
    deletes = _delete_files(version)
    descriptors = version.state.files.column("deletionVector").drop_null().to_pylist()
    positions = [np.array(read_vector(version.storage, vector).to_array(), dtype=np.int64) for vector in descriptors]
    repeats = pa.array(np.repeat(np.arange(len(positions)), list(map(len, positions))))
    columns = {"file_path": "referenced_data_file", "partition": "partition", "spec_id": "spec_id", "delete_file_path": "file_path"}
    columns |= {name: name for name in ("content_offset", "content_size_in_bytes")}
    types: dict[str, DataType] = {"file_path": STRING, "pos": LONG, "row": as_struct({f.name: f.type for f in version.schema})}
    values = {"pos": pa.array(np.concatenate([*positions, np.empty(0, dtype=np.int64)]), pa.int64())}
    for name, source in columns.items():
        if (column := deletes.columns.find(source)) is not None:
            types[name] = column.type
            values[name] = _chunk(deletes.rows[source]).take(repeats)
    return MetadataRows.of(types, values)


def _partition_rows(version: DeltaSnapshot) -> MetadataRows:
    """Return the rows of `partitions`: the counts of live files in each partition. A Delta log has no time of a partition's last change."""
    partition = _partition_type(version)
    listing = version.files().rows.combine_chunks()
    keys = {str(index): values for index, values in enumerate(_chunk(listing["partition"]).flatten())} if partition.fields else {}
    sums = {"records": listing["records"], "size": listing["size"], "deleted": listing["deleted"]}
    rows = pa.table({**keys, **sums, "vectors": pc.cast(pc.greater(listing["deleted"], 0), pa.int32())})
    groups = rows.group_by(list(keys)).aggregate([("size", "count"), *((name, "sum") for name in (*sums, "vectors"))])
    groups = groups if len(listing) else groups.slice(0, 0)
    zeros = [0] * len(groups)
    values: dict[str, Any] = {
        "record_count": _chunk(groups["records_sum"]),
        "file_count": _chunk(groups["size_count"]).cast(pa.int32()),
        "total_data_file_size_in_bytes": _chunk(groups["size_sum"]),
        "position_delete_record_count": _chunk(groups["deleted_sum"]),
        "position_delete_file_count": _chunk(groups["vectors_sum"]).cast(pa.int32()),
        "equality_delete_record_count": zeros,
        "equality_delete_file_count": zeros,
        "spec_id": zeros,
    }
    if partition.fields:
        arrays = [_chunk(groups[key]) for key in keys]
        values["partition"] = pa.StructArray.from_arrays(arrays, fields=list(arrow_type(partition)))
    return MetadataRows.of(partition_types(partition), values)


def _partition_type(version: DeltaSnapshot) -> Struct:
    return bare(version.schema.select(version.partition_columns))


def _partition_values(listing: pa.Table, partition: Struct) -> pa.Array | None:
    return _chunk(listing["partition"]).cast(arrow_type(partition)) if partition.fields else None


def _leaves(schema: Struct, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Yield the path of each leaf column (see `metrics_type`), and a field with its type, whose name is the path."""
    for field in schema:
        field_path = (*path, field.name)
        if isinstance(field.type, Struct):
            yield from _leaves(field.type, field_path)
        elif isinstance(field.type, Primitive | Decimal):
            yield field_path, Field(".".join(field_path), field.type)


def _metrics(listing: pa.Table, leaves: Mapping[tuple[str, ...], Field]) -> pa.Array:
    """Return the column `readable_metrics` from the bounds and null counts of a listing."""
    type_ = arrow_type(metrics_type(leaves.values()))
    path_by_name = {field.name: path for path, field in leaves.items()}
    count, columns = listing.num_rows, []
    for column in type_:
        path, bound_type = path_by_name[column.name], column.type.field("lower_bound").type
        nulls, lower, upper = (nested_field(_chunk(listing[kind]), path) for kind in ("nulls", "lower", "upper"))
        unknown = pa.nulls(count, pa.int64())
        counts = [unknown, unknown if nulls is None else _chunk(listing["records"]), unknown if nulls is None else nulls, unknown]
        bounds = [pa.nulls(count, bound_type) if bound is None else bound.cast(bound_type) for bound in (lower, upper)]
        columns.append(pa.StructArray.from_arrays([*counts, *bounds], fields=list(column.type)))
    if not columns:
        return pa.Array.from_buffers(type_, count, [None], children=[])
    return pa.StructArray.from_arrays(columns, fields=list(type_))


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
