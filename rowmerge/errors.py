"""Every error the engine raises: one tree, each with its fields and a sentence that ends with what to do.

The docstrings make docs/errors.md: the cause, a paragraph `Remedy: …`, and the fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


class RowmergeError(Exception):
    """Raised when the engine rejects or cannot complete a statement: the base class of all its errors.

    Remedy: Follow the last sentence of the message, which says what to do.

    `message` is the whole text for a person. Subclasses add the fields that a program needs.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


# ------------------------------------------------------------------ statements


class StatementError(RowmergeError):
    """Raised when the text of a statement is at fault.

    Remedy: Correct the text at the position that the message marks.

    `line` and `column` give the position, counted from 1.
    """

    def __init__(self, reason: str, *, text: str = "", line: int = 1, column: int = 1) -> None:
        self.reason, self.text, self.line, self.column = reason, text, line, column
        super().__init__(f"{reason} (line {line}, column {column}){_pointer(text, line, column)}")


class Unparsable(StatementError):
    """Raised when a statement does not follow the grammar.

    Remedy: Correct the statement at the marked position. docs/sql.md lists every form.
    """


class UnsupportedStatement(StatementError):
    """Raised when the engine understands a statement but does not support it.

    Remedy: Write the statement without the construct that the message names.
    """


# ------------------------------------------------------------------ planning


class PlanError(RowmergeError):
    """Raised when a well-formed statement does not fit the tables that it names.

    Remedy: Correct the statement or change the table, as the message says.
    """


class UnknownColumn(PlanError):
    """Raised when a statement names a column that does not exist in that place.

    Remedy: Use one of the columns that the message lists, or add the column to the table.

    `candidates` are the columns that exist. `where` names the place.
    """

    def __init__(self, name: str, candidates: Sequence[str], *, where: str = "", advice: str = "") -> None:
        self.name, self.candidates, self.where = name, tuple(candidates), where
        place = f" in {where}" if where else ""
        super().__init__(f"There is no column `{name}`{place}. {_near(name, candidates)} {advice}".rstrip())


class AmbiguousColumn(PlanError):
    """Raised when more than one table of the statement has a column of this name.

    Remedy: Put the alias of the table before the column.

    `choices` are the columns that the name may mean.
    """

    def __init__(self, name: str, choices: Sequence[str]) -> None:
        self.name, self.choices = name, tuple(choices)
        listed = ", ".join(choices)
        super().__init__(f"The column `{name}` is ambiguous: it could be {listed}. Put the alias of the table before it.")


class TypeMismatch(PlanError):
    """Raised when a value cannot be stored in its column, or when an expression combines incompatible types.

    Remedy: Cast the value to a type that the message names, or change the type of the column.
    """


# ------------------------------------------------------------------ rows


class RowError(RowmergeError):
    """Raised when rows of a statement violate a rule. Nothing is written.

    Remedy: Correct or filter these rows in the source, and run the statement again.
    """


class MultipleSourceRowsMatch(RowError):
    """Raised when more than one source row of a MERGE matches the same target row.

    Remedy: Make the source unique on the ON condition, for example with `row_number()`. In dbt, set `merge_deduplicate_by`.

    `keys` are some of the duplicate key values, as text. `duplicates` is the number of affected target rows.
    """

    def __init__(self, table: str, keys: Sequence[str], duplicates: int) -> None:
        self.table, self.keys, self.duplicates = table, tuple(keys), duplicates
        shown = "; ".join(keys) if keys else "unknown"
        super().__init__(
            f"MERGE INTO {table}: {duplicates} target row(s) are matched by more than one source row. "
            f"Keys: {shown}. Make the source unique on the ON condition, for example with "
            f"row_number() over (partition by <key> order by <newest> desc) = 1."
        )


