"""Every error the engine raises: one tree, each with its fields and a sentence that ends with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


class RowmergeError(Exception):
    """Anything the engine raises on purpose.

    `message` is the whole sentence for a person; subclasses add the fields a program needs.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


# ------------------------------------------------------------------ statements


class StatementError(RowmergeError):
    """The text of a statement is at fault. `line` and `column` count from 1."""

    def __init__(self, reason: str, *, text: str = "", line: int = 1, column: int = 1) -> None:
        self.reason, self.text, self.line, self.column = reason, text, line, column
        super().__init__(f"{reason} (line {line}, column {column}){_pointer(text, line, column)}")


class Unparsable(StatementError):
    """The statement does not follow the grammar."""


class UnsupportedStatement(StatementError):
    """The statement is understood and refused by name."""


# ------------------------------------------------------------------ planning


class PlanError(RowmergeError):
    """The statement is well formed, but does not fit the tables it names."""


class UnknownColumn(PlanError):
    """A name that is no column where it stands; `candidates` are the columns there are, `advice` a sentence on what else may be meant."""

    def __init__(self, name: str, candidates: Sequence[str], *, where: str = "", advice: str = "") -> None:
        self.name, self.candidates, self.where = name, tuple(candidates), where
        place = f" in {where}" if where else ""
        super().__init__(f"There is no column `{name}`{place}. {_near(name, candidates)} {advice}".rstrip())


class AmbiguousColumn(PlanError):
    """A name that more than one table of the statement has."""

    def __init__(self, name: str, choices: Sequence[str]) -> None:
        self.name, self.choices = name, tuple(choices)
        listed = ", ".join(choices)
        super().__init__(f"The column `{name}` is ambiguous: it could be {listed}. Put the alias of the table before it.")


class TypeMismatch(PlanError):
    """A value cannot be stored in its column, or an expression mixes types that do not go together."""


# ------------------------------------------------------------------ rows


class RowError(RowmergeError):
    """The rows of one run of a statement break a rule; nothing was written."""


class MultipleSourceRowsMatch(RowError):
    """Two source rows would change one target row (`keys`: some of the offending key values, as text)."""

    def __init__(self, table: str, keys: Sequence[str], duplicates: int) -> None:
        self.table, self.keys, self.duplicates = table, tuple(keys), duplicates
        shown = "; ".join(keys) if keys else "unknown"
        super().__init__(
            f"MERGE INTO {table}: {duplicates} target row(s) are matched by more than one source row. "
            f"Keys: {shown}. Make the source unique on the ON condition, for example with "
            f"row_number() over (partition by <key> order by <newest> desc) = 1."
        )


class ConstraintViolated(RowError):
    """A row breaks a constraint of the table (`constraint`: its name and expression; `sample`: one such row, shortened).

    `existing`: so many rows of the table break a constraint that it was about to get.
    """

    def __init__(self, table: str, constraint: str, sample: str = "", *, existing: int = 0) -> None:
        self.table, self.constraint, self.sample, self.existing = table, constraint, sample, existing
        whose = f"{existing} row(s) of {table}" if existing else f"Rows for {table}"
        row = f" A row that breaks it: {sample}." if sample else ""
        done = "Nothing was changed; mend or delete these rows first." if existing else "Nothing was written; mend or filter these rows."
        super().__init__(f"{whose} break the constraint {constraint}.{row} {done}")


class ConstraintNotFound(PlanError):
    """A constraint that the table does not have; `candidates` are those it has."""

    def __init__(self, table: str, constraint: str, candidates: Sequence[str]) -> None:
        self.table, self.constraint, self.candidates = table, constraint, tuple(candidates)
        near = _near(constraint, candidates) or "It has none."
        super().__init__(f"{table} has no constraint `{constraint}`. {near} Name one of these, or add IF EXISTS.")


class ValueOutOfRange(RowError):
    """A value does not fit its column's type (ANSI store assignment)."""


# ------------------------------------------------------------------ tables


class TableError(RowmergeError):
    """Something about a table, a view or a schema, rather than about the statement."""


class TableNotFound(TableError):
    """No table or view of this name; `candidates` are names that exist."""

    def __init__(self, name: str, candidates: Sequence[str] = ()) -> None:
        self.name, self.candidates = name, tuple(candidates)
        super().__init__(f"There is no table or view {name}. {_near(name, candidates) or 'Check the name with SHOW TABLES.'}")


