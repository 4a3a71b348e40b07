"""Functions that several ways of execution share: write changed target rows, the rows of a join, and new source rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from rowmerge.commands.rows import Match
from rowmerge.errors import MultipleSourceRowsMatch
from rowmerge.errors.environment import unreadable_data_file
from rowmerge.execution.ways.target_files import TargetFiles, pruning_keys
from rowmerge.execution.ways.way import ExecutionResult, RowChangeRequest
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.plan.row_plan import RowPlan, SourceRows
from rowmerge.spark.matching.joins import (
    Join,
    check_scopes,
    choose_join,
    count_repeated_matches,
    join_of_target_rows,
    merge_outcomes,
    relevant_file_mask,
    repeated_keys,
    unmatched_rows,
)
from rowmerge.spark.reading.data_files import spark_path, with_short_file_names
from rowmerge.spark.source.source import MAX_LOOKED_UP_KEYS, Source
from rowmerge.spark.source.writing import already_writes_few_files, write_source_rows
from rowmerge.spark.writing.distribution import Gather, may_shuffle
from rowmerge.spark.writing.write import LateValues, WriteRequest, are_small, may_be_few, write_outcomes
from rowmerge.spark.writing.write_output import WriteOutput, discard, discard_on_error
from rowmerge.table.snapshots.files import FileListing, FileMask, Positions, RowOrigin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_BYTES_OF_LATE_TASK, _MAX_LATE_FILE_BYTES = 64 * 1024 * 1024, 256 * 1024 * 1024
"""The estimated size in bytes of the rows that a task writes, and the maximum average size of the files from which tasks copy columns."""
_MIN_LATE_SHARE = 0.05
"""The minimum number of source rows, as a share of the target's rows, for which the writer reads columns of the target."""


@dataclass(frozen=True)
class TargetRows:
    """The target rows of a join, with the columns FILE and POSITION, and the kind of join.

    `file_names`: the path of each file, as Spark spells it, by its short name in FILE. Empty if FILE contains the paths themselves.
    `late_columns`: the columns that the rows lack, because the writer reads them (`RowChangeRequest.late_columns`).
    """

    frame: DataFrame
    join: Join
    file_names: Mapping[str, str] = field(default_factory=dict)
    late_columns: frozenset[str] = frozenset()


def scan_target(request: RowChangeRequest, files: TargetFiles, source: Source) -> TargetRows:
    """Return a Spark scan of the target's files, and the kind of join to the source.

    The keys of the source become filters of the scan. So Spark skips the row groups and pages whose bounds exclude a match. FILE contains
    short names, because Spark shuffles and sorts it with each row.

    Args:
        request: The statement to execute.
        files: The files that the statement reads.
        source: The evaluated source with its keys.
    """
    late_columns = late_columns_of(request, files.to_read, source)
    frame = request.read_target(files.to_read, columns_without(request.joined_columns, late_columns), with_lineage=True)
    for key in pruning_keys(request.snapshot, request.plan, source):
        if key.key.pair.path in {(name,) for name in request.snapshot.partition_columns}:
            continue  # the key has already selected the files, and all rows of a file have the same value in this column
        condition = key.row_condition()
        if condition is not None:
            frame = frame.where(condition)
    frame, file_names = with_short_file_names(frame, files.to_read)
    join = join_of_target_rows(request.plan) if late_columns else choose_join(request.plan, source)
    return TargetRows(frame, join, file_names, late_columns)


def late_columns_of(request: RowChangeRequest, files: FileListing, source: Source | None = None) -> frozenset[str]:
    """Return the columns that the writer reads from the target's files, because Spark does not need them. Empty for few rows.

    Args:
        request: The statement to execute.
        files: The files that the statement reads.
        source: The evaluated source, None if the statement has none.
    """
    if _are_few_rows(request.plan, files, source):
        return frozenset()
    if source is not None and not (_may_insert_later(request.plan, source) and _may_gather_files(request, files)):
        return frozenset()
    return request.late_columns


def _are_few_rows(plan: RowPlan, files: FileListing, source: Source | None) -> bool:
    """Return whether so few rows may change that Spark, which skips pages without them, reads their columns faster than the writer."""
    if are_small(files):
        return True
    if source is None:
        return is_selective(plan)
    return source.local_rows is not None or source.row_count < _MIN_LATE_SHARE * files.live_rows


def is_selective(plan: RowPlan) -> bool:
    """Return whether an UPDATE or a DELETE has a WHERE condition, which may select only a few rows."""
    return plan.on is None and any(clause.condition is not None for clause in plan.clauses)


