"""SHALLOW CLONE: the files of a version of one table as another table names them, by absolute URIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.paths import absolute_paths, uri_of
from rowmerge.delta.snapshots.deletion_vectors import vector_path
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot

_BATCH = 10_000
Identity = tuple[str, str, int | None]
"""A logical file, wherever the log lies that names it: its absolute path, and where its deletion vector is."""


def cloned_files(source: DeltaSnapshot) -> dict[Identity, dict[str, Any]]:
    """The live files of the source as rows of another table's log: paths are absolute, and rows get ids of their own (Delta's
    CloneTableBase). Raises CorruptLog for a deletion vector that names no file."""
    return {key: _elsewhere(key, row) for key, row in files_by_identity(source.location, source.state.files).items()}


def files_by_identity(location: str, files: LiveFiles) -> dict[Identity, dict[str, Any]]:
    """Rows of `rowmerge.delta.files.columns`, by what file they stand for."""
    rows = (row for table in files.tables() for batch in table.to_batches(max_chunksize=_BATCH) for row in batch.to_pylist())
    paths = absolute_paths(location, files.column("path")).to_pylist()
    return {(path, *_vector(location, row["deletionVector"])): row for path, row in zip(paths, rows, strict=True)}


def _vector(location: str, descriptor: Mapping[str, Any] | None) -> tuple[str, int | None]:
    if descriptor is None:
        return "", None
    inline = descriptor["storageType"] == "i"
    return descriptor["pathOrInlineDv"] if inline else vector_path(location, descriptor), descriptor["offset"]


def _elsewhere(key: Identity, row: Mapping[str, Any]) -> dict[str, Any]:
    path, vector, _ = key
    descriptor = row["deletionVector"]
    if descriptor is not None:
        descriptor = {name: value for name, value in descriptor.items() if value is not None}
        if descriptor["storageType"] != "i":
            descriptor |= {"storageType": "p", "pathOrInlineDv": uri_of(vector)}
    return {**row, "path": uri_of(path), "deletionVector": descriptor, "baseRowId": None, "defaultRowCommitVersion": None}
