"""The commit protocol of both table formats: put a change as the next version, after all concurrent commits without a conflict.

A format implements `CommitSteps` by its specification: the path of the next version, the changes of concurrent commits, the written files.

A successful put is not yet a commit. A slow statement may find the name of its version free, because another process cleaned the log or
created another table in the folder. So every commit verifies after its put that the version continues the table of the plan. Delta lists
the log from the base on (`Commit._confirm_or_delete`), one more request in sequence. An Iceberg table in a folder reads its base again.
Where old metadata is deleted, it also lists the versions (`DirectoryOperations._verify_put`), in parallel with other requests. No reader
uses a rejected version as the current one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, Protocol

from rowmerge.errors import CommitConflict, CommitStateUnknown, NotDurable, RowmergeError, StorageError
from rowmerge.storage.conditional_puts import check_conditional_puts
from rowmerge.storage.store import Put, Storage, get_if_exists, local_path
from rowmerge.table.commits.request import Committed, Conflicted, Outcome, Unknown
from rowmerge.table.snapshots.files import FileChanges

RETRY_WAITS = (0.1, 0.2, 0.4, 0.8)
"""Seconds between the attempts to read a store or a catalog that failed."""


@dataclass(frozen=True)
class Rebased:
    """The result of a rebase without a conflict. `merged_commits`: the concurrent commits that deleted other rows of the same files."""

    merged_commits: int


class CommitSteps(Protocol):
    """The steps of a commit that depend on the table format. Every method raises RowmergeError only if nothing is committed."""

    @property
    def version(self) -> int:
        """The version that the change becomes if its put succeeds."""

    def put(self) -> Put | Unknown | CommitConflict:
        """Put the change as the version after the newest version that was read.

        Returns:
            CREATED if the version continues the table on which the change was planned. EXISTED if another commit has taken the version.
            A conflict if the version does not continue the table, so that no reader applies it.
        """

    def rebase(self) -> Rebased | Literal[Put.CREATED] | Unknown | CommitConflict:
        """Read the concurrent commits since the newest version that was read, and base the change on the last of them.

        Returns:
            Rebased if the change can be put as the next version. CREATED if this change is one of the committed versions, after an earlier
            put without an answer. Or the first conflict with a concurrent commit.
        """

    def discard(self) -> None:
        """Delete every file that was written for the change. It never raises."""

    def discard_superseded(self) -> None:
        """Delete the files of earlier attempts that the committed version does not refer to. It never raises."""


def commit(steps: CommitSteps, storage: Storage, files: FileChanges) -> Outcome:
    """Make the data files of a change durable, and commit the change. Delete its files if it is certainly not committed.

    If the outcome is unknown, every file stays, because a version may refer to it. The removal of orphan files deletes it later.

    Args:
        steps: The steps of the table format.
        storage: The storage of the table's folder, through which the data files become durable.
        files: The data files that the change adds.

    Raises:
        RowmergeError: A step failed, and nothing was committed. After any other exception, the outcome is unknown.
    """
    try:
        storage.sync(file.path for file in files.new_files)
        outcome = _put_next_version(steps)
    except RowmergeError:
        steps.discard()
        raise
    if isinstance(outcome, Committed):
        steps.discard_superseded()
    elif isinstance(outcome, Conflicted):
        steps.discard()
    return outcome


def _put_next_version(steps: CommitSteps) -> Outcome:
    """Put the change as the next version. While another commit has taken that version, rebase the change and put it again."""
    merged_commits = 0
    while True:
        put_result = steps.put()
        # EXISTED: a concurrent commit has taken the version. The rebase compares both, and plans the change for a later version.
        step_result = steps.rebase() if put_result is Put.EXISTED else put_result
        match step_result:
            case Put.CREATED:
                return Committed(steps.version, rebases=merged_commits)
            case CommitConflict():
                return Conflicted(step_result)
            case Unknown():
                return step_result
            case Rebased(newly_merged_commits):
                merged_commits += newly_merged_commits


@dataclass(frozen=True)
class ExistingObject:
    """The object of another writer at the path of a put."""

    data: bytes


@dataclass(frozen=True)
class _UncertainPut:
    """A put after which it is uncertain whether the object exists, so that the put must be repeated."""

    reason: str


_PutResult = Literal[Put.CREATED] | ExistingObject | Unknown


def put_until_certain(storage: Storage, path: str, data: bytes) -> _PutResult:
    """Put an object if it is absent. Repeat the put until it is certain which writer created the object.

    Every conditional put goes through this function. A store or its client may repeat a put, so an object with the content `data` counts
    as created by this put.

    Args:
        storage: The storage of the folder.
        path: The path of the object, relative to the folder.
        data: The content. It must differ from that of every other writer, for example by a UUID.

    Returns:
        CREATED if this writer created the object, or the object of another writer. Unknown if neither is certain after the last attempt.

    Raises:
        ConditionalPutsUnsupported: The store cannot put an object only if it is absent.
        StorageError: The put failed, and the object is certainly absent.
    """
    check_conditional_puts(storage)
    reason = ""
    for wait in (*RETRY_WAITS, 0):
        result = _put_and_read(storage, path, data)
        if not isinstance(result, _UncertainPut):
            return result
        reason = result.reason
        time.sleep(wait)
    return Unknown(reason)


def _put_and_read(storage: Storage, path: str, data: bytes) -> _PutResult | _UncertainPut:
    """Put an object if it is absent. Unless the store confirms the creation, read the object to find out which writer created it."""
    put_error: StorageError | None = None
    try:
        if storage.put_if_absent(path, data) is Put.CREATED:
            return Put.CREATED
    except NotDurable as error:
        return Unknown(_reason(error))
    except StorageError as error:
        put_error = error
    return _identify_writer(storage, path, data, put_error)


def _identify_writer(storage: Storage, path: str, data: bytes, put_error: StorageError | None) -> _PutResult | _UncertainPut:
    """Read the object after an unconfirmed put, and return which writer created it. Raises `put_error` if it is certainly absent.

    The content of each writer is unique, so an object with the content `data` is that of this writer.

    Args:
        storage: The storage of the folder.
        path: The path of the object, relative to the folder.
        data: The content of the put.
        put_error: The error of the put. None if the store answered that an object exists at the path.
    """
    try:
        content = get_if_exists(storage, path)
    except StorageError as read_error:
        return _UncertainPut(_reason(read_error))
    if content is not None:
        return _make_durable(storage, path) if content == data else ExistingObject(content)
    if put_error is None:
        return _UncertainPut(f"the store answers that {storage.location}/{path} exists, but nothing can be read there")
    # A request to an object store may still arrive. A local disk has no pending requests, so there the absence of the file is final.
    if local_path(storage.location) is not None:
        raise put_error
    return _UncertainPut(_reason(put_error))


def _reason(error: StorageError) -> str:
    return error.message.rstrip(".")


def _make_durable(storage: Storage, path: str) -> Literal[Put.CREATED] | Unknown:
    """Make this writer's own object durable after an unconfirmed put. A file server may report an error for a link that it created."""
    try:
        storage.sync([f"{storage.location}/{path}"])
    except StorageError as failure:
        return Unknown(_reason(failure))
    return Put.CREATED


def put_once(storage: Storage, path: str, data: bytes, subject: str) -> bool:
    """Put an object if it is absent, as `put_until_certain` does, and return whether it was absent.

    Args:
        storage: The storage of the folder.
        path: The path of the object, relative to the folder.
        data: The content. An object of another writer with the same content counts as created by this put.
        subject: The description of the object in errors, such as "the schema `sales`".

    Raises:
        CommitStateUnknown: It is not certain whether the object was written.
        ConditionalPutsUnsupported: The store cannot put an object only if it is absent.
        StorageError: The put failed, and the object is certainly absent.
    """
    result = put_until_certain(storage, path, data)
    if isinstance(result, Unknown):
        advice = "Check whether it exists before you run the statement again."
        raise CommitStateUnknown(f"It is not known whether {subject} was written: {result.reason}. {advice}")
    return result is Put.CREATED