class FunctionNotFound(TableError):
    """No function of this name, neither Spark's nor the warehouse's; `candidates` are those of its schema."""

    def __init__(self, name: str, candidates: Sequence[str] = ()) -> None:
        self.name, self.candidates = name, tuple(candidates)
        advice = "Check the name with SHOW USER FUNCTIONS; what belongs to a table (CHECK, DEFAULT, GENERATED) takes Spark's own only."
        super().__init__(f"There is no function {name} here. {_near(name, candidates) or advice}")


class SchemaNotFound(TableError):
    """No schema of this name."""

    def __init__(self, name: str, candidates: Sequence[str] = ()) -> None:
        self.name, self.candidates = name, tuple(candidates)
        super().__init__(f"There is no schema {name}. {_near(name, candidates)} Create it with CREATE SCHEMA `{name}`.")


class AlreadyExists(TableError):
    """A table, view or schema of this name exists already."""


class AppendOnly(TableError):
    """The table takes new rows only (`operation`: what would have removed or changed rows)."""

    def __init__(self, table: str, operation: str) -> None:
        self.table, self.operation = table, operation
        super().__init__(
            f"{operation} on {table} would remove or change rows, and the table is append-only. Only insert into it, "
            f"or allow more first: ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')."
        )


class VersionNotFound(TableError):
    """A version or a time that the table's history does not hold."""


class ChangesNotRecorded(TableError):
    """The change rows of a version (`version`) that the table did not keep."""

    def __init__(self, table: str, version: int, advice: str) -> None:
        self.table, self.version = table, version
        super().__init__(f"The change rows of {table} were not recorded in version {version}. {advice}")


class IncompatibleSchemaChange(TableError):
    """The columns of an older version (`version`) cannot be read as the newer ones."""

    def __init__(self, table: str, version: int, reason: str, advice: str) -> None:
        self.table, self.version, self.reason = table, version, reason
        super().__init__(f"The rows of {table} in version {version} do not fit its columns: {reason}. {advice}")


class UnsupportedTableFeature(TableError):
    """The table needs something that this release does not honour; `feature` is the format's own name for it."""

    def __init__(self, table: str, feature: str, *, action: str, advice: str) -> None:
        self.table, self.feature, self.action = table, feature, action
        super().__init__(f"Cannot {action} {table}: it uses the table feature {feature!r}, which is not supported. {advice}")


class RowsMustStay(UnsupportedTableFeature):
    """A statement would write rows again that must stay in the file that holds them."""

    def __init__(self, table: str, feature: str, action: str) -> None:
        advice = "Rows would lose their ids. Switch the feature off for this table, or use an engine that keeps the ids."
        super().__init__(table, feature, action=action, advice=advice)


class CorruptLog(TableError):
    """A metadata file of a table is unreadable; `path` is the file."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"The table's metadata file {path} is unreadable: {reason}. Restore it from a backup, or read an older version.")


class MissingDataFile(TableError):
    """A file that the table's current version lists is gone; `path` is the file."""

    def __init__(self, table: str, path: str) -> None:
        self.table, self.path = table, path
        super().__init__(
            f"The data file {path} of {table} is missing. Somebody deleted it outside the table's log: "
            f"restore the file, or read a version that does not need it (VERSION AS OF)."
        )


class LiveFileProtected(TableError):
    """A deletion would have removed a file that the table needs; nothing was deleted. `path` is the file."""

    def __init__(self, location: str, path: str) -> None:
        self.location, self.path = location, path
        super().__init__(
            f"{path} is a live file of the table at {location}, so nothing was deleted. Check whether two paths of the table's metadata "
            f"name this file, by a symbolic link or percent-encoding, and report the statement that tried to delete it."
        )


class FilesNotFound(TableError):
    """Where a query reads files without a table, there are none; `source` is what the query calls them, `wanted` what should be there."""

    def __init__(self, source: str, wanted: str, advice: str) -> None:
        self.source, self.wanted = source, wanted
        super().__init__(f"There is no {wanted} for {source}. {advice}")


