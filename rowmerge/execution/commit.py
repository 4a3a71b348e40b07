"""From written files to the next version: commit, clean up after a lost race, begin again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from rowmerge.errors import CommitConflict, CommitStateUnknown, RowmergeError
from rowmerge.execution.result import ChangeResult, RowCounts, Timings
from rowmerge.spark.writing.written import discard
from rowmerge.table.commits.request import Change, Committed, Conflicted, Unknown
from rowmerge.table.snapshots.files import AddedFile
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


@dataclass(frozen=True)
class Attempt:
    """One planned and written change, ready to be committed on the snapshot that it was planned on. None: there is nothing to change."""

    base: Snapshot
    change: Change | None
    counts: RowCounts
    written: tuple[AddedFile, ...] = ()


@dataclass(frozen=True)
class CommitOptions:
    """What a caller wants of a commit apart from the change.

    `retries`: how often to begin again after a conflict, None for what the table's properties say; `transaction`: (application id,
    version) of a change that must be made once: when the table has that version of the application, or a later one, nothing is done.
    """

    retries: int | None = None
    transaction: tuple[str, int] | None = None


AS_THE_TABLE_SAYS = CommitOptions()


def commit_with_retry(
    table: Table, attempt: Callable[[], Attempt], timings: Timings, options: CommitOptions = AS_THE_TABLE_SAYS
) -> ChangeResult:
    """Plan, write and commit; after a conflict everything again on the newest version, with exponential back-off and jitter.

    Raises CommitConflict when the last attempt lost too, CommitStateUnknown when it cannot be told whether a commit happened.
    """
    lost: list[CommitConflict] = []
    while True:
        if (replayed := replay(table, options, timings)) is not None:
            return replayed
        made = attempt()
        outcome = _settled(table, made, options, timings)
        if isinstance(outcome, ChangeResult):
            return replace(outcome, attempts=len(lost) + 1)
        policy = made.base.settings.retry_policy
        retries = policy.retries if options.retries is None else options.retries
        if len(lost) >= retries:
            # Whoever won may have been another run of the same change.
            if (replayed := replay(table, options, timings)) is not None:
                return replayed
            raise outcome.after(lost)
        lost.append(outcome)
        with timings.measure("wait"):
            time.sleep(policy.wait(len(lost)))


def replay(table: Table, options: CommitOptions, timings: Timings) -> ChangeResult | None:
    """The result of a change that was made before, as its transaction tells; None when it was not, or has no transaction."""
    if options.transaction is None or not (snapshot := table.snapshot()).has_transaction(*options.transaction):
        return None
    version = table.version_of_transaction(*options.transaction)
    return ChangeResult(snapshot.version if version is None else version, RowCounts(), timings, replayed=True)


def _settled(table: Table, made: Attempt, options: CommitOptions, timings: Timings) -> ChangeResult | CommitConflict:
    """Commit one attempt, if there is anything to commit."""
    change = made.change
    if change is None or (change.changes_nothing and options.transaction is None):
        return ChangeResult(made.base.version, made.counts, timings)
    if options.transaction is not None:
        if made.base.has_transaction(*options.transaction):
            discard(made.written, made.base.shape.filesystem_options)
            again = replay(table, options, timings)
            assert again is not None
            return again
        change = replace(change, transaction=options.transaction)
    try:
        with timings.measure("commit"):
            outcome = table.commit(made.base, change)
    except RowmergeError:
        # A table raises these only when nothing was committed; after anything else the commit may stand on these files.
        discard(made.written, made.base.shape.filesystem_options)
        raise
    match outcome:
        case Committed(version, rebases):
            return ChangeResult(version, made.counts, timings, rebases=rebases)
        case Conflicted(conflict):
            discard(made.written, made.base.shape.filesystem_options)
            return conflict
        case Unknown(reason):
            name = made.base.name
            look = f"Look at DESCRIBE HISTORY {name} before you run it again."
            safe = "Run it again: with its idempotency key it is not done twice."
            raise CommitStateUnknown(
                f"It is not known whether the {change.operation} on {name} was committed: {reason}. {safe if options.transaction else look}"
            )
