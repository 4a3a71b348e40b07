"""Errors of commits: conflicts with concurrent commits, and unknown outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from rowmerge.errors.base import RowmergeError


class CommitConflict(RowmergeError):
    """Raised when another commit came first and both cannot stand. No changes of the statement are visible.

    Remedy: Run the statement again. If conflicts are frequent, raise the table property `rowmerge.commit.retry.num-retries`, or let
    concurrent statements change different partitions. docs/conflicts.md shows which statements conflict.

    `version` and `operation` describe the other commit. `earlier` are the conflicts of earlier attempts, oldest first.
    """

    action = "conflicts with this one"
    """What the other commit did, as the end of a sentence that begins with its operation."""

    def __init__(
        self, table: str, version: int, operation: str, detail: str = "", action: str = "", earlier: Sequence[CommitConflict] = ()
    ) -> None:
        """Build the message, such as "ConcurrentAppend on sales.orders: MERGE committed version 4 first and added files […]: a.parquet".

        Args:
            table: The name of the table.
            version: The version or snapshot id of the other commit.
            operation: The statement of the other commit.
            detail: A description of the files or rows in conflict, empty if unknown.
            action: What the other commit did, as the end of a sentence; empty for the `action` of the class.
            earlier: The conflicts of earlier attempts, oldest first. The message lists them.
        """
        self.table, self.version, self.operation = table, version, operation
        self.detail, self.action, self.earlier = detail, action or type(self).action, tuple(earlier)
        self.reason = f"{operation} committed version {version} first and {self.action}"
        if detail:
            self.reason += f": {detail}"
        sentences = [f"{type(self).__name__} on {table}: {self.reason}."]
        if earlier:
            more_attempts = "allow more attempts with the table property 'rowmerge.commit.retry.num-retries'"
            sentences += [*_attempt_sentences(self.earlier), f"Nothing was written. Run the statement again, or {more_attempts}."]
        else:
            sentences.append("Nothing was written. Run the statement again.")
        super().__init__(" ".join(sentences))

    def with_earlier(self, earlier: Sequence[CommitConflict]) -> CommitConflict:
        """Return the same conflict as that of the last attempt. `earlier` are the conflicts of earlier attempts, oldest first."""
        return type(self)(self.table, self.version, self.operation, self.detail, self.action, earlier)


def _attempt_sentences(earlier: Sequence[CommitConflict]) -> list[str]:
    """Return the sentences that count the attempts and list the conflicts of the earlier ones."""
    attempts = [f"Attempt {number}: {type(conflict).__name__}, {conflict.reason}." for number, conflict in enumerate(earlier, 1)]
    return [f"This was attempt {len(attempts) + 1}, the last one.", *attempts]


class ConcurrentAppend(CommitConflict):
    """Raised when the other commit added rows that the statement would have read.

    Remedy: Run the statement again. It then reads these rows.
    """

    action = "added files that this statement would have read"


class ConcurrentDeleteRead(CommitConflict):
    """Raised when the other commit removed rows or files that the statement read.

    Remedy: Run the statement again. It then reads the table without these rows.
    """

    action = "removed files that this statement read"


class ConcurrentDeleteDelete(CommitConflict):
    """Raised when the other commit removed rows or files that the statement also removes or changes.

    Remedy: Run the statement again. It then changes only the remaining rows.
    """

    action = "removed files that this statement also removes"


class MetadataChanged(CommitConflict):
    """Raised when the table's schema or properties changed, or when the table was dropped or recreated.

    Remedy: Check that the statement fits the table as it is now, and run it again.
    """

    action = "changed the table's schema or properties"


class ProtocolChanged(CommitConflict):
    """Raised when the other commit changed the table's protocol.

    Remedy: Run the statement again.
    """

    action = "changed the table's protocol"


class ConcurrentTransaction(CommitConflict):
    """Raised when the other commit wrote the same application transaction.

    Remedy: Run the statement again with the same idempotency key. It then returns the result of the other commit.
    """

    action = "wrote the same application transaction"


class CommitStateUnknown(RowmergeError):
    """Raised when a failure of storage or of a catalog leaves it unknown whether a commit happened. The files of the statement stay.

    Remedy: Check DESCRIBE HISTORY, or SHOW TABLES after a CREATE, before you run the statement again. A statement with an idempotency key
    can be run again at once. Do not delete files by hand, because the commit may need them. VACUUM deletes those that no version needs.
    """
