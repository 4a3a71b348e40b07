"""The keys of a MERGE source: their values, casts to the types of target columns, and the choice of keys that Arrow can look up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame, functions as F

from rowmerge.parquet.source_keys import KeyColumn, SourceKeys
from rowmerge.plan.bounds.bounds import is_padded
from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.spark.types import estimated_row_bytes, has_collation
from rowmerge.table.metadata.engine_columns import ORDINAL
from rowmerge.table.metadata.schema import (
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    arrow_type,
    backquote,
    parts,
    string_literal,
)

TASK_BITS = 33
"""`monotonically_increasing_id` stores a row's index in its task in this many low bits, and the index of the task in the other bits."""
TASK_INDEX, ROW_INDEX = f"shiftright({ORDINAL}, {TASK_BITS})", f"({ORDINAL} & {(1 << TASK_BITS) - 1})"
"""SQL expressions for the index of a row's task, and for the row's index in the task."""

_INTEGERS = ("byte", "short", "integer", "long")
EXACT_TYPES = (*_INTEGERS, "date", "string", "binary", "boolean", "timestamp", "timestamp_ntz")
"""The names of the primitive types whose values Arrow and Spark compare for equality in the same way."""
_UNCHANGED_TYPES = (*EXACT_TYPES, "float", "double")
_UNCHANGED_ELEMENTS = (*_INTEGERS, "date", "string", "boolean", "float", "double")
TIME_TYPES = (Primitive("date"), Primitive("timestamp"), Primitive("timestamp_ntz"))
"""The types of dates and timestamps, which Spark 2 wrote in another calendar."""
TEXT_TYPES = (Primitive("string"), Primitive("binary"))
"""The types whose values have different lengths."""
_BYTES_OF_ELEMENT = 16
"""The maximum number of bytes that an element of an array takes in memory. The characters of strings are counted separately."""
MAX_KEY_BYTES = 256 * 1024 * 1024
"""The maximum size of the keys that the driver collects, in bytes."""


@dataclass(frozen=True)
class SourceKey:
    """The values that one key of the ON condition has in the source.

    For strings with a collation, `values`, `low`, `high` and `column` are None, because the collation determines which values are equal.

    Attributes:
        pair: The comparison in the ON condition that contains the key.
        type: The data type of the key in the source.
        values: The distinct non-null values, sorted. None if there are too many values, or if the type is nested.
        low: The minimum value, None if it is unknown or `values` is set.
        high: The maximum value, None if it is unknown or `values` is set.
        has_null: Whether a NULL can occur.
        column: The value of each source row, in the same row order for all keys of a source. None if there are too many rows.
    """

    pair: KeyPair
    type: DataType
    values: pa.Array | None = None
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    has_null: bool = True
    column: pa.ChunkedArray | None = None


def contains_times(type_: DataType) -> bool:
    """Return whether a type is or contains a date or a timestamp."""
    return type_ in TIME_TYPES or any(contains_times(part.type) for part in parts(type_))


def is_unchanged_by_arrow(schema: Struct) -> bool:
    """Return whether conversion to Arrow and back preserves rows whose columns have these types.

    This is the case for simple types, and for structs and arrays of simple types, if there are no collations and names are distinct.
    """
    are_unchanged = all(_is_unchanged_type(field.type) for field in schema)
    return are_unchanged and len({field.name.lower() for field in schema}) == len(schema) and not has_collation(schema)


def _is_unchanged_type(type_: DataType) -> bool:
    """Return whether `is_unchanged_by_arrow` accepts the type of a column or of a field."""
    match type_:
        case Struct():
            return len(type_) > 0 and is_unchanged_by_arrow(type_)
        case Array(element=element):
            # PySpark cannot convert slices of arrays with nested types or timestamps.
            return isinstance(element, Decimal) or (isinstance(element, Primitive) and element.name in _UNCHANGED_ELEMENTS)
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _UNCHANGED_TYPES)


