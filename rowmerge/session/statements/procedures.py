"""CALL of Iceberg's procedures, with its arguments and result columns (https://iceberg.apache.org/docs/latest/spark-procedures/)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rowmerge.commands.procedures import PROCEDURES, Call, Kind
from rowmerge.errors import PlanError, TypeMismatch
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.compaction import optimize
from rowmerge.execution.restore_and_clone import restore
from rowmerge.plan.file_strategy import CompactionOptions
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.scope import SessionContext
from rowmerge.session.statements.settings import RETENTION_CHECK, is_retention_checked
from rowmerge.spark.peer_settings import with_iceberg_settings
from rowmerge.spark.spark_session import evaluate_timestamp_millis
from rowmerge.sql import parse_table_name
from rowmerge.table.maintenance import ExpiryOptions, TableMaintenance
from rowmerge.table.metadata.schema import Primitive
from rowmerge.table.table import Branches, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INT, _LONG, _STRING = Primitive("integer"), Primitive("long"), Primitive("string")
_DAY = 24 * 3_600_000  # milliseconds
_RATIO = "delete-ratio-threshold"
_IGNORED = (
    *("max-concurrent-file-group-rewrites", "max-file-group-size-bytes", "max-file-group-input-files", "rewrite-job-order"),
    *("partial-progress.enabled", "partial-progress.max-commits", "partial-progress.max-failed-commits"),
    *("use-starting-sequence-number", "remove-dangling-deletes"),
)
"""Options without effect, which divide a rewrite into parts or set the order of the parts. Here a rewrite is one commit. Its files have the
sequence number of the files that they replace, and the commit removes delete files that no longer apply to any file."""


def call_procedure(context: SessionContext, command: Call, options: CommitOptions) -> StatementResult:
    """Run CALL of one of Iceberg's procedures, and return the row of its result.

    Args:
        context: The session.
        command: The parsed statement, with the arguments as constant SQL expressions.
        options: The number of retries of the commit.

    Raises:
        PlanError: The table is not an Iceberg table, or the arguments contradict each other.
        TypeMismatch: An argument has the wrong type.
        TableNotFound: The table does not exist.
        CommitConflict: All attempts conflict with concurrent commits.
    """
    procedure = command.procedure
    arguments = {name: _evaluate_argument(context.spark, procedure, name, text.text) for name, text in command.arguments.items()}
    name = parse_table_name(arguments["table"])
    table = context.names.table(name)
    if table.maintenance is None or table.branches is None:
        instead = PROCEDURES[procedure].instead.format(name)
        raise PlanError(f"The procedure {procedure} supports only Iceberg tables, and {name} is not one. Use {instead} instead.")
    return _METHODS[procedure](IcebergCall(context.spark, options, table, table.maintenance, table.branches, arguments))


@dataclass(frozen=True)
class IcebergCall:
    """One CALL of a procedure on a table. `arguments`: the argument values by name. Times are in milliseconds since the epoch."""

    spark: SparkSession
    options: CommitOptions
    table: Table
    maintenance: TableMaintenance
    branches: Branches
    arguments: Mapping[str, Any]

    def expire_snapshots(self) -> StatementResult:
        """Expire snapshots, and return Iceberg's counts of deleted files."""
        snapshot_ids = tuple(self.arguments.get("snapshot_ids") or ())
        options = ExpiryOptions(self.arguments.get("older_than"), self.arguments.get("retain_last"), snapshot_ids)
        expiry = self.maintenance.expire(options)
        values: frames.RowValues = {
            "deleted_data_files_count": (_LONG, expiry.data_files),
            "deleted_position_delete_files_count": (_LONG, expiry.position_delete_files),
            "deleted_equality_delete_files_count": (_LONG, expiry.equality_delete_files),
            "deleted_manifest_files_count": (_LONG, expiry.manifests),
            "deleted_manifest_lists_count": (_LONG, expiry.manifest_lists),
            "deleted_statistics_files_count": (_LONG, expiry.statistics_files),
        }
        return self._result("EXPIRE SNAPSHOTS", values)

    def remove_orphan_files(self) -> StatementResult:
        """Delete files that no snapshot references, and return their paths. Raises PlanError for a time within the last day."""
        older_than = self.arguments.get("older_than")
        if older_than is not None and is_retention_checked(self.spark):
            self._check_a_day_old(older_than)
        paths = self.maintenance.remove_orphan_files(older_than, dry_run=self.arguments.get("dry_run", False))
        frame = frames.text_column(self.spark, "orphan_file_location", paths)
        return StatementResult(frame, "REMOVE ORPHAN FILES", None, self.table.snapshot().version)

    def _check_a_day_old(self, older_than: int) -> None:
        """Raise PlanError if a time is within the last 24 hours, because files of running statements may be that recent."""
        if older_than > evaluate_timestamp_millis(self.spark, "current_timestamp()") - _DAY:
            problem = "remove_orphan_files deletes only files that are at least a day old, because running statements need newer files."
            advice = f"Set older_than to at least 24 hours ago. If no other process uses the table, you can SET {RETENTION_CHECK} = false."
            raise PlanError(f"{problem} {advice}")

    def rewrite_data_files(self) -> StatementResult:
        """Compact data files, and return Iceberg's counts of files.

        Raises:
            PlanError: The strategy or an option is unknown.
        """
        strategy = self.arguments.get("strategy", "binpack")
        if strategy.lower() not in ("binpack", "sort"):
            raise PlanError(f"rewrite_data_files has no strategy {strategy!r}. Omit it: the sort order of the table always applies.")
        old_version = self.table.snapshot().version
        rewrite_options = _parse_rewrite_options(self.arguments.get("options", {}))
        # As in Iceberg, `where` may use all columns: the column bounds of the files decide which files are rewritten.
        table = with_iceberg_settings(self.spark, self.table)
        result, statistics = optimize(self.spark, table, self.arguments.get("where"), self.options, rewrite_options, by_bounds=True)
        # Without a rewrite there is no new snapshot, and so no delete files that it removed.
        removed_delete_files = 0 if result.version == old_version else self.maintenance.removed_delete_files(result.version)
        values: frames.RowValues = {
            "rewritten_data_files_count": (_INT, len(statistics.removed_sizes)),
            "added_data_files_count": (_INT, len(statistics.added_sizes)),
            "rewritten_bytes_count": (_LONG, sum(statistics.removed_sizes)),
            "failed_data_files_count": (_INT, 0),  # in one commit, all files are rewritten or none
            "removed_delete_files_count": (_INT, removed_delete_files),
        }
        return StatementResult.from_change(frames.single_row(self.spark, values), "OPTIMIZE", result)

    def rewrite_manifests(self) -> StatementResult:
        """Rewrite manifests, and return Iceberg's counts of manifests."""
        manifests = self.maintenance.rewrite_manifests()
        counts = {"rewritten_manifests_count": manifests.rewritten, "added_manifests_count": manifests.added}
        return self._result("REWRITE MANIFESTS", {name: (_INT, count) for name, count in counts.items()})

    def rewrite_position_deletes(self) -> StatementResult:
        """Rewrite position delete files, and return Iceberg's counts of delete files."""
        delete_files = self.maintenance.rewrite_position_deletes()
        values: frames.RowValues = {
            "rewritten_delete_files_count": (_INT, delete_files.rewritten),
            "added_delete_files_count": (_INT, delete_files.added),
            "rewritten_bytes_count": (_LONG, delete_files.rewritten_bytes),
            "added_bytes_count": (_LONG, delete_files.added_bytes),
        }
        return self._result("REWRITE POSITION DELETES", values)

    def fast_forward(self) -> StatementResult:
        """Move a branch forward to the snapshot of another branch, and return both snapshot ids."""
        branch = self.arguments["branch"]
        old_id, new_id = self.branches.fast_forward(branch, self.arguments["to"])
        values: frames.RowValues = {"branch_updated": (_STRING, branch), "previous_ref": (_LONG, old_id), "updated_ref": (_LONG, new_id)}
        return self._result("FAST FORWARD", values)

    def cherrypick_snapshot(self) -> StatementResult:
        """Publish a snapshot on the main branch, and return the ids of the snapshot and of the current snapshot after it."""
        return self._publish("CHERRYPICK SNAPSHOT", int(self.arguments["snapshot_id"]))

    def publish_changes(self) -> StatementResult:
        """Publish the snapshot that was staged under an id of `spark.wap.id`, and return the same ids as `cherrypick_snapshot`."""
        return self._publish("PUBLISH CHANGES", self.branches.staged_snapshot_id(self.arguments["wap_id"]))

    def _publish(self, operation: str, snapshot_id: int) -> StatementResult:
        current_id = self.branches.publish(snapshot_id)
        return self._result(operation, {"source_snapshot_id": (_LONG, snapshot_id), "current_snapshot_id": (_LONG, current_id)})

    def set_current(self, snapshot_id: int) -> StatementResult:
        """Make another snapshot the current one, and return the previous and the current snapshot id."""
        old_id = self.table.snapshot().version
        if snapshot_id != old_id:
            restore(self.table, {"version": snapshot_id}, version=snapshot_id, timestamp=None, options=self.options)
        values: frames.RowValues = {"previous_snapshot_id": (_LONG, old_id or None), "current_snapshot_id": (_LONG, snapshot_id)}
        return self._result("SET CURRENT SNAPSHOT", values)

    def set_current_snapshot(self) -> StatementResult:
        """Make the snapshot of `snapshot_id`, or of the branch or tag `ref`, the current one.

        Raises:
            PlanError: The call has both arguments, or neither.
        """
        arguments = self.arguments
        if ("snapshot_id" in arguments) == ("ref" in arguments):
            raise PlanError("set_current_snapshot needs either a snapshot_id or a ref. Specify exactly one of them.")
        return self.set_current(self.branches.snapshot_id(arguments["ref"]) if "ref" in arguments else int(arguments["snapshot_id"]))

    def _result(self, operation: str, values: frames.RowValues) -> StatementResult:
        return StatementResult(frames.single_row(self.spark, values), operation, None, self.table.snapshot().version)


