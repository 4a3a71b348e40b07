"""The partition statistics file of a snapshot ("Partition Statistics" in the Iceberg specification)."""

from __future__ import annotations

import io
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.statistics import PartitionStatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate, TableUpdate

from rowmerge.errors import PlanError
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import commit_updates, newest
from rowmerge.iceberg.inspection.files import partition_rows
from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import located
from rowmerge.iceberg.snapshots.partition_structs import partition_type
from rowmerge.iceberg.statistics.table_statistics import new_statistics_path, snapshot_of
from rowmerge.storage.store import Storage

_PUFFIN = "PUFFIN"
_DVS = 3
"""The first format version with deletion vectors, whose number the file then contains."""
_COUNTS = {
    "data_record_count": (3, "record_count"),
    "data_file_count": (4, "file_count"),
    "total_data_file_size_in_bytes": (5, "total_data_file_size_in_bytes"),
    "position_delete_record_count": (6, "position_delete_record_count"),
    "position_delete_file_count": (7, "position_delete_file_count"),
    "equality_delete_record_count": (8, "equality_delete_record_count"),
    "equality_delete_file_count": (9, "equality_delete_file_count"),
}
"""The field id of each count, and its column in the metadata table `partitions`."""
_INTEGERS = ("data_file_count", "position_delete_file_count", "equality_delete_file_count", "dv_count")


def put_partition_statistics(operations: TableOperations, table: str, snapshot_id: int) -> str | None:
    """Write the counts of each partition of a snapshot to a Parquet file, and register it in the metadata.

    Args:
        operations: The operations of the table.
        table: The name of the table in messages.
        snapshot_id: The id of the snapshot.

    Returns:
        The absolute path of the file, which may have existed before, or None if the snapshot has no files.

    Raises:
        PlanError: The table is not partitioned.
        VersionNotFound: The snapshot does not exist, or has expired.
        StorageError: The file cannot be written.
        CommitConflict, CommitStateUnknown: The file could not be registered.
    """
    metadata = newest(operations, table).metadata
    snapshot = snapshot_of(table, metadata, snapshot_id)
    if not partition_type(metadata).fields:
        raise PlanError(f"{table} is not partitioned, so it has no partition statistics. Use compute_table_stats for columns.")
    existing = [file for file in metadata.partition_statistics if file.snapshot_id == snapshot_id]
    if existing:
        return existing[0].statistics_path
    rows = _rows(operations.storage, metadata, snapshot.manifest_list)
    if not rows.num_rows:
        return None
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd", store_schema=False)
    path = new_statistics_path(operations, metadata, f"partition-stats-{snapshot_id}-{uuid.uuid4()}.parquet")
    storage, relative_path = located(operations.storage, path)
    storage.put(relative_path, buffer.getvalue())
    statistics = {"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": len(buffer.getvalue())}

    def make_updates(current: CurrentMetadata) -> tuple[TableUpdate, ...]:
        snapshot_of(table, current.metadata, snapshot_id)
        return (SetPartitionStatisticsUpdate(partition_statistics=PartitionStatisticsFile.model_validate(statistics)),)

    commit_updates(operations, table, "the statistics of partitions", make_updates)
    return path


def _rows(storage: Storage, metadata: TableMetadata, manifest_list: str) -> pa.Table:
    """Return the rows of the statistics file, sorted by partition. Files of different partition specs are in different rows."""
    manifests = read_manifest_list(storage, manifest_list)
    entries_by_spec: dict[int, list[Entry]] = defaultdict(list)
    for manifest, entries in zip(manifests, read_manifests(storage, manifests), strict=True):
        entries_by_spec[manifest.spec_id] += entries
    rows = [row for spec_id, entries in entries_by_spec.items() for row in _rows_of_spec(entries, metadata, spec_id)]
    rows.sort(
        key=lambda row: [
            *((value is not None, value if value is not None else 0) for value in row["partition"].values()),
            (True, row["spec_id"]),
        ]
    )
    schema = _schema(metadata)
    return pa.Table.from_pylist(rows, schema=schema)


def _rows_of_spec(entries: Sequence[Entry], metadata: TableMetadata, spec_id: int) -> list[dict[str, Any]]:
    """Return the rows of one partition spec: the counts of live files, and the last change, which can be a deletion of a file."""
    live = _by_partition([entry for entry in entries if entry.live], metadata)
    vectors = _by_partition([entry for entry in entries if entry.live and entry.file.format.upper() == _PUFFIN], metadata)
    all_entries = _by_partition(entries, metadata)
    rows = []
    for key, changed in all_entries.items():
        counts, vector_counts = live.get(key, {}), vectors.get(key, {})
        vector_count = vector_counts.get("position_delete_file_count", 0)
        row = {name: counts.get(column, 0) for name, (_, column) in _COUNTS.items()}
        row["position_delete_file_count"] -= vector_count
        last_change = {name: changed[name] for name in ("last_updated_at", "last_updated_snapshot_id")}
        rows.append({"partition": changed["partition"], "spec_id": spec_id, **row, **_millis(last_change), "dv_count": vector_count})
    return rows


def _by_partition(entries: Iterable[Entry], metadata: TableMetadata) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the rows of the metadata table `partitions` for files of one spec, by their partition values."""
    rows: list[dict[str, Any]] = partition_rows(list(entries), metadata).rows.to_pylist()
    return {tuple(row["partition"].values()): row for row in rows}


def _millis(last_change: dict[str, Any]) -> dict[str, Any]:
    """Return the last change of a partition with its time in milliseconds since the epoch."""
    time = last_change["last_updated_at"]
    return {**last_change, "last_updated_at": None if time is None else round(time.timestamp() * 1000)}


def _schema(metadata: TableMetadata) -> pa.Schema:
    """Return the columns of a partition statistics file, with their field ids."""
    partition = partition_type(metadata)
    fields = [
        pa.field(field.name, type_.type, True, {"PARQUET:field_id": str(field.metadata["id"])})
        for field, type_ in zip(partition, _arrow_fields(metadata), strict=True)
    ]
    columns = [_field("partition", 1, pa.struct(fields), False), _field("spec_id", 2, pa.int32(), False)]
    columns += [_field(name, id_, pa.int32() if name in _INTEGERS else pa.int64(), id_ > 5) for name, (id_, _) in _COUNTS.items()]
    columns += [
        _field(name, id_, pa.int64()) for id_, name in enumerate(("total_record_count", "last_updated_at", "last_updated_snapshot_id"), 10)
    ]
    if metadata.format_version >= _DVS:
        columns.append(_field("dv_count", 13, pa.int32(), False))
    return pa.schema(columns)


def _arrow_fields(metadata: TableMetadata) -> list[pa.Field]:
    """Return the Arrow fields of the partition values, as the metadata table `partitions` has them."""
    return list(partition_rows([], metadata).rows.schema.field("partition").type)


def _field(name: str, field_id: int, type_: pa.DataType, is_nullable: bool = True) -> pa.Field:
    return pa.field(name, type_, is_nullable, {"PARQUET:field_id": str(field_id)})
