"""Read statistics from the log as typed bounds that are safe for file skipping. Arrow parses only the requested columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import read_json_lines, struct_of
from rowmerge.delta.files.statistics import has_bounds, parse_statistics
from rowmerge.delta.files.text_values import from_text
from rowmerge.table.metadata.schema import DataType, Field, Primitive, Struct, arrow_type

_RECORDS = r'^\s*\{\s*"numRecords"\s*:\s*(?P<records>\d{1,18})\s*[,}]'
_WIDE = r'"tightBounds"\s*:\s*[^\st]'
_NOTHING = r"^\s*(null)?\s*$"  # A line with a bare null crashes pyarrow.json
_OLD_END = "\ufffd"
"""The end of a truncated maximum in versions of Delta up to 3.1. It sorts before characters above U+FFFF. If the last of the characters
before it was one of these, its first half became a question mark."""
_ROUNDED_OFFSETS_END = datetime(1972, 1, 8)
"""The time until which offsets of zones had seconds. Spark 3 writes a time with its offset in the session's zone, without these seconds."""
_DIGITS_OF_DOUBLE, _MAX_ERROR = 15, 4
"""The number of decimal digits that every double keeps, and the greatest error of a computed double in units of its last place."""
# Writers store these numbers as strings, because JSON cannot represent them. Such bounds count as unknown.
_NOT_FINITE = r'(":\s*)"(NaN|[+-]?Infinity)"'


@dataclass(frozen=True)
class ColumnStatistics:
    """The row count of each file, and the bounds and null counts of its columns. Unknown values are null."""

    records: pa.Array
    lower: pa.StructArray
    upper: pa.StructArray
    nulls: pa.StructArray
    has_invalid: bool = False
    """Whether the log contains a value that does not have the type of its column."""


@dataclass(frozen=True)
class FileStatistics(ColumnStatistics):
    """The statistics of files, with additional fields that only writers of the log need."""

    tight: pa.Array = field(default_factory=lambda: pa.array([], pa.bool_()))
    """Whether the bounds of each file are exact for its live rows. Null if the log has no `tightBounds`."""
    unreadable: pa.Array | None = None
    """A mask of the files whose JSON string is not valid as statistics of these columns. None if all strings are valid."""


def read_statistics(batch: pa.RecordBatch, fields: Sequence[Field], *, as_written: bool = False) -> FileStatistics:
    """Return the statistics of files for these columns. Invalid values are null.

    Args:
        batch: The statistics from the log, one row per file: the JSON string `stats`, the struct `parsed`, or both.
        fields: The columns, with their physical names.
        as_written: Whether to return bounds and null counts exactly as in the log. Otherwise, values that could exclude a file with
            matching rows are widened or null.
    """
    structs, unreadable, has_invalid = _typed_statistics(batch, bounds_type(fields), nulls_type(fields))
    records, tight, lower, upper, nulls = structs.flatten()
    valid_lower, valid_upper = _map_leaves(_without_nan, lower), _map_leaves(_without_nan, upper)
    valid_nulls = _map_leaves(_without_negative, nulls)
    valid_records = _without_negative(records)
    statistics = FileStatistics(valid_records, valid_lower, valid_upper, valid_nulls, has_invalid, tight, unreadable)
    return statistics if as_written else _safe_statistics(statistics)


def _safe_statistics(statistics: FileStatistics) -> FileStatistics:
    """Return the statistics with only those bounds and null counts that are safe for file skipping. The others are widened or null."""
    lower, upper = statistics.lower, statistics.upper
    # If `tightBounds` is not in the log, bounds are tight (PROTOCOL.md, Per-file Statistics).
    is_tight = pc.fill_null(statistics.tight, True)
    select_exact = partial(_counts_of_live_rows, records=statistics.records, tight=is_tight)
    safe_lower, safe_upper = _map_leaves(_safe_minima, lower, upper), _map_leaves(_safe_maxima, upper, lower)
    return replace(statistics, lower=safe_lower, upper=safe_upper, nulls=_map_leaves(select_exact, statistics.nulls))


