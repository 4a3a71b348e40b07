"""EXPLAIN of statements that write: the plan, the files to read and to remove, and the execution strategy. No Spark job runs."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyroaring import BitMap64

from rowmerge.commands.definitions import CreateTable
from rowmerge.commands.rows import Match
from rowmerge.execution.insert import NewRows, Overwrite, static_mask
from rowmerge.execution.result import Timings
from rowmerge.execution.ways.row_writing import changes_both_unmatched_sides, is_selective
from rowmerge.execution.ways.selection import explain_ways
from rowmerge.execution.ways.target_files import TargetFiles
from rowmerge.execution.ways.way import PlannedStatement, RowChangeRequest
from rowmerge.plan.bounds.file_bounds import FileBounds
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.file_strategy import FEW_FILES, REWRITE_BYTES, REWRITE_FRACTION, SMALL_FILE, TOGETHER
from rowmerge.plan.predicates.comparisons import Predicate
from rowmerge.plan.predicates.predicates import to_predicate
from rowmerge.plan.row_plan import Effect, RowPlan
from rowmerge.spark.matching.joins import choose_join, merge_outcomes, unmatched_rows
from rowmerge.spark.reading.metadata_columns import FilesWithMetadataColumns
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.source.source import unevaluated
from rowmerge.spark.time_zones import session_time_zone
from rowmerge.spark.values.outcomes import OutcomeShape, new_rows, outcome_rows
from rowmerge.table.metadata.schema import Struct, backquote, quote
from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import FileListing, FileMask
from rowmerge.table.snapshots.snapshot import RowFiles, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN_COLUMNS = 5
"""The maximum number of column names in a line of EXPLAIN."""


def explain_row_change(spark: SparkSession, snapshot: Snapshot, statement: PlannedStatement, source: str | None) -> list[str]:
    """Return the lines of EXPLAIN for MERGE, UPDATE, DELETE and INSERT … REPLACE.

    Args:
        spark: The Spark session, which analyses the names and types of the statement.
        snapshot: The version of the table on which the statement is planned.
        statement: The plan of the statement, with its source.
        source: The description of the source, or None for a statement without a source.

    Raises:
        RowmergeError: A name or a type in the statement is wrong. For example, UnknownColumn and TypeMismatch are raised.
    """
    _check_names_and_types(spark, snapshot, statement)
    plan = statement.plan
    request = RowChangeRequest(spark, snapshot, statement, measure=Timings().measure)  # EXPLAIN prints no times
    return [
        *str(plan).splitlines(),
        *_source_lines(source, statement.reads_table),
        *explain_ways(request),
        *_late_column_lines(request),
        *_file_lines(snapshot, plan, request.files, session_time_zone(spark)),
        *_checks_and_version(snapshot, plan),
    ]


def _late_column_lines(request: RowChangeRequest) -> list[str]:
    """Explain which columns Spark does not read, because the writer copies the values that updated rows keep."""
    if is_selective(request.plan) or changes_both_unmatched_sides(request.plan) or not request.late_columns:
        return []
    names = [backquote(name) for name in request.snapshot.schema.names if name in request.late_columns]
    shown_names = ", ".join(names if len(names) <= _SHOWN_COLUMNS else [*names[:_SHOWN_COLUMNS], f"{len(names) - _SHOWN_COLUMNS} more"])
    return [f"    if many rows change, the writer copies columns that updates keep from the files: {shown_names}"]


def _file_lines(snapshot: Snapshot, plan: RowPlan, files: TargetFiles, time_zone: str | None) -> list[str]:
    """Explain which files the statement reads, removes and changes.

    The first lines show the number of files, and the effect of each condition and of the keys. The other lines show the files that are
    removed without reading them, and the write mode.
    """
    lines = [f"  files: {len(files.candidates)} of {len(files.listing)} may contain rows to change ({_size(files.candidates)})"]
    target_files = FilesWithMetadataColumns(snapshot, plan.metadata_columns)
    lines += [f"    {text}: {effect_of_condition(target_files, plan.target, text, time_zone)}" for text in plan.conjuncts]
    lines += _effect_of_keys(plan)
    if len(files.removable):
        lines.append(f"  by metadata only: {len(files.removable)} file(s) are removed without reading them ({_size(files.removable)})")
    changes_target_rows = any(clause.effect is not Effect.INSERT for clause in plan.clauses)
    if len(files.to_read) and changes_target_rows:
        lines += _write_mode_lines(snapshot, plan, files.to_read)
    return lines


def _write_mode_lines(snapshot: Snapshot, plan: RowPlan, files: FileListing) -> list[str]:
    """Explain the write mode of the statement, and how it changes each file that loses rows."""
    mode, shape = snapshot.settings.write_mode(plan.operation), snapshot.shape
    on_or_off = "on" if shape.supports_merge_on_read else "off"
    rule = _explain_write_mode(mode, files, shape)
    return [f"  write mode: {mode.value}, {shape.kind_of_deletes}s {on_or_off}", f"    {rule}; a file that loses all its rows is removed"]


def _effect_of_keys(plan: RowPlan) -> list[str]:
    """Explain whether the keys of the source exclude more files at run time. Return no lines for a statement without keys."""
    if plan.on is None:
        return []
    if plan.of(Match.NOT_MATCHED_BY_SOURCE):
        return ["    WHEN NOT MATCHED BY SOURCE applies to rows without a match, so every file is read"]
    columns = ", ".join(".".join(map(backquote, key.path)) for key in plan.on.keys)
    return [f"    at run time, the source's values of {columns} exclude more files"] if columns else []


def explain_insert(snapshot: Snapshot, insert_rows: NewRows, source: str, overwrite: Overwrite | None) -> list[str]:
    """Return the lines of EXPLAIN for INSERT INTO and INSERT OVERWRITE.

    Args:
        snapshot: The version of the table on which the statement is planned.
        insert_rows: The rows to insert, with their mapping to the table's columns.
        source: The description of the query.
        overwrite: The files that INSERT OVERWRITE removes, or None for INSERT INTO.
    """
    plan = insert_rows.plan(snapshot)
    _check_query(insert_rows, plan)
    _, *clause_lines = str(plan).splitlines()  # without the first line, the operation and the table
    return [
        f"INSERT {'INTO' if overwrite is None else 'OVERWRITE'} {snapshot.name}",
        *clause_lines,
        *_source_lines(source, insert_rows.reads_table),
        *_insert_file_lines(snapshot, insert_rows, overwrite),
        *_checks_and_version(snapshot, plan),
    ]


def _check_query(insert_rows: NewRows, plan: RowPlan) -> None:
    """Raise the errors that Spark's analysis finds in the names and types of a query. Spark analyses a DataFrame when it is created."""
    new_rows(insert_rows.source.alias(insert_rows.plan_source.alias), plan, plan.clauses)


