"""Which types a column may become, its files staying as they are (Iceberg spec, Schema Evolution)."""

from __future__ import annotations

from rowmerge.table.schema import DataType, Decimal, Primitive


def widens(old: DataType, new: DataType) -> bool:
    """int to long, float to double, decimals to more digits before the point."""
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return new.scale == old.scale and new.precision > old.precision
    return (old, new) in ((Primitive("integer"), Primitive("long")), (Primitive("float"), Primitive("double")))
