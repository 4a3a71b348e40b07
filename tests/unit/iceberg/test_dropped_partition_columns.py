"""Rewritten manifests keep the partition values of a spec whose column was dropped."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    update_table_metadata,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from rowmerge.iceberg.commits.snapshot_files import SnapshotFiles
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry, ManifestContent, Status
from rowmerge.iceberg.manifests.manifest_files import ManifestHeader, read_manifest, read_manifest_list, write_manifest, write_manifest_list
from rowmerge.iceberg.snapshots.live_files import LiveFiles
from rowmerge.storage.store import Storage


def partitioned_metadata(location: str) -> TableMetadata:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
    return new_table_metadata(schema, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city")), UNSORTED_SORT_ORDER, location)


def drop_partition_column(metadata: TableMetadata) -> TableMetadata:
    unpartitioned = PartitionSpec(spec_id=UNPARTITIONED_PARTITION_SPEC.spec_id + 1)
    bare = Schema(NestedField(1, "id", LongType()), schema_id=1)
    updates = (AddPartitionSpecUpdate(spec=unpartitioned), SetDefaultSpecUpdate(spec_id=1))
    return update_table_metadata(metadata, (*updates, AddSchemaUpdate(schema_=bare), SetCurrentSchemaUpdate(schema_id=1)))


def test_rewritten_manifests_keep_partition_values_of_dropped_columns(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    original = partitioned_metadata(storage.location)
    files = [ContentFile(Content.DATA, f"{storage.location}/data/{city}.parquet", 5, 50, 0, (city,)) for city in ("Bonn", "Ulm")]
    manifest = write_manifest(
        storage,
        f"{storage.location}/metadata/m0.avro",
        [Entry.added(file, 77) for file in files],
        ManifestHeader(ManifestContent.DATA, original.spec(), original.schema()),
        snapshot_id=77,
    )
    first = f"{storage.location}/metadata/snap-77.avro"
    write_manifest_list(storage, first, [manifest], snapshot_id=77, parent_id=None, sequence_number=1)
    manifests = read_manifest_list(storage, first)
    live = LiveFiles(storage, manifests, read_manifest(storage, manifests[0]))
    head = drop_partition_column(original).model_copy(update={"last_sequence_number": 1})
    parent = Snapshot(snapshot_id=77, manifest_list=first)
    snapshot = SnapshotFiles(storage, head, 78, ()).write_snapshot(head, parent, live, [files[0].path], {})
    (rewritten_manifest,) = read_manifest_list(storage, snapshot.manifest_list)
    entries = [(entry.status, entry.file.partition) for entry in read_manifest(storage, rewritten_manifest)]
    assert (rewritten_manifest.spec_id, entries) == (0, [(Status.DELETED, ("Bonn",)), (Status.EXISTING, ("Ulm",))])
