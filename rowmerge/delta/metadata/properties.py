"""Table properties: the names of all `delta.*` properties, and the values of the supported ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import cached_property

from rowmerge.delta.metadata.column_mapping import MAPPING_MODE, MAX_COLUMN_ID
from rowmerge.errors import ConfigurationError, UnsupportedTableFeature
from rowmerge.table.metadata.schema import quote
from rowmerge.table.metadata.settings import ParquetSettings, TableSettings, WriteMode, parse_codec, parse_whole_number

DELETION_VECTORS = "delta.enableDeletionVectors"
ROW_TRACKING = "delta.enableRowTracking"
ROW_TRACKING_SUSPENDED = "delta.rowTrackingSuspended"
CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
TYPE_WIDENING = "delta.enableTypeWidening"
APPEND_ONLY = "delta.appendOnly"
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
FEATURE_PREFIX = "delta.feature."
COMPRESSION = "delta.parquet.compression.codec"
SYMLINK_MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"
FORMAT_VERSION = "delta.parquet.format.version"
RANDOM_PREFIXES = "delta.randomizeFilePrefixes"
PREFIX_LENGTH = "delta.randomPrefixLength"
CONSTRAINT_PREFIX = "delta.constraints."
MIN_READER = "delta.minReaderVersion"
MIN_WRITER = "delta.minWriterVersion"
EXPIRED_LOG_CLEANUP = "delta.enableExpiredLogCleanup"
LOG_RETENTION = "delta.logRetentionDuration"
CHECKPOINT_RETENTION = "delta.checkpointRetentionDuration"
TOMBSTONE_RETENTION = "delta.deletedFileRetentionDuration"
TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
CHECKPOINT_PROTECTION = "delta.requireCheckpointProtectionBeforeVersion"
LOG_PROPERTIES = (
    CHECKPOINT_PROTECTION,
    IN_COMMIT_TIMESTAMPS,
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)
"""Properties that describe the log rather than the table. RESTORE and CLONE keep the values of the existing log."""


def _delta_properties(names: str) -> frozenset[str]:
    """Return the full names of properties, from their names without the prefix `delta.`, separated by spaces."""
    return frozenset(f"delta.{name}" for name in names.split())


_BOOLEANS = _delta_properties(
    "appendOnly checkpoint.writeStatsAsJson checkpoint.writeStatsAsStruct enableChangeDataFeed enableDeletionVectors "
    "enableExpiredLogCleanup enableIcebergCompatV1 enableIcebergCompatV2 enableInCommitTimestamps enableRowTracking "
    "enableTypeWidening randomizeFilePrefixes rowTrackingSuspended compatibility.symlinkFormatManifest.enabled"
)
_INTERVALS = frozenset((CHECKPOINT_RETENTION, TOMBSTONE_RETENTION, LOG_RETENTION, TRANSACTION_RETENTION))
_OTHERS = _delta_properties(
    "autoOptimize.autoCompact autoOptimize.optimizeWrite checkpointInterval checkpointPolicy isolationLevel targetFileSize "
    "dataSkippingNumIndexedCols dataSkippingStatsColumns randomPrefixLength "
    "parquet.format.version sampleRetentionDuration tuneFileSizesForRewrites universalFormat.enabledFormats"
)
_KNOWN_PROPERTIES = _BOOLEANS | _INTERVALS | _OTHERS | {*LOG_PROPERTIES, MAX_COLUMN_ID, MAPPING_MODE, MIN_READER, MIN_WRITER, COMPRESSION}
_MILLIS_BY_UNIT = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
_BYTES_BY_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MAX_PREFIX_LENGTH = 255
"""The longest name of a folder on most file systems."""
_PAGES_OF_VERSION_2 = (2, 12, 0)
"""The lowest version of the Parquet format with which delta-spark writes data pages of version 2."""
_MAX_INTERVAL = 100_000 * 365 * _MILLIS_BY_UNIT["day"]
"""The longest accepted interval in milliseconds. It keeps calculations with times within 64 bits."""


class DeltaSettings(TableSettings):
    """The settings of a Delta table, from its `delta.*` properties and from the properties that every table format has."""

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
        value = self.properties.get("delta.isolationLevel", "WriteSerializable")
        if value.lower() not in ("serializable", "writeserializable"):
            raise ConfigurationError(f"The table property delta.isolationLevel is {value!r}. Set it to Serializable or WriteSerializable.")
        return "Serializable" if value.lower() == "serializable" else "WriteSerializable"

    @cached_property
    def target_file_size(self) -> int | None:
        """The size from `delta.targetFileSize` (such as `104857600` or `100mb`) in bytes, or None if the property is not set.

        Raises:
            ConfigurationError: The property is not a size.
        """
        value = self.properties.get("delta.targetFileSize")
        if value is None:
            return None
        match = re.fullmatch(r"(?P<count>[1-9]\d*)\s*(?P<unit>[kmgt]?)b?", value.strip().lower())
        if not match:
            raise ConfigurationError(f"The table property delta.targetFileSize is {value!r}. Set it to bytes or to a size such as '100mb'.")
        return int(match["count"]) * _BYTES_BY_UNIT[match["unit"]]

    @cached_property
    def parquet(self) -> ParquetSettings:
        """The Parquet settings from `delta.parquet.compression.codec` and `delta.parquet.format.version`.

        Raises:
            ConfigurationError: The codec is unknown, or the version is not a version of the Parquet format.
        """
        format_version, page_version = _parquet_versions(self.properties)
        codec = parse_codec(self.properties, COMPRESSION)
        return ParquetSettings(codec, format_version=format_version, page_version=page_version)

    @cached_property
    def random_prefix_length(self) -> int | None:
        """The value of `delta.randomPrefixLength` (2 by default), or None unless `delta.randomizeFilePrefixes` is true.

        Raises:
            ConfigurationError: The length is not a whole number above 0, or it exceeds the length of a file name.
        """
        value = self.properties.get(PREFIX_LENGTH, "2")
        if not re.fullmatch(r"\s*\d{1,3}\s*", value) or not 0 < int(value) <= _MAX_PREFIX_LENGTH:
            advice = f"Set it to a whole number from 1 to {_MAX_PREFIX_LENGTH}."
            raise ConfigurationError(f"The table property {PREFIX_LENGTH} is {value!r}. {advice}")
        return int(value) if is_true(self.properties, RANDOM_PREFIXES) else None


def check_properties(properties: Mapping[str, str], existing: Collection[str] = ()) -> None:
    """Check the names and the values of the table properties in a statement.

    Args:
        properties: The properties by name.
        existing: The names of properties that the table already has. They are accepted even if they are unknown.

    Raises:
        ConfigurationError: A `delta.*` property is unknown, or a value is invalid.
    """
    for name, value in properties.items():
        # `existing` can have properties of other engines.
        is_known = name in _KNOWN_PROPERTIES or name in existing or name.startswith((FEATURE_PREFIX, CONSTRAINT_PREFIX))
        if name.startswith("delta.") and not is_known:
            raise ConfigurationError(f"The table property {name} does not exist. {_suggestion(name)}")
        _check_value(name, value)
    if is_true(properties, ROW_TRACKING) and is_true(properties, ROW_TRACKING_SUSPENDED):
        raise ConfigurationError(f"{ROW_TRACKING} and {ROW_TRACKING_SUSPENDED} cannot both be true. Set one of them to false.")
    # These functions parse a property, and raise ConfigurationError for an invalid value. Their results are not needed here.
    checkpoint_interval(properties)
    checkpoint_policy(properties)
    protected_before(properties)
    DeltaSettings(properties).check()


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
    if new.get(IN_COMMIT_TIMESTAMPS, "false").lower() == "true" and old.get(IN_COMMIT_TIMESTAMPS, "false").lower() != "true":
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


def _check_value(name: str, value: str) -> None:
    """Raise ConfigurationError for an invalid boolean, column mapping mode or interval."""
    if name in _BOOLEANS and value.strip().lower() not in ("true", "false"):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to true or false.")
    if name == MAPPING_MODE and value.strip().lower() not in ("none", "name", "id"):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to name, id or none.")
    if name in _INTERVALS:
        parse_interval(name, value)


def is_true(properties: Mapping[str, str], name: str) -> bool:
    """Return whether a property is true. A property that is not set counts as false.

    Args:
        properties: The properties of a table.
        name: The name of a boolean property.
    """
    return properties.get(name, "false").strip().lower() == "true"


def _parquet_versions(properties: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return Arrow's versions of the Parquet format and of data pages for `delta.parquet.format.version`, or None if it is not set.

    Like delta-spark, the engine accepts each version from 1.0.0 on, and writes data pages of version 2 from 2.12.0 on.

    Raises:
        ConfigurationError: The property is not a version with three parts, or it is below 1.0.0.
    """
    value = properties.get(FORMAT_VERSION)
    if value is None:
        return None, None
    match = re.fullmatch(r"([1-9]\d{0,8})\.(\d{1,9})\.(\d{1,9})", value)
    if not match:
        raise ConfigurationError(f"The table property {FORMAT_VERSION} is {value!r}. Set it to 1.0.0 or 2.12.0.")
    version = tuple(map(int, match.groups()))
    return ("2.6", "2.0") if version >= _PAGES_OF_VERSION_2 else ("1.0", "1.0")


