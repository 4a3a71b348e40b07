"""The procedure that creates a view of the changes between versions of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rowmerge.errors import PlanError, TypeMismatch, UnknownColumn, VersionNotFound
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.procedures.arguments import OptionParser, ProcedureCall, number
from rowmerge.spark.procedures.changelog import REARRANGING, VersionChange, net_changes, read_changelog, with_updates
from rowmerge.spark.spark_session import register_view
from rowmerge.sql import parse_table_name
from rowmerge.table.metadata.schema import DataType, Map, Primitive, Struct, backquote, parts

_STRING = Primitive("string")
_OPTIONS = OptionParser(
    "create_changelog_view",
    {
        "start-snapshot-id": ("start_id", number),
        "end-snapshot-id": ("end_id", number),
        "start-timestamp": ("start_time", number),
        "end-timestamp": ("end_time", number),
    },
    {},
    {},
)


class _Version(NamedTuple):
    """A version in the history of a table. `parent`: the version that it follows, or None for the first one."""

    id: int
    timestamp: int
    operation: str
    parent: int | None


def create_changelog_view(call: ProcedureCall) -> StatementResult:
    """Create a temporary view of the inserted, deleted and updated rows between two versions, and return its name.

    Raises:
        PlanError: The arguments contradict each other, or an option is unknown.
        TypeMismatch: A column has a type whose values cannot be compared.
        UnknownColumn: The table has no such identifier column.
        VersionNotFound: A version does not exist, or has expired.
    """
    arguments, table = call.arguments, call.table
    identifier_columns = _identifier_columns(call)
    computes_updates = arguments.get("compute_updates", "identifier_columns" in arguments)
    if computes_updates and arguments.get("net_changes"):
        raise PlanError("create_changelog_view computes either net_changes or updates. Set one of them to false.")
    if computes_updates and not identifier_columns:
        raise PlanError(f"{table.name} has no identifier fields. List identifier_columns, or set compute_updates => false.")
    changes = _changes(call)
    schema = table.snapshot().schema
    _check_comparable(schema)
    for name in identifier_columns:
        if name not in schema.names:
            raise UnknownColumn(name, schema.names)
    rows = read_changelog(call.spark, changes, schema)
    if arguments.get("net_changes"):
        rows = net_changes(rows, schema.names)
    elif computes_updates:
        rows = with_updates(rows, identifier_columns)
    *_, table_name = parse_table_name(arguments["table"]).parts
    text = arguments.get("changelog_view", f"{backquote(f'{table_name}_changes')}")
    view = parse_table_name(text).parts
    if len(view) > 1:
        raise PlanError(f"{text} is not the name of a temporary view, which has no schema. Leave out the schema.")
    call.context.names.temporary_views.drop(view[0])
    register_view(rows, view[0])
    return call.result("CREATE CHANGELOG VIEW", {"changelog_view": (_STRING, text)})


def _identifier_columns(call: ProcedureCall) -> tuple[str, ...]:
    """Return the columns of the argument, or else the identifier fields of an Iceberg table."""
    if "identifier_columns" in call.arguments:
        return tuple(call.arguments["identifier_columns"])
    return () if call.table.maintenance is None else call.table.maintenance.identifier_columns()


def _check_comparable(schema: Struct) -> None:
    """Raise TypeMismatch if a column contains maps or variants, at any depth."""
    for field in schema:
        if not _is_comparable(field.type):
            problem = f"The column {field.name} has the type {field.sql_type}, whose values Spark cannot compare."
            raise TypeMismatch(f"{problem} Compare two versions in a query with VERSION AS OF, without this column.")


def _is_comparable(type_: DataType) -> bool:
    return not isinstance(type_, Map) and type_ != Primitive("variant") and all(_is_comparable(part.type) for part in parts(type_))


def _changes(call: ProcedureCall) -> list[VersionChange]:
    """Return the versions after the start up to the end of the changelog, oldest first."""
    options = _OPTIONS.parse(call.arguments.get("options", {}))
    for kind in ("start", "end"):
        if f"{kind}_id" in options and f"{kind}_time" in options:
            raise PlanError(f"create_changelog_view has both {kind}-snapshot-id and {kind}-timestamp. Specify one of them.")
    history = _history(call, options.get("end_id"))
    if "end_time" in options:
        history = [version for version in history if version.timestamp <= options["end_time"]]
    changed = _after_start(call, history, options.get("start_id"), options.get("start_time"))
    table = call.table
    return [
        VersionChange(table.snapshot_at(version=version.id), None if version.parent is None else table.snapshot_at(version=version.parent))
        for version in reversed(changed)
        if version.operation not in REARRANGING
    ]


def _after_start(call: ProcedureCall, history: Sequence[_Version], start_id: int | None, start_time: int | None) -> list[_Version]:
    """Return the versions after the start, newest first. Raise VersionNotFound if the start is not in the history."""
    if start_id is not None:
        ids = [version.id for version in history]
        if start_id not in ids:
            problem = f"The version {start_id} of {call.table.name} is not an ancestor of the last version of the changelog."
            raise VersionNotFound(f"{problem} See DESCRIBE HISTORY {call.table.name}.")
        return list(history[: ids.index(start_id)])
    changed = [version for version in history if start_time is None or version.timestamp > start_time]
    if changed and changed[-1].parent is not None and changed[-1] == history[-1]:
        advice = f"Set start-snapshot-id to {changed[-1].id} or a later version."
        raise VersionNotFound(f"The versions of {call.table.name} before {changed[-1].id} have expired. {advice}")
    return changed


def _history(call: ProcedureCall, end_id: int | None) -> list[_Version]:
    """Return the last version and its ancestors, newest first. Raise VersionNotFound if the table has no such version."""
    maintenance = call.table.maintenance
    if maintenance is not None:
        history = [_Version(*version) for version in maintenance.changelog_versions(end_id)]
    else:
        entries = call.table.history()
        history = [
            _Version(entry.version, entry.timestamp, entry.operation, entry.version - 1 if entry.version else None)
            for entry in entries
            if end_id is None or entry.version <= end_id
        ]
    if end_id is not None and (not history or history[0].id != end_id):
        raise VersionNotFound(f"{call.table.name} has no version {end_id}. See DESCRIBE HISTORY {call.table.name}.")
    return history
