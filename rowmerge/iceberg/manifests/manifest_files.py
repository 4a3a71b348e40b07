"""Read and write manifests and manifest lists (Iceberg spec, Manifests, Manifest Lists, Sequence Number Inheritance)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import PrimitiveType

from rowmerge.concurrency import map_ahead
from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.avro.blocks import without_garbage_collection
from rowmerge.iceberg.avro.files import read_avro, write_avro
from rowmerge.iceberg.avro.maps import MapView
from rowmerge.iceberg.manifests import schemas
from rowmerge.iceberg.manifests.content import UNASSIGNED, Entry, Manifest, ManifestContent, PartitionSummary, Status
from rowmerge.iceberg.manifests.records import assign_row_ids, entry_record, manifest_record, parse_entry, parse_manifest
from rowmerge.iceberg.metadata.locations import located, plain_path
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage

_INVALID_RECORD_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors that the conversion of a record raises if the file is not a manifest or manifest list."""

_cache: Cache[tuple[Entry, ...]] = Cache(256 * 1024 * 1024)
"""The cache of the entries of manifests, by the result of `cache_key_of`. Its limit is the estimated size of all entries in bytes."""
_BYTES_PER_ENTRY, _BYTES_PER_DICT_ITEM = 1_500, 70
"""Estimates of the size of an entry without its metrics, and of a count or bound in a dict."""
_own_files: Cache[bytes] = Cache(64 * 1024 * 1024)
"""The bytes of manifests and manifest lists that this process wrote, by path. They never change, and the next statement reads them."""


@dataclass(frozen=True)
class ManifestHeader:
    """The key-value metadata of a manifest, which applies to all of its entries. `schema` contains the source columns of `spec`."""

    content: ManifestContent
    spec: PartitionSpec
    schema: Schema
    format_version: int = 2


def read_manifest_list(storage: Storage, path: str) -> tuple[Manifest, ...]:
    """Return the manifests of a snapshot from its manifest list.

    Args:
        storage: The storage of the table.
        path: The absolute path of the manifest list, as recorded in the snapshot.

    Raises:
        CorruptLog: The file is missing, or it is not a manifest list.
        StorageError: The file cannot be read.
    """
    path = plain_path(path)
    manifest_list = read_avro(_read_bytes(storage, path, "manifest list"), path, schemas.NAMES)
    try:
        schemas.check_schema(manifest_list.schema, schemas.MANIFEST_LIST)
        return tuple(parse_manifest(record) for record in manifest_list.records)
    except _INVALID_RECORD_ERRORS as error:
        raise CorruptLog(path, f"it is not a manifest list ({type(error).__name__}: {error})") from error


def read_manifest(storage: Storage, manifest: Manifest) -> tuple[Entry, ...]:
    """Return the entries of a manifest, deleted ones included, with inherited values. The process caches the entries.

    Args:
        storage: The storage of the table.
        manifest: The manifest, as the manifest list describes it.

    Raises:
        CorruptLog: The manifest is damaged or missing.
        StorageError: The manifest cannot be read.
        UnsupportedTableFeature: The manifest is encrypted.
    """
    return read_manifests(storage, [manifest])[0]


def read_manifests(storage: Storage, manifests: Sequence[Manifest]) -> list[tuple[Entry, ...]]:
    """Return the entries of several manifests, in the order of the manifests.

    Several manifests are fetched concurrently, but decoded in one thread: Python objects are created under the global interpreter lock.

    Args:
        storage: The storage of the table.
        manifests: The manifests, as the manifest list describes them.

    Raises:
        CorruptLog: A manifest is damaged or missing.
        StorageError: A manifest cannot be read.
        UnsupportedTableFeature: A manifest is encrypted.
    """
    cache_keys = [cache_key_of(manifest) for manifest in manifests]
    entries_by_key = {key: entries for key in cache_keys if (entries := _cache.get(key)) is not None}
    uncached_manifests = [manifest for manifest, key in zip(manifests, cache_keys, strict=True) if key not in entries_by_key]
    # One manifest needs no thread.
    fetch = map_ahead if len(uncached_manifests) > 1 else map
    files = fetch(lambda manifest: _manifest_bytes(storage, manifest), uncached_manifests)
    for manifest, data in zip(uncached_manifests, files, strict=True):
        entries = _parse_entries(manifest, data)
        _cache.put(cache_key_of(manifest), entries, _size_in_memory(entries))
        entries_by_key[cache_key_of(manifest)] = entries
    return [entries_by_key[key] for key in cache_keys]


def is_cached(manifest: Manifest) -> bool:
    """Return whether this process has the entries of a manifest in its cache."""
    return _cache.get(cache_key_of(manifest)) is not None


def cache_key_of(manifest: Manifest) -> tuple[object, ...]:
    """Return the cache key of a manifest: its path and all fields of the manifest list that its entries inherit.

    Manifests with equal keys have equal entries. The path alone is not enough, because entries inherit these fields ("Sequence Number
    Inheritance" in the Iceberg specification).
    """
    return manifest.path, manifest.length, manifest.sequence_number, manifest.added_snapshot_id, manifest.first_row_id


