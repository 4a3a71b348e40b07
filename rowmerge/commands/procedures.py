"""The CALL statement for the procedures of Iceberg's Spark catalogs, and the parameters of each procedure in positional order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rowmerge.commands.names import SqlText


class Kind(Enum):
    """The kind of value that a parameter accepts. The enum values are the descriptions for error messages."""

    TABLE = "the name of a table, as a string"
    TEXT = "a string"
    NUMBER = "a whole number"
    BOOLEAN = "true or false"
    TIME = "a timestamp"
    NUMBERS = "an array of whole numbers"
    OPTIONS = "a map of strings"


@dataclass(frozen=True)
class Procedure:
    """The signature of a procedure: its parameters, and which of them are required.

    The `ignored` parameters tune the execution in Iceberg on Spark and have no effect here. `instead`: the statement to use for a table in
    a format other than Iceberg, or an empty string.
    """

    parameters: Mapping[str, Kind]
    required: tuple[str, ...] = ("table",)
    ignored: tuple[str, ...] = ()
    instead: str = ""


_TABLE = {"table": Kind.TABLE}
_TO_VERSION = "RESTORE TABLE {} TO VERSION AS OF"
_TO_TIMESTAMP = "RESTORE TABLE {} TO TIMESTAMP AS OF"

PROCEDURES: Mapping[str, Procedure] = {
    "expire_snapshots": Procedure(
        {
            **_TABLE,
            "older_than": Kind.TIME,
            "retain_last": Kind.NUMBER,
            "max_concurrent_deletes": Kind.NUMBER,
            "stream_results": Kind.BOOLEAN,
            "snapshot_ids": Kind.NUMBERS,
        },
        ignored=("max_concurrent_deletes", "stream_results"),
        instead="VACUUM {}",
    ),
    "remove_orphan_files": Procedure(
        {**_TABLE, "older_than": Kind.TIME, "dry_run": Kind.BOOLEAN, "max_concurrent_deletes": Kind.NUMBER},
        ignored=("max_concurrent_deletes",),
        instead="VACUUM {}",
    ),
    "rewrite_data_files": Procedure({**_TABLE, "strategy": Kind.TEXT, "options": Kind.OPTIONS, "where": Kind.TEXT}, instead="OPTIMIZE {}"),
    "rewrite_manifests": Procedure({**_TABLE, "use_caching": Kind.BOOLEAN}, ignored=("use_caching",), instead="OPTIMIZE {}"),
    "rewrite_position_delete_files": Procedure(_TABLE, instead="REORG TABLE {} APPLY (PURGE)"),
    "rollback_to_snapshot": Procedure({**_TABLE, "snapshot_id": Kind.NUMBER}, ("table", "snapshot_id"), instead=_TO_VERSION),
    "rollback_to_timestamp": Procedure({**_TABLE, "timestamp": Kind.TIME}, ("table", "timestamp"), instead=_TO_TIMESTAMP),
    "fast_forward": Procedure({**_TABLE, "branch": Kind.TEXT, "to": Kind.TEXT}, ("table", "branch", "to"), instead="RESTORE TABLE {}"),
    "cherrypick_snapshot": Procedure({**_TABLE, "snapshot_id": Kind.NUMBER}, ("table", "snapshot_id"), instead=_TO_VERSION),
    "publish_changes": Procedure({**_TABLE, "wap_id": Kind.TEXT}, ("table", "wap_id"), instead=_TO_VERSION),
    "set_current_snapshot": Procedure({**_TABLE, "snapshot_id": Kind.NUMBER, "ref": Kind.TEXT}, instead=_TO_VERSION),
}


@dataclass(frozen=True)
class Call:
    """CALL [catalog.]system.procedure(…). `arguments` maps the name of each parameter to the SQL text of its argument."""

    procedure: str
    arguments: Mapping[str, SqlText]
