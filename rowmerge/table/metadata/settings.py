"""Settings of a table: the typed values of its properties, each of which is parsed on first use."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import ClassVar

from rowmerge.table.metadata.parquet_settings import ColumnSettings, PageSettings
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.property_registry import PropertyRegistry, TableProperty
from rowmerge.table.metadata.property_values import BOOLEAN, MILLISECONDS, WHOLE_NUMBER, enumeration


class WriteMode(Enum):
    """The ways to remove deleted rows from a file: the values of the table property `rowmerge.write.mode`."""

    AUTO = "auto"
    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"


_MODE_TEXT = "what happens to a file with deleted or updated rows ([write modes](formats.md#write-modes))"
WRITE_MODE = TableProperty("rowmerge.write.mode", enumeration(WriteMode), _MODE_TEXT, "auto")
_EVOLUTION_TEXT = "`true`: every MERGE and INSERT adds the new columns of its source ([new columns](formats.md#new-columns))"
SCHEMA_EVOLUTION = TableProperty("rowmerge.write.schema-evolution", BOOLEAN, _EVOLUTION_TEXT, "false")
RETRIES = TableProperty("rowmerge.commit.retry.num-retries", WHOLE_NUMBER, "how often a statement runs again after a conflict", "10")
_WAIT_TEXT = "the longest wait before the first retry, in milliseconds; each retry doubles it ([retries](conflicts.md#retries))"
MIN_WAIT = TableProperty("rowmerge.commit.retry.min-wait-ms", MILLISECONDS, _WAIT_TEXT, "50")
MAX_WAIT = TableProperty("rowmerge.commit.retry.max-wait-ms", MILLISECONDS, "the limit of the wait, in milliseconds", "5000")
OWN_PROPERTIES = (WRITE_MODE, SCHEMA_EVOLUTION, RETRIES, MIN_WAIT, MAX_WAIT)
"""The properties that tables of every format support."""


@dataclass(frozen=True)
class ParquetSettings:
    """The settings of Parquet files. None for a setting that the table does not define.

    `codec`: `zstd`, `snappy`, `gzip`, `lz4` or `none`. `level`: the compression level of zstd and gzip. `row_group_size`: the size of a row
    group in bytes. `pages`, `columns`: the settings of pages, and of single columns. `format_version`: the version of the
    Parquet format, as Arrow names it.
    """

    codec: str | None = None
    level: int | None = None
    row_group_size: int | None = None
    pages: PageSettings = field(default_factory=PageSettings)
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    format_version: str | None = None


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
        return cls(RETRIES.value(properties), MIN_WAIT.value(properties), MAX_WAIT.value(properties))

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

    registry: ClassVar[PropertyRegistry] = PropertyRegistry("Any", OWN_PROPERTIES)
    properties: Mapping[str, str] = field(default_factory=dict)

    def write_mode(self, operation: str) -> WriteMode:
        """Return the way in which an operation removes deleted rows from files."""
        return WRITE_MODE.value(self.properties)

    def isolation_level(self, operation: str) -> str:
        """Return the isolation level of an operation, by its name in the table format."""
        return "Serializable"

    def distribution(self, *, is_ordered: bool) -> Distribution:
        """Return how to distribute new rows to tasks before writing. `is_ordered`: whether the table has a sort order."""
        return Distribution.HASH

    def operation_distribution(self, operation: str) -> Distribution | None:
        """Return how to distribute the new values of MERGE or UPDATE, or None to distribute them like new rows."""
        return None

    @cached_property
    def retry_policy(self) -> RetryPolicy:
        """The number of retries after commit conflicts, and the times to wait before them."""
        return RetryPolicy.of(self.properties)

    def auto_compacts(self, setting: bool | None) -> bool:
        """Return whether small files are combined after a commit. `setting`: Delta's setting of the session, or None."""
        return False

    def optimizes_write(self, read_setting: Callable[[], bool | None]) -> bool | None:
        """Return whether Spark shuffles rows into few files before a write. `read_setting`: returns Delta's setting of the session.

        None means that only the partitioning and the size of the statement decide. Iceberg tables do not read the setting.
        """
        return None

    @property
    def is_audited(self) -> bool:
        """Whether changes are staged or go to a branch, to be audited before they are published, if the session requires it."""
        return False

    @cached_property
    def evolves_schema(self) -> bool:
        """Whether MERGE and INSERT may add new columns to the table.

        Raises:
            ConfigurationError: The property is neither true nor false.
        """
        return SCHEMA_EVOLUTION.value(self.properties)

    @cached_property
    def target_file_size(self) -> int | None:
        """The target size of new data files in bytes, or None if the table does not define it."""
        return None

    @property
    def for_rewrites(self) -> TableSettings:
        """The settings of the files that MERGE, UPDATE, DELETE and OPTIMIZE write."""
        return self

    @cached_property
    def parquet(self) -> ParquetSettings:
        """The settings of new data files: compression, row groups, pages and columns."""
        return ParquetSettings()

    @cached_property
    def partitions_in_hashed_paths(self) -> bool | None:
        """Whether hashed paths of new data files contain partition folders, or None if paths are not hashed."""
        return None

    @cached_property
    def random_prefix_length(self) -> int | None:
        """The length of the random folder name of each new data file, or None for folders of partitions."""
        return None

    @cached_property
    def splits(self) -> SplitSettings:
        """How files are divided among the tasks of a read."""
        return SplitSettings()