def changes_both_unmatched_sides(plan: RowPlan) -> bool:
    """Return whether a MERGE both inserts source rows without a match and changes target rows without a match.

    Its join would return every target row, because it also reports which source rows have a match. So it has no late columns.
    """
    return plan.source_rows is SourceRows.UNMATCHED and bool(plan.of(Match.NOT_MATCHED_BY_SOURCE))


def _may_insert_later(plan: RowPlan, source: Source) -> bool:
    """Return whether a second job may insert the new source rows. It gets the ordinals of all source rows with a match.

    The rows of a streamed source are read only once.
    """
    has_many_ordinals = plan.source_rows is SourceRows.UNMATCHED and source.row_count > MAX_LOOKED_UP_KEYS
    return not (source.is_streamed or has_many_ordinals or changes_both_unmatched_sides(plan))


def _may_gather_files(request: RowChangeRequest, files: FileListing) -> bool:
    """Return whether joined rows may be shuffled so that one task reads a file, and whether the files are small enough for that."""
    are_small_enough = files.total_size <= len(files) * _MAX_LATE_FILE_BYTES
    return are_small_enough and may_shuffle(request.spark, request.table_after, request.distribution)


def columns_without(columns: frozenset[str] | None, late_columns: frozenset[str]) -> frozenset[str] | None:
    """Return the columns that are not late, or None for all. `columns`: All columns that a statement needs, None if they are uncertain."""
    return None if columns is None else columns - late_columns


def join_and_write(request: RowChangeRequest, files: TargetFiles, source: Source, target: TargetRows) -> ExecutionResult:
    """Join the source to the target, and write the rows that the clauses produce, for matches and for rows without a match.

    An outer join returns the matched rows and the source rows without a match, but Spark cannot broadcast the source in such a join. So
    with a small source, a second job writes the source rows without a match. After an error, the written files are deleted.

    Args:
        request: The statement to execute.
        files: The files that the statement reads.
        source: The evaluated source.
        target: The rows of `files`, and the kind of join.

    Returns:
        The written files, and the target rows on which the result depends, for the detection of conflicts.

    Raises:
        MultipleSourceRowsMatch: Several source rows change one target row, or match it if the rule of cardinality forbids that.
        UnknownColumn: A clause names a column that its side of the join lacks.
    """
    if request.plan.counts_every_match:
        _check_every_match(request, files, source)
    output = _write_clause_outcomes(request, files.to_read, source, target)
    with discard_on_error(output, request.snapshot.shape.filesystem_options):
        if _needs_job_for_new_rows(request, files, target.join):
            add_new_rows(request, output, source)
        source = source.counted()  # the number of source rows is known once the join has read them
        _check_single_matches(request, files, source, output)
    # If a concurrent commit deletes the match of a source row, that row would have to be inserted. So the commit checks these matches.
    matches_to_verify = _insert_preventing_rows_of_join(request, output, files, target.join)
    return ExecutionResult(output, files, source, matches_to_verify, conflicting_file_mask(request, source))


def _needs_job_for_new_rows(request: RowChangeRequest, files: TargetFiles, join: Join) -> bool:
    """Return whether a second job must write the new rows, because the join did not produce the source rows without a match."""
    was_joined = len(files.to_read) > 0  # without files there was no join, so no source row has a match
    return not was_joined or join.leaves_unmatched_source or request.plan.source_rows is SourceRows.ALL


def _write_clause_outcomes(request: RowChangeRequest, files: FileListing, source: Source, target: TargetRows) -> WriteOutput:
    """Write the rows that the clauses produce from joined rows. If there are no files or no source rows, Spark only analyses the join."""
    plan, writes_change_rows = request.plan, request.change_data_location is not None
    # A wrong name is an error even if there are no rows.
    check_scopes(plan, target.frame, source)
    outcomes = merge_outcomes(
        plan,
        target.join,
        target.frame,
        source,
        old_values=writes_change_rows,
        lineage=request.lineage is not None,
        late_columns=target.late_columns,
    )
    may_change_rows = len(files) > 0 and (source.row_count > 0 or bool(plan.of(Match.NOT_MATCHED_BY_SOURCE)))
    return write_changed_rows(request, outcomes, files, source, target) if may_change_rows else WriteOutput()


