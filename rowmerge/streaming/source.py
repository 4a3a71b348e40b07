"""The readers of the format `rowmerge`: the rows of one version, and the stream of a table's new rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rowmerge.errors import ConfigurationError, VersionNotFound
from rowmerge.spark.executors import callable_on_executors
from rowmerge.spark.types import to_spark
from rowmerge.streaming import tasks
from rowmerge.streaming.options import BATCH_READ, STREAM_READ, Options
from rowmerge.streaming.positions import COMPLETE, Position, VersionStream
from rowmerge.streaming.reading import check_columns, check_readable, columns_of, read_tasks
from rowmerge.streaming.spark_versions import check_read_limit
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

_MAX_FILES = ("maxFilesPerTrigger", "streaming-max-files-per-micro-batch")


def table_schema(values: Mapping[str, str]) -> StructType:
    """Return the columns of the table that the options of a query name. `values`: the options by lower-case name.

    Raises:
        ConfigurationError: An option is unknown or invalid.
        UnsupportedTableFeature: A column has a type that Arrow lacks.
    """
    options = Options(values)
    options.check_names((*BATCH_READ, *STREAM_READ))
    snapshot = _snapshot(options.open_table(), options)
    check_readable(snapshot)
    return to_spark(snapshot.schema)


def _snapshot(table: Table, options: Options) -> Snapshot:
    """Return the version that a query reads. Raises ConfigurationError if the options name two versions."""
    version, timestamp = options.number("versionAsOf"), options.time("timestampAsOf")
    if version is not None and timestamp is not None:
        raise ConfigurationError("The options versionAsOf and timestampAsOf both name a version. Set only one of them.")
    return table.snapshot_at(version=version, timestamp=timestamp)


class TableReader(DataSourceReader):
    """The reader of one version. Only its task function is sent to executors."""

    def __init__(self, values: Mapping[str, str], schema: StructType) -> None:
        """Open the version. `values`: the options of the query by lower-case name. `schema`: the columns that the query reads.

        Raises:
            ConfigurationError: An option is unknown or invalid.
            UnknownColumn, TypeMismatch: The table does not have these columns.
        """
        options = Options(values)
        options.check_names(BATCH_READ)
        self._snapshot, self._columns = _snapshot(options.open_table(), options), columns_of(schema)
        check_columns(self._snapshot, self._columns)
        self._read_task: tasks.TaskReader = callable_on_executors(tasks.read_files)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in read_tasks(self._snapshot, self._columns, self._snapshot.files())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read_task(partition.value)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return tasks.ExecutorReader, (self._read_task,)


class TableStreamReader(DataSourceStreamReader):
    """The reader of a table's new rows. Only its task function is sent to executors."""

    def __init__(self, values: Mapping[str, str], schema: StructType) -> None:
        """Initialize a reader, which opens the table on first use. PySpark would hide an error here behind another one.

        Args:
            values: The options of the query by lower-case name.
            schema: The columns that the query reads.
        """
        self._options, self._schema = Options(values), schema
        self._last_version: int | None = None
        self._origin: tuple[int, int, bool] | None = None
        self._read_task: tasks.TaskReader = callable_on_executors(tasks.read_files)

    @cached_property
    def _table(self) -> Table:
        self._options.check_names(STREAM_READ)
        return self._options.open_table()

    @cached_property
    def _stream(self) -> VersionStream:
        """Return the versions of the table, after a check of all options. Raises ConfigurationError, UnknownColumn, TypeMismatch."""
        if self._max_files is not None:
            check_read_limit(_MAX_FILES[0])
        return VersionStream(self._table, columns_of(self._schema), skips_changes=self._options.flag("skipChangeCommits"))

    @property
    def _max_files(self) -> int | None:
        return self._options.number(*_MAX_FILES, least=1)

    def initialOffset(self) -> dict[str, Any]:
        first = self._first_position(self._stream.newest())
        self._origin = first.origin
        return first.offset()

    def _first_position(self, newest: Snapshot) -> Position:
        """Return the position at which a new stream begins: the whole newest version, or the version or time of an option."""
        version, timestamp = self._options.text("startingVersion"), self._options.time("startingTimestamp", "stream-from-timestamp")
        if version is not None and timestamp is not None:
            raise ConfigurationError("The options startingVersion and startingTimestamp both name a version. Set only one of them.")
        if version == "latest":
            return Position.beginning(newest.table_id, newest.version, COMPLETE)
        number = self._options.number("startingVersion")
        if timestamp is not None:
            number = self._table.appends.first_version_since(newest, timestamp)
            if number is None:
                advice = "Choose an earlier time, or set startingVersion to latest."
                raise VersionNotFound(f"{newest.name} has no version at or after startingTimestamp. {advice}")
        if number is None:
            return Position.beginning(newest.table_id, newest.version, 0, initial=True)
        self._table.appends.read(newest, number)  # which raises VersionNotFound for an unknown version
        return Position.beginning(newest.table_id, number, 0)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """Return the offset at which the next batch ends.

        Args:
            start: The offset at which it begins. PySpark 4.1 does not tell it, so `partitions` then finds versions that change rows.
            limit: The limit of PySpark, such as `ReadMaxFiles`.
        """
        if start is None:
            newest = self._stream.newest()
            return Position(newest.table_id, newest.version, COMPLETE, origin=self._origin).offset()
        max_files: int | None = getattr(limit, "max_files", None)
        return self._stream.advance(Position.parse(start), max_files, self._last_version).offset()

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles  # only newer versions call this method

        return ReadAllAvailable() if self._max_files is None else ReadMaxFiles(self._max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the stream end at the version that is the newest one now."""
        self._last_version = self._stream.newest().version

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(task) for task in self._stream.tasks(Position.parse(start), Position.parse(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read_task(partition.value)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return tasks.ExecutorReader, (self._read_task,)


with suppress(ImportError):  # PySpark 4.1 has no such interface
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    SupportsTriggerAvailableNow.register(TableStreamReader)
