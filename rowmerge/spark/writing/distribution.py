"""Shuffle and sort rows by the partition fields and sort fields of a table before tasks write them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.pandas.functions import pandas_udf

from rowmerge.parquet.partitions import bucket_function
from rowmerge.spark.peer_settings import optimize_write_bin_size, optimize_write_enabled
from rowmerge.spark.values.nested import uuid_bytes_sql
from rowmerge.table.metadata.engine_columns import FILE
from rowmerge.table.metadata.partitioning import BUCKET, IDENTITY, VOID, Distribution, PartitionField, SortField, Transform
from rowmerge.table.metadata.schema import UUID, DataType, Decimal, Primitive, arrow_type, backquote, stored_types
from rowmerge.table.metadata.shape import TableShape

_MICROS_PER_HOUR = 3_600_000_000
_TASK_SIZE = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
"""The setting of Spark for the size of the rows in a task after a shuffle."""
_running_writes: dict[int, tuple[int, str | None, str]] = {}
"""By session, the number of optimized writes that run, and the values of _TASK_SIZE before them and while they run."""
_lock = threading.Lock()


class Gather(Enum):
    """The way in which a small number of rows is combined before it is written, so that a statement does not create many small files."""

    NONE = "none"
    """The rows are not combined, because there are many."""
    BY_SIZE = "by size"
    """Spark shuffles the rows into as many tasks as their size requires."""
    ONE_TASK = "one task"
    """One task both computes the rows and writes them."""
    DRIVER = "driver"
    """The driver collects the rows and writes them."""


@dataclass(frozen=True)
class _WriteOrder:
    """The partition fields and the sort order of a table, as Spark columns of the rows to write.

    Attributes:
        computed_columns: By name, the columns to add to the rows: the values of transforms and of nested fields.
        partition_columns: The columns that contain the values of the partition fields.
        sort_columns: The columns that contain the values of the sort fields, each with its direction.
    """

    computed_columns: dict[str, Column]
    partition_columns: Sequence[Column]
    sort_columns: Sequence[Column]

    def with_computed_columns(self, rows: DataFrame) -> DataFrame:
        """Return the rows with the computed columns, by which they are then divided and sorted."""
        return rows.withColumns(self.computed_columns) if self.computed_columns else rows

    def sort(self, rows: DataFrame) -> DataFrame:
        """Sort the rows of each task, and remove the computed columns."""
        if self.sort_columns:
            rows = rows.sortWithinPartitions(*self.partition_columns, *self.sort_columns)
        return rows.drop(*self.computed_columns) if self.computed_columns else rows


def distribute_rows(
    rows: DataFrame, table: TableShape, column_names: Sequence[str], *, gather: Gather, distribution: Distribution | None = None
) -> DataFrame:
    """Divide rows among the tasks that write them, and sort the rows of each task in the table's sort order.

    To write few files, a task gets either all rows of a partition (Spark's adaptive rebalance) or a range of the sort order. Two settings
    control this. `distribution` is a property of the table (`write.distribution-mode` in Iceberg), intended for statements with many rows.
    `gather` depends on the statement. It prevents a statement with few rows from writing a small file in each task. A single task for all
    rows (ONE_TASK, DRIVER) takes precedence over `distribution`. `_repartition` describes all combinations.

    Args:
        rows: The rows to write.
        table: The target table.
        column_names: The names that the table's columns have in `rows`, in the table's order.
        gather: How to combine the rows if there are few, so that even an unpartitioned table gets few files. NONE if there are many.
        distribution: The table's distribution mode for the operation, None for the mode of inserts.
    """
    write_order = _write_order(table, column_names)
    divided_rows = _repartition(write_order.with_computed_columns(rows), table, write_order, gather, distribution)
    return write_order.sort(divided_rows)


def distribute_by_file(rows: DataFrame, table: TableShape, task_count: int, distribution: Distribution | None) -> DataFrame:
    """Give all rows of a file in FILE to one task, so that it reads other columns of the file once. No shuffle if the table forbids it.

    Args:
        rows: The rows to write.
        table: The target table, which is neither partitioned nor ordered.
        task_count: The number of tasks.
        distribution: The table's distribution mode for the operation, None for the mode of inserts.
    """
    return rows.repartition(task_count, F.col(FILE)) if may_shuffle(rows.sparkSession, table, distribution) else rows


def may_shuffle(spark: SparkSession, table: TableShape, distribution: Distribution | None) -> bool:
    """Return whether the properties of a table without a sort order allow a shuffle of the rows to write.

    Args:
        spark: The session that runs the write.
        table: The target table.
        distribution: The table's distribution mode for the operation, None for the mode of inserts.
    """
    mode = distribution or table.settings.distribution(is_ordered=False)
    return is_write_optimized(spark, table) is not False and mode is not Distribution.NONE


def divide_by_file(rows: DataFrame, table: TableShape, column_names: Sequence[str], *, file_count: int, partition_count: int) -> DataFrame:
    """Divide rows among as many tasks as there are files to write, and sort the rows of each task in the table's sort order.

    Args:
        rows: The rows to write.
        table: The target table, which has a sort order.
        column_names: The names that the table's columns have in `rows`, in the table's order.
        file_count: The number of files to write. If it equals `partition_count`, each partition gets one file. Otherwise, each file gets a
            range of the sort order.
        partition_count: The number of the table's partitions that the rows belong to.
    """
    write_order = _write_order(table, column_names)
    keyed_rows = write_order.with_computed_columns(rows)
    if write_order.partition_columns and file_count == partition_count:
        return write_order.sort(keyed_rows.repartition(file_count, *write_order.partition_columns))
    return write_order.sort(keyed_rows.repartitionByRange(file_count, *write_order.partition_columns, *write_order.sort_columns))


def _repartition(
    rows: DataFrame, table: TableShape, write_order: _WriteOrder, gather: Gather, distribution: Distribution | None
) -> DataFrame:
    """Move all rows of a partition, or of a range of the sort order, to one task.

    The table's distribution mode is HASH (by partition), RANGE (by range of the sort order), or NONE (rows stay in their tasks). `gather`
    modifies the mode for statements with few rows. The first case that applies decides:

    - `gather` is ONE_TASK or DRIVER: one task gets all rows.
    - Optimized writes are forbidden (Delta): rows stay in their tasks.
    - RANGE, and the table has a sort order: each task gets a range. For few rows, only if the table sets the mode for the operation.
    - NONE: rows stay in their tasks.
    - The table has partitions, `gather` is BY_SIZE, or the write is optimized (Delta). A task gets all rows of a partition, or rows of a
      suitable total size.
    - Otherwise: rows stay in their tasks.

    See `distribute_rows` for the arguments.
    """
    if gather in (Gather.ONE_TASK, Gather.DRIVER):
        return rows.coalesce(1)  # without a shuffle
    is_optimized = is_write_optimized(rows.sparkSession, table)
    if is_optimized is False:
        return rows
    mode = distribution or table.settings.distribution(is_ordered=bool(write_order.sort_columns))
    # Ranges of few rows would make small files. They are allowed if the table sets this distribution for this operation.
    may_use_ranges = distribution is not None or gather is Gather.NONE
    if mode is Distribution.RANGE and write_order.sort_columns and may_use_ranges:
        return rows.repartitionByRange(*write_order.partition_columns, *write_order.sort_columns)
    is_shuffle_useful = write_order.partition_columns or gather is Gather.BY_SIZE or is_optimized
    if mode is Distribution.NONE or not is_shuffle_useful:
        return rows
    # Spark's hint `rebalance` shuffles the rows by partition, and then combines or splits tasks by the size of their rows.
    return rows.hint("rebalance", *write_order.partition_columns)  # the hint accepts `F.col(…)`, not `df[…]`


def is_write_optimized(spark: SparkSession, table: TableShape) -> bool | None:
    """Return whether Spark shuffles rows before it writes them into a Delta table, even if the table has no partitions.

    None means that neither the setting nor the property is set, or that the table is an Iceberg table. The partitioning then decides.

    Args:
        spark: The session with the setting `spark.databricks.delta.optimizeWrite.enabled`.
        table: The target table with the property `delta.autoOptimize.optimizeWrite`.
    """
    return table.settings.optimizes_write(partial(optimize_write_enabled, spark))


@contextmanager
def optimized_tasks(spark: SparkSession, table: TableShape) -> Iterator[None]:
    """Give the tasks of an optimized write rows of the size `spark.databricks.delta.optimizeWrite.binSize` while the block runs.

    Spark has no other way to set the size than a setting of the session. Until the block ends, queries of other threads can have it, too.
    If another thread sets it to another value in the meantime, that value stays.

    Args:
        spark: The session that runs the write.
        table: The target table.
    """
    if not is_write_optimized(spark, table):
        yield
        return
    task_size = str(optimize_write_bin_size(spark))
    with _lock:
        running_writes, old_size, _ = _running_writes.get(id(spark)) or (0, spark.conf.get(_TASK_SIZE, None), "")
        spark.conf.set(_TASK_SIZE, task_size)  # if this raises an error, no write is counted
        _running_writes[id(spark)] = running_writes + 1, old_size, task_size
    try:
        yield
    finally:
        with _lock:
            _end_optimized_write(spark)


def _end_optimized_write(spark: SparkSession) -> None:
    """Count one write less. After the last one, restore the setting of the session, unless another thread has set it."""
    running_writes, old_size, task_size = _running_writes.pop(id(spark))
    if running_writes > 1:
        _running_writes[id(spark)] = running_writes - 1, old_size, task_size
    elif spark.conf.get(_TASK_SIZE, None) != task_size:
        return
    elif old_size is None:
        spark.conf.unset(_TASK_SIZE)
    else:
        spark.conf.set(_TASK_SIZE, old_size)


def _write_order(table: TableShape, column_names: Sequence[str]) -> _WriteOrder:
    """Return the partition fields and the sort order of a table as Spark columns of the rows to write.

    Values of transforms and of nested fields become computed columns, because Spark's `rebalance` accepts only column names.

    Args:
        table: The target table.
        column_names: The names that the table's columns have in the rows, in the table's order.
    """
    computed_columns: dict[str, Column] = {}

    def key_column(field: PartitionField | SortField) -> Column:
        """Return the column with the values of a field. If it does not exist in the rows, add it to `computed_columns`."""
        name = column_names[table.schema.names.index(field.column[0])]
        if field.transform.name == IDENTITY and len(field.column) == 1:
            return F.col(name)
        computed_name = f"__rowmerge_key_{len(computed_columns)}"
        computed_columns[computed_name] = _ordering_column(table, name, field)
        return F.col(computed_name)

    partition_columns = [key_column(field) for field in table.partitioning if field.transform.name != VOID]
    return _WriteOrder(computed_columns, partition_columns, sort_columns=[_ordered(key_column(field), field) for field in table.ordering])


def _ordered(value: Column, field: SortField) -> Column:
    """Return a sort expression for a column, with the direction and the null order of a sort field."""
    if field.ascending:
        return value.asc_nulls_first() if field.nulls_first else value.asc_nulls_last()
    return value.desc_nulls_first() if field.nulls_first else value.desc_nulls_last()


def _ordering_column(table: TableShape, column_name: str, field: PartitionField | SortField) -> Column:
    """Return a column that groups and orders rows in the same way as the values of a partition or sort field.

    The column is used only to shuffle and sort rows. So its values may differ from those of the field's transform if their order is the
    same. For example, the column contains the year 2024 where Iceberg's `year` yields 54, the number of years since 1970. The writer
    computes the partition values of files itself, without this column.

    Args:
        table: The table.
        column_name: The name of the field's top-level column in the rows.
        field: A partition or sort field that has a transform or refers to a nested field.
    """
    value_sql = ".".join((column_name, *map(backquote, field.column[1:])))
    if is_bucket_of_uuid(table, field):
        return _bucket(uuid_bytes_sql(value_sql), Primitive("binary"), field.transform)
    source_column = table.schema.at(field.column, case_sensitive=True)
    assert source_column is not None
    if field.transform.name == BUCKET:
        return _bucket(value_sql, source_column.type, field.transform)
    return F.expr(_transform_sql(value_sql, source_column.type, field))


def is_bucket_of_uuid(table: TableShape, field: PartitionField | SortField) -> bool:
    """Return whether a field divides UUIDs into buckets.

    A bucket is a hash of the 16 bytes of a UUID in a file, but Spark represents a UUID as a string.
    """
    if field.transform.name != BUCKET:
        return False
    file_column = stored_types(table.schema).at(field.column, case_sensitive=True)  # only the type in files shows that it is a UUID
    return file_column is not None and file_column.type == UUID


def _transform_sql(column: str, type_: DataType, field: PartitionField | SortField) -> str:
    """Return a SQL expression that groups and orders rows in the same way as a transform other than `bucket`."""
    name, width = field.transform.name, field.transform.parameter
    if name == IDENTITY:
        return column
    if name == VOID:  # another engine may have set such a sort order
        return "cast(null as int)"
    if name != "truncate":
        return _time_transform_sql(column, type_, name)
    if type_ in (Primitive("string"), Primitive("binary")):
        return f"substring({column}, 1, {width})"
    unit = f"cast({width}e-{type_.scale} as decimal(38, {type_.scale}))" if isinstance(type_, Decimal) else width
    return f"try_subtract({column}, pmod({column}, {unit}))"


def _time_transform_sql(column: str, type_: DataType, unit: str) -> str:
    """Return a SQL expression that groups and orders rows in the same way as Iceberg's transform `year`, `month`, `day` or `hour`.

    Its values may differ from those of the transform: for `day`, it is a date instead of the number of days since 1970.

    Iceberg computes the units of a timestamp in UTC. Spark's `hour` and its casts to date use the time zone of the session, so they are
    correct only for types without a time zone.
    """
    if type_ == Primitive("timestamp"):
        micros = _micros(column, type_)
        # `div` rounds towards zero, but times before 1970 must be rounded down. So the remainder is subtracted first.
        hours = f"try_subtract({micros}, pmod({micros}, {_MICROS_PER_HOUR})) div {_MICROS_PER_HOUR}"
        date = f"date_from_unix_date(cast(({hours} - pmod({hours}, 24)) div 24 as int))"
    else:
        date = f"cast({column} as date)"
        hours = f"unix_date({date}) * 24 + hour({column})"
    return {"year": f"year({date})", "month": f"year({date}) * 12 + month({date})", "day": date, "hour": hours}[unit]


def _micros(column: str, type_: DataType) -> str:
    """Return a SQL expression for the microseconds from 1970-01-01 to a timestamp with or without a time zone."""
    if type_ == Primitive("timestamp"):
        return f"unix_micros({column})"
    seconds = f"cast(extract(second from {column}) * 1000000 as bigint)"
    days, hours = f"unix_date(cast({column} as date)) * 24 * {_MICROS_PER_HOUR}", f"hour({column}) * {_MICROS_PER_HOUR}"
    return f"{days} + {hours} + minute({column}) * 60000000L + {seconds}"


def _bucket(value_sql: str, type_: DataType, transform: Transform) -> Column:
    """Return a column with the bucket of each value, computed by a pandas UDF.

    The UDF receives dates and timestamps as integers, because pandas would change their type. pandas also converts integers to floats if
    there is a NULL among them, so a NULL gets the bucket of 0. This bucket only distributes the row: the writer stores NULL.
    """
    argument_type = arrow_type(type_)
    match type_:
        case Primitive("date"):
            value_sql, argument_type = f"cast(unix_date({value_sql}) as bigint)", arrow_type(Primitive("long"))
        case Primitive("timestamp" | "timestamp_ntz"):
            value_sql, argument_type = _micros(value_sql, type_), arrow_type(Primitive("long"))
    is_nullable_in_pandas = isinstance(type_, Decimal) or type_ in (Primitive("string"), Primitive("binary"))
    argument_sql = value_sql if is_nullable_in_pandas else f"coalesce({value_sql}, 0)"
    bucket: Callable[[Column], Column] = pandas_udf(bucket_function(str(transform), argument_type), "int")  # type: ignore[call-overload]
    return bucket(F.expr(argument_sql))
