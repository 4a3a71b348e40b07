"""CREATE TABLE … SHALLOW CLONE."""

from __future__ import annotations

from rowmerge.commands.definitions import CloneTable
from rowmerge.errors import AlreadyExists, PlanError
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.restore_and_clone import Clone
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.names.resolver import QualifiedName, branches_of
from rowmerge.session.names.scope import SessionContext
from rowmerge.spark.spark_session import milliseconds
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


def clone_table(context: SessionContext, command: CloneTable, options: CommitOptions) -> StatementResult:
    """Clone a table, but share its data files. Return Delta's counts. Raises TableNotFound, VersionNotFound, AlreadyExists, PlanError."""
    name = context.names.qualify(command.name)
    if name.relation is not None and command.if_not_exists:
        return empty_result(context.spark, "CLONE")
    if name.relation is not None and name.relation.kind == "view":
        raise AlreadyExists(f"{name} is a view. Drop it with DROP VIEW, or choose another name.")
    source_name = context.names.qualify(command.source)
    source = _source_snapshot(context, command)
    assert source_name.relation is not None and source_name.relation.format is not None  # a table, or `_source_snapshot` raises
    format_ = source_name.relation.format
    table = _clone_target(context, command, name, format_)
    if table.location == source.shape.location:
        raise PlanError(f"{name} would be a clone of itself. Give the clone another name; older versions come back with RESTORE TABLE.")
    clone = Clone(table, str(name), source, str(source_name), command.properties, options)
    result = clone.run(or_replace=command.or_replace)
    if command.location is not None and name.relation is None:
        context.catalog.register(name.schema, name.name, format_, command.location)
    return StatementResult.from_change(frames.count_row(context.spark, clone.counts), "CLONE", result)


def _clone_target(context: SessionContext, command: CloneTable, name: QualifiedName, format_: str) -> Table:
    """Return the table that becomes the clone. Raise PlanError for an existing table of another format than the source's."""
    if name.relation is None:
        return context.catalog.table_at(name.schema, name.name, format_, command.location)
    if name.relation.format != format_:
        problem = f"{name} has the format {name.relation.format}, and a clone of {command.source} has {format_}."
        raise PlanError(f"{problem} Drop the table first.")
    return context.catalog.open(name.schema, name.name)


def _source_snapshot(context: SessionContext, command: CloneTable) -> Snapshot:
    """Return the version to clone. Raise TableNotFound, TableError for a view, VersionNotFound."""
    table = context.names.table(command.source)
    if command.timestamp is not None:
        return table.snapshot_at(timestamp=milliseconds(context.spark, command.timestamp.text))
    if command.reference is None:
        return table.snapshot_at(version=command.version)
    return table.snapshot_at(version=branches_of(table, command.source).snapshot_id(command.reference))
