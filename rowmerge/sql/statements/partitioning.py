"""Partition fields and write orders, as PARTITIONED BY and Iceberg's SQL extensions spell them."""

from __future__ import annotations

from rowmerge.commands.definitions import ChangePartitioning, SetWriteOrder
from rowmerge.commands.names import TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.table.metadata.partitioning import Distribution, PartitionField, SortField, Transform

_TRANSFORMS = {
    "identity": "identity",
    "bucket": "bucket",
    "truncate": "truncate",
    "year": "year",
    "years": "year",
    "month": "month",
    "months": "month",
    "day": "day",
    "days": "day",
    "date": "day",
    "hour": "hour",
    "hours": "hour",
    "date_hour": "hour",
}
_WITH_PARAMETER = {"bucket": "a number of buckets", "truncate": "a width"}
_GREATEST = 2**31 - 1


def partition_field(cursor: Cursor) -> PartitionField:
    """`column`, `struct.field`, `bucket(16, id)`, `truncate(4, s)`, `days(ts)`, …; without a name, and with columns as they are written."""
    if not (cursor.token().is_name and cursor.key(1) == "("):
        return PartitionField(cursor.path("a partition column"))
    begin = cursor.token()
    name = _TRANSFORMS.get(cursor.identifier("a partition transform").lower())
    if name is None:
        raise cursor.unsupported(
            f"{begin.text} is no partition transform. "
            f"There are bucket(n, column), truncate(width, column), years, months, days and hours(column)",
            begin,
        )
    cursor.expect("(")
    parameter = _parameter(cursor, name)
    if parameter is not None:
        cursor.expect(",")
    column = cursor.path("a column")
    if parameter is None and name in _WITH_PARAMETER:
        cursor.expect(",")
        parameter = _parameter(cursor, name)
        if parameter is None:
            raise cursor.expected(f"{_WITH_PARAMETER[name]}, a whole number")
    cursor.expect(")")
    return PartitionField(column, Transform(name, parameter))


def change_of_partitioning(cursor: Cursor, name: TableName) -> ChangePartitioning | None:
    """`ADD PARTITION FIELD f [AS n]`, `DROP PARTITION FIELD f`, `REPLACE PARTITION FIELD f WITH g [AS n]`; None for everything else."""
    verb = cursor.key()
    if verb not in ("ADD", "DROP", "REPLACE") or (cursor.key(1), cursor.key(2)) != ("PARTITION", "FIELD"):
        return None
    cursor.at += 3
    dropped = partition_field(cursor) if verb != "ADD" else None
    added = None
    if verb == "REPLACE":
        cursor.expect("WITH")
    if verb != "DROP":
        added = partition_field(cursor)
        if cursor.accept("AS"):
            added = PartitionField(added.column, added.transform, cursor.identifier("the name of the partition field"))
    cursor.finish("the partition field")
    return ChangePartitioning(name, dropped, added)


def write_order(cursor: Cursor, name: TableName) -> SetWriteOrder | None:
    """`WRITE [DISTRIBUTED BY PARTITION] [[LOCALLY] ORDERED BY f [ASC|DESC] [NULLS FIRST|LAST], …]`, `WRITE UNORDERED`; None for
    everything else.

    An order alone is one over all files, LOCALLY one inside each; then the distribution stays as it is.
    """
    if not cursor.accept("WRITE"):
        return None
    ordering: tuple[SortField, ...] = ()
    distribution: Distribution | None = None
    seen = set[str]()
    while clause := cursor.accept_any("DISTRIBUTED", "LOCALLY", "ORDERED", "UNORDERED"):
        kind = "distribution" if clause == "DISTRIBUTED" else "order"
        if kind in seen:
            raise cursor.error(f"WRITE has its {kind} twice. Keep one", cursor.token(-1))
        seen.add(kind)
        if clause == "DISTRIBUTED":
            cursor.expect("BY", "PARTITION")
            distribution = Distribution.HASH
            continue
        if clause == "LOCALLY":
            cursor.expect("ORDERED")
        if clause == "UNORDERED":
            alone = Distribution.NONE
        else:
            cursor.expect("BY")
            ordering = _order(cursor)
            alone = Distribution.RANGE
        if clause != "LOCALLY":
            distribution = distribution or alone
    if not seen:
        raise cursor.expected("ORDERED BY, LOCALLY ORDERED BY, DISTRIBUTED BY PARTITION or UNORDERED")
    cursor.finish("the write order")
    return SetWriteOrder(name, ordering, distribution)


def _order(cursor: Cursor) -> tuple[SortField, ...]:
    if cursor.sees("("):
        return cursor.listed(lambda: _sort_field(cursor))
    fields = [_sort_field(cursor)]
    while cursor.accept(","):
        fields.append(_sort_field(cursor))
    return tuple(fields)


def _sort_field(cursor: Cursor) -> SortField:
    """As Iceberg on Spark, nulls come first in an ascending order and last in a descending one, if nothing is said."""
    if cursor.sees("ZORDER", "("):
        raise cursor.unsupported("An order by zorder(…) is not supported. Order by the columns, the one that is looked up most first")
    field = partition_field(cursor)
    ascending = cursor.accept_any("ASC", "DESC") != "DESC"
    nulls_first = ascending
    if cursor.accept("NULLS"):
        place = cursor.accept_any("FIRST", "LAST")
        if not place:
            raise cursor.expected("FIRST or LAST")
        nulls_first = place == "FIRST"
    return SortField(field.column, field.transform, ascending, nulls_first)


def _parameter(cursor: Cursor, name: str) -> int | None:
    """The whole number that comes next, if one does; it may come before the column or after."""
    token = cursor.token()
    if token.kind is not Kind.NUMBER:
        return None
    if name not in _WITH_PARAMETER:
        raise cursor.expected("a column")
    number = cursor.integer(_WITH_PARAMETER[name])
    if not 0 < number <= _GREATEST:
        raise cursor.error(f"{_WITH_PARAMETER[name].capitalize()} is a whole number from 1 to {_GREATEST}, not {number}", token)
    return number
