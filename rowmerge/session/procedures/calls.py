"""CALL of Iceberg's procedures, with its arguments and result columns (https://iceberg.apache.org/docs/latest/spark-procedures/)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rowmerge.commands.procedures import Call
from rowmerge.execution.commit import CommitOptions
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.scope import SessionContext
from rowmerge.session.procedures import changelog, cleanup, copies, imports, rewrites, statistics, versions
from rowmerge.session.procedures.arguments import ProcedureCall, evaluate_arguments

_FUNCTIONS: dict[str, Callable[[ProcedureCall], StatementResult]] = {
    "add_files": imports.add_files,
    "ancestors_of": versions.ancestors_of,
    "cherrypick_snapshot": versions.cherrypick_snapshot,
    "compute_partition_stats": statistics.compute_partition_stats,
    "compute_table_stats": statistics.compute_table_stats,
    "create_changelog_view": changelog.create_changelog_view,
    "expire_snapshots": cleanup.expire_snapshots,
    "fast_forward": versions.fast_forward,
    "migrate": imports.migrate,
    "publish_changes": versions.publish_changes,
    "register_table": imports.register_table,
    "remove_orphan_files": cleanup.remove_orphan_files,
    "rewrite_data_files": rewrites.rewrite_data_files,
    "rewrite_manifests": rewrites.rewrite_manifests,
    "rewrite_position_delete_files": rewrites.rewrite_position_deletes,
    "rewrite_table_path": copies.rewrite_table_path,
    "rollback_to_snapshot": versions.rollback_to_snapshot,
    "rollback_to_timestamp": versions.rollback_to_timestamp,
    "set_current_snapshot": versions.set_current_snapshot,
    "snapshot": imports.snapshot,
}
"""The function that executes each procedure, by the name of the procedure."""


def call_procedure(context: SessionContext, command: Call, options: CommitOptions) -> StatementResult:
    """Run CALL of one of Iceberg's procedures, and return the rows of its result.

    Args:
        context: The session.
        command: The parsed statement, with the arguments as constant SQL expressions.
        options: The number of retries of the commit.

    Raises:
        PlanError: The procedure does not support the format of the table, or the arguments contradict each other.
        TypeMismatch: An argument has the wrong type.
        TableNotFound: The table does not exist.
        CommitConflict: All attempts conflict with concurrent commits.
    """
    if command.catalog is not None:
        context = replace(context, names=context.names.within(command.catalog))
    arguments = evaluate_arguments(context.spark, command.procedure, command.arguments)
    return _FUNCTIONS[command.procedure](ProcedureCall(context, options, command.procedure, arguments))
