"""Small Iceberg tables for tests of maintenance: snapshots that add and remove rows one after the other."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.update import TableUpdate

from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.commits.snapshot_entry import snapshot_updates
from rowmerge.iceberg.commits.snapshot_files import SnapshotFiles
from rowmerge.iceberg.maintenance.reachable import file_key, needed_files
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges, Positions
from tests.support.delta_tables import ID_NAME, committed, live_rows
from tests.support.table_operations import write_rows

_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)
DAY = 24 * 3600


class Lake:
    """An Iceberg table with columns `id` and `name` in a folder, written without Spark."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.storage = Storage(str(folder))
        self.operations = DirectoryOperations(self.storage, "s.t")
        self.table = IcebergTable(self.operations, "s.t")

    def create(self, properties: Mapping[str, str] | None = None) -> None:
        committed(self.table.create(TableDefinition(ID_NAME, (), properties or {}, None), CommitRequest("CREATE TABLE")))

    def append(self, ids: Sequence[int]) -> int:
        """Commit a snapshot that adds one file with these ids."""
        return self.change(added=write_rows(self.table.snapshot(), ids))

    def delete(self, *ids: int) -> int:
        """Commit a snapshot that marks rows as deleted in files that stay live."""
        snapshot = self.table.snapshot()
        paths = self.paths
        old_positions = snapshot.deleted_positions(paths)
        rows = {path: Positions(at for at, id_ in enumerate(self.ids_in(path)) if id_ in ids) for path in paths}
        return self.change(
            deleted={path: old_positions.get(path, Positions()) | positions for path, positions in rows.items() if positions}
        )

    def remove(self, *ids: int) -> int:
        """Commit a snapshot that removes the files that begin with these ids."""
        return self.change(removed=tuple(path for path in self.paths if self.ids_in(path)[0] in ids))

    def change(
        self, added: tuple[AddedFile, ...] = (), removed: tuple[str, ...] = (), deleted: Mapping[str, Positions] | None = None
    ) -> int:
        files = FileChanges(added, removed, deleted or {})
        return committed(self.table.commit(self.table.snapshot(), CommitRequest("WRITE", files=files, reads=Reads())))

    def add_deletes(self, *files: ContentFile) -> int:
        """Commit a snapshot that adds delete files as another engine writes them."""
        metadata, snapshot_id = self.current.metadata, uuid.uuid4().int >> 65
        parent = metadata.current_snapshot()
        assert parent is not None
        snapshot_files = SnapshotFiles(self.storage, metadata, snapshot_id, ())
        manifests = snapshot_files.write_delete_manifests(files)
        entries = [Entry.added(file, snapshot_id) for file in files]
        old_manifests = read_manifest_list(self.storage, parent.manifest_list)
        produced = snapshot_files.put_snapshot(metadata, parent, [*manifests, *old_manifests], entries)
        self.update(*snapshot_updates(metadata, MAIN, parent, produced, CommitRequest("DELETE")))
        return snapshot_id

    def shared_deletes(self, *ids: int) -> ContentFile:
        """Write a file of position deletes for all data files that have these ids, and return its entry."""
        addresses = [(path, at) for path in self.paths for at, id_ in enumerate(self.ids_in(path)) if id_ in ids]
        rows = pa.table(
            {"file_path": [path for path, _ in addresses], "pos": pa.array([at for _, at in addresses], pa.int64())}, schema=_POSITIONS
        )
        return self._content(Content.POSITION_DELETES, rows)

    def equality_deletes(self, *ids: int) -> ContentFile:
        """Write a file of equality deletes on `id`, and return its entry."""
        schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
        return self._content(Content.EQUALITY_DELETES, pa.table({"id": list(ids)}, schema=schema), (1,))

    def _content(self, content: Content, rows: pa.Table, equality_ids: tuple[int, ...] = ()) -> ContentFile:
        path = self.folder / "data" / f"{uuid.uuid4()}-deletes.parquet"
        pq.write_table(rows, path)
        return ContentFile(content, f"file://{path}", rows.num_rows, os.path.getsize(path), equality_ids=equality_ids)

    @property
    def paths(self) -> list[str]:
        paths: list[str] = self.table.snapshot().files().paths
        return paths

    def update(self, *updates: TableUpdate) -> None:
        """Commit other updates of the metadata."""
        current = self.operations.current()
        assert current is not None
        assert self.operations.commit(current, updates) is Put.CREATED

    def ids(self, snapshot_id: int | None = None) -> list[int]:
        snapshot = self.table.snapshot() if snapshot_id is None else self.table.snapshot_at(version=snapshot_id)
        return sorted(live_rows(snapshot)["id"].to_pylist())

    def ids_in(self, path: str) -> list[int]:
        """Return the ids in a data file, in file order."""
        ids: list[int] = pq.read_table(path.removeprefix("file://"))["id"].to_pylist()
        return ids

    @property
    def current(self) -> CurrentMetadata:
        current = self.operations.current()
        assert current is not None
        return current

    @property
    def snapshots(self) -> list[int]:
        """Return the ids of the snapshots in the metadata, oldest first."""
        return [snapshot.snapshot_id for snapshot in self.current.metadata.snapshots]

    def on_disk(self, folder: str = "") -> set[str]:
        return {file.path for file in self.storage.list(folder)}

    def aged(self, days: float, *paths: str) -> None:
        """Set the modification times of files some days back. Without names, of all files in the folder."""
        then = time.time() - days * DAY
        for path in paths or sorted(self.on_disk()):
            os.utime(self.folder / path, (then, then))

    def junk(self, path: str, days: float = 30) -> str:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"left over")
        self.aged(days, path)
        return path


def needed(folder: Path) -> set[str]:
    """Return the paths, relative to the table's folder, that its snapshots, its metadata files and the version hint need."""
    lake = Lake(folder)
    metadata = lake.current.metadata
    paths = [*needed_files(lake.storage, metadata), lake.current.path, *(entry.metadata_file for entry in metadata.metadata_log)]
    root = f"{file_key(lake.storage.location)}/"
    return {file_key(path).removeprefix(root) for path in paths} | {"metadata/version-hint.text"}
