"""Snapshots of other engines with contents that rowmerge never commits."""

from __future__ import annotations

import io
import uuid
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate

from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.deletes.position_deletes import _SCHEMA, FILE_PATH
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry, Manifest, ManifestContent
from rowmerge.iceberg.manifests.manifest_files import ManifestHeader, read_manifest, read_manifest_list, write_manifest, write_manifest_list
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.refs import MAIN, point_branch_at
from rowmerge.storage.store import Put, Storage

Entries = Sequence[ContentFile]


def commit_files(
    operations: TableOperations, operation: Operation, added: Entries = (), removed: Sequence[str] = (), *, unsaid: bool = False
) -> int:
    """Commit a snapshot that adds and removes files, and return its id; `unsaid`: manifests omit the removed entries."""
    current = operations.current()
    assert current is not None
    metadata, storage = current.metadata, operations.storage
    parent = metadata.current_snapshot()
    assert parent is not None
    id_, sequence = uuid.uuid4().int >> 65, metadata.next_sequence_number()

    def manifest(entries: Sequence[Entry], content: ManifestContent, spec_id: int) -> Manifest:
        path = f"{storage.location}/metadata/{uuid.uuid4()}-m0.avro"
        spec, schema = metadata.specs()[spec_id], metadata.schema()
        return write_manifest(storage, path, entries, ManifestHeader(content, spec, schema), id_)

    manifests = []
    for current_manifest in read_manifest_list(storage, parent.manifest_list):
        entries = [entry for entry in read_manifest(storage, current_manifest) if entry.live]
        removed_entries = [entry for entry in entries if plain_path(entry.file.path) in removed]
        retained_entries = [entry.existing() for entry in entries if entry not in removed_entries]
        deleted_entries = [] if unsaid else [entry.deleted(id_) for entry in removed_entries]
        if not removed_entries:
            manifests.append(current_manifest)
        elif retained_entries or deleted_entries:
            manifests.append(manifest([*retained_entries, *deleted_entries], current_manifest.content, current_manifest.spec_id))
    for content in ManifestContent:
        files = [file for file in added if (file.content is Content.DATA) is (content is ManifestContent.DATA)]
        for spec_id in sorted({file.spec_id for file in files}):
            entries_of_spec = [Entry.added(file, id_) for file in files if file.spec_id == spec_id]
            manifests.append(manifest(entries_of_spec, content, spec_id))
    path = f"{storage.location}/metadata/snap-{id_}.avro"
    write_manifest_list(storage, path, manifests, snapshot_id=id_, parent_id=parent.snapshot_id, sequence_number=sequence)
    snapshot = Snapshot(
        snapshot_id=id_,
        parent_snapshot_id=parent.snapshot_id,
        sequence_number=sequence,
        timestamp_ms=metadata.last_updated_ms + 1,
        manifest_list=path,
        summary=Summary(operation),
        schema_id=metadata.current_schema_id,
    )
    assert operations.commit(current, (AddSnapshotUpdate(snapshot=snapshot), point_branch_at(metadata, MAIN, id_))) is Put.CREATED
    return id_


def deletes_of_many(
    storage: Storage, positions: Mapping[str, Sequence[int]], spec_id: int = 0, partition: tuple[object, ...] = ()
) -> ContentFile:
    """Write one position-delete file for several data files of a partition."""
    pairs = sorted((path, at) for path, rows in positions.items() for at in rows)
    rows = pa.table([pa.array([path for path, _ in pairs]), pa.array([at for _, at in pairs], pa.int64())], schema=_SCHEMA)
    bounds = ({FILE_PATH: pairs[0][0].encode()}, {FILE_PATH: pairs[-1][0].encode()})
    return _put(storage, rows, Content.POSITION_DELETES, spec_id, partition, bounds)


def equality_deletes(storage: Storage, ids: Sequence[int], spec_id: int = 0, partition: tuple[object, ...] = ()) -> ContentFile:
    """Write an equality-delete file of values of the column `id`, whose field id is 1."""
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    return _put(storage, pa.table([pa.array(ids, pa.int64())], schema=schema), Content.EQUALITY_DELETES, spec_id, partition)


def _put(
    storage: Storage,
    rows: pa.Table,
    content: Content,
    spec_id: int,
    partition: tuple[object, ...],
    bounds: tuple[Mapping[int, bytes], Mapping[int, bytes]] = ({}, {}),
) -> ContentFile:
    stream = io.BytesIO()
    pq.write_table(rows, stream)
    path = f"data/{uuid.uuid4()}-deletes.parquet"
    storage.put(path, stream.getvalue())
    return ContentFile(
        content,
        f"{storage.location}/{path}",
        rows.num_rows,
        len(stream.getvalue()),
        spec_id,
        partition,
        lower=bounds[0],
        upper=bounds[1],
        equality_ids=(1,) if content is Content.EQUALITY_DELETES else (),
    )
