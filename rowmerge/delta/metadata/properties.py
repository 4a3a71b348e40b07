"""Table properties: the typed values of those that the engine needs, and the checks of those that a statement sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from rowmerge.delta.metadata import registry
from rowmerge.errors import ConfigurationError, UnsupportedTableFeature
from rowmerge.table.metadata.parquet_settings import PageSettings
from rowmerge.table.metadata.schema import quote
from rowmerge.table.metadata.settings import ParquetSettings, TableSettings, WriteMode

DELETION_VECTORS = "delta.enableDeletionVectors"
ROW_TRACKING = "delta.enableRowTracking"
ROW_TRACKING_SUSPENDED = "delta.rowTrackingSuspended"
CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
TYPE_WIDENING = "delta.enableTypeWidening"
APPEND_ONLY = "delta.appendOnly"
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
FEATURE_PREFIX = "delta.feature."
SYMLINK_MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"
RANDOM_PREFIXES = "delta.randomizeFilePrefixes"
CONSTRAINT_PREFIX = "delta.constraints."
REWRITE_FILE_SIZE = 32 * 1024 * 1024
"""The target size of rewritten files with `delta.tuneFileSizesForRewrites`. Databricks, which defined the property, documents no number.

It is a quarter of the default size, so that a statement that changes one row of a file writes a quarter of the bytes. It is above the size
up to which statements combine small files (`TOGETHER`). Otherwise, each statement would rewrite the combined files again.
"""
MIN_READER = "delta.minReaderVersion"
MIN_WRITER = "delta.minWriterVersion"
CHECKPOINT_PROTECTION = "delta.requireCheckpointProtectionBeforeVersion"
LOG_PROPERTIES = (
    CHECKPOINT_PROTECTION,
    IN_COMMIT_TIMESTAMPS,
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)
"""Properties that describe the log rather than the table. RESTORE and CLONE keep the values of the existing log."""


class DeltaSettings(TableSettings):
    """The settings of a Delta table, from its `delta.*` properties and from the properties that every table format has."""

    registry = registry.DELTA_PROPERTIES

    def write_mode(self, operation: str) -> WriteMode:
        """Return the write mode from `rowmerge.write.mode`, or copy-on-write for a table with symlink manifests."""
        # Engines that read the manifests ignore deletion vectors.
        mode = super().write_mode(operation)
        return WriteMode.COPY_ON_WRITE if is_true(self.properties, SYMLINK_MANIFESTS) else mode

    def isolation_level(self, operation: str) -> str:
        """Return the isolation level from `delta.isolationLevel`: `Serializable` or `WriteSerializable` (the default).

        `operation` is ignored, because a Delta table has one isolation level for all operations.

        Raises:
            ConfigurationError: The property has any other value.
        """
        return registry.ISOLATION_LEVEL.value(self.properties)

    @cached_property
    def target_file_size(self) -> int | None:
        """The size from `delta.targetFileSize` (such as `104857600` or `100mb`) in bytes, or None if the property is not set.

        Raises:
            ConfigurationError: The property is not a size.
        """
        return registry.TARGET_FILE_SIZE.parse(self.properties)

    @cached_property
    def for_rewrites(self) -> DeltaSettings:
        """The settings with REWRITE_FILE_SIZE, if `delta.tuneFileSizesForRewrites` is true and `delta.targetFileSize` is not set.

        Raises:
            ConfigurationError: One of the properties has an invalid value.
        """
        if self.target_file_size is not None or not registry.TUNE_FOR_REWRITES.value(self.properties):
            return self
        return DeltaSettings({**self.properties, registry.TARGET_FILE_SIZE.name: str(REWRITE_FILE_SIZE)})

    def auto_compacts(self, setting: bool | None) -> bool:
        """Return whether small files are combined after a commit. The setting of the session takes precedence, as in delta-spark.

        Raises:
            ConfigurationError: A property has an invalid value.
        """
        if setting is not None:
            return setting
        return registry.AUTO_OPTIMIZE.value(self.properties) or registry.AUTO_COMPACT.value(self.properties) != "false"

    def optimizes_write(self, read_setting: Callable[[], bool | None]) -> bool | None:
        """Return the setting of the session or, without it, `delta.autoOptimize.optimizeWrite`. Return None if both are not set.

        Raises:
            ConfigurationError: The property is neither true nor false.
        """
        setting = read_setting()
        return registry.OPTIMIZE_WRITE.parse(self.properties) if setting is None else setting

    @cached_property
    def parquet(self) -> ParquetSettings:
        """The Parquet settings from `delta.parquet.compression.codec` and `delta.parquet.format.version`.

        Raises:
            ConfigurationError: The codec is unknown, or the version is not a version of the Parquet format.
        """
        format_version, page_version = registry.PARQUET_VERSION.parse(self.properties) or (None, None)
        codec = registry.CODEC_OF_FILES.parse(self.properties)
        return ParquetSettings(codec, pages=PageSettings(version=page_version), format_version=format_version)

    @cached_property
    def random_prefix_length(self) -> int | None:
        """The value of `delta.randomPrefixLength` (2 by default), or None unless `delta.randomizeFilePrefixes` is true.

        Raises:
            ConfigurationError: The length is not a whole number above 0, or it exceeds the length of a file name.
        """
        return registry.PREFIX_LENGTH.value(self.properties) if is_true(self.properties, RANDOM_PREFIXES) else None


def check_properties(properties: Mapping[str, str], existing: Mapping[str, str]) -> None:
    """Check the names and the values of the table properties in a statement.

    Args:
        properties: The properties by name.
        existing: The properties of the table before the statement. Those that do not change are not checked.

    Raises:
        ConfigurationError: A property is unknown or rejected, or a value is invalid.
    """
    registry.DELTA_PROPERTIES.check(properties, existing)
    if is_true(properties, ROW_TRACKING) and is_true(properties, ROW_TRACKING_SUSPENDED):
        raise ConfigurationError(f"{ROW_TRACKING} and {ROW_TRACKING_SUSPENDED} cannot both be true. Set one of them to false.")


def refuse_new_constraints(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Refuse properties that add or change a CHECK constraint, because existing rows would not be checked.

    Args:
        table: The name of the table, for the error.
        old: The properties of the table before the statement.
        new: The properties in the statement.

    Raises:
        ConfigurationError: The properties add or change a constraint.
    """
    for name, expression in new.items():
        if name.lower().startswith(CONSTRAINT_PREFIX) and old.get(name) != expression:
            statement = f"ALTER TABLE {table} ADD CONSTRAINT {quote(name[len(CONSTRAINT_PREFIX) :])} CHECK ({expression})"
            raise ConfigurationError(f"{name} cannot be set as a property. Use {statement}, which checks the existing rows.")


