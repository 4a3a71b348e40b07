"""The table properties that affect the engine: those of Iceberg, and `rowmerge.*`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from pyiceberg.table.update import SetPropertiesUpdate

from rowmerge.errors import ConfigurationError
from rowmerge.iceberg.metadata.registry import (
    COMMIT_MAX_WAIT,
    COMMIT_MIN_WAIT,
    COMMIT_RETRIES,
    COMMIT_TOTAL_TIMEOUT,
    COMPRESSION,
    DATA_PATH,
    DELETE_COMPRESSION,
    DELETE_FILE_SIZE,
    DELETE_LEVEL,
    DELETE_ROW_GROUP_SIZE,
    DISTRIBUTION,
    DISTRIBUTIONS,
    FOLDER_PATH,
    GRANULARITY,
    ICEBERG_PROPERTIES,
    ISOLATION_LEVELS,
    LEVEL,
    METADATA_CODEC,
    METADATA_PATH,
    MODES,
    OBJECT_STORAGE,
    OBJECT_STORAGE_PATH,
    OPEN_FILE_COST,
    PARTITION_LIMIT,
    PARTITIONED_PATHS,
    ROW_GROUP_SIZE,
    SPLIT_LOOKBACK,
    SPLIT_SIZE,
    STATUS_CHECK_MAX_WAIT,
    STATUS_CHECK_MIN_WAIT,
    STATUS_CHECK_TIMEOUT,
    STATUS_CHECKS,
    TARGET_FILE_SIZE,
    WAP_ENABLED,
)
from rowmerge.storage.store import absolute_location
from rowmerge.table.metadata.copied_files import KEY_LENGTH, RESERVED
from rowmerge.table.metadata.parquet_settings import DATA_PAGES, DELETE_PAGES, ColumnSettings, PageSettings
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.property_registry import TableProperty
from rowmerge.table.metadata.settings import (
    WRITE_MODE,
    ParquetSettings,
    RetryPolicy,
    SplitSettings,
    TableSettings,
    WriteMode,
)

_KEYS_PER_PROPERTY = 200
"""Hive metastores limit the text of a property to 4000 characters."""
APPLICATION, APPLICATION_VERSION = "rowmerge.transaction.application", "rowmerge.transaction.version"
"""The keys of a snapshot's summary that identify the transaction of an application."""
FILE_LOCATIONS = (DATA_PATH.name, METADATA_PATH.name, OBJECT_STORAGE_PATH.name, FOLDER_PATH.name)
"""Properties that name the folders of new files. The last two are older names of the first property."""
_GZIP_LEVELS = range(1, 10)
_PARQUET_PREFIXES = ("write.parquet.", "write.delete.parquet.")
_STATUS_CHECKS = (STATUS_CHECKS, STATUS_CHECK_MIN_WAIT, STATUS_CHECK_MAX_WAIT, STATUS_CHECK_TIMEOUT)


@dataclass(frozen=True)
class DeleteFileSettings:
    """The settings of position-delete files. Deletion vectors, from format version 3 on, are not Parquet files and have no settings.

    `parquet`: the compression, row groups and pages. `target_size`: the size in bytes above which rows are divided among files.
    `by_partition`: whether a delete file may contain deleted rows of several data files of a partition.
    """

    parquet: ParquetSettings = field(default_factory=ParquetSettings)
    target_size: int = 64 * 1024 * 1024
    by_partition: bool = False


