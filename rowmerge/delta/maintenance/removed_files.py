"""The files that versions of the log have removed since the last VACUUM, for VACUUM … LITE, which lists no folder."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Sequence

import pyarrow as pa

from rowmerge.delta.files.columns import VECTOR
from rowmerge.delta.log.log_files import LOG, read_commits
from rowmerge.delta.log.ndjson import cdc_actions, file_actions, non_file_actions
from rowmerge.delta.snapshots.deletion_vectors import file_and_vector_paths
from rowmerge.errors import CorruptLog, PlanError
from rowmerge.storage.store import Storage, StoredObject, get_if_exists, local_path

_LAST_VACUUM = f"{LOG}/_last_vacuum_info"
"""The file in which also delta-spark records up to which version VACUUM has deleted removed files."""
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_NO_VECTORS = pa.chunked_array([], VECTOR)
_S3_SCHEME = re.compile(r"^s3[an]?://")


def removed_files(storage: Storage, table: str, partition_columns: Sequence[str], old_versions: Sequence[int]) -> list[StoredObject]:
    """Return the files in the table's folder that old versions have removed, or recorded as change data, since the last VACUUM.

    Args:
        storage: The storage of the table.
        table: The name of the table in messages.
        partition_columns: The partition columns of the table.
        old_versions: The versions in the log before the retention period, in their order.

    Raises:
        PlanError: The log no longer has all versions since the last VACUUM.
        CorruptLog: A version cannot be read.
    """
    first = _first_unvacuumed_version(storage)
    versions = [version for version in old_versions if version >= first]
    if versions and versions != list(range(first, versions[-1] + 1)):
        problem = f"VACUUM {table} LITE cannot delete all files, because the log no longer has the version {first}"
        raise PlanError(f"{problem}. Run VACUUM {table} FULL, which lists the folder.")
    paths: set[str] = set()
    for _, commit in read_commits(storage, versions):
        non_file_actions(commit)  # raises CorruptLog for lines that `file_actions` does not check
        removes = file_actions([commit], tuple(partition_columns)).removes
        paths |= _decoded_paths_below(storage.location, removes["path"], removes["deletionVector"])
        change_files = [action["cdc"]["path"] for action in cdc_actions(commit)]
        paths |= _decoded_paths_below(storage.location, pa.chunked_array([change_files], pa.string()), _NO_VECTORS)
    return [StoredObject(path, size=0, modified=0) for path in sorted(paths)]


def _first_unvacuumed_version(storage: Storage) -> int:
    """Return the version after the one that the last VACUUM recorded, or 0. Raises CorruptLog for a malformed record."""
    data = get_if_exists(storage, _LAST_VACUUM)
    if data is None:
        return 0
    try:
        version = json.loads(data).get(_VERSION)
        return 0 if version is None else int(version) + 1
    except (ValueError, AttributeError, TypeError) as error:
        raise CorruptLog(f"{storage.location}/{_LAST_VACUUM}", "it is not a record of a VACUUM") from error


def put_last_vacuum(storage: Storage, version: int) -> None:
    """Record that VACUUM has deleted the files that versions up to this one have removed. Raises StorageError."""
    storage.put(_LAST_VACUUM, json.dumps({_VERSION: version}).encode())


def paths_below(location: str, paths: pa.ChunkedArray, vector_descriptors: pa.ChunkedArray) -> set[str]:
    """Return the relative paths of the files and deletion vectors that are in the table's folder.

    VACUUM and the removal of dropped tables look up in the result the files that they list in the folder. A percent sign in a path of the
    log may begin an escape. But some writers do not escape paths. So for the path `day=a%20b/1.parquet`, the result contains both
    `day=a b/1.parquet` and `day=a%20b/1.parquet`. A path that no listed file has does no harm.

    Args:
        location: The location of the table.
        paths: The paths in file actions of the log.
        vector_descriptors: The descriptors of deletion vectors in the same actions. They determine the paths of the vectors' files.

    Returns:
        The relative paths of files and vectors, with percent-decoding, and all of `paths` as they are in the log.
    """
    return _decoded_paths_below(location, paths, vector_descriptors) | set(paths.to_pylist())


def _decoded_paths_below(location: str, paths: pa.ChunkedArray, vector_descriptors: pa.ChunkedArray) -> set[str]:
    """Return the percent-decoded relative paths of the files and deletion vectors in the table's folder, as `paths_below` does."""
    relative_paths = {_relative_path(location, path) for path in file_and_vector_paths(location, paths, vector_descriptors)}
    return {path for path in relative_paths if path is not None}  # None is a file outside the folder


def _relative_path(location: str, path: str) -> str | None:
    """Return a path relative to the table, or None for a file outside the table's folder, such as a file of a shallow clone's source."""
    # Hadoop's schemes s3a:// and s3n:// refer to the same bucket as s3://.
    location, path = (_S3_SCHEME.sub("s3://", uri) for uri in (location, path))
    if path.startswith(f"{location}/"):
        return posixpath.normpath(path[len(location) + 1 :])
    root, file = local_path(location), local_path(path)
    if root is None or file is None:
        return None
    relative_path = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
    return None if relative_path.startswith("..") else relative_path
