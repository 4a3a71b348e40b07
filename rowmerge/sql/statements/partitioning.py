"""The grammar of partition fields and write orders, as in PARTITIONED BY and Iceberg's SQL extensions."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.definitions import ChangePartitioning, SetWriteOrder
from rowmerge.commands.names import TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.table.metadata.partitioning import Distribution, PartitionField, SortField, Transform

_ALIASES = {"years": "year", "months": "month", "days": "day", "date": "day", "hours": "hour", "date_hour": "hour"}
_TRANSFORMS = {name: name for name in ("identity", "bucket", "truncate", "year", "month", "day", "hour")} | _ALIASES
_PARAMETERIZED_TRANSFORMS = {"bucket": "a number of buckets", "truncate": "a width"}
"""The transforms that have a parameter, with a description of the parameter for error messages."""
_MAX_PARAMETER = 2**31 - 1


def parse_partition_field(cursor: Cursor) -> PartitionField:
    """Parse a column or a transform, and return an unnamed partition field. `bucket(16, id)` can also be written as `bucket(id, 16)`."""
    if not (cursor.token().is_name and cursor.key(1) == "("):
        return PartitionField(cursor.path("a partition column"))
    transform = _parse_transform_name(cursor)
    cursor.expect("(")
    parameter: int | None = None
    if cursor.token().kind is Kind.NUMBER:
        parameter = _parse_parameter(cursor, transform)
        cursor.expect(",")
    column = cursor.path("a column")
    if parameter is None and transform in _PARAMETERIZED_TRANSFORMS:
        cursor.expect(",")
        parameter = _parse_parameter(cursor, transform)
    cursor.expect(")")
    return PartitionField(column, Transform(transform, parameter))


def parse_named_field(cursor: Cursor) -> PartitionField:
    """Parse `field [AS name]`. Without AS, the field has no name yet."""
    field = parse_partition_field(cursor)
    return replace(field, name=cursor.identifier("the name of the partition field")) if cursor.accept("AS") else field


def _parse_transform_name(cursor: Cursor) -> str:
    """Parse the name or an alias of a transform, and return the transform's name."""
    token = cursor.token()
    transform = _TRANSFORMS.get(cursor.identifier("a partition transform").lower())
    if transform is None:
        advice = "The transforms are bucket(n, column), truncate(width, column), years, months, days and hours(column)"
        raise cursor.unsupported(f"{token.text} is not a partition transform. {advice}", token)
    return transform


def _parse_parameter(cursor: Cursor, transform: str) -> int:
    """Parse the whole number that is the parameter of a transform."""
    token = cursor.token()
    if transform not in _PARAMETERIZED_TRANSFORMS:
        raise cursor.expected("a column")
    number = cursor.integer(_PARAMETERIZED_TRANSFORMS[transform])
    if not 0 < number <= _MAX_PARAMETER:
        raise cursor.error(
            f"{_PARAMETERIZED_TRANSFORMS[transform].capitalize()} must be a whole number from 1 to {_MAX_PARAMETER}, not {number}", token
        )
    return number


def parse_partition_field_change(cursor: Cursor, table: TableName, verb: str) -> ChangePartitioning:
    """Parse the fields after ALTER TABLE … ADD, DROP or REPLACE PARTITION FIELD, as in Iceberg's SQL extensions.

    Args:
        cursor: The cursor at `f [AS n]` (ADD), `f` (DROP) or `f WITH g [AS n]` (REPLACE).
        table: The name of the table.
        verb: ADD, DROP or REPLACE.

    Raises:
        Unparsable: The text does not follow the grammar.
    """
    dropped = parse_partition_field(cursor) if verb != "ADD" else None
    if verb == "REPLACE":
        cursor.expect("WITH")
    added = parse_named_field(cursor) if verb != "DROP" else None
    cursor.expect_end("the partition field")
    return ChangePartitioning(table, dropped, added)


def parse_write_order(cursor: Cursor, name: TableName) -> SetWriteOrder:
    """Parse the write order that ends ALTER TABLE … WRITE.

    Args:
        cursor: The cursor after WRITE.
        name: The name of the table.

    Raises:
        Unparsable: The text does not follow the grammar, or a clause occurs twice.
        UnsupportedStatement: The order contains zorder(…) or an unknown transform.
    """
    order = parse_write_clause(cursor, name)
    cursor.expect_end("the write order")
    return order


def parse_write_clause(cursor: Cursor, name: TableName) -> SetWriteOrder:
    """Parse `[DISTRIBUTED BY PARTITION] [[LOCALLY] ORDERED BY field [ASC|DESC] [NULLS FIRST|LAST], …]` or `UNORDERED` after WRITE.

    The two clauses can appear in any order, and one of them is enough. ORDERED BY sorts rows across all files. With LOCALLY, it sorts rows
    only within each file. DISTRIBUTED BY replaces the distribution that the order implies.

    Args:
        cursor: The cursor after WRITE.
        name: The name of the table.

    Raises:
        Unparsable: The text does not follow the grammar, or a clause occurs twice.
        UnsupportedStatement: The order contains zorder(…) or an unknown transform.
    """
    distribution: Distribution | None = None
    order: SetWriteOrder | None = None
    while clause := cursor.accept_any("DISTRIBUTED", "LOCALLY", "ORDERED", "UNORDERED"):
        if clause == "DISTRIBUTED":
            _refuse_second(cursor, distribution, "distribution")
            cursor.expect("BY", "PARTITION")
            distribution = Distribution.HASH
        else:
            _refuse_second(cursor, order, "order")
            order = _parse_order(cursor, clause, name)
    if distribution is None and order is None:
        raise cursor.expected("ORDERED BY, LOCALLY ORDERED BY, DISTRIBUTED BY PARTITION or UNORDERED")
    order = order or SetWriteOrder(name)
    return replace(order, distribution=distribution or order.distribution)


def _refuse_second(cursor: Cursor, previous: object, kind: str) -> None:
    """Raise Unparsable for a second clause of the same kind. `previous`: the value of the first clause, or None if there is none."""
    if previous is not None:
        raise cursor.error(f"WRITE specifies the {kind} twice. Keep one", cursor.token(-1))


def _parse_order(cursor: Cursor, clause: str, name: TableName) -> SetWriteOrder:
    """Parse the tokens after UNORDERED, ORDERED or LOCALLY. Return the write order with the distribution that it implies."""
    if clause == "UNORDERED":
        return SetWriteOrder(name, (), Distribution.NONE)
    if clause == "LOCALLY":
        cursor.expect("ORDERED")
    cursor.expect("BY")
    fields = cursor.list_with_or_without_parentheses(lambda: _parse_sort_field(cursor))
    return SetWriteOrder(name, fields, None if clause == "LOCALLY" else Distribution.RANGE)


def _parse_sort_field(cursor: Cursor) -> SortField:
    """Parse `field [ASC|DESC] [NULLS FIRST|LAST]`. As in Iceberg on Spark, the defaults are ASC NULLS FIRST and DESC NULLS LAST."""
    if cursor.next_is("ZORDER", "("):
        raise cursor.unsupported("ORDERED BY zorder(…) is not supported. List the columns, with the one that is filtered most often first")
    field = parse_partition_field(cursor)
    ascending = cursor.accept_any("ASC", "DESC") != "DESC"
    nulls_first = cursor.expect_any("FIRST or LAST") == "FIRST" if cursor.accept("NULLS") else ascending
    return SortField(field.column, field.transform, ascending, nulls_first)
