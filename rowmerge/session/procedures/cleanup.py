"""Procedures that expire snapshots, and that delete files to which no version of a table refers."""

from __future__ import annotations

from rowmerge.commands.names import TableName
from rowmerge.errors import PlanError
from rowmerge.session.answers import frames
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.names.scope import StatementScope
from rowmerge.session.procedures.arguments import ProcedureCall, one_of
from rowmerge.spark.peer_settings import RETENTION_CHECK, is_retention_checked, is_vacuum_logged
from rowmerge.spark.spark_session import evaluate_timestamp_millis
from rowmerge.sql import parse_table_name
from rowmerge.storage.store import StoredObject, absolute_location
from rowmerge.table.maintenance import ExpiryOptions, OrphanOptions, PrefixMismatch, PrefixRule, VacuumOptions
from rowmerge.table.metadata.schema import Primitive

_LONG = Primitive("long")
_DAY = 24 * 3_600_000  # milliseconds
_DEFAULT_AGE = 3 * _DAY
_MISMATCH_MODES = {mode.name.lower(): mode for mode in PrefixMismatch}
_DEFAULT_SCHEMES = {"s3a,s3n": "s3"}


def expire_snapshots(call: ProcedureCall) -> StatementResult:
    """Expire snapshots, and return Iceberg's counts of deleted files."""
    arguments = call.arguments
    options = ExpiryOptions(
        arguments.get("older_than"),
        arguments.get("retain_last"),
        tuple(arguments.get("snapshot_ids", ())),
        cleans_metadata=arguments.get("clean_expired_metadata", False),
    )
    expiry = call.maintenance.expire(options)
    counts = {
        "deleted_data_files_count": expiry.data_files,
        "deleted_position_delete_files_count": expiry.position_delete_files,
        "deleted_equality_delete_files_count": expiry.equality_delete_files,
        "deleted_manifest_files_count": expiry.manifests,
        "deleted_manifest_lists_count": expiry.manifest_lists,
        "deleted_statistics_files_count": expiry.statistics_files,
    }
    return call.result("EXPIRE SNAPSHOTS", {name: (_LONG, count) for name, count in counts.items()})


def remove_orphan_files(call: ProcedureCall) -> StatementResult:
    """Delete files in the table's folder to which no version refers, and return their paths.

    Raises:
        PlanError: The time is within the last day, or the location is not in the table's folder.
    """
    table, spark = call.table, call.spark
    options = _orphan_options(call)
    if table.maintenance is not None:
        paths = table.maintenance.remove_orphan_files(options)
    else:
        vacuum_options = VacuumOptions(dry_run=options.dry_run, record=is_vacuum_logged(spark), orphans=options)
        paths = table.vacuum(vacuum_options).paths
    frame = frames.text_column(spark, "orphan_file_location", paths)
    return StatementResult(frame, "REMOVE ORPHAN FILES", None, table.snapshot().version)


def _orphan_options(call: ProcedureCall) -> OrphanOptions:
    """Return the options in the arguments of remove_orphan_files. Raise PlanError for a time, location or mode that is not possible."""
    arguments = call.arguments
    now = evaluate_timestamp_millis(call.spark, "current_timestamp()")
    older_than = arguments.get("older_than", now - _DEFAULT_AGE)
    if older_than > now - _DAY and is_retention_checked(call.spark):
        problem = "remove_orphan_files deletes only files that are at least a day old, because running statements need newer files."
        advice = f"Set older_than to at least 24 hours ago. If no other process uses the table, you can SET {RETENTION_CHECK} = false."
        raise PlanError(f"{problem} {advice}")
    try:
        mode = _MISMATCH_MODES[one_of(*_MISMATCH_MODES)(arguments.get("prefix_mismatch_mode", "error"))]
    except ValueError as error:
        mode_text = arguments["prefix_mismatch_mode"]
        raise PlanError(f"The argument prefix_mismatch_mode of remove_orphan_files is {mode_text!r}. Set it to {error}.") from None
    schemes = {**_DEFAULT_SCHEMES, **arguments.get("equal_schemes", {})}
    rule = PrefixRule(_by_alias(schemes), _by_alias(arguments.get("equal_authorities", {})), mode)
    folder = _relative_folder(call.table.location, arguments.get("location"))
    listed = _listed_files(call, arguments["file_list_view"]) if "file_list_view" in arguments else None
    return OrphanOptions(older_than, arguments.get("dry_run", False), folder, listed, rule)


def _by_alias(equal_names: dict[str, str]) -> dict[str, str]:
    """Return the common name of each alias. The keys of `equal_names` are lists of aliases, separated by commas."""
    return {alias.strip(): name for aliases, name in equal_names.items() for alias in aliases.split(",")}


def _relative_folder(table_location: str, location: str | None) -> str:
    """Return the path of a location relative to the table's folder, with a slash at the end. An empty path is the table's own folder.

    Raise PlanError for a location outside the table's folder, where files of other tables can be.
    """
    if location is None or absolute_location(location) == table_location:
        return ""
    folder = f"{absolute_location(location)}/"
    if not folder.startswith(f"{table_location}/") or ".." in folder.split("/"):
        problem = f"The location {location} of remove_orphan_files is not in the folder {table_location} of the table."
        raise PlanError(f"{problem} Files elsewhere can belong to other tables. Choose a folder inside it.")
    return folder.removeprefix(f"{table_location}/")


def _listed_files(call: ProcedureCall, view: str) -> tuple[StoredObject, ...]:
    """Return the files that the rows of a view list, which has the columns `file_path` and `last_modified` of Iceberg."""
    name: TableName = parse_table_name(view)
    query = f"select file_path, unix_millis(cast(last_modified as timestamp)) as modified from {name}"
    rows = StatementScope.begin(call.context).query(query).collect()
    return tuple(StoredObject(row["file_path"], 0, row["modified"]) for row in rows if None not in (row["file_path"], row["modified"]))
