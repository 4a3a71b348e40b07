"""CREATE TABLE … SHALLOW CLONE."""

from __future__ import annotations

from rowmerge.commands.definitions import CloneTable
from rowmerge.errors import AlreadyExists, PlanError
from rowmerge.execution.clone import Clone
from rowmerge.execution.commit import CommitOptions
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult, empty_result
from rowmerge.session.names.context import SessionContext
from rowmerge.session.names.format_features import branches_of
from rowmerge.session.names.resolver import Place
from rowmerge.spark.views import milliseconds
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


def clone_table(context: SessionContext, command: CloneTable, options: CommitOptions) -> StatementResult:
    """Create a table that references the data files of another one. Return Delta's counts of files and bytes.

    Raises TableNotFound, VersionNotFound, AlreadyExists, PlanError, and as `Clone.run`.
    """
    place = context.names.place(command.name)
    if place.existing is not None and command.if_not_exists:
        return empty_result(context.spark, "CLONE")
    if place.existing is not None and place.existing.kind == "view":
        raise AlreadyExists(f"{place} is a view. Drop it with DROP VIEW, or choose another name.")
    source_place = context.names.place(command.source)
    source = _source_version(context, command)
    assert source_place.existing is not None  # the source is a table, or `_source_version` raises
    assert source_place.existing.format is not None
    table = _clone_target(context, command, place, source_place.existing.format)
    if table.location == source.shape.location:
        raise PlanError(f"{place} would be a clone of itself. Give the clone another name; older versions come back with RESTORE TABLE.")
    clone = Clone(table, str(place), source, str(source_place), command.properties, options)
    result = clone.run(or_replace=command.or_replace)
    if command.location is not None and place.existing is None:
        context.catalog.register(place.schema, place.name, source_place.existing.format, command.location)
    return StatementResult.from_change(frames.count_row(context.spark, clone.counts), "CLONE", result)


def _clone_target(context: SessionContext, command: CloneTable, place: Place, format_: str) -> Table:
    """Return the table that becomes the clone. Raise PlanError for an existing table of another format than the source's."""
    if place.existing is None:
        return context.catalog.table_at(place.schema, place.name, format_, command.location)
    if place.existing.format != format_:
        raise PlanError(
            f"{place} has the format {place.existing.format}, and a clone of {command.source} has {format_}. Drop the table first."
        )
    return context.catalog.open(place.schema, place.name)


def _source_version(context: SessionContext, command: CloneTable) -> Snapshot:
    """Return the version to clone. Raise TableNotFound, TableError for a view, VersionNotFound."""
    table = context.names.table(command.source)
    if command.timestamp is not None:
        return table.snapshot_at(timestamp=milliseconds(context.spark, command.timestamp.text))
    if command.reference is None:
        return table.snapshot_at(version=command.version)
    return table.snapshot_at(version=branches_of(table, command.source).snapshot_id(command.reference))
