"""Queries of one table that metadata answer, or that need only a few data files: counts, minima, maxima, keys and limited rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowmerge.plan.pruning.needed_files import Extreme, files_with_extremes, files_with_rows
from rowmerge.session.answers.metadata_answers import ResolvedQuery, answer_from_metadata, resolve_query
from rowmerge.session.names.needed_columns import NeededColumns, empty_relation
from rowmerge.session.names.reads import StatementReads
from rowmerge.session.names.spark_names import SparkViews
from rowmerge.spark.spark_session import is_case_sensitive, skips_files
from rowmerge.spark.time_zones import session_time_zone
from rowmerge.spark.types import arrow_frame
from rowmerge.sql import COUNT, MAX, SimpleQuery, parse_simple_query
from rowmerge.table.metadata.schema import backquote
from rowmerge.table.snapshots.files import FileListing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def answer_simple_query(text: str, reads: StatementReads, spark: SparkSession, views: SparkViews) -> DataFrame | None:
    """Answer a query of one table from metadata, or with only those data files that it needs.

    Args:
        text: The bound text of any query, with placeholders instead of table names.
        reads: The reads of the statement.
        spark: The session. Its setting `spark.rowmerge.read.skipFiles.enabled` can forbid this.
        views: The registry of views.

    Returns:
        The rows, with the names and types that Spark gives them. None if the query is not of this kind, or if it needs all files.
    """
    query = parse_simple_query(text)
    snapshot = None if query is None else reads.snapshot_of(query.table)
    if query is None or snapshot is None or not skips_files(spark):
        return None
    case_sensitive, time_zone = is_case_sensitive(spark), session_time_zone(spark)
    resolved = resolve_query(query, snapshot, case_sensitive=case_sensitive, time_zone=time_zone)
    if resolved is None:
        return None
    placeholder = backquote(query.table)
    rows = answer_from_metadata(resolved)
    if rows is not None:
        reads.record_scan(snapshot, snapshot.files().without_files())
        return arrow_frame(spark, rows, spark.sql(text.replace(placeholder, empty_relation(snapshot.schema), 1)).schema)
    files = _needed_files(resolved)
    if files is None:
        return None
    reads.record_scan(snapshot, files)
    columns = NeededColumns(spark, [text], is_frame=True).of_table(query.table, snapshot, files)
    return spark.sql(text.replace(placeholder, views.register_files(snapshot, files, columns), 1))


def _needed_files(resolved: ResolvedQuery) -> FileListing | None:
    """Return the files that suffice for a query of minima, maxima or limited rows. Return None for other queries, or if all are needed."""
    query = resolved.query
    if query.is_grouped or (query.has_aggregates and any(column.function == COUNT for column in query.columns)):
        return None
    files, exact = (
        resolved.matching_files(listing)
        for listing in (resolved.snapshot.files(resolved.bound_columns), resolved.snapshot.exact_files(resolved.bound_columns))
    )
    if files is None or exact is None:
        return None
    needed = _files_with_extremes(resolved, files, exact) if query.has_aggregates else _files_with_rows(query, exact)
    return needed if len(needed) < len(resolved.snapshot.files()) else None


def _files_with_extremes(resolved: ResolvedQuery, files: FileListing, exact: FileListing) -> FileListing:
    """Return the files that together contain all minima and maxima of a query."""
    extremes = [
        Extreme(field, column.function == MAX, resolved.is_partition(field))
        for column, field in zip(resolved.query.columns, resolved.fields, strict=True)
        if field is not None
    ]
    return files_with_extremes(files, exact, extremes)


def _files_with_rows(query: SimpleQuery, exact: FileListing) -> FileListing:
    """Return the files that together contain the number of rows after LIMIT."""
    assert query.limit is not None, "a query of this kind has aggregates or a limit"
    return files_with_rows(exact, query.limit)