class ConstraintViolated(RowError):
    """Raised when rows violate a constraint of the table. Nothing is written.

    Remedy: Correct or filter the rows. Before a new constraint is added, correct or delete the rows in the table that violate it.

    `constraint` is the name and expression, `sample` one such row, shortened. `existing` counts the rows in the table that violate a
    constraint that the statement adds.
    """

    def __init__(self, table: str, constraint: str, sample: str = "", *, existing: int = 0) -> None:
        self.table, self.constraint, self.sample, self.existing = table, constraint, sample, existing
        whose = f"{existing} row(s) of {table}" if existing else f"Rows for {table}"
        row = f" A row that breaks it: {sample}." if sample else ""
        done = "Nothing was changed; mend or delete these rows first." if existing else "Nothing was written; mend or filter these rows."
        super().__init__(f"{whose} break the constraint {constraint}.{row} {done}")


class ConstraintNotFound(PlanError):
    """Raised when a statement drops a constraint that the table does not have.

    Remedy: Name one of the constraints that the message lists, or add IF EXISTS.

    `candidates` are the constraints of the table.
    """

    def __init__(self, table: str, constraint: str, candidates: Sequence[str]) -> None:
        self.table, self.constraint, self.candidates = table, constraint, tuple(candidates)
        near = _near(constraint, candidates) or "It has none."
        super().__init__(f"{table} has no constraint `{constraint}`. {near} Name one of these, or add IF EXISTS.")


class ValueOutOfRange(RowError):
    """Raised when a value does not fit the type of its column (ANSI store assignment). Nothing is written.

    Remedy: Correct the value in the source, or widen the type of the column.
    """


# ------------------------------------------------------------------ tables


class TableError(RowmergeError):
    """Raised when a table, a view, a function or a schema prevents a statement, rather than its text.

    Remedy: Follow the message, which names the object and the next step.
    """


class TableNotFound(TableError):
    """Raised when no table or view has this name.

    Remedy: Check the name with SHOW TABLES, or create the table first.

    `candidates` are names that exist.
    """

    def __init__(self, name: str, candidates: Sequence[str] = ()) -> None:
        self.name, self.candidates = name, tuple(candidates)
        super().__init__(f"There is no table or view {name}. {_near(name, candidates) or 'Check the name with SHOW TABLES.'}")


class FunctionNotFound(TableError):
    """Raised when neither Spark nor the warehouse has a function of this name.

    Remedy: Check the name with SHOW USER FUNCTIONS. CHECK, DEFAULT and GENERATED expressions accept only functions of Spark.

    `candidates` are the functions of the schema.
    """

    def __init__(self, name: str, candidates: Sequence[str] = ()) -> None:
        self.name, self.candidates = name, tuple(candidates)
        advice = "Check the name with SHOW USER FUNCTIONS; what belongs to a table (CHECK, DEFAULT, GENERATED) takes Spark's own only."
        super().__init__(f"There is no function {name} here. {_near(name, candidates) or advice}")


class SchemaNotFound(TableError):
    """Raised when no schema has this name.

    Remedy: Check the name, or create the schema with CREATE SCHEMA.

    `candidates` are the schemas that exist.
    """

    def __init__(self, name: str, candidates: Sequence[str] = ()) -> None:
        self.name, self.candidates = name, tuple(candidates)
        super().__init__(f"There is no schema {name}. {_near(name, candidates)} Create it with CREATE SCHEMA `{name}`.")


class AlreadyExists(TableError):
    """Raised when a table, view, function or schema of this name exists already.

    Remedy: Choose another name, add IF NOT EXISTS or OR REPLACE, or drop the existing object first.
    """


class AppendOnly(TableError):
    """Raised when a statement would remove or change rows of an append-only table.

    Remedy: Only insert, or set the table property `delta.appendOnly` to `false` first.

    `operation` is the rejected operation.
    """

    def __init__(self, table: str, operation: str) -> None:
        self.table, self.operation = table, operation
        super().__init__(
            f"{operation} on {table} would remove or change rows, and the table is append-only. Only insert into it, "
            f"or allow more first: ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')."
        )


