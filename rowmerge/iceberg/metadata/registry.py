"""The registry of Iceberg's table properties: those of `TableProperties` in Iceberg 1.12, of its documentation, and ours.

A constant is a property that other modules read. The other properties have no constant, because no code of rowmerge needs their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.table.name_mapping import parse_mapping_from_json

from rowmerge.table.metadata.copied_files import RESERVED
from rowmerge.table.metadata.parquet_settings import PARQUET_PROPERTIES
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.property_registry import Effect, PropertyRegistry, TableProperty
from rowmerge.table.metadata.property_values import (
    BOOLEAN,
    BYTES,
    CODEC,
    LOCATION,
    MILLISECONDS,
    POSITIVE_NUMBER,
    PROBABILITY,
    TEXT,
    WHOLE_NUMBER,
    Values,
    choice,
    enumeration,
    whole_number,
)
from rowmerge.table.metadata.settings import OWN_PROPERTIES, WRITE_MODE, WriteMode


@dataclass(frozen=True)
class MetricsMode:
    """The metrics that manifests contain for a column.

    `truncate` is the largest length of string bounds (in code points) and binary bounds (in bytes).
    """

    counts: bool = True
    bounds: bool = True
    truncate: int | None = None

    @classmethod
    def parse(cls, text: str) -> MetricsMode:
        """Parse `none`, `counts`, `truncate(n)` or `full`, ignoring case.

        Raises:
            ValueError: The text is not one of these modes.
        """
        name = text.strip().lower()
        modes = {"none": cls(counts=False, bounds=False), "counts": cls(counts=True, bounds=False), "full": cls(counts=True, bounds=True)}
        if name in modes:
            return modes[name]
        match = re.fullmatch(r"truncate\((\d+)\)", name)
        if match is None or int(match[1]) == 0:
            raise ValueError(f"unknown metrics mode {text!r}")
        return cls(truncate=int(match[1]))


_LEVELS = choice("serializable", "snapshot")
_DISTRIBUTIONS = enumeration(Distribution)
_MODES: Values[WriteMode] = enumeration(WriteMode)
_NAME_MAPPING = Values("a name mapping in JSON, as the Iceberg specification defines it", parse_mapping_from_json)
_METRICS = Values("none, counts, truncate(16) or full", MetricsMode.parse)
_ISOLATION_TEXT = "which concurrent commits conflict with {} ([conflicts](conflicts.md))"
_MODE_TEXT = "the write mode of {}; `rowmerge.write.mode` takes precedence"
_DISTRIBUTION_TEXT = "how the new values of {} are distributed among tasks, if there are many"
_RETRY_TEXT = "as `rowmerge.{}`, which takes precedence"

FORMAT_VERSION = TableProperty("format-version", choice("1", "2", "3"), "the format version; a table can be upgraded, not downgraded", "2")
COMMENT = TableProperty("comment", TEXT, "the description of the table")
GC_ENABLED = TableProperty(
    "gc.enabled", BOOLEAN, "`false`: VACUUM and `expire_snapshots` are errors, and DROP TABLE does not delete files", "true"
)
COMMIT_RETRIES = TableProperty("commit.retry.num-retries", WHOLE_NUMBER, _RETRY_TEXT.format("commit.retry.num-retries"))
COMMIT_MIN_WAIT = TableProperty("commit.retry.min-wait-ms", MILLISECONDS, _RETRY_TEXT.format("commit.retry.min-wait-ms"))
COMMIT_MAX_WAIT = TableProperty("commit.retry.max-wait-ms", MILLISECONDS, _RETRY_TEXT.format("commit.retry.max-wait-ms"))
MERGES_MANIFESTS = TableProperty("commit.manifest-merge.enabled", BOOLEAN, "whether commits merge small manifests", "true")
MANIFEST_COUNT = TableProperty(
    "commit.manifest.min-count-to-merge", WHOLE_NUMBER, "the number of small manifests from which on a commit merges them", "100"
)
MANIFEST_SIZE = TableProperty("commit.manifest.target-size-bytes", BYTES, "the size up to which manifests are merged", "8388608")
MAX_SNAPSHOT_AGE = TableProperty(
    "history.expire.max-snapshot-age-ms", MILLISECONDS, "the age at which VACUUM and `expire_snapshots` remove snapshots", "432000000"
)
MIN_SNAPSHOTS = TableProperty(
    "history.expire.min-snapshots-to-keep", POSITIVE_NUMBER, "how many snapshots of each branch stay, whatever their age", "1"
)
MAX_REF_AGE = TableProperty(
    "history.expire.max-ref-age-ms", POSITIVE_NUMBER, "the age at which VACUUM removes branches (except `main`) and tags", str(2**63 - 1)
)
SPLIT_SIZE = TableProperty(
    "read.split.target-size", BYTES, "the bytes of a task of a read ([small files](execution.md#small-files))", "134217728"
)
OPEN_FILE_COST = TableProperty("read.split.open-file-cost", BYTES, "the smallest number of bytes for which a file counts in a task")
SPLIT_LOOKBACK = TableProperty(
    "read.split.planning-lookback", POSITIVE_NUMBER, "how many tasks are filled at the same time; only for files that Arrow reads", "10"
)
NAME_MAPPING = TableProperty("schema.name-mapping.default", _NAME_MAPPING, "the field ids of data files without field ids")
DATA_PATH = TableProperty(
    "write.data.path", LOCATION, "the folder of new data files, outside other tables' folders; by default `data` in its own"
)
METADATA_PATH = TableProperty(
    "write.metadata.path",
    LOCATION,
    "the folder of new metadata files, manifests and manifest lists, outside other tables' folders; by default `metadata` in its own; an "
    "error for tables in a warehouse folder without a catalog, because their readers look for metadata files in `metadata`",
    since="0.3.0",
)
PREVIOUS_VERSIONS = TableProperty(
    "write.metadata.previous-versions-max", WHOLE_NUMBER, "how many earlier metadata files the metadata log lists", "100"
)
DELETE_AFTER_COMMIT = TableProperty(
    "write.metadata.delete-after-commit.enabled", BOOLEAN, "`true`: commits delete metadata files that leave the metadata log", "false"
)
COMMIT_TOTAL_TIMEOUT = TableProperty(
    "commit.retry.total-timeout-ms", MILLISECONDS, "the time after which only the first retry is left; by default no limit", since="0.3.0"
)
STATUS_CHECKS = TableProperty(
    "commit.status-check.num-retries",
    whole_number(0, 10_000),
    "how often a commit with an unknown outcome is checked; without these properties, four times in 1.5 seconds",
    "3",
    since="0.3.0",
)
STATUS_CHECK_MIN_WAIT = TableProperty(
    "commit.status-check.min-wait-ms", MILLISECONDS, "the wait before the first check; each check doubles it", "1000", since="0.3.0"
)
STATUS_CHECK_MAX_WAIT = TableProperty(
    "commit.status-check.max-wait-ms", MILLISECONDS, "the longest wait before a check", "60000", since="0.3.0"
)
STATUS_CHECK_TIMEOUT = TableProperty(
    "commit.status-check.total-timeout-ms", MILLISECONDS, "the time after which no check begins", "1800000", since="0.3.0"
)
OBJECT_STORAGE_PATH = TableProperty(
    "write.object-storage.path",
    LOCATION,
    "`write.data.path` by an older name, for hashed paths; Iceberg 1.12 refuses it",
    since="0.3.0",
)
FOLDER_PATH = TableProperty(
    "write.folder-storage.path", LOCATION, "`write.data.path` by an older name; Iceberg 1.12 refuses it", since="0.3.0"
)
OBJECT_STORAGE = TableProperty(
    "write.object-storage.enabled", BOOLEAN, "`true`: the paths of new data files begin with a hash", "false", since="0.3.0"
)
PARTITIONED_PATHS = TableProperty(
    "write.object-storage.partitioned-paths", BOOLEAN, "whether hashed paths contain folders of partitions", "true", since="0.3.0"
)
METADATA_CODEC = TableProperty(
    "write.metadata.compression-codec",
    choice("none", "gzip"),
    "the compression of metadata files, in catalogs whose files pyiceberg writes; `gzip` is an error in a folder, where two files could "
    "have the same version",
    "none",
    since="0.3.0",
)
PARTITION_LIMIT = TableProperty(
    "write.summary.partition-limit",
    WHOLE_NUMBER,
    "up to how many changed partitions the summary of a snapshot lists the counts of each",
    "0",
    since="0.3.0",
)
GRANULARITY = TableProperty(
    "write.delete.granularity",
    choice("file", "partition"),
    "`partition`: a position-delete file can contain deleted rows of several data files of a partition",
    "file",
    since="0.3.0",
)
DELETE_FILE_SIZE = TableProperty(
    "write.delete.target-file-size-bytes", BYTES, "the size above which deleted rows are divided among files", "67108864", since="0.3.0"
)
_DELETE_TEXT = "{} of position-delete files; by default that of data files; no effect on deletion vectors"
DELETE_COMPRESSION = TableProperty("write.delete.parquet.compression-codec", CODEC, _DELETE_TEXT.format("the compression"), since="0.3.0")
DELETE_LEVEL = TableProperty(
    "write.delete.parquet.compression-level", whole_number(1, 22), _DELETE_TEXT.format("the compression level"), since="0.3.0"
)
DELETE_ROW_GROUP_SIZE = TableProperty(
    "write.delete.parquet.row-group-size-bytes", BYTES, _DELETE_TEXT.format("the size of row groups"), since="0.3.0"
)
DISTRIBUTION = TableProperty(
    "write.distribution-mode", _DISTRIBUTIONS, "how new rows are distributed among tasks; by default `range` with a sort order, else `hash`"
)
COMPRESSION = TableProperty("write.parquet.compression-codec", CODEC, "the compression of data files; by default `zstd`")
LEVEL = TableProperty("write.parquet.compression-level", whole_number(1, 22), "the compression level of zstd (1 to 22) and gzip (1 to 9)")
ROW_GROUP_SIZE = TableProperty("write.parquet.row-group-size-bytes", BYTES, "the size of row groups; by default 64 MiB")
TARGET_FILE_SIZE = TableProperty(
    "write.target-file-size-bytes", BYTES, "the target size of data files, also in OPTIMIZE; by default 128 MiB"
)
METRICS_DEFAULT = TableProperty(
    "write.metadata.metrics.default", _METRICS, "the counts and bounds that manifests store for a column; `truncate(16)` by default"
)
METRICS_COLUMN = TableProperty(
    "write.metadata.metrics.column.<column>", _METRICS, "the counts and bounds of one column, such as `a.b` for a field of a struct"
)
METRICS_COLUMNS = TableProperty(
    "write.metadata.metrics.max-inferred-column-defaults",
    WHOLE_NUMBER,
    "how many columns have bounds without a property for them",
    "100",
)
WAP_ENABLED = TableProperty(
    "write.wap.enabled", BOOLEAN, "`true`: `spark.wap.branch` and `spark.wap.id` apply ([audits](sql.md#write-audit-publish))", "false"
)
MODES = {
    operation: TableProperty(f"write.{operation.lower()}.mode", _MODES, _MODE_TEXT.format(operation), WriteMode.COPY_ON_WRITE.value)
    for operation in ("MERGE", "UPDATE", "DELETE")
}
ISOLATION_LEVELS = {
    operation: TableProperty(f"write.{operation.lower()}.isolation-level", _LEVELS, _ISOLATION_TEXT.format(operation), "serializable")
    for operation in ("MERGE", "UPDATE", "DELETE")
}
DISTRIBUTIONS = {
    "MERGE": TableProperty("write.merge.distribution-mode", _DISTRIBUTIONS, _DISTRIBUTION_TEXT.format("MERGE")),
    "UPDATE": TableProperty("write.update.distribution-mode", _DISTRIBUTIONS, _DISTRIBUTION_TEXT.format("UPDATE"), "hash"),
}

_NO_FORMAT = "Data files and delete files are Parquet files, because only these have row positions in Spark and a writer in Arrow."
_REJECTED: tuple[TableProperty[Any], ...] = (
    TableProperty("write.format.default", choice("parquet"), _NO_FORMAT, "parquet", Effect.REJECTED),
    TableProperty("write.delete.format.default", choice("parquet"), _NO_FORMAT, effect=Effect.REJECTED),
    *(
        TableProperty(name, choice(""), text, effect=Effect.REJECTED)
        for name, text in {
            "encryption.key-id": "Files are not encrypted by rowmerge. Encrypt the store instead.",
            "encryption.data-key-length": "Files are not encrypted by rowmerge. Encrypt the store instead.",
            "write.location-provider.impl": "A Java class cannot be run. Set write.data.path or write.object-storage.enabled instead.",
            "write.py-location-provider.impl": "A class of pyiceberg cannot be run. Set write.data.path instead.",
            "io-impl": "It is a property of a catalog. Name the store in the options of the catalog instead.",
            "uuid": "It is reserved: the metadata of the table has its own field for it.",
            "snapshot-count": "It is reserved: the metadata of the table has its own field for it.",
            "current-snapshot-summary": "It is reserved: the metadata of the table has its own field for it.",
            "current-snapshot-id": "It is reserved: the metadata of the table has its own field for it.",
            "current-snapshot-timestamp-ms": "It is reserved: the metadata of the table has its own field for it.",
            "current-schema": "It is reserved: the metadata of the table has its own field for it.",
            "default-partition-spec": "It is reserved: the metadata of the table has its own field for it.",
            "default-sort-order": "It is reserved: the metadata of the table has its own field for it.",
        }.items()
    ),
)


def _other_engines(reason: str, properties: dict[str, Values[Any]]) -> Iterator[TableProperty[Any]]:
    """Yield properties that are stored for other engines, from their allowed values by name."""
    return (TableProperty(name, values, reason, effect=Effect.OTHER_ENGINES) for name, values in properties.items())


_HONOURED: tuple[TableProperty[Any], ...] = (
    *OWN_PROPERTIES[1:],
    replace(WRITE_MODE, default=WriteMode.COPY_ON_WRITE.value),
    FORMAT_VERSION,
    COMMENT,
    GC_ENABLED,
    COMMIT_RETRIES,
    COMMIT_MIN_WAIT,
    COMMIT_MAX_WAIT,
    MERGES_MANIFESTS,
    MANIFEST_COUNT,
    MANIFEST_SIZE,
    MAX_SNAPSHOT_AGE,
    MIN_SNAPSHOTS,
    MAX_REF_AGE,
    SPLIT_SIZE,
    OPEN_FILE_COST,
    SPLIT_LOOKBACK,
    NAME_MAPPING,
    DATA_PATH,
    METADATA_PATH,
    PREVIOUS_VERSIONS,
    DELETE_AFTER_COMMIT,
    DISTRIBUTION,
    *MODES.values(),
    *ISOLATION_LEVELS.values(),
    *DISTRIBUTIONS.values(),
    COMPRESSION,
    LEVEL,
    ROW_GROUP_SIZE,
    TARGET_FILE_SIZE,
    METRICS_DEFAULT,
    METRICS_COLUMN,
    METRICS_COLUMNS,
    WAP_ENABLED,
    COMMIT_TOTAL_TIMEOUT,
    STATUS_CHECKS,
    STATUS_CHECK_MIN_WAIT,
    STATUS_CHECK_MAX_WAIT,
    STATUS_CHECK_TIMEOUT,
    OBJECT_STORAGE_PATH,
    FOLDER_PATH,
    OBJECT_STORAGE,
    PARTITIONED_PATHS,
    METADATA_CODEC,
    PARTITION_LIMIT,
    GRANULARITY,
    DELETE_FILE_SIZE,
    DELETE_COMPRESSION,
    DELETE_LEVEL,
    DELETE_ROW_GROUP_SIZE,
    *PARQUET_PROPERTIES,
)
_STORED: tuple[TableProperty[Any], ...] = (
    *_other_engines(
        "rowmerge writes no Avro and no ORC files.",
        {
            "write.avro.compression-codec": TEXT,
            "write.avro.compression-level": TEXT,
            "write.delete.avro.compression-codec": TEXT,
            "write.delete.avro.compression-level": TEXT,
            "write.orc.stripe-size-bytes": BYTES,
            "write.orc.bloom.filter.columns": TEXT,
            "write.orc.bloom.filter.fpp": PROBABILITY,
            "write.orc.block-size-bytes": BYTES,
            "write.orc.vectorized.batch-size": POSITIVE_NUMBER,
            "write.orc.compression-codec": TEXT,
            "write.orc.compression-strategy": choice("speed", "compression"),
            "write.delete.orc.stripe-size-bytes": BYTES,
            "write.delete.orc.block-size-bytes": BYTES,
            "write.delete.orc.vectorized.batch-size": POSITIVE_NUMBER,
            "write.delete.orc.compression-codec": TEXT,
            "write.delete.orc.compression-strategy": choice("speed", "compression"),
            "read.orc.vectorization.enabled": BOOLEAN,
            "read.orc.vectorization.batch-size": POSITIVE_NUMBER,
        },
    ),
    *_other_engines(
        "Spark's own reader decides: set `spark.sql.parquet.enableVectorizedReader` and `spark.sql.parquet.columnarReaderBatchSize`.",
        {"read.parquet.vectorization.enabled": BOOLEAN, "read.parquet.vectorization.batch-size": POSITIVE_NUMBER},
    ),
    *_other_engines(
        "It changes how a Java engine plans a read or spreads its memory, not the rows and not the files.",
        {
            "read.split.metadata-target-size": BYTES,
            "read.split.adaptive-size.enabled": BOOLEAN,
            "read.data-planning-mode": choice("auto", "local", "distributed"),
            "read.delete-planning-mode": choice("auto", "local", "distributed"),
            "write.spark.fanout.enabled": BOOLEAN,
            "write.spark.advisory-partition-size-bytes": BYTES,
            "write.parquet.row-group-check-min-record-count": POSITIVE_NUMBER,
            "write.parquet.row-group-check-max-record-count": POSITIVE_NUMBER,
            "write.parquet.row-group-size-track-uncompressed": BOOLEAN,
            "write.delete.parquet.row-group-check-min-record-count": POSITIVE_NUMBER,
            "write.delete.parquet.row-group-check-max-record-count": POSITIVE_NUMBER,
        },
    ),
    *_other_engines(
        "DELETE moves no rows among tasks: it marks the deleted rows, or rewrites each file without them.",
        {"write.delete.distribution-mode": _DISTRIBUTIONS},
    ),
    *_other_engines(
        "The format versions that rowmerge writes have no VARIANT columns.",
        {"write.parquet.shred-variants": BOOLEAN, "write.parquet.variant-inference-buffer-size": POSITIVE_NUMBER},
    ),
    *_other_engines(
        "pyiceberg limits the rows of a row group. Use `write.parquet.row-group-size-bytes`, which limits its bytes.",
        {"write.parquet.row-group-limit": POSITIVE_NUMBER},
    ),
    *_other_engines(
        "Spark does not use identifier fields as keys for its optimizer here.",
        {"identifier-fields.rely": BOOLEAN},
    ),
    *_other_engines(
        "It belongs to the Hive catalog, to Flink or to DataFrame writers of Iceberg on Spark.",
        {
            "engine.hive.enabled": BOOLEAN,
            "engine.hive.lock-enabled": BOOLEAN,
            "write.upsert.enabled": BOOLEAN,
            "write.spark.accept-any-schema": BOOLEAN,
            "write.spark.auto-schema-evolution.enabled": BOOLEAN,
        },
    ),
    *_other_engines(
        "All snapshots of format version 2 inherit ids; in format version 1 rowmerge writes them.",
        {"compatibility.snapshot-id-inheritance.enabled": BOOLEAN},
    ),
)
_NOT_WRITTEN = tuple(
    _other_engines(
        "The engine chooses it: manifests are compressed with deflate, and Bloom filters have the size for their distinct values.",
        {
            "write.manifest.compression-codec": TEXT,
            "write.manifest.compression-level": WHOLE_NUMBER,
            "write.parquet.bloom-filter-adaptive-enabled": BOOLEAN,
        },
    )
)
_MANAGED = (
    TableProperty(
        f"{RESERVED}<number>", TEXT, "COPY INTO records in it which files it has loaded. Leave it out.", None, Effect.MANAGED, "0.3.0"
    ),
)
ICEBERG_PROPERTIES = PropertyRegistry("Iceberg", (*_HONOURED, *_MANAGED, *_STORED, *_NOT_WRITTEN, *_REJECTED))
