"""Where the keys of a source lie, as a condition on the target's rows: by it Spark's reader skips row groups and pages."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from rowmerge.plan.pruning.bounds import comparable
from rowmerge.table.metadata.schema import Decimal as DecimalType
from rowmerge.table.metadata.schema import Field, Primitive, backquote, sql_name, string_literal

RANGES = 32
"""So many ranges at most: each is two comparisons a row, and a test of every page's bounds."""
_LONGEST = 500
_ORDINAL = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")


def key_condition(field: Field, op: str, values: pa.Array, has_null: bool, *, only_ends: bool = False) -> str | None:
    """Return SQL that is true for every target row that may match `field op v` for a key v (or NULL, with `has_null`).

    `values` are sorted, non-null and of the field's type; with `only_ends` they are the least and the greatest key. The result is None
    if no reader could skip rows by it: for inequalities, without values, and for types whose bounds Parquet readers do not trust.
    """
    if op not in ("=", "<=>") or not len(values) or not comparable(field) or not _has_literals(field):
        return None
    try:
        ranges = [(_literal(low, field), _literal(high, field)) for low, high in _ranges(values, field, only_ends)]
    except (OverflowError, ValueError):
        return None  # Python's datetime cannot hold the value
    if any(max(len(low), len(high)) > _LONGEST for low, high in ranges):
        return None
    column = backquote(field.name)
    conditions = [_range_condition(column, low, high) for low, high in ranges]
    if op == "<=>" and has_null:
        conditions.append(f"{column} is null")
    return " or ".join(conditions)


def _range_condition(column: str, low: str, high: str) -> str:
    return f"{column} = {low}" if low == high else f"({column} >= {low} and {column} <= {high})"


def _has_literals(field: Field) -> bool:
    return isinstance(field.type, DecimalType) or (isinstance(field.type, Primitive) and field.type.name in (*_ORDINAL, "string"))


def _ranges(values: pa.Array, field: Field, only_ends: bool) -> list[tuple[pa.Scalar, pa.Scalar]]:
    """Return at most RANGES ranges that cover the sorted values."""
    full_range = [(values[0], values[-1])]
    if only_ends or len(values) == 1:
        return full_range
    if isinstance(field.type, Primitive) and field.type.name in _ORDINAL:
        return _ranges_between_gaps(values) or full_range
    return [(value, value) for value in values] if len(values) <= RANGES else full_range


def _ranges_between_gaps(values: pa.Array) -> list[tuple[pa.Scalar, pa.Scalar]] | None:
    """Return the ranges between the widest gaps, or None if the gaps are less than half of the span from the first to the last value."""
    integers = (values.cast(pa.int32()) if pa.types.is_date(values.type) else values).cast(pa.int64())
    numbers = np.asarray(integers, dtype=np.float64)
    gaps = np.diff(numbers)
    widest = np.sort(np.argpartition(gaps, -(RANGES - 1))[-(RANGES - 1) :]) if len(gaps) >= RANGES else np.arange(len(gaps))
    cuts = widest[gaps[widest] > 1]
    if gaps[cuts].sum() * 2 < numbers[-1] - numbers[0]:
        return None
    first_indices = [0, *(cuts + 1).tolist()]
    last_indices = [*cuts.tolist(), len(values) - 1]
    return [(values[first], values[last]) for first, last in zip(first_indices, last_indices, strict=True)]


def _literal(scalar: pa.Scalar, field: Field) -> str:
    """Return a value as a SQL literal. Raises OverflowError or ValueError if Python's datetime cannot hold it."""
    value: Any = scalar.as_py()
    match value:
        case str():
            return string_literal(value)
        case datetime() if value.tzinfo is not None:
            return f"timestamp'{value.replace(tzinfo=None).isoformat()}Z'"
        case datetime():
            return f"timestamp_ntz'{value.isoformat()}'"
        case date():
            return f"date'{value.isoformat()}'"
        case Decimal():
            return f"cast({value:f} as {sql_name(field.type)})"
    return f"cast({value} as {sql_name(field.type)})"
