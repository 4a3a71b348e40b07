"""The table properties that affect the engine: those of Iceberg, and `rowmerge.*`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from rowmerge.errors import ConfigurationError
from rowmerge.iceberg.metadata.registry import (
    COMMIT_MAX_WAIT,
    COMMIT_MIN_WAIT,
    COMMIT_RETRIES,
    COMPRESSION,
    DATA_PATH,
    DISTRIBUTION,
    DISTRIBUTIONS,
    ICEBERG_PROPERTIES,
    ISOLATION_LEVELS,
    LEVEL,
    METADATA_PATH,
    MODES,
    OPEN_FILE_COST,
    ROW_GROUP_SIZE,
    SPLIT_LOOKBACK,
    SPLIT_SIZE,
    TARGET_FILE_SIZE,
    WAP_ENABLED,
)
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.settings import (
    WRITE_MODE,
    ParquetSettings,
    RetryPolicy,
    SplitSettings,
    TableSettings,
    WriteMode,
)

APPLICATION, APPLICATION_VERSION = "rowmerge.transaction.application", "rowmerge.transaction.version"
"""The keys of a snapshot's summary that identify the transaction of an application."""
FILE_LOCATIONS = (DATA_PATH.name, METADATA_PATH.name, "write.object-storage.path", "write.folder-storage.path")
"""Properties that name the folders of new files. The last two are older names of the first property."""
_GZIP_LEVELS = range(1, 10)


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
        """Return `write.<operation>.distribution-mode`. The defaults are those of Iceberg on Spark: hash for UPDATE and DELETE, else None.

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
        return RetryPolicy.of({**defaults, **self.properties})

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
        return ParquetSettings(codec, self._compression_level(codec or "zstd"), ROW_GROUP_SIZE.parse(self.properties))

    @cached_property
    def splits(self) -> SplitSettings:
        """Return the settings `read.split.*`.

        Raises:
            ConfigurationError: A property is not a positive number.
        """
        open_file_cost = OPEN_FILE_COST.parse(self.properties)
        return SplitSettings(SPLIT_SIZE.value(self.properties), open_file_cost, SPLIT_LOOKBACK.value(self.properties))

    def _compression_level(self, codec: str) -> int | None:
        """Return the compression level, or None if it is not set or the codec has no levels. Raises ConfigurationError if out of range."""
        level = LEVEL.parse(self.properties)
        if level is None or codec not in ("zstd", "gzip"):
            return None
        if codec == "gzip" and level not in _GZIP_LEVELS:
            raise ConfigurationError(f"The table property {LEVEL.name} is {level}. Set it to a whole number from 1 to 9 for gzip.")
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
    if COMPRESSION.name in properties or LEVEL.name in properties:
        # The level must fit the codec.
        _ = IcebergSettings(properties).parquet


def file_locations(properties: Mapping[str, str]) -> list[str]:
    """Return the folders that are set by the properties in FILE_LOCATIONS."""
    return [properties[name] for name in FILE_LOCATIONS if properties.get(name, "").strip()]
