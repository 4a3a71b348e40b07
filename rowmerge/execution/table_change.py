"""CREATE TABLE, CREATE OR REPLACE TABLE … AS, TRUNCATE and changes of a table's definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rowmerge.errors import AlreadyExists, AppendOnly, CommitStateUnknown, RowmergeError
from rowmerge.execution.commit import AS_THE_TABLE_SAYS, Attempt, CommitOptions, commit_with_retry, replay
from rowmerge.execution.insert import NewRows, partition_mask
from rowmerge.execution.metrics import insert_metrics, row_counts
from rowmerge.execution.result import ChangeResult, RowCounts, Timings
from rowmerge.plan.planner import static_partition
from rowmerge.plan.pruning.file_pruning import everything
from rowmerge.spark.writing.written import Written, discard
from rowmerge.table.commits.creation import CreationVersion
from rowmerge.table.commits.request import Change, Committed, Conflicted, Reads, Unknown
from rowmerge.table.metadata.partitioning import identity_columns, partition_by
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
    options: CommitOptions = AS_THE_TABLE_SAYS,
    *,
    or_replace: bool,
    base: Snapshot | None = None,
) -> ChangeResult:
    """CREATE [OR REPLACE] TABLE [… AS]: definition and rows in one commit; a replaced table keeps its history.

    `base`: the version of an existing table on which the rows were looked up. Raises AlreadyExists without `or_replace`.
    """
    first_version = table.creation_version()
    if first_version is not None:
        return _create(table, name, definition, rows, options, first_version)
    if (replayed := replay(table, options, Timings())) is not None:
        return replayed
    if not or_replace:
        raise AlreadyExists(f"The table {name} exists already. Add IF NOT EXISTS or OR REPLACE, or drop it first.")
    return _replace(table, definition, rows, base, options)


def _create(
    table: Table, name: str, definition: TableDefinition, rows: NewRows | None, options: CommitOptions, first_version: CreationVersion
) -> ChangeResult:
    timings = Timings()
    shape = table.shape(definition)
    definition = replace(definition, schema=shape.schema)
    with timings.measure("spark"):
        written = rows.write(shape) if rows is not None else Written()
    change = Change(
        "CREATE TABLE" if rows is None else "CREATE TABLE AS SELECT",
        parameters=_parameters(definition),
        metrics={} if rows is None else insert_metrics(written),
        files=FileChanges(tuple(written.files)),
        transaction=options.transaction,
    )
    try:
        with timings.measure("commit"):
            outcome = table.create(definition, change, first_version)
    except RowmergeError:
        # As in commit.py: raised only when nothing was committed.
        discard(written.files, shape.filesystem_options)
        raise
    match outcome:
        case Committed(version):
            return ChangeResult(version, row_counts(written, change.files), timings)
        case Conflicted(conflict):
            discard(written.files, shape.filesystem_options)
            if not table.exists():
                raise conflict
            if (replayed := replay(table, options, timings)) is not None:
                return replayed
            raise AlreadyExists(f"The table {name} was made by somebody else just now. Add IF NOT EXISTS or OR REPLACE.")
        case Unknown(reason):
            raise CommitStateUnknown(f"It is not known whether {name} was created: {reason}. Look at SHOW TABLES before you run it again.")


def truncate(
    spark: SparkSession, table: Table, partition: Sequence[tuple[str, str | None]] = (), options: CommitOptions = AS_THE_TABLE_SAYS
) -> ChangeResult:
    """All files leave, or those of a partition (column, value as SQL text), by metadata alone."""

    def change(snapshot: Snapshot) -> tuple[Change, RowCounts]:
        snapshot.check_writable()
        if snapshot.shape.rules.append_only:
            raise AppendOnly(snapshot.name, "TRUNCATE")
        values = static_partition(snapshot.schema, identity_columns(snapshot.shape.partitioning), partition, snapshot.name)
        mask = partition_mask(spark, snapshot, values)
        listing = snapshot.files()
        listing = listing.filter(mask(listing))
        deleted = listing.live_rows
        paths = tuple(listing.paths)
        files = FileChanges(removed=paths)
        counts = RowCounts(deleted=deleted, files_removed=len(paths))
        metrics = {"numRemovedFiles": len(paths), "numDeletedRows": deleted}
        parameters = {"predicate": [f"{name} <=> {text}" for name, text in values.items()]} if values else {}
        return Change("TRUNCATE", parameters, metrics, files, Reads(frozenset(paths), mask)), counts

    return _by_metadata(table, change, options)


def change_definition(
    table: Table,
    operation: str,
    parameters: dict[str, object],
    definition_for: Callable[[Snapshot], TableDefinition | None],
    options: CommitOptions = AS_THE_TABLE_SAYS,
    *,
    reads_rows: bool = False,
) -> ChangeResult:
    """Commit a new definition made from the newest one; None: nothing to change.

    `reads_rows`: the definition was held against every row, so rows that come in meanwhile are a conflict, and it is made again.
    """

    def change(snapshot: Snapshot) -> tuple[Change, RowCounts] | None:
        definition = definition_for(snapshot)
        if definition is None:
            return None
        reads = Reads(frozenset(snapshot.files().paths), everything) if reads_rows else Reads()
        return Change(operation, parameters=parameters, definition=definition, reads=reads), RowCounts()

    return _by_metadata(table, change, options)


def _by_metadata(table: Table, change_for: Callable[[Snapshot], tuple[Change, RowCounts] | None], options: CommitOptions) -> ChangeResult:
    timings = Timings()

    def attempt() -> Attempt:
        with timings.measure("plan"):
            snapshot = table.snapshot()
            made = change_for(snapshot)
        if made is None:
            return Attempt(snapshot, None, RowCounts())
        return Attempt(snapshot, made[0], made[1])

    return commit_with_retry(table, attempt, timings, options)


def _replace(
    table: Table, definition: TableDefinition, rows: NewRows | None, base: Snapshot | None, options: CommitOptions
) -> ChangeResult:
    timings = Timings()
    # Rows that come from the table itself are those of `base`, so on another version they would be wrong.
    stale = rows is not None and rows.reads_table

    def attempt() -> Attempt:
        with timings.measure("plan"):
            snapshot = base if base is not None and stale else table.snapshot()
            shape = table.shape(definition, snapshot, replace=True)
        with timings.measure("spark"):
            written = rows.write(shape) if rows is not None else Written()
        listing = snapshot.files()
        change = Change(
            "CREATE OR REPLACE TABLE" if rows is None else "CREATE OR REPLACE TABLE AS SELECT",
            parameters=_parameters(definition),
            metrics={} if rows is None else insert_metrics(written),
            files=FileChanges(tuple(written.files), tuple(listing.paths)),
            reads=Reads(frozenset(listing.paths), everything) if stale else Reads(),
            definition=replace(definition, schema=shape.schema),
            replace=True,
        )
        return Attempt(snapshot, change, row_counts(written, change.files), tuple(written.files))

    return commit_with_retry(table, attempt, timings, replace(options, retries=0) if stale else options)


def _parameters(definition: TableDefinition) -> dict[str, object]:
    return {
        "isManaged": "true",
        "description": definition.description or "",
        "partitionBy": partition_by(definition.partitioning or ()),
        "properties": dict(definition.properties or {}),
    }
