"""Run CREATE TABLE, CREATE OR REPLACE TABLE … AS, TRUNCATE and changes of a table's definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rowmerge.errors import AlreadyExists, AppendOnly, CommitConflict, CommitStateUnknown
from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS, Attempt, CommitOptions, commit_with_retry, find_earlier_result
from rowmerge.execution.insert import NewRows, partition_mask
from rowmerge.execution.result import ChangeResult, RowCounts, Timings, insert_metrics, row_counts
from rowmerge.plan.planner import static_partition
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.spark.writing.written import Written, discard, discard_if_rejected
from rowmerge.table.commits.creation import CreationVersion
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads, Unknown
from rowmerge.table.metadata.partitioning import partition_by
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_table(
    table: Table,
    name: str,
    definition: TableDefinition,
    rows: NewRows | None,
    options: CommitOptions = DEFAULT_COMMIT_OPTIONS,
    *,
    or_replace: bool,
    base: Snapshot | None = None,
) -> ChangeResult:
    """Run CREATE [OR REPLACE] TABLE [… AS]: commit the definition and the rows together. A replaced table keeps its history.

    `base`: the snapshot of an existing table that the query of the rows read. Raises AlreadyExists without `or_replace`.
    """
    first_version = table.creation_version()
    if first_version is not None:
        return _create(table, name, definition, rows, options, first_version)
    timings = Timings()
    if (earlier_result := find_earlier_result(table, options, timings)) is not None:
        return earlier_result
    if not or_replace:
        raise AlreadyExists(f"The table {name} exists already. Add IF NOT EXISTS or OR REPLACE, or drop it first.")
    if rows is not None and rows.reads_table:
        # Rows that the query read from the table itself belong to `base`. They would be wrong in a commit on another version.
        options = replace(options, retries=0)
    else:
        base = None
    return commit_with_retry(table, lambda: _replacement(table, definition, rows, base, timings), timings, options)


def _create(
    table: Table, name: str, definition: TableDefinition, rows: NewRows | None, options: CommitOptions, first_version: CreationVersion
) -> ChangeResult:
    """Write the rows of a new table and commit its first version. Files of a rejected commit are deleted."""
    timings = Timings()
    shape = table.shape(definition)
    definition = replace(definition, schema=shape.schema)
    with timings.measure("spark"):
        written = rows.write(shape) if rows is not None else Written()
    change = CommitRequest(
        "CREATE TABLE" if rows is None else "CREATE TABLE AS SELECT",
        parameters=_parameters(definition),
        metrics={} if rows is None else insert_metrics(written),
        files=FileChanges(tuple(written.files)),
        transaction=options.transaction,
    )
    with discard_if_rejected(written.files, shape.filesystem_options), timings.measure("commit"):
        outcome = table.create(definition, change, first_version)
    match outcome:
        case Committed(version):
            return ChangeResult(version, row_counts(written, change.files), timings)
        case Conflicted(conflict):
            discard(written.files, shape.filesystem_options)
            return _find_earlier_creation(table, name, conflict, options, timings)
        case Unknown(reason):
            raise CommitStateUnknown(f"It is not known whether {name} was created: {reason}. Look at SHOW TABLES before you run it again.")


def _find_earlier_creation(table: Table, name: str, conflict: CommitConflict, options: CommitOptions, timings: Timings) -> ChangeResult:
    """Return the result of another run of the same transaction that created the table first. Raises AlreadyExists otherwise."""
    if not table.exists():
        raise conflict
    earlier_result = find_earlier_result(table, options, timings)
    if earlier_result is None:
        raise AlreadyExists(f"The table {name} was made by somebody else just now. Add IF NOT EXISTS or OR REPLACE.")
    return earlier_result


def truncate(
    spark: SparkSession, table: Table, partition: Sequence[tuple[str, str | None]] = (), options: CommitOptions = DEFAULT_COMMIT_OPTIONS
) -> ChangeResult:
    """Remove all files, or those of a partition (pairs of a column and its value as SQL text), by metadata alone."""
    return _change_metadata(table, lambda snapshot: _truncation(spark, snapshot, partition), options)


def _truncation(spark: SparkSession, snapshot: Snapshot, partition: Sequence[tuple[str, str | None]]) -> tuple[CommitRequest, RowCounts]:
    """Return the commit that removes the files of a partition. Raises AppendOnly, UnknownColumn, PlanError."""
    snapshot.check_writable()
    if snapshot.shape.rules.append_only:
        raise AppendOnly(snapshot.name, "TRUNCATE")
    values = static_partition(snapshot.shape, partition)
    mask = partition_mask(spark, snapshot, values)
    listing = snapshot.files()
    removed = listing.filter(mask(listing))
    change = CommitRequest(
        "TRUNCATE",
        parameters={"predicate": [f"{name} <=> {text}" for name, text in values.items()]} if values else {},
        metrics={"numRemovedFiles": len(removed), "numDeletedRows": removed.live_rows},
        files=FileChanges(removed=tuple(removed.paths)),
        reads=Reads(frozenset(removed.paths), mask),
    )
    return change, RowCounts(deleted=removed.live_rows, files_removed=len(removed))


DefinitionFor = Callable[[Snapshot], TableDefinition | None]
"""Returns the new definition, given the snapshot that the statement changes, or None if the definition stays."""


def change_definition(
    table: Table, operation: str, parameters: dict[str, object], definition_for: DefinitionFor, *, reads_rows: bool = False
) -> ChangeResult:
    """Commit the definition that `definition_for` derives from the newest snapshot, or nothing if the result is None.

    `reads_rows`: whether the definition was verified against every row. Then new rows of a concurrent commit are a conflict.
    """

    def change_for(snapshot: Snapshot) -> tuple[CommitRequest, RowCounts] | None:
        definition = definition_for(snapshot)
        if definition is None:
            return None
        reads = Reads(frozenset(snapshot.files().paths), every_file) if reads_rows else Reads()
        return CommitRequest(operation, parameters=parameters, definition=definition, reads=reads), RowCounts()

    return _change_metadata(table, change_for, DEFAULT_COMMIT_OPTIONS)


def _change_metadata(
    table: Table, change_for: Callable[[Snapshot], tuple[CommitRequest, RowCounts] | None], options: CommitOptions
) -> ChangeResult:
    """Commit the change that `change_for` derives from the newest snapshot, or nothing if the result is None."""
    timings = Timings()

    def attempt() -> Attempt:
        with timings.measure("plan"):
            snapshot = table.snapshot()
            change, counts = change_for(snapshot) or (None, RowCounts())
        return Attempt(snapshot, change, counts)

    return commit_with_retry(table, attempt, timings, options)


def _replacement(table: Table, definition: TableDefinition, rows: NewRows | None, base: Snapshot | None, timings: Timings) -> Attempt:
    """Write the rows, and return the commit that replaces the table on `base`, or on the newest version without `base`."""
    with timings.measure("plan"):
        snapshot = table.snapshot() if base is None else base
        shape = table.shape(definition, snapshot, replace=True)
    with timings.measure("spark"):
        written = rows.write(shape) if rows is not None else Written()
    listing = snapshot.files()
    change = CommitRequest(
        "CREATE OR REPLACE TABLE" if rows is None else "CREATE OR REPLACE TABLE AS SELECT",
        parameters=_parameters(definition),
        metrics={} if rows is None else insert_metrics(written),
        files=FileChanges(tuple(written.files), tuple(listing.paths)),
        reads=Reads(frozenset(listing.paths), every_file) if rows is not None and rows.reads_table else Reads(),
        definition=replace(definition, schema=shape.schema),
        replace=True,
    )
    return Attempt(snapshot, change, row_counts(written, change.files), tuple(written.files))


def _parameters(definition: TableDefinition) -> dict[str, object]:
    return {
        "isManaged": "true",
        "description": definition.description or "",
        "partitionBy": partition_by(definition.partitioning or ()),
        "properties": dict(definition.properties or {}),
    }
