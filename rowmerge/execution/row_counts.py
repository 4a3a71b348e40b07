"""The numbers of rows and files that a command changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RowCounts:
    """The numbers of rows and files that one command changed.

    `files_marked`: the number of files with new deletion vectors or delete files. `bytes_added`: the total size of all new data files.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files_added: int = 0
    files_removed: int = 0
    files_marked: int = 0
    bytes_added: int = 0

    @property
    def affected(self) -> int:
        """The total number of inserted, updated and deleted rows."""
        return self.inserted + self.updated + self.deleted
