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
    TEXTS = "an array of strings"
    OPTIONS = "a map of strings"


@dataclass(frozen=True)
class Procedure:
    """The signature of a procedure: its parameters, and which of them are required.

    The `ignored` parameters tune the execution in Iceberg on Spark and have no effect here. `instead`: the statement to use for a table in
    a format other than Iceberg, or an empty string if the procedure supports all formats.
    """

    parameters: Mapping[str, Kind]
    required: tuple[str, ...] = ("table",)
    ignored: tuple[str, ...] = ()
    instead: str = ""


_TABLE = {"table": Kind.TABLE}
_SNAPSHOT_ID = {**_TABLE, "snapshot_id": Kind.NUMBER}
_EXECUTION = {"parallelism": Kind.NUMBER, "ignore_missing_files": Kind.BOOLEAN}
_TO_VERSION = "RESTORE TABLE {} TO VERSION AS OF"
_STATISTICS = "DESCRIBE DETAIL {}"

PROCEDURES: Mapping[str, Procedure] = {
    "add_files": Procedure(
        {
            **_TABLE,
            "source_table": Kind.TABLE,
            "partition_filter": Kind.OPTIONS,
            "check_duplicate_files": Kind.BOOLEAN,
            "parallelism": Kind.NUMBER,
        },
        ("table", "source_table"),
    ),
    "ancestors_of": Procedure(_SNAPSHOT_ID),
    "cherrypick_snapshot": Procedure(_SNAPSHOT_ID, ("table", "snapshot_id"), instead=_TO_VERSION),
    "compute_partition_stats": Procedure(_SNAPSHOT_ID, instead=_STATISTICS),
    "compute_table_stats": Procedure({**_SNAPSHOT_ID, "columns": Kind.TEXTS}, instead=_STATISTICS),
    "create_changelog_view": Procedure(
        {
            **_TABLE,
            "changelog_view": Kind.TEXT,
            "options": Kind.OPTIONS,
            "compute_updates": Kind.BOOLEAN,
            "identifier_columns": Kind.TEXTS,
            "net_changes": Kind.BOOLEAN,
        }
    ),
    "expire_snapshots": Procedure(
        {
            **_TABLE,
            "older_than": Kind.TIME,
            "retain_last": Kind.NUMBER,
            "max_concurrent_deletes": Kind.NUMBER,
            "stream_results": Kind.BOOLEAN,
            "snapshot_ids": Kind.NUMBERS,
            "clean_expired_metadata": Kind.BOOLEAN,
        },
        ignored=("max_concurrent_deletes", "stream_results"),
        instead="VACUUM {}",
    ),
    "fast_forward": Procedure({**_TABLE, "branch": Kind.TEXT, "to": Kind.TEXT}, ("table", "branch", "to"), instead="RESTORE TABLE {}"),
    "migrate": Procedure(
        {**_TABLE, "properties": Kind.OPTIONS, "drop_backup": Kind.BOOLEAN, "backup_table_name": Kind.TEXT, **_EXECUTION},
    ),
    "publish_changes": Procedure({**_TABLE, "wap_id": Kind.TEXT}, ("table", "wap_id"), instead=_TO_VERSION),
    "register_table": Procedure({**_TABLE, "metadata_file": Kind.TEXT}, ("table", "metadata_file")),
    "remove_orphan_files": Procedure(
        {
            **_TABLE,
            "older_than": Kind.TIME,
            "location": Kind.TEXT,
            "dry_run": Kind.BOOLEAN,
            "max_concurrent_deletes": Kind.NUMBER,
            "file_list_view": Kind.TEXT,
            "equal_schemes": Kind.OPTIONS,
            "equal_authorities": Kind.OPTIONS,
            "prefix_mismatch_mode": Kind.TEXT,
            "prefix_listing": Kind.BOOLEAN,
            "stream_results": Kind.BOOLEAN,
        },
        ignored=("max_concurrent_deletes", "prefix_listing", "stream_results"),
    ),
    "rewrite_data_files": Procedure(
        {
            **_TABLE,
            "strategy": Kind.TEXT,
            "sort_order": Kind.TEXT,
            "options": Kind.OPTIONS,
            "where": Kind.TEXT,
            "branch": Kind.TEXT,
        }
    ),
    "rewrite_manifests": Procedure(
        {**_TABLE, "use_caching": Kind.BOOLEAN, "spec_id": Kind.NUMBER, "sort_by": Kind.TEXTS},
        ignored=("use_caching",),
        instead="OPTIMIZE {}",
    ),
    "rewrite_position_delete_files": Procedure(
        {**_TABLE, "options": Kind.OPTIONS, "where": Kind.TEXT}, instead="REORG TABLE {} APPLY (PURGE)"
    ),
    "rewrite_table_path": Procedure(
        {
            **_TABLE,
            "source_prefix": Kind.TEXT,
            "target_prefix": Kind.TEXT,
            "start_version": Kind.TEXT,
            "end_version": Kind.TEXT,
            "staging_location": Kind.TEXT,
            "create_file_list": Kind.BOOLEAN,
        },
        ("table", "source_prefix", "target_prefix"),
        instead="a copy of the folder of {}, whose log has relative paths,",
    ),
    "rollback_to_snapshot": Procedure(_SNAPSHOT_ID, ("table", "snapshot_id")),
    "rollback_to_timestamp": Procedure({**_TABLE, "timestamp": Kind.TIME}, ("table", "timestamp")),
    "set_current_snapshot": Procedure({**_SNAPSHOT_ID, "ref": Kind.TEXT}),
    "snapshot": Procedure(
        {"source_table": Kind.TABLE, **_TABLE, "location": Kind.TEXT, "properties": Kind.OPTIONS, **_EXECUTION}, ("source_table", "table")
    ),
}


@dataclass(frozen=True)
class Call:
    """CALL [catalog.]system.procedure(…). `arguments` maps the name of each parameter to the SQL text of its argument.

    `catalog`: the catalog of tables whose names have none, or None for the current catalog.
    """

    procedure: str
    arguments: Mapping[str, SqlText]
    catalog: str | None = None
