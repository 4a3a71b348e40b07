"""The procedure that prepares a table for a copy to another location."""

from __future__ import annotations

from rowmerge.errors import PlanError
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.procedures.arguments import ProcedureCall
from rowmerge.table.maintenance import PathRewrite
from rowmerge.table.metadata.schema import Primitive

_INT, _STRING = Primitive("integer"), Primitive("string")


def rewrite_table_path(call: ProcedureCall) -> StatementResult:
    """Stage the metadata of a table with another prefix of its paths, and return where the list of the files to copy is.

    Raises:
        PlanError: An argument is empty, or a version or prefix does not fit the table.
    """
    arguments = call.arguments
    for name in ("source_prefix", "target_prefix", "start_version", "end_version", "staging_location"):
        if name in arguments and not arguments[name].strip():
            raise PlanError(f"The argument {name} of rewrite_table_path is empty. Specify a value, or leave it out.")
    options = PathRewrite(
        arguments["source_prefix"],
        arguments["target_prefix"],
        arguments.get("start_version"),
        arguments.get("end_version"),
        arguments.get("staging_location"),
        arguments.get("create_file_list", True),
    )
    paths = call.maintenance.rewrite_paths(options)
    values = {
        "latest_version": (_STRING, paths.latest_version),
        "file_list_location": (_STRING, paths.file_list),
        "rewritten_manifest_file_paths_count": (_INT, paths.manifests),
        "rewritten_delete_file_paths_count": (_INT, paths.delete_files),
    }
    return call.result("REWRITE TABLE PATH", values)
