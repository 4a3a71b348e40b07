"""Reading and writing manifests and manifest lists (Iceberg spec, Manifests, Manifest Lists, Sequence Number Inheritance)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import PrimitiveType

from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.avro.files import read_avro, write_avro
from rowmerge.iceberg.manifests.content import UNASSIGNED, ContentFile, Entry, Manifest, ManifestContent, PartitionSummary, Status
from rowmerge.iceberg.manifests.records import entry_of, manifest_of, record_of_entry, record_of_manifest, with_row_ids
from rowmerge.iceberg.manifests.schemas import (
    NAMES,
    check_manifest_list_schema,
    check_manifest_schema,
    manifest_list_schema,
    manifest_schema,
    partition_names,
    partition_scales,
)
from rowmerge.iceberg.metadata.locations import located, plain_path
from rowmerge.storage.at_once import ahead
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage

_CACHED_VALUES = 4_000_000
"""Counts and bounds that the cache holds, at some 70 bytes each."""

_NO_MANIFEST = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_CACHED_BYTES = 64 * 1024 * 1024

_cache: Cache[tuple[Entry, ...]] = Cache(_CACHED_VALUES)
_written: Cache[bytes] = Cache(_CACHED_BYTES)
"""Manifests and manifest lists that this process wrote, by path: they never change, and the next statement reads them."""


def _values(file: ContentFile) -> int:
    maps = (file.column_sizes, file.value_counts, file.null_counts, file.nan_counts, file.lower, file.upper)
    return 20 + sum(len(by_id) for by_id in maps)


def read_manifest_list(storage: Storage, path: str) -> tuple[Manifest, ...]:
    """The manifests of a snapshot, by the absolute path of its manifest list. Raises CorruptLog, StorageError."""
    plain = plain_path(path)
    file = read_avro(_fetched(storage, plain, "manifest list"), plain, NAMES)
    try:
        check_manifest_list_schema(file.schema)
        return tuple(manifest_of(record) for record in file.records)
    except _NO_MANIFEST as error:
        raise CorruptLog(plain, f"it is no manifest list ({type(error).__name__}: {error})") from error


def read_manifest(storage: Storage, manifest: Manifest) -> tuple[Entry, ...]:
    """The entries of a manifest, deleted ones too, with what they inherit. Raises CorruptLog, UnsupportedTableFeature, StorageError.

    Manifests read before are not read again, in the whole process.
    """
    entries = _cache.get(state_of(manifest))
    return _entries(manifest, _manifest_bytes(storage, manifest)) if entries is None else entries


def read_manifests(storage: Storage, manifests: Sequence[Manifest]) -> list[tuple[Entry, ...]]:
    """The entries of each manifest. Raises what `read_manifest` does.

    Several are fetched at a time, and decoded one after another: two threads that make Python's objects only wait for each other.
    """
    found = {state_of(manifest): _cache.get(state_of(manifest)) for manifest in manifests}
    unread = [manifest for manifest in manifests if found[state_of(manifest)] is None]
    if len(unread) < 2:
        return [read_manifest(storage, manifest) for manifest in manifests]
    for manifest, data in zip(unread, ahead(lambda manifest: _manifest_bytes(storage, manifest), unread), strict=True):
        found[state_of(manifest)] = _entries(manifest, data)
    return [entries for manifest in manifests if (entries := found[state_of(manifest)]) is not None]


def state_of(manifest: Manifest) -> tuple[object, ...]:
    """What no other state of a manifest has: with the same key it holds the same entries."""
    return manifest.path, manifest.length, manifest.sequence_number, manifest.added_snapshot_id, manifest.first_row_id


def write_manifest(
    storage: Storage,
    path: str,
    entries: Iterable[Entry],
    *,
    content: ManifestContent,
    spec: PartitionSpec,
    schema: Schema,
    snapshot_id: int,
    format_version: int = 2,
) -> Manifest:
    """Write a manifest of one partition spec to an absolute path, and say what the manifest list is to hold of it. Raises StorageError.

    `schema` must have the source columns of the spec (`schema_of_spec`). Sequence numbers that are UNASSIGNED are written as null, so the
    same manifest serves every attempt of a commit.
    """
    written = list(entries)
    assert written, "a manifest has entries"
    assert all(entry.status is Status.ADDED or entry.sequence_number != UNASSIGNED for entry in written), "only new files have no age"
    avro = manifest_schema(spec, schema, format_version)
    names = partition_names(avro)
    data = write_avro(avro, [record_of_entry(entry, names) for entry in written], _manifest_header(content, spec, schema, format_version))
    _put(storage, path, data)
    ages = [entry.sequence_number for entry in written if entry.live and entry.sequence_number != UNASSIGNED]
    files = Counter(entry.status for entry in written)
    rows = {status: sum(entry.file.records for entry in written if entry.status is status) for status in Status}
    return Manifest(
        path=path,
        length=len(data),
        spec_id=spec.spec_id,
        content=content,
        sequence_number=UNASSIGNED,
        min_sequence_number=min(ages, default=UNASSIGNED),
        added_snapshot_id=snapshot_id,
        added_files=files[Status.ADDED],
        existing_files=files[Status.EXISTING],
        deleted_files=files[Status.DELETED],
        added_rows=rows[Status.ADDED],
        existing_rows=rows[Status.EXISTING],
        deleted_rows=rows[Status.DELETED],
        partitions=summaries([entry.file.partition for entry in written], spec, schema),
    )


def _manifest_header(content: ManifestContent, spec: PartitionSpec, schema: Schema, format_version: int) -> dict[str, str]:
    """Return the key-value metadata of a manifest's Avro file (Iceberg spec, Manifests)."""
    return {
        "schema": schema.model_dump_json(),
        "schema-id": str(schema.schema_id),
        "partition-spec": "[" + ",".join(field.model_dump_json() for field in spec.fields) + "]",
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
        "content": content.name.lower(),
    }


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
    """Write the manifest list of a snapshot to an absolute path; UNASSIGNED sequence numbers become the snapshot's. Raises StorageError.

    `first_row_id`: from format version 3 on, the table's next row id; data manifests without one get theirs from it. What is given back
    is the next row id after them.
    """
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(sequence_number),
        "format-version": str(format_version),
        **({} if first_row_id is None else {"first-row-id": str(first_row_id)}),
    }
    records = []
    for manifest in (_counted(storage, manifest) for manifest in manifests):
        if first_row_id is not None and manifest.content is ManifestContent.DATA and manifest.first_row_id is None:
            manifest = replace(manifest, first_row_id=first_row_id)
            first_row_id += (manifest.added_rows or 0) + (manifest.existing_rows or 0)
        records.append(record_of_manifest(manifest, sequence_number))
    _put(storage, path, write_avro(manifest_list_schema(format_version), records, metadata))
    return first_row_id


