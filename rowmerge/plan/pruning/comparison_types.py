"""The Arrow types in which a column's values, bounds and literals are compared, in Spark's order."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.table.metadata.schema import DataType, Decimal, Field, Primitive

INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
PRECISION = 38
"""Digits of the widest decimal."""
_COMPARISON_TYPES = {
    **dict.fromkeys(INTEGERS, pa.int64()),
    "float": pa.float64(),
    "double": pa.float64(),
    "boolean": pa.int8(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def comparison_type(type_: DataType) -> pa.DataType | None:
    """Return the type in which values of a column are compared, or None for types that files are not pruned by."""
    if isinstance(type_, Decimal):
        return pa.decimal128(PRECISION, type_.scale)
    return _COMPARISON_TYPES.get(type_.name) if isinstance(type_, Primitive) else None


def in_comparison_type(values: pa.Array | pa.ChunkedArray, field: Field) -> pa.Array | pa.ChunkedArray | None:
    """Return values in the type that the column is compared in, or None if they cannot be cast."""
    try:
        cast = values.cast(comparison_type(field.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return pc.add(cast, 0.0) if pa.types.is_floating(cast.type) else cast  # no -0.0, which sorts below 0.0