class VersionNotFound(TableError):
    """Raised when the history of a table has no such version, time, branch or tag.

    Remedy: Choose a version that DESCRIBE HISTORY lists, or a branch or tag that the message lists.
    """


class ChangesNotRecorded(TableError):
    """Raised when a query asks for change rows of a version that did not record them.

    Remedy: Begin at a later version. Set `delta.enableChangeDataFeed` to `true` to record the changes of future versions.

    `version` is the first version without change rows.
    """

    def __init__(self, table: str, version: int, advice: str) -> None:
        self.table, self.version = table, version
        super().__init__(f"The change rows of {table} were not recorded in version {version}. {advice}")


class IncompatibleSchemaChange(TableError):
    """Raised when rows of an older version do not fit the current columns of the table.

    Remedy: Choose a range of versions that begins later.

    `version` is the version whose rows do not fit, `reason` names the columns.
    """

    def __init__(self, table: str, version: int, reason: str, advice: str) -> None:
        self.table, self.version, self.reason = table, version, reason
        super().__init__(f"The rows of {table} in version {version} do not fit its columns: {reason}. {advice}")


class UnsupportedTableFeature(TableError):
    """Raised when a table needs a feature that this release does not support.

    Remedy: Switch the feature off for the table, as the message says, or use an engine that supports it.

    `feature` is the name of the feature in the table format, `action` what was rejected.
    """

    def __init__(self, table: str, feature: str, *, action: str, advice: str) -> None:
        self.table, self.feature, self.action = table, feature, action
        super().__init__(f"Cannot {action} {table}: it uses the table feature {feature!r}, which is not supported. {advice}")


class RowsMustStay(UnsupportedTableFeature):
    """Raised when a statement would rewrite rows whose ids depend on the file that contains them.

    Remedy: Switch the feature off for this table, or use an engine that preserves the ids.
    """

    def __init__(self, table: str, feature: str, action: str) -> None:
        advice = "Rows would lose their ids. Switch the feature off for this table, or use an engine that keeps the ids."
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
    """Raised when a version that is read in full is not the one that its checksum file records.

    Remedy: Restore the log from a backup. `SET spark.databricks.delta.checksum.mismatch.fatal = false` makes it a warning.

    `path` is the checksum file.
    """

    def __init__(self, path: str, version: int, differences: Sequence[str]) -> None:
        self.version, self.differences = version, tuple(differences)
        super().__init__(path, f"it does not fit version {version}: {'; '.join(differences)}")
        self.message = (
            f"The checksum {path} does not fit version {version} of the table: {'; '.join(differences)}. A file of the log was changed or "
            f"lost after its commit. Restore it from a backup, or read on with SET spark.databricks.delta.checksum.mismatch.fatal = false."
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
            f"The data file {path} of {table} is missing. Somebody deleted it outside the table's log: "
            f"restore the file, or read a version that does not need it (VERSION AS OF)."
        )


class LiveFileProtected(TableError):
    """Raised when a deletion would remove a file that the table needs. Nothing is deleted.

    Remedy: Check whether two paths of the metadata name this file, by a symbolic link or percent-encoding. Report the statement.

    `path` is the file.
    """

    def __init__(self, location: str, path: str) -> None:
        self.location, self.path = location, path
        super().__init__(
            f"{path} is a live file of the table at {location}, so nothing was deleted. Check whether two paths of the table's metadata "
            f"name this file, by a symbolic link or percent-encoding, and report the statement that tried to delete it."
        )


class FilesNotFound(TableError):
    """Raised when a query reads files or a table by path, and the path has none.

    Remedy: Check the path and the format.

    `source` is the name of the files in the query, `wanted` what is missing there.
    """

    def __init__(self, source: str, wanted: str, advice: str) -> None:
        self.source, self.wanted = source, wanted
        super().__init__(f"There is no {wanted} for {source}. {advice}")