def refuse_checkpoint_protection_change(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Refuse properties that change the checkpoint protection. Only a statement that drops a feature may change it.

    Args:
        table: The name of the table, for the error.
        old: The properties of the table before the statement.
        new: The properties in the statement.

    Raises:
        ConfigurationError: The properties change the protection.
    """
    if new.get(CHECKPOINT_PROTECTION) != old.get(CHECKPOINT_PROTECTION):
        raise ConfigurationError(f"The table property {CHECKPOINT_PROTECTION} of {table} cannot be changed. Leave it unchanged.")


def refuse_enabling_in_commit_timestamps(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Refuse properties that enable in-commit timestamps, because the log would not record their first version.

    Args:
        table: The name of the table, for the error.
        old: The properties of the table before the statement.
        new: The properties in the statement.

    Raises:
        UnsupportedTableFeature: The properties enable in-commit timestamps.
    """
    if is_true(new, IN_COMMIT_TIMESTAMPS) and not is_true(old, IN_COMMIT_TIMESTAMPS):
        advice = f"{IN_COMMIT_TIMESTAMPS} can be set only when a table is created."
        raise UnsupportedTableFeature(table, "inCommitTimestamp", action="change", advice=advice)


def refuse_enabling_row_tracking(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Refuse properties that enable row tracking, because existing rows have no row ids.

    Args:
        table: The name of the table, for the error.
        old: The properties of the table before the statement.
        new: The properties in the statement.

    Raises:
        UnsupportedTableFeature: The properties enable row tracking.
    """
    if is_true(new, ROW_TRACKING) and not is_true(old, ROW_TRACKING):
        advice = f"Set {ROW_TRACKING} when a table is created, or replace the table with CREATE OR REPLACE TABLE."
        raise UnsupportedTableFeature(table, "rowTracking", action="change", advice=advice)


def is_true(properties: Mapping[str, str], name: str) -> bool:
    """Return whether a property is true. A property that is not set counts as false.

    Args:
        properties: The properties of a table.
        name: The name of a boolean property.
    """
    return properties.get(name, "false").strip().lower() == "true"


def string_prefix_length(properties: Mapping[str, str]) -> int:
    """Return `delta.dataSkippingStringPrefixLength`, the maximum length of string bounds. Raises ConfigurationError for a bad value."""
    return registry.STRING_PREFIX_LENGTH.value(properties)


def checkpoint_interval(properties: Mapping[str, str]) -> int:
    """Return `delta.checkpointInterval`, the number of commits between checkpoints, 10 by default.

    Raises:
        ConfigurationError: The property is not a whole number above 0.
    """
    return registry.CHECKPOINT_INTERVAL.value(properties)


def checkpoint_policy(properties: Mapping[str, str]) -> str:
    """Return `delta.checkpointPolicy`: `classic` (the default) or `v2`.

    Raises:
        ConfigurationError: The property has any other value.
    """
    return registry.CHECKPOINT_POLICY.value(properties)


def in_commit_timestamps_begin(properties: Mapping[str, str]) -> int:
    """Return `delta.inCommitTimestampEnablementVersion`, or 0 if it is not set. Raises ConfigurationError if it is not a number."""
    return registry.IN_COMMIT_TIMESTAMPS_BEGIN.value(properties)


def highest_column_id(properties: Mapping[str, str]) -> int:
    """Return `delta.columnMapping.maxColumnId`, or 0 if it is not set. Raises ConfigurationError if it is not a number."""
    return registry.HIGHEST_COLUMN_ID.value(properties)


def tombstone_retention(properties: Mapping[str, str]) -> int:
    """Return `delta.deletedFileRetentionDuration` in milliseconds. Raises ConfigurationError if it is not an interval."""
    return registry.TOMBSTONE_RETENTION.value(properties)


def log_retention(properties: Mapping[str, str]) -> int | None:
    """Return `delta.logRetentionDuration` in milliseconds, or None if `delta.enableExpiredLogCleanup` is false.

    Raises ConfigurationError if the duration is not an interval.
    """
    return registry.LOG_RETENTION.value(properties) if registry.EXPIRED_LOG_CLEANUP.value(properties) else None


def transaction_retention(properties: Mapping[str, str]) -> int | None:
    """Return `delta.setTransactionRetentionDuration` in milliseconds, or None if it is not set.

    Raises ConfigurationError if it is not an interval.
    """
    return registry.TRANSACTION_RETENTION.parse(properties)


def protected_before(properties: Mapping[str, str]) -> int:
    """Return `delta.requireCheckpointProtectionBeforeVersion`, or 0 if it is not set. Raises ConfigurationError if it is not a number."""
    return registry.CHECKPOINT_PROTECTION.value(properties)
