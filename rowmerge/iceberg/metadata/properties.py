"""The table properties that affect the engine: those of Iceberg, and `rowmerge.*`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import accumulate

from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.parquet_settings import ColumnSettings, PageSettings, parse_flag
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.settings import (
    OWN_PROPERTIES,
    WRITE_MODE,
    ParquetSettings,
    RetryPolicy,
    SplitSettings,
    TableSettings,
    WriteMode,
    parse_codec,
    parse_whole_number,
    parse_write_mode,
)

COMMENT = "comment"
"""The property that contains a table's description, as in Spark and Trino."""
GC_ENABLED = "gc.enabled"
APPLICATION, APPLICATION_VERSION = "rowmerge.transaction.application", "rowmerge.transaction.version"
"""The keys of a snapshot's summary that identify the transaction of an application."""
FORMAT_VERSION = "format-version"
DISTRIBUTION = "write.distribution-mode"
COMPRESSION = "write.parquet.compression-codec"
LEVEL = "write.parquet.compression-level"
ROW_GROUP_SIZE = "write.parquet.row-group-size-bytes"
GRANULARITY = "write.delete.granularity"
PARTITION_LIMIT = "write.summary.partition-limit"
SPLIT_SIZE = "read.split.target-size"
OPEN_FILE_COST = "read.split.open-file-cost"
SPLIT_LOOKBACK = "read.split.planning-lookback"
COLUMN_MODE_PREFIX = "write.metadata.metrics.column."
DATA_PATH, OBJECT_STORAGE_PATH, FOLDER_PATH = "write.data.path", "write.object-storage.path", "write.folder-storage.path"
OBJECT_STORAGE, PARTITIONED_PATHS = "write.object-storage.enabled", "write.object-storage.partitioned-paths"
METADATA_PATH = "write.metadata.path"
METADATA_CODEC = "write.metadata.compression-codec"
PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
FILE_LOCATIONS = (DATA_PATH, METADATA_PATH, OBJECT_STORAGE_PATH, FOLDER_PATH)
"""Properties that name the folders of new files. The last two are older names of the first property."""
_DELETE_PREFIX = "write.delete.parquet."
_MODES = ("write.merge.mode", "write.update.mode", "write.delete.mode")
_LEVELS = {"zstd": (1, 22), "gzip": (1, 9)}
"""The lowest and the highest compression level of each codec that has levels."""
RETRY_TIMEOUT = "commit.retry.total-timeout-ms"
_MOST_CHECKS = 10_000
_RETRIES = ("commit.retry.num-retries", "commit.retry.min-wait-ms", "commit.retry.max-wait-ms")


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

    def write_mode(self, operation: str) -> WriteMode:
        """Return how an operation changes rows: `rowmerge.write.mode`, else `write.<operation>.mode`, else copy-on-write.

        Raises ConfigurationError if the property has an invalid value.
        """
        name = f"write.{operation.lower()}.mode"
        if WRITE_MODE in self.properties or name not in _MODES:
            name = WRITE_MODE
        return parse_write_mode(self.properties, name, WriteMode.COPY_ON_WRITE)

    def isolation_level(self, operation: str) -> str:
        """Return the property `write.<operation>.isolation-level`: `serializable`, which is the default, or `snapshot`.

        Raises:
            ConfigurationError: The property has another value.
        """
        name = f"write.{operation.lower()}.isolation-level"
        level = self.properties.get(name, "serializable").strip().lower()
        if level not in ("serializable", "snapshot"):
            raise ConfigurationError(f"The table property {name} is {self.properties[name]!r}. Set it to serializable or snapshot.")
        return level

    def distribution(self, *, is_ordered: bool) -> Distribution:
        """Return `write.distribution-mode`. The default is range if the table has a sort order (`is_ordered`), else hash.

        Raises ConfigurationError if the property has an invalid value.
        """
        return _distribution(self.properties, DISTRIBUTION, "range" if is_ordered else "hash")

    def operation_distribution(self, operation: str) -> Distribution | None:
        """Return `write.<operation>.distribution-mode`. The defaults are those of Iceberg on Spark: hash for UPDATE and DELETE, else None.

        Raises ConfigurationError if the property has an invalid value.
        """
        name = f"write.{operation.lower()}.distribution-mode"
        if name not in self.properties and operation not in ("UPDATE", "DELETE"):
            return None
        return _distribution(self.properties, name, "hash")

    @cached_property
    def retry_policy(self) -> RetryPolicy:
        """Return the retry policy of commits from `rowmerge.commit.retry.*`, with Iceberg's `commit.retry.*` as defaults.

        Raises ConfigurationError if a property has an invalid value.
        """
        defaults = {f"rowmerge.{name}": self.properties[name] for name in _RETRIES if name in self.properties}
        policy = RetryPolicy.of({**defaults, **self.properties})
        has_limit = RETRY_TIMEOUT in self.properties
        return replace(policy, total_timeout=parse_whole_number(self.properties, RETRY_TIMEOUT, 0)) if has_limit else policy

    @cached_property
    def status_check_waits(self) -> tuple[float, ...] | None:
        """Return the times in seconds to wait before each check of a commit whose outcome is unknown, from `commit.status-check.*`.

        The times double up to a maximum. Checks that would begin after the total time are left out. None without these properties.

        Raises:
            ConfigurationError: A property is not a whole number.
        """
        defaults = {"num-retries": 3, "min-wait-ms": 1000, "max-wait-ms": 60_000, "total-timeout-ms": 1_800_000}  # those of Iceberg
        names = {name: f"commit.status-check.{name}" for name in defaults}
        if not self.properties.keys() & set(names.values()):
            return None
        count, wait, longest, total = (parse_whole_number(self.properties, names[name], default) for name, default in defaults.items())
        waits = [min(wait * 2 ** min(index, 30), longest) for index in range(min(count, _MOST_CHECKS))]
        return tuple(wait / 1000 for wait, end in zip(waits, accumulate(waits), strict=True) if end <= total)

    @cached_property
    def target_file_size(self) -> int | None:
        """Return `write.target-file-size-bytes`, or None if it is not set. Raises ConfigurationError if it is not a positive number."""
        return _parse_bytes(self.properties, "write.target-file-size-bytes")

    @cached_property
    def parquet(self) -> ParquetSettings:
        """Return the Parquet settings from `write.parquet.*`. A codec without levels ignores the compression level.

        Raises ConfigurationError if a property has an invalid value.
        """
        codec = parse_codec(self.properties, COMPRESSION)
        level, row_group_size = self._compression_level(codec or "zstd", LEVEL), _parse_bytes(self.properties, ROW_GROUP_SIZE)
        pages, columns = PageSettings.of(self.properties, "write.parquet."), ColumnSettings.of(self.properties)
        return ParquetSettings(codec, level, row_group_size, pages, columns)

    @cached_property
    def delete_files(self) -> DeleteFileSettings:
        """Return the settings `write.delete.*` of position-delete files. As in Iceberg, the defaults are the settings of data files.

        Raises:
            ConfigurationError: A property has an invalid value.
        """
        codec = parse_codec(self.properties, f"{_DELETE_PREFIX}compression-codec") or self.parquet.codec
        level = self._compression_level(codec or "zstd", f"{_DELETE_PREFIX}compression-level")
        if level is None and codec == self.parquet.codec:  # a level of another codec may be out of range
            level = self.parquet.level
        row_group_size = _parse_bytes(self.properties, f"{_DELETE_PREFIX}row-group-size-bytes") or self.parquet.row_group_size
        pages = PageSettings.of(self.properties, _DELETE_PREFIX).or_else(self.parquet.pages)
        target_size = _parse_bytes(self.properties, "write.delete.target-file-size-bytes") or DeleteFileSettings.target_size
        granularity = self.properties.get(GRANULARITY, "file").strip().lower()
        if granularity not in ("file", "partition"):
            raise ConfigurationError(f"The table property {GRANULARITY} is {self.properties[GRANULARITY]!r}. Set it to file or partition.")
        return DeleteFileSettings(ParquetSettings(codec, level, row_group_size, pages), target_size, granularity == "partition")

    @cached_property
    def partitions_in_hashed_paths(self) -> bool | None:
        """Return `write.object-storage.partitioned-paths` if `write.object-storage.enabled` is true, and None otherwise.

        Raises:
            ConfigurationError: A property is neither true nor false.
        """
        has_partitions = parse_flag(self.properties, PARTITIONED_PATHS) if PARTITIONED_PATHS in self.properties else True
        is_enabled = parse_flag(self.properties, OBJECT_STORAGE) if OBJECT_STORAGE in self.properties else False
        return has_partitions if is_enabled else None

    @property
    def data_path(self) -> str | None:
        """The folder of new data files, or None for the folder `data` of the table. The order of the properties is that of Iceberg."""
        names = (DATA_PATH, FOLDER_PATH) if self.partitions_in_hashed_paths is None else (DATA_PATH, OBJECT_STORAGE_PATH, FOLDER_PATH)
        return next((self.properties[name] for name in names if name in self.properties), None)

    @cached_property
    def summarized_partitions(self) -> int:
        """Return `write.summary.partition-limit`: up to how many changed partitions a snapshot's summary lists the counts of each.

        Raises ConfigurationError if the property is not a whole number.
        """
        return parse_whole_number(self.properties, PARTITION_LIMIT, 0)

    @cached_property
    def compresses_metadata(self) -> bool:
        """Return whether `write.metadata.compression-codec` is gzip. The default is none.

        Raises:
            ConfigurationError: The property has another value.
        """
        codec = self.properties.get(METADATA_CODEC, "none").strip().lower()
        if codec not in ("none", "gzip"):
            raise ConfigurationError(f"The table property {METADATA_CODEC} is {self.properties[METADATA_CODEC]!r}. Set it to none or gzip.")
        return codec == "gzip"

    @cached_property
    def splits(self) -> SplitSettings:
        """Return the settings `read.split.*`.

        Raises:
            ConfigurationError: A property is not a positive number.
        """
        target_size = _parse_bytes(self.properties, SPLIT_SIZE)
        lookback = parse_whole_number(self.properties, SPLIT_LOOKBACK, SplitSettings.planning_lookback)
        if lookback == 0:
            raise ConfigurationError(f"The table property {SPLIT_LOOKBACK} is 0. Set it to a whole number, 1 or more.")
        open_file_cost = _parse_bytes(self.properties, OPEN_FILE_COST)
        return SplitSettings(target_size or SplitSettings.target_size, open_file_cost, lookback)

    def check(self) -> None:
        super().check()
        _ = (self.delete_files, self.summarized_partitions, self.compresses_metadata, self.status_check_waits)
        _ = self.partitions_in_hashed_paths

    def _compression_level(self, codec: str, name: str) -> int | None:
        """Return the compression level, or None if it is not set or the codec has no levels. Raises ConfigurationError if out of range."""
        if name not in self.properties or codec not in _LEVELS:
            return None
        lowest, highest = _LEVELS[codec]
        level = parse_whole_number(self.properties, name, lowest)
        if not lowest <= level <= highest:
            raise ConfigurationError(f"The table property {name} is {level}. Set it to a number from {lowest} to {highest}.")
        return level