def _put(storage: Storage, path: str, data: bytes) -> None:
    holder, below = located(storage, path)
    holder.put(below, data)
    _written.put(plain_path(path), data, len(data))


def schema_of_spec(metadata: TableMetadata, spec_id: int) -> Schema:
    """The current schema, or the newest one that still has every source column of a spec: columns may have been dropped since.

    Raises UnsupportedTableFeature when the table has no such schema any more.
    """
    sources = {field.source_id for field in metadata.specs()[spec_id].fields if not isinstance(field.transform, VoidTransform)}
    newest_first = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in (metadata.schema(), *newest_first):
        if sources <= set(schema.field_ids):
            return schema
    raise UnsupportedTableFeature(
        metadata.location,
        f"partition spec {spec_id}, whose columns are in no schema any more",
        action="change files of",
        advice="Rewrite the files of this spec with an engine that reads them.",
    )


def _fetched(storage: Storage, plain: str, kind: str) -> bytes:
    data = _written.get(plain)
    if data is None:
        holder, below = located(storage, plain)
        try:
            data = holder.get(below)
        except FileNotFoundError as error:
            raise CorruptLog(plain, f"the {kind} is missing") from error
    return data


def _manifest_bytes(storage: Storage, manifest: Manifest) -> bytes:
    plain = plain_path(manifest.path)
    if manifest.key_metadata is not None:
        advice = "Write the table without encryption keys, or read it with an engine that has them."
        raise UnsupportedTableFeature(plain, "encryption", action="read", advice=advice)
    return _fetched(storage, plain, "manifest")


def _entries(manifest: Manifest, data: bytes) -> tuple[Entry, ...]:
    """What a manifest's bytes say, which is kept for the next one who asks."""
    plain = plain_path(manifest.path)
    file = read_avro(data, plain, NAMES)
    try:
        check_manifest_schema(file.schema)
        scales = partition_scales(file.schema)
        entries = with_row_ids([entry_of(record, manifest, scales, plain) for record in file.records], manifest)
    except _NO_MANIFEST as error:
        raise CorruptLog(plain, f"it is no manifest ({type(error).__name__}: {error})") from error
    _cache.put(state_of(manifest), entries, sum(_values(entry.file) for entry in entries))
    return entries


def _counted(storage: Storage, manifest: Manifest) -> Manifest:
    """The manifest with all its counts, which format version 1 did not require: what is missing is counted in the manifest itself."""
    counts = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
    if None not in (*counts, manifest.added_rows, manifest.existing_rows, manifest.deleted_rows):
        return manifest
    entries = read_manifest(storage, manifest)
    files = Counter(entry.status for entry in entries)
    rows = {status: sum(entry.file.records for entry in entries if entry.status is status) for status in Status}
    return replace(
        manifest,
        added_files=files[Status.ADDED],
        existing_files=files[Status.EXISTING],
        deleted_files=files[Status.DELETED],
        added_rows=rows[Status.ADDED],
        existing_rows=rows[Status.EXISTING],
        deleted_rows=rows[Status.DELETED],
    )


def summaries(partitions: Sequence[tuple[Any, ...]], spec: PartitionSpec, schema: Schema) -> tuple[PartitionSummary, ...]:
    """One summary for each field of a spec, over the partition values of files (as `ContentFile.partition` has them)."""
    types = [field.field_type for field in spec.partition_type(schema).fields]
    return tuple(_summary([values[at] for values in partitions], type_) for at, type_ in enumerate(types))


def _summary(values: Iterable[Any], type_: Any) -> PartitionSummary:
    assert isinstance(type_, PrimitiveType), "partition values are primitive"
    distinct = {_key(value): value for value in values}
    nan = any(value != value for value in distinct.values())
    there = sorted(key for key, value in distinct.items() if value is not None and value == value)
    bounds = (to_bytes(type_, distinct[there[0]]), to_bytes(type_, distinct[there[-1]])) if there else (None, None)
    return PartitionSummary(None in distinct, nan, *bounds)


def _key(value: Any) -> Any:
    """By which values are told apart and ordered: -0.0 is another value than 0.0, and comes first."""
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value