def _typed_statistics(batch: pa.RecordBatch, bounds: pa.StructType, nulls: pa.StructType) -> tuple[pa.StructArray, pa.Array | None, bool]:
    """Return statistics as structs, from `stats` where possible, a mask of the invalid JSON strings, and whether any value is invalid.

    The mask is None if all strings are valid.
    """
    type_ = statistics_type(bounds, nulls)
    parsed = _typed(_parsed(batch), type_, batch.num_rows, _cast)
    has_invalid = _has_lost_values(_parsed(batch), parsed)
    if "stats" not in batch.schema.names:
        return parsed, None, has_invalid
    json_structs, unreadable = _parse_json(batch["stats"], statistics_type(_json_type(bounds), nulls))
    from_json = _typed(json_structs, type_, batch.num_rows, _from_json)
    has_invalid |= _has_lost_values(json_structs, from_json) or (unreadable is not None and bool(pc.any(unreadable).as_py()))
    return _map_leaves(pc.coalesce, from_json, parsed), unreadable, has_invalid


def _has_lost_values(values: pa.Array | None, converted: pa.Array) -> bool:
    """Return whether a conversion has replaced a value by null. The conversion may omit fields of structs."""
    if pa.types.is_struct(converted.type):
        return any(_has_lost_values(child_of(values, field.name), pc.struct_field(converted, [field.name])) for field in converted.type)
    return values is not None and bool(converted.null_count > values.null_count)


def read_records(batch: pa.RecordBatch) -> pa.Array:
    """Return the row count of each file from `stats` or `parsed`, null if unknown. Parse no JSON string that begins with the count."""
    parsed_counts = _typed(child_of(_parsed(batch), "numRecords"), pa.int64(), batch.num_rows, _cast)
    if "stats" not in batch.schema.names:
        return parsed_counts
    leading_counts = pc.struct_field(pc.extract_regex(batch["stats"], _RECORDS), ["records"])
    has_text = pc.fill_null(pc.not_equal(batch["stats"], ""), False)
    if pc.any(pc.and_(has_text, pc.is_null(leading_counts))).as_py():
        return read_statistics(batch, []).records
    return pc.coalesce(leading_counts.cast(pa.int64()), parsed_counts)


def read_tight(batch: pa.RecordBatch) -> pa.Array:
    """Return for each file whether its bounds are tight, from `stats` or `parsed`. In doubt, they are not."""
    parsed = _typed(child_of(_parsed(batch), "tightBounds"), pa.bool_(), batch.num_rows, _cast)
    is_tight = pc.fill_null(parsed, True)
    if "stats" not in batch.schema.names:
        return is_tight
    # A search finds the flag faster than a parser.
    return pc.and_(is_tight, pc.invert(pc.fill_null(pc.match_substring_regex(batch["stats"], _WIDE), False)))


def bounds_type(fields: Iterable[Field]) -> pa.StructType:
    """Return the Arrow type of `lower` and `upper`: a struct of the columns that have bounds, with nested structs."""
    return pa.struct([(field.name, _bound_type(field.type)) for field in fields if _has_bounds(field.type)])


def nulls_type(fields: Iterable[Field]) -> pa.StructType:
    """Return the Arrow type of `nulls`: a struct with a count for each column, with nested structs."""
    return pa.struct([(field.name, nulls_type(field.type) if isinstance(field.type, Struct) else pa.int64()) for field in fields])


def _bound_type(type_: DataType) -> pa.DataType:
    return bounds_type(type_) if isinstance(type_, Struct) else arrow_type(type_)


def _has_bounds(type_: DataType) -> bool:
    """Return whether a column of this type can have bounds. Booleans are included, because some writers store their bounds."""
    if isinstance(type_, Struct):
        return any(_has_bounds(field.type) for field in type_)
    return has_bounds(type_) or type_ == Primitive("boolean")