class UnreadableDataFile(TableError):
    """Raised when a data file of the table's current version is damaged.

    Remedy: Restore the file from a backup, or read a version that does not need it (VERSION AS OF).

    `path` is the file.
    """

    def __init__(self, table: str, path: str, reason: str) -> None:
        self.table, self.path, self.reason = table, path, reason
        super().__init__(
            f"The data file {path} of {table} cannot be read: {reason}. "
            f"Restore the file from a backup, or read a version that does not need it (VERSION AS OF)."
        )


# ------------------------------------------------------------------ commits


class CommitConflict(RowmergeError):
    """Raised when another commit came first and both cannot stand. Nothing of the statement is visible.

    Remedy: Run the statement again. If conflicts are frequent, raise the table property `rowmerge.commit.retry.num-retries`, or let
    concurrent statements change different partitions. docs/conflicts.md shows which statements conflict.

    `version` and `operation` describe the other commit. `earlier` are the conflicts of earlier attempts, oldest first.
    """

    rule = "conflicts with this one"

    def __init__(
        self, table: str, version: int, operation: str, detail: str = "", rule: str = "", earlier: Sequence[CommitConflict] = ()
    ) -> None:
        self.table, self.version, self.operation, self.detail, self.earlier = table, version, operation, detail, tuple(earlier)
        self.rule = rule or type(self).rule
        more = f": {detail}" if detail else ""
        self.reason = f"{operation} committed version {version} first and {self.rule}{more}"
        story = "".join(f" Attempt {n}: {type(lost).__name__}, {lost.reason}." for n, lost in enumerate(self.earlier, 1))
        given_up = f" That was attempt {len(self.earlier) + 1}, and the last.{story}" if story else ""
        advice = ", or allow more attempts: 'rowmerge.commit.retry.num-retries'" if story else ""
        super().__init__(
            f"{type(self).__name__} on {table}: {self.reason}.{given_up} Nothing was written; run the statement again{advice}."
        )

    def after(self, earlier: Sequence[CommitConflict]) -> CommitConflict:
        """The same conflict, as the last of several attempts."""
        return type(self)(self.table, self.version, self.operation, self.detail, self.rule, earlier)


class ConcurrentAppend(CommitConflict):
    """Raised when the other commit added rows that the statement would have read.

    Remedy: Run the statement again. It then reads these rows.
    """

    rule = "added files that this statement would have read"


class ConcurrentDeleteRead(CommitConflict):
    """Raised when the other commit removed rows or files that the statement read.

    Remedy: Run the statement again. It then reads the table without them.
    """

    rule = "removed files that this statement read"


class ConcurrentDeleteDelete(CommitConflict):
    """Raised when the other commit removed rows or files that the statement removes or changes, too.

    Remedy: Run the statement again. It then changes only what is left.
    """

    rule = "removed files that this statement removes too"


class MetadataChanged(CommitConflict):
    """Raised when the table's schema or properties changed, or when the table was dropped or created anew.

    Remedy: Check that the statement fits the table as it is now, and run it again.
    """

    rule = "changed the table's schema or properties"


class ProtocolChanged(CommitConflict):
    """Raised when the other commit changed the table's protocol.

    Remedy: Run the statement again.
    """

    rule = "changed the table's protocol"


class ConcurrentTransaction(CommitConflict):
    """Raised when the other commit wrote the same application transaction.

    Remedy: Run the statement again with the same idempotency key. It then returns the result of the other commit.
    """

    rule = "wrote the same application transaction"


class CommitStateUnknown(RowmergeError):
    """Raised when a failure of storage or of a catalog leaves open whether a commit happened. Files of the statement stay.

    Remedy: Look at DESCRIBE HISTORY, or at SHOW TABLES after a CREATE, before you run the statement again. A statement with an idempotency
    key can be run again at once. Delete no files by hand, because the commit may need them: VACUUM deletes those that no version needs.
    """


# ------------------------------------------------------------------ surroundings


