"""How rows come together in tasks, and in which order, before they are written: by what divides and orders a table's files.

What is computed here only brings rows together. Which partition a row is in, the writer says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from rowmerge.parquet.partitions import bucket_function
from rowmerge.spark.values.uuids import octets
from rowmerge.table.metadata.partitioning import BUCKET, IDENTITY, VOID, Distribution, PartitionField, SortField, Transform
from rowmerge.table.metadata.schema import UUID, DataType, Decimal, Primitive, arrow_type, backquote, held_types
from rowmerge.table.metadata.shape import TableShape

_KEY = "__rowmerge_key_{}"
_HOUR = 3_600_000_000
"""In microseconds."""


@dataclass(frozen=True)
class Parts:
    """Into how many files rows of so many partitions are to go."""

    files: int
    partitions: int


class Gather(Enum):
    """How rows that are to make few files come together before they are written."""

    NOT = "not: they are many"
    BY_SIZE = "by a shuffle that adapts to their size"
    ONE_TASK = "in one task that finds them, too"
    DRIVER = "in the driver, which writes them itself"


def distributed(
    rows: DataFrame,
    table: TableShape,
    columns: Sequence[str],
    *,
    gather: Gather,
    parts: Parts | None = None,
    distribution: Distribution | None = None,
) -> DataFrame:
    """Rows in the tasks that write them, in the table's order inside each partition; `columns`: what the table's are called in `rows`.

    Where partitions divide the table, rows of one come together (Spark's adaptive rebalance), so that a task does not write a small file
    into each; few changed rows come together in any case (`gather`), so that they make few files. Rows that are new and many lie by
    ranges, if the table says so: each file then has a part of the order of its own.
    `parts`: how many files are to be made of the rows; `distribution`: what the table says of rows of this operation.
    """
    fields: list[PartitionField | SortField] = [field for field in table.partitioning if field.transform.name != VOID]
    divided, names = len(fields), list[str]()
    computed: dict[str, Column] = {}
    for field in (*fields, *table.ordering):
        column = columns[table.schema.names.index(field.column[0])]
        plain = field.transform.name == IDENTITY and len(field.column) == 1
        names.append(column if plain else _KEY.format(len(names)))
        if not plain:
            computed[names[-1]] = _value(table, column, field)
    are_spread = distribution is not None or gather is Gather.NOT
    keys = [F.col(name) for name in names[:divided]]
    order = [_ordered(F.col(name), field) for name, field in zip(names[divided:], table.ordering, strict=True)]
    rows = rows.withColumns(computed) if computed else rows
    if parts is not None and (keys or order):
        whole = keys and parts.files == parts.partitions
        rows = rows.repartition(parts.files, *keys) if whole else rows.repartitionByRange(parts.files, *keys, *order)
    elif gather in (Gather.ONE_TASK, Gather.DRIVER):
        rows = rows.coalesce(1)
    elif (mode := distribution or table.settings.distribution(is_ordered=bool(order))) is Distribution.RANGE and order and are_spread:
        rows = rows.repartitionByRange(*keys, *order)
    elif mode is not Distribution.NONE and (keys or gather is Gather.BY_SIZE):
        rows = rows.hint("rebalance", *keys)  # it accepts `F.col(…)`, not `df[…]`
    if order:
        rows = rows.sortWithinPartitions(*keys, *order)
    return rows.drop(*computed) if computed else rows


def _ordered(value: Column, field: SortField) -> Column:
    if field.ascending:
        return value.asc_nulls_first() if field.nulls_first else value.asc_nulls_last()
    return value.desc_nulls_first() if field.nulls_first else value.desc_nulls_last()


def _value(table: TableShape, column: str, field: PartitionField | SortField) -> Column:
    """The transformed value, or another one that groups and orders rows alike. `column`: what the whole column is called."""
    column = ".".join((column, *map(backquote, field.column[1:])))
    source = table.schema.at(field.column, case_sensitive=True)
    assert source is not None
    in_files = held_types(table.schema).at(field.column, case_sensitive=True)
    if field.transform.name == BUCKET and in_files is not None and in_files.type == UUID:
        return _bucket(octets(column), Primitive("binary"), field.transform)
    return _bucket(column, source.type, field.transform) if field.transform.name == BUCKET else F.expr(_sql(column, source.type, field))


def _sql(column: str, type_: DataType, field: PartitionField | SortField) -> str:
    name, width = field.transform.name, field.transform.parameter
    if name == IDENTITY:
        return column
    if name != "truncate":
        return _since_1970(column, type_, name)
    if isinstance(type_, Decimal):
        unit = f"cast({width}e-{type_.scale} as decimal(38, {type_.scale}))"
        return f"try_subtract({column}, pmod({column}, {unit}))"
    if type_ in (Primitive("string"), Primitive("binary")):
        return f"substring({column}, 1, {width})"
    return f"try_subtract({column}, pmod({column}, {width}))"


def _since_1970(column: str, type_: DataType, unit: str) -> str:
    """Years, months, days or hours since 1970, the zone being UTC whatever the session's is."""
    if type_ == Primitive("timestamp"):
        hours = f"try_subtract({_micros(column, type_)}, pmod({_micros(column, type_)}, {_HOUR})) div {_HOUR}"
        if unit == "hour":
            return hours
        date = f"date_from_unix_date(cast(({hours} - pmod({hours}, 24)) div 24 as int))"
    else:
        date = f"cast({column} as date)"
        if unit == "hour":
            return f"unix_date({date}) * 24 + hour({column})"
    return {"year": f"year({date})", "month": f"year({date}) * 12 + month({date})"}.get(unit, date)


def _micros(column: str, type_: DataType) -> str:
    if type_ == Primitive("timestamp"):
        return f"unix_micros({column})"
    seconds = f"cast(extract(second from {column}) * 1000000 as bigint)"
    return f"unix_date(cast({column} as date)) * 24 * {_HOUR} + hour({column}) * {_HOUR} + minute({column}) * 60000000L + {seconds}"


def _bucket(column: str, type_: DataType, transform: Transform) -> Column:
    """The bucket, computed where the rows are. Whatever pandas would hold otherwise goes there as the number that is hashed."""
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
    found: Column = bucket(F.expr(column))
    return found
