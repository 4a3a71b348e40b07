"""Iceberg tables written with our manifests and pyiceberg's metadata, and golden tables opened by their metadata file."""

from __future__ import annotations

import gzip
import io
import json
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, update_table_metadata
from pyiceberg.types import LongType, NestedField, StringType

from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry, ManifestContent
from rowmerge.iceberg.manifests.manifest_files import ManifestHeader, write_manifest, write_manifest_list
from rowmerge.storage.store import Storage
from tests.golden.iceberg.tables import copied

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))
_ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
)


def data_file(storage: Storage, first: int, count: int) -> ContentFile:
    """Return the entry of a data file with consecutive ids from `first`."""
    path = f"data/{uuid.uuid4()}.parquet"
    stream = io.BytesIO()
    ids = range(first, first + count)
    pq.write_table(pa.table({"id": list(ids), "name": [f"n{id_}" for id_ in ids]}, schema=_ARROW), stream)
    storage.put(path, stream.getvalue())
    return ContentFile(Content.DATA, f"{storage.location}/{path}", count, len(stream.getvalue()))


def table_of(storage: Storage, data: Sequence[ContentFile], deletes: Sequence[ContentFile] = (), *, format_version: int = 2) -> str:
    """Create a table with one snapshot of these files, and return the path of its metadata file."""
    empty = new_table_metadata(SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, storage.location)
    schema, spec = empty.schema(), empty.spec()
    metadata_folder = f"{storage.location}/metadata"
    manifests = [
        write_manifest(
            storage,
            f"{metadata_folder}/{uuid.uuid4()}-m{int(content)}.avro",
            [Entry.added(file, 77) for file in files],
            ManifestHeader(content, spec, schema, format_version),
            snapshot_id=77,
        )
        for content, files in ((ManifestContent.DATA, data), (ManifestContent.DELETES, deletes))
        if files
    ]
    manifest_list = f"{metadata_folder}/snap-77.avro"
    write_manifest_list(
        storage,
        manifest_list,
        manifests,
        snapshot_id=77,
        parent_id=None,
        sequence_number=1,
        format_version=format_version,
        first_row_id=0 if format_version == 3 else None,
    )
    metadata = json.loads(_with_snapshot(empty, manifest_list).model_dump_json())
    if format_version == 3:  # pyiceberg reads it and does not write it
        rows = sum(file.records for file in data)
        metadata |= {"format-version": 3, "next-row-id": rows}
        metadata["snapshots"][0] |= {"first-row-id": 0, "added-rows": rows}
    storage.put("metadata/v1.metadata.json", json.dumps(metadata).encode())
    return f"{storage.location}/metadata/v1.metadata.json"


def opened(name: str, folder: Path) -> tuple[Storage, TableMetadata]:
    """Copy a golden table to a folder, and return its newest metadata file."""
    newest = Path(copied(name, folder))
    data = newest.read_bytes()
    return Storage(str(folder)), TableMetadataUtil.parse_raw((gzip.decompress(data) if ".gz." in newest.name else data).decode())


def _with_snapshot(empty: TableMetadata, manifest_list: str) -> TableMetadata:
    snapshot = Snapshot(
        snapshot_id=77,
        sequence_number=1,
        timestamp_ms=empty.last_updated_ms + 1,
        manifest_list=manifest_list,
        summary=Summary(Operation.OVERWRITE),
        schema_id=0,
    )
    reference = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=77)
    return update_table_metadata(empty, (AddSnapshotUpdate(snapshot=snapshot), reference))