def write_manifest(storage: Storage, path: str, entries: Sequence[Entry], header: ManifestHeader, snapshot_id: int) -> Manifest:
    """Write a manifest, and return its description for the manifest list.

    UNASSIGNED sequence numbers are written as null, so that every attempt of a commit can use the same manifest.

    Args:
        storage: The storage of the table.
        path: The absolute path of the new manifest.
        entries: The entries of the manifest, at least one.
        header: The content type, partition spec, schema and format version of the manifest.
        snapshot_id: The id of the snapshot that adds the manifest.

    Raises:
        StorageError: The manifest cannot be put.
    """
    data = _encode_manifest(entries, header)
    _put(storage, path, data)
    sequence_numbers = [entry.sequence_number for entry in entries if entry.live and entry.sequence_number != UNASSIGNED]
    return Manifest(
        path=path,
        length=len(data),
        spec_id=header.spec.spec_id,
        content=header.content,
        sequence_number=UNASSIGNED,
        min_sequence_number=min(sequence_numbers, default=UNASSIGNED),
        added_snapshot_id=snapshot_id,
        partitions=partition_summaries([entry.file.partition for entry in entries], header.spec, header.schema),
        **_count_files_and_rows(entries),
    )


def _encode_manifest(entries: Sequence[Entry], header: ManifestHeader) -> bytes:
    """Return the bytes of a manifest's Avro file with its key-value metadata (Iceberg spec, Manifests)."""
    assert entries, "a manifest has entries"
    assert all(entry.status is Status.ADDED or entry.sequence_number != UNASSIGNED for entry in entries), "old files need a sequence number"
    spec, schema = header.spec, header.schema
    metadata = {
        "schema": schema.model_dump_json(),
        "schema-id": str(schema.schema_id),
        "partition-spec": "[" + ",".join(field.model_dump_json() for field in spec.fields) + "]",
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(header.format_version),
        "content": header.content.name.lower(),
    }
    avro_schema = schemas.manifest_schema(spec, schema, header.format_version)
    names = schemas.partition_names(avro_schema)
    return write_avro(avro_schema, [entry_record(entry, names) for entry in entries], metadata)


