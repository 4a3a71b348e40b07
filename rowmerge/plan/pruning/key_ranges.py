"""Conditions on the target's columns that follow from the keys of a source.

With such a condition, Spark's Parquet reader skips row groups and pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from rowmerge.plan.bounds.bounds import comparable
from rowmerge.table.metadata.schema import Decimal as DecimalType, Field, Primitive, backquote, sql_name

MAX_RANGES = 32
"""The maximum number of ranges in a condition. Each range costs two comparisons per row, and a test of the bounds of each page."""
_MAX_LITERAL_LENGTH = 500
"""The maximum length of a literal in characters."""
_ORDINAL_TYPES = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")


def key_condition(
    path: Sequence[str], field: Field, op: str, values: pa.Array, has_null: bool, *, values_are_ends: bool = False
) -> str | None:
    """Return a SQL condition that is true for each target row with `field op key` for one of the keys.

    The condition is short: neighbouring keys are merged into ranges, and it is also true for other values in these ranges.

    Args:
        path: The name of a column of the target, followed by the names of nested fields.
        field: The column or nested field.
        op: The comparison operator of the join condition.
        values: The distinct keys except NULL, sorted, in the column's type.
        has_null: Whether NULL is a key too.
        values_are_ends: Whether `values` contains only the least and the greatest of the keys, which then become one range.

    Returns:
        The condition, or None if readers could not skip rows with it. This applies to operators except `=` and `<=>`, to an empty `values`,
        to long literals, and to types whose bounds Parquet readers do not trust.
    """
    if op not in ("=", "<=>") or not len(values) or not comparable(field) or not _has_literals(field):
        return None
    try:
        ranges = [(_literal(low, field), _literal(high, field)) for low, high in _ranges(values, field, values_are_ends)]
    except (OverflowError, ValueError):
        return None  # the value is out of the range of Python's datetime
    if any(max(len(low), len(high)) > _MAX_LITERAL_LENGTH for low, high in ranges):
        return None
    column = ".".join(map(backquote, path))
    conditions = [_range_condition(column, low, high) for low, high in ranges]
    if op == "<=>" and has_null:
        conditions.append(f"{column} is null")
    return " or ".join(conditions)


def _range_condition(column: str, low: str, high: str) -> str:
    return f"{column} = {low}" if low == high else f"({column} >= {low} and {column} <= {high})"


def _has_literals(field: Field) -> bool:
    """Return whether values of the column can be written as SQL literals that allow readers to skip rows."""
    return isinstance(field.type, DecimalType) or (isinstance(field.type, Primitive) and field.type.name in (*_ORDINAL_TYPES, "string"))


def _ranges(values: pa.Array, field: Field, values_are_ends: bool) -> list[tuple[pa.Scalar, pa.Scalar]]:
    """Return at most MAX_RANGES ranges that cover the sorted values, each as its least and its greatest value."""
    full_range = [(values[0], values[-1])]
    if values_are_ends or len(values) == 1:
        return full_range
    if isinstance(field.type, Primitive) and field.type.name in _ORDINAL_TYPES:
        return _ranges_between_gaps(values) or full_range
    return [(value, value) for value in values] if len(values) <= MAX_RANGES else full_range


def _ranges_between_gaps(values: pa.Array) -> list[tuple[pa.Scalar, pa.Scalar]] | None:
    """Split sorted, distinct values at the widest gaps into at most MAX_RANGES ranges.

    The values 1, 2, 3, 90, 91 become the ranges 1 to 3 and 90 to 91. Returns None if the gaps amount to less than half of the span from the
    first to the last value. The ranges would then exclude too few rows to be worth the comparisons.
    """
    # All types in _ORDINAL_TYPES are integers in Arrow: days, microseconds, or the numbers themselves.
    integers = (values.cast(pa.int32()) if pa.types.is_date(values.type) else values).cast(pa.int64())
    numbers = np.asarray(integers, dtype=np.float64)
    gaps = np.diff(numbers)
    widest_gaps = _indices_of_greatest(gaps, count=MAX_RANGES - 1)
    split_indices = widest_gaps[gaps[widest_gaps] > 1]  # consecutive integers, which differ by 1, are not split
    if gaps[split_indices].sum() * 2 < numbers[-1] - numbers[0]:
        return None
    first_indices = [0, *(split_indices + 1).tolist()]
    last_indices = [*split_indices.tolist(), len(values) - 1]
    return [(values[first], values[last]) for first, last in zip(first_indices, last_indices, strict=True)]


def _indices_of_greatest(numbers: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the `count` greatest numbers in ascending order, or all indices if there are not more numbers."""
    if len(numbers) <= count:
        return np.arange(len(numbers))
    return np.sort(np.argpartition(numbers, -count)[-count:])  # `argpartition` moves the indices of the greatest numbers to the end


def string_sql(text: str) -> str:
    """Return SQL for a string. It does not depend on settings, such as the one for backslashes in literals, or those in `${name}`."""
    is_plain = not any(special in text for special in ("'", "\\", "${"))
    return f"'{text}'" if is_plain else f"cast(X'{text.encode().hex()}' as string)"


def _literal(scalar: pa.Scalar, field: Field) -> str:
    """Return a value as a SQL literal. Raises OverflowError or ValueError if the value is out of the range of Python's datetime.

    `_has_literals` admits only strings, integers, decimals, dates and timestamps.
    """
    value: Any = scalar.as_py()
    match value:
        case str():
            return string_sql(value)
        case datetime() if value.tzinfo is not None:
            return f"timestamp'{value.replace(tzinfo=None).isoformat()}Z'"
        case datetime():
            return f"timestamp_ntz'{value.isoformat()}'"
        case date():
            return f"date'{value.isoformat()}'"
        case Decimal():
            return f"cast({value:f} as {sql_name(field.type)})"
    assert isinstance(value, int)
    return f"cast({value} as {sql_name(field.type)})"