def _check_every_match(request: RowChangeRequest, files: TargetFiles, source: Source) -> None:
    """Raise MultipleSourceRowsMatch if several source rows match one target row, although perhaps no clause changes the row.

    A separate job counts the matches before any row is written. The job that writes rows omits the matches for which no clause fires.
    """
    if not len(files.to_read) or not source.row_count:
        return
    target = request.read_target(files.to_read)
    if keys := repeated_keys(request.plan, target, source):
        raise MultipleSourceRowsMatch(request.plan.table, keys, count_repeated_matches(request.plan, target, source))


def _check_single_matches(request: RowChangeRequest, files: TargetFiles, source: Source, output: WriteOutput) -> None:
    """Raise MultipleSourceRowsMatch if several source rows change one target row. A second join finds the keys for the error."""
    if not output.repeated_count or request.plan.duplicates_allowed:
        return
    target = request.read_target(files.to_read)
    raise MultipleSourceRowsMatch(request.plan.table, repeated_keys(request.plan, target, source), output.repeated_count)


def _insert_preventing_rows_of_join(
    request: RowChangeRequest, output: WriteOutput, files: TargetFiles, join: Join
) -> dict[str, Positions] | None:
    """Return the result of `insert_preventing_rows`, or None if such rows may exist, but the join has no source ordinals to report them."""
    clauses_may_skip_match = all(clause.condition for clause in request.plan.of(Match.MATCHED))
    may_prevent_inserts = len(files.to_read) > 0 and request.plan.source_rows is SourceRows.UNMATCHED and clauses_may_skip_match
    return None if may_prevent_inserts and not join.returns_ordinals else insert_preventing_rows(request, output, files)


def write_changed_rows(
    request: RowChangeRequest, outcomes: DataFrame, files: FileListing, source: Source | None = None, target: TargetRows | None = None
) -> WriteOutput:
    """Write outcome rows into data files, and list the positions of the updated and deleted target rows by file path.

    An outcome row says what the statement does with one row: the action, such as update, and the new values. It also has the address of
    the target row: the file in the column FILE, and the position in that file. FILE contains a path or a short name such as `3`, to which
    `target.file_names` gives the path.

    Args:
        request: The statement to execute.
        outcomes: The outcome rows. See `outcome_rows`.
        files: The files of the target rows. Their sizes decide whether one task writes the rows.
        source: The source of the join, or None if there is no join.
        target: The target rows of the join, or None if there is no join.

    Raises:
        UnreadableDataFile: Spark spells the path of a file in another way than the table, so its short name is unknown.
    """
    late_columns = late_columns_of(request, files) if target is None else target.late_columns
    output = write_outcomes(outcomes, _write_request(request, files, source, target, late_columns))
    if target is not None and target.file_names:
        with discard_on_error(output, request.snapshot.shape.filesystem_options):
            _replace_short_names(output, target.file_names, request.plan.table)
    if not output.changed_row_count:
        # The statement only inserted rows. The change feed reads these from the data files, so it needs no change data files.
        discard(output.change_rows, request.snapshot.shape.filesystem_options)
        output.change_rows = []
    return output


def _replace_short_names(output: WriteOutput, file_names: Mapping[str, str], table: str) -> None:
    """Replace short file names in the output by paths. `file_names`: the path of each file by its short name. `table`: for the error."""
    for name in (output.positions.keys() | output.read_positions.keys()) - file_names.keys():
        raise unreadable_data_file(table, name, "Spark spells its path in another way than the table")
    output.rename(file_names)


def _write_request(
    request: RowChangeRequest, files: FileListing, source: Source | None, target: TargetRows | None, late_columns: frozenset[str]
) -> WriteRequest:
    """Return the options with which Spark writes the outcome rows. See `write_changed_rows` for the arguments."""
    file_names = {} if target is None else target.file_names
    is_source_on_driver = source is not None and source.local_rows is not None
    return WriteRequest(
        table=request.table_after,  # new files have the schema after the statement
        gather=_gather_mode(request, files, source, target),  # whether and how rows are combined into fewer files
        distribution=request.distribution,
        change_data_location=request.change_data_location,
        target_rows_may_repeat=request.plan.duplicates_allowed,  # several source rows may delete the same target row
        lineage=request.lineage,
        row_origins=_row_origins(request, files, file_names),  # for the row ids of updated rows
        late_values=_late_values(request, files, source, file_names, late_columns) if late_columns else None,
        rows_may_be_few=may_be_few(files, source_is_few=is_source_on_driver),  # the driver writes few outcome rows itself
    )


