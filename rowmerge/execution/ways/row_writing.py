"""Writing of changed target rows, of the result of a join, and of new source rows: what the ways share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from rowmerge.commands.rows import Match
from rowmerge.errors import MultipleSourceRowsMatch
from rowmerge.execution.ways.target_files import TargetFiles, pruning_keys
from rowmerge.execution.ways.way import ExecutionResult, RowChangeRequest
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.plan.row_plan import SourceRows
from rowmerge.spark.matching.joins import Join, check_names, choose_join, merge_outcomes, relevant_files, repeated_keys, unmatched_rows
from rowmerge.spark.reading.scan import read_snapshot, spark_path
from rowmerge.spark.source.source import Source
from rowmerge.spark.source.writing import few_files_of, write_source_rows
from rowmerge.spark.writing.distribution import Gather
from rowmerge.spark.writing.write import WriteRequest, are_small, may_be_few, write_outcomes
from rowmerge.spark.writing.written import Written, discard, discard_on_error
from rowmerge.table.snapshots.files import FileListing, FileMask, Positions, RowOrigin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class TargetRows:
    """The target's side of a join: rows with FILE and POSITION, and how the source is joined to them.

    `file_names`: the path of a file, as Spark spells it, by the name that stands in FILE. The mapping is empty if FILE holds the path.
    """

    frame: DataFrame
    join: Join
    file_names: Mapping[str, str] = field(default_factory=dict)


def scan_target(request: RowChangeRequest, files: TargetFiles, source: Source) -> TargetRows:
    """Let Spark read the files, without row groups and pages that no key of the source reaches by their bounds."""
    frame = read_snapshot(request.spark, request.snapshot, files.to_read, addresses=True, lineage=request.lineage is not None)
    for key in pruning_keys(request.snapshot, request.plan, source):
        condition = None if key.column.name in request.snapshot.partition_columns else key.row_condition()
        if condition is not None:
            frame = frame.where(condition)
    return TargetRows(frame, choose_join(request.plan, source))


def write_join(request: RowChangeRequest, files: TargetFiles, source: Source, target: TargetRows) -> ExecutionResult:
    """Join the source to the target, and write the rows that the clauses make of the joined rows and of source rows without a match.

    Raises MultipleSourceRowsMatch, UnknownColumn, TypeMismatch, and errors of Spark. After an error, the written files are deleted.
    """
    plan, has_files = request.plan, len(files.to_read) > 0
    # Spark analyses the statement even if there is nothing to run: a wrong name is an error whatever rows there are.
    check_names(plan, target.frame, source)
    has_change_rows, has_lineage = request.change_data_location is not None, request.lineage is not None
    outcomes = merge_outcomes(plan, target.join, target.frame, source, before=has_change_rows, lineage=has_lineage)
    written = Written()
    if has_files and (source.rows or plan.of(Match.NOT_MATCHED_BY_SOURCE)):
        written = write_changed_rows(request, outcomes, files.to_read, source, target)
    with discard_on_error(written, request.snapshot.shape.filesystem_options):
        if plan.source_rows is SourceRows.ALL or target.join.leaves_unmatched or not has_files:
            add_new_rows(request, written, source)
        source = source.counted()
        if written.repeated and not plan.duplicates_allowed:
            raise _multiple_matches_error(request, files, source, written.repeated)
    deciding = _deciding_joined_rows(request, written, files, target.join)
    return ExecutionResult(written, files, source, deciding, matching_files(request, source))


def _multiple_matches_error(request: RowChangeRequest, files: TargetFiles, source: Source, repeated: int) -> MultipleSourceRowsMatch:
    """Return the error with the keys of some target rows that several source rows change, which another join finds."""
    target = read_snapshot(request.spark, request.snapshot, files.to_read, addresses=True)
    return MultipleSourceRowsMatch(request.plan.table, repeated_keys(request.plan, target, source), repeated)


def _deciding_joined_rows(request: RowChangeRequest, written: Written, files: TargetFiles, join: Join) -> dict[str, Positions] | None:
    """Return `deciding_rows`, or None if there may be such rows and the join does not report them because it has no ordinals."""
    clauses_may_skip_match = all(clause.condition for clause in request.plan.of(Match.MATCHED))
    has_deciding_rows = len(files.to_read) > 0 and request.plan.source_rows is SourceRows.UNMATCHED and clauses_may_skip_match
    return None if has_deciding_rows and not join.ordinals else deciding_rows(request, written, files)


def write_changed_rows(
    request: RowChangeRequest, outcomes: DataFrame, files: FileListing, source: Source | None = None, target: TargetRows | None = None
) -> Written:
    """Write outcome rows of these files. `source`, `target`: the sides of the join, if there was one."""
    file_names = {} if target is None else target.file_names
    write_request = WriteRequest(
        request.table_after,
        _gather_mode(request, files, source, target),
        request.distribution,
        change_data_location=request.change_data_location,
        may_repeat=request.plan.duplicates_allowed,
        lineage=request.lineage,
        origins=_row_origins(request, files, file_names),
        may_be_few=may_be_few(files, source_is_few=source is not None and source.local is not None),
    )
    written = write_outcomes(outcomes, write_request)
    if file_names:
        written.rename(file_names)
    if not written.touched:
        # The added files of a pure insert are its change feed.
        discard(written.change_rows, request.snapshot.shape.filesystem_options)
        written.change_rows = []
    return written


def _gather_mode(request: RowChangeRequest, files: FileListing, source: Source | None, target: TargetRows | None) -> Gather:
    """Return how outcome rows of these files are gathered before they are written."""
    if are_small(files):
        return Gather.ONE_TASK
    if source is None or target is None or not target.join.looked_up:
        return Gather.BY_SIZE
    return Gather.NOT if few_files_of(source, request.table_after) else Gather.BY_SIZE


def _row_origins(request: RowChangeRequest, files: FileListing, file_names: Mapping[str, str]) -> dict[str, RowOrigin]:
    """Return the lineage that each file gives to its rows, by the file's name in FILE. Empty if rows keep no lineage."""
    if request.lineage is None:
        return {}
    names = {path: name for name, path in file_names.items()}
    origins = {spark_path(path): origin for path, origin in request.snapshot.row_origins(files.paths).items()}
    return {names.get(path, path): origin for path, origin in origins.items()}


