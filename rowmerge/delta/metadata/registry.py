"""The registry of Delta's table properties: those of `DeltaConfigs` in Delta 4.4, of the documentation of Delta and Databricks, and ours.

A constant is a property that other modules read. The other properties have no constant, because no code of rowmerge needs their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rowmerge.delta.files.statistics import PREFIX, ColumnPath, parse_columns
from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.property_registry import Effect, PropertyRegistry, TableProperty
from rowmerge.table.metadata.property_values import (
    BOOLEAN,
    CODEC,
    COLUMN_COUNT,
    INTERVAL,
    POSITIVE_NUMBER,
    SIZE,
    TEXT,
    WHOLE_NUMBER,
    Values,
    choice,
    whole_number,
)
from rowmerge.table.metadata.settings import OWN_PROPERTIES


def _column_names(text: str) -> list[ColumnPath]:
    try:
        return parse_columns(text)
    except ConfigurationError as error:
        raise ValueError(error.message) from error


def _parquet_versions(text: str) -> tuple[str, str]:
    """Return Arrow's versions of the Parquet format and of data pages. Like delta-spark, accept each version from 1.0.0 on."""
    match = re.fullmatch(r"([1-9]\d{0,8})\.(\d{1,9})\.(\d{1,9})", text)
    if not match:
        raise ValueError(f"{text!r} is not a version of the Parquet format")
    return ("2.6", "2.0") if tuple(map(int, match.groups())) >= _PAGES_OF_VERSION_2 else ("1.0", "1.0")


_PAGES_OF_VERSION_2 = (2, 12, 0)
"""The lowest version of the Parquet format with which delta-spark writes data pages of version 2."""
_NAMES = Values("column names, separated by commas, with backquotes around special characters", _column_names)
_WITH_FEATURE = "`supported`: adds a table feature to the protocol"
CHECKPOINT_INTERVAL = TableProperty("delta.checkpointInterval", POSITIVE_NUMBER, "the number of commits between checkpoints", "10")
LOG_RETENTION = TableProperty(
    "delta.logRetentionDuration", INTERVAL, "the age at which checkpoints delete old log files", "interval 30 days"
)
EXPIRED_LOG_CLEANUP = TableProperty("delta.enableExpiredLogCleanup", BOOLEAN, "whether checkpoints delete old log files", "true")
TRUNCATION_RETENTION = TableProperty(
    "delta.dropFeatureTruncateHistory.retentionDuration",
    INTERVAL,
    "the age at which `DROP FEATURE … TRUNCATE HISTORY` deletes old log files",
    "interval 24 hours",
    since="0.3.0",
)
TOMBSTONE_RETENTION = TableProperty(
    "delta.deletedFileRetentionDuration", INTERVAL, "the age at which VACUUM deletes files of older versions", "interval 1 week"
)
TRANSACTION_RETENTION = TableProperty(
    "delta.setTransactionRetentionDuration", INTERVAL, "the age at which checkpoints forget application transactions; by default never"
)
CHECKPOINT_PROTECTION = TableProperty(
    "delta.requireCheckpointProtectionBeforeVersion",
    WHOLE_NUMBER,
    "the cleanup of the log does not delete checkpoints below this version; set by `DROP FEATURE`",
    "0",
)
IN_COMMIT_TIMESTAMPS_BEGIN = TableProperty(
    "delta.inCommitTimestampEnablementVersion", WHOLE_NUMBER, "the first version whose commit records its time; set by engines", "0"
)
HIGHEST_COLUMN_ID = TableProperty(
    "delta.columnMapping.maxColumnId", WHOLE_NUMBER, "Engines count the column ids. Leave it out.", "0", Effect.MANAGED
)
ISOLATION_LEVEL = TableProperty(
    "delta.isolationLevel",
    choice("Serializable", "WriteSerializable"),
    "which concurrent commits conflict ([conflicts](conflicts.md))",
    "WriteSerializable",
)
TARGET_FILE_SIZE = TableProperty("delta.targetFileSize", SIZE, "the target size of data files; by default the engine chooses it")
CODEC_OF_FILES = TableProperty("delta.parquet.compression.codec", CODEC, "the compression of data files; by default `zstd`")
AUTO_COMPACT = TableProperty(
    "delta.autoOptimize.autoCompact",
    choice("true", "false", "auto", "legacy"),
    "`true`, `auto`, `legacy`: commits combine small files ([auto-compaction](operations.md#auto-compaction))",
    "false",
    since="0.3.0",
)
AUTO_OPTIMIZE = TableProperty(
    "delta.autoOptimize",
    BOOLEAN,
    "the older name of `delta.autoOptimize.autoCompact`; compactions need one of them to be `true`",
    "false",
    since="0.3.0",
)
OPTIMIZE_WRITE = TableProperty(
    "delta.autoOptimize.optimizeWrite",
    BOOLEAN,
    "`true`: Spark shuffles rows before a write, so that it writes few files; `false`: no shuffle; by default only for partitioned tables",
    since="0.3.0",
)
TUNE_FOR_REWRITES = TableProperty(
    "delta.tuneFileSizesForRewrites",
    BOOLEAN,
    "`true`: MERGE, UPDATE, DELETE and OPTIMIZE write files of 32 MiB, unless `delta.targetFileSize` is set",
    "false",
    since="0.3.0",
)
STRING_PREFIX_LENGTH = TableProperty(
    "delta.dataSkippingStringPrefixLength",
    whole_number(0, 2**31 - 1),
    "the maximum length of the bounds of strings in the log; 0: strings have no bounds",
    str(PREFIX),
    since="0.3.0",
)