def _gather_mode(request: RowChangeRequest, files: FileListing, source: Source | None, target: TargetRows | None) -> Gather:
    """Return whether and how a shuffle gathers the outcome rows before they are written, so that fewer files are created."""
    if are_small(files):
        return Gather.ONE_TASK
    if source is None or target is None or not target.join.broadcasts_target:
        return Gather.BY_SIZE
    return Gather.NONE if already_writes_few_files(source, request.table_after) else Gather.BY_SIZE


def _late_values(
    request: RowChangeRequest, files: FileListing, source: Source | None, file_names: Mapping[str, str], late_columns: frozenset[str]
) -> LateValues:
    """Return the columns that the writer reads itself, and the files of the target by their names in FILE."""
    short_names = {path: name for name, path in file_names.items()}
    names = {spark_path(path): path for path in files.paths}
    path_by_file = {short_names.get(name, name): path for name, path in names.items()}
    changed_share = 1.0 if source is None else min(1.0, source.row_count / max(files.live_rows, 1))
    # The rows of a scan are already in the tasks that have read their files.
    task_count = 0 if source is None else max(2, int(files.total_size * changed_share) // _BYTES_OF_LATE_TASK)
    return LateValues(request.snapshot, late_columns, path_by_file, task_count)


def _row_origins(request: RowChangeRequest, files: FileListing, file_names: Mapping[str, str]) -> dict[str, RowOrigin]:
    """Return the first row id and the version of each file, by its name in FILE. Empty if the table does not track row lineage."""
    if request.lineage is None:
        return {}
    short_names = {path: name for name, path in file_names.items()}
    origins = {spark_path(path): origin for path, origin in request.snapshot.metadata_columns.row_origins(files.paths).items()}
    return {short_names.get(path, path): origin for path, origin in origins.items()}


def add_new_rows(request: RowChangeRequest, output: WriteOutput, source: Source) -> None:
    """Write the new rows that the NOT MATCHED clauses produce from source rows without a match, or from all source rows.

    Args:
        request: The statement to execute. Its plan determines which source rows become new rows.
        output: The rows that the statement has written, and the ordinals of the source rows with a match. The new rows are added to it.
        source: The evaluated source.
    """
    if request.plan.source_rows is SourceRows.NONE:
        return
    matched_ordinals = output.source_ordinals
    excluded_ordinals = BitMap64() if request.plan.source_rows is SourceRows.ALL else matched_ordinals
    # Spark analyses the new rows even if there are none, so that a wrong name is always an error.
    new_rows = unmatched_rows(request.plan, source, excluded_ordinals)
    if len(excluded_ordinals) >= source.row_count:
        return
    # If no row was updated or deleted, the commit only adds data files. Readers of the change feed then read the inserts from these. But if
    # the commit has change data files, readers use only those, so they must contain the inserts too.
    change_location = request.change_data_location if output.changed_row_count else None
    table, distribution = request.table_after, request.distribution
    output.add(write_source_rows(new_rows, source, table, distribution=distribution, change_data_location=change_location))


def insert_preventing_rows(request: RowChangeRequest, output: WriteOutput, files: TargetFiles) -> dict[str, Positions]:
    """Return the positions of unchanged target rows whose match prevents the insert of a source row, by file path.

    WHEN NOT MATCHED … INSERT skips a source row that matches such a target row. If a concurrent commit deletes or changes the target row,
    the source row would have to be inserted: a conflict. A concurrent change of any other unchanged row is not a conflict.

    Args:
        request: The statement to execute.
        output: The output with the positions of matched target rows that stay unchanged, by file path as Spark spells it.
        files: The files that the statement read.
    """
    if request.plan.source_rows is not SourceRows.UNMATCHED:
        return {}
    matched_unchanged_rows = output.read_positions
    return {path: matched_unchanged_rows[spark_path(path)] for path in files.to_read.paths if spark_path(path) in matched_unchanged_rows}


def conflicting_file_mask(request: RowChangeRequest, source: Source | None) -> FileMask:
    """Return the mask, a function that returns a boolean for each file that concurrent commits added: whether it is a conflict.

    A file is a conflict if it contains rows that the statement would have changed or matched. The function reads the rows of the files,
    and compares them with the source.

    Args:
        request: The statement to execute.
        source: The evaluated source, or None if the statement has none. If it was streamed, the mask selects every file.
    """
    if source is not None and source.is_streamed:
        return every_file  # Spark did not keep the rows of the source, so they cannot be compared
    # The commit calls the function with the remaining argument, the files of concurrent commits.
    return partial(relevant_file_mask, request.spark, request.snapshot, request.plan, source)
