"""The commit protocol of both table formats: put a change as the next version, after all concurrent commits that do not conflict.

A format implements `CommitSteps` according to its specification.

A successful put is not yet a commit. The version of a slow statement may seem unused, because another process cleaned the log or created
another table in the folder. So every commit verifies after its put that the version continues the table for which it was planned. Delta
lists the log from the base version on (`Commit._confirm_or_delete`), which takes one more sequential request. Iceberg in a folder reads the
base version again. If old metadata is deleted, Iceberg also lists the versions (`DirectoryOperations._verify_put`), in parallel with other
requests. No reader uses a rejected version as the current one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from rowmerge.errors import CommitConflict, CommitStateUnknown, NotDurable, RowmergeError, StorageError
from rowmerge.storage.conditional_puts import check_conditional_puts
from rowmerge.storage.store import Put, Storage, get_if_exists, local_path
from rowmerge.table.commits.request import Committed, Conflicted, Outcome, Unknown
from rowmerge.table.snapshots.files import FileChanges

RETRY_WAITS = (0.1, 0.2, 0.4, 0.8)
"""The times in seconds to wait between attempts after a store or a catalog failed."""


@dataclass(frozen=True)
class Rebased:
    """The result of a rebase without a conflict. `merged_commits`: how many concurrent commits deleted other rows of the same files."""

    merged_commits: int


class CommitSteps(Protocol):
    """The format-specific steps of a commit. The methods raise RowmergeError only if nothing was committed."""

    @property
    def version(self) -> int:
        """The version that the next put will create."""

    def put(self) -> Put | Unknown | CommitConflict:
        """Put the change as the version after the newest version that has been read.

        Returns:
            CREATED if the version continues the table for which the change was planned. EXISTED if another commit has this version.
            A conflict if the version does not continue the table, so that no reader applies it. Unknown if the result is uncertain.
        """

    def rebase(self) -> Rebased | Literal[Put.CREATED] | Unknown | CommitConflict:
        """Read the concurrent commits after the newest version that has been read, and base the change on the last of these commits.

        Returns:
            Rebased if the change can be put as the next version. CREATED if an earlier put without an answer has committed this change.
            The first conflict if the change conflicts with a concurrent commit. Unknown if the result is uncertain.
        """

    def discard(self) -> None:
        """Delete every file that was written for the change. This method never raises."""

    def discard_superseded(self) -> None:
        """Delete the files of earlier attempts to which the committed version does not refer. This method never raises."""


def commit(steps: CommitSteps, storage: Storage, files: FileChanges) -> Outcome:
    """Make the data files of a change durable, and commit the change. Delete the files if the change is certainly not committed.

    Each attempt of a commit may write files, such as manifests. After the commit, the files of failed attempts are deleted. If the outcome
    is unknown, no file is deleted, because a version may refer to it. VACUUM deletes the files to which no version refers.

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
    """Put the change as the next version. As long as another commit has this version, rebase the change and put it again."""
    merged_commits = 0
    while True:
        result: Put | Rebased | Unknown | CommitConflict = steps.put()
        if result is Put.EXISTED:  # A concurrent commit has this version.
            result = steps.rebase()
        if isinstance(result, Rebased):  # The change does not conflict with that commit, and is now based on it.
            merged_commits += result.merged_commits
            continue
        if isinstance(result, CommitConflict):
            return Conflicted(result)
        if isinstance(result, Unknown):
            return result
        return Committed(steps.version, rebases=merged_commits)


@dataclass(frozen=True)
class ExistingObject:
    """An object that another writer created at the path of a put. `data` is its content."""

    data: bytes


@dataclass(frozen=True)
class _UncertainPut:
    """The result of a put after which it is uncertain whether the object exists, so that the put must be repeated."""

    reason: str


_PutResult = Literal[Put.CREATED] | ExistingObject | Unknown