def statistics_type(bounds: pa.StructType, nulls: pa.StructType) -> pa.StructType:
    """Return the Arrow type of a file's statistics in the log (PROTOCOL.md, Per-file Statistics).

    Args:
        bounds: The type of `minValues` and of `maxValues`.
        nulls: The type of `nullCount`.
    """
    counts = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    return pa.struct([*counts, ("minValues", bounds), ("maxValues", bounds), ("nullCount", nulls)])


def _json_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of a bound in JSON: strings for dates and timestamps, and int64 for integers of every width."""
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _json_type(field.type)) for field in type_])
    if pa.types.is_temporal(type_):
        return pa.string()
    return pa.int64() if pa.types.is_integer(type_) else type_


def _parse_json(stats: pa.Array, type_: pa.StructType) -> tuple[pa.StructArray, pa.Array | None]:
    """Return JSON strings as structs, and a mask of the invalid strings (None if all are valid)."""
    if not len(stats):
        return pa.array([], type_), None
    texts = _as_single_lines(pc.coalesce(stats, "{}"), has_floats=_has_floats(type_))
    table = _read_lines(texts, pa.schema(list(type_)))
    if table is None or table.num_rows != len(stats):
        return _parse_one_by_one(texts.to_pylist(), type_)
    return struct_of([column.combine_chunks() for column in table.columns], list(type_), len(stats)), None


def _has_floats(type_: pa.DataType) -> bool:
    return any(_has_floats(field.type) for field in type_) if pa.types.is_struct(type_) else pa.types.is_floating(type_)


def _as_single_lines(texts: pa.Array, *, has_floats: bool) -> pa.Array:
    """Return JSON strings without line breaks, and `{}` for each empty string. Non-finite numbers become null."""
    if has_floats:
        texts = pc.replace_substring_regex(texts, _NOT_FINITE, r"\1null")
    characters = np.frombuffer(_characters(texts), np.uint8)
    if pc.all(pc.starts_with(texts, "{")).as_py() and not any((characters == ord(end)).any() for end in "\r\n"):
        return texts
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"[\r\n]", " "), _NOTHING, "{}")


def _read_lines(texts: pa.Array, schema: pa.Schema) -> pa.Table | None:
    """Parse one JSON object per string with Arrow. Return None if Arrow rejects any of them."""
    lines = pc.binary_join_element_wise(texts, "", "\n")
    try:
        return read_json_lines(_characters(lines), schema, longest_line=pc.max(pc.binary_length(lines)).as_py())
    except pa.ArrowInvalid:
        return None


def _parse_one_by_one(texts: Sequence[str], type_: pa.StructType) -> tuple[pa.StructArray, pa.Array]:
    """Parse JSON strings one by one, and return a mask of the invalid strings. Values of unexpected types become null."""
    rows, unreadable = [], []
    for text in texts:
        statistics = parse_statistics(text)
        row = _coerce(statistics or {}, type_)
        unreadable.append(statistics is None or not _is_coercible(statistics, row))
        if statistics and statistics.get("tightBounds") is not None and row["tightBounds"] is None:
            row["tightBounds"] = False  # null counts may include deleted rows
        rows.append(row)
    return pa.array(rows, type_), pa.array(unreadable)


def _characters(texts: pa.Array) -> pa.Buffer:
    """Return the concatenated characters of a string array, in UTF-8."""
    offsets, data = texts.buffers()[1:]
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return data.slice(int(ends[0]), int(ends[-1] - ends[0]))


def _coerce(value: Any, type_: pa.DataType) -> Any:
    """Convert a parsed JSON value to an Arrow type. Return None if the value has a different type."""
    if pa.types.is_struct(type_):
        return {field.name: _coerce(value.get(field.name), field.type) for field in type_} if isinstance(value, dict) else None
    try:
        if pa.types.is_boolean(type_) or pa.types.is_string(type_):
            return pa.scalar(value, type_).as_py()
        return _coerce_number(value, type_)
    except (pa.ArrowException, InvalidOperation, OverflowError, UnicodeError, ValueError, TypeError):
        return None


def _coerce_number(value: Any, type_: pa.DataType) -> Any:
    """Convert a parsed JSON number to an Arrow type. Return None for other values. Some numbers out of range raise an error."""
    if isinstance(value, bool | str | dict | list | None):
        return None
    number = Decimal(value)
    if pa.types.is_integer(type_):
        return int(number) if -(2**63) <= number < 2**63 and number == int(number) else None
    return pa.scalar(float(number) if pa.types.is_floating(type_) else number, type_).as_py()


def _is_coercible(value: Any, coerced: Any) -> bool:
    """Return whether a JSON value and all its members have the expected types. `coerced` is the result of `_coerce` for `value`."""
    if isinstance(coerced, dict):
        return all(_is_coercible(value.get(name), child) for name, child in coerced.items())
    return value is None or coerced is not None


def _typed(values: pa.Array | None, type_: pa.DataType, length: int, convert: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    """Convert values to a type with `convert`, field by field for structs. Absent values and fields become null."""
    if pa.types.is_struct(type_):
        children = [_typed(child_of(values, field.name), field.type, length, convert) for field in type_]
        return struct_of(children, list(type_), length)
    return pa.nulls(length, type_) if values is None else convert(values, type_)


def _from_json(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert bounds from their JSON type (`_json_type`) to the type of their column. Values out of range become null."""
    if values.type == type_:
        return values
    if pa.types.is_string(values.type):
        try:
            return from_text(values, type_)
        except pa.ArrowInvalid:
            # One invalid string makes Arrow reject all of them. So each string is parsed alone, and only the invalid ones become null.
            return pa.array([_value_from_text(text, type_) for text in values.to_pylist()], type_)
    # The values are int64, and the column has a narrower signed integer type.
    limit = 2 ** (type_.bit_width - 1)
    is_in_range = pc.and_(pc.greater_equal(values, -limit), pc.less(values, limit))
    return _null_unless(is_in_range, values).cast(type_)