def key_names(pairs: Sequence[KeyPair]) -> list[str]:
    """Return the names of the key columns that are added to a source, one for each key of the ON condition."""
    return [f"__rowmerge_key_{index}" for index in range(len(pairs))]


def with_keys(frame: DataFrame, alias: str, pairs: Sequence[KeyPair]) -> DataFrame:
    """Return the rows of a source with an added column for each key, under the names that `key_names` returns.

    Args:
        frame: The rows of the source.
        alias: The alias of the source in the expressions of `pairs`.
        pairs: The keys of the ON condition.
    """
    keys = [F.expr(pair.source).alias(name) for pair, name in zip(pairs, key_names(pairs), strict=True)]
    return frame.alias(alias).select("*", *keys)


def ordinal_array(ordinals: BitMap64) -> pa.Array:
    """Return ordinals of source rows as an int64 array, the type of the column ORDINAL."""
    return pa.array(np.array(ordinals.to_array(), dtype=np.uint64).astype(np.int64))


def in_share_of_task(max_rows: int) -> str:
    """Return a SQL condition that selects the first `max_rows` / n rows of the n-th task.

    If the tasks have equally many rows, and `max_rows` in total, it selects all of them. It never selects more than a few times `max_rows`
    rows (a harmonic sum).
    """
    return f"{ROW_INDEX} * ({TASK_INDEX} + 1) < {max_rows}"


def and_short_texts(schema: Struct, most_bytes: int) -> str:
    """Return SQL to append to a condition, so that a row has at most `most_bytes` of strings, binary values and arrays.

    Args:
        schema: The columns of the rows, whose types `is_unchanged_by_arrow` accepts.
        most_bytes: The maximum number of bytes.
    """
    lengths = [length for field in schema for length in _lengths(backquote(field.name), field.type)]
    return f" and {' + '.join(lengths)} <= {most_bytes}" if lengths else ""


def _lengths(value_sql: str, type_: DataType) -> list[str]:
    """Return SQL for the sizes in bytes of the strings, binary values and arrays in a value."""
    match type_:
        case Struct():
            # With a dot, the value could be a column of a source with the struct's name.
            return [length for field in type_ for length in _lengths(f"{value_sql}[{string_literal(field.name)}]", field.type)]
        case Array(element=Primitive("string")):
            return [f"coalesce({_BYTES_OF_ELEMENT} * array_size({value_sql}) + octet_length(array_join({value_sql}, '')), 0)"]
        case Array():
            return [f"coalesce({_BYTES_OF_ELEMENT} * array_size({value_sql}), 0)"]
    return [f"coalesce(octet_length({value_sql}), 0)"] if type_ in TEXT_TYPES else []


def are_short_keys(rows: DataFrame, fields: Sequence[Field], row_count: int) -> bool:
    """Return whether the keys of all rows take at most MAX_KEY_BYTES. A job adds up the lengths of strings and binary values.

    Args:
        rows: The source rows with the key columns.
        fields: The key columns.
        row_count: The number of rows.
    """
    if not all(isinstance(field.type, Primitive | Decimal) for field in fields):
        return False
    other_fields = Struct(tuple(field for field in fields if field.type not in TEXT_TYPES))
    key_bytes = row_count * estimated_row_bytes(other_fields)
    text_lengths = [F.sum(F.octet_length(F.col(field.name))) for field in fields if field.type in TEXT_TYPES]
    if text_lengths:
        (totals,) = rows.agg(*text_lengths).toArrow().to_pylist()
        key_bytes += sum(total or 0 for total in totals.values())
    return key_bytes <= MAX_KEY_BYTES


