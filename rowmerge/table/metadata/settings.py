"""Settings of a table: the typed values of its properties, each of which is parsed on first use."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.parquet_settings import ColumnSettings, PageSettings
from rowmerge.table.metadata.partitioning import Distribution

WRITE_MODE = "rowmerge.write.mode"
SCHEMA_EVOLUTION = "rowmerge.write.schema-evolution"
RETRIES = "rowmerge.commit.retry.num-retries"
MIN_WAIT = "rowmerge.commit.retry.min-wait-ms"
MAX_WAIT = "rowmerge.commit.retry.max-wait-ms"
OWN_PROPERTIES = frozenset({WRITE_MODE, SCHEMA_EVOLUTION, RETRIES, MIN_WAIT, MAX_WAIT})
"""The names of the properties that tables of every format support."""

_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4", "lz4_raw": "lz4", "uncompressed": "none", "none": "none"}


class WriteMode(Enum):
    """The ways to remove deleted rows from a file: the values of the table property `rowmerge.write.mode`."""

    COPY_ON_WRITE = "copy-on-write"
    MERGE_ON_READ = "merge-on-read"
    AUTO = "auto"


@dataclass(frozen=True)
class ParquetSettings:
    """The settings of Parquet files. None for a setting that the table does not define.

    `codec`: `zstd`, `snappy`, `gzip`, `lz4` or `none`. `level`: the compression level of zstd and gzip. `row_group_size`: the size of a row
    group in bytes. `pages`, `columns`: the settings of pages, and of single columns.
    """

    codec: str | None = None
    level: int | None = None
    row_group_size: int | None = None
    pages: PageSettings = field(default_factory=PageSettings)
    columns: ColumnSettings = field(default_factory=ColumnSettings)


@dataclass(frozen=True)
class SplitSettings:
    """How files are divided among the tasks of a read: the properties `read.split.*` of Iceberg.

    `target_size`: the bytes of a task. `open_file_cost`: the smallest number of bytes for which a file counts, None if the table does not
    define it. `planning_lookback`: the number of tasks that are filled at the same time.
    """

    target_size: int = 128 * 1024 * 1024
    open_file_cost: int | None = None
    planning_lookback: int = 10


@dataclass(frozen=True)
class RetryPolicy:
    """The retries of a statement after commit conflicts, with exponential back-off and jitter. Waits are in milliseconds.

    The default values apply to tables without the corresponding properties. `total_timeout`: the time after which there are no more
    retries, except for the first one, or None for no limit.
    """

    retries: int = 10
    min_wait: int = 50
    max_wait: int = 5_000
    total_timeout: int | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """Read the policy from a table's properties. Raises ConfigurationError if a value is not a non-negative whole number.

        The property names follow Iceberg's `commit.retry.*`.
        """
        retries = parse_whole_number(properties, RETRIES, cls.retries)
        min_wait = parse_whole_number(properties, MIN_WAIT, cls.min_wait)
        max_wait = parse_whole_number(properties, MAX_WAIT, cls.max_wait)
        return cls(retries, min_wait, max_wait)

    def allows_retry(self, lost: int, elapsed: float) -> bool:
        """Return whether a statement may run again.

        Args:
            lost: The number of its commit conflicts.
            elapsed: The time since its first attempt began, in seconds.
        """
        # Iceberg stops only after the second attempt, so that a statement that takes longer than the limit is repeated once.
        has_time = self.total_timeout is None or lost <= 1 or elapsed * 1000 <= self.total_timeout
        return lost <= self.retries and has_time

    def wait(self, lost: int) -> float:
        """Return a random time to wait after `lost` commit conflicts, in seconds.

        The time is at least half of a limit, which doubles with each conflict up to `max_wait`.
        """
        longest: int = min(self.max_wait, self.min_wait * 2 ** min(lost - 1, 30))
        return random.uniform(0.5, 1.0) * longest / 1000


@dataclass(frozen=True)
class TableSettings:
    """The settings of one version of a table. A format overrides the members whose property names are specific to the format.

    A member raises ConfigurationError if its value is invalid. So an invalid value only fails the statements that need the setting.
    `operation` is `MERGE`, `UPDATE` or `DELETE`, and `WRITE` for all other statements.
    """

    properties: Mapping[str, str] = field(default_factory=dict)

    def write_mode(self, operation: str) -> WriteMode:
        """Return the way in which an operation removes deleted rows from files."""
        return parse_write_mode(self.properties, WRITE_MODE)

    def isolation_level(self, operation: str) -> str:
        """Return the isolation level of an operation, by its name in the table format."""
        return "Serializable"

    def distribution(self, *, is_ordered: bool) -> Distribution:
        """Return how to distribute new rows to tasks before writing. `is_ordered`: whether the table has a sort order."""
        return Distribution.HASH

    def operation_distribution(self, operation: str) -> Distribution | None:
        """Return how to distribute the rows of MERGE, UPDATE or DELETE, or None to distribute them like new rows."""
        return None

    @cached_property
    def retry_policy(self) -> RetryPolicy:
        """The number of retries after commit conflicts, and the times to wait before them."""
        return RetryPolicy.of(self.properties)

    @cached_property
    def evolves_schema(self) -> bool:
        """Whether MERGE and INSERT may add new columns to the table.

        Raises:
            ConfigurationError: The property is neither true nor false.
        """
        value = self.properties.get(SCHEMA_EVOLUTION, "false").strip().lower()
        if value not in ("true", "false"):
            raise ConfigurationError(f"The table property {SCHEMA_EVOLUTION} is {value!r}. Set it to true or false.")
        return value == "true"

    @cached_property
    def target_file_size(self) -> int | None:
        """The target size of new data files in bytes, or None if the table does not define it."""
        return None

    @cached_property
    def parquet(self) -> ParquetSettings:
        """The settings of new data files: compression, row groups, pages and columns."""
        return ParquetSettings()

    @cached_property
    def partitions_in_hashed_paths(self) -> bool | None:
        """Whether hashed paths of new data files contain partition folders, or None if paths are not hashed."""
        return None

    @cached_property
    def splits(self) -> SplitSettings:
        """How files are divided among the tasks of a read."""
        return SplitSettings()

    def check(self) -> None:
        """Check all settings. Raises ConfigurationError for the first setting with an invalid value."""
        for operation in ("MERGE", "UPDATE", "DELETE", "WRITE"):
            self.write_mode(operation)
            self.isolation_level(operation)
        self.distribution(is_ordered=False)
        for operation in ("MERGE", "UPDATE", "DELETE"):
            self.operation_distribution(operation)
        _ = (self.evolves_schema, self.target_file_size, self.parquet, self.retry_policy, self.splits)


def parse_write_mode(properties: Mapping[str, str], name: str, default: WriteMode = WriteMode.AUTO) -> WriteMode:
    """Parse the write mode in a table property.

    Args:
        properties: The properties of the table.
        name: The name of the property.
        default: The mode for a table without the property.

    Raises:
        ConfigurationError: The value is not the name of a mode.
    """
    try:
        return WriteMode(properties.get(name, default.value).strip().lower())
    except ValueError as error:
        modes = ", ".join(mode.value for mode in WriteMode)
        raise ConfigurationError(f"The table property {name} is {properties[name]!r}. Set it to one of {modes}.") from error


def parse_codec(properties: Mapping[str, str], name: str) -> str | None:
    """Return the codec in a table property, as Arrow's Parquet writer names it. Return None if the property is not set.

    Args:
        properties: The properties of the table.
        name: The name of the property.

    Raises:
        ConfigurationError: The codec is unknown, or not every reader of Parquet supports it.
    """
    value = properties.get(name)
    if value is None:
        return None
    codec = _CODECS.get(value.strip().lower())
    if codec is None:
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to one of zstd, snappy, gzip, lz4 and uncompressed.")
    return codec


def parse_whole_number(properties: Mapping[str, str], name: str, default: int) -> int:
    """Parse a table property whose value is a whole number.

    Args:
        properties: The properties of the table.
        name: The name of the property.
        default: The value for a table without the property.

    Raises:
        ConfigurationError: The value is not a whole number, or it is negative.
    """
    value = properties.get(name, str(default))
    if not re.fullmatch(r"\s*\d+\s*", value):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a whole number, 0 or more.")
    return int(value)