def check_properties(properties: Mapping[str, str]) -> None:
    """Check the names and values of table properties.

    Raises:
        ConfigurationError: A property with the prefix `rowmerge.` is unknown, a property belongs to Delta, or a value is not valid.
    """
    for name in properties:
        _check_property_name(name)
    if properties.get(FORMAT_VERSION, "2") not in ("1", "2", "3"):
        raise ConfigurationError(f"The table property {FORMAT_VERSION} is {properties[FORMAT_VERSION]!r}. Set it to 2.")
    IcebergSettings(properties).check()
    check_metadata_log_length(properties)


def check_metadata_log_length(properties: Mapping[str, str]) -> None:
    """Raise ConfigurationError if `write.metadata.previous-versions-max` is not a whole number."""
    parse_whole_number(properties, PREVIOUS_VERSIONS, 100)


def _check_property_name(name: str) -> None:
    """Raise ConfigurationError for a property of Delta, and for an unknown property with the prefix `rowmerge.`."""
    if name.startswith("delta."):
        raise ConfigurationError(f"The table property {name} applies only to Delta tables. Leave it out.")
    if not name.startswith("rowmerge.") or name in OWN_PROPERTIES:
        return
    similar_names = get_close_matches(name, sorted(OWN_PROPERTIES), n=1)
    advice = f"Did you mean {similar_names[0]}?" if similar_names else f"There are: {', '.join(sorted(OWN_PROPERTIES))}."
    raise ConfigurationError(f"There is no table property {name}. {advice}")


def file_locations(properties: Mapping[str, str]) -> list[str]:
    """Return the folders that are set by the properties in FILE_LOCATIONS."""
    return [properties[name] for name in FILE_LOCATIONS if properties.get(name, "").strip()]


def _distribution(properties: Mapping[str, str], name: str, default: str) -> Distribution:
    value = properties.get(name, default)
    try:
        return Distribution(value.strip().lower())
    except ValueError as error:
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to none, hash or range.") from error


def _parse_bytes(properties: Mapping[str, str], name: str) -> int | None:
    """Return a property as a number of bytes, or None if it is not set. Raises ConfigurationError unless it is a number above zero."""
    value = properties.get(name)
    if value is None:
        return None
    if not re.fullmatch(r"\s*[1-9]\d*\s*", value):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a number of bytes.")
    return int(value)
