"""Procedures that rewrite data files, manifests or position deletes. No row changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rowmerge.errors import PlanError
from rowmerge.execution.compaction import Compaction, optimize
from rowmerge.plan.file_strategy import CompactionOptions
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.resolver import branch_of
from rowmerge.session.procedures.arguments import OptionParser, ProcedureCall, boolean, number, one_of, ratio, whole_number
from rowmerge.spark.peer_settings import optimize_size, with_iceberg_settings
from rowmerge.table.maintenance import DeleteRewriteOptions, ManifestRewriteOptions
from rowmerge.table.metadata.schema import Primitive

_INT, _LONG = Primitive("integer"), Primitive("long")
_RATIO = "delete-ratio-threshold"
_ORDERS = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")
_ONE_COMMIT: dict[str, Callable[[str], Any]] = {
    "max-concurrent-file-group-rewrites": whole_number,
    "max-file-group-size-bytes": whole_number,
    "max-file-group-input-files": whole_number,
    "rewrite-job-order": one_of(*_ORDERS),
    "partial-progress.enabled": boolean,
    "partial-progress.max-commits": whole_number,
    "partial-progress.max-failed-commits": whole_number,
}
"""Options without effect, which divide a rewrite into parts or set the order of the parts. Here a rewrite is one commit."""


def _delete_threshold(text: str) -> float:
    """Return the ratio of deleted rows above which a file is rewritten. A threshold of one deleted row is a ratio of 0."""
    if whole_number(text) > 1:
        raise ValueError(f"1 for any deleted row, or set {_RATIO} to the fraction of deleted rows")
    return 0.0


_SORT_ADVICE = "Rows are sorted by the table's own write order: ALTER TABLE … WRITE ORDERED BY …. Leave it out."
_DATA_FILE_OPTIONS = OptionParser(
    "rewrite_data_files",
    {
        "target-file-size-bytes": ("target_size", whole_number),
        "min-file-size-bytes": ("min_size", whole_number),
        "max-file-size-bytes": ("max_size", whole_number),
        "min-input-files": ("min_files", whole_number),
        "max-files-to-rewrite": ("max_files", whole_number),
        "rewrite-all": ("rewrites_all", boolean),
        _RATIO: ("max_deleted_ratio", ratio),
        "delete-file-threshold": ("max_deleted_ratio", _delete_threshold),
        "output-spec-id": ("output_spec_id", number),
    },
    # New files have the sequence number of the files that they replace, and the commit removes delete files that apply to no other file.
    {**_ONE_COMMIT, "use-starting-sequence-number": boolean, "remove-dangling-deletes": boolean},
    dict.fromkeys(("compression-factor", "shuffle-partitions-per-file", "var-length-contribution", "max-output-size"), _SORT_ADVICE),
)
_DELETE_FILE_OPTIONS = OptionParser(
    "rewrite_position_delete_files",
    {
        "min-file-size-bytes": ("min_size", whole_number),
        "max-file-size-bytes": ("max_size", whole_number),
        "min-input-files": ("min_files", whole_number),
        "max-files-to-rewrite": ("max_files", whole_number),
        "rewrite-all": ("rewrites_all", boolean),
    },
    _ONE_COMMIT,
    {"target-file-size-bytes": "Each data file gets a delete file of its own. Leave it out."},
)


def rewrite_data_files(call: ProcedureCall) -> StatementResult:
    """Compact data files, and return Iceberg's counts of files.

    Raises:
        PlanError: The strategy, the sort order or an option is not supported, or the table has no such branch.
    """
    arguments = call.arguments
    strategy = arguments.get("strategy", "binpack")
    if strategy.lower() not in ("binpack", "sort"):
        raise PlanError(f"rewrite_data_files has no strategy {strategy!r}. Omit it: the sort order of the table always applies.")
    if "sort_order" in arguments:
        raise PlanError(f"rewrite_data_files does not support the argument sort_order. {_SORT_ADVICE}")
    table = call.table if "branch" not in arguments else branch_of(call.table, arguments["branch"])
    # As in Iceberg, `where` may use all columns: the column bounds of the files decide which files are rewritten.
    table = with_iceberg_settings(call.spark, table)
    old_version = table.snapshot().version
    options = _compaction_options(call)
    result, statistics = optimize(call.spark, table, arguments.get("where"), call.options, options, by_bounds=True)
    removed_delete_files = statistics.removed_vector_count
    if table.maintenance is not None:
        # Without a rewrite there is no new snapshot, and so no delete files that it removed.
        removed_delete_files = 0 if result.version == old_version else table.maintenance.removed_delete_files(result.version)
    values: frames.RowValues = {
        "rewritten_data_files_count": (_INT, len(statistics.removed_sizes)),
        "added_data_files_count": (_INT, len(statistics.added_sizes)),
        "rewritten_bytes_count": (_LONG, sum(statistics.removed_sizes)),
        "failed_data_files_count": (_INT, 0),  # in one commit, all files are rewritten or none
        "removed_delete_files_count": (_INT, removed_delete_files),
    }
    return StatementResult.from_change(frames.single_row(call.spark, values), "OPTIMIZE", result)


def _compaction_options(call: ProcedureCall) -> CompactionOptions:
    """Return the options in the argument `options`. Raise PlanError if they name another partition spec than the current one."""
    values = _DATA_FILE_OPTIONS.parse(call.arguments.get("options", {}))
    spec_id = values.pop("output_spec_id", None)
    if spec_id is not None:
        call.maintenance.check_current_spec(spec_id)
    options = CompactionOptions(**values)
    if options.target_size is None and call.table.maintenance is None:
        options = replace(options, target_size=optimize_size(call.spark))
    return options


def rewrite_manifests(call: ProcedureCall) -> StatementResult:
    """Rewrite manifests, and return Iceberg's counts of manifests.

    Raises:
        PlanError: The table has no such partition spec, or the spec has no such field.
    """
    sort_by = call.arguments.get("sort_by")
    if sort_by == []:
        raise PlanError("The argument sort_by of rewrite_manifests is empty. List partition fields, or leave it out.")
    options = ManifestRewriteOptions(call.arguments.get("spec_id"), tuple(sort_by or ()))
    manifests = call.maintenance.rewrite_manifests(options)
    counts = {"rewritten_manifests_count": manifests.rewritten, "added_manifests_count": manifests.added}
    return call.result("REWRITE MANIFESTS", {name: (_INT, count) for name, count in counts.items()})


def rewrite_position_deletes(call: ProcedureCall) -> StatementResult:
    """Rewrite position delete files, and return Iceberg's counts of delete files.

    Raises:
        PlanError: An option is unknown or invalid.
    """
    maintenance = call.maintenance
    options = DeleteRewriteOptions(**_DELETE_FILE_OPTIONS.parse(call.arguments.get("options", {})))
    where = call.arguments.get("where")
    if where is not None:
        selection = Compaction(call.spark, call.table, "rewrite_position_delete_files", lambda files, size: [], where, by_bounds=True)
        options = replace(options, paths=frozenset(selection.selected_files(call.table.snapshot()).paths))
    delete_files = maintenance.rewrite_position_deletes(options)
    values: frames.RowValues = {
        "rewritten_delete_files_count": (_INT, delete_files.rewritten),
        "added_delete_files_count": (_INT, delete_files.added),
        "rewritten_bytes_count": (_LONG, delete_files.rewritten_bytes),
        "added_bytes_count": (_LONG, delete_files.added_bytes),
    }
    return call.result("REWRITE POSITION DELETES", values)