CHECKPOINT_POLICY = TableProperty(
    "delta.checkpointPolicy",
    choice("classic", "v2"),
    "`v2`: checkpoints have sidecar files, and the table the feature v2Checkpoint, which stays after a change back to `classic`",
    "classic",
    since="0.3.0",
)
PREFIX_LENGTH = TableProperty("delta.randomPrefixLength", whole_number(1, 255), "the length of random folder names", "2", since="0.3.0")
PARQUET_VERSION = TableProperty(
    "delta.parquet.format.version",
    Values("1.0.0 or 2.12.0", _parquet_versions),
    "the version of Parquet in data files; from 2.12.0 on, data pages have version 2",
    since="0.3.0",
)

_HONOURED: tuple[TableProperty[Any], ...] = (
    *OWN_PROPERTIES,
    TableProperty("delta.appendOnly", BOOLEAN, "`true`: statements cannot delete or update rows", "false"),
    TableProperty("delta.checkpoint.writeStatsAsJson", BOOLEAN, "whether checkpoints contain file statistics as JSON", "true"),
    TableProperty("delta.checkpoint.writeStatsAsStruct", BOOLEAN, "whether checkpoints contain file statistics as structs", "true"),
    AUTO_COMPACT,
    AUTO_OPTIMIZE,
    OPTIMIZE_WRITE,
    TUNE_FOR_REWRITES,
    STRING_PREFIX_LENGTH,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_POLICY,
    PREFIX_LENGTH,
    PARQUET_VERSION,
    TableProperty(
        "delta.randomizeFilePrefixes",
        BOOLEAN,
        "`true`: new data files, change files and deletion vectors are in random folders, not in folders of partitions",
        "false",
        since="0.3.0",
    ),
    TableProperty(
        "delta.compatibility.symlinkFormatManifest.enabled",
        BOOLEAN,
        "`true`: each commit updates the manifests for Presto and Athena; it excludes deletion vectors and column mapping",
        "false",
        since="0.3.0",
    ),
    TableProperty("delta.columnMapping.mode", choice("none", "name", "id"), "`name`, `id`: columns can be renamed and dropped", "none"),
    HIGHEST_COLUMN_ID,
    TableProperty("delta.constraints.<name>", TEXT, "a CHECK constraint, as `ALTER TABLE … ADD CONSTRAINT` sets it"),
    TableProperty("delta.dataSkippingNumIndexedCols", COLUMN_COUNT, "how many of the first columns have bounds in the log", "32"),
    TableProperty("delta.dataSkippingStatsColumns", _NAMES, "the columns with bounds in the log; it takes precedence over their number"),
    TRUNCATION_RETENTION,
    TOMBSTONE_RETENTION,
    TableProperty("delta.enableChangeDataFeed", BOOLEAN, "`true`: versions record their changed rows for `table_changes`", "false"),
    TableProperty("delta.enableDeletionVectors", BOOLEAN, "`true`: files can contain deleted rows; by default as the write mode needs"),
    EXPIRED_LOG_CLEANUP,
    LOG_RETENTION,
    TableProperty("delta.enableInCommitTimestamps", BOOLEAN, "`true`: commits record their time", "false"),
    IN_COMMIT_TIMESTAMPS_BEGIN,
    TableProperty(
        "delta.inCommitTimestampEnablementTimestamp", WHOLE_NUMBER, "the time of the first version with a recorded time; set by engines"
    ),
    TableProperty("delta.enableRowTracking", BOOLEAN, "`true`: rows have ids, which stay when a row moves to another file", "false"),
    TableProperty("delta.rowTrackingSuspended", BOOLEAN, "`true`: new rows get no ids", "false"),
    TableProperty("delta.enableTypeWidening", BOOLEAN, "`true`: `ALTER COLUMN … TYPE` can widen types in place", "false"),
    TableProperty("delta.feature.<name>", choice("supported", "enabled"), _WITH_FEATURE),
    ISOLATION_LEVEL,
    TableProperty("delta.minReaderVersion", whole_number(1, 3), "the version of readers; by default the lowest that features need"),
    TableProperty("delta.minWriterVersion", whole_number(1, 7), "the version of writers; by default the lowest that features need"),
    CODEC_OF_FILES,
    CHECKPOINT_PROTECTION,
    TRANSACTION_RETENTION,
    TARGET_FILE_SIZE,
)


