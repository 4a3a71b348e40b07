"""Deleted rows are stored as one delete file per data file, which replaces older ones. Data files without live rows are removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from rowmerge.iceberg.commits.snapshot_files import SnapshotFiles
from rowmerge.iceberg.deletes.position_deletes import write_position_deletes
from rowmerge.iceberg.manifests.content import ContentFile, Entry, ManifestContent, Status
from rowmerge.iceberg.manifests.manifest_files import (
    ManifestHeader,
    read_manifest,
    read_manifest_list,
    read_manifests,
    write_manifest,
    write_manifest_list,
)
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.snapshots.live_files import LiveFiles
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions
from tests.support.iceberg_tables import SCHEMA, data_file

METADATA = new_table_metadata(SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "/unused")
PARENT = Snapshot(snapshot_id=77, manifest_list="/unused")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "table"))


def head_after(sequence_number: int) -> TableMetadata:
    return METADATA.model_copy(update={"last_sequence_number": sequence_number})


def live_of(storage: Storage, files: list[ContentFile], deletes: list[ContentFile]) -> LiveFiles:
    manifests = [
        write_manifest(
            storage,
            f"{storage.location}/metadata/m{int(content)}.avro",
            [Entry.added(file, 77) for file in group],
            ManifestHeader(content, METADATA.spec(), METADATA.schema()),
            snapshot_id=77,
        )
        for content, group in ((ManifestContent.DATA, files), (ManifestContent.DELETES, deletes))
        if group
    ]
    path = f"{storage.location}/metadata/snap-77.avro"
    write_manifest_list(storage, path, manifests, snapshot_id=77, parent_id=None, sequence_number=1)
    listed_manifests = read_manifest_list(storage, path)
    entries = [entry for manifest_entries in read_manifests(storage, listed_manifests) for entry in manifest_entries]
    data, positions = ([entry for entry in entries if (entry.file.content == 0) is is_data] for is_data in (True, False))
    return LiveFiles(storage, listed_manifests, tuple(data), tuple(positions))


def test_each_data_file_gets_one_delete_file_or_is_removed(storage: Storage, tmp_path: Path) -> None:
    outside = Storage(str(tmp_path / "outside"))
    files = [data_file(storage, 0, 10), data_file(storage, 10, 10), data_file(outside, 20, 10), data_file(storage, 30, 10)]
    paths = [plain_path(file.path) for file in files]
    (older_deletes,) = write_position_deletes(
        storage, lambda: f"{storage.location}/data/known-deletes.parquet", [(files[1], Positions([1]))]
    )
    live = live_of(storage, files, [older_deletes])
    snapshot = SnapshotFiles(storage, METADATA, 78, ())
    deleted = {paths[0]: Positions([3]), paths[1]: Positions([1, 2]), paths[2]: Positions([4]), paths[3]: Positions(range(10))}
    written_snapshot = snapshot.write_snapshot(head_after(1), PARENT, live, [], deleted)
    entries = [
        entry for manifest in read_manifest_list(storage, written_snapshot.manifest_list) for entry in read_manifest(storage, manifest)
    ]
    live_files = LiveFiles(
        storage,
        data=tuple(entry for entry in entries if entry.live and entry.file.content == 0),
        deletes=tuple(entry for entry in entries if entry.live and entry.file.content == 1),
    )
    assert live_files.paths == paths[:3]
    assert live_files.deleted_positions(live_files.data) == {path: deleted[path] for path in paths[:3]}
    assert len(live_files.deletes) == 3 and all(entry.file.path.startswith(f"{storage.location}/data/") for entry in live_files.deletes)
    assert [entry.file.path for entry in entries if entry.status is Status.DELETED and entry.file.content == 1] == [older_deletes.path]


def test_a_retried_commit_reuses_its_delete_files(storage: Storage) -> None:
    files = [data_file(storage, 0, 10), data_file(storage, 10, 10)]
    live = live_of(storage, files, [])
    snapshot = SnapshotFiles(storage, METADATA, 78, ())
    deleted = {path: Positions([3]) for path in live.paths}
    first, second = (snapshot.write_snapshot(head_after(number), PARENT, live, [], deleted) for number in (1, 2))
    assert {entry.file.path for entry in first.entries} == {entry.file.path for entry in second.entries}
    snapshot.discard()
    assert [object_.path for object_ in storage.list("data")] == sorted(file.path[len(storage.location) + 1 :] for file in files)