def _insert_file_lines(snapshot: Snapshot, rows: NewRows, overwrite: Overwrite | None) -> list[str]:
    """Explain which files an INSERT INTO or INSERT OVERWRITE removes."""
    if overwrite is None:
        commit_line = "  commit: a blind append, which conflicts only with changes of the table definition"
        return [f"  files: none of {len(snapshot.files())} is read or removed", *([] if rows.reads_table else [commit_line])]
    if not overwrite.is_dynamic(snapshot):
        return [_removed_files_line(snapshot, static_mask(snapshot, rows), if_not_exists=overwrite.if_not_exists)]
    partition_fields = ", ".join(f"`{field.name}`" if field.identity else field.text for field in snapshot.shape.partitioning)
    return [f"  files: of {len(snapshot.files())}, those whose partition ({partition_fields}) receives a row at run time are removed"]


def _removed_files_line(snapshot: Snapshot, mask: FileMask, *, if_not_exists: bool = False) -> str:
    """Explain how many files the statement removes, or that IF NOT EXISTS keeps them. `mask` selects the files to remove."""
    listing = snapshot.files()
    removed = listing.filter(mask(listing))
    if if_not_exists and len(removed):
        return f"  IF NOT EXISTS: the partition contains {len(removed)} file(s) ({_size(removed)}), so nothing is written"
    return f"  files: {len(removed)} of {len(listing)} are removed by metadata only, without reading them ({_size(removed)})"


