"""CREATE TABLE, CREATE OR REPLACE TABLE … AS SELECT, TRUNCATE, and changes to the definition of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.errors import AlreadyExists, AppendOnly, CommitConflict, CommitStateUnknown, TableError
from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS, Attempt, CommitOptions, commit_with_retry, find_earlier_result, run_attempt
from rowmerge.execution.insert import NewRows
from rowmerge.execution.partition_masks import partition_mask
from rowmerge.execution.result import ChangeResult, Timings, insert_metrics, removal_metrics, row_counts
from rowmerge.execution.row_counts import RowCounts
from rowmerge.plan.insert_columns import static_partition
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.spark.reading.file_statistics import computed_statistics
from rowmerge.spark.writing.write_output import WriteOutput, discard, discard_if_rejected
from rowmerge.table.commits.creation import CreationVersion
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads, Unknown
from rowmerge.table.maintenance import IncompleteFile
from rowmerge.table.metadata.partitioning import partition_by
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, FileListing
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Partition = Sequence[tuple[str, str | None]]
"""The columns of PARTITION (p = value, …), each with the SQL text of its value."""


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
    """Run CREATE [OR REPLACE] TABLE [… AS SELECT]: commit the definition and the rows together. A replaced table keeps its history.

    Args:
        table: The table to create or to replace.
        name: The name of the table for error messages.
        definition: The schema, partitioning, properties and description of the table.
        rows: The rows of AS SELECT, or None if there is no query.
        options: The number of retries, and the transaction of the commit.
        or_replace: Whether the statement replaces an existing table.
        base: The snapshot of the existing table that the query reads, or None if there is no such table.

    Raises:
        AlreadyExists: The table exists, and `or_replace` is false.
        CommitConflict: All attempts to replace the table conflict with concurrent commits.
        CommitStateUnknown: The commit may or may not have happened.
    """
    creation_version = table.creation_version()
    if creation_version is not None:
        return _write_and_create(table, name, definition, rows, options, creation_version)
    timings = Timings()
    if (earlier_result := find_earlier_result(table, options, timings)) is not None:
        return earlier_result
    if not or_replace:
        raise AlreadyExists(f"The table {name} already exists. Add IF NOT EXISTS or OR REPLACE, or drop it first.")
    if rows is not None and rows.reads_table:
        # The query read the rows from `base`. On another version, it may return other rows.
        options = replace(options, retries=0)
    else:
        base = None  # each attempt replaces the newest version
    return commit_with_retry(table, lambda: _write_replacement(table, definition, rows, base, timings), timings, options)


def _write_and_create(
    table: Table, name: str, definition: TableDefinition, rows: NewRows | None, options: CommitOptions, creation_version: CreationVersion
) -> ChangeResult:
    """Write the rows of a new table, and commit them together with its definition as the first version.

    The rows are written before the commit, so that readers see the table with all its rows or not at all. If the commit certainly did
    not happen, the written files are deleted. If its outcome is unknown, the files stay, because the table may refer to them.
    `creation_version` is the version that the commit creates.
    """
    timings = Timings()
    complete_request = options.begin_request(table)
    # The table's format completes the definition, for example with the ids of columns.
    table_shape = table.resolve_shape(definition)
    definition = replace(definition, schema=table_shape.schema)
    with timings.measure("spark"):
        output = WriteOutput() if rows is None else run_attempt(partial(rows.write, table_shape))
    commit_request = replace(_creation_request("CREATE TABLE", definition, rows, output), transaction=options.transaction)
    # An error that rejects the commit deletes the files here. A lost race is not an error but an outcome: see `Conflicted` below.
    with discard_if_rejected(output.files, table_shape.filesystem_options), timings.measure("commit"):
        outcome = table.create(definition, complete_request(commit_request), creation_version)
    match outcome:
        case Committed(version):
            if options.after_commit is not None:
                options.after_commit(table, None, commit_request.files, timings)
            return ChangeResult(version, row_counts(output, commit_request.files), timings)
        case Conflicted(conflict):
            discard(output.files, table_shape.filesystem_options)
            # The other writer may be an earlier run of the same transaction. Then its result is the result of this statement.
            return _find_earlier_creation(table, name, conflict, options, timings)
        case Unknown(reason):
            raise CommitStateUnknown(f"It is unknown whether {name} was created: {reason}. Check SHOW TABLES before you run it again.")


def _find_earlier_creation(table: Table, name: str, conflict: CommitConflict, options: CommitOptions, timings: Timings) -> ChangeResult:
    """Return the result of another run of the same transaction that created the table first.

    Raise AlreadyExists if another statement created the table, and `conflict` if the table no longer exists.
    """
    if not table.exists():
        raise conflict
    earlier_result = find_earlier_result(table, options, timings)
    if earlier_result is None:
        raise AlreadyExists(f"A concurrent statement created the table {name}. Add IF NOT EXISTS or OR REPLACE.")
    return earlier_result


def truncate(spark: SparkSession, table: Table, partition: Partition = (), options: CommitOptions = DEFAULT_COMMIT_OPTIONS) -> ChangeResult:
    """Run TRUNCATE TABLE: remove all files, or the files of one partition, without reading them.

    Args:
        spark: The Spark session that evaluates the partition values.
        table: The table to truncate.
        partition: The columns of PARTITION (p = value), each with the SQL text of its value. Empty to remove all files.
        options: The number of retries, and the transaction of the commit.
    """
    return _commit_planned_change(table, lambda snapshot: _removal(spark, snapshot, "TRUNCATE", [partition]), options)


def drop_partitions(
    spark: SparkSession, table: Table, partitions: Sequence[Partition], options: CommitOptions, *, if_exists: bool
) -> ChangeResult:
    """Run ALTER TABLE … DROP PARTITION: remove the files of whole partitions, without reading them.

    Args:
        spark: The Spark session that evaluates the partition values.
        table: The table.
        partitions: The columns of each PARTITION (p = value), with the SQL text of their values.
        options: The number of retries, and the transaction of the commit.
        if_exists: Whether a partition may have no rows. Otherwise, it is an error.
    """

    def plan_change(snapshot: Snapshot) -> tuple[CommitRequest, RowCounts] | None:
        for partition in () if if_exists else partitions:
            _, counts = _removal(spark, snapshot, "DROP PARTITION", [partition])
            if not counts.files_removed:
                text = ", ".join(f"{name} = {value}" for name, value in partition)
                raise TableError(f"{snapshot.name} has no rows in PARTITION ({text}). Add IF EXISTS to accept that.")
        change, counts = _removal(spark, snapshot, "DROP PARTITION", partitions)
        return (change, counts) if counts.files_removed else None

    return _commit_planned_change(table, plan_change, options)


def _removal(spark: SparkSession, snapshot: Snapshot, operation: str, partitions: Sequence[Partition]) -> tuple[CommitRequest, RowCounts]:
    """Return the commit that removes the files of partitions, and the counts of removed rows and files. An empty partition is the table.

    Raise AppendOnly for an append-only table, and UnknownColumn or PlanError for a column by which the table is not partitioned.
    """
    snapshot.check_writable()
    if snapshot.shape.rules.append_only:
        raise AppendOnly(snapshot.name, operation)
    values = [static_partition(snapshot.shape, partition) for partition in partitions]
    masks = [partition_mask(spark, snapshot, partition_values) for partition_values in values]

    def mask(listing: FileListing) -> pa.BooleanArray:
        return reduce(pc.or_, [partition_mask(listing) for partition_mask in masks])

    listing = snapshot.files()
    removed = listing.filter(mask(listing))
    predicate = [" and ".join(f"{name} <=> {text}" for name, text in partition.items()) for partition in values if partition]
    change = CommitRequest(
        operation,
        parameters={"predicate": predicate} if predicate else {},
        metrics={**removal_metrics(removed), "numDeletedRows": removed.live_rows},
        files=FileChanges(removed=tuple(removed.paths)),
        reads=Reads(frozenset(removed.paths), may_match=mask),  # a file that a concurrent commit adds there is a conflict
    )
    return change, RowCounts(deleted=removed.live_rows, files_removed=len(removed))


def recompute_statistics(spark: SparkSession, table: Table, options: CommitOptions) -> ChangeResult:
    """Read all rows of a Delta table, and commit the statistics of its files. No row changes.

    Args:
        spark: The Spark session that reads the rows.
        table: The table.
        options: The number of retries after conflicts.

    Raises:
        CommitConflict: In all attempts, a concurrent commit has changed rows of these files.
    """

    def plan_change(snapshot: Snapshot) -> tuple[CommitRequest, RowCounts] | None:
        snapshot.check_writable()
        files = computed_statistics(spark, snapshot)
        reads = Reads(frozenset(file.path for file in files))  # statistics must not apply to a file that a concurrent commit removes
        change = CommitRequest("COMPUTE STATS", files=FileChanges(restated=files), reads=reads, data_change=False)
        return (change, RowCounts()) if files else None

    return _commit_planned_change(table, plan_change, options)


DefinitionFor = Callable[[Snapshot], TableDefinition | None]
"""A function that returns the new definition of a table, given its current snapshot, or None if the definition stays the same."""


def change_definition(
    table: Table, operation: str, parameters: dict[str, object], definition_for: DefinitionFor, *, reads_rows: bool = False
) -> ChangeResult:
    """Commit the definition that `definition_for` derives from the newest snapshot. Commit nothing if it returns None.

    Args:
        table: The table to change.
        operation: The name of the operation for the table's history.
        parameters: The operation parameters for the table's history.
        definition_for: The function that returns the changed parts of the definition for a snapshot. It is called once per attempt.
        reads_rows: Whether every row was verified against the definition. If so, new rows of a concurrent commit are a conflict.
    """

    def plan_change(snapshot: Snapshot) -> tuple[CommitRequest, RowCounts] | None:
        definition = definition_for(snapshot)
        if definition is None:
            return None
        reads = Reads(frozenset(snapshot.files().paths), may_match=every_file) if reads_rows else Reads()
        return CommitRequest(operation, parameters=parameters, definition=definition, reads=reads), RowCounts()  # no rows change

    return _commit_planned_change(table, plan_change, DEFAULT_COMMIT_OPTIONS)


def remove_missing_files(table: Table, options: CommitOptions, *, dry_run: bool) -> tuple[list[IncompleteFile], ChangeResult | None]:
    """Run FSCK REPAIR TABLE: remove the data files from the table that do not exist, or whose deletion vector does not exist.

    Args:
        table: The table to repair.
        options: The number of retries, and the transaction of the commit.
        dry_run: Whether the files are only looked for.

    Returns:
        The files, and the result of the commit; None for a dry run.

    Raises:
        MissingDataFile: A delete file of an Iceberg table does not exist.
        AppendOnly: The table is append-only, and a file is missing.
        StorageError: The store failed.
    """
    if dry_run:
        return table.incomplete_files(table.snapshot()), None
    incomplete_files: list[IncompleteFile] = []

    def plan(snapshot: Snapshot) -> tuple[CommitRequest, RowCounts] | None:
        snapshot.check_writable()
        incomplete_files[:] = table.incomplete_files(snapshot)
        if not incomplete_files:
            return None
        paths = tuple(file.path for file in incomplete_files)
        request = CommitRequest("FSCK", metrics={"numRemovedFiles": len(paths)}, files=FileChanges(removed=paths))
        return request, RowCounts(files_removed=len(paths))

    result = _commit_planned_change(table, plan, options)
    return incomplete_files, result


def _commit_planned_change(
    table: Table, plan_change: Callable[[Snapshot], tuple[CommitRequest, RowCounts] | None], options: CommitOptions
) -> ChangeResult:
    """Commit the change that `plan_change` derives from the newest snapshot, with its counts. Commit nothing if it returns None."""
    timings = Timings()

    def attempt() -> Attempt:
        with timings.measure("plan"):
            snapshot = table.snapshot()
            change, counts = plan_change(snapshot) or (None, RowCounts())
        return Attempt(snapshot, change, counts)

    return commit_with_retry(table, attempt, timings, options)


def _write_replacement(table: Table, definition: TableDefinition, rows: NewRows | None, base: Snapshot | None, timings: Timings) -> Attempt:
    """Write the rows of CREATE OR REPLACE TABLE, and return the attempt that replaces the table.

    `base`: the version to replace, or None for the newest version.
    """
    with timings.measure("plan"):
        snapshot = table.snapshot() if base is None else base
        table_shape = table.resolve_shape(definition, snapshot, replace=True)
    with timings.measure("spark"):
        output = WriteOutput() if rows is None else rows.write(table_shape)
    old_files = snapshot.files()
    old_paths = old_files.paths
    reads_table = rows is not None and rows.reads_table  # then every concurrent change of rows is a conflict
    creation = _creation_request("CREATE OR REPLACE TABLE", definition, rows, output)
    change = replace(
        creation,
        metrics={**creation.metrics, **removal_metrics(old_files)},
        files=FileChanges(added=tuple(output.files), removed=tuple(old_paths)),
        reads=Reads(frozenset(old_paths), may_match=every_file) if reads_table else Reads(),
        definition=replace(definition, schema=table_shape.schema),
        replace=True,  # the definition replaces that of the table as a whole
    )
    return Attempt(snapshot, change, row_counts(output, change.files), tuple(output.files))


def _creation_request(operation: str, definition: TableDefinition, rows: NewRows | None, output: WriteOutput) -> CommitRequest:
    """Return the commit that adds the written files. The operation, parameters and metrics have the names that delta-spark uses."""
    parameters = {
        "isManaged": "true",
        "description": definition.description or "",
        "partitionBy": partition_by(definition.partitioning or ()),
        "properties": dict(definition.properties or {}),
    }
    files = FileChanges(tuple(output.files))
    if rows is None:  # without AS SELECT
        return CommitRequest(operation, parameters, files=files)
    return CommitRequest(f"{operation} AS SELECT", parameters, insert_metrics(output), files)
