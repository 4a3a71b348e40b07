"""Commit written files as the next version of a table. After a conflict, delete the files and retry."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rowmerge.errors import CommitConflict, CommitStateUnknown
from rowmerge.errors.base import reports_ended_credentials
from rowmerge.execution.result import ChangeResult, Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.spark.failures import lost_source_rows
from rowmerge.spark.writing.write_output import discard, discard_if_rejected
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Unknown
from rowmerge.table.metadata.settings import RetryPolicy
from rowmerge.table.snapshots.files import AddedFile, FileChanges
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

T = TypeVar("T")

logger = logging.getLogger(__name__)

_MAX_EVALUATIONS = 4
"""The maximum number of evaluations of a query whose rows are lost with executors, which is also Spark's number of attempts of a task."""


@dataclass(frozen=True)
class Attempt:
    """A planned change whose files are written, to be committed on top of the snapshot `base`.

    `change`: the commit request, or None if the statement changes nothing. `new_files`: the written files, which are deleted if the commit
    is rejected. `result_row`: the row that RESTORE or CLONE returns, by column name.
    """

    base: Snapshot
    change: CommitRequest | None
    counts: RowCounts
    new_files: tuple[AddedFile, ...] = ()
    result_row: Mapping[str, int] = field(default_factory=dict)


AfterCommit = Callable[[Table, Snapshot | None, FileChanges, Timings], None]
"""A function that is called after a commit. It gets the table, the version before the commit (None if the commit set all files), the
changes of files, and the timings of the statement. It must not raise an exception, because the statement has succeeded."""


@dataclass(frozen=True)
class CommitOptions:
    """The options of a commit.

    `retries`: the maximum number of retries after conflicts, or None to use the table's property. `transaction`: the application id and
    version of a change that must be committed only once. If the table has this version or a later one already, nothing is committed.
    `user_metadata`: a text for the history of the table, or None. `after_commit`: a function that is called after the commit, or None.
    `begin_snapshot_properties`: a function that begins to read the properties that the user adds to snapshots of Iceberg tables. It returns
    a function that waits for them.
    """

    retries: int | None = None
    transaction: tuple[str, int] | None = None
    user_metadata: str | None = None
    after_commit: AfterCommit | None = None
    begin_snapshot_properties: Callable[[], Callable[[], Mapping[str, str]]] = lambda: dict

    def with_retries(self, policy: RetryPolicy) -> RetryPolicy:
        """Return the retry policy of a table with the number of retries of these options, if they have one."""
        return policy if self.retries is None else replace(policy, retries=self.retries)

    def begin_request(self, table: Table) -> Callable[[CommitRequest], CommitRequest]:
        """Return a function that adds the user's texts and properties to the request of a commit. Call it when the statement begins.

        Args:
            table: The table of the commit. Delta tables, which have no branches, have no snapshots with properties.
        """
        properties: Callable[[], Mapping[str, str]] = dict if table.branches is None else self.begin_snapshot_properties()
        return lambda request: replace(request, user_metadata=self.user_metadata, snapshot_properties=properties())


DEFAULT_COMMIT_OPTIONS = CommitOptions()
"""The default options: the table's property sets the number of retries, and there is no transaction."""


def commit_with_retry(
    table: Table,
    attempt: Callable[[], Attempt],
    timings: Timings,
    options: CommitOptions = DEFAULT_COMMIT_OPTIONS,
    discard_source_rows: Callable[[], None] = lambda: None,
) -> ChangeResult:
    """Plan, write and commit a change. After a conflict, retry on the newest version.

    Between attempts, the function waits with exponential back-off and jitter.

    Args:
        table: The table to change.
        attempt: The function that plans the change on the newest version and writes its files. It is called once per attempt.
        timings: The object that accumulates the seconds of each stage over all attempts.
        options: The number of retries, and the transaction that a table commits only once.
        discard_source_rows: The function that discards the source rows on executors. It runs if an executor was lost with some of them.

    Returns:
        The committed version and the counts of the change, or the result of an earlier run of the same transaction.

    Raises:
        CommitConflict: All attempts conflict with concurrent commits.
        CommitStateUnknown: The commit may or may not have happened.
    """
    conflicts: list[CommitConflict] = []
    start = time.monotonic()
    complete_request = options.begin_request(table)
    while True:
        if (earlier_result := find_earlier_result(table, options, timings)) is not None:
            return earlier_result
        current_attempt = run_attempt(attempt, discard_source_rows)
        outcome = _commit(table, current_attempt, options, timings, complete_request)
        if isinstance(outcome, ChangeResult):
            return replace(outcome, attempts=len(conflicts) + 1)
        policy = options.with_retries(current_attempt.base.settings.retry_policy)
        if not policy.allows_retry(len(conflicts) + 1, time.monotonic() - start):
            break
        conflicts.append(outcome)
        with timings.measure("wait"):
            time.sleep(policy.wait(len(conflicts)))
    # The concurrent commit may be another run of the same transaction.
    if (earlier_result := find_earlier_result(table, options, timings)) is not None:
        return earlier_result
    raise outcome.with_earlier(conflicts)


