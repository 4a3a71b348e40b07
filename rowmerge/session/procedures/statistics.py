"""Procedures that compute statistics of an Iceberg table: the distinct values of columns, and the counts of partitions."""

from __future__ import annotations

from rowmerge.execution.table_statistics import compute_table_statistics
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.procedures.arguments import ProcedureCall


def compute_table_stats(call: ProcedureCall) -> StatementResult:
    """Write a theta sketch of each column of a snapshot, and return the path of the file. Without snapshot, there is no row.

    Raises:
        UnknownColumn: The snapshot has no such column.
        TypeMismatch: A column is not of a primitive type.
        VersionNotFound: There is no such snapshot.
    """
    maintenance, snapshot_id = call.maintenance, _snapshot_id(call)
    paths = []
    if snapshot_id is not None:
        paths = [compute_table_statistics(call.spark, call.table, maintenance, snapshot_id, call.arguments.get("columns"))]
    return _path_result(call, "COMPUTE TABLE STATS", "statistics_file", paths)


def compute_partition_stats(call: ProcedureCall) -> StatementResult:
    """Write the counts of each partition of a snapshot, and return the path of the file. Without files, there is no row.

    Raises:
        PlanError: The table is not partitioned.
        VersionNotFound: There is no such snapshot.
    """
    maintenance, snapshot_id = call.maintenance, _snapshot_id(call)
    path = None if snapshot_id is None else maintenance.write_partition_statistics(snapshot_id)
    return _path_result(call, "COMPUTE PARTITION STATS", "partition_statistics_file", [] if path is None else [path])


def _snapshot_id(call: ProcedureCall) -> int | None:
    """Return the id of the argument, or of the current snapshot, or None if the table has no snapshot."""
    snapshot_id: int | None = call.arguments.get("snapshot_id")
    return (call.table.snapshot().version or None) if snapshot_id is None else snapshot_id


def _path_result(call: ProcedureCall, operation: str, column: str, paths: list[str]) -> StatementResult:
    frame = frames.text_column(call.spark, column, paths)
    return StatementResult(frame, operation, None, call.table.snapshot().version)
