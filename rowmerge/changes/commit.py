"""From written files to the next version: commit, clean up after a lost race, begin again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

from rowmerge.changes.result import ChangeResult, RowChanges, Timings
from rowmerge.errors import CommitConflict, CommitStateUnknown, MetadataChanged, ProtocolChanged, RowmergeError
from rowmerge.spark.write import discard
from rowmerge.table.files import AddedFile
from rowmerge.table.snapshot import Change, Committed, Conflicted, Snapshot, Table, Unknown

ATTEMPTS = 5


@dataclass(frozen=True)
class Attempt:
    """One planned and written change, ready to be committed on the snapshot that it was planned on. None: there is nothing to change."""

    base: Snapshot
    change: Change | None
    changes: RowChanges
    written: tuple[AddedFile, ...] = ()


def commit_with_retry(table: Table, attempt: Callable[[], Attempt], timings: Timings, *, attempts: int = ATTEMPTS) -> ChangeResult:
    """Plan, write and commit; after a conflict everything again on the newest version, with exponential back-off and jitter.

    Raises CommitConflict when the last attempt lost too, CommitStateUnknown when it cannot be told whether a commit happened.
    """

    def once() -> ChangeResult:
        made = attempt()
        if made.change is None:
            return ChangeResult(made.base.version, made.changes, timings)
        with timings.measure("commit"):
            return _settled(table, made, made.change, timings)

    retrying = Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(multiplier=0.05, max=2.0) + wait_random(0, 0.1),
        retry=retry_if_exception(_worth_another_try),
        reraise=True,
    )
    return retrying(once)


def _settled(table: Table, made: Attempt, change: Change, timings: Timings) -> ChangeResult:
    try:
        outcome = table.commit(made.base, change)
    except RowmergeError:
        # A table raises these only when nothing was committed; after anything else the commit may stand on these files.
        discard(made.written)
        raise
    match outcome:
        case Committed(version):
            return ChangeResult(version, made.changes, timings)
        case Conflicted(conflict):
            discard(made.written)
            raise conflict
        case Unknown(reason):
            raise CommitStateUnknown(
                f"It is not known whether the {change.operation} on {made.base.name} was committed: {reason}. "
                f"Look at DESCRIBE HISTORY {made.base.name} before you run it again."
            )


def _worth_another_try(error: BaseException) -> bool:
    return isinstance(error, CommitConflict) and not isinstance(error, MetadataChanged | ProtocolChanged)