class IcebergSettings(TableSettings):
    """The settings of an Iceberg table, from its `write.*` and `commit.*` properties and the properties that all formats share."""

    registry = ICEBERG_PROPERTIES

    def write_mode(self, operation: str) -> WriteMode:
        """Return how an operation changes rows: `rowmerge.write.mode`, else `write.<operation>.mode`, else copy-on-write.

        Raises ConfigurationError if the property has an invalid value.
        """
        mode = WRITE_MODE.parse(self.properties)
        if mode is None and operation in MODES:
            return MODES[operation].value(self.properties)
        return mode or WriteMode.COPY_ON_WRITE

    def isolation_level(self, operation: str) -> str:
        """Return the property `write.<operation>.isolation-level`: `serializable`, which is the default, or `snapshot`.

        Raises:
            ConfigurationError: The property has another value.
        """
        return ISOLATION_LEVELS[operation].value(self.properties) if operation in ISOLATION_LEVELS else "serializable"

    def distribution(self, *, is_ordered: bool) -> Distribution:
        """Return `write.distribution-mode`. The default is range if the table has a sort order (`is_ordered`), else hash.

        Raises ConfigurationError if the property has an invalid value.
        """
        return DISTRIBUTION.parse(self.properties) or (Distribution.RANGE if is_ordered else Distribution.HASH)

    def operation_distribution(self, operation: str) -> Distribution | None:
        """Return `write.<operation>.distribution-mode`. The default is that of Iceberg on Spark: hash for UPDATE, else None.

        Raises ConfigurationError if the property has an invalid value.
        """
        property_ = DISTRIBUTIONS.get(operation)
        if property_ is None:
            return None
        return property_.parse(self.properties) if property_.default is None else property_.value(self.properties)

    @cached_property
    def retry_policy(self) -> RetryPolicy:
        """Return the retry policy of commits from `rowmerge.commit.retry.*`, with Iceberg's `commit.retry.*` as defaults.

        Raises ConfigurationError if a property has an invalid value.
        """
        names = (property_.name for property_ in (COMMIT_RETRIES, COMMIT_MIN_WAIT, COMMIT_MAX_WAIT))
        defaults = {f"rowmerge.{name}": self.properties[name] for name in names if name in self.properties}
        return replace(RetryPolicy.of({**defaults, **self.properties}), total_timeout=COMMIT_TOTAL_TIMEOUT.parse(self.properties))

    @property
    def is_audited(self) -> bool:
        """Return `write.wap.enabled`. Raises ConfigurationError if it is neither true nor false."""
        return WAP_ENABLED.value(self.properties)

    @cached_property
    def target_file_size(self) -> int | None:
        """Return `write.target-file-size-bytes`, or None if it is not set. Raises ConfigurationError if it is not a positive number."""
        return TARGET_FILE_SIZE.parse(self.properties)

    @cached_property
    def parquet(self) -> ParquetSettings:
        """Return the Parquet settings from `write.parquet.*`. A codec without levels ignores the compression level.

        Raises ConfigurationError if a property has an invalid value.
        """
        codec = COMPRESSION.parse(self.properties)
        level, row_group_size = self._compression_level(codec or "zstd", LEVEL), ROW_GROUP_SIZE.parse(self.properties)
        pages, columns = PageSettings.of(self.properties, DATA_PAGES), ColumnSettings.of(self.properties)
        return ParquetSettings(codec, level, row_group_size, pages, columns)

    @cached_property
    def delete_files(self) -> DeleteFileSettings:
        """Return the settings `write.delete.*` of position-delete files. As in Iceberg, the defaults are the settings of data files.

        Raises:
            ConfigurationError: A property has an invalid value.
        """
        codec = DELETE_COMPRESSION.parse(self.properties) or self.parquet.codec
        level = self._compression_level(codec or "zstd", DELETE_LEVEL)
        if level is None and codec == self.parquet.codec:  # a level of another codec may be out of range
            level = self.parquet.level
        row_group_size = DELETE_ROW_GROUP_SIZE.parse(self.properties) or self.parquet.row_group_size
        pages = PageSettings.of(self.properties, DELETE_PAGES).or_else(self.parquet.pages)
        by_partition = GRANULARITY.value(self.properties) == "partition"
        parquet = ParquetSettings(codec, level, row_group_size, pages)
        return DeleteFileSettings(parquet, DELETE_FILE_SIZE.value(self.properties), by_partition)

    @cached_property
    def partitions_in_hashed_paths(self) -> bool | None:
        """Return `write.object-storage.partitioned-paths` if `write.object-storage.enabled` is true, and None otherwise.

        Raises:
            ConfigurationError: A property is neither true nor false.
        """
        return PARTITIONED_PATHS.value(self.properties) if OBJECT_STORAGE.value(self.properties) else None

    @property
    def data_path(self) -> str | None:
        """The folder of new data files, or None for the folder `data` of the table. The order of the properties is that of Iceberg."""
        old_names = (FOLDER_PATH,) if self.partitions_in_hashed_paths is None else (OBJECT_STORAGE_PATH, FOLDER_PATH)
        names = [property_.name for property_ in (DATA_PATH, *old_names)]
        return next((self.properties[name] for name in names if name in self.properties), None)

    def metadata_location(self, location: str) -> str:
        """Return the folder of new manifests and manifest lists: `write.metadata.path`, else `metadata` in the table's location."""
        path = self.properties.get(METADATA_PATH.name)
        return f"{location}/metadata" if path is None else absolute_location(path)

    @cached_property
    def summarized_partitions(self) -> int:
        """Return `write.summary.partition-limit`: up to how many changed partitions a snapshot's summary lists the counts of each.

        Raises ConfigurationError if the property is not a whole number.
        """
        return PARTITION_LIMIT.value(self.properties)

    @cached_property
    def compresses_metadata(self) -> bool:
        """Return whether `write.metadata.compression-codec` is gzip. The default is none.

        Raises:
            ConfigurationError: The property has another value.
        """
        return METADATA_CODEC.value(self.properties) == "gzip"

    @cached_property
    def status_check_waits(self) -> tuple[float, ...] | None:
        """Return the times in seconds to wait before each check of a commit whose outcome is unknown, from `commit.status-check.*`.

        The times double up to a maximum. Checks that would begin after the total time are left out. None without these properties.

        Raises:
            ConfigurationError: A property is not a whole number.
        """
        if not any(property_.name in self.properties for property_ in _STATUS_CHECKS):
            return None
        count, wait, longest, total = (property_.value(self.properties) for property_ in _STATUS_CHECKS)
        waits = [min(wait * 2 ** min(index, 30), longest) for index in range(count)]
        return tuple(wait / 1000 for wait, end in zip(waits, accumulate(waits), strict=True) if end <= total)

    @cached_property
    def splits(self) -> SplitSettings:
        """Return the settings `read.split.*`.

        Raises:
            ConfigurationError: A property is not a positive number.
        """
        open_file_cost = OPEN_FILE_COST.parse(self.properties)
        return SplitSettings(SPLIT_SIZE.value(self.properties), open_file_cost, SPLIT_LOOKBACK.value(self.properties))

    def _compression_level(self, codec: str, property_: TableProperty[int]) -> int | None:
        """Return the compression level, or None if it is not set or the codec has no levels. Raises ConfigurationError if out of range."""
        level = property_.parse(self.properties)
        if level is None or codec not in ("zstd", "gzip"):
            return None
        if codec == "gzip" and level not in _GZIP_LEVELS:
            raise ConfigurationError(f"The table property {property_.name} is {level}. Set it to a whole number from 1 to 9 for gzip.")
        return level


