"""Errors of the environment of the engine: storage, catalogs, configuration and Spark."""

from __future__ import annotations

from rowmerge.errors.base import ADVICE_ON_ENDED_CREDENTIALS, RowmergeError, reports_ended_credentials
from rowmerge.errors.stores import advice_on_store, is_store_failure
from rowmerge.errors.tables import MissingDataFile, UnreadableDataFile


class StorageError(RowmergeError):
    """Raised when storage rejects a request or fails.

    Remedy: Check that the path exists, that you may write there, and that `storage_options` are correct. Then run the statement again.

    `path` is the path at which the request failed, `reason` the message of the store, and `advice` what to do about it.
    """

    def __init__(self, path: str, reason: str, advice: str = "") -> None:
        if reports_ended_credentials(reason):
            advice = ADVICE_ON_ENDED_CREDENTIALS
        self.path, self.reason, self.advice = path, reason, advice or advice_on_store(path, reason)
        super().__init__(f"Storage failed at {path}: {reason}. {self.advice}")


class ConditionalPutsUnsupported(StorageError):
    """Raised when an object store does not honour conditional puts (`If-None-Match: *`), which every commit needs. Nothing was committed.

    Remedy: Use a store that supports conditional writes, such as Amazon S3, Google Cloud Storage, Azure Blob Storage or Cloudflare R2.
    Alternatively, use a disk, or Iceberg tables in a catalog.

    `path` is the location of the store.
    """

    def __init__(self, store: str, reason: str) -> None:
        advice = (
            "Use a store that supports conditional writes (Amazon S3, Google Cloud Storage, Azure Blob Storage, Cloudflare R2), a disk, "
            "or Iceberg tables in a catalog."
        )
        super().__init__(store, f"conditional puts do not work here: {reason}", advice)


class NotDurable(StorageError):
    """Raised when a disk failed before the name of a written file was durable. Readers see the file, but a power cut may remove it.

    Remedy: Check the disk. Before you run the statement again, check whether it took effect.

    `path` is the file.
    """

    def __init__(self, path: str, reason: str) -> None:
        advice = "Check the disk. Before you run the statement again, check whether it took effect."
        super().__init__(path, f"the file is written, but its folder cannot be synced ({reason})", advice)


class CatalogFailed(StorageError):
    """Raised when a catalog rejected a request or could not be reached. The request had no effect.

    Remedy: Check that the catalog is running, and check its configuration and your permissions.

    `path` is the name of the catalog.
    """

    def __init__(self, catalog: str, action: str, reason: str) -> None:
        self.path, self.reason = catalog, reason
        self.advice = "Check that the catalog is running, and check its configuration and your permissions."
        RowmergeError.__init__(self, f"The catalog {catalog} failed {action}: {reason}. {self.advice}")


class ConfigurationError(RowmergeError):
    """Raised when an argument of `connect`, a table property or the environment is invalid.

    Remedy: Correct the setting that the message names.
    """


class SparkTooOld(ConfigurationError):
    """Raised when a feature needs a newer version of PySpark, or of the session's Spark, than the one that runs.

    Remedy: Install the version that the message names.

    `component` is the component that is too old, `oldest` the oldest version that has the feature.
    """

    def __init__(self, component: str, version: str, oldest: str, feature: str, advice: str) -> None:
        self.component, self.version, self.oldest, self.feature = component, version, oldest, feature
        super().__init__(f"{feature} needs {component} {oldest} or newer, but the installed version is {version}. {advice}")


class SparkFailed(RowmergeError):
    """Raised when Spark stops a statement for a reason that no other error covers. The message comes from Spark.

    Remedy: Correct the problem that Spark's message names. Nothing was written.
    """


class StatementCancelled(RowmergeError):
    """Raised when a connection is cancelled while its statement runs, or before its next statement.

    Remedy: Run the statement again with a new connection.
    """

    def __init__(self) -> None:
        super().__init__("The run was cancelled. The statement was stopped and committed nothing.")


class ServerLost(RowmergeError):
    """Raised when rowmerge's server ends or stops answering while a client waits for the result of a statement.

    Remedy: Look at the table: the statement may have been committed. Run it again if not; a new server starts by itself. The log of the
    server tells why it has ended.
    """

    def __init__(self, log: str) -> None:
        self.log = log
        problem = "The server of rowmerge has ended while a statement ran, which was committed completely or not at all."
        super().__init__(f"{problem} Run it again: a new server starts. The log tells the cause: {log}")


def unreadable_data_file(table: str, path: str, reason: str | None) -> RowmergeError:
    """Return the error for a data file that cannot be read: it is missing, its store failed, or it is damaged.

    Args:
        table: The name of the table.
        path: The path of the file.
        reason: The error message of the reader, or None for a missing file.
    """
    if reason is not None and is_store_failure(reason):
        return StorageError(path, reason.rstrip(" ."))
    return MissingDataFile(table, path) if reason is None else UnreadableDataFile(table, path, reason.rstrip(" ."))
