"""CALL of a procedure, carried out, with the result columns of Iceberg's own procedures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rowmerge.commands.names import SqlText
from rowmerge.commands.procedures import PROCEDURES, Call, Kind
from rowmerge.errors import PlanError, TypeMismatch
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.compaction import optimize
from rowmerge.execution.restore import restore
from rowmerge.session import answers
from rowmerge.session.binding import Binder
from rowmerge.session.results import StatementResult
from rowmerge.session.rewrite_options import wishes_of
from rowmerge.spark.views import milliseconds
from rowmerge.sql import parse_table_name
from rowmerge.table.maintenance import ExpiryOptions, SnapshotUpkeep
from rowmerge.table.schema import DataType, Primitive
from rowmerge.table.snapshot import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INT, _LONG = Primitive("integer"), Primitive("long")
_DAY = 24 * 3_600_000
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@dataclass(frozen=True)
class Procedures:
    """Carries out CALL."""

    spark: SparkSession
    binder: Binder
    options: CommitOptions

    def run(self, command: Call) -> StatementResult:
        """The answer of a procedure.

        Raises TableNotFound, TypeMismatch for an argument of another type, PlanError for a table whose format has no such procedure and
        for arguments that do not go, CommitConflict.
        """
        given = {name: self._value(command.procedure, name, text) for name, text in command.arguments.items()}
        name = parse_table_name(given["table"])
        table = self.binder.table(name)
        if table.upkeep is None:
            instead = PROCEDURES[command.procedure].instead.format(name)
            raise PlanError(f"The procedure {command.procedure} is for Iceberg tables, and {name} is none. Use {instead} instead.")
        match command.procedure:
            case "expire_snapshots":
                return self._expire_snapshots(table, table.upkeep, given)
            case "remove_orphan_files":
                return self._remove_orphan_files(table, table.upkeep, given)
            case "rewrite_data_files":
                return self._rewrite_data_files(table, table.upkeep, given)
            case "rewrite_manifests":
                done = table.upkeep.rewrite_manifests()
                counts = {"rewritten_manifests_count": done.rewritten, "added_manifests_count": done.added}
                return self._counted(table, "REWRITE MANIFESTS", counts)
            case "rewrite_position_delete_files":
                return self._rewrite_position_deletes(table, table.upkeep)
            case "rollback_to_snapshot":
                return self._at(table, table.upkeep.ancestor(snapshot_id=given["snapshot_id"]))
            case "rollback_to_timestamp":
                return self._at(table, table.upkeep.ancestor(before=given["timestamp"]))
            case "fast_forward":
                before, after = table.upkeep.fast_forward(given["branch"], given["to"])
                columns = {"branch_updated": Primitive("string"), "previous_ref": _LONG, "updated_ref": _LONG}
                frame = answers.answer(self.spark, columns, [[given["branch"], before, after]])
                return StatementResult(frame, "FAST FORWARD", None, table.snapshot().version)
            case "set_current_snapshot":
                return self._at(table, _chosen(table.upkeep, given))
        raise AssertionError(command.procedure)

    # ------------------------------------------------------------------ procedures

    def _expire_snapshots(self, table: Table, upkeep: SnapshotUpkeep, given: Mapping[str, Any]) -> StatementResult:
        done = upkeep.expire(ExpiryOptions(given.get("older_than"), given.get("retain_last"), tuple(given.get("snapshot_ids", ()))))
        counts = {
            "deleted_data_files_count": done.data_files,
            "deleted_position_delete_files_count": done.position_delete_files,
            "deleted_equality_delete_files_count": done.equality_delete_files,
            "deleted_manifest_files_count": done.manifests,
            "deleted_manifest_lists_count": done.manifest_lists,
            "deleted_statistics_files_count": done.statistics_files,
        }
        return self._answer(table, "EXPIRE SNAPSHOTS", {name: (_LONG, count) for name, count in counts.items()})

    def _remove_orphan_files(self, table: Table, upkeep: SnapshotUpkeep, given: Mapping[str, Any]) -> StatementResult:
        """Refused for a time that is less than a day ago, as Iceberg does it: a statement that runs may be about to commit such files."""
        older_than = given.get("older_than")
        checked = str(self.spark.conf.get(_CHECK, "true")).strip().lower() == "true"
        if older_than is not None and checked and older_than > milliseconds(self.spark, "current_timestamp()") - _DAY:
            raise PlanError(
                f"remove_orphan_files takes files that are a day old or older: statements that are running could lose theirs. Give an "
                f"older_than of 24 hours ago or more, or, when nobody else uses the table, SET {_CHECK} = false."
            )
        paths = upkeep.remove_orphan_files(older_than, dry_run=given.get("dry_run", False))
        frame = answers.answer(self.spark, {"orphan_file_location": Primitive("string")}, [(path,) for path in paths])
        return StatementResult(frame, "REMOVE ORPHAN FILES", None, table.snapshot().version)

    def _rewrite_data_files(self, table: Table, upkeep: SnapshotUpkeep, given: Mapping[str, Any]) -> StatementResult:
        if given.get("strategy", "binpack").lower() not in ("binpack", "sort"):
            raise PlanError(f"rewrite_data_files has no strategy {given['strategy']!r}. Leave it out: a table's order is kept anyway.")
        before = table.snapshot().version
        wishes = wishes_of(given.get("options", {}))
        result, compacted = optimize(self.spark, table, given.get("where"), self.options, wishes, by_bounds=True)
        counts: dict[str, tuple[DataType, int]] = {
            "rewritten_data_files_count": (_INT, len(compacted.removed.sizes)),
            "added_data_files_count": (_INT, len(compacted.added.sizes)),
            "rewritten_bytes_count": (_LONG, compacted.removed.total),
            "failed_data_files_count": (_INT, 0),
            "removed_delete_files_count": (_INT, upkeep.removed_delete_files(result.version) if result.version != before else 0),
        }
        frame = self._answer(table, "OPTIMIZE", counts).frame
        return StatementResult.of(frame, "OPTIMIZE", result)

    def _rewrite_position_deletes(self, table: Table, upkeep: SnapshotUpkeep) -> StatementResult:
        done = upkeep.rewrite_position_deletes()
        counts: dict[str, tuple[DataType, int]] = {
            "rewritten_delete_files_count": (_INT, done.rewritten),
            "added_delete_files_count": (_INT, done.added),
            "rewritten_bytes_count": (_LONG, done.rewritten_bytes),
            "added_bytes_count": (_LONG, done.added_bytes),
        }
        return self._answer(table, "REWRITE POSITION DELETES", counts)

    def _at(self, table: Table, snapshot_id: int) -> StatementResult:
        """The table's newest snapshot is another one."""
        before = table.snapshot().version
        if snapshot_id != before:
            restore(table, {"version": snapshot_id}, version=snapshot_id, timestamp=None, options=self.options)
        return self._answer(
            table, "SET CURRENT SNAPSHOT", {"previous_snapshot_id": (_LONG, before or None), "current_snapshot_id": (_LONG, snapshot_id)}
        )

    # ------------------------------------------------------------------ arguments and answers

    def _value(self, procedure: str, name: str, text: SqlText) -> Any:
        """What Spark makes of a constant; times in milliseconds since the epoch."""
        kind = PROCEDURES[procedure].parameters[name]
        if kind is Kind.TIME:
            return milliseconds(self.spark, text.text)
        (row,) = self.spark.sql(f"select {text.text} as value").collect()
        if not _is(kind, row["value"]):
            raise TypeMismatch(f"The argument {name} of {procedure} is {text.text}, and must be {kind.value}.")
        return row["value"]

    def _counted(self, table: Table, operation: str, counts: Mapping[str, int]) -> StatementResult:
        return self._answer(table, operation, {name: (_INT, count) for name, count in counts.items()})

    def _answer(self, table: Table, operation: str, values: Mapping[str, tuple[DataType, int | None]]) -> StatementResult:
        types = {name: type_ for name, (type_, _) in values.items()}
        frame = answers.answer(self.spark, types, [[value for _, value in values.values()]])
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


def _chosen(upkeep: SnapshotUpkeep, given: Mapping[str, Any]) -> int:
    if ("snapshot_id" in given) == ("ref" in given):
        raise PlanError("set_current_snapshot takes a snapshot_id or a ref, one of them. Give one.")
    return given["snapshot_id"] if "snapshot_id" in given else upkeep.named(given["ref"])
