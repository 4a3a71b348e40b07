"""Bring rows together in tasks, and sort them, before they are written: by the partition and sort fields of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from rowmerge.parquet.partitions import bucket_function
from rowmerge.spark.values.nested import octets
from rowmerge.table.metadata.partitioning import BUCKET, IDENTITY, VOID, Distribution, PartitionField, SortField, Transform
from rowmerge.table.metadata.schema import UUID, DataType, Decimal, Primitive, arrow_type, backquote, held_types
from rowmerge.table.metadata.shape import TableShape

_HOUR = 3_600_000_000
"""In microseconds."""


@dataclass(frozen=True)
class Parts:
    """The number of files to make of all rows, and the number of partitions that the rows belong to."""

    files: int
    partitions: int


class Gather(Enum):
    """How rows that are to make few files come together before they are written."""

    NOT = "not: they are many"
    BY_SIZE = "by a shuffle that adapts to their size"
    ONE_TASK = "in one task that finds them, too"
    DRIVER = "in the driver, which writes them itself"


@dataclass(frozen=True)
class _Clustering:
    """The partition keys and the sort order of a table, over rows that have the `computed` columns, too."""

    computed: dict[str, Column]
    keys: Sequence[Column]
    order: Sequence[Column]


def distribute_rows(
    rows: DataFrame, table: TableShape, columns: Sequence[str], *, gather: Gather | Parts, distribution: Distribution | None = None
) -> DataFrame:
    """Bring rows to the tasks that write them, in the table's order inside each partition.

    Rows of one partition come together (Spark's adaptive rebalance), so that a task does not write a small file into each partition. Few
    changed rows come together in any case (`gather`), so that they make few files. Many new rows are divided by ranges if the table is
    set so: each file then has its own range of the order.
    `columns`: the names of the table's columns in `rows`; `distribution`: the table's setting for the operation, None for that of inserts.
    """
    clustering = _clustering(table, columns)
    if clustering.computed:
        rows = rows.withColumns(clustering.computed)
    rows = _bring_together(rows, table, clustering, gather, distribution)
    if clustering.order:
        rows = rows.sortWithinPartitions(*clustering.keys, *clustering.order)
    return rows.drop(*clustering.computed) if clustering.computed else rows


def _bring_together(
    rows: DataFrame, table: TableShape, clustering: _Clustering, gather: Gather | Parts, distribution: Distribution | None
) -> DataFrame:
    """Bring the rows of a partition or of a range into one task, as far as `gather` and the table's distribution require it."""
    keys, order = clustering.keys, clustering.order
    if isinstance(gather, Parts) and (keys or order):
        return _repartition(rows, clustering, gather)
    if gather in (Gather.ONE_TASK, Gather.DRIVER):
        return rows.coalesce(1)
    mode = distribution or table.settings.distribution(is_ordered=bool(order))
    # Ranges of few rows would make files that are too small, unless the table asks for ranges in this very operation.
    makes_ranges = distribution is not None or gather is Gather.NOT
    if mode is Distribution.RANGE and order and makes_ranges:
        return rows.repartitionByRange(*keys, *order)
    if mode is Distribution.NONE or not (keys or gather is Gather.BY_SIZE):
        return rows
    return rows.hint("rebalance", *keys)  # it accepts `F.col(…)`, not `df[…]`


def _repartition(rows: DataFrame, clustering: _Clustering, parts: Parts) -> DataFrame:
    """Divide the rows among as many tasks as there are files to make: by partition if each has one file, else by ranges."""
    if clustering.keys and parts.files == parts.partitions:
        return rows.repartition(parts.files, *clustering.keys)
    return rows.repartitionByRange(parts.files, *clustering.keys, *clustering.order)


def _clustering(table: TableShape, columns: Sequence[str]) -> _Clustering:
    """Return the clustering of rows whose columns have these names. Values of transforms and of nested fields are computed columns."""
    key_fields = [field for field in table.partitioning if field.transform.name != VOID]
    computed_columns: dict[str, Column] = {}

    def column_of(field: PartitionField | SortField) -> Column:
        name = columns[table.schema.names.index(field.column[0])]
        if field.transform.name == IDENTITY and len(field.column) == 1:
            return F.col(name)
        computed_name = f"__rowmerge_key_{len(computed_columns)}"
        computed_columns[computed_name] = _transformed(table, name, field)
        return F.col(computed_name)

    keys = [column_of(field) for field in key_fields]
    return _Clustering(computed_columns, keys, [_ordered(column_of(field), field) for field in table.ordering])


def _ordered(value: Column, field: SortField) -> Column:
    if field.ascending:
        return value.asc_nulls_first() if field.nulls_first else value.asc_nulls_last()
    return value.desc_nulls_first() if field.nulls_first else value.desc_nulls_last()


def _transformed(table: TableShape, column: str, field: PartitionField | SortField) -> Column:
    """Return a value that groups and orders rows like the transformed value, which the writer computes. `column`: the top-level column."""
    column = ".".join((column, *map(backquote, field.column[1:])))
    source = table.schema.at(field.column, case_sensitive=True)
    assert source is not None
    if field.transform.name != BUCKET:
        return F.expr(_transform_sql(column, source.type, field))
    stored_field = held_types(table.schema).at(field.column, case_sensitive=True)
    if stored_field is not None and stored_field.type == UUID:
        return _bucket(octets(column), Primitive("binary"), field.transform)
    return _bucket(column, source.type, field.transform)


def _transform_sql(column: str, type_: DataType, field: PartitionField | SortField) -> str:
    """Return SQL text for a transform other than bucket."""
    name, width = field.transform.name, field.transform.parameter
    if name == IDENTITY:
        return column
    if name != "truncate":
        return _date_or_hour(column, type_, name)
    if isinstance(type_, Decimal):
        unit = f"cast({width}e-{type_.scale} as decimal(38, {type_.scale}))"
        return f"try_subtract({column}, pmod({column}, {unit}))"
    if type_ in (Primitive("string"), Primitive("binary")):
        return f"substring({column}, 1, {width})"
    return f"try_subtract({column}, pmod({column}, {width}))"


def _date_or_hour(column: str, type_: DataType, unit: str) -> str:
    """Return SQL text that groups and orders rows like the years, months, days or hours since 1970.

    They are in UTC whatever the session's time zone is.
    """
    if type_ == Primitive("timestamp"):
        micros = _micros(column, type_)
        hours = f"try_subtract({micros}, pmod({micros}, {_HOUR})) div {_HOUR}"
        date = f"date_from_unix_date(cast(({hours} - pmod({hours}, 24)) div 24 as int))"
    else:
        date = f"cast({column} as date)"
        hours = f"unix_date({date}) * 24 + hour({column})"
    values = {"year": f"year({date})", "month": f"year({date}) * 12 + month({date})", "hour": hours}
    return values.get(unit, date)


def _micros(column: str, type_: DataType) -> str:
    if type_ == Primitive("timestamp"):
        return f"unix_micros({column})"
    seconds = f"cast(extract(second from {column}) * 1000000 as bigint)"
    return f"unix_date(cast({column} as date)) * 24 * {_HOUR} + hour({column}) * {_HOUR} + minute({column}) * 60000000L + {seconds}"


def _bucket(column: str, type_: DataType, transform: Transform) -> Column:
    """Return the bucket, computed by a pandas UDF. Dates and timestamps reach it as numbers: pandas would change their type."""
    arrow = arrow_type(type_)
    match type_:
        case Primitive("date"):
            column, arrow = f"cast(unix_date({column}) as bigint)", arrow_type(Primitive("long"))
        case Primitive("timestamp" | "timestamp_ntz"):
            column, arrow = _micros(column, type_), arrow_type(Primitive("long"))
    if not isinstance(type_, Decimal) and type_ not in (Primitive("string"), Primitive("binary")):
        # Integers with a null among them would become floats.
        column = f"coalesce({column}, 0)"
    bucket: Any = pandas_udf(bucket_function(str(transform), arrow), "int")  # type: ignore[call-overload]
    value: Column = bucket(F.expr(column))
    return value
