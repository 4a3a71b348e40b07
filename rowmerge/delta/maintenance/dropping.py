"""Drop a Delta table: commit a version without files, and delete older files. `drop_markers` explains why the log stays."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.delta.commits.drop import FORMAT, Drop
from rowmerge.delta.log.checkpoints import try_checkpoint
from rowmerge.delta.log.log_files import LAST_CHECKPOINT, LOG, LogListing, commit_path, list_log, read_documents, version_of_file
from rowmerge.delta.log.ndjson import Document, file_actions, is_drop, non_file_actions
from rowmerge.delta.log.replay import apply_table_actions, empty_state
from rowmerge.delta.maintenance.vacuum import foreign_folders, paths_below
from rowmerge.errors import CommitStateUnknown
from rowmerge.storage.deletion import Deletion, PathOrigin, delete_files
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.commit import commit
from rowmerge.table.commits.creation import has_other_table
from rowmerge.table.commits.drop_markers import MARKERS, after_drop, marked_versions
from rowmerge.table.commits.request import Unknown
from rowmerge.table.snapshots.files import FileChanges


def drop_table(storage: Storage, table: str) -> None:
    """Drop the table of a folder, even if its log cannot be read, and delete its files.

    If others drop the table first, it does nothing to a table that they create in its place.
    Raises StorageError if the table is certainly still there, or was dropped and its files cannot be deleted. Raises CommitStateUnknown.
    """
    outcome = commit(Drop(storage, table), storage, FileChanges())
    if isinstance(outcome, Unknown):
        advice = "Look whether it exists, and drop it again."
        raise CommitStateUnknown(f"It is not known whether {table} was dropped: {outcome.reason}. {advice}")
    with after_drop(table):
        finish_drop(storage, delete_files)


def finish_drop(storage: Storage, delete: Deletion) -> None:
    """If the newest version is that of a drop, write its checkpoint and delete what the dropped table left in the folder.

    Raises CorruptLog, StorageError.
    """
    if not marked_versions(storage, FORMAT):
        return
    listing = list_log(storage)
    version = listing.newest
    if version is None or version not in listing.commits:
        return
    document = read_documents(storage, [commit_path(version)])[0]
    if not is_drop(document) or not _ensure_checkpoint(storage, listing, document, version):
        return
    # Others may create a table meanwhile. Its files stay: they are younger than the commit of the drop, as `Table.create` verifies.
    delete(storage, _paths_before_drop(storage, document, version, listing.commits[version].modified), PathOrigin.LISTING)


def _ensure_checkpoint(storage: Storage, listing: LogListing, document: Document, version: int) -> bool:
    """Write the checkpoint of a drop unless the log has it. Return whether the log has it then."""
    if any(checkpoint.version >= version for checkpoint in listing.checkpoints):
        return True
    # The checkpoint has no tombstones and no transactions, so no state of the dropped table is part of the next one.
    state = apply_table_actions(empty_state(), non_file_actions(document), f"{storage.location}/{LOG}")
    return try_checkpoint(storage, replace(state, version=version))


def _paths_before_drop(storage: Storage, document: Document, version: int, dropped_at: int) -> list[list[str]]:
    """Return the files of the folder that are older than the drop or that its commit removes, and the log before the drop."""
    removes = file_actions([document], ()).removes
    removed_paths = paths_below(storage.location, removes["path"], removes["deletionVector"])
    objects = storage.list()
    excluded_folders = (f"{LOG}/", f"{MARKERS}/", *foreign_folders(objects))
    table_files = [file for file in objects if not file.path.startswith(excluded_folders)]
    # The files of a table of another format may be older than the drop. Then only the removed files are the dropped table's.
    cut_off = 0 if has_other_table(storage, objects, FORMAT) else dropped_at
    old_files = [file for file in table_files if file.modified < cut_off or file.path in removed_paths]
    old_log = [file for file in objects if file.path.startswith(f"{LOG}/") and _is_log_before_drop(file, version, dropped_at)]
    return [[f"{storage.location}/{file.path}" for file in files] for files in (old_files, old_log)]


def _is_log_before_drop(file: StoredObject, version: int, dropped_at: int) -> bool:
    file_version = version_of_file(file.path)
    is_older_file = file.modified < dropped_at and file.path != LAST_CHECKPOINT
    return is_older_file if file_version is None else file_version < version