def _value_from_text(text: str | None, type_: pa.DataType) -> Any:
    """Parse one bound. Return None if the string is invalid."""
    try:
        return from_text(pa.array([text], pa.string()), type_)[0].as_py()
    except pa.ArrowInvalid:
        return None


def _map_leaves(convert: Callable[..., pa.Array], *values: pa.Array) -> pa.Array:
    """Apply `convert` to each leaf field of struct arrays of the same type. Its arguments are the field's values in each array."""
    type_ = values[0].type
    if not pa.types.is_struct(type_):
        return convert(*values)
    children = [_map_leaves(convert, *(pc.struct_field(struct, [field.name]) for struct in values)) for field in type_]
    return struct_of(children, list(type_), len(values[0]))


def _without_nan(bounds: pa.Array) -> pa.Array:
    return _null_unless(pc.invert(pc.is_nan(bounds)), bounds) if pa.types.is_floating(bounds.type) else bounds


def _without_negative(counts: pa.Array) -> pa.Array:
    return _null_unless(pc.greater_equal(counts, 0), counts)


def _safe_minima(minima: pa.Array, maxima: pa.Array) -> pa.Array:
    """Return the minima that are safe for file skipping, and null for the others."""
    if pa.types.is_timestamp(minima.type):
        return _moved_times(minima, -60_000_000, 0)
    if pa.types.is_decimal(minima.type):
        return _widened_decimals(minima, -np.inf)
    # If one bound of a float column was not finite, the column may contain NaN, which the other bound does not cover.
    return _null_unless(pc.is_valid(maxima), minima) if pa.types.is_floating(minima.type) else minima