class StorageError(RowmergeError):
    """Raised when storage rejected a request or failed.

    Remedy: Check that the path exists, that you may write there, and that `storage_options` are right. Then run the statement again.

    `path` is the location of the failure.
    """

    def __init__(self, path: str, reason: str, advice: str = "Check that the path exists and that you may write there.") -> None:
        self.path, self.reason = path, reason
        super().__init__(f"Storage failed at {path}: {reason}. {advice}")


class ConditionalPutsUnsupported(StorageError):
    """Raised when an object store does not honour conditional puts (`If-None-Match: *`), which every commit needs. Nothing was committed.

    Remedy: Use a store that supports conditional writes, such as Amazon S3, Google Cloud Storage, Azure Blob Storage or Cloudflare R2. Or
    use a disk, or Iceberg tables in a catalog.

    `path` is the store.
    """

    def __init__(self, store: str, reason: str) -> None:
        advice = (
            "Use a store that supports conditional writes (Amazon S3, Google Cloud Storage, Azure Blob Storage, Cloudflare R2), a disk, "
            "or Iceberg tables in a catalog."
        )
        super().__init__(store, f"conditional puts do not work here: {reason}", advice)


class NotDurable(StorageError):
    """Raised when a disk failed before the name of a written file was durable. Readers see the file, and a power cut may take it away.

    Remedy: Check the disk. Look whether the statement took effect before you run it again.

    `path` is the file.
    """

    def __init__(self, path: str, reason: str) -> None:
        advice = "Check the disk. Look whether the statement took effect before you run it again."
        super().__init__(path, f"the file is written, but its folder cannot be synced ({reason})", advice)


class CatalogFailed(StorageError):
    """Raised when a catalog rejected a request or could not be reached. The request had no effect.

    Remedy: Check that the catalog runs, and check its configuration and your permissions.

    `path` is the name of the catalog.
    """

    def __init__(self, catalog: str, doing: str, reason: str) -> None:
        self.path, self.reason = catalog, reason
        advice = "Check that the catalog runs and that its configuration and your rights are right."
        RowmergeError.__init__(self, f"The catalog {catalog} failed {doing}: {reason}. {advice}")


class ConfigurationError(RowmergeError):
    """Raised when an argument of `connect`, a table property or the environment is wrong.

    Remedy: Correct the setting that the message names.
    """


class SparkTooOld(ConfigurationError):
    """Raised when a feature needs a newer version of PySpark, or of the session's Spark, than the one that runs.

    Remedy: Install the version that the message names.

    `component` is what is too old, `oldest` the version that it needs.
    """

    def __init__(self, component: str, version: str, oldest: str, feature: str, advice: str) -> None:
        self.component, self.version, self.oldest, self.feature = component, version, oldest, feature
        super().__init__(f"{feature} needs {component} {oldest} or newer, but the version here is {version}. {advice}")


class SparkFailed(RowmergeError):
    """Raised when Spark stops a statement for a reason that no other error covers. The message is Spark's.

    Remedy: Correct what the message of Spark names. Nothing is written.
    """


def _near(name: str, candidates: Sequence[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    near = [by_lower[match] for match in get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)]
    if near:
        return f"Did you mean {' or '.join(f'`{match}`' for match in near)}?"
    if candidates:
        more = ", …" if len(candidates) > 12 else ""
        return f"There are: {', '.join(f'`{c}`' for c in candidates[:12])}{more}."
    return ""


_SHOWN = 100
"""Characters of a long line that are shown on either side of the place that an error points to."""


def _pointer(text: str, line: int, column: int) -> str:
    lines = text.split("\n")
    if not text or not 1 <= line <= len(lines):
        return ""
    whole = lines[line - 1].rstrip("\r")
    start, end = max(column - 1 - _SHOWN, 0), column - 1 + _SHOWN
    shown = f"{'…' if start else ''}{whole[start:end]}{'…' if end < len(whole) else ''}"
    before = "".join("\t" if character == "\t" else " " for character in shown[: column - 1 - start + bool(start)])
    return f"\n  {shown}\n  {before.ljust(column - 1 - start + bool(start))}^"
