"""VACUUM, OPTIMIZE, REORG, RESTORE, GENERATE, CALL, ANALYZE, and statements for branches, tags and cached rows."""

from __future__ import annotations

from rowmerge.commands.caching import CacheTable, ClearCache, RefreshTable, UncacheTable
from rowmerge.commands.maintenance import (
    AnalyzeTable,
    AnalyzeTables,
    CloneFiles,
    ComputeDeltaStatistics,
    ConvertToDelta,
    DropFeature,
    DropReference,
    GenerateManifests,
    MaintenanceCommand,
    Optimize,
    Reorg,
    RepairTable,
    Restore,
    SetReference,
    Vacuum,
)
from rowmerge.commands.names import SqlText
from rowmerge.commands.procedures import Call
from rowmerge.commands.rows import CopyInto
from rowmerge.errors import PlanError
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.compaction import optimize, purge
from rowmerge.execution.procedures.feature_removal import FeatureRemoval
from rowmerge.execution.restore_and_clone import restore
from rowmerge.execution.row_counts import RowCounts
from rowmerge.execution.table_change import remove_missing_files
from rowmerge.plan.file_strategy import CompactionOptions
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.resolver import branches_of
from rowmerge.session.names.scope import SessionContext, StatementScope
from rowmerge.session.procedures.calls import call_procedure
from rowmerge.session.statements.analysis import run_analysis
from rowmerge.session.statements.caching import run_cache_command
from rowmerge.session.statements.conversion import clone_files, convert_to_delta
from rowmerge.session.statements.copy_into import copy_into
from rowmerge.spark.peer_settings import is_retention_checked, is_vacuum_logged, optimize_size, with_iceberg_settings
from rowmerge.spark.spark_session import evaluate_timestamp_millis
from rowmerge.storage.store import StoredObject, absolute_location
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.table import Branches, SnapshotReference, Table


def run_maintenance(context: SessionContext, command: MaintenanceCommand, options: CommitOptions) -> StatementResult:
    """Run VACUUM, OPTIMIZE, REORG, RESTORE, GENERATE, CALL, ANALYZE, or a statement for a branch, a tag or cached rows.

    Args:
        context: The session.
        command: The parsed statement.
        options: The number of retries of the commit.
    """
    match command:
        case Vacuum():
            return _vacuum(context, command)
        case Optimize() | Reorg():
            return _compact(context, command, options)
        case Restore():
            return _restore(context, command, options)
        case GenerateManifests():
            return _generate_manifests(context, command)
        case SetReference() | DropReference():
            return _change_reference(context, command)
        case RepairTable():
            return _repair(context, command, options)
        case CloneFiles():
            return clone_files(context, command, options)
        case DropFeature():
            return _drop_feature(context, command, options)
        case ConvertToDelta():
            return convert_to_delta(context, command, options)
        case CopyInto():
            return copy_into(context, command, options)
        case Call():
            return call_procedure(context, command, options)
        case AnalyzeTable() | AnalyzeTables() | ComputeDeltaStatistics():
            return run_analysis(context, command, options)
        case CacheTable() | UncacheTable() | ClearCache() | RefreshTable():
            return run_cache_command(context, command)


def _vacuum(context: SessionContext, command: Vacuum) -> StatementResult:
    """Run VACUUM. Return the table's location, or with DRY RUN the paths of the files to delete."""
    table, spark = context.names.table(command.target), context.spark
    inventory = None if command.inventory is None else _inventory(context, command.inventory, table)
    checks, records = is_retention_checked(spark), is_vacuum_logged(spark)
    options = VacuumOptions(command.retain_hours, command.dry_run, checks, records, lite=command.lite, inventory=inventory)
    result = table.vacuum(options)
    if command.dry_run:
        return StatementResult(frames.text_column(spark, "path", result.paths), "VACUUM", None, result.version)
    changes = RowCounts(files_removed=len(result.paths))
    return StatementResult(frames.text_column(spark, "path", [table.location]), "VACUUM", changes, result.version)


def _inventory(context: SessionContext, relation: SqlText, table: Table) -> tuple[StoredObject, ...]:
    """Return the files of a table that an inventory lists. Raise PlanError if it lacks a column, or has NULL in a column."""
    frame = StatementScope.begin(context).query(f"select * from {relation.text}")
    names = {name.lower() for name in frame.columns}
    missing = [name for name in ("path", "length", "isDir", "modificationTime") if name.lower() not in names]
    if missing:
        raise PlanError(
            f"The inventory of {table.name} lacks the column {missing[0]}. Its columns are path, length, isDir, modificationTime."
        )
    columns = ("string(path) as path", "bigint(length) as length", "bigint(modificationTime) as modified")
    rows = frame.where("isDir is null or not isDir").selectExpr(*columns).toArrow()
    if any(column.null_count for column in rows.columns):
        raise PlanError(f"The inventory of {table.name} has NULL. Give each file its path, length and modificationTime in milliseconds.")
    prefix = f"{table.location}/"
    paths = [absolute_location(path) for path in rows["path"].to_pylist()]
    below = zip(paths, rows["length"].to_pylist(), rows["modified"].to_pylist(), strict=True)
    return tuple(StoredObject(path.removeprefix(prefix), size, modified) for path, size, modified in below if path.startswith(prefix))


