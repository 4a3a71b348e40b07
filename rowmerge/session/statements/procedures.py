"""CALL of a procedure. Its result has the columns of Iceberg's own procedures (https://iceberg.apache.org/docs/latest/spark-procedures/)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowmerge.commands.names import SqlText
from rowmerge.commands.procedures import PROCEDURES, Call, Kind
from rowmerge.errors import PlanError, TypeMismatch
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.compaction import optimize
from rowmerge.execution.restore import restore
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.context import SessionContext
from rowmerge.session.statements.rewrite_options import wishes_of
from rowmerge.spark.views import milliseconds
from rowmerge.sql import parse_table_name
from rowmerge.table.maintenance import ExpiryOptions, TableMaintenance
from rowmerge.table.metadata.schema import DataType, Primitive
from rowmerge.table.table import Branches, Table

_INT, _LONG = Primitive("integer"), Primitive("long")
_DAY = 24 * 3_600_000
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@dataclass(frozen=True)
class Procedures:
    """Executes CALL."""

    context: SessionContext
    options: CommitOptions

    def run(self, command: Call) -> StatementResult:
        """Run a procedure.

        Raises TableNotFound, TypeMismatch for an argument of another type, PlanError for a Delta table and for arguments that contradict
        each other, CommitConflict.
        """
        arguments = {name: self._value(command.procedure, name, text) for name, text in command.arguments.items()}
        name = parse_table_name(arguments["table"])
        table = self.context.names.table(name)
        maintenance, branches = table.maintenance, table.branches
        if maintenance is None or branches is None:
            instead = PROCEDURES[command.procedure].instead.format(name)
            raise PlanError(f"The procedure {command.procedure} is for Iceberg tables, and {name} is none. Use {instead} instead.")
        match command.procedure:
            case "expire_snapshots":
                return self._expire_snapshots(table, maintenance, arguments)
            case "remove_orphan_files":
                return self._remove_orphan_files(table, maintenance, arguments)
            case "rewrite_data_files":
                return self._rewrite_data_files(table, maintenance, arguments)
            case "rewrite_manifests":
                done = maintenance.rewrite_manifests()
                counts = {"rewritten_manifests_count": done.rewritten, "added_manifests_count": done.added}
                return self._count_result(table, "REWRITE MANIFESTS", counts)
            case "rewrite_position_delete_files":
                return self._rewrite_position_deletes(table, maintenance)
            case "rollback_to_snapshot":
                return self._set_current(table, maintenance.ancestor(snapshot_id=arguments["snapshot_id"]))
            case "rollback_to_timestamp":
                return self._set_current(table, maintenance.ancestor(before=arguments["timestamp"]))
            case "fast_forward":
                before, after = branches.fast_forward(arguments["branch"], arguments["to"])
                columns = {"branch_updated": Primitive("string"), "previous_ref": _LONG, "updated_ref": _LONG}
                frame = frames.of_rows(self.context.spark, columns, [[arguments["branch"], before, after]])
                return StatementResult(frame, "FAST FORWARD", None, table.snapshot().version)
            case "set_current_snapshot":
                return self._set_current(table, _snapshot_id_of(branches, arguments))
        raise AssertionError(command.procedure)

    # ------------------------------------------------------------------ procedures

    def _expire_snapshots(self, table: Table, maintenance: TableMaintenance, arguments: Mapping[str, Any]) -> StatementResult:
        older_than, retain_last, snapshot_ids = (arguments.get(name) for name in ("older_than", "retain_last", "snapshot_ids"))
        expired = maintenance.expire(ExpiryOptions(older_than, retain_last, tuple(snapshot_ids or ())))
        counts = {
            "deleted_data_files_count": expired.data_files,
            "deleted_position_delete_files_count": expired.position_delete_files,
            "deleted_equality_delete_files_count": expired.equality_delete_files,
            "deleted_manifest_files_count": expired.manifests,
            "deleted_manifest_lists_count": expired.manifest_lists,
            "deleted_statistics_files_count": expired.statistics_files,
        }
        return self._result(table, "EXPIRE SNAPSHOTS", {name: (_LONG, count) for name, count in counts.items()})

    def _remove_orphan_files(self, table: Table, maintenance: TableMaintenance, arguments: Mapping[str, Any]) -> StatementResult:
        """Delete files that no snapshot references. Raises PlanError for a time less than a day ago, as Iceberg does."""
        older_than = arguments.get("older_than")
        checked = str(self.context.spark.conf.get(_CHECK, "true")).strip().lower() == "true"
        if older_than is not None and checked and older_than > milliseconds(self.context.spark, "current_timestamp()") - _DAY:
            raise PlanError(
                f"remove_orphan_files takes files that are a day old or older: statements that are running could lose theirs. Give an "
                f"older_than of 24 hours ago or more, or, when nobody else uses the table, SET {_CHECK} = false."
            )
        paths = maintenance.remove_orphan_files(older_than, dry_run=arguments.get("dry_run", False))
        frame = frames.of_rows(self.context.spark, {"orphan_file_location": Primitive("string")}, [(path,) for path in paths])
        return StatementResult(frame, "REMOVE ORPHAN FILES", None, table.snapshot().version)

    def _rewrite_data_files(self, table: Table, maintenance: TableMaintenance, arguments: Mapping[str, Any]) -> StatementResult:
        if arguments.get("strategy", "binpack").lower() not in ("binpack", "sort"):
            raise PlanError(f"rewrite_data_files has no strategy {arguments['strategy']!r}. Leave it out: a table's order is kept anyway.")
        before = table.snapshot().version
        wishes = wishes_of(arguments.get("options", {}))
        result, compacted = optimize(self.context.spark, table, arguments.get("where"), self.options, wishes, by_bounds=True)
        counts: dict[str, tuple[DataType, int]] = {
            "rewritten_data_files_count": (_INT, len(compacted.removed.sizes)),
            "added_data_files_count": (_INT, len(compacted.added.sizes)),
            "rewritten_bytes_count": (_LONG, compacted.removed.total),
            "failed_data_files_count": (_INT, 0),
            "removed_delete_files_count": (_INT, maintenance.removed_delete_files(result.version) if result.version != before else 0),
        }
        frame = self._result(table, "OPTIMIZE", counts).frame
        return StatementResult.of(frame, "OPTIMIZE", result)

    def _rewrite_position_deletes(self, table: Table, maintenance: TableMaintenance) -> StatementResult:
        done = maintenance.rewrite_position_deletes()
        counts: dict[str, tuple[DataType, int]] = {
            "rewritten_delete_files_count": (_INT, done.rewritten),
            "added_delete_files_count": (_INT, done.added),
            "rewritten_bytes_count": (_LONG, done.rewritten_bytes),
            "added_bytes_count": (_LONG, done.added_bytes),
        }
        return self._result(table, "REWRITE POSITION DELETES", counts)

    def _set_current(self, table: Table, snapshot_id: int) -> StatementResult:
        """Make another snapshot the current one."""
        before = table.snapshot().version
        if snapshot_id != before:
            restore(table, {"version": snapshot_id}, version=snapshot_id, timestamp=None, options=self.options)
        return self._result(
            table, "SET CURRENT SNAPSHOT", {"previous_snapshot_id": (_LONG, before or None), "current_snapshot_id": (_LONG, snapshot_id)}
        )

    # ------------------------------------------------------------------ arguments and answers

    def _value(self, procedure: str, name: str, text: SqlText) -> Any:
        """Evaluate a constant argument in Spark. Return times in milliseconds since the epoch."""
        kind = PROCEDURES[procedure].parameters[name]
        if kind is Kind.TIME:
            return milliseconds(self.context.spark, text.text)
        (row,) = self.context.spark.sql(f"select {text.text} as value").collect()
        if not _is(kind, row["value"]):
            raise TypeMismatch(f"The argument {name} of {procedure} is {text.text}, and must be {kind.value}.")
        return row["value"]

    def _count_result(self, table: Table, operation: str, counts: Mapping[str, int]) -> StatementResult:
        return self._result(table, operation, {name: (_INT, count) for name, count in counts.items()})

    def _result(self, table: Table, operation: str, values: Mapping[str, tuple[DataType, int | None]]) -> StatementResult:
        types = {name: type_ for name, (type_, _) in values.items()}
        frame = frames.of_rows(self.context.spark, types, [[value for _, value in values.values()]])
        return StatementResult(frame, operation, None, table.snapshot().version)


def _is(kind: Kind, value: object) -> bool:
    match kind:
        case Kind.TABLE | Kind.TEXT:
            return isinstance(value, str)
        case Kind.NUMBER:
            return isinstance(value, int) and not isinstance(value, bool)
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.NUMBERS:
            return isinstance(value, list) and all(_is(Kind.NUMBER, item) for item in value)
        case Kind.OPTIONS:
            return isinstance(value, dict) and all(isinstance(item, str) for pair in value.items() for item in pair)
        case Kind.TIME:
            return True


def _snapshot_id_of(branches: Branches, arguments: Mapping[str, Any]) -> int:
    if ("snapshot_id" in arguments) == ("ref" in arguments):
        raise PlanError("set_current_snapshot takes a snapshot_id or a ref, one of them. Give one.")
    return arguments["snapshot_id"] if "snapshot_id" in arguments else branches.snapshot_id(arguments["ref"])
