"""Errors of tables: their names, versions, features and files."""

from __future__ import annotations

from collections.abc import Sequence

from rowmerge.errors.base import ADVICE_ON_ENDED_CREDENTIALS, RowmergeError, reports_ended_credentials, suggest_names


class TableError(RowmergeError):
    """Raised when the statement is valid, but the state of a table, view, function or schema prevents it.

    Remedy: Follow the message, which names the object and the next step.
    """


class TableNotFound(TableError):
    """Raised when no table or view has this name.

    Remedy: Check the name with SHOW TABLES, or create the table first.

    `candidates` are existing names.
    """

    def __init__(self, name: str, candidates: Sequence[str] = ()) -> None:
        self.name, self.candidates = name, tuple(candidates)
        suggestion = suggest_names(name, candidates, most_others=3) or "Check the name with SHOW TABLES."
        super().__init__(f"There is no table or view {name}. {suggestion}")


class FunctionNotFound(TableError):
    """Raised when neither Spark nor the warehouse has a function of this name.

    Remedy: Check the name with SHOW USER FUNCTIONS. CHECK, DEFAULT and GENERATED expressions accept only functions of Spark.

    `candidates` are the functions of the schema.
    """

    def __init__(self, name: str, candidates: Sequence[str] = ()) -> None:
        self.name, self.candidates = name, tuple(candidates)
        advice = "Check the name with SHOW USER FUNCTIONS. CHECK, DEFAULT and GENERATED expressions accept only functions of Spark."
        super().__init__(f"There is no function {name} here. {suggest_names(name, candidates) or advice}")


class SchemaNotFound(TableError):
    """Raised when no schema has this name.

    Remedy: Check the name, or create the schema with CREATE SCHEMA.

    `candidates` are the schemas that exist.
    """

    def __init__(self, name: str, candidates: Sequence[str] = ()) -> None:
        self.name, self.candidates = name, tuple(candidates)
        super().__init__(f"There is no schema {name}. {suggest_names(name, candidates)} Create it with CREATE SCHEMA `{name}`.")


class AlreadyExists(TableError):
    """Raised when a table, view, function or schema of this name already exists.

    Remedy: Choose another name, add IF NOT EXISTS or OR REPLACE, or drop the existing object first.
    """


class AppendOnly(TableError):
    """Raised when a statement would remove or change rows of an append-only table.

    Remedy: Only insert rows, or set the table property `delta.appendOnly` to `false` first.

    `operation` is the rejected operation.
    """

    def __init__(self, table: str, operation: str) -> None:
        self.table, self.operation = table, operation
        super().__init__(
            f"{operation} on {table} would remove or change rows, but the table is append-only. Only insert rows, "
            f"or first run ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')."
        )


class VersionNotFound(TableError):
    """Raised when the history of a table has no such version, time, branch or tag.

    Remedy: Choose a version that DESCRIBE HISTORY lists, or a branch or tag that the message lists.
    """


class ChangesNotRecorded(TableError):
    """Raised when a query asks for change rows of a version that did not record them.

    Remedy: Start at a later version. Set `delta.enableChangeDataFeed` to `true` to record the changes of future versions.

    `version` is the first version without change rows.
    """

    def __init__(self, table: str, version: int, advice: str) -> None:
        self.table, self.version = table, version
        super().__init__(f"The change rows of {table} were not recorded in version {version}. {advice}")


class FeatureInHistory(TableError):
    """Raised when ALTER TABLE … DROP FEATURE … TRUNCATE HISTORY must wait, because older versions of the table use the feature.

    Remedy: Run the statement again when the retention period is over. The newest version does not use the feature any more.

    `feature` is the feature, `retention` is the value of `delta.dropFeatureTruncateHistory.retentionDuration`.
    """

    def __init__(self, table: str, feature: str, retention: str) -> None:
        self.table, self.feature, self.retention = table, feature, retention
        super().__init__(
            f"The feature {feature} of {table} is not dropped yet: the newest version does not need it, but older versions do. Wait until "
            f"they are older than {retention} (delta.dropFeatureTruncateHistory.retentionDuration), and run the statement again."
        )


class IncompatibleSchemaChange(TableError):
    """Raised when rows of an older version do not fit the current columns of the table.

    Remedy: Choose a range of versions that starts later.

    `version` is the version whose rows do not fit, `reason` names the columns.
    """

    def __init__(self, table: str, version: int, reason: str, advice: str) -> None:
        self.table, self.version, self.reason = table, version, reason
        super().__init__(f"The rows of {table} in version {version} do not fit its columns: {reason}. {advice}")


class RowsChanged(TableError):
    """Raised when a stream reads a table, and a version deletes, updates or rewrites rows that the stream may have read.

    Remedy: Set the option `skipChangeCommits` to skip such versions with all their rows, or start a new stream after this version.

    `version` is the version, `reason` says what it changes.
    """

    def __init__(self, table: str, version: int, reason: str) -> None:
        self.table, self.version, self.reason = table, version, reason
        super().__init__(
            f"The stream cannot read version {version} of {table}: {reason}. Set the option skipChangeCommits to skip such versions "
            f"with all their rows. Or start a new stream, with a new checkpoint, after this version."
        )


