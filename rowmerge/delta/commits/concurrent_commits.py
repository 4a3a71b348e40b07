"""A commit that took a version before us: what it did to the table, down to the rows that it deleted in files that stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.log.ndjson import Document, commit_info, file_actions, other_actions
from rowmerge.delta.snapshots.deletion_vectors import read_vector
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions

Vector = Mapping[str, Any] | None
"""The descriptor of a file's deletion vector; None for a file without one."""


@dataclass(frozen=True)
class Winner:
    """Paths are absolute and plain; `added` and `removed` are rows of `rowmerge.delta.files.columns`.

    `kept` are the files that were removed and added again, with their vectors before and after.
    """

    version: int
    info: Mapping[str, Any]
    protocol: bool
    metadata: bool
    domains: frozenset[str]
    applications: frozenset[str]
    added: pa.Table
    added_paths: pa.ChunkedArray
    removed_paths: frozenset[str]
    kept: Mapping[str, tuple[Vector, Vector]]
    storage: Storage
    _deleted: dict[str, Positions | None] = field(default_factory=dict)

    @property
    def operation(self) -> str:
        return str(self.info.get("operation", "a commit"))

    @property
    def blind_append(self) -> bool:
        """Whether it only added files, without looking at the table."""
        return bool(self.info.get("isBlindAppend")) and not self.removed_paths

    def added_again(self, paths: Collection[str]) -> list[str]:
        """Those of these paths of live files that it added: files with another deletion vector now, or other statistics."""
        known: list[str] = self.added_paths.filter(pc.is_in(self.added_paths, value_set=pa.array(sorted(paths), pa.string()))).to_pylist()
        return known

    def newly_deleted(self, path: str) -> Positions | None:
        """The rows that it deleted in a file that it removed and added again; None when the file did not stay, or rows came back to it.

        Raises CorruptLog, StorageError.
        """
        if path not in self._deleted:
            self._deleted[path] = self._difference(path)
        return self._deleted[path]

    def _difference(self, path: str) -> Positions | None:
        if path not in self.kept:
            return None
        before, after = (Positions() if vector is None else read_vector(self.storage, vector) for vector in self.kept[path])
        return after - before if before <= after else None


def winner_of(document: Document, version: int, storage: Storage, partition_columns: tuple[str, ...]) -> Winner:
    """What a commit did. Raises CorruptLog."""
    actions = other_actions(document)
    files = file_actions([document], partition_columns)
    added, removed = (absolute_paths(storage.location, part["path"]) for part in (files.adds, files.removes))
    return Winner(
        version=version,
        info=commit_info(actions),
        protocol=any("protocol" in action for action in actions),
        metadata=any("metaData" in action for action in actions),
        domains=frozenset(action["domainMetadata"]["domain"] for action in actions if "domainMetadata" in action),
        applications=frozenset(action["txn"]["appId"] for action in actions if "txn" in action),
        added=files.adds,
        added_paths=added,
        removed_paths=frozenset(removed.to_pylist()),
        kept=_kept(_vectors(added, files.adds), _vectors(removed, files.removes)),
        storage=storage,
    )


def _vectors(paths: pa.ChunkedArray, rows: pa.Table) -> pa.Table:
    return pa.table({"path": paths, "vector": rows["deletionVector"]})


def _kept(added: pa.Table, removed: pa.Table) -> dict[str, tuple[Vector, Vector]]:
    again = added.filter(pc.is_in(added["path"], value_set=removed["path"].combine_chunks()))
    before = removed.filter(pc.is_in(removed["path"], value_set=again["path"].combine_chunks()))
    old = dict(zip(before["path"].to_pylist(), before["vector"].to_pylist(), strict=True))
    return {path: (old[path], vector) for path, vector in zip(again["path"].to_pylist(), again["vector"].to_pylist(), strict=True)}
