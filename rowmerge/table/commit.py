"""The commit protocol of both table formats: put a change as the next version, after the commits of others that do not conflict with it.

A format implements `CommitSteps` with what its specification says: where the next version goes, what a winner did, what a change wrote.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rowmerge.errors import CommitConflict, RowmergeError, StorageError
from rowmerge.storage.store import Put, Storage, local_path
from rowmerge.table.snapshot import Committed, Conflicted, Outcome, Unknown

WAITS = (0.1, 0.2, 0.4, 0.8)
"""Seconds between the attempts to read a store or a catalog that failed."""


class CommitSteps(Protocol):
    """What a format does in each step of a commit. Every method raises RowmergeError only while the change is certainly not committed."""

    @property
    def version(self) -> int:
        """The version that the change is, once its put created it."""

    def put(self) -> Put | Unknown | CommitConflict:
        """Put the change as the version after the newest that is known.

        CREATED means that the version continues the table that the change was planned on. A conflict means that it does not, and that no
        reader applies what was put.
        """

    def follow(self) -> int | Unknown | CommitConflict | None:
        """Read the commits of others since the version that is known, and prepare the change to come after them.

        Returns the number of them whose deletions in the files of this change are now part of it, None if the winner is this change, or the
        conflict with the first that cannot stand beside it.
        """

    def discard(self) -> None:
        """Delete every file that was written for the change. It never raises."""

    def discard_superseded(self) -> None:
        """Delete the files of earlier attempts, which the committed version does not name. It never raises."""


def commit(steps: CommitSteps) -> Outcome:
    """Commit a change, and delete what it wrote if it certainly did not become a version.

    When the outcome is unknown, every file stays, because a version may name it. Orphan removal deletes it later.
    Raises the RowmergeError of a step, after which nothing was committed. After any other exception the outcome is unknown.
    """
    rebases = 0
    try:
        while True:
            put = steps.put()
            followed = steps.follow() if put is Put.EXISTED else None if put is Put.CREATED else put
            if followed is None:
                steps.discard_superseded()
                return Committed(steps.version, rebases)
            if isinstance(followed, Unknown):
                return followed
            if isinstance(followed, CommitConflict):
                steps.discard()
                return Conflicted(followed)
            assert isinstance(followed, int)
            rebases += followed
    except RowmergeError:
        steps.discard()
        raise


def put_settled(storage: Storage, path: str, data: bytes, is_own: Callable[[bytes], bool]) -> Put | Unknown:
    """Put an object if it is absent. After a failure, read whether it is there, and put it again while it is not.

    `is_own` decides whether the object's content is this writer's, because a store may repeat a put by itself.
    Raises StorageError when the object is certainly not there: a local disk has failed, and nothing is under way any more.
    """
    reason = ""
    for wait in (*WAITS, 0):
        try:
            return storage.put_if_absent(path, data)
        except StorageError as failure:
            try:
                return Put.CREATED if is_own(storage.get(path)) else Put.EXISTED
            except FileNotFoundError:
                # A request to an object store may still arrive, so only the absence of a local file is final.
                if local_path(storage.location) is not None:
                    raise failure from None
                reason = failure.message
            except StorageError:
                reason = failure.message
        time.sleep(wait)
    return Unknown(reason)