class TableRecreated(TableError):
    """Raised when the table that a stream reads was dropped, and a new table has its name.

    Remedy: Start a new stream with a new checkpoint.

    `old_id` and `new_id` are the ids of the two tables.
    """

    def __init__(self, table: str, old_id: str, new_id: str) -> None:
        self.table, self.old_id, self.new_id = table, old_id, new_id
        super().__init__(
            f"The stream has read the table {old_id} under the name {table}, which now belongs to another table, {new_id}. "
            f"The old table was dropped. Start a new stream with a new checkpoint."
        )


class UnsupportedTableFeature(TableError):
    """Raised when a table needs a feature that this release does not support.

    Remedy: Switch the feature off for the table, as the message says, or use an engine that supports it.

    `feature` is the name of the feature in the table format, `action` the operation that was rejected.
    """

    def __init__(self, table: str, feature: str, *, action: str, advice: str) -> None:
        self.table, self.feature, self.action = table, feature, action
        super().__init__(f"Cannot {action} {table}: it uses the table feature {feature!r}, which is not supported. {advice}")


class RowsMustStay(UnsupportedTableFeature):
    """Raised when a statement would rewrite rows whose ids depend on the file that contains them.

    Remedy: Switch the feature off for this table, or use an engine that preserves the ids.
    """

    def __init__(self, table: str, feature: str, action: str) -> None:
        advice = "Rows would lose their ids. Disable the feature for this table, or use an engine that preserves the ids."
        super().__init__(table, feature, action=action, advice=advice)


class CorruptLog(TableError):
    """Raised when a metadata file of a table is unreadable.

    Remedy: Restore the file from a backup, or read an older version.

    `path` is the file. `line` counts from 1 in a file with one JSON value per line.
    """

    def __init__(self, path: str, reason: str, *, line: int | None = None) -> None:
        self.path, self.reason, self.line = path, reason, line
        place = "" if line is None else f" in line {line}"
        super().__init__(
            f"The table's metadata file {path} is unreadable{place}: {reason}. Restore it from a backup, or read an older version."
        )


class ChecksumMismatch(CorruptLog):
    """Raised when a version that is read in full does not match its checksum file.

    Remedy: Restore the log from a backup. `SET spark.databricks.delta.checksum.mismatch.fatal = false` turns the error into a warning.

    `path` is the checksum file.
    """

    def __init__(self, path: str, version: int, differences: Sequence[str]) -> None:
        self.version, self.differences = version, tuple(differences)
        super().__init__(path, f"it does not match version {version}: {'; '.join(differences)}")
        self.message = (
            f"The checksum {path} does not match version {version} of the table: {'; '.join(differences)}. A file of the log was changed "
            f"or lost after its commit. Restore it from a backup, or read the table despite this error with "
            f"SET spark.databricks.delta.checksum.mismatch.fatal = false."
        )
        self.args = (self.message,)


class MissingDataFile(TableError):
    """Raised when a data file of the table's current version is missing.

    Remedy: Restore the file, or read a version that does not need it (VERSION AS OF).

    `path` is the file.
    """

    def __init__(self, table: str, path: str) -> None:
        self.table, self.path = table, path
        super().__init__(
            f"The data file {path} of {table} is missing. It was deleted without a commit to the table. "
            f"Restore the file, or read a version that does not need it (VERSION AS OF)."
        )


class LiveFileProtected(TableError):
    """Raised when a deletion would remove a file that the table needs. Nothing is deleted.

    Remedy: Check whether two paths in the metadata refer to this file, through a symbolic link or percent-encoding. Report the statement.

    `path` is the file.
    """

    def __init__(self, location: str, path: str) -> None:
        self.location, self.path = location, path
        super().__init__(
            f"The table at {location} needs the file {path}, so nothing was deleted. Check whether two paths in the metadata refer to this "
            f"file, through a symbolic link or percent-encoding. Report the statement that tried to delete it."
        )


class FilesNotFound(TableError):
    """Raised when a query reads files or a table by path, and the path contains none.

    Remedy: Check the path and the format.

    `source` is the name of the files in the query, `kind` the kind of file that is missing.
    """

    def __init__(self, source: str, kind: str, advice: str) -> None:
        self.source, self.kind = source, kind
        super().__init__(f"There is no {kind} for {source}. {advice}")


class UnreadableDataFile(TableError):
    """Raised when a data file of the table's current version is damaged.

    Remedy: Restore the file from a backup, or read a version that does not need it (VERSION AS OF).

    `path` is the file.
    """

    def __init__(self, table: str, path: str, reason: str) -> None:
        self.table, self.path, self.reason = table, path, reason
        advice = "Restore the file from a backup, or read a version that does not need it (VERSION AS OF)."
        if reports_ended_credentials(reason):
            advice = ADVICE_ON_ENDED_CREDENTIALS
        super().__init__(f"The data file {path} of {table} cannot be read: {reason}. {advice}")
