"""EXPLAIN of a query: for each table, the files that the query reads, and which conditions exclude the other files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowmerge.execution.explanation import effect_of_condition
from rowmerge.plan.expressions.sides import Side
from rowmerge.session.answers.results import TableScan
from rowmerge.spark.time_zones import session_time_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def explain_scans(spark: SparkSession, title: str, scans: Sequence[TableScan]) -> list[str]:
    """Return the lines that describe the scans of a query. A query that reads no tables has no lines.

    Args:
        spark: The Spark session, with the time zone of the conditions.
        title: The first line. The other lines are indented more.
        scans: The scans of the query.
    """
    if not scans:
        return []
    time_zone, indent = session_time_zone(spark), " " * (len(title) - len(title.lstrip()))
    lines = []
    for scan in scans:
        lines.append(f"  {scan.snapshot.name}, version {scan.snapshot.version}: {_counts(scan)}{_reason(scan)}")
        lines += (f"    {condition}: {_effect(scan, condition, time_zone)}" for condition in scan.conditions)
        lines += (f"    {' '.join(condition.split())}: {effect}" for condition, effect in scan.dynamic.items())
    return [title, *(f"{indent}{line}" for line in lines)]


def _counts(scan: TableScan) -> str:
    """Return the numbers of files and bytes that a scan reads, out of all files of the table."""
    files = scan.snapshot.files()  # the metadata that the conditions need may not tell the totals
    return f"{scan.files:,} of {len(files):,} files, {scan.size:,} of {files.total_size:,} bytes"


def _reason(scan: TableScan) -> str:
    return "" if scan.reason is None else f"; {scan.reason.value}"


def _effect(scan: TableScan, condition: str, time_zone: str | None) -> str:
    """Explain how many files a condition excludes on its own."""
    side = Side(scan.snapshot.name, (), scan.snapshot.schema.names)
    return effect_of_condition(scan.snapshot, side, condition, time_zone, case_sensitive=True)
