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
    """SQL that is true for every row of the target that `field op v` can be true for, v one of the values (or NULL, with `has_null`).

    `values`: sorted, non-null, of the field's type; with `only_ends` the least and the greatest alone are known. None where no such
    condition would let a reader skip anything: for an inequality, no values, and types whose bounds Parquet readers do not trust.
    """
    if op not in ("=", "<=>") or not len(values) or not comparable(field) or not _has_literals(field):
        return None
    column = backquote(field.name)
    try:
        ends = [(_literal(low, field), _literal(high, field)) for low, high in _ranges(values, field, only_ends)]
    except (OverflowError, ValueError):
        return None  # a moment that Python has no value for
    if any(len(text) > _LONGEST for pair in ends for text in pair):
        return None
    parts = [f"{column} = {low}" if low == high else f"({column} >= {low} and {column} <= {high})" for low, high in ends]
    if op == "<=>" and has_null:
        parts.append(f"{column} is null")
    return " or ".join(parts)


def _has_literals(field: Field) -> bool:
    return isinstance(field.type, DecimalType) or (isinstance(field.type, Primitive) and field.type.name in (*_ORDINAL, "string"))


def _ranges(values: pa.Array, field: Field, only_ends: bool) -> list[tuple[pa.Scalar, pa.Scalar]]:
    """The values in up to RANGES ranges, parted at the widest gaps, if they leave out half of what lies between the first and the last."""
    whole = [(values[0], values[-1])]
    if only_ends or len(values) == 1:
        return whole
    if not (isinstance(field.type, Primitive) and field.type.name in _ORDINAL):
        return [(value, value) for value in values] if len(values) <= RANGES else whole
    numbers = np.asarray(_as_integers(values), dtype=np.float64)
    gaps = np.diff(numbers)
    widest = np.sort(np.argpartition(gaps, -(RANGES - 1))[-(RANGES - 1) :]) if len(gaps) >= RANGES else np.arange(len(gaps))
    parted = widest[gaps[widest] > 1]
    if gaps[parted].sum() * 2 < numbers[-1] - numbers[0]:
        return whole
    firsts, lasts = [0, *(parted + 1).tolist()], [*parted.tolist(), len(values) - 1]
    return [(values[first], values[last]) for first, last in zip(firsts, lasts, strict=True)]


def _as_integers(values: pa.Array) -> pa.Array:
    return values.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date(values.type) else values.cast(pa.int64())


def _literal(value: pa.Scalar, field: Field) -> str:
    """Raises OverflowError, ValueError for what Python has no value for."""
    known: Any = value.as_py()
    match known:
        case str():
            return string_literal(known)
        case datetime() if known.tzinfo is not None:
            return f"timestamp'{known.replace(tzinfo=None).isoformat()}Z'"
        case datetime():
            return f"timestamp_ntz'{known.isoformat()}'"
        case date():
            return f"date'{known.isoformat()}'"
        case Decimal():
            return f"cast({known:f} as {sql_name(field.type)})"
    return f"cast({known} as {sql_name(field.type)})"