def checkpoint_interval(properties: Mapping[str, str]) -> int:
    """Return `delta.checkpointInterval`, the number of commits between checkpoints, 10 by default.

    Raises:
        ConfigurationError: The property is not a whole number above 0.
    """
    value = properties.get("delta.checkpointInterval", "10")
    if not re.fullmatch(r"\s*[1-9]\d*\s*", value):
        raise ConfigurationError(f"The table property delta.checkpointInterval is {value!r}. Set it to a whole number above 0.")
    return int(value)


def checkpoint_policy(properties: Mapping[str, str]) -> str:
    """Return `delta.checkpointPolicy`: `classic` (the default) or `v2`.

    Raises:
        ConfigurationError: The property has any other value.
    """
    value = properties.get("delta.checkpointPolicy", "classic")
    if value not in ("classic", "v2"):
        raise ConfigurationError(f"The table property delta.checkpointPolicy is {value!r}. Set it to classic or v2.")
    return value


def in_commit_timestamps_begin(properties: Mapping[str, str]) -> int:
    """Return `delta.inCommitTimestampEnablementVersion`, or 0 if it is not set. Raises ConfigurationError if it is not a number."""
    return _whole_number(properties, "delta.inCommitTimestampEnablementVersion")


def highest_column_id(properties: Mapping[str, str]) -> int:
    """Return `delta.columnMapping.maxColumnId`, or 0 if it is not set. Raises ConfigurationError if it is not a number."""
    return _whole_number(properties, MAX_COLUMN_ID)


