"""Procedures about versions of a table: make another one the current version, publish staged changes, and list the ancestors."""

from __future__ import annotations

from rowmerge.errors import PlanError, VersionNotFound
from rowmerge.execution.restore_and_clone import restore
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.procedures.arguments import ProcedureCall
from rowmerge.table.metadata.schema import Primitive

_LONG, _STRING = Primitive("long"), Primitive("string")


def rollback_to_snapshot(call: ProcedureCall) -> StatementResult:
    """Make an ancestor of the current snapshot the current one, or restore an older version of a Delta table.

    Raises VersionNotFound if the snapshot is not an ancestor, or the version does not exist.
    """
    snapshot_id, maintenance = int(call.arguments["snapshot_id"]), call.table.maintenance
    return _set_current(call, snapshot_id if maintenance is None else maintenance.check_ancestor(snapshot_id))


def rollback_to_timestamp(call: ProcedureCall) -> StatementResult:
    """Make the newest ancestor before a time the current snapshot. Raises VersionNotFound if there is none."""
    timestamp, maintenance = call.arguments["timestamp"], call.table.maintenance
    if maintenance is not None:
        return _set_current(call, maintenance.newest_ancestor_before(timestamp))
    return _set_current(call, call.table.snapshot_at(timestamp=timestamp - 1).version)  # a version of this time is not older


def set_current_snapshot(call: ProcedureCall) -> StatementResult:
    """Make the snapshot of `snapshot_id`, or of the branch or tag `ref`, the current one.

    Raises:
        PlanError: The call has both arguments or neither, or it has `ref` for a table without branches.
    """
    arguments = call.arguments
    if ("snapshot_id" in arguments) == ("ref" in arguments):
        raise PlanError("set_current_snapshot needs either a snapshot_id or a ref. Specify exactly one of them.")
    if "ref" not in arguments:
        return _set_current(call, int(arguments["snapshot_id"]))
    if call.table.branches is None:
        raise PlanError(f"{call.table.name} is not an Iceberg table, so it has no branches or tags. Specify snapshot_id, a version number.")
    return _set_current(call, call.table.branches.snapshot_id(arguments["ref"]))


def _set_current(call: ProcedureCall, version: int) -> StatementResult:
    """Make another version the current one, and return the previous and the current snapshot id.

    RESTORE of a Delta table commits a new version with the files of the older one. So the current id is that of the new version.
    """
    old_version = call.table.snapshot().version
    new_version = version
    if version != old_version:
        result = restore(call.table, {"version": version}, version=version, timestamp=None, options=call.options)
        new_version = version if call.table.maintenance is not None else result.version
    previous = old_version if call.table.maintenance is None else old_version or None  # an Iceberg table may have no snapshot
    values = {"previous_snapshot_id": (_LONG, previous), "current_snapshot_id": (_LONG, new_version)}
    return call.result("SET CURRENT SNAPSHOT", values)


def fast_forward(call: ProcedureCall) -> StatementResult:
    """Move a branch forward to the snapshot of another branch, and return both snapshot ids."""
    branch = call.arguments["branch"]
    old_id, new_id = call.branches.fast_forward(branch, call.arguments["to"])
    values = {"branch_updated": (_STRING, branch), "previous_ref": (_LONG, old_id), "updated_ref": (_LONG, new_id)}
    return call.result("FAST FORWARD", values)


def cherrypick_snapshot(call: ProcedureCall) -> StatementResult:
    """Publish a snapshot on the main branch, and return the ids of the snapshot and of the current snapshot after it."""
    return _publish(call, "CHERRYPICK SNAPSHOT", int(call.arguments["snapshot_id"]))


def publish_changes(call: ProcedureCall) -> StatementResult:
    """Publish the snapshot that was staged under an id of `spark.wap.id`, and return the same ids as `cherrypick_snapshot`."""
    return _publish(call, "PUBLISH CHANGES", call.branches.staged_snapshot_id(call.arguments["wap_id"]))


def _publish(call: ProcedureCall, operation: str, snapshot_id: int) -> StatementResult:
    current_id = call.branches.publish(snapshot_id)
    return call.result(operation, {"source_snapshot_id": (_LONG, snapshot_id), "current_snapshot_id": (_LONG, current_id)})


def ancestors_of(call: ProcedureCall) -> StatementResult:
    """Return the id and the time of a snapshot and of its ancestors, newest first. Of a Delta table, return the versions in the log.

    Raises:
        VersionNotFound: The table has no snapshot with the id of the argument.
    """
    snapshot_id = call.arguments.get("snapshot_id")
    rows = _ancestors(call, snapshot_id)
    if snapshot_id is not None and not rows:
        raise VersionNotFound(f"{call.table.name} has no snapshot {snapshot_id}. See DESCRIBE HISTORY {call.table.name}.")
    return call.rows("ANCESTORS OF", {"snapshot_id": _LONG, "timestamp": _LONG}, rows)


def _ancestors(call: ProcedureCall, snapshot_id: int | None) -> list[tuple[int, int]]:
    """Return the id and the time of a snapshot and its ancestors. None is the current snapshot."""
    if call.table.maintenance is not None:
        return call.table.maintenance.ancestors(snapshot_id)
    versions = [(entry.version, entry.timestamp) for entry in call.table.history()]
    newer = [version for version, _ in versions if snapshot_id is not None and version > snapshot_id]
    is_known = snapshot_id is None or any(version == snapshot_id for version, _ in versions)
    return versions[len(newer) :] if is_known else []
