"""The commit protocol of both table formats: put a change as the next version, after the commits of others that do not conflict with it.

A format implements `CommitSteps` by its specification: the path of the next version, the changes of concurrent commits, the written files.

A successful put is not yet a commit. A slow statement may find the name of its version free, because another process cleaned the log or
created another table in the folder. So every commit verifies after its put that the version continues the table of the plan. Delta lists
the log from the base on (`Commit._verify_continuation`), one more request in sequence. An Iceberg table in a folder reads its base again and, where
old metadata is deleted, lists the versions (`DirectoryOperations._verify_put`), beside other requests. No reader takes a rejected version
for the current one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, Protocol

from rowmerge.errors import CommitConflict, CommitStateUnknown, NotDurable, RowmergeError, StorageError
from rowmerge.storage.conditional_puts import check_conditional_puts
from rowmerge.storage.store import Put, Storage, local_path
from rowmerge.table.commits.request import Committed, Conflicted, Outcome, Unknown
from rowmerge.table.snapshots.files import FileChanges

WAITS = (0.1, 0.2, 0.4, 0.8)
"""Seconds between the attempts to read a store or a catalog that failed."""


class CommitSteps(Protocol):
    """What a format does in each step of a commit. Every method raises RowmergeError only while the change is certainly not committed."""

    @property
    def version(self) -> int:
        """The version that the change becomes if its put succeeds."""

    def put(self) -> Put | Unknown | CommitConflict:
        """Put the change as the version after the newest version that was read.

        CREATED means that the version continues the table that the change was planned on. A conflict means that the version does not, and
        that no reader applies it.
        """

    def rebase(self) -> int | Unknown | CommitConflict | None:
        """Read the commits of others since the newest version that was read, and prepare the change to follow them.

        Return the number of commits whose deletions in files of this change are now part of it. Return None if this change is already
        committed, or the conflict with the first commit that this change cannot follow.
        """

    def discard(self) -> None:
        """Delete every file that was written for the change. It never raises."""

    def discard_superseded(self) -> None:
        """Delete the files of earlier attempts that the committed version does not refer to. It never raises."""


def commit(steps: CommitSteps, storage: Storage, files: FileChanges) -> Outcome:
    """Make the data files of a change durable, and commit the change. Delete its files if it is certainly not committed.

    If the outcome is unknown, every file stays, because a version may refer to it. The removal of orphan files deletes it later.
    Raises the RowmergeError of a step, after which nothing was committed. After any other exception the outcome is unknown.
    """
    try:
        storage.sync(file.path for file in files.written)
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
    """Put the change as the next version, after the commits of others that take a version first, until the outcome is decided."""
    rebases = 0
    while True:
        put = steps.put()
        result = steps.rebase() if put is Put.EXISTED else put
        match result:
            case Put.CREATED | None:
                return Committed(steps.version, rebases)
            case Unknown():
                return result
            case CommitConflict():
                return Conflicted(result)
            case int():
                rebases += result


@dataclass(frozen=True)
class ExistingObject:
    """The content that another writer has put at the path."""

    data: bytes


def put_until_certain(storage: Storage, path: str, data: bytes) -> Literal[Put.CREATED] | ExistingObject | Unknown:
    """Put an object if it is absent. Repeat this until it is certain who put the object. Every conditional put goes through here.

    The content must identify its writer: equal bytes are this writer's own, because a store or its client may repeat a put.
    Raises ConditionalPutsUnsupported, and StorageError if the object is certainly absent.
    """
    check_conditional_puts(storage)
    reason = ""
    for wait in (*WAITS, 0):
        result = _put_and_read(storage, path, data)
        if not isinstance(result, str):
            return result
        reason = result
        time.sleep(wait)
    return Unknown(reason)


_PutResult = Literal[Put.CREATED] | ExistingObject | Unknown | str
"""Whose object is at a path after a put. A text says why that is uncertain, so that the put must be repeated."""


def _put_and_read(storage: Storage, path: str, data: bytes) -> _PutResult:
    """Put an object if it is absent. Unless the store answers that it created the object, read it to decide whose it is."""
    try:
        if storage.put_if_absent(path, data) is Put.CREATED:
            return Put.CREATED
    except NotDurable as not_durable:
        return Unknown(_reason(not_durable))
    except StorageError as failure:
        return _read_owner(storage, path, data, failure)
    return _read_owner(storage, path, data, None)


def _read_owner(storage: Storage, path: str, data: bytes, put_failure: StorageError | None) -> _PutResult:
    """Read the object after a put that failed, or whose answer was that it exists (None). That answer counts only if it can be read."""
    try:
        existing = storage.get(path)
    except StorageError as error:
        return _reason(error)
    except FileNotFoundError:
        if put_failure is None:
            return f"the store answers that {storage.location}/{path} exists, but nothing can be read there"
        # A request to an object store may still arrive. A local disk has no pending requests, so there the file's absence is final.
        if local_path(storage.location) is not None:
            raise put_failure from None
        return _reason(put_failure)
    return _confirm(storage, path) if existing == data else ExistingObject(existing)


def _reason(error: StorageError) -> str:
    return error.message.rstrip(".")


def _confirm(storage: Storage, path: str) -> Literal[Put.CREATED] | Unknown:
    """Make this writer's own object durable after a put without a clear answer. A file server may report a link that it made as failed."""
    try:
        storage.sync([f"{storage.location}/{path}"])
    except StorageError as failure:
        return Unknown(_reason(failure))
    return Put.CREATED


def put_once(storage: Storage, path: str, data: bytes, subject: str) -> bool:
    """Put an object if it is absent, as `put_until_certain` does, and return whether it was absent. `subject` describes the object in errors.

    Raises CommitStateUnknown, ConditionalPutsUnsupported, StorageError if the object is certainly not there.
    """
    settled = put_until_certain(storage, path, data)
    if isinstance(settled, Unknown):
        advice = "Check whether it exists before you run the statement again."
        raise CommitStateUnknown(f"It is not known whether {subject} was written: {settled.reason}. {advice}")
    return settled is Put.CREATED