_METHODS: dict[str, Callable[[IcebergCall], StatementResult]] = {
    "expire_snapshots": IcebergCall.expire_snapshots,
    "remove_orphan_files": IcebergCall.remove_orphan_files,
    "rewrite_data_files": IcebergCall.rewrite_data_files,
    "rewrite_manifests": IcebergCall.rewrite_manifests,
    "rewrite_position_delete_files": IcebergCall.rewrite_position_deletes,
    "rollback_to_snapshot": lambda call: call.set_current(call.maintenance.check_ancestor(call.arguments["snapshot_id"])),
    "rollback_to_timestamp": lambda call: call.set_current(call.maintenance.newest_ancestor_before(call.arguments["timestamp"])),
    "fast_forward": IcebergCall.fast_forward,
    "set_current_snapshot": IcebergCall.set_current_snapshot,
    "cherrypick_snapshot": IcebergCall.cherrypick_snapshot,
    "publish_changes": IcebergCall.publish_changes,
}
"""The method that executes each procedure, by the name of the procedure."""


def _evaluate_argument(spark: SparkSession, procedure: str, name: str, expression: str) -> Any:
    """Evaluate a constant argument in Spark. Return times in milliseconds since the epoch. Raise TypeMismatch for a wrong type."""
    kind = PROCEDURES[procedure].parameters[name]
    if kind is Kind.TIME:
        return evaluate_timestamp_millis(spark, expression)
    (row,) = spark.sql(f"select {expression} as value").collect()
    if not _is_of_kind(row["value"], kind):
        raise TypeMismatch(f"The argument {name} of {procedure} is {expression}, but it must be {kind.value}.")
    return row["value"]