def run_attempt(attempt: Callable[[], T], discard_source_rows: Callable[[], None] = lambda: None) -> T:
    """Run an attempt, and start it again if its executors are lost with rows, or if the credentials of a store end during its jobs.

    Rows of two evaluations of a query must not mix. So an attempt that fails has deleted its files, and evaluates its query again.

    Args:
        attempt: The function that plans a change and writes its files.
        discard_source_rows: The function that discards the source rows on executors. It runs if an executor was lost with some of them.
    """
    evaluations, has_new_credentials = 1, False
    while True:
        try:
            return attempt()
        except Exception as error:
            if lost_source_rows(error) and evaluations < _MAX_EVALUATIONS:
                logger.warning("An executor was lost with rows of the statement. It starts again with a new evaluation.")
                discard_source_rows()
                evaluations += 1
            elif reports_ended_credentials(str(error)) and not has_new_credentials:
                logger.warning("The credentials of the store ended while a job ran. The statement starts again with new ones.")
                has_new_credentials = True
            else:
                raise


def find_earlier_result(table: Table, options: CommitOptions, timings: Timings) -> ChangeResult | None:
    """Return the result of an earlier run of the same transaction, or None if the table has no such commit.

    The table records such runs as transaction identifiers ("Transaction Identifiers" in the Delta protocol).

    Args:
        table: The table that the transaction changes.
        options: The options with the transaction. Without a transaction, the result is None.
        timings: The timings to store in the result.
    """
    if options.transaction is None:
        return None
    snapshot = table.snapshot()
    if not snapshot.has_transaction(*options.transaction):
        return None
    version = table.version_of_transaction(*options.transaction)
    # The version is None if the log no longer has the commit.
    return ChangeResult(snapshot.version if version is None else version, RowCounts(), timings, replayed=True)


def _commit(
    table: Table, attempt: Attempt, options: CommitOptions, timings: Timings, complete_request: Callable[[CommitRequest], CommitRequest]
) -> ChangeResult | CommitConflict:
    """Commit an attempt if it changes anything. Return the result or the conflict. Delete the new files if the commit is rejected.

    `complete_request`: the result of `CommitOptions.begin_request`.
    """
    base, change, transaction = attempt.base, attempt.change, options.transaction
    if change is None or (change.changes_nothing and transaction is None):
        return ChangeResult(base.version, attempt.counts, timings, result_row=attempt.result_row)
    if transaction is not None and base.has_transaction(*transaction):
        return _replayed_result(table, attempt, options, timings)
    # An error of the engine (RowmergeError) means that nothing is committed, and deletes the new files. A conflict is not raised.
    with discard_if_rejected(attempt.new_files, base.shape.filesystem_options), timings.measure("commit"):
        request = complete_request(replace(change, transaction=transaction or change.transaction))
        outcome = table.commit(base, request)
    match outcome:
        case Committed(version, rebases):
            if options.after_commit is not None:
                options.after_commit(table, None if change.replace else base, change.files, timings)
            return ChangeResult(version, attempt.counts, timings, rebases=rebases, result_row=attempt.result_row)
        case Conflicted(conflict):
            discard(attempt.new_files, base.shape.filesystem_options)
            return conflict
        case Unknown(reason):
            raise _unknown_state_error(base.name, change.operation, reason, is_transaction=transaction is not None)


def _replayed_result(table: Table, attempt: Attempt, options: CommitOptions, timings: Timings) -> ChangeResult:
    """Delete the files of an attempt whose transaction the table already has, and return the result of the earlier run."""
    discard(attempt.new_files, attempt.base.shape.filesystem_options)
    earlier_result = find_earlier_result(table, options, timings)
    assert earlier_result is not None  # the base of the attempt has the transaction, and so have all later versions
    return earlier_result


def _unknown_state_error(table: str, operation: str, reason: str, *, is_transaction: bool) -> CommitStateUnknown:
    """Return the error for a commit that may or may not have happened. Only a transaction is safe to run again."""
    advice = f"Check DESCRIBE HISTORY {table} before you run it again."
    if is_transaction:
        advice = "Run it again: its idempotency key prevents a second commit."
    return CommitStateUnknown(f"It is unknown whether the {operation} on {table} was committed: {reason}. {advice}")