def _whole_number(properties: Mapping[str, str], name: str) -> int:
    """Return a whole number from a property, or 0 if it is not set. Raises ConfigurationError unless it has 1 to 18 digits."""
    value = properties.get(name, "0")
    if not re.fullmatch(r"\d{1,18}", value.strip()):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a whole number.")
    return int(value)


def tombstone_retention(properties: Mapping[str, str]) -> int:
    """Return `delta.deletedFileRetentionDuration` in milliseconds. Raises ConfigurationError if it is not an interval."""
    return parse_interval(TOMBSTONE_RETENTION, properties.get(TOMBSTONE_RETENTION, "interval 1 week"))


def log_retention(properties: Mapping[str, str]) -> int | None:
    """Return `delta.logRetentionDuration` in milliseconds, or None if `delta.enableExpiredLogCleanup` is false.

    Raises ConfigurationError if the duration is not an interval.
    """
    if properties.get(EXPIRED_LOG_CLEANUP, "true").strip().lower() == "false":
        return None
    return parse_interval(LOG_RETENTION, properties.get(LOG_RETENTION, "interval 30 days"))


def transaction_retention(properties: Mapping[str, str]) -> int | None:
    """Return `delta.setTransactionRetentionDuration` in milliseconds, or None if it is not set.

    Raises ConfigurationError if it is not an interval.
    """
    interval = properties.get(TRANSACTION_RETENTION)
    return None if interval is None else parse_interval(TRANSACTION_RETENTION, interval)


def protected_before(properties: Mapping[str, str]) -> int:
    """Return `delta.requireCheckpointProtectionBeforeVersion`, or 0 if it is not set. Raises ConfigurationError if it is not a number."""
    return parse_whole_number(properties, CHECKPOINT_PROTECTION, 0)


def parse_interval(name: str, interval: str) -> int:
    """Parse an interval such as `interval 7 days` or `1 week 12 hours`.

    Args:
        name: The name of the property, for the error.
        interval: The value of the property.

    Returns:
        The interval in milliseconds, at most 100,000 years.

    Raises:
        ConfigurationError: The value is not an interval, or it has months or years, whose lengths vary.
    """
    words = interval.lower().split()
    if words[:1] == ["interval"]:
        del words[0]
    # Numbers and units alternate, as in `1 week 12 hours`.
    counts, units = words[::2], [unit.removesuffix("s") for unit in words[1::2]]
    are_pairs = bool(words) and len(counts) == len(units)
    are_valid = all(re.fullmatch(r"\d{1,18}", count) for count in counts) and _MILLIS_BY_UNIT.keys() >= set(units)
    if not are_pairs or not are_valid:
        raise ConfigurationError(f"The table property {name} is {interval!r}. Write it as 'interval 7 days', without months or years.")
    return min(sum(int(count) * _MILLIS_BY_UNIT[unit] for count, unit in zip(counts, units, strict=True)), _MAX_INTERVAL)


def _suggestion(name: str) -> str:
    """Return advice for an unknown `delta.*` property: properties with similar names, if there are any."""
    similar_names = get_close_matches(name, sorted(_KNOWN_PROPERTIES), n=3, cutoff=0.6)
    if similar_names:
        return f"Did you mean {' or '.join(similar_names)}?"
    return "Remove it, or give your own property a name that does not begin with delta."
