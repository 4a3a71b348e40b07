"""Manifests and manifest lists, record by record: from and to what Avro holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.manifests.content import UNASSIGNED, Content, ContentFile, Entry, Manifest, ManifestContent, PartitionSummary, Status
from rowmerge.iceberg.metadata.locations import is_absolute

_EXACT = Context(prec=100)


def entry_of(record: Mapping[str, Any], manifest: Manifest, scales: Mapping[int, int], path: str) -> Entry:
    status = Status(record["status"])
    inherited = manifest.sequence_number if status is Status.ADDED or manifest.sequence_number == 0 else None
    sequence_number, file_sequence_number = record.get("sequence_number"), record.get("file_sequence_number")
    if sequence_number is None:
        sequence_number = inherited
    if file_sequence_number is None:
        file_sequence_number = inherited
    if sequence_number is None:
        raise CorruptLog(path, f"the file {record['data_file']['file_path']} has no sequence number")
    snapshot_id = record.get("snapshot_id")
    return Entry(
        status,
        manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
        sequence_number,
        sequence_number if file_sequence_number is None else file_sequence_number,
        _content_file(record["data_file"], manifest.spec_id, scales),
    )


def _content_file(record: Mapping[str, Any], spec_id: int, scales: Mapping[int, int]) -> ContentFile:
    found = record.get
    partition = tuple(record["partition"].values())
    if scales:
        partition = tuple(_decimal(value, scales[at]) if at in scales else value for at, value in enumerate(partition))
    path, records, size = record["file_path"], record["record_count"], record["file_size_in_bytes"]
    if not is_absolute(path) or records < 0 or size < 0:
        raise ValueError(f"the file {path!r} has {records} rows in {size} bytes")
    return ContentFile(
        content=Content(found("content") or 0),
        path=path,
        records=records,
        size=size,
        spec_id=spec_id,
        partition=partition,
        format=record["file_format"].upper(),
        column_sizes=_map(found("column_sizes")),
        value_counts=_map(found("value_counts")),
        null_counts=_map(found("null_value_counts")),
        nan_counts=_map(found("nan_value_counts")),
        lower=_map(found("lower_bounds")),
        upper=_map(found("upper_bounds")),
        split_offsets=tuple(found("split_offsets") or ()),
        equality_ids=tuple(found("equality_ids") or ()),
        sort_order_id=found("sort_order_id"),
        referenced_data_file=found("referenced_data_file"),
        content_offset=found("content_offset"),
        content_size=found("content_size_in_bytes"),
        first_row_id=found("first_row_id"),
        key_metadata=found("key_metadata"),
    )


def _map(pairs: dict[int, Any] | Sequence[Mapping[str, Any]] | None) -> dict[int, Any]:
    if isinstance(pairs, dict):
        return pairs
    return {pair["key"]: pair["value"] for pair in pairs} if pairs else {}


def _decimal(stored: bytes | None, scale: int) -> Decimal | None:
    return None if stored is None else Decimal(int.from_bytes(stored, "big", signed=True)).scaleb(-scale, _EXACT)


def with_row_ids(entries: list[Entry], manifest: Manifest) -> tuple[Entry, ...]:
    """First row ids inherited: from the manifest's own on, each live file without one after the rows of those before it."""
    following = manifest.first_row_id
    if following is None:
        return tuple(entries)
    for index, entry in enumerate(entries):
        if entry.live and entry.file.first_row_id is None:
            entries[index] = replace(entry, file=replace(entry.file, first_row_id=following))
            following += entry.file.records
    return tuple(entries)


def manifest_of(record: Mapping[str, Any]) -> Manifest:
    found = record.get
    path, length, spec_id = record["manifest_path"], record["manifest_length"], record["partition_spec_id"]
    if not is_absolute(path) or length < 0 or spec_id is None:
        raise ValueError(f"the manifest {path!r} of the partition spec {spec_id} has {length} bytes")
    return Manifest(
        path=path,
        length=length,
        spec_id=spec_id,
        content=ManifestContent(found("content") or 0),
        sequence_number=found("sequence_number") or 0,
        min_sequence_number=found("min_sequence_number") or 0,
        added_snapshot_id=record["added_snapshot_id"],
        added_files=found("added_files_count"),
        existing_files=found("existing_files_count"),
        deleted_files=found("deleted_files_count"),
        added_rows=found("added_rows_count"),
        existing_rows=found("existing_rows_count"),
        deleted_rows=found("deleted_rows_count"),
        partitions=tuple(
            PartitionSummary(summary["contains_null"], summary.get("contains_nan"), summary.get("lower_bound"), summary.get("upper_bound"))
            for summary in found("partitions") or ()
        ),
        key_metadata=found("key_metadata"),
        first_row_id=found("first_row_id"),
    )


def record_of_manifest(manifest: Manifest, sequence_number: int) -> dict[str, Any]:
    def assigned(number: int) -> int:
        return sequence_number if number == UNASSIGNED else number

    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "partition_spec_id": manifest.spec_id,
        "content": int(manifest.content),
        "sequence_number": assigned(manifest.sequence_number),
        "min_sequence_number": assigned(manifest.min_sequence_number),
        "added_snapshot_id": manifest.added_snapshot_id,
        "added_files_count": manifest.added_files,
        "existing_files_count": manifest.existing_files,
        "deleted_files_count": manifest.deleted_files,
        "added_rows_count": manifest.added_rows,
        "existing_rows_count": manifest.existing_rows,
        "deleted_rows_count": manifest.deleted_rows,
        "partitions": [
            {
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower_bound": summary.lower,
                "upper_bound": summary.upper,
            }
            for summary in manifest.partitions
        ],
        "key_metadata": manifest.key_metadata,
        "first_row_id": manifest.first_row_id,
    }


def record_of_entry(entry: Entry, names: Sequence[str]) -> dict[str, Any]:
    file = entry.file
    assert len(names) == len(file.partition), "a file has a value for each field of its partition spec"
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": None if entry.sequence_number == UNASSIGNED else entry.sequence_number,
        "file_sequence_number": None if entry.file_sequence_number == UNASSIGNED else entry.file_sequence_number,
        "data_file": {
            "content": int(file.content),
            "file_path": file.path,
            "file_format": file.format,
            "partition": dict(zip(names, file.partition, strict=True)),
            "record_count": file.records,
            "file_size_in_bytes": file.size,
            "column_sizes": file.column_sizes or None,
            "value_counts": file.value_counts or None,
            "null_value_counts": file.null_counts or None,
            "nan_value_counts": file.nan_counts or None,
            "lower_bounds": file.lower or None,
            "upper_bounds": file.upper or None,
            "key_metadata": file.key_metadata,
            "split_offsets": list(file.split_offsets) or None,
            "equality_ids": list(file.equality_ids) or None,
            "sort_order_id": file.sort_order_id,
            "referenced_data_file": file.referenced_data_file,
            "first_row_id": file.first_row_id,
            "content_offset": file.content_offset,
            "content_size_in_bytes": file.content_size,
        },
    }
