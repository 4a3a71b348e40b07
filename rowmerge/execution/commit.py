"""Commit written files as the next version: delete the files after a lost race, and begin again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rowmerge.errors import CommitConflict, CommitStateUnknown
from rowmerge.execution.result import ChangeResult, RowCounts, Timings
from rowmerge.spark.writing.write_output import discard, discard_if_rejected
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Unknown
from rowmerge.table.snapshots.files import AddedFile
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


@dataclass(frozen=True)
class Attempt:
    """One planned and written change, to be committed on the snapshot `base`. `change` is None if the statement changes nothing.

    `result_row`: see `ChangeResult`.
    """

    base: Snapshot
    change: CommitRequest | None
    counts: RowCounts
    new_files: tuple[AddedFile, ...] = ()
    result_row: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CommitOptions:
    """The options of a commit.

    `retries`: the maximum number of new attempts after conflicts, or None for the table's property. `transaction`: the application id and
    version of a change that must happen once. If the table has this version of the application or a later one, nothing is committed.
    """

    retries: int | None = None
    transaction: tuple[str, int] | None = None


DEFAULT_COMMIT_OPTIONS = CommitOptions()
"""The retries of the table's property, without a transaction."""


def commit_with_retry(
    table: Table, attempt: Callable[[], Attempt], timings: Timings, options: CommitOptions = DEFAULT_COMMIT_OPTIONS
) -> ChangeResult:
    """Plan, write and commit a change. After a conflict, begin again on the newest version.

    Waits between two attempts with exponential back-off and jitter.

    Args:
        table: The table to change.
        attempt: Plans the change on the newest version, and writes its files. It runs once per attempt.
        timings: Receives the seconds of each stage of all attempts.
        options: The number of retries, and the transaction that a table commits only once.

    Returns:
        The committed version and the counts of the change, or the result of an earlier run of the same transaction.

    Raises:
        CommitConflict: The last attempt conflicts, too.
        CommitStateUnknown: The commit may or may not have happened.
    """
    conflicts: list[CommitConflict] = []
    while True:
        if (earlier_result := find_earlier_result(table, options, timings)) is not None:
            return earlier_result
        current_attempt = attempt()
        outcome = _commit(table, current_attempt, options, timings)
        if isinstance(outcome, ChangeResult):
            return replace(outcome, attempts=len(conflicts) + 1)
        policy = current_attempt.base.settings.retry_policy
        max_retries = policy.retries if options.retries is None else options.retries
        if len(conflicts) >= max_retries:
            break
        conflicts.append(outcome)
        with timings.measure("wait"):
            time.sleep(policy.wait(len(conflicts)))
    # The concurrent commit may be another run of the same transaction.
    if (earlier_result := find_earlier_result(table, options, timings)) is not None:
        return earlier_result
    raise outcome.with_earlier(conflicts)


def find_earlier_result(table: Table, options: CommitOptions, timings: Timings) -> ChangeResult | None:
    """Return the result of an earlier run of the same transaction, or None if the table has no such commit.

    The transaction identifiers of the Delta protocol ("Transaction Identifiers") record such runs.

    Args:
        table: The table that the transaction changes.
        options: The options with the transaction. Without a transaction, the result is None.
        timings: The timings of the result.
    """
    if options.transaction is None:
        return None
    snapshot = table.snapshot()
    if not snapshot.has_transaction(*options.transaction):
        return None
    version = table.version_of_transaction(*options.transaction)
    return ChangeResult(snapshot.version if version is None else version, RowCounts(), timings, replayed=True)


def _commit(table: Table, attempt: Attempt, options: CommitOptions, timings: Timings) -> ChangeResult | CommitConflict:
    """Commit one attempt if it changes anything, and return the result or the conflict. Delete the files of a rejected attempt."""
    base, change, transaction = attempt.base, attempt.change, options.transaction
    if change is None or (change.changes_nothing and transaction is None):
        return ChangeResult(base.version, attempt.counts, timings, result_row=attempt.result_row)
    if transaction is not None and base.has_transaction(*transaction):
        return _replayed_result(table, attempt, options, timings)
    # After RowmergeError, as after a conflict, nothing is committed, so the new files are deleted.
    with discard_if_rejected(attempt.new_files, base.shape.filesystem_options), timings.measure("commit"):
        outcome = table.commit(base, replace(change, transaction=transaction or change.transaction))
    match outcome:
        case Committed(version, rebases):
            return ChangeResult(version, attempt.counts, timings, rebases=rebases, result_row=attempt.result_row)
        case Conflicted(conflict):
            discard(attempt.new_files, base.shape.filesystem_options)
            return conflict
        case Unknown(reason):
            raise _unknown_state_error(base.name, change.operation, reason, is_transaction=transaction is not None)


def _replayed_result(table: Table, attempt: Attempt, options: CommitOptions, timings: Timings) -> ChangeResult:
    """Delete the files of an attempt whose transaction is in the table already, and return the result of the earlier run."""
    discard(attempt.new_files, attempt.base.shape.filesystem_options)
    earlier_result = find_earlier_result(table, options, timings)
    assert earlier_result is not None  # the base of the attempt has the transaction, and so have all later versions
    return earlier_result


def _unknown_state_error(table: str, operation: str, reason: str, *, is_transaction: bool) -> CommitStateUnknown:
    """Return the error of a commit that may or may not have happened. Only a transaction is safe to run again."""
    advice = f"Look at DESCRIBE HISTORY {table} before you run it again."
    if is_transaction:
        advice = "Run it again: with its idempotency key it is not done twice."
    return CommitStateUnknown(f"It is not known whether the {operation} on {table} was committed: {reason}. {advice}")
