"""ANALYZE TABLE: statistics are stored where the format of the table has a place for them.

The metadata of both formats contain the exact number of rows and bytes, and the bounds of columns. So most forms only check the names in
the statement.
"""

from __future__ import annotations

from rowmerge.commands.maintenance import AnalyzeCommand, AnalyzeTable, AnalyzeTables, ComputeDeltaStatistics
from rowmerge.errors import PlanError, TableError, UnknownColumn
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.procedures.table_statistics import compute_table_statistics
from rowmerge.execution.table_change import recompute_statistics
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.definitions.partition_listing import list_partitions
from rowmerge.session.names.scope import SessionContext
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


def run_analysis(context: SessionContext, command: AnalyzeCommand, options: CommitOptions) -> StatementResult:
    """Run ANALYZE TABLE or ANALYZE TABLES.

    Args:
        context: The session.
        command: The parsed statement.
        options: The number of retries of the commit.

    Raises:
        TableNotFound: The table does not exist.
        SchemaNotFound: The schema does not exist.
        UnknownColumn: The table has no such column or partition field.
        TableError: The statement names a partition that does not exist.
        PlanError: COMPUTE DELTA STATISTICS names a table of another format.
    """
    match command:
        case AnalyzeTables(schema):
            context.names.check_schema(context.names.schema_of(schema or context.names.schema))
            return empty_result(context.spark, "ANALYZE TABLES")
        case AnalyzeTable():
            _analyze(context, command)
            return empty_result(context.spark, "ANALYZE TABLE")
        case ComputeDeltaStatistics(name):
            if context.names.existing_relation(name).format == "iceberg":
                problem = f"{name} is not a Delta table, so it has no Delta statistics"
                raise PlanError(f"{problem}. Use ANALYZE TABLE … COMPUTE STATISTICS FOR COLUMNS.")
            result = recompute_statistics(context.spark, context.names.table(name), options)
            return StatementResult.from_change(frames.empty_frame(context.spark), "ANALYZE TABLE", result)


def _analyze(context: SessionContext, command: AnalyzeTable) -> None:
    """Check the names in the statement, and compute the distinct values of columns if the format of the table stores them."""
    table = context.names.table(command.target)
    if command.partition:
        _check_partition(context, table, command)
    snapshot = table.snapshot()
    columns = [_column_name(snapshot, command, name) for name in command.columns]
    has_columns = command.all_columns or bool(columns)
    # A Delta log has no place for them, and an Iceberg table without a snapshot has no rows.
    if has_columns and table.maintenance is not None and snapshot.version:
        compute_table_statistics(context.spark, table, table.maintenance, snapshot.version, columns or None)


def _column_name(snapshot: Snapshot, command: AnalyzeTable, name: str) -> str:
    """Return the exact name of a column. Raise UnknownColumn if the table has no such column."""
    field = snapshot.schema.find(name)
    if field is None:
        raise UnknownColumn(name, snapshot.schema.names, where=str(command.target))
    return field.name


def _check_partition(context: SessionContext, table: Table, command: AnalyzeTable) -> None:
    """Raise UnknownColumn for an unknown field in PARTITION (…), and TableError if no partition has the values."""
    values = tuple((name, value) for name, value in command.partition if value is not None)
    partitions = list_partitions(context.spark, table, values)
    if not partitions:
        raise TableError(f"{table.name} has no such partition. SHOW PARTITIONS {table.name} lists its partitions.")
    fields = {field.lower() for field in partitions[0].texts}
    for name, _ in command.partition:
        if name.lower() not in fields:
            raise UnknownColumn(name, tuple(partitions[0].texts), where="PARTITION")