def _is_of_kind(value: object, kind: Kind) -> bool:
    """Return whether a value has the type of a parameter. The kind is not TIME, because `evaluate_timestamp_millis` checks times."""
    match kind:
        case Kind.NUMBER:
            return isinstance(value, int) and not isinstance(value, bool)
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.NUMBERS:
            return isinstance(value, list) and all(_is_of_kind(item, Kind.NUMBER) for item in value)
        case Kind.OPTIONS:
            return isinstance(value, dict) and all(isinstance(text, str) for text in (*value.keys(), *value.values()))
    return isinstance(value, str)


def _parse_rewrite_options(options: Mapping[str, str]) -> CompactionOptions:
    """Parse the options of Iceberg's RewriteDataFiles. Raise PlanError for an unknown option or an invalid value."""
    values: dict[str, Any] = {}
    for name, text in options.items():
        if name in _IGNORED:
            continue
        if name not in _OPTIONS:
            raise _unknown_option(name)
        field, parse = _OPTIONS[name]
        values[field] = parse(name, text)
    return CompactionOptions(**values)


def _parse_number(name: str, text: str) -> int:
    if not re.fullmatch(r"\s*0*[1-9]\d*\s*", text):
        raise _wrong_value(name, text, "a whole number greater than 0")
    return int(text)


def _parse_boolean(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise _wrong_value(name, text, "true or false")
    return text.strip().lower() == "true"


def _parse_ratio(name: str, text: str) -> float:
    if not re.fullmatch(r"\s*(0(\.\d*)?|\.\d+|1(\.0*)?)\s*", text):
        raise _wrong_value(name, text, "a number from 0 to 1")
    return float(text)


def _parse_delete_threshold(name: str, text: str) -> float:
    """Return the ratio of deleted rows above which a file is rewritten. A threshold of one deleted row is a ratio of 0."""
    if _parse_number(name, text) > 1:
        raise _wrong_value(name, text, f"1 for any deleted row, or set {_RATIO} to the fraction of deleted rows")
    return 0.0


def _wrong_value(name: str, text: str, advice: str) -> PlanError:
    return PlanError(f"The option {name} of rewrite_data_files is {text!r}. Set it to {advice}.")


def _unknown_option(name: str) -> PlanError:
    supported_options = sorted(_OPTIONS)
    similar_options = get_close_matches(name, [*supported_options, *_IGNORED], n=1, cutoff=0.7)
    advice = f"Did you mean {similar_options[0]}?" if similar_options else f"The options are: {', '.join(supported_options)}."
    return PlanError(f"rewrite_data_files has no option {name}. {advice}")


_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "target-file-size-bytes": ("target_size", _parse_number),
    "min-file-size-bytes": ("min_size", _parse_number),
    "max-file-size-bytes": ("max_size", _parse_number),
    "min-input-files": ("min_files", _parse_number),
    "max-files-to-rewrite": ("max_files", _parse_number),
    "rewrite-all": ("rewrites_all", _parse_boolean),
    _RATIO: ("max_deleted_ratio", _parse_ratio),
    "delete-file-threshold": ("max_deleted_ratio", _parse_delete_threshold),
}
"""The field of `CompactionOptions` that each option sets, and the parser of its value."""