def put_until_certain(storage: Storage, path: str, data: bytes, waits: Sequence[float] | None = None) -> _PutResult:
    """Put an object if it is absent. Repeat the put until it is certain which writer created the object.

    Every conditional put uses this function. A store or its client may repeat a put, so an object with the content `data` counts as created
    by this put.

    Args:
        storage: The storage of the folder.
        path: The path of the object, relative to the folder.
        data: The content. It must be unique to this writer, for example because it contains a UUID.
        waits: The times in seconds to wait before each repetition, or None for RETRY_WAITS.

    Returns:
        CREATED if this writer created the object. The existing object if another writer created it. Unknown if the last attempt was
        inconclusive.

    Raises:
        ConditionalPutsUnsupported: The store cannot put an object only if it is absent.
        StorageError: The put failed, and the object is certainly absent.
    """
    check_conditional_puts(storage)
    reason = ""
    for wait in (*(RETRY_WAITS if waits is None else waits), 0):
        result = _put_and_read(storage, path, data)
        if not isinstance(result, _UncertainPut):
            return result
        reason = result.reason
        time.sleep(wait)
    return Unknown(reason)


def _put_and_read(storage: Storage, path: str, data: bytes) -> _PutResult | _UncertainPut:
    """Put an object if it is absent. If the store does not confirm the creation, read the object to identify the writer."""
    put_error: StorageError | None = None
    try:
        if storage.put_if_absent(path, data) is Put.CREATED:
            return Put.CREATED
    except NotDurable as error:
        return Unknown(_reason(error))
    except StorageError as error:
        put_error = error
    return _resolve_unconfirmed_put(storage, path, data, put_error)


def _resolve_unconfirmed_put(storage: Storage, path: str, data: bytes, put_error: StorageError | None) -> _PutResult | _UncertainPut:
    """Read the object after an unconfirmed put, and return which writer created it. Raises `put_error` if the object is certainly absent.

    The content of each writer is unique. So an object with the content `data` proves that this put, or an earlier attempt, succeeded.

    Args:
        storage: The storage of the folder.
        path: The path of the object, relative to the folder.
        data: The content of the put.
        put_error: The error of the put, or None if the store reported that an object exists at the path.
    """
    try:
        content = get_if_exists(storage, path)
    except StorageError as read_error:
        return _UncertainPut(_reason(read_error))
    if content == data:
        return _make_durable(storage, path)
    if content is not None:
        return ExistingObject(content)
    if put_error is None:
        return _UncertainPut(f"the store reports that {storage.location}/{path} exists, but it cannot be read")
    # After an error, a delayed request may still create the object in an object store. A local disk has no delayed requests.
    if local_path(storage.location) is not None:
        raise put_error
    return _UncertainPut(_reason(put_error))


def _reason(error: StorageError) -> str:
    return error.message.rstrip(".")


def _make_durable(storage: Storage, path: str) -> Literal[Put.CREATED] | Unknown:
    """Make this writer's object durable after an unconfirmed put. A file server may report an error although it created the link."""
    try:
        storage.sync([f"{storage.location}/{path}"])
    except StorageError as failure:
        return Unknown(_reason(failure))
    return Put.CREATED


def put_once(storage: Storage, path: str, data: bytes, subject: str) -> bool:
    """Put an object if it is absent, as `put_until_certain` does. Return whether this put created it.

    Args:
        storage: The storage of the folder.
        path: The path of the object, relative to the folder.
        data: The content, which should be unique to this writer. An existing object with this content counts as created by this put.
        subject: The description of the object in errors, such as "the schema `sales`".

    Raises:
        CommitStateUnknown: It is uncertain whether the object was written.
        ConditionalPutsUnsupported: The store cannot put an object only if it is absent.
        StorageError: The put failed, and the object is certainly absent.
    """
    result = put_until_certain(storage, path, data)
    if isinstance(result, Unknown):
        advice = "Check whether it exists before you run the statement again."
        raise CommitStateUnknown(f"It is not known whether {subject} was written: {result.reason}. {advice}")
    return result is Put.CREATED
