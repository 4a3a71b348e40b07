"""The writer of streams: check the columns of a stream, write each batch on executors, and commit it exactly once.

PySpark calls a writer in several processes. In the first one, before each batch, it plans how the tasks write their files. In the last one,
`commit` gets the messages of the tasks and the number of the batch. It gets neither a SparkSession nor the id of the query. So the required
option `txnAppId` identifies the stream, and the commit stores it together with the number of the batch. A batch that Spark runs again after
a failure finds both in the table, and its files are deleted.

The tasks write in the shape that the table had before the batch. A digest of the shape travels with their messages. If the table has
another shape at the commit, or is another table, the batch fails and its files are deleted. After a restart, it runs again.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rowmerge.errors import (
    ConfigurationError,
    MetadataChanged,
    PlanError,
    StorageError,
    TypeMismatch,
    UnknownColumn,
    UnsupportedTableFeature,
)
from rowmerge.execution.commit import Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import Timings, insert_metrics, row_counts
from rowmerge.plan.lengths import lengths
from rowmerge.plan.schema_evolution import merge_schemas
from rowmerge.plan.store_assignment import is_lossless
from rowmerge.spark.executors import bind_for_executors
from rowmerge.spark.reading.stored_columns import nullable_schema
from rowmerge.spark.writing.jobs import check_files, discard_unreported, put_marker, remove_marker
from rowmerge.spark.writing.specs import write_spec
from rowmerge.spark.writing.write_output import WriteOutput, discard, discard_attempt, sum_of_tasks
from rowmerge.streaming import tasks
from rowmerge.streaming.options import STREAM_WRITE, Options
from rowmerge.streaming.reading import columns_of
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.partitioning import partition_by
from rowmerge.table.metadata.rules import not_null_checks, not_null_paths
from rowmerge.table.metadata.schema import Field, Primitive, Struct, as_nullable, sql_name
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

_OPERATION = "STREAMING UPDATE"
_RECIPE = "Write the stream with foreachBatch and session.write(…), which applies it (docs/streaming.md)."


class TableStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream. Only its task function is sent to executors."""

    def __init__(self, values: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        """Open the table and check the columns of the stream.

        Args:
            values: The options of the query by lower-case name.
            schema: The columns of the stream.
            overwrite: Whether each batch replaces the table (output mode `complete`).

        Raises:
            ConfigurationError: An option is unknown or invalid, or the output mode is `complete`.
            UnknownColumn, TypeMismatch, UnsupportedTableFeature: The table cannot store the rows of the stream.
        """
        options = Options(values)
        options.check_names(STREAM_WRITE)
        self._application = options.text("txnAppId") or ""
        if not self._application:
            advice = "Set it to a name that no other stream uses for this table. A new checkpoint needs a new name."
            raise ConfigurationError(f"The option txnAppId is missing. {advice}")
        if overwrite:
            raise ConfigurationError(f"A stream into a table has the output mode append, not complete. {_RECIPE}")
        self._table, self._columns = options.open_table(), columns_of(schema)
        if options.flag("mergeSchema"):
            _add_columns(self._table, self._columns)

    @cached_property
    def _write_task(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]:
        rows = StreamRows.plan(self._table.snapshot(), self._columns)
        # This process has no Spark session, and there may be other hosts.
        spec = put_marker(replace(write_spec(rows.shape), attempt=str(uuid.uuid4())))
        schema = nullable_schema(rows.shape.schema)
        return bind_for_executors(tasks.write_rows, spec, schema, rows.sources, rows.not_null, rows.shape_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return tasks.commit_message(next(self._write_task(iterator)))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return tasks.ExecutorWriter, (self._write_task,)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit a batch, unless an earlier run has committed it.

        Args:
            messages: The messages of the tasks.
            batchId: The number of the batch.

        Raises:
            StorageError: An executor does not share the folder of the table with the driver.
            ConfigurationError: The table has a later batch of this `txnAppId`, so the checkpoint is that of another stream.
            MetadataChanged: The table has changed its definition since the batch began.
            CommitStateUnknown: The batch may or may not be committed. A restart of the stream decides it.
        """
        fields = [vars(message) for message in messages if message is not None]
        output = sum_of_tasks(field["report"]["message"] for field in fields)
        snapshot = self._table.snapshot()
        self._check_files(snapshot, fields)
        if not output.files:
            return
        options = CommitOptions(retries=0, transaction=(self._application, batchId))
        attempt = _BatchAttempt(snapshot, self._columns, output, {field["shape_id"] for field in fields}, batchId)
        try:
            self._check_batch(snapshot, batchId)
            result = commit_with_retry(self._table, attempt.begin, Timings(), options)
        except (ConfigurationError, MetadataChanged):
            discard(output.files, snapshot.shape.filesystem_options)
            raise
        if result.replayed:
            discard(output.files, snapshot.shape.filesystem_options)

    def _check_files(self, snapshot: Snapshot, fields: Sequence[Mapping[str, Any]]) -> None:
        """Check that the driver sees the files of all tasks. Delete the marker, and the files of tasks that Spark ran again."""
        spec = write_spec(snapshot.shape)
        for attempt in {field["attempt"] for field in fields}:
            attempt_spec = replace(spec, attempt=attempt)
            reports = [field["report"] for field in fields if field["attempt"] == attempt]
            try:
                check_files(reports)
            except StorageError:
                discard_attempt(attempt_spec)
                raise
            remove_marker(attempt_spec)
            discard_unreported(reports, attempt_spec, has_copies=any(report["is_repeated"] for report in reports))

    def _check_batch(self, snapshot: Snapshot, batch: int) -> None:
        """Raise ConfigurationError if the table has a later batch. Spark only runs the last batch again, and numbers batches from 0."""
        if snapshot.has_transaction(self._application, batch + 1):
            raise ConfigurationError(
                f"{snapshot.name} has a later batch of the txnAppId {self._application!r} than batch {batch}, so the stream has another "
                f"checkpoint than before. Choose a new txnAppId for a new checkpoint."
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files of a batch with a failed task. VACUUM deletes files of tasks that were killed.

        Args:
            messages: The messages of the tasks, None for a failed task.
            batchId: The number of the batch.
        """
        spec = write_spec(self._table.snapshot().shape)
        for attempt in {vars(message)["attempt"] for message in messages if message is not None}:
            discard_attempt(replace(spec, attempt=attempt))


@dataclass(frozen=True)
class _BatchAttempt:
    """The attempt to commit a batch. `shape_ids`: the digests of the shapes in which the tasks wrote the files."""

    snapshot: Snapshot
    columns: Struct
    output: WriteOutput
    shape_ids: set[str]
    batch: int

    def begin(self) -> Attempt:
        """Return the commit. Raises MetadataChanged if the table no longer has the shape of the files."""
        name, version = self.snapshot.name, self.snapshot.version
        if self.shape_ids != {StreamRows.plan(self.snapshot, self.columns).shape_id}:
            reason = "the definition of the table has changed since the batch began. Restart the stream"
            raise MetadataChanged(name, version, "another commit", reason)
        files = FileChanges(tuple(self.output.files))
        request = CommitRequest(
            _OPERATION,
            parameters={"outputMode": "Append", "epochId": self.batch, "partitionBy": partition_by(self.snapshot.shape.partitioning)},
            metrics=insert_metrics(self.output),
            files=files,
        )
        return Attempt(self.snapshot, request, row_counts(self.output, files), files.added)


@dataclass(frozen=True)
class StreamRows:
    """The rows of a stream as rows of a table.

    Attributes:
        shape: The columns, partitioning and data files of the table.
        sources: For each column of the table, the index of the column in the stream, or None if the stream lacks it.
        not_null: The paths of the columns and fields that must not be NULL.
        table_id: The id of the table.
    """

    shape: TableShape
    sources: tuple[int | None, ...]
    not_null: tuple[tuple[str, ...], ...]
    table_id: str

    @classmethod
    def plan(cls, snapshot: Snapshot, columns: Struct) -> StreamRows:
        """Match the columns of a stream with those of a table, by name.

        Args:
            snapshot: The version of the table.
            columns: The columns of the stream.

        Raises:
            UnknownColumn: The table lacks a column of the stream.
            TypeMismatch: A column of the table cannot store the values of the stream without a cast.
            PlanError: Two columns of the stream have the same name.
            UnsupportedTableFeature: Only Spark can compute or check a value.
        """
        snapshot.check_writable()
        shape = snapshot.shape
        index_by_name: dict[str, int] = {}
        for index, column in enumerate(columns):
            target = shape.schema.find(column.name)
            if target is None:
                advice = "Add it with ALTER TABLE, or set the option mergeSchema to true."
                raise UnknownColumn(column.name, shape.schema.names, where=f"the table {snapshot.name}", advice=advice)
            if target.name in index_by_name:
                raise PlanError(f"The stream has two columns `{target.name}`. Rename or omit one of them.")
            _check_type(snapshot.name, column, target)
            index_by_name[target.name] = index
        sources = tuple(index_by_name.get(name) for name in shape.schema.names)
        _check_rules(snapshot, index_by_name)
        return cls(shape, sources, tuple(not_null_paths(shape.schema)), snapshot.table_id)

    @property
    def shape_id(self) -> str:
        """A digest of everything that the data files of the stream depend on, except settings such as the compression."""
        spec = write_spec(self.shape)
        schemas = [schema.to_string(show_schema_metadata=False) for schema in (spec.schema, spec.file_schema)]
        layout = (spec.root, spec.by_field_id, spec.partition, spec.partition_values_in_files)
        return hashlib.sha256(repr((self.table_id, schemas, layout, self.sources, self.not_null)).encode()).hexdigest()


def _check_type(table: str, column: Field, target: Field) -> None:
    """Raise TypeMismatch unless a column of a table can store each value of a column. Only numbers become wider without Spark."""
    same_type = as_nullable(column.type) == as_nullable(target.type)
    is_text = target.type == Primitive("string") or column.type == Primitive("date")
    if not (same_type or (not is_text and is_lossless(column.type, target.type))):
        types = f"the type {sql_name(column.type)}, and that of {table} has {sql_name(target.type)}"
        raise TypeMismatch(f"The column `{column.name}` of the stream has {types}. Cast the column of the stream.")


def _check_rules(snapshot: Snapshot, indexes: Mapping[str, int]) -> None:
    """Check that rows need no rule which only Spark can apply.

    Args:
        snapshot: The version of the table.
        indexes: The columns of the table that the stream has.

    Raises:
        UnsupportedTableFeature: The table has such a rule.
    """
    shape, rules = snapshot.shape, snapshot.shape.rules
    not_null = set(not_null_checks(shape.schema))
    features = [f"CHECK constraint {check.text}" for check in rules.checks if check not in not_null]
    features += [f"generated column `{name}`" for name in rules.generated]
    features += [f"default of the column `{name}`, which the stream lacks" for name in rules.defaults if name not in indexes]
    features += [f"length of the column `{field.name}`, {field.sql_type}" for field in shape.schema if lengths(field.sql_type) is not None]
    for column in shape.schema:
        try:
            nullable_schema(Struct((column,)))
        except ValueError:
            features.append(f"column `{column.name}` of type {sql_name(column.type)}")
    if features:
        raise UnsupportedTableFeature(snapshot.name, features[0], action="write a stream to", advice=_RECIPE)


def _add_columns(table: Table, columns: Struct) -> None:
    """Add the columns of a stream that a table lacks, in a commit of their own. An older run of the stream may already have added them."""
    snapshot = table.snapshot()
    schema = merge_schemas(snapshot.schema, _nullable_columns(columns))
    if schema == snapshot.schema:
        return
    snapshot.check_writable()

    def begin() -> Attempt:
        newest = table.snapshot()
        new_schema = newest.evolved(merge_schemas(newest.schema, _nullable_columns(columns))).schema
        names = [name for name in new_schema.names if newest.schema.find(name) is None]
        request = CommitRequest("ADD COLUMNS", parameters={"columns": names}, definition=TableDefinition(schema=new_schema))
        return Attempt(newest, request, row_counts(WriteOutput(), FileChanges()))

    commit_with_retry(table, begin, Timings())


def _nullable_columns(columns: Struct) -> Struct:
    """Return columns without metadata and NOT NULL at any depth, as a table gets them when a stream adds them."""
    nullable = as_nullable(columns)
    assert isinstance(nullable, Struct)
    return nullable
