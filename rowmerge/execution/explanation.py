"""What EXPLAIN prints of a statement that writes: its plan, and what is known of files and rows before anything is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyroaring import BitMap64

from rowmerge.commands.rows import Match
from rowmerge.execution.insert import NewRows, static_mask
from rowmerge.execution.result import Timings
from rowmerge.execution.ways.request import Planned, Request
from rowmerge.execution.ways.selection import explain_ways
from rowmerge.plan.expressions.conditions import Side
from rowmerge.plan.file_strategy import REWRITE_FRACTION, SMALL_FILE
from rowmerge.plan.pruning.file_pruning import file_mask
from rowmerge.plan.pruning.predicates import understand
from rowmerge.plan.row_plan import Effect, RowPlan
from rowmerge.spark.matching.joins import choose_join, joined_rows, merge_outcomes, unmatched_rows
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.source.source import Source, unevaluated
from rowmerge.spark.values.outcomes import OutcomeShape, new_rows, outcome_rows
from rowmerge.table.metadata.partitioning import PartitionField
from rowmerge.table.metadata.schema import Struct, quote
from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.snapshots.files import FileListing, FileMask
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Lines = list[str]


def explained(spark: SparkSession, snapshot: Snapshot, planned: Planned, source: str | None) -> Lines:
    """MERGE, UPDATE, DELETE and INSERT … REPLACE. `source`: what is known of the source's rows, None where there is no source.

    Names and types are judged by Spark as when the statement runs: raises UnknownColumn, TypeMismatch, …
    """
    plan, reads_table = planned.plan, planned.reads_table
    _check(spark, snapshot, planned)
    request = Request(spark, snapshot, planned, Timings().measure)
    files = request.files
    lines = [*str(plan).splitlines(), *_source(source, reads_table), *explain_ways(request)]
    lines.append(f"  files: {len(files.candidates)} of {len(files.listing)} may hold rows to change ({_told(files.candidates)})")
    lines += [f"    {reason}" for reason in _reasons(snapshot, plan, files.listing)]
    keys = plan.on.keys if plan.on is not None else ()
    if keys and not plan.of(Match.NOT_MATCHED_BY_SOURCE):
        lines.append(f"    when it runs, the source's values of {', '.join(f'`{key.column}`' for key in keys)} leave out more files")
    if plan.of(Match.NOT_MATCHED_BY_SOURCE) and plan.on is not None:
        lines.append("    WHEN NOT MATCHED BY SOURCE is about rows that match nothing: every file is read")
    if len(files.whole):
        lines.append(f"  by metadata alone: {len(files.whole)} file(s) leave as a whole, unread ({_told(files.whole)})")
    if len(files.to_read) and any(clause.effect is not Effect.INSERT for clause in plan.clauses):
        lines += _write_mode(snapshot, plan.operation, files.to_read)
    return [*lines, *_always(snapshot, plan)]


def explained_insert(snapshot: Snapshot, rows: NewRows, source: str, *, overwrite: bool, dynamic: bool, if_not_exists: bool) -> Lines:
    """INSERT INTO and INSERT OVERWRITE."""
    plan = rows.plan(snapshot)
    new_rows(rows.source.alias(plan.source.alias if plan.source else ""), plan, plan.clauses)
    told = str(plan).splitlines()
    lines = [f"INSERT {'OVERWRITE' if overwrite else 'INTO'} {snapshot.name}", *told[1:], *_source(source, rows.reads_table)]
    listing = snapshot.files()
    if not overwrite:
        lines.append(f"  files: none of {len(listing)} is read or leaves")
    elif dynamic and snapshot.shape.partitioning:
        by = ", ".join(f"`{field.name}`" if field.identity else field.told for field in snapshot.shape.partitioning)
        lines.append(f"  files: of {len(listing)}, those leave whose partition ({by}) gets a row, which shows when it runs")
    else:
        leaving = listing.filter(static_mask(snapshot, rows)(listing))
        if if_not_exists and len(leaving):
            lines.append(f"  IF NOT EXISTS: the partition holds {len(leaving)} file(s) ({_told(leaving)}), so nothing will be written")
        else:
            lines.append(f"  files: {len(leaving)} of {len(listing)} leave by metadata alone, unread ({_told(leaving)})")
    if not overwrite and not rows.reads_table:
        lines.append("  commit: a blind append, which meets no conflict but with changes of the definition")
    return [*lines, *_always(snapshot, plan)]


def explained_truncate(snapshot: Snapshot, mask: FileMask) -> Lines:
    """TRUNCATE TABLE."""
    listing = snapshot.files()
    leaving = listing.filter(mask(listing))
    told = f"  files: {len(leaving)} of {len(listing)} leave by metadata alone, unread ({_told(leaving)})"
    level = snapshot.settings.isolation_level("TRUNCATE")
    return [f"TRUNCATE {snapshot.name}", told, f"  on version {snapshot.version}, isolation level {level}"]


def explained_create(
    name: str,
    columns: Struct,
    partitioned_by: Sequence[PartitionField],
    existing: Snapshot | None,
    source: str,
    *,
    or_replace: bool,
    if_not_exists: bool,
) -> Lines:
    """CREATE [OR REPLACE] TABLE … AS SELECT; `existing` is the table of that name, if there is one."""
    lines = [f"CREATE{' OR REPLACE' if or_replace else ''} TABLE {name} AS SELECT"]
    lines += [f"  column {quote(column.name)} {column.sql_type}" for column in columns]
    if partitioned_by:
        lines.append(f"  partitioned by {', '.join(field.told for field in partitioned_by)}")
    lines += _source(source, reads_table=False)
    if existing is None:
        return [*lines, "  the table does not exist: definition and rows become its version 0"]
    if if_not_exists:
        return [*lines, "  IF NOT EXISTS: the table exists, so nothing will be done"]
    if not or_replace:
        return [*lines, "  the table exists, so this will be an error"]
    listing = existing.files()
    return [*lines, f"  files: all {len(listing)} of version {existing.version} leave ({_told(listing)}), its history stays"]


def _source(source: str | None, reads_table: bool) -> Lines:
    lines = [] if source is None else [f"  source: {source}"]
    if reads_table:
        lines.append("  reads the table that it changes: every row of this version counts as read")
    return lines


def _always(snapshot: Snapshot, plan: RowPlan) -> Lines:
    rules = [check.told for check in plan.rules.checks]
    lines = [f"  checks of every written row: {', '.join(rules)}"] if rules else []
    if snapshot.shape.change_data_location is not None:
        lines.append("  change data feed: the changed rows are written too")
    return [*lines, f"  on version {snapshot.version}, isolation level {snapshot.settings.isolation_level(plan.operation)}"]


def _check(spark: SparkSession, snapshot: Snapshot, planned: Planned) -> None:
    """Let Spark analyse the statement over no files, which raises what is wrong with it; nothing is run."""
    plan = planned.plan
    target = read_snapshot(spark, snapshot, snapshot.files().without_files(), addresses=True)
    if planned.source is None or plan.on is None:
        rows = target.alias(plan.target.alias)
        for clause in plan.of(Match.NOT_MATCHED_BY_SOURCE):
            found = rows if clause.condition is None else rows.where(clause.condition)
            outcome_rows(found, plan, [("true", replace(clause, condition=None))], OutcomeShape(addresses=True))
    if planned.source is None:
        return
    source: Source = unevaluated(planned.source.frame)
    if plan.on is not None:
        join = choose_join(plan, source)
        merge_outcomes(plan, join, joined_rows(plan, join, target, source))
    if plan.of(Match.NOT_MATCHED):
        unmatched_rows(plan, source, BitMap64())


def _reasons(snapshot: Snapshot, plan: RowPlan, listing: FileListing) -> Lines:
    """What each condition does to the list of files."""
    lines = []
    for text in plan.conjuncts:
        mask, columns = file_mask([text], plan.target, snapshot.schema, snapshot.partition_columns)
        out = len(listing) - (pc.sum(mask(listing)).as_py() or 0)
        by = "statistics" if columns else "partition values"
        if out:
            lines.append(f"{text}: {out} left out by {by}")
        else:
            lines.append(f"{text}: {'leaves out none' if _looks_at(plan.target, text, snapshot) else 'tells nothing of files'}")
    return lines


def _looks_at(target: Side, text: str, snapshot: Snapshot) -> bool:
    """Whether a condition is one that partition values or statistics can judge."""
    return bool(understand(text, target, snapshot.schema, snapshot.partition_columns).columns)


def _write_mode(snapshot: Snapshot, operation: str, files: FileListing) -> Lines:
    """The rule by which files that lose rows are dropped, marked or rewritten."""
    mode, small = snapshot.settings.write_mode(operation), f"{SMALL_FILE // 1024 // 1024} MiB"
    if mode is WriteMode.COPY_ON_WRITE or not snapshot.shape.supports_merge_on_read:
        why = "" if mode is WriteMode.COPY_ON_WRITE else ", because deletion vectors are off for this table"
        rule = f"a file that loses rows is rewritten without them{why}"
    elif mode is WriteMode.MERGE_ON_READ:
        rule = "a file that loses rows gets a deletion vector"
    else:
        few = pc.sum(pc.less_equal(files.sizes, SMALL_FILE)).as_py() or 0
        rule = (
            f"a file of up to {small} ({few} of these {len(files)}), or one of which {REWRITE_FRACTION:.0%} of the rows are gone, is "
            f"rewritten, another one gets a deletion vector"
        )
    vectors = "on" if snapshot.shape.supports_merge_on_read else "off"
    return [f"  write mode: {mode.value}, deletion vectors {vectors}", f"    {rule}; one that loses all its rows is dropped"]


def _told(files: FileListing) -> str:
    """`3 rows, 1,234 bytes`, the rows less the deleted ones."""
    size = files.total_size
    if files.records.null_count:
        return f"rows unknown, {size:,} bytes"
    return f"{files.live_rows:,} row(s), {size:,} bytes"
