"""Checks of a store: list, write, read and delete a scratch file, conditional puts, and the clock of the store.

Scratch files are in one folder, so that the next check finds the files of a killed one, and deletes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

from rowmerge.errors import RowmergeError, StorageError
from rowmerge.storage.conditional_puts import probe_conditional_puts
from rowmerge.storage.configuration import FilesystemOptions
from rowmerge.storage.store import Storage, StoredObject, local_path

SCRATCH_FOLDER = ".rowmerge-debug"
"""The folder of scratch files in a warehouse. It is not the folder of any schema, because names of folders contain no dots."""
ABANDONED_SECONDS = 600
"""The age at which the scratch file of another check belongs to a killed process."""
WARNING_SECONDS, ERROR_SECONDS = 5, 900
"""The deviations of the local clock from the store's clock. S3 and Azure reject requests with a deviation of 15 minutes."""


@dataclass(frozen=True)
class EnvironmentCheck:
    """The result of one check of the environment.

    `name` is the subject of the check, such as `catalog`. `detail` is what was checked, or the cause and the remedy of an error.
    """

    name: str
    status: Literal["OK", "WARNING", "ERROR", "SKIPPED"]
    detail: str


def attempt(name: str, check: Callable[[], str]) -> EnvironmentCheck:
    """Run a check, and return its result. An error of rowmerge becomes the result.

    Args:
        name: The subject of the check.
        check: A function that returns what was checked.
    """
    try:
        return EnvironmentCheck(name, "OK", check())
    except RowmergeError as error:
        return EnvironmentCheck(name, "ERROR", error.message)


class ScratchFile:
    """A scratch file in a warehouse, and the checks of the store that write it, read it and delete it."""

    def __init__(self, warehouse: Storage) -> None:
        """Choose the name of a scratch file. No request is sent."""
        self._warehouse, self._folder = warehouse, warehouse.child(SCRATCH_FOLDER)
        self._name, self.content = str(uuid4()), uuid4().hex.encode()
        self._missing_folders = _missing_folders(warehouse)
        self.path = f"{self._folder.location}/{self._name}"
        self.is_written = self._is_deleted = False

    @property
    def filesystem_options(self) -> FilesystemOptions:
        """The arguments of Arrow's file systems that open the file."""
        return self._warehouse.filesystem_options

    def checks(self, *, with_conditional_puts: bool) -> Iterator[EnvironmentCheck]:
        """Check the store, except the deletion. The file exists afterwards, unless it cannot be written.

        `with_conditional_puts`: whether commits need conditional puts. In a catalog, they do not.
        """
        yield attempt("store list", self._list)
        written_after = time.time()
        write = attempt("store write", self._write)
        yield write
        if not self.is_written:
            return
        written_before = time.time()
        yield attempt("store read", self._read)
        if with_conditional_puts:
            yield attempt("conditional puts", self._put_conditionally)
        yield self._clock(written_after, written_before)

    def deletion(self) -> EnvironmentCheck:
        """Delete the file, the abandoned files of killed checks, and the folders that did not exist before."""
        return attempt("store delete", self._delete)

    def discard(self) -> None:
        """Delete the file, unless it is deleted. Ignore errors, which `deletion` reports."""
        if not self._is_deleted:
            with suppress(RowmergeError):
                self._delete()

    def _list(self) -> str:
        path = local_path(self._warehouse.location)
        if path is not None and path.exists() and not path.is_dir():
            raise StorageError(self._warehouse.location, "it is a file", "Set the warehouse to a folder.")
        self._warehouse.folders()
        self._folder.list()
        # The address of a local folder would create the folder.
        return self._warehouse.address if self._warehouse.is_remote else self._warehouse.location

    def _write(self) -> str:
        try:
            self._folder.put(self._name, self.content)
        except StorageError as error:
            advice = "The warehouse must be a writable folder: check the path, its permissions and storage_options."
            raise StorageError(error.path, error.reason, advice) from error
        self.is_written = True
        return f"{SCRATCH_FOLDER}/{self._name}"

    def _read(self) -> str:
        advice = "The store must return an object as soon as it is written. Use another store, or disable the cache in front of it."
        try:
            content = self._folder.get(self._name)
        except FileNotFoundError:
            raise StorageError(self.path, "the file was written, but it does not exist", advice) from None
        if content != self.content:
            raise StorageError(self.path, "the file was written, but has another content", advice)
        return "the content is the one that was written"

    def _put_conditionally(self) -> str:
        probe_conditional_puts(self._folder)
        return "the second put of a name is rejected"

    def _clock(self, written_after: float, written_before: float) -> EnvironmentCheck:
        """Compare the modification time of the file with the local times before and after its write, in seconds."""
        try:
            modified = [file.modified / 1000 for file in self._folder.list() if file.path == self._name]
        except StorageError:
            modified = []  # the check of the listing reports the error
        if not modified:
            return EnvironmentCheck("clock", "SKIPPED", "The store does not list the file, so its time is unknown.")
        # S3 counts in whole seconds, and rounds down.
        deviation = max(written_after - 1 - modified[0], modified[0] - written_before, 0)
        return clock_check(deviation)

    def _delete(self) -> str:
        abandoned = []
        with suppress(StorageError):  # the check of the listing reports the error
            abandoned = _abandoned_names(self._folder.list(), self._name)
        self._folder.delete([self._name, *abandoned])
        self._is_deleted = True
        self._folder.remove_folders()
        for folder in self._missing_folders:
            with suppress(OSError):  # the folder does not exist, or another process has put files into it
                folder.rmdir()
        return f"the scratch file, and {len(abandoned)} of killed checks" if abandoned else "the scratch file"


def _abandoned_names(files: Sequence[StoredObject], own_name: str) -> list[str]:
    """Return the scratch files that are much older than the own one, by the store's clock. None are, if the own one does not exist."""
    newest = max((file.modified for file in files if file.path == own_name), default=0)
    return [file.path for file in files if file.modified < newest - ABANDONED_SECONDS * 1000]


def clock_check(deviation: float) -> EnvironmentCheck:
    """Return the result of a comparison of the local clock with the store's clock, by the deviation in seconds."""
    if deviation <= WARNING_SECONDS:
        return EnvironmentCheck("clock", "OK", f"it deviates from the store's clock by less than {WARNING_SECONDS} seconds")
    effect = "Retention periods and time travel by timestamp use both clocks"
    detail = f"The clock deviates from the store's clock by {deviation:.0f} seconds. {effect}. Synchronize this machine with NTP."
    return EnvironmentCheck("clock", "ERROR" if deviation > ERROR_SECONDS else "WARNING", detail)


def _missing_folders(storage: Storage) -> list[Path]:
    """Return the folders of a storage on a disk that do not exist, the innermost one first."""
    path = local_path(storage.location)
    return [] if path is None else [folder for folder in (path, *path.parents) if not folder.exists()]
