"""Convert the records of manifests and manifest lists from and to Avro."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.avro.maps import MapView
from rowmerge.iceberg.manifests.content import UNASSIGNED, Content, ContentFile, Entry, Manifest, ManifestContent, PartitionSummary, Status
from rowmerge.iceberg.metadata.locations import is_absolute

_EXACT = Context(prec=100)
_FIELDS_WITH_SAME_NAME = ("sort_order_id", "referenced_data_file", "content_offset", "first_row_id", "key_metadata")
"""The fields of a manifest entry that may be null or missing, and that have the same name in `ContentFile`."""


def parse_entry(record: Mapping[str, Any], manifest: Manifest, scales: Mapping[int, int], path: str) -> Entry:
    """Return the entry of an Avro record, with values inherited from its manifest (Iceberg spec, Sequence Number Inheritance).

    Args:
        record: The record of a manifest entry.
        manifest: The manifest, as the manifest list describes it.
        scales: The scales of decimal partition values, by their position in the partition.
        path: The path of the manifest in error messages.

    Raises:
        CorruptLog: A file that is not new has no sequence number.
        LookupError: The record has no value for a required field.
        ValueError: A value is invalid.
    """
    status = Status(record["status"])
    # A manifest of format version 1 has the sequence number 0, and so have all of its files.
    can_inherit = status is Status.ADDED or manifest.sequence_number == 0
    sequence_number = _or_inherited(record.get("sequence_number"), manifest.sequence_number if can_inherit else None)
    if sequence_number is None:
        raise CorruptLog(path, f"the file {record['data_file']['file_path']} has no sequence number")
    snapshot_id = _or_inherited(record.get("snapshot_id"), manifest.added_snapshot_id)
    # Early writers of format version 2 wrote only `sequence_number`, which was that of the file.
    default_file_sequence_number = manifest.sequence_number if can_inherit else sequence_number
    file_sequence_number = _or_inherited(record.get("file_sequence_number"), default_file_sequence_number)
    file = _parse_content_file(record["data_file"], manifest.spec_id, scales)
    return Entry(status, snapshot_id, sequence_number, file_sequence_number, file)


def _or_inherited(value: Any, inherited: Any) -> Any:
    return inherited if value is None else value


def _parse_content_file(record: Mapping[str, Any], spec_id: int, scales: Mapping[int, int]) -> ContentFile:
    """Return the data file or delete file that the `data_file` of a manifest entry describes (Iceberg spec, Data File Fields).

    Fields that are read with `record.get` may be null or missing. `scales` are as in `parse_entry`.

    Raises LookupError if a required value is missing, and ValueError if a value is invalid.
    """
    path, record_count, size = record["file_path"], record["record_count"], record["file_size_in_bytes"]
    if not is_absolute(path) or record_count < 0 or size < 0:
        raise ValueError(f"the file {path!r} with {record_count} rows and {size} bytes has an invalid path or size")
    return ContentFile(
        content=Content(record.get("content") or 0),  # Format version 1 has only data files and no such field.
        path=path,
        records=record_count,
        size=size,
        spec_id=spec_id,
        partition=_parse_partition(record["partition"], scales),
        format=record["file_format"].upper(),
        column_sizes=_as_map(record.get("column_sizes")),
        value_counts=_as_map(record.get("value_counts")),
        null_counts=_as_map(record.get("null_value_counts")),
        nan_counts=_as_map(record.get("nan_value_counts")),
        lower=_as_map(record.get("lower_bounds")),
        upper=_as_map(record.get("upper_bounds")),
        split_offsets=tuple(record.get("split_offsets") or ()),
        equality_ids=tuple(record.get("equality_ids") or ()),
        content_size=record.get("content_size_in_bytes"),
        sort_order_id=record.get("sort_order_id"),
        referenced_data_file=record.get("referenced_data_file"),
        content_offset=record.get("content_offset"),
        first_row_id=record.get("first_row_id"),
        key_metadata=record.get("key_metadata"),
    )


def _parse_partition(record: Mapping[str, Any], scales: Mapping[int, int]) -> tuple[Any, ...]:
    values = tuple(record.values())
    if not scales:
        return values
    return tuple(_parse_decimal(value, scales[index]) if index in scales else value for index, value in enumerate(values))


def _parse_decimal(unscaled: bytes | None, scale: int) -> Decimal | None:
    return None if unscaled is None else Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT)


def _as_map(pairs: MapView | Sequence[Mapping[str, Any]] | None) -> Mapping[int, Any]:
    """Return a map of a manifest entry. `decode_blocks` decodes it as a map, fastavro as a list of key-value records."""
    if isinstance(pairs, MapView):
        return pairs
    return {pair["key"]: pair["value"] for pair in pairs} if pairs else {}


def assign_row_ids(entries: Sequence[Entry], manifest: Manifest) -> tuple[Entry, ...]:
    """Return the entries of a manifest, each live file with a first row id (Iceberg spec, First Row ID Inheritance).

    Files without a first row id get consecutive ranges of row ids, which start at the first row id of the manifest.

    Args:
        entries: All entries of the manifest, in their order.
        manifest: The manifest. If it has no first row id, the entries are returned unchanged.
    """
    next_row_id = manifest.first_row_id
    if next_row_id is None:
        return tuple(entries)
    entries_with_ids = []
    for entry in entries:
        if entry.live and entry.file.first_row_id is None:
            entry = replace(entry, file=replace(entry.file, first_row_id=next_row_id))
            next_row_id += entry.file.records
        entries_with_ids.append(entry)
    return tuple(entries_with_ids)


def parse_manifest(record: Mapping[str, Any]) -> Manifest:
    """Return the manifest that a record of a manifest list describes.

    Raises:
        LookupError: The record has no value for a required field.
        ValueError: The path is not absolute, the length is negative, or the partition spec is null.
    """
    path, length, spec_id = record["manifest_path"], record["manifest_length"], record["partition_spec_id"]
    if not is_absolute(path) or length < 0 or spec_id is None:
        raise ValueError(f"the manifest has an invalid path {path!r}, length {length} or partition spec id {spec_id}")
    # Format version 1 has no `content` and no sequence numbers. Their defaults are data files and 0.
    counts: dict[str, Any] = {name: record.get(f"{name}_count") for name in Manifest.COUNTS}
    return Manifest(
        path=path,
        length=length,
        spec_id=spec_id,
        content=ManifestContent(record.get("content") or 0),
        sequence_number=record.get("sequence_number") or 0,
        min_sequence_number=record.get("min_sequence_number") or 0,
        added_snapshot_id=record["added_snapshot_id"],
        partitions=tuple(_parse_summary(summary) for summary in record.get("partitions") or ()),
        key_metadata=record.get("key_metadata"),
        first_row_id=record.get("first_row_id"),
        **counts,
    )


def _parse_summary(record: Mapping[str, Any]) -> PartitionSummary:
    return PartitionSummary(record["contains_null"], record.get("contains_nan"), record.get("lower_bound"), record.get("upper_bound"))


def manifest_record(manifest: Manifest, sequence_number: int) -> dict[str, Any]:
    """Return the record of a manifest for a manifest list.

    Args:
        manifest: The manifest.
        sequence_number: The sequence number of the snapshot, which replaces UNASSIGNED.
    """

    def assigned(manifest_sequence_number: int) -> int:
        return sequence_number if manifest_sequence_number == UNASSIGNED else manifest_sequence_number

    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "partition_spec_id": manifest.spec_id,
        "content": int(manifest.content),
        "sequence_number": assigned(manifest.sequence_number),
        "min_sequence_number": assigned(manifest.min_sequence_number),
        "added_snapshot_id": manifest.added_snapshot_id,
        **{f"{name}_count": getattr(manifest, name) for name in Manifest.COUNTS},
        "partitions": [_summary_record(summary) for summary in manifest.partitions],
        "key_metadata": manifest.key_metadata,
        "first_row_id": manifest.first_row_id,
    }


def _summary_record(summary: PartitionSummary) -> dict[str, Any]:
    bounds = {"lower_bound": summary.lower, "upper_bound": summary.upper}
    return {"contains_null": summary.contains_null, "contains_nan": summary.contains_nan, **bounds}


def entry_record(entry: Entry, partition_names: Sequence[str]) -> dict[str, Any]:
    """Return the Avro record of an entry. An UNASSIGNED sequence number becomes null, and readers inherit it from the manifest.

    Args:
        entry: The entry.
        partition_names: The names of the fields of the file's partition spec, in their order.
    """
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": None if entry.sequence_number == UNASSIGNED else entry.sequence_number,
        "file_sequence_number": None if entry.file_sequence_number == UNASSIGNED else entry.file_sequence_number,
        "data_file": _content_file_record(entry.file, partition_names),
    }


def _content_file_record(file: ContentFile, partition_names: Sequence[str]) -> dict[str, Any]:
    """Return the `data_file` of a manifest entry (Iceberg spec, Data File Fields). Empty metrics become null.

    `partition_names` are the names of the fields of the file's partition spec, in their order.
    """
    assert len(partition_names) == len(file.partition), "a file must have a value for each field of its partition spec"
    return {
        "content": int(file.content),
        "file_path": file.path,
        "file_format": file.format,
        "partition": dict(zip(partition_names, file.partition, strict=True)),
        "record_count": file.records,
        "file_size_in_bytes": file.size,
        "column_sizes": file.column_sizes or None,
        "value_counts": file.value_counts or None,
        "null_value_counts": file.null_counts or None,
        "nan_value_counts": file.nan_counts or None,
        "lower_bounds": file.lower or None,
        "upper_bounds": file.upper or None,
        "split_offsets": list(file.split_offsets) or None,
        "equality_ids": list(file.equality_ids) or None,
        "content_size_in_bytes": file.content_size,
        **{name: getattr(file, name) for name in _FIELDS_WITH_SAME_NAME},
    }
