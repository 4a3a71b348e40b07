"""Convert the files of a version to rows of a SHALLOW CLONE, which references them by absolute URIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.paths import absolute_paths, uri_of
from rowmerge.delta.snapshots.deletion_vectors import vector_path
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot

_BATCH = 10_000
FileIdentity = tuple[str, str, int | None]
"""A logical file in any table's log: its absolute path, and the file and offset of its deletion vector."""


def cloned_files(source: DeltaSnapshot) -> dict[FileIdentity, dict[str, Any]]:
    """Return the source's files as rows for another table's log, without row ids (Delta's CloneTableBase). Raises CorruptLog."""
    rows = files_by_identity(source.shape.location, source.state.files)
    return {identity: _with_uris(identity, row) for identity, row in rows.items()}


def files_by_identity(location: str, files: LiveFiles) -> dict[FileIdentity, dict[str, Any]]:
    """Return the rows of `rowmerge.delta.files.columns` by the logical file that they describe. Raises CorruptLog."""
    rows = (row for table in files.tables() for batch in table.to_batches(max_chunksize=_BATCH) for row in batch.to_pylist())
    paths = absolute_paths(location, files.column("path")).to_pylist()
    return {(path, *_vector_identity(location, row["deletionVector"])): row for path, row in zip(paths, rows, strict=True)}


def _vector_identity(location: str, descriptor: Mapping[str, Any] | None) -> tuple[str, int | None]:
    if descriptor is None:
        return "", None
    is_inline = descriptor["storageType"] == "i"
    return descriptor["pathOrInlineDv"] if is_inline else vector_path(location, descriptor), descriptor["offset"]


def _with_uris(identity: FileIdentity, row: Mapping[str, Any]) -> dict[str, Any]:
    path, vector_file, _ = identity
    descriptor = row["deletionVector"]
    if descriptor is not None:
        descriptor = {name: value for name, value in descriptor.items() if value is not None}
        if descriptor["storageType"] != "i":
            descriptor |= {"storageType": "p", "pathOrInlineDv": uri_of(vector_file)}
    return {**row, "path": uri_of(path), "deletionVector": descriptor, "baseRowId": None, "defaultRowCommitVersion": None}