def key_ranges(rows: DataFrame, pairs: Sequence[KeyPair], fields: Sequence[Field], row_count: int) -> tuple[SourceKey, ...]:
    """Return the keys of a source with their minimum, their maximum, and whether a NULL occurs. One job aggregates the rows.

    Args:
        rows: All source rows with the key columns.
        pairs: The keys of the ON condition.
        fields: The name and type of the column of `rows` that contains each key.
        row_count: The number of rows.
    """
    names = [field.name for field in fields]
    lows, highs = [F.min(name).alias(f"{name}_low") for name in names], [F.max(name).alias(f"{name}_high") for name in names]
    value_counts = [F.count(name).alias(f"{name}_count") for name in names]  # NULLs are not counted
    statistics = rows.agg(*lows, *highs, *value_counts).toArrow()
    keys = []
    for pair, field in zip(pairs, fields, strict=True):
        key = SourceKey(pair, field.type)
        # A collation does not order strings by bytes, as bounds in files do. So a key with a collation has no minimum or maximum.
        if not has_collation(Struct((field,))):
            low, high, value_count = (statistics[f"{field.name}_{suffix}"][0] for suffix in ("low", "high", "count"))
            key = replace(key, low=low, high=high, has_null=value_count.as_py() < row_count)
        keys.append(key)
    return tuple(keys)


def known_keys(pairs: Sequence[KeyPair], fields: Sequence[Field], rows: pa.Table) -> tuple[SourceKey, ...]:
    """Return the keys of a source, computed from all source rows.

    Args:
        pairs: The keys of the ON condition.
        fields: The name and type of the column of `rows` that contains each key.
        rows: All source rows.
    """
    return tuple(_known_key(pair, field, rows[field.name]) for pair, field in zip(pairs, fields, strict=True))


def _known_key(pair: KeyPair, field: Field, column: pa.ChunkedArray) -> SourceKey:
    """Return a key, given its value in each source row. Arrow cannot sort nested values, so `values` is None for a nested type."""
    if has_collation(Struct((field,))):
        return SourceKey(pair, field.type)
    values = None if isinstance(field.type, Array | Map | Struct) else _sorted_distinct(column)
    return SourceKey(pair, field.type, values, has_null=column.null_count > 0, column=column)


def _sorted_distinct(column: pa.ChunkedArray) -> pa.Array:
    """Return the distinct non-null values of a column in ascending order."""
    if pa.types.is_integer(column.type):
        # NumPy sorts integers faster than Arrow hashes them.
        ordered = np.sort(pc.drop_null(column).to_numpy())
        is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
        return pa.array(ordered[is_first], column.type)
    values = pc.drop_null(pc.unique(column))
    is_text = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    return values.take(_text_order(values) if is_text and len(values) else pc.sort_indices(values))


def _text_order(texts: pa.Array) -> pa.Array:
    """Return the indexes that sort distinct strings or binary values by their bytes.

    NumPy sorts integers several times faster than Arrow sorts strings. So the order follows from the eight bytes after the common prefix of
    all values, as integers. Arrow sorts only the values that have the same eight bytes as another one.

    Args:
        texts: Distinct values, at least one.
    """
    binaries = texts.cast(pa.binary())
    bounds = pc.min_max(binaries)
    # All other values lie between these two.
    pairs_of_bytes = zip(bounds["min"].as_py(), bounds["max"].as_py(), strict=False)
    prefix_length = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs_of_bytes)))
    numbers = _first_bytes(pc.binary_slice(binaries, prefix_length, prefix_length + 8))
    order = np.argsort(numbers)
    has_same_number = numbers[order[1:]] == numbers[order[:-1]]
    is_ambiguous = np.append(has_same_number, False) | np.append(False, has_same_number)
    ambiguous = order[is_ambiguous]
    order[is_ambiguous] = ambiguous[pc.sort_indices(texts.take(pa.array(ambiguous))).to_numpy()]
    return pa.array(order)


