"""Symlink manifests: text files that list the data files of each partition, for engines that do not read Delta's log.

Presto, Trino, Athena and Hive read a table from `_symlink_format_manifest`, as if its files were Parquet files of a Hive table. The folder
has the same form as that of delta-spark (GenerateSymlinkManifest): `day=2024-01-31/manifest` for each partition, or one `manifest`.

The file `_version` in the folder, whose name is hidden from these engines, contains the version of the table that the manifests describe.
The commit after that version writes only the manifests of changed partitions. Every other commit writes all manifests. This repairs them
after an interrupted or failed write, after commits of other engines, and after concurrent commits that wrote them in a different order.

A file `_writing-…` in the folder shows that a writer has begun and not finished. Its last manifests may arrive after those of a newer
version. So a commit that finds such a file of another writer writes all manifests, too.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.concurrency import map_concurrently
from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.log.replay import State, has_deletion_vectors
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import PlanError
from rowmerge.parquet.partitions import hive_folders
from rowmerge.storage.deletion import PathOrigin, delete_files
from rowmerge.storage.store import Storage, get_if_exists

logger = logging.getLogger(__name__)

FOLDER = "_symlink_format_manifest"
_MANIFEST, _VERSION_FILE, _WRITING = "manifest", f"{FOLDER}/_version", f"{FOLDER}/_writing-"
_OLDEST_WRITER = 24 * 3_600_000
"""The age in milliseconds at which a writer counts as dead, so that its file is deleted after all manifests were written."""
_MAX_ROUNDS = 10
"""The maximum number of versions that one statement writes. The statements that commit newer versions write the manifests of these."""


@dataclass(frozen=True)
class SymlinkManifests:
    """The symlink manifests of a table. Implements `rowmerge.table.maintenance.SymlinkManifests`.

    `newest`: a function that opens the newest version.
    """

    storage: Storage
    table: str
    newest: Callable[[], DeltaSnapshot]

    def generate(self) -> int:
        """Write the manifests of all partitions, and delete all others. Return the version of the table that they describe.

        Raises:
            PlanError: The table has deletion vectors or column mapping.
            StorageError: A manifest could not be written or deleted.
        """
        return self._write_newest(base=None)

    def try_update(self, base: State) -> None:
        """Write the manifests of the partitions that a commit changed. A failure is only logged, because the commit has succeeded.

        Args:
            base: The version before the commit.
        """
        try:
            self._write_newest(base)
        except Exception as error:  # noqa: BLE001 - an error would let the caller delete the files of the commit, or run it again
            advice = f"Run GENERATE symlink_format_manifest FOR TABLE {self.table}. Otherwise, the next commit writes them."
            logger.warning("Version %d of %s is committed, but its manifests are not: %s %s", base.version + 1, self.table, error, advice)

    def _write_newest(self, base: State | None) -> int:
        """Write the manifests of the newest version, and repeat this if other writers commit versions meanwhile.

        A slow writer may overwrite manifests of a newer version. It then finds this version, and writes the manifests of that one.
        """
        own_file, snapshot = f"{_WRITING}{uuid.uuid4().hex}", self.newest()
        self._check(snapshot)
        self.storage.put(own_file, b"")
        for _ in range(_MAX_ROUNDS):
            # The list is read after the put of the own file, so that at least one of two writers sees the other.
            other_writers = [file for file in self.storage.list(FOLDER) if file.path.startswith(_WRITING) and file.path != own_file]
            self._write(snapshot, None if other_writers else base)
            newest = self.newest()
            if newest.version == snapshot.version:
                break
            base, snapshot = snapshot.state, newest
        dead_writers = [file.path for file in other_writers if file.modified < time.time() * 1000 - _OLDEST_WRITER]
        delete_files(self.storage, [[f"{self.storage.location}/{path}" for path in (own_file, *dead_writers)]], PathOrigin.LISTING)
        return snapshot.version

    def _write(self, snapshot: DeltaSnapshot, base: State | None) -> None:
        """Write the manifests of a version. `base`: an older version, or None to write the manifests of all partitions."""
        self._check(snapshot)
        manifests = _manifests(self.storage.location, snapshot.state)
        if base is not None and self._described_version() == base.version:
            old_manifests = _manifests(self.storage.location, base)
            changed = {path: text for path, text in manifests.items() if old_manifests.get(path) != text}
            obsolete_paths = old_manifests.keys() - manifests.keys()
        else:
            changed = manifests
            obsolete_paths = self._existing_manifests() - manifests.keys()
        map_concurrently(lambda path: self.storage.put(path, changed[path].encode()), list(changed))
        self._delete(obsolete_paths)
        self.storage.put(_VERSION_FILE, str(snapshot.version).encode())

    def _check(self, snapshot: DeltaSnapshot) -> None:
        """Raise PlanError if engines that read manifests would return other rows than the table has."""
        if has_deletion_vectors(snapshot.state):
            advice = f"Run REORG TABLE {self.table} APPLY (PURGE), which removes them."
            raise PlanError(f"{self.table} has deletion vectors, which engines that read symlink manifests ignore. {advice}")
        if snapshot.metadata.mapping_mode != "none":
            advice = "Copy the rows into a table without column mapping."
            raise PlanError(f"{self.table} has column mapping, which engines that read symlink manifests do not support. {advice}")

    def _described_version(self) -> int | None:
        """Return the version that the manifests describe, or None if it is unknown."""
        text = (get_if_exists(self.storage, _VERSION_FILE) or b"").decode(errors="replace")
        return int(text) if text.isdecimal() else None

    def _existing_manifests(self) -> set[str]:
        """Return the paths of all manifests in the folder, relative to the table."""
        return {file.path for file in self.storage.list(FOLDER) if file.path.endswith(f"/{_MANIFEST}")}

    def _delete(self, paths: Iterable[str]) -> None:
        """Delete manifests and their folders. `paths` are relative to the table."""
        absolute_manifests = [f"{self.storage.location}/{path}" for path in sorted(paths)]
        if absolute_manifests:
            delete_files(self.storage, [absolute_manifests], PathOrigin.LISTING)
            self.storage.child(FOLDER).remove_folders()


def _manifests(location: str, state: State) -> dict[str, str]:
    """Return the content of each manifest of a version, by its path relative to the table. `location`: the location of the table."""
    paths = absolute_paths(location, state.files.column("path"))
    if not state.metadata.partition_columns:
        return {f"{FOLDER}/{_MANIFEST}": _lines(paths.to_pylist())}
    if not state.files.count:
        return {}
    groups = pa.table({"folder": _manifest_folders(state), "path": paths}).group_by("folder").aggregate([("path", "list")])
    return {f"{FOLDER}/{folder}/{_MANIFEST}": _lines(list_) for folder, list_ in zip(*map(pa.ChunkedArray.to_pylist, groups), strict=True)}


def _manifest_folders(state: State) -> pa.Array:
    """Return the folder of each file's manifest, as in Hive. The table has partitions and files."""
    partitions = state.files.column("partition").combine_chunks()
    folders = []
    for column in state.metadata.partition_columns:
        values = pc.struct_field(partitions, [column])
        # An empty string means null (PROTOCOL.md, Partition Value Serialization).
        folders.append(hive_folders(column, pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)))
    return pc.binary_join_element_wise(*folders, "/")  # the last argument is the separator


def _lines(paths: Iterable[str]) -> str:
    """Return the paths as lines. They are sorted, so that the same files have the same manifest."""
    return "".join(f"{path}\n" for path in sorted(paths))