def _safe_maxima(maxima: pa.Array, minima: pa.Array) -> pa.Array:
    """Return the maxima that are safe for file skipping, null for the others. Timestamps are widened by a millisecond of truncation."""
    if pa.types.is_timestamp(maxima.type):
        return _moved_times(maxima, 60_000_000, 1000)
    if pa.types.is_decimal(maxima.type):
        return _widened_decimals(maxima, np.inf)
    if pa.types.is_string(maxima.type) and pc.any(pc.ends_with(maxima, _OLD_END)).as_py():
        return pc.replace_substring_regex(maxima, rf"\??{_OLD_END}$", "\U0010ffff")
    return _safe_minima(maxima, minima)


def _moved_times(times: pa.Array, old: int, new: int) -> pa.Array:
    """Add a number of microseconds to each timestamp. The result is null where it could be out of range.

    Args:
        times: The timestamps.
        old: The microseconds to add to timestamps before `_ROUNDED_OFFSETS_END`.
        new: The microseconds to add to later timestamps, and to all timestamps without a zone.
    """
    numbers, end = times.view(pa.int64()), pa.scalar(_ROUNDED_OFFSETS_END, pa.timestamp("us")).cast(pa.int64())
    distances = new if times.type.tz is None else pc.if_else(pc.less(numbers, end), old, new)
    fits = pc.and_(pc.greater(numbers, -(2**63) + abs(old)), pc.less(numbers, 2**63 - 1 - abs(old)))
    return pc.add(_null_unless(fits, numbers), distances).view(times.type)


def _widened_decimals(bounds: pa.Array, direction: float) -> pa.Array:
    """Return bounds, moved in a direction by the error of a double if they have more digits than a double keeps.

    delta-rs computes the bounds of decimals as doubles. A bound that no longer fits its type is unknown.
    """
    type_ = bounds.type
    numbers = bounds.cast(pa.float64(), safe=False)
    is_long = pc.fill_null(pc.greater_equal(pc.abs(numbers), 10.0 ** (_DIGITS_OF_DOUBLE - type_.scale)), False)
    if not pc.any(is_long).as_py():
        return bounds
    ends = pc.fill_null(numbers, 0.0).to_numpy(zero_copy_only=False)
    for _ in range(_MAX_ERROR):
        ends = np.nextafter(ends, direction)
    moved = pa.array(ends).cast(pa.decimal256(76, type_.scale), safe=False)
    limit = pa.scalar(Decimal(10) ** (type_.precision - type_.scale), moved.type)
    fits = pc.less(pc.abs(moved), limit)
    return pc.if_else(is_long, _null_unless(fits, moved), bounds.cast(moved.type)).cast(type_)


def _counts_of_live_rows(counts: pa.Array, *, records: pa.Array, tight: pa.Array) -> pa.Array:
    """Return the null counts that are exact for live rows, and null for the others.

    With wide bounds, null counts include deleted rows. In that case, a count is exact only if no value or every value in the file is null.
    """
    return _null_unless(pc.or_(tight, pc.or_(pc.equal(counts, 0), pc.equal(counts, records))), counts)


def _null_unless(mask: pa.Array, values: pa.Array) -> pa.Array:
    """Return the values for which the mask is true, and null for the others."""
    return pc.if_else(pc.fill_null(mask, False), values, pa.scalar(None, values.type))


def _parsed(batch: pa.RecordBatch) -> pa.StructArray | None:
    return batch["parsed"] if "parsed" in batch.schema.names else None


def child_of(struct: pa.Array | None, name: str) -> pa.Array | None:
    """Return the values of a struct field, or None if the structs do not have the field.

    Args:
        struct: The struct array, or None if it is absent. An array of any other type has no fields.
        name: The name of the field.
    """
    if struct is None or not pa.types.is_struct(struct.type) or struct.type.get_field_index(name) < 0:
        return None
    return pc.struct_field(struct, [name])


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast the values to a type. Return only nulls if any value cannot be converted."""
    try:
        return values.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), type_)