def _first_bytes(binaries: pa.BinaryArray) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return values of up to eight bytes as integers with the same order. Zeros follow after shorter values."""
    _, offset_buffer, data_buffer = binaries.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[binaries.offset :][: len(binaries) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    padded = np.zeros(8 * len(binaries), np.uint8)
    shifts = 8 * np.arange(len(binaries)) - (offsets[:-1] - offsets[0])  # by how many bytes each value moves
    padded[np.arange(len(data)) + np.repeat(shifts, np.diff(offsets))] = data
    return padded.view(">u8").astype(np.uint64)


def cast_key_values(values: pa.Array, op: str, source: DataType, target: DataType) -> pa.Array | None:
    """Cast key values to the type of a target column, so that they can be compared with the column's bounds.

    Args:
        values: The values of a key in the source.
        op: The comparison operator between the key and the column.
        source: The type of the values.
        target: The type of the column.

    Returns:
        The values in the column's type. For `=` and `<=>`, values outside the range of an integer column are left out, because no row is
        equal to them. None if such a value occurs with another operator, or if Spark casts both types to compare them.
    """
    if isinstance(target, Primitive | Decimal) and source == target:
        return values.cast(arrow_type(target))
    if not (_is_integer(source) and _is_integer(target)):
        return None  # nested values have no bounds, and Spark casts both sides of other comparisons
    limit = 1 << (arrow_type(target).bit_width - 1)  # such as 2**31 for int: its values are from -(2**31) to 2**31 - 1
    longs = values.cast(pa.int64())
    in_range = longs.filter(pc.and_(pc.greater_equal(longs, -limit), pc.less_equal(longs, limit - 1)))
    if len(in_range) < len(longs) and op not in ("=", "<=>"):
        return None
    return in_range.cast(arrow_type(target))


def source_keys(keys: Sequence[tuple[SourceKey, Field]]) -> SourceKeys | None:
    """Return the keys by which Arrow can look up rows of a table, None if there is no such key.

    A key is left out if its values are unknown, or if Arrow and Spark may differ in which values they consider equal. They may differ for
    floats, collations and char, and if the type of the key is different from the type of the column.

    `keys`: Each key of the source, with the column or nested field of the table that it is compared with.
    """
    columns = [column for key, field in keys if (column := _key_column(key, field)) is not None]
    return SourceKeys.of(columns) if columns else None


def can_be_looked_up(pair: KeyPair, key_type: DataType, column: Field) -> bool:
    """Return whether Arrow can look up a key in a column of the table, with the same result as a comparison in Spark.

    A lookup finds equal values. Arrow and Spark agree on equality for integers of any width, and for EXACT_TYPES, decimals and nested
    values if both types are the same. They may differ for floats, and for a char, which is padded with spaces.

    Args:
        pair: The comparison of the key with the column.
        key_type: The type of the key in the source.
        column: The column or nested field of the table.
    """
    # Arrow cannot convert nested dates and timestamps that Spark 2 wrote in its old calendar.
    if pair.op not in ("=", "<=>") or is_padded(column) or (pair.fields and column.type in TIME_TYPES):
        return False
    if _is_integer(key_type) and _is_integer(column.type):
        return True
    has_exact_type = not isinstance(key_type, Primitive) or key_type.name in EXACT_TYPES
    return key_type == column.type and has_exact_type


def _key_column(key: SourceKey, field: Field) -> tuple[KeyColumn, pa.ChunkedArray] | None:
    """Return a key column of the target, and the key of each source row in the column's type. None if the key cannot be looked up."""
    if key.values is None or key.column is None or not can_be_looked_up(key.pair, key.type, field):
        return None
    type_ = arrow_type(field.type)
    try:
        column = KeyColumn(key.pair.path, key.values.cast(type_), matches_null=key.pair.op == "<=>" and key.has_null)
        return column, key.column.cast(type_)
    except pa.ArrowInvalid:
        return None  # a number outside the column's range


def _is_integer(type_: DataType) -> bool:
    return isinstance(type_, Primitive) and type_.name in _INTEGERS
