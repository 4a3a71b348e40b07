"""From the log's statistics to typed bounds that are safe to prune by, parsed in Arrow and only for the columns asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from rowmerge.delta.files.columns import struct_of
from rowmerge.delta.files.statistics import has_bounds, readable_statistics
from rowmerge.delta.files.text_values import from_text
from rowmerge.table.metadata.schema import DataType, Field, Primitive, Struct, arrow_type

_TEXT = ("date", "timestamp", "timestamp_ntz")
_WHOLE = ("long", "integer", "short", "byte")
_FLOATING = ("double", "float")
_RECORDS = r'^\s*\{\s*"numRecords"\s*:\s*(?P<records>\d{1,18})\s*[,}]'
_NOTHING = r"^\s*(null)?\s*$"  # A line that is a bare null crashes the process in pyarrow.json
# Numbers that JSON cannot hold come as strings; as a bound, each means: unknown.
_NOT_FINITE = r'(":\s*)"(NaN|[+-]?Infinity)"'


@dataclass(frozen=True)
class FileStatistics:
    """Of some files: `records`; `lower`, `upper` and `nulls` by column, null where unknown."""

    records: pa.Array
    lower: pa.StructArray
    upper: pa.StructArray
    nulls: pa.StructArray
    tight: pa.Array
    """Whether the bounds are those of the live rows; null where the log does not say."""
    unreadable: pa.Array | None = None
    """Which texts are no statistics of such columns, None if all are."""


def read_statistics(batch: pa.RecordBatch, fields: Sequence[Field], *, as_written: bool = False) -> FileStatistics:
    """The statistics of files (columns `stats`, `parsed`) for these columns.

    With `as_written` they are the log's own. Else maxima of timestamps are a millisecond higher, for writers cut the rest off, and counts
    that do not tell anything are null.
    """
    bounded = [field for field in fields if _bound_type(field.type) is not None]
    json_, unreadable = _parsed_json(batch["stats"], fields, bounded) if "stats" in batch.schema.names else (None, None)
    struct = batch["parsed"] if "parsed" in batch.schema.names else None
    records = _first(_child(json_, "numRecords"), _cast(_child(struct, "numRecords"), pa.int64()), pa.nulls(batch.num_rows, pa.int64()))
    tight = _first(_child(json_, "tightBounds"), _cast(_child(struct, "tightBounds"), pa.bool_()), pa.nulls(batch.num_rows, pa.bool_()))
    records = _not_negative(records)
    sides = [[_child(source, side) for source in (json_, struct)] for side in ("minValues", "maxValues")]
    lower, upper = _bounds(bounded, sides[0], sides[1], batch.num_rows, raw=as_written)
    nulls = _null_counts(fields, [_child(source, "nullCount") for source in (json_, struct)], batch.num_rows)
    if not as_written:
        nulls = _telling(nulls, records, pc.fill_null(tight, True))
    return FileStatistics(records, lower, upper, nulls, tight, unreadable)


def read_records(batch: pa.RecordBatch) -> pa.Array:
    """The row counts of files (columns `stats`, `parsed`), null where unknown; JSON is parsed only where they do not come first in it."""
    struct = batch["parsed"] if "parsed" in batch.schema.names else None
    typed = _cast(_child(struct, "numRecords"), pa.int64())
    if "stats" not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.int64()) if typed is None else typed
    first = pc.struct_field(pc.extract_regex(batch["stats"], _RECORDS), ["records"])
    there = pc.and_(pc.is_valid(batch["stats"]), pc.invert(pc.equal(batch["stats"], "")))
    if pc.any(pc.and_(pc.fill_null(there, False), pc.is_null(first))).as_py():
        return read_statistics(batch, []).records
    return _first(first.cast(pa.int64()), typed)


def bounds_type(fields: Iterable[Field]) -> pa.StructType:
    """The type of `lower` and `upper`: columns that have bounds, fields of structs nested."""
    found = [(field.name, _bound_type(field.type)) for field in fields]
    return pa.struct([(name, type_) for name, type_ in found if type_ is not None])


def nulls_type(fields: Iterable[Field]) -> pa.StructType:
    """The type of `nulls`: a count for every column, fields of structs nested."""
    return pa.struct([(field.name, nulls_type(field.type) if isinstance(field.type, Struct) else pa.int64()) for field in fields])


def _bound_type(type_: DataType) -> pa.DataType | None:
    if isinstance(type_, Struct):
        inner = bounds_type(type_)
        return inner if inner.num_fields else None
    return arrow_type(type_) if has_bounds(type_) or type_ == Primitive("boolean") else None


def _json_type(type_: DataType) -> pa.DataType:
    """What JSON holds a bound as."""
    if isinstance(type_, Struct):
        return pa.struct([(field.name, _json_type(field.type)) for field in type_ if _bound_type(field.type) is not None])
    if isinstance(type_, Primitive) and type_.name in _TEXT:
        return pa.string()
    if isinstance(type_, Primitive) and type_.name in _WHOLE:
        return pa.int64()
    return arrow_type(type_)


# ------------------------------------------------------------------ parsing


def _parsed_json(stats: pa.Array, fields: Sequence[Field], bounded: Sequence[Field]) -> tuple[pa.StructArray, pa.Array | None]:
    """The statistics in typed fields, and which texts are none if any are not."""
    sides = pa.struct([(field.name, _json_type(field.type)) for field in bounded])
    counts = [("numRecords", pa.int64()), ("tightBounds", pa.bool_()), ("nullCount", nulls_type(fields))]
    schema = pa.schema([*counts, ("minValues", sides), ("maxValues", sides)])
    if not len(stats):
        return struct_of([pa.nulls(0, field.type) for field in schema], list(schema), 0), None
    text = pc.coalesce(stats, "{}")
    if any(_has_floats(field.type) for field in bounded):
        text = pc.replace_substring_regex(text, _NOT_FINITE, r"\1null")
    characters = np.frombuffer(_characters(text), np.uint8)
    if not pc.all(pc.starts_with(text, "{")).as_py() or any((characters == ord(end)).any() for end in "\r\n"):
        text = pc.replace_substring_regex(pc.replace_substring_regex(text, r"[\r\n]", " "), _NOTHING, "{}")
    lines = pc.binary_join_element_wise(text, "", "\n")
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(_characters(lines)),
            read_options=pyarrow.json.ReadOptions(block_size=max(1 << 20, 2 * pc.max(pc.binary_length(lines)).as_py())),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        table = None
    if table is None or table.num_rows != len(stats):
        # A writer took another type than ours for some value: what fits is taken, one file after the other.
        values = [readable_statistics(row) for row in text.to_pylist()]
        rows = [_fitting(value or {}, pa.struct(list(schema))) for value in values]
        unreadable = [value is None or not _fits(value, row) for value, row in zip(values, rows, strict=True)]
        for row, value in zip(rows, values, strict=True):
            if value and value.get("tightBounds") is not None and row["tightBounds"] is None:
                row["tightBounds"] = False  # counts of nulls could be those of deleted rows
        return pa.array(rows, pa.struct(list(schema))), pa.array(unreadable)
    return struct_of([column.combine_chunks() for column in table.columns], list(schema), len(stats)), None


def _characters(text: pa.Array) -> pa.Buffer:
    """The characters of a string array, one string after the other."""
    offsets, data = text.buffers()[1:]
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    return data.slice(int(ends[0]), int(ends[-1] - ends[0]))


def _fitting(value: Any, type_: pa.DataType) -> Any:
    """The value if it is one of the type, else None: unknown."""
    if pa.types.is_struct(type_):
        return {field.name: _fitting(value.get(field.name), field.type) for field in type_} if isinstance(value, dict) else None
    try:
        if pa.types.is_boolean(type_) or pa.types.is_string(type_):
            return pa.scalar(value, type_).as_py()
        if value is None or isinstance(value, bool | str | dict | list):
            return None
        number = Number(value)
        if pa.types.is_integer(type_):
            return int(number) if -(2**63) <= number < 2**63 and number == int(number) else None
        return pa.scalar(float(number) if pa.types.is_floating(type_) else number, type_).as_py()
    except (pa.ArrowException, InvalidOperation, OverflowError, UnicodeError, ValueError, TypeError):
        return None


def _fits(value: Any, fitting: Any) -> bool:
    """Whether all of a value that is looked at has the type that it must have; `fitting` is what `_fitting` made of it."""
    if isinstance(fitting, dict):
        return all(_fits(value.get(name), part) for name, part in fitting.items())
    return value is None or fitting is not None


def _has_floats(type_: DataType) -> bool:
    return any(_has_floats(field.type) for field in type_) if isinstance(type_, Struct) else getattr(type_, "name", "") in _FLOATING


# ------------------------------------------------------------------ bounds


def _bounds(
    fields: Iterable[Field], lows: Sequence[pa.Array | None], highs: Sequence[pa.Array | None], length: int, *, raw: bool
) -> tuple[pa.StructArray, pa.StructArray]:
    """Lower and upper bounds of some columns; `lows` and `highs` are the structs of JSON and of `stats_parsed`, in this order."""
    lower, upper, names = [], [], []
    for field in fields:
        if _bound_type(field.type) is None:
            continue
        sides = [[_child(source, field.name) for source in sources] for sources in (lows, highs)]
        if isinstance(field.type, Struct):
            low, high = _bounds(field.type, sides[0], sides[1], length, raw=raw)
        else:
            low, high = (_value(side[0], side[1], field.type, length) for side in sides)
            low, high = _safe(low, high, field.type, raw=raw)
        names.append(pa.field(field.name, low.type))
        lower.append(low)
        upper.append(high)
    return struct_of(lower, names, length), struct_of(upper, names, length)


def _value(json_: pa.Array | None, struct: pa.Array | None, type_: DataType, length: int) -> pa.Array:
    arrow = arrow_type(type_)
    values = pa.nulls(length, arrow) if json_ is None else _from_json(json_, type_, arrow)
    return values if struct is None else pc.coalesce(values, _cast(struct, arrow))


def _from_json(values: pa.Array, type_: DataType, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_string(values.type):
        try:
            return from_text(values, type_)
        except pa.ArrowInvalid:
            return pa.array([_single(value, type_) for value in values.to_pylist()], arrow)
    if pa.types.is_integer(arrow) and arrow != values.type:
        limit = 2 ** (arrow.bit_width - 1)
        fits = pc.and_(pc.greater_equal(values, -limit), pc.less(values, limit))
        return pc.if_else(fits, values, pa.scalar(None, values.type)).cast(arrow)
    return values


def _single(value: str | None, type_: DataType) -> Any:
    try:
        return from_text(pa.array([value], pa.string()), type_)[0].as_py()
    except pa.ArrowInvalid:
        return None


def _safe(low: pa.Array, high: pa.Array, type_: DataType, *, raw: bool) -> tuple[pa.Array, pa.Array]:
    if isinstance(type_, Primitive) and type_.name in _FLOATING:
        low, high = (pc.if_else(pc.is_nan(side), pa.scalar(None, side.type), side) for side in (low, high))
        if not raw:
            # A bound that was not finite is gone, and with it what the other one says about values that are not numbers.
            both = pc.and_(pc.is_valid(low), pc.is_valid(high))
            low, high = (pc.if_else(both, side, pa.scalar(None, side.type)) for side in (low, high))
    elif not raw and pa.types.is_timestamp(high.type):
        millisecond, last = pa.scalar(1000, pa.duration("us")), pa.scalar(2**63 - 1001, pa.int64()).cast(high.type)
        high = pc.if_else(pc.less(high, last), pc.add(high, millisecond), pa.scalar(None, high.type))
    return low, high


def _null_counts(fields: Iterable[Field], sources: Sequence[pa.Array | None], length: int) -> pa.StructArray:
    counts, names = [], []
    for field in fields:
        inner = [_child(source, field.name) for source in sources]
        if isinstance(field.type, Struct):
            count: pa.Array = _null_counts(field.type, inner, length)
        else:
            count = _first(*(_cast(source, pa.int64()) for source in inner))
            count = pa.nulls(length, pa.int64()) if count is None else _not_negative(count)
        names.append(pa.field(field.name, count.type))
        counts.append(count)
    return struct_of(counts, names, length)


def _not_negative(counts: pa.Array) -> pa.Array:
    """Counts that make no sense are unknown."""
    return pc.if_else(pc.greater_equal(counts, 0), counts, pa.scalar(None, counts.type))


def _telling(counts: pa.Array, records: pa.Array, tight: pa.Array) -> pa.Array:
    """With wide bounds a count says something only when it is none or all."""
    if pa.types.is_struct(counts.type):
        inner = [_telling(pc.struct_field(counts, [field.name]), records, tight) for field in counts.type]
        return struct_of(inner, list(counts.type), len(counts))
    exact = pc.or_(tight, pc.or_(pc.equal(counts, 0), pc.equal(counts, records)))
    return pc.if_else(pc.fill_null(exact, False), counts, pa.scalar(None, counts.type))


# ------------------------------------------------------------------ structs


def _child(struct: pa.Array | None, name: str) -> pa.Array | None:
    if struct is None or not pa.types.is_struct(struct.type) or struct.type.get_field_index(name) < 0:
        return None
    return pc.struct_field(struct, [name])


def _cast(values: pa.Array | None, type_: pa.DataType) -> pa.Array | None:
    """The values in a type, null as a whole where they are of something else altogether."""
    if values is None or values.type == type_:
        return values
    try:
        return values.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), type_)


def _first(*values: pa.Array | None) -> pa.Array | None:
    there = [value for value in values if value is not None]
    return pc.coalesce(*there) if there else None
