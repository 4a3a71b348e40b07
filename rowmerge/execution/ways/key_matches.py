"""Statements whose keys alone decide the result: Arrow looks up the matching target rows, and the new values come only from the source."""

from __future__ import annotations

import pyarrow as pa

from rowmerge.commands.rows import Match
from rowmerge.errors import MissingDataFile, UnreadableDataFile
from rowmerge.execution.ways.target_files import TargetFiles
from rowmerge.execution.ways.way import SCAN_STEP, Reason, RowChangeRequest
from rowmerge.plan.row_plan import SourceRows
from rowmerge.spark.matching.key_lookup import KeyMatches, find_key_matches
from rowmerge.spark.reading.data_files import spark_path
from rowmerge.spark.source.source import Source
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.table.snapshots.files import FileListing

INEXACT = Reason("Arrow cannot find all matches by the keys, or they are not one-to-one")
"""The reason why a lookup of keys returns no matches, so that a join must find them."""
UNLESS_INEXACT = "Arrow cannot compare the keys as Spark does, or a row matches twice where only one match is allowed"
"""The same reason, worded as a condition for EXPLAIN."""


def why_keys_do_not_find_rows(request: RowChangeRequest) -> Reason | None:
    """Return why a scan must find the target rows, or None if a lookup of the source's keys finds all rows that the statement needs."""
    if request.change_data_location is not None:
        return Reason("the change data feed needs all columns of changed rows")
    if request.plan.metadata_columns:
        return Reason("the statement uses metadata columns")
    if request.plan.of(Match.NOT_MATCHED_BY_SOURCE):
        return Reason("a clause changes target rows without a match")
    return None if request.key_pairs else Reason("the ON condition compares no column with the source")


def why_needs_values(request: RowChangeRequest) -> Reason | None:
    """Return why the statement needs column values of the matching target rows, or None if the positions of these rows suffice."""
    if (reason := why_keys_do_not_find_rows(request)) is not None:
        return reason
    if request.lineage is not None:
        return Reason("updated rows keep their row ids")
    if request.plan.on is None or not request.plan.on.keys_alone:
        return Reason("the ON condition is more than a comparison of keys")
    return None if request.do_keys_decide else Reason("a clause reads or keeps columns of the target")


def requires_one_to_one(request: RowChangeRequest) -> bool:
    """Return whether several matches of one target row are an error. Only a join can report this error with the keys of the rows."""
    return bool(request.plan.of(Match.MATCHED)) and not request.plan.duplicates_allowed


def find_matches(request: RowChangeRequest, files: TargetFiles, source: Source) -> KeyMatches | None:
    """Look up the target rows that match a source row by their keys.

    Args:
        request: The statement to execute.
        files: The files that the statement reads.
        source: The evaluated source with its keys.

    Returns:
        The positions of the matching rows. None if Arrow cannot compare the keys, or if several rows match where only one may match.
    """
    if not len(files.to_read) or not source.row_count:
        return KeyMatches({})
    one_to_one, with_sources = requires_one_to_one(request), _needs_source_ordinals(request)
    with request.measure_step(SCAN_STEP):
        return find_key_matches(request.spark, request.snapshot, files.to_read, source, one_to_one=one_to_one, with_sources=with_sources)


def _needs_source_ordinals(request: RowChangeRequest) -> bool:
    """Return whether the lookup must also return the ordinals (row numbers) of the source rows with a match, which takes longer."""
    if request.inserts_every_source_row:
        # Every source row becomes the same new row with or without a match, so only the positions of the matching target rows matter.
        return False
    # MATCHED clauses apply only to the source rows with a match, and NOT MATCHED clauses only to those without one.
    return requires_one_to_one(request) or request.plan.source_rows is SourceRows.UNMATCHED


def record_matches(request: RowChangeRequest, output: WriteOutput, matches: KeyMatches) -> None:
    """Record the positions of the matching target rows, which the new rows of the source replace, and correct the row counts.

    Args:
        request: The statement, which writes a new row for every source row.
        output: The output with the new rows. It receives the positions of the matching rows, and the counts of updated and inserted rows.
        matches: The matching target rows.
    """
    output.positions = matches.positions
    if request.is_upsert:
        # The job that wrote the rows counted each of them as inserted, because it did not know the matches. In an upsert, each matching
        # target row is updated. In other statements, it is deleted, and the new rows remain inserts.
        matching_row_count = sum(len(positions) for positions in matches.positions.values())
        output.updated = matching_row_count
        output.inserted -= matching_row_count


def files_with_matches(request: RowChangeRequest, source: Source, files: FileListing) -> pa.Array:
    """Return a boolean array: whether each file of concurrent commits contains a row that the source matches.

    Such a file is a conflict, after which the statement runs again. If the matches are unknown, all files count as conflicts. This is
    safe: at worst, the statement runs again without need.

    Args:
        request: The statement to execute.
        source: The evaluated source with its keys.
        files: The files that concurrent commits added.
    """
    matches = _find_all_matches(request, source, files)
    if matches is None:
        return pa.repeat(pa.scalar(True), len(files))
    return pa.array([spark_path(path) in matches.positions for path in files.paths], pa.bool_())


def _find_all_matches(request: RowChangeRequest, source: Source, files: FileListing) -> KeyMatches | None:
    """Return the positions of all rows that the source matches. None if Arrow cannot compare the keys, or cannot read a file."""
    try:
        # Rows may match repeatedly, so the matches need not be one-to-one. It does not matter which source rows match.
        return find_key_matches(request.spark, request.snapshot, files, source, one_to_one=False, with_sources=False)
    except (MissingDataFile, UnreadableDataFile):
        return None  # the next attempt of the statement reads the same file and reports the error
