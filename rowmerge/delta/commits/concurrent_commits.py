"""Read a concurrent commit: the files that it added and removed, and the rows that it deleted in the remaining files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.log.ndjson import Document, commit_info, file_actions, non_file_actions
from rowmerge.delta.metadata.actions import Action
from rowmerge.delta.snapshots.deletion_vectors import read_vector
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions

VectorDescriptor = Mapping[str, Any] | None
"""The descriptor of a file's deletion vector, or None for a file without a deletion vector."""


@dataclass(frozen=True)
class ConcurrentCommit:
    """A commit by another writer, whose version comes before the planned commit. Paths are absolute and percent-decoded.

    `added_files`: the added files, as rows of the file table (`rowmerge.delta.files.columns`). `vector_changes`: the old and new deletion
    vectors, by path, of the files that the commit removed and added again. `storage`: the storage of the table's folder.
    """

    version: int
    non_file_actions: Sequence[Action]
    added_files: pa.Table
    added_paths: pa.ChunkedArray
    removed_paths: frozenset[str]
    vector_changes: Mapping[str, tuple[VectorDescriptor, VectorDescriptor]]
    storage: Storage
    _newly_deleted: dict[str, Positions | None] = field(default_factory=dict)

    def fields_of(self, name: str) -> list[Mapping[str, Any]]:
        """Return the fields of each action with this name, such as `metaData` or `txn`. File actions are not included."""
        return [action[name] for action in self.non_file_actions if name in action]

    @property
    def is_blind_append(self) -> bool:
        """Whether the commit only added files and did not read the table."""
        return bool(commit_info(self.non_file_actions).get("isBlindAppend")) and not self.removed_paths

    def newly_deleted(self, path: str) -> Positions | None:
        """Return the rows that the commit deleted by giving a file a new deletion vector (a `remove` and an `add` of the same path).

        Return None if the commit did not add the file again, or if it restored rows of the file. Raises CorruptLog, StorageError.
        """
        if path not in self.vector_changes:
            return None
        if path not in self._newly_deleted:
            old_vector, new_vector = self.vector_changes[path]
            old_rows, new_rows = self._rows_of(old_vector), self._rows_of(new_vector)
            restores_rows = not old_rows <= new_rows  # `<=` is the subset relation
            self._newly_deleted[path] = None if restores_rows else new_rows - old_rows
        return self._newly_deleted[path]

    def _rows_of(self, vector: VectorDescriptor) -> Positions:
        """Return the rows that a deletion vector marks as deleted."""
        return Positions() if vector is None else read_vector(self.storage, vector)


def read_concurrent_commit(document: Document, version: int, storage: Storage, partition_columns: tuple[str, ...]) -> ConcurrentCommit:
    """Parse the commit file of a concurrent commit.

    Args:
        document: The commit file.
        version: The version of the commit.
        storage: The storage of the table's folder.
        partition_columns: The physical names of the table's partition columns.

    Raises:
        CorruptLog: An action is invalid.
    """
    actions = non_file_actions(document)
    files = file_actions([document], partition_columns)
    added_paths = absolute_paths(storage.location, files.adds["path"])
    removed_paths = absolute_paths(storage.location, files.removes["path"])
    added_vectors = pa.table({"path": added_paths, "vector": files.adds["deletionVector"]})
    removed_vectors = pa.table({"path": removed_paths, "vector": files.removes["deletionVector"]})
    vector_changes, removed = _vector_changes(added_vectors, removed_vectors), frozenset(removed_paths.to_pylist())
    return ConcurrentCommit(version, actions, files.adds, added_paths, removed, vector_changes=vector_changes, storage=storage)


def operation_of(actions: Sequence[Action]) -> str:
    """Return the name of the operation from a commit's `commitInfo`, for use in errors."""
    return str(commit_info(actions).get("operation", "a commit"))


def _vector_changes(added_vectors: pa.Table, removed_vectors: pa.Table) -> dict[str, tuple[VectorDescriptor, VectorDescriptor]]:
    """Return the old and new deletion vectors, by path, of the files that a commit removes and adds again.

    Each table has the columns `path` and `vector` (the descriptor of the file's deletion vector).
    """
    new_rows = added_vectors.filter(pc.is_in(added_vectors["path"], value_set=removed_vectors["path"].combine_chunks()))
    old_rows = removed_vectors.filter(pc.is_in(removed_vectors["path"], value_set=new_rows["path"].combine_chunks()))
    old_vectors = dict(zip(old_rows["path"].to_pylist(), old_rows["vector"].to_pylist(), strict=True))
    new_vectors = dict(zip(new_rows["path"].to_pylist(), new_rows["vector"].to_pylist(), strict=True))
    return {path: (old_vectors[path], vector) for path, vector in new_vectors.items()}
