"""The keys of a MERGE source: their values, the values in the type of a target column, and the keys that Arrow can look up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowmerge.parquet.source_keys import KeyColumn, SourceKeys
from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.plan.pruning.bounds import is_padded
from rowmerge.spark.types import has_collation
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct, arrow_type

_INTEGERS = ("byte", "short", "integer", "long")
EXACT_TYPES = (*_INTEGERS, "date", "string", "binary", "boolean", "timestamp", "timestamp_ntz")
"""Simple types whose values are equal in Arrow whenever they are equal in Spark."""


@dataclass(frozen=True)
class SourceKey:
    """The values that one key of the ON condition has in the source.

    `values`: the distinct non-null values, sorted; None if only the range from `low` to `high` is known, or nothing.
    `column`: the value of each row, the same rows for all keys of a source; None if there are too many.
    Nothing is known of strings with a collation, because the collation decides what equals them.
    """

    pair: KeyPair
    type: DataType
    values: pa.Array | None = None
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    has_null: bool = True
    column: pa.ChunkedArray | None = None


def key_names(pairs: Sequence[KeyPair]) -> list[str]:
    """Return the names of the keys beside the columns of a source."""
    return [f"__rowmerge_key_{index}" for index in range(len(pairs))]


def ordinal_array(ordinals: BitMap64) -> pa.Array:
    """Return ordinals as int64, the type of ORDINAL."""
    return pa.array(np.array(ordinals.to_array(), dtype=np.uint64).astype(np.int64))


def known_keys(pairs: Sequence[KeyPair], fields: Sequence[Field], rows: pa.Table) -> tuple[SourceKey, ...]:
    """Return the keys of a source from all of its rows, which have a column for each key, named as its field."""
    return tuple(_known_key(pair, field, rows[field.name]) for pair, field in zip(pairs, fields, strict=True))


def _known_key(pair: KeyPair, field: Field, column: pa.ChunkedArray) -> SourceKey:
    """Return a key from its value in each row. Nested values have no order in bounds and in Arrow, so they prune nothing."""
    if has_collation(Struct((field,))):
        return SourceKey(pair, field.type)
    values = None if isinstance(field.type, Array | Map | Struct) else _sorted_distinct(column)
    return SourceKey(pair, field.type, values, has_null=column.null_count > 0, column=column)


def _sorted_distinct(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_integer(column.type):
        # NumPy sorts integers faster than Arrow hashes them.
        ordered = np.sort(pc.drop_null(column).to_numpy())
        is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
        return pa.array(ordered[is_first], column.type)
    values = pc.drop_null(pc.unique(column))
    return values.take(pc.sort_indices(values))


def cast_key_values(values: pa.Array, op: str, source: DataType, target: DataType) -> pa.Array | None:
    """Return key values of type `source` in the column's type `target`, None if they say nothing about it in that type.

    A value outside the column's range equals nothing in it, so it is left out for `=` and `<=>`. An inequality may hold for every row
    then, so the result is None. The result is also None for types that Spark does not compare value by value.
    """
    if isinstance(target, Primitive | Decimal) and source == target:
        return values.cast(arrow_type(target))
    if not (_is_integer(source) and _is_integer(target)):
        return None
    limit = 1 << (arrow_type(target).bit_width - 1)
    longs = values.cast(pa.int64())
    in_range = longs.filter(pc.and_(pc.greater_equal(longs, -limit), pc.less_equal(longs, limit - 1)))
    if len(in_range) < len(longs) and op not in ("=", "<=>"):
        return None
    return in_range.cast(arrow_type(target))


def source_keys(keys: Sequence[tuple[SourceKey, Field]]) -> SourceKeys | None:
    """Return the keys by which rows of a table can be looked up, from source keys with the table's columns. None if there is none.

    A key is left out if its values are unknown, or if Arrow and Spark might see equality differently (floats, collations, char, and
    other types than the column's).
    """
    columns = [column for key, field in keys if (column := _key_column(key, field)) is not None]
    return SourceKeys.of(columns) if columns else None


def can_be_looked_up(op: str, type_: DataType, field: Field) -> bool:
    """Return whether Arrow finds the values of a column that equal a key of this type, as Spark would."""
    if op not in ("=", "<=>") or is_padded(field):
        return False
    if _is_integer(type_) and _is_integer(field.type):
        return True
    return type_ == field.type and (not isinstance(type_, Primitive) or type_.name in EXACT_TYPES)


def _key_column(key: SourceKey, field: Field) -> tuple[KeyColumn, pa.ChunkedArray] | None:
    """Return the column with the key's distinct values, and the value of each row, in the column's type. None without a lookup."""
    if key.values is None or key.column is None or not can_be_looked_up(key.pair.op, key.type, field):
        return None
    type_ = arrow_type(field.type)
    try:
        column = KeyColumn(field.name, key.values.cast(type_), matches_null=key.pair.op == "<=>" and key.has_null)
        return column, key.column.cast(type_)
    except pa.ArrowInvalid:
        return None  # a number outside the column's range


def _is_integer(type_: DataType) -> bool:
    return isinstance(type_, Primitive) and type_.name in _INTEGERS