def _repair(context: SessionContext, command: RepairTable, options: CommitOptions) -> StatementResult:
    """Run FSCK REPAIR TABLE. Return the data files that do not exist, or whose deletion vector does not exist."""
    table, spark = context.names.table(command.target), context.spark
    missing, result = remove_missing_files(table, options, dry_run=command.dry_run)
    rows = [(file.path, file.is_missing, file.vector_path, file.is_vector_missing) for file in missing]
    frame = frames.missing_files(spark, rows)
    return StatementResult(frame, "FSCK") if result is None else StatementResult.from_change(frame, "FSCK", result)


def _drop_feature(context: SessionContext, command: DropFeature, options: CommitOptions) -> StatementResult:
    """Run ALTER TABLE … DROP FEATURE. The result has no rows."""
    table = context.names.table(command.target)
    removal = FeatureRemoval(context.spark, table, command.feature, command.truncates_history, options)
    return StatementResult.from_change(frames.empty_frame(context.spark), "DROP FEATURE", removal.run())


def _compact(context: SessionContext, command: Optimize | Reorg, options: CommitOptions) -> StatementResult:
    """Run OPTIMIZE or REORG. Return the table's location, and the counts and sizes of the removed and added files."""
    table = with_iceberg_settings(context.spark, context.names.table(command.target))
    condition = None if command.condition is None else command.condition.text
    if isinstance(command, Optimize):
        # Iceberg tables, which have branches, have the size in a property of their own.
        target_size = optimize_size(context.spark) if table.branches is None else None
        result, statistics = optimize(context.spark, table, condition, options, CompactionOptions(target_size))
    else:
        result, statistics = purge(context.spark, table, condition, options)
    frame = frames.compaction_metrics(context.spark, table.location, statistics)
    return StatementResult.from_change(frame, type(command).__name__.upper(), result)


def _restore(context: SessionContext, command: Restore, options: CommitOptions) -> StatementResult:
    """Run RESTORE. Return the row with Delta's counts and sizes of files."""
    timestamp = None if command.timestamp is None else evaluate_timestamp_millis(context.spark, command.timestamp.text)
    timestamp_text = None if command.timestamp is None else command.timestamp.text.strip("'\"")
    table = context.names.table(command.target)
    version = command.version if command.reference is None else branches_of(table, command.target).snapshot_id(command.reference)
    parameters = {"version": version, "timestamp": timestamp_text}
    result = restore(table, parameters, version=version, timestamp=timestamp, options=options)
    return StatementResult.from_change(frames.count_row(context.spark, result.result_row), "RESTORE", result)


def _generate_manifests(context: SessionContext, command: GenerateManifests) -> StatementResult:
    """Write the symlink manifests of a table. Raise PlanError if its format has none."""
    table = context.names.table(command.target)
    if table.symlink_manifests is None:
        raise PlanError(f"{command.target} is not a Delta table, so it has no symlink manifests. Read it with an engine for its format.")
    return StatementResult(frames.empty_frame(context.spark), "GENERATE", None, table.symlink_manifests.generate())


def _change_reference(context: SessionContext, command: SetReference | DropReference) -> StatementResult:
    """Create, replace or drop a branch or a tag. Raise PlanError if the table format has no branches."""
    table = context.names.table(command.target)
    if table.branches is None:
        raise PlanError(f"{command.target} is not an Iceberg table, so it has no branches or tags. Read older versions with VERSION AS OF.")
    if isinstance(command, DropReference):
        verb = "DROP"
        table.branches.drop(command.name, is_tag=command.tag, if_exists=command.if_exists)
    else:
        verb = "CREATE"
        _set_reference(table.branches, command)
    operation = f"{verb} {'TAG' if command.tag else 'BRANCH'}"
    return StatementResult(frames.empty_frame(context.spark), operation, None, table.snapshot().version)


def _set_reference(branches: Branches, command: SetReference) -> None:
    """Create or replace a branch or a tag."""
    reference = SnapshotReference(
        command.name, command.tag, command.version, command.max_age, command.min_snapshots, command.max_snapshot_age
    )
    branches.set_reference(reference, create=command.create, replace=command.replace, if_not_exists=command.if_not_exists)