def check_properties(properties: Mapping[str, str], existing: Mapping[str, str]) -> None:
    """Check the names and values of the table properties in a statement.

    Args:
        properties: The properties of the table after the statement.
        existing: The properties of the table before the statement. Those that do not change are not checked.

    Raises:
        ConfigurationError: A property is unknown or rejected, belongs to Delta, or has a value that is not valid.
    """
    ICEBERG_PROPERTIES.check(properties, existing)
    if any(name.startswith(_PARQUET_PREFIXES) and existing.get(name) != value for name, value in properties.items()):
        # The level must fit the codec, and the installed PyArrow must have the options of the writer.
        settings = IcebergSettings(properties)
        _ = settings.parquet, settings.delete_files


def file_locations(properties: Mapping[str, str]) -> list[str]:
    """Return the folders that are set by the properties in FILE_LOCATIONS."""
    return [properties[name] for name in FILE_LOCATIONS if properties.get(name, "").strip()]


def copied_files(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the keys of the files that COPY INTO has loaded, from the properties of a table."""
    texts = [value for name, value in properties.items() if name.startswith(RESERVED)]
    return frozenset(text[start : start + KEY_LENGTH] for text in texts for start in range(0, len(text), KEY_LENGTH))


def without_copied_files(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a table except those that record loaded files."""
    return {name: value for name, value in properties.items() if not name.startswith(RESERVED)}


def record_copied_files(keys: Collection[str], snapshot_id: int) -> tuple[SetPropertiesUpdate, ...]:
    """Return the update that records loaded files in new properties, or no update if there are no files.

    Concurrent commits record other files in properties with other names, so neither replaces those of the other.

    Args:
        keys: The keys of the files.
        snapshot_id: The id of the snapshot that loads them, which is part of the names.
    """
    ordered = sorted(keys)
    groups = [ordered[start : start + _KEYS_PER_PROPERTY] for start in range(0, len(ordered), _KEYS_PER_PROPERTY)]
    properties = {f"{RESERVED}{snapshot_id}-{number}": "".join(group) for number, group in enumerate(groups)}
    return (SetPropertiesUpdate(updates=properties),) if properties else ()
