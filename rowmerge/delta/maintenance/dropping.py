"""Drop a Delta table: commit a version without files, and delete the older files.

The module `drop_markers` explains why the log remains.
"""

from __future__ import annotations

from dataclasses import replace

from rowmerge.delta.commits.drop import FORMAT, Drop
from rowmerge.delta.log.checkpoints import try_checkpoint
from rowmerge.delta.log.log_files import LAST_CHECKPOINT, LOG, commit_path, list_log, read_documents, version_of_file
from rowmerge.delta.log.ndjson import Document, file_actions, is_drop, non_file_actions
from rowmerge.delta.log.replay import apply_table_actions, empty_state
from rowmerge.delta.maintenance.removed_files import paths_below
from rowmerge.delta.maintenance.vacuum import foreign_folders
from rowmerge.errors import CommitStateUnknown
from rowmerge.storage.deletion import Deletion, PathOrigin, delete_files
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.commit import commit
from rowmerge.table.commits.creation import has_relation_of_other_format
from rowmerge.table.commits.drop_markers import DROP_MARKERS, NAMES, after_drop, versions_of_drop_markers
from rowmerge.table.commits.request import Unknown
from rowmerge.table.snapshots.files import FileChanges


def drop_table(storage: Storage, table: str) -> None:
    """Drop the table in a folder and delete its files, even if its log cannot be read.

    If another client drops the table first and creates a new table in the folder, the new table does not change.

    Args:
        storage: The storage of the table.
        table: The name of the table, for errors.

    Raises:
        StorageError: The table could not be dropped, or it was dropped but its files could not be deleted.
        CommitStateUnknown: The store did not report whether the commit of the drop succeeded.
    """
    outcome = commit(Drop(storage, table), storage, FileChanges())
    if isinstance(outcome, Unknown):
        advice = "If the table still exists, drop it again."
        raise CommitStateUnknown(f"It is unknown whether {table} was dropped: {outcome.reason}. {advice}")
    # From here on, the table is dropped. `after_drop` says so in the message of an error.
    with after_drop(table):
        finish_drop(storage, delete_files)


def finish_drop(storage: Storage, delete: Deletion) -> None:
    """Write the checkpoint of a drop, and delete the remaining files of the dropped table.

    A drop first commits a version without files. The checkpoint of this version makes all older log files unnecessary, so they are deleted
    only after it. If a process ends between these steps, a later call completes them. Does nothing if the newest version of the log did
    not drop the table.

    Args:
        storage: The storage of the table.
        delete: The function that deletes the files, such as `rowmerge.storage.deletion.delete_files`.

    Raises:
        CorruptLog: The commit of the drop is unreadable.
        StorageError: The log cannot be read, or a file cannot be deleted.
    """
    if not versions_of_drop_markers(storage, FORMAT):
        return  # each drop by rowmerge leaves a marker file
    listing = list_log(storage)
    version = listing.newest
    if version is None or version not in listing.commits:
        return  # no commit, or only a checkpoint: a cleanup of the log never deletes the commit of a drop
    drop_commit = read_documents(storage, [commit_path(version)])[0]
    if not is_drop(drop_commit):
        return  # a new table was created in the folder
    has_checkpoint = any(checkpoint.version >= version for checkpoint in listing.checkpoints)
    if has_checkpoint or _try_drop_checkpoint(storage, drop_commit, version):
        _delete_dropped_files(storage, delete, drop_commit, version, dropped_at=listing.commits[version].modified)


def _try_drop_checkpoint(storage: Storage, drop_commit: Document, version: int) -> bool:
    """Write the checkpoint of a drop, and return whether this succeeded. Raises CorruptLog if `drop_commit` is unreadable.

    `version`: the version of `drop_commit`.

    The checkpoint has no tombstones and no transactions, so the next table in the folder does not inherit them.
    """
    state = apply_table_actions(empty_state(), non_file_actions(drop_commit), f"{storage.location}/{LOG}")
    return try_checkpoint(storage, replace(state, version=version))


def _delete_dropped_files(storage: Storage, delete: Deletion, drop_commit: Document, version: int, dropped_at: int) -> None:
    """Delete the data files of a dropped table, and then the log files before the drop.

    `version`: the version of `drop_commit`. `dropped_at`: its time in milliseconds since the epoch. Another client may create a new table
    in the folder meanwhile. Its files are younger than the drop, so they are not deleted.
    """
    removes = file_actions([drop_commit], partition_columns=()).removes
    removed_paths = paths_below(storage.location, removes["path"], removes["deletionVector"])
    files = storage.list()
    data_files = _dropped_data_files(storage, files, removed_paths, dropped_at)
    log_files = [file for file in files if file.path.startswith(f"{LOG}/") and _is_log_file_before(file, version, dropped_at)]
    data_paths = [f"{storage.location}/{file.path}" for file in data_files]
    log_paths = [f"{storage.location}/{file.path}" for file in log_files]
    delete(storage, [data_paths, log_paths], PathOrigin.LISTING)


def _dropped_data_files(storage: Storage, files: list[StoredObject], removed_paths: set[str], dropped_at: int) -> list[StoredObject]:
    """Return the data files that the commit of a drop removes, and those that are older than this commit.

    `removed_paths`: the paths of the removed files. `dropped_at`: the time of the commit in milliseconds since the epoch.
    """
    excluded_folders = (f"{LOG}/", f"{DROP_MARKERS}/", f"{NAMES}/", *foreign_folders(files))
    data_files = [file for file in files if not file.path.startswith(excluded_folders)]
    # With a table of another format in the folder, an older file may belong to that table.
    is_only_table = not has_relation_of_other_format(storage, files, FORMAT)
    return [file for file in data_files if file.path in removed_paths or (is_only_table and file.modified < dropped_at)]


def _is_log_file_before(file: StoredObject, version: int, dropped_at: int) -> bool:
    """Return whether a file of the log is older than the commit of a drop. The hint `_last_checkpoint` never counts as older.

    `version`: the version of the commit. `dropped_at`: its time in milliseconds since the epoch.
    """
    file_version = version_of_file(file.path)
    is_older_file = file.modified < dropped_at and file.path != LAST_CHECKPOINT
    return is_older_file if file_version is None else file_version < version