def explain_truncate(snapshot: Snapshot, mask: FileMask) -> list[str]:
    """Return the lines of EXPLAIN for TRUNCATE TABLE.

    Args:
        snapshot: The version of the table on which the statement is planned.
        mask: The function that returns true for each file to remove.
    """
    version = f"  on version {snapshot.version}, isolation level {snapshot.settings.isolation_level('TRUNCATE')}"
    return [f"TRUNCATE {snapshot.name}", _removed_files_line(snapshot, mask), version]


def explain_create(name: str, command: CreateTable, columns: Struct, existing: Snapshot | None, source: str) -> list[str]:
    """Return the lines of EXPLAIN for CREATE [OR REPLACE] TABLE … AS SELECT.

    Args:
        name: The table name, qualified with its schema.
        command: The statement.
        columns: The columns of the query.
        existing: The newest version of the table with this name, or None if there is no such table.
        source: The description of the query.
    """
    lines = [f"CREATE{' OR REPLACE' if command.or_replace else ''} TABLE {name} AS SELECT"]
    lines += [f"  column {quote(column.name)} {column.sql_type}" for column in columns]
    if command.partitioned_by:
        lines.append(f"  partitioned by {', '.join(field.text for field in command.partitioned_by)}")
    return [*lines, *_source_lines(source, reads_table=False), _effect_on_existing(command, existing)]


def _effect_on_existing(command: CreateTable, existing: Snapshot | None) -> str:
    """Explain what CREATE TABLE does to an existing table of the same name."""
    if existing is None:
        return "  the table does not exist: the definition and the rows become its version 0"
    if command.if_not_exists:
        return "  IF NOT EXISTS: the table exists, so nothing is done"
    if not command.or_replace:
        return "  the table exists, so the statement fails"
    listing = existing.files()
    return f"  files: all {len(listing)} of version {existing.version} are removed ({_size(listing)}), and the history is kept"


def _source_lines(source: str | None, reads_table: bool) -> list[str]:
    """Explain the source of a statement, and whether the statement reads the table that it changes."""
    lines = [] if source is None else [f"  source: {source}"]
    if reads_table:
        lines.append("  reads the table that it changes: every row of this version counts as read")
    return lines


def _checks_and_version(snapshot: Snapshot, plan: RowPlan) -> list[str]:
    """Explain the checks of written rows, the change data feed, and the version and isolation level of the statement."""
    rules = [check.text for check in plan.rules.checks]
    lines = [f"  checks of every written row: {', '.join(rules)}"] if rules else []
    if snapshot.shape.change_data_location is not None:
        lines.append("  change data feed: the changed rows are also written")
    return [*lines, f"  on version {snapshot.version}, isolation level {snapshot.settings.isolation_level(plan.operation)}"]


def _check_names_and_types(spark: SparkSession, snapshot: Snapshot, statement: PlannedStatement) -> None:
    """Raise the errors that Spark's analysis finds in the names and types of a statement. No Spark job runs.

    Spark analyses a DataFrame when it is created. So this function creates the DataFrames of the statement without any files, and discards
    them.
    """
    plan = statement.plan
    no_files = snapshot.files().without_files()
    target = read_snapshot(spark, snapshot, no_files, with_addresses=True, metadata_columns=plan.metadata_columns.names)
    if plan.on is None:  # UPDATE, DELETE and INSERT … REPLACE WHERE
        _analyse_target_clauses(plan, target.alias(plan.target.alias))
    if statement.source is None:
        return
    source = unevaluated(statement.source.frame)
    if plan.on is not None:  # MERGE, INSERT … REPLACE USING and ON
        merge_outcomes(plan, choose_join(plan, source), target, source)
    if plan.of(Match.NOT_MATCHED):
        unmatched_rows(plan, source, matched=BitMap64())


def _analyse_target_clauses(plan: RowPlan, target: DataFrame) -> None:
    """Make Spark analyse the clauses that read only the target. `target` has the alias of the plan's target."""
    for clause in plan.of(Match.NOT_MATCHED_BY_SOURCE):
        changed_rows = target if clause.condition is None else target.where(clause.condition)
        outcome_rows(changed_rows, plan, [("true", replace(clause, condition=None))], OutcomeShape(addresses=True))


