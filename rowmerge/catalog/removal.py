"""Drop a managed table so that a kill in the middle leaves the table, or no table, and never half of one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rowmerge.concurrency import run_concurrently
from rowmerge.delta.commits.drop import Drop as DeltaDrop
from rowmerge.delta.maintenance import dropping as delta
from rowmerge.errors import CommitStateUnknown
from rowmerge.iceberg.catalogs.operations import DROPPED, DirectoryOperations
from rowmerge.iceberg.commits.drop import Drop as IcebergDrop
from rowmerge.iceberg.maintenance import dropping as iceberg
from rowmerge.storage.deletion import Deletion, Origin, delete_files
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.commit import CommitSteps
from rowmerge.table.commits.request import Unknown

LOG, METADATA = "_delta_log", "metadata"
"""The folders in which a Delta table has its log, and an Iceberg table or a view its metadata.

rowmerge 0.1.0 puts DROPPED in one of them to drop the table. From then on the table does not exist."""


def is_dropped(folder: Storage) -> bool:
    """Return whether rowmerge 0.1.0 began to delete a table here, and has not finished."""
    return any(run_concurrently([partial(folder.exists, f"{log}/{DROPPED}") for log in (LOG, METADATA)]))


def drop_table(folder: Storage, table: str, format_: str) -> None:
    """Drop the table of a format (`delta`, `iceberg`) in a folder. Raises StorageError, CommitStateUnknown."""
    (delta if format_ == "delta" else iceberg).drop_table(folder, table)


def finish_drops(folder: Storage, table: str, delete: Deletion = delete_files) -> None:
    """Delete what dropped tables and views left in a folder, because a process was killed or could not delete it. Raises StorageError.

    A deletion that rowmerge 0.1.0 began becomes a drop of this release. The process of 0.1.0 may still delete the files that it listed, by
    their names. A table that is created after the version of the drop continues the version numbers, so it has none of these names.
    """
    _replace_old_marker(folder, table, f"{LOG}/{DROPPED}", partial(DeltaDrop, folder, table))
    _replace_old_marker(folder, table, f"{METADATA}/{DROPPED}", partial(IcebergDrop, DirectoryOperations(folder, table), table))
    delta.finish_drop(folder, delete)
    iceberg.finish_drop(folder, table, delete)


def _replace_old_marker(folder: Storage, table: str, marker: str, read_drop: Callable[[], CommitSteps]) -> None:
    """Put the version of a drop, and delete the marker of 0.1.0, until there is no marker. `read_drop` reads the table that it drops."""
    while (content := folder.get_if_exists(marker)) is not None:
        drop = read_drop()
        # Others create a table only after the marker is gone. So if it is still there, the table that was read is the dropped one.
        if folder.get_if_exists(marker) != content:
            continue
        put = drop.put()
        if isinstance(put, Unknown):
            raise CommitStateUnknown(f"It is not known whether {table} was dropped: {put.reason}. Run the statement again.")
        if put is not Put.EXISTED and folder.get_if_exists(marker) == content:
            delete_files(folder, [[f"{folder.location}/{marker}"]], Origin.LISTED)
