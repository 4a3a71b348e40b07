"""The metadata tables of one Iceberg table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.deletes.deletion_vectors import read_deletion_vectors
from rowmerge.iceberg.deletes.position_deletes import read_position_delete_file
from rowmerge.iceberg.inspection import files, manifests, snapshots
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry, Manifest, ManifestContent
from rowmerge.iceberg.manifests.manifest_files import cache_key_of, read_manifest_list, read_manifests
from rowmerge.iceberg.snapshots.live_files import ManifestFiles
from rowmerge.iceberg.snapshots.partition_structs import partition_transforms
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot, as_iceberg_snapshot
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.schema import DataType
from rowmerge.table.snapshots.files import Positions
from rowmerge.table.snapshots.metadata_tables import LONG, OF_ALL_VERSIONS, OF_ONE_VERSION, STRING, MetadataRows, as_struct
from rowmerge.table.snapshots.snapshot import Snapshot

_CONTENTS = {"data_files": (ManifestContent.DATA,), "delete_files": (ManifestContent.DELETES,)}
"""The kinds of manifests that a metadata table describes. The other tables describe both kinds."""
_ROW_LINEAGE = 3


class IcebergMetadataTables:
    """The metadata tables of one Iceberg table, which implement `rowmerge.table.snapshots.metadata_tables.MetadataTables`."""

    names = (*OF_ONE_VERSION, *OF_ALL_VERSIONS)

    def __init__(self, storage: Storage) -> None:
        """Create the metadata tables of the table in a folder. `storage`: the folder."""
        self._storage = storage

    def partition_transforms(self, snapshot: Snapshot) -> Mapping[str, str]:
        return partition_transforms(as_iceberg_snapshot(snapshot).metadata)

    def read(self, name: str, snapshot: Snapshot, columns: Collection[str] | None = None) -> MetadataRows:
        """Return the rows of a metadata table (see `MetadataTables.read`).

        Args:
            name: One of `names`.
            snapshot: The version of the table.
            columns: Names that include those of the needed columns, or None for all columns.
        """
        version = as_iceberg_snapshot(snapshot)
        metadata, kind = version.metadata, name.removeprefix("all_")
        contents = _CONTENTS.get(kind, tuple(ManifestContent))
        match name:
            case "snapshots":
                return snapshots.snapshot_rows(metadata)
            case "history":
                return snapshots.history_rows(metadata)
            case "refs":
                return snapshots.reference_rows(metadata)
            case "metadata_log_entries":
                return snapshots.metadata_log_rows(metadata, version.current.path)
            case "manifests":
                return manifests.manifest_rows(version.manifests, metadata)
            case "all_manifests":
                return manifests.all_manifest_rows(list(self._all_manifests(metadata)), metadata)
            case "partitions":
                return files.partition_rows((*version.live.data, *version.live.deletes), metadata)
            case "position_deletes":
                return self._position_deletes(version)
            case "entries" | "all_entries":
                return files.entry_rows(self._entries(self._manifests(name, version, contents)), metadata, columns)
        if name == kind:  # the snapshot has read its live files already, or reads them for the next statement, too
            manifests_in_order = [manifest for content in contents for manifest in version.live.manifests if manifest.content is content]
            groups = [version.live.files_by_key[cache_key_of(manifest)] for manifest in manifests_in_order]
            return files.file_rows(groups, metadata, columns)
        entries = self._entries(self._manifests(name, version, contents))
        return files.file_rows([ManifestFiles(tuple(entry for entry in entries if entry.live))], metadata, columns)

    def _manifests(self, name: str, version: IcebergSnapshot, contents: Sequence[ManifestContent]) -> list[Manifest]:
        """Return the manifests that a metadata table describes: of all snapshots if its name begins with `all_`, else of one snapshot."""
        if not name.startswith("all_"):
            return [manifest for manifest in version.manifests if manifest.content in contents]
        by_path = {manifest.path: manifest for _, manifest in self._all_manifests(version.metadata) if manifest.content in contents}
        return list(by_path.values())

    def _all_manifests(self, metadata: TableMetadata) -> Iterator[tuple[int, Manifest]]:
        """Yield each manifest of each snapshot with the id of the snapshot."""
        for snapshot in metadata.snapshots:
            yield from ((snapshot.snapshot_id, manifest) for manifest in read_manifest_list(self._storage, snapshot.manifest_list))

    def _entries(self, manifests: Sequence[Manifest]) -> list[Entry]:
        return [entry for entries in read_manifests(self._storage, manifests) for entry in entries]

    def _position_deletes(self, version: IcebergSnapshot) -> MetadataRows:
        """Return the rows of `position_deletes`: one for each deleted position in each delete file. Deleted rows themselves are NULL."""
        deletes = [entry for entry in version.live.deletes if entry.file.content is Content.POSITION_DELETES]
        by_path = [(delete, self._positions_in(delete.file)) for delete in deletes]
        groups = [(delete, path, positions) for delete, paths in by_path for path, positions in paths.items() if positions]
        counts = [len(positions) for _, _, positions in groups]
        repeats = pa.array(np.repeat(np.arange(len(groups)), counts))
        positions = [np.array(positions.to_array(), dtype=np.int64) for _, _, positions in groups]
        types: dict[str, DataType] = {"file_path": STRING, "pos": LONG, "row": as_struct({f.name: f.type for f in version.schema})}
        values: dict[str, Any] = {
            "file_path": pa.array([path for _, path, _ in groups], pa.string()).take(repeats),
            "pos": pa.array(np.concatenate([*positions, np.empty(0, dtype=np.int64)]), pa.int64()),
        }
        names = {"partition": "partition", "spec_id": "spec_id", "delete_file_path": "file_path"}
        if version.metadata.format_version >= _ROW_LINEAGE:
            names |= {name: name for name in ("content_offset", "content_size_in_bytes")}
        file_rows = files.file_rows([ManifestFiles(tuple(delete for delete, _, _ in groups))], version.metadata, names.values())
        for name, file_column in names.items():
            if (column := file_rows.columns.find(file_column)) is not None:
                types[name] = column.type
                values[name] = file_rows.rows[file_column].combine_chunks().take(repeats)
        return MetadataRows.of(types, values)

    def _positions_in(self, delete: ContentFile) -> Mapping[str, Positions]:
        if delete.format.upper() == "PUFFIN":
            return read_deletion_vectors(self._storage, [delete])
        return read_position_delete_file(self._storage, delete)