def add_new_rows(request: RowChangeRequest, written: Written, source: Source) -> None:
    """Write the new rows that NOT MATCHED clauses make of source rows without a match, or of all source rows if the plan inserts all."""
    if request.plan.source_rows is SourceRows.NONE:
        return
    matched = BitMap64() if request.plan.source_rows is SourceRows.ALL else written.sources
    rows = unmatched_rows(request.plan, source, matched)
    if len(matched) < source.rows:
        changes_to = request.change_data_location if written.touched else None
        written.add(write_source_rows(rows, source, request.table_after, distribution=request.distribution, changes_to=changes_to))


def deciding_rows(request: RowChangeRequest, written: Written, files: TargetFiles) -> dict[str, Positions]:
    """Return the positions, by path, of unchanged rows that keep a source row from being inserted.

    No other unchanged row decides the result: the statement would do the same without it.
    """
    if request.plan.source_rows is not SourceRows.UNMATCHED:
        return {}
    spark_paths = {path: spark_path(path) for path in files.to_read.paths}
    return {path: written.reads[in_spark] for path, in_spark in spark_paths.items() if in_spark in written.reads}


def matching_files(request: RowChangeRequest, source: Source | None) -> FileMask:
    """Return the mask of files of concurrent commits that hold rows which the statement would have changed or matched."""
    if source is not None and source.counting is not None:
        return every_file  # without a stored source, its matches cannot be computed again
    return partial(relevant_files, request.spark, request.snapshot, request.plan, source)