def _properties(effect: Effect, text: str, properties: dict[str, Values[Any]]) -> Iterator[TableProperty[Any]]:
    """Yield properties with the same effect and reason, from their allowed values by the rest of the name after `delta.`."""
    return (TableProperty(f"delta.{name}", values, text, effect=effect) for name, values in properties.items())


_STORED: tuple[TableProperty[Any], ...] = (
    *_properties(
        Effect.OTHER_ENGINES,
        "rowmerge has no statement to which it applies, and Delta's newest version ignores it.",
        {
            "checkpointRetentionDuration": INTERVAL,
            "enableFullRetentionRollback": BOOLEAN,
            "sampleRetentionDuration": INTERVAL,
        },
    ),
    *_properties(
        Effect.OTHER_ENGINES,
        "It is an instruction for one statement of Delta on Spark (CREATE TABLE or CONVERT TO DELTA).",
        {"ignoreProtocolDefaults": BOOLEAN, "castIcebergTimeType": BOOLEAN, "ignoreIcebergBucketPartition": BOOLEAN},
    ),
)
_FALSE: Values[str] = choice("false")
_NEVER: Values[str] = choice("")
_ICEBERG_METADATA = "Delta tables with Iceberg metadata beside their log are not written. Create an Iceberg table instead."
_REJECTED: tuple[TableProperty[Any], ...] = (
    *_properties(
        Effect.REJECTED,
        _ICEBERG_METADATA,
        {
            "enableIcebergCompatV1": _FALSE,
            "enableIcebergCompatV2": _FALSE,
            "enableIcebergCompatV3": _FALSE,
            "universalFormat.enabledFormats": _NEVER,
            "universalFormat.iceberg.atomicConversion.supported": _FALSE,
            "universalFormat.config.<name>": _NEVER,
        },
    ),
    *_properties(
        Effect.REJECTED,
        "Commits to a catalog or a commit coordinator are not supported. Remove it: the log decides which commit comes first.",
        {
            "coordinatedCommits.commitCoordinator-preview": _NEVER,
            "coordinatedCommits.commitCoordinatorConf-preview": _NEVER,
            "coordinatedCommits.tableConf-preview": _NEVER,
        },
    ),
    *_properties(
        Effect.REJECTED,
        "Redirected tables are not supported. Name the other table in the statement.",
        {"redirectReaderWriter-preview": _NEVER, "redirectWriterOnly-preview": _NEVER},
    ),
    *_properties(
        Effect.REJECTED,
        "Data files do not contain partition columns. Add the column a second time, under another name.",
        {"enableMaterializePartitionColumnsFeature": _FALSE, "writePartitionColumnsToParquet": _FALSE},
    ),
    *_properties(
        Effect.REJECTED, "Tables with VARIANT columns are not written. Store JSON in a STRING column.", {"enableVariantShredding": _FALSE}
    ),
    *_properties(
        Effect.REJECTED, "It is the old name of delta.enableChangeDataFeed. Set that property.", {"enableChangeDataCapture": _FALSE}
    ),
    *_properties(
        Effect.MANAGED,
        "Engines name the hidden columns of row ids. Set delta.enableRowTracking instead.",
        {"rowTracking.materializedRowIdColumnName": TEXT, "rowTracking.materializedRowCommitVersionColumnName": TEXT},
    ),
)
DELTA_PROPERTIES = PropertyRegistry("Delta", (*_HONOURED, *_STORED, *_REJECTED))