class UnreadableDataFile(TableError):
    """A file that the table's current version lists is damaged; `path` is the file."""

    def __init__(self, table: str, path: str, reason: str) -> None:
        self.table, self.path, self.reason = table, path, reason
        super().__init__(
            f"The data file {path} of {table} cannot be read: {reason}. "
            f"Restore the file from a backup, or read a version that does not need it (VERSION AS OF)."
        )


# ------------------------------------------------------------------ commits


class CommitConflict(RowmergeError):
    """Another commit won the race and cannot go together with this one. Cleanable: nothing of ours is visible.

    `version` and `operation` tell the winner; `earlier` are the conflicts of the attempts before this one, oldest first.
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
    rule = "added files that this statement would have read"


class ConcurrentDeleteRead(CommitConflict):
    rule = "removed files that this statement read"


class ConcurrentDeleteDelete(CommitConflict):
    rule = "removed files that this statement removes too"


class MetadataChanged(CommitConflict):
    rule = "changed the table's schema or properties"


class ProtocolChanged(CommitConflict):
    rule = "changed the table's protocol"


class ConcurrentTransaction(CommitConflict):
    rule = "wrote the same application transaction"


class CommitStateUnknown(RowmergeError):
    """A put failed in a way that leaves open whether it happened. Never clean up after it."""


# ------------------------------------------------------------------ surroundings


class StorageError(RowmergeError):
    """Storage refused or failed; `path` is where."""

    def __init__(self, path: str, reason: str, advice: str = "Check that the path exists and that you may write there.") -> None:
        self.path, self.reason = path, reason
        super().__init__(f"Storage failed at {path}: {reason}. {advice}")


class ConditionalPutsUnsupported(StorageError):
    """An object store does not honour conditional puts (`If-None-Match: *`), on which every commit rests. Nothing was written."""

    def __init__(self, store: str, reason: str) -> None:
        advice = (
            "Use a store that supports conditional writes (Amazon S3, Google Cloud Storage, Azure Blob Storage, Cloudflare R2), a disk, "
            "or Iceberg tables in a catalog."
        )
        super().__init__(store, f"conditional puts do not work here: {reason}", advice)


class NotDurable(StorageError):
    """A file has its name, but the disk failed before the name was durable: a power cut may take it away. Readers see it until then."""

    def __init__(self, path: str, reason: str) -> None:
        advice = "Check the disk. Look whether the statement took effect before you run it again."
        super().__init__(path, f"the file is written, but its folder cannot be synced ({reason})", advice)


class CatalogFailed(StorageError):
    """A catalog refused or could not be reached (`path`: its name); what it was asked for did not happen."""

    def __init__(self, catalog: str, doing: str, reason: str) -> None:
        self.path, self.reason = catalog, reason
        advice = "Check that the catalog runs and that its configuration and your rights are right."
        RowmergeError.__init__(self, f"The catalog {catalog} failed {doing}: {reason}. {advice}")


class ConfigurationError(RowmergeError):
    """An argument of `connect`, a table property or an environment is wrong."""


class SparkTooOld(ConfigurationError):
    """Report that a feature needs a newer version of PySpark, or of the session's Spark, than the one that runs."""

    def __init__(self, component: str, version: str, oldest: str, feature: str, advice: str) -> None:
        self.component, self.version, self.oldest, self.feature = component, version, oldest, feature
        super().__init__(f"{feature} needs {component} {oldest} or newer, but the version here is {version}. {advice}")


class SparkFailed(RowmergeError):
    """Spark stopped a statement for a reason that is not one of the errors above; the message is Spark's."""


def _near(name: str, candidates: Sequence[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    near = [by_lower[match] for match in get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)]
    if near:
        return f"Did you mean {' or '.join(f'`{match}`' for match in near)}?"
    if candidates:
        more = ", …" if len(candidates) > 12 else ""
        return f"There are: {', '.join(f'`{c}`' for c in candidates[:12])}{more}."
    return ""


def _pointer(text: str, line: int, column: int) -> str:
    lines = text.split("\n")
    if not text or not 1 <= line <= len(lines):
        return ""
    shown = lines[line - 1].rstrip("\r")
    before = "".join("\t" if character == "\t" else " " for character in shown[: column - 1])
    return f"\n  {shown}\n  {before.ljust(column - 1)}^"