def effect_of_condition(snapshot: RowFiles, side: Side, condition: str, time_zone: str | None, *, case_sensitive: bool = False) -> str:
    """Explain how many files a condition excludes, by partition values or column bounds, or why it excludes none.

    Args:
        snapshot: The version of the table.
        side: The alias and the columns by which the condition refers to the table.
        condition: The SQL condition.
        time_zone: The name of the session's time zone, or None if it is unknown.
        case_sensitive: Whether the names in the condition are case-sensitive.
    """
    schema, partition_columns = snapshot.schema, snapshot.partition_columns
    predicate = to_predicate(condition, side, schema, partition_columns, case_sensitive=case_sensitive, time_zone=time_zone)
    listing = snapshot.files([name for name in predicate.columns if name not in partition_columns])
    excluded = _count_excluded(predicate, listing)
    if excluded:
        return f"excludes {excluded:,} by {_means_of_exclusion(predicate, listing, excluded)}"
    if not predicate.columns:
        return "cannot exclude files"
    unknown = _files_without_bounds(schema.select(name for name in predicate.columns if name not in partition_columns), listing)
    return f"excludes none; bounds are unknown in {unknown:,} of {len(listing):,} files" if unknown else "excludes none"


def _count_excluded(predicate: Predicate, listing: FileListing) -> int:
    """Return the number of files in which the predicate is certainly true for no row."""
    return len(listing) - (pc.sum(predicate.evaluate(FileBounds(listing)).may_be_true).as_py() or 0)


def _means_of_exclusion(predicate: Predicate, listing: FileListing, excluded: int) -> str:
    """Explain by what a predicate excludes files: by partition values, which include transforms, or by statistics of columns."""
    by_partition = _count_excluded(predicate, listing.without_statistics())
    if by_partition == excluded:
        return "partition values"
    return f"partition values and statistics, {by_partition:,} of them by partition values" if by_partition else "statistics"


def _files_without_bounds(columns: Struct, listing: FileListing) -> int:
    """Return the number of files that may have values in one of the columns, but no bounds of them."""
    bounds = [FileBounds(listing).of_column(column, False) for column in columns]
    unknown = [pc.and_(column.has_values, pc.or_(pc.is_null(column.lower), pc.is_null(column.upper))) for column in bounds]
    return pc.sum(reduce(pc.or_, unknown)).as_py() or 0 if unknown else 0


def _explain_write_mode(mode: WriteMode, files: FileListing, shape: TableShape) -> str:
    """Explain which files are rewritten when they lose rows, and which get a deletion vector or a position delete file instead."""
    if mode is WriteMode.COPY_ON_WRITE:
        return "a file that loses rows is rewritten without them"
    if not shape.supports_merge_on_read:
        return f"a file that loses rows is rewritten without them, because {shape.kind_of_deletes}s are off for this table"
    if mode is WriteMode.MERGE_ON_READ:
        return f"a file that loses rows gets a {shape.kind_of_deletes}"
    # AUTO: each file gets the cheaper of the two. `SMALL_FILE` is a size in bytes.
    small_files = pc.sum(pc.less_equal(files.sizes, SMALL_FILE)).as_py() or 0
    limit = f"; of more than {FEW_FILES} of these or {TOGETHER // 2**20} MiB, only some are combined" if shape.shares_deletion_files else ""
    return (
        f"a file is rewritten if its deleted rows take {REWRITE_FRACTION:.0%} of its size plus {REWRITE_BYTES // 2**10} KiB, "
        f"or if it has at most {SMALL_FILE // 2**20} MiB ({small_files} of {len(files)}{limit}); "
        f"any other file gets a {shape.kind_of_deletes}"
    )


def _size(files: FileListing) -> str:
    """Return the number of live rows in the files and their total size as text: `3 row(s), 1,234 bytes`."""
    rows = "rows unknown" if files.records.null_count else f"{files.live_rows:,} row(s)"
    return f"{rows}, {files.total_size:,} bytes"