def _count_files_and_rows(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the numbers of files and rows by status, as attributes of `Manifest`."""
    files = Counter(entry.status for entry in entries)
    rows = {status: sum(entry.file.records for entry in entries if entry.status is status) for status in Status}
    file_counts = {f"{status.name.lower()}_files": files[status] for status in Status}
    return file_counts | {f"{status.name.lower()}_rows": rows[status] for status in Status}


def write_manifest_list(
    storage: Storage,
    path: str,
    manifests: Sequence[Manifest],
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    format_version: int = 2,
    first_row_id: int | None = None,
) -> int | None:
    """Write the manifest list of a snapshot, and assign first row ids to its data manifests (Iceberg spec, Row Lineage).

    Args:
        storage: The storage of the table.
        path: The absolute path of the new manifest list.
        manifests: The manifests of the snapshot.
        snapshot_id: The id of the snapshot.
        parent_id: The id of the preceding snapshot, or None for the first one.
        sequence_number: The sequence number of the snapshot, which replaces UNASSIGNED ones.
        format_version: The format version of the manifest list.
        first_row_id: The table's next row id, None below format version 3.

    Returns:
        The number of row ids that the snapshot assigns, None below format version 3.

    Raises:
        StorageError: The manifest list cannot be put.
    """
    # Over 40 lines: the documentation of its arguments.
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(sequence_number),
        "format-version": str(format_version),
    }
    if first_row_id is not None:
        metadata["first-row-id"] = str(first_row_id)
    counted_manifests = [_with_counts(storage, manifest) for manifest in manifests]
    listed_manifests, next_row_id = _assign_manifest_row_ids(counted_manifests, first_row_id)
    records = [manifest_record(manifest, sequence_number) for manifest in listed_manifests]
    _put(storage, path, write_avro(schemas.manifest_list_schema(format_version), records, metadata))
    return None if first_row_id is None or next_row_id is None else next_row_id - first_row_id


def _assign_manifest_row_ids(manifests: list[Manifest], next_row_id: int | None) -> tuple[list[Manifest], int | None]:
    """Return the manifests, each data manifest with a first row id, and the table's next row id (Iceberg spec, Row Lineage)."""
    if next_row_id is None:  # format versions below 3 have no row ids
        return manifests, None
    manifests_with_ids = []
    for manifest in manifests:
        if manifest.content is ManifestContent.DATA and manifest.first_row_id is None:
            manifest = replace(manifest, first_row_id=next_row_id)
            next_row_id += (manifest.added_rows or 0) + (manifest.existing_rows or 0)
        manifests_with_ids.append(manifest)
    return manifests_with_ids, next_row_id


def _put(storage: Storage, path: str, data: bytes) -> None:
    path_storage, relative_path = located(storage, path)
    path_storage.put(relative_path, data)
    _own_files.put(plain_path(path), data, len(data))


def schema_of_spec(metadata: TableMetadata, spec_id: int) -> Schema:
    """Return a schema with every source column of a partition spec: the current schema if it has them, otherwise the newest one that does.

    Args:
        metadata: The metadata of the table.
        spec_id: The id of the partition spec.

    Raises:
        UnsupportedTableFeature: The table no longer has such a schema.
    """
    fields = metadata.specs()[spec_id].fields
    source_ids = {field.source_id for field in fields if not isinstance(field.transform, VoidTransform)}
    newest_first = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in (metadata.schema(), *newest_first):
        if source_ids <= set(schema.field_ids):
            return schema
    feature = f"partition spec {spec_id}, whose columns are not in any schema"
    advice = "Rewrite the files of this spec with an engine that can read them."
    raise UnsupportedTableFeature(metadata.location, feature, action="change files of", advice=advice)


def _read_bytes(storage: Storage, path: str, kind: str) -> bytes:
    """Return the bytes of a manifest or manifest list, from memory if this process wrote the file. `kind` names the file in errors."""
    data = _own_files.get(path)
    if data is not None:
        return data
    path_storage, relative_path = located(storage, path)
    try:
        return path_storage.get(relative_path)
    except FileNotFoundError as error:
        raise CorruptLog(path, f"the {kind} is missing") from error


def _manifest_bytes(storage: Storage, manifest: Manifest) -> bytes:
    path = plain_path(manifest.path)
    if manifest.key_metadata is not None:
        advice = "Read the table with an engine that has the encryption keys, or write it without encryption."
        raise UnsupportedTableFeature(path, "encryption", action="read", advice=advice)
    return _read_bytes(storage, path, "manifest")


def _parse_entries(manifest: Manifest, data: bytes) -> tuple[Entry, ...]:
    """Return the entries in the bytes of a manifest, with inherited values. Raises CorruptLog if the bytes are not a manifest."""
    path = plain_path(manifest.path)
    avro_file = read_avro(data, path, schemas.NAMES)
    try:
        schemas.check_schema(avro_file.schema, schemas.MANIFEST)
        scales = schemas.partition_scales(avro_file.schema)
        with without_garbage_collection():
            return assign_row_ids([parse_entry(record, manifest, scales, path) for record in avro_file.records], manifest)
    except _INVALID_RECORD_ERRORS as error:
        raise CorruptLog(path, f"it is not a manifest ({type(error).__name__}: {error})") from error


def _size_in_memory(entries: Sequence[Entry]) -> int:
    """Return the estimated size of entries in bytes."""
    size = _BYTES_PER_ENTRY * len(entries)
    columns = set()
    for entry in entries:
        file = entry.file
        for map_ in (file.column_sizes, file.value_counts, file.null_counts, file.nan_counts, file.lower, file.upper):
            if isinstance(map_, MapView):
                columns.add(map_.column)
            else:
                size += _BYTES_PER_DICT_ITEM * len(map_)
    return size + sum(column.nbytes for column in columns)


def _with_counts(storage: Storage, manifest: Manifest) -> Manifest:
    """Return the manifest with all counts. Format version 1 does not require counts, so they are computed from the entries."""
    if any(getattr(manifest, name) is None for name in Manifest.COUNTS):
        return replace(manifest, **_count_files_and_rows(read_manifest(storage, manifest)))
    return manifest


def partition_summaries(partitions: Sequence[tuple[Any, ...]], spec: PartitionSpec, schema: Schema) -> tuple[PartitionSummary, ...]:
    """Return the summary of each field of a partition spec over files (`field_summary` of the Iceberg spec, Manifest Lists).

    Args:
        partitions: The partition values of each file, as in `ContentFile.partition`.
        spec: The partition spec of the files.
        schema: A schema with the source columns of the spec.
    """
    types = [field.field_type for field in spec.partition_type(schema).fields]
    return tuple(_summarize([partition[index] for partition in partitions], type_) for index, type_ in enumerate(types))


def _summarize(values: Sequence[Any], type_: Any) -> PartitionSummary:
    assert isinstance(type_, PrimitiveType), "partition values are primitive"
    values_by_sort_key = {_sort_key(value): value for value in values}
    contains_nan = any(value != value for value in values_by_sort_key.values())  # NaN is not equal to itself
    sort_keys = sorted(key for key, value in values_by_sort_key.items() if value is not None and value == value)
    bounds = [to_bytes(type_, values_by_sort_key[key]) for key in (sort_keys[0], sort_keys[-1])] if sort_keys else []
    return PartitionSummary(None in values_by_sort_key, contains_nan, *bounds)


def _sort_key(value: Any) -> Any:
    """Return the sort key of a partition value. The key of -0.0 sorts before that of 0.0, although the values are equal."""
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value
