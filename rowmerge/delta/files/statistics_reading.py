"""Conversion of the log's statistics to typed bounds that are safe for file skipping. Arrow parses only the requested columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import read_json_lines, struct_of
from rowmerge.delta.files.statistics import has_bounds, parse_statistics
from rowmerge.delta.files.text_values import from_text
from rowmerge.table.metadata.schema import DataType, Field, Primitive, Struct, arrow_type

_TEXT = ("date", "timestamp", "timestamp_ntz")
_WHOLE = ("long", "integer", "short", "byte")
_FLOATING = ("double", "float")
_RECORDS = r'^\s*\{\s*"numRecords"\s*:\s*(?P<records>\d{1,18})\s*[,}]'
_NOTHING = r"^\s*(null)?\s*$"  # A line that is a bare null crashes the process in pyarrow.json
# Writers spell these numbers as strings, because JSON has none. As bounds, they mean: unknown.
_NOT_FINITE = r'(":\s*)"(NaN|[+-]?Infinity)"'


@dataclass(frozen=True)
class ColumnStatistics:
    """Row counts of files, and bounds and null counts by column; null if unknown."""

    records: pa.Array
    lower: pa.StructArray
    upper: pa.StructArray
    nulls: pa.StructArray


@dataclass(frozen=True)
class FileStatistics(ColumnStatistics):
    """Statistics with the fields that only writers of the log need."""

    tight: pa.Array
    """Whether the bounds are exact for the live rows; null if the log does not say."""
    unreadable: pa.Array | None = None
    """Which texts are invalid as statistics of these columns, None if all are valid."""


def read_statistics(batch: pa.RecordBatch, fields: Sequence[Field], *, as_written: bool = False) -> FileStatistics:
    """Return the statistics of files (columns `stats`, `parsed`) for these columns.

    With `as_written`, they are unchanged. Otherwise, timestamp maxima are a millisecond higher, because writers truncate them, and
    null counts that say nothing about the live rows are null.
    """
    from_json = unreadable = None
    if "stats" in batch.schema.names:
        from_json, unreadable = _parse_json(batch["stats"], fields)
    sources = _Sources(from_json, _parsed(batch), batch.num_rows)
    records = _without_negative(sources.child("numRecords").values(pa.int64()))
    tight = sources.child("tightBounds").values(pa.bool_())
    lower, upper = _bounds(fields, sources.child("minValues"), sources.child("maxValues"), as_written=as_written)
    nulls = _null_counts(fields, sources.child("nullCount"))
    if not as_written:
        nulls = _null_counts_of_live_rows(nulls, records, pc.fill_null(tight, True))
    return FileStatistics(records, lower, upper, nulls, tight, unreadable)


@dataclass(frozen=True)
class _Sources:
    """The same values of files from `stats` and from `parsed`; None if a source lacks them."""

    from_json: pa.Array | None
    from_struct: pa.Array | None
    length: int

    def child(self, name: str) -> _Sources:
        return _Sources(_child(self.from_json, name), _child(self.from_struct, name), self.length)

    def values(self, type_: pa.DataType) -> pa.Array:
        """Return the values of `stats`, or else those of `parsed` in this type, or else null."""
        values = [source for source in (self.from_json, _cast(self.from_struct, type_)) if source is not None]
        return pc.coalesce(*values) if values else pa.nulls(self.length, type_)


def read_records(batch: pa.RecordBatch) -> pa.Array:
    """Return the row counts of files (columns `stats`, `parsed`), null if unknown. JSON that begins with the count is not parsed."""
    leading_counts = None
    if "stats" in batch.schema.names:
        leading_counts = pc.struct_field(pc.extract_regex(batch["stats"], _RECORDS), ["records"])
        has_text = pc.fill_null(pc.not_equal(batch["stats"], ""), False)
        if pc.any(pc.and_(has_text, pc.is_null(leading_counts))).as_py():
            return read_statistics(batch, []).records
        leading_counts = leading_counts.cast(pa.int64())
    return _Sources(leading_counts, _child(_parsed(batch), "numRecords"), batch.num_rows).values(pa.int64())


def bounds_type(fields: Iterable[Field]) -> pa.StructType:
    """Return the type of `lower` and `upper`: the columns that have bounds, with nested structs."""
    return pa.struct([(field.name, _bound_type(field.type)) for field in fields if _has_bounds(field.type)])


def nulls_type(fields: Iterable[Field]) -> pa.StructType:
    """Return the type of `nulls`: a count for each column, with nested structs."""
    return pa.struct([(field.name, nulls_type(field.type) if isinstance(field.type, Struct) else pa.int64()) for field in fields])


def _bound_type(type_: DataType) -> pa.DataType:
    return bounds_type(type_) if isinstance(type_, Struct) else arrow_type(type_)


def _has_bounds(type_: DataType) -> bool:
    """Return whether a column of this type can have bounds: other writers than ours give booleans bounds too."""
    if isinstance(type_, Struct):
        return any(_has_bounds(field.type) for field in type_)
    return has_bounds(type_) or type_ == Primitive("boolean")


def _json_type(type_: DataType) -> pa.DataType:
    """Return the type as which JSON has a bound."""
    if isinstance(type_, Struct):
        return pa.struct([(field.name, _json_type(field.type)) for field in type_ if _has_bounds(field.type)])
    if isinstance(type_, Primitive) and type_.name in _TEXT:
        return pa.string()
    if isinstance(type_, Primitive) and type_.name in _WHOLE:
        return pa.int64()
    return arrow_type(type_)


def _parse_json(stats: pa.Array, fields: Sequence[Field]) -> tuple[pa.StructArray, pa.Array | None]:
    """Return the statistics in typed fields, and a mask of the invalid texts, None if all are valid."""
    schema = _json_schema(fields)
    if not len(stats):
        return struct_of([pa.nulls(0, field.type) for field in schema], list(schema), 0), None
    texts = _as_single_lines(pc.coalesce(stats, "{}"), has_floats=any(_has_floats(field.type) for field in fields))
    table = _read_lines(texts, schema)
    if table is None or table.num_rows != len(stats):
        return _parse_one_by_one(texts.to_pylist(), pa.struct(list(schema)))
    return struct_of([column.combine_chunks() for column in table.columns], list(schema), len(stats)), None


def _json_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the fields of statistics in JSON for these columns."""
    bounds = pa.struct([(field.name, _json_type(field.type)) for field in fields if _has_bounds(field.type)])
    counts = [("numRecords", pa.int64()), ("tightBounds", pa.bool_()), ("nullCount", nulls_type(fields))]
    return pa.schema([*counts, ("minValues", bounds), ("maxValues", bounds)])


def _as_single_lines(texts: pa.Array, *, has_floats: bool) -> pa.Array:
    """Return the texts without line breaks, and `{}` for an empty one. Numbers that are not finite become null."""
    if has_floats:
        texts = pc.replace_substring_regex(texts, _NOT_FINITE, r"\1null")
    characters = np.frombuffer(_characters(texts), np.uint8)
    if pc.all(pc.starts_with(texts, "{")).as_py() and not any((characters == ord(end)).any() for end in "\r\n"):
        return texts
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"[\r\n]", " "), _NOTHING, "{}")


def _read_lines(texts: pa.Array, schema: pa.Schema) -> pa.Table | None:
    """Parse one JSON object per text with Arrow. Return None if Arrow rejects any."""
    lines = pc.binary_join_element_wise(texts, "", "\n")
    try:
        return read_json_lines(_characters(lines), schema, longest_line=pc.max(pc.binary_length(lines)).as_py())
    except pa.ArrowInvalid:
        return None


def _parse_one_by_one(texts: Sequence[str], type_: pa.StructType) -> tuple[pa.StructArray, pa.Array]:
    """Parse texts of which some have values of other types, and return which ones. Values of other types become null."""
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
    """Return the characters of a string array, one string after the other."""
    offsets, data = texts.buffers()[1:]
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return data.slice(int(ends[0]), int(ends[-1] - ends[0]))


def _coerce(value: Any, type_: pa.DataType) -> Any:
    """Return the value if it is one of the type, and otherwise None: unknown."""
    if pa.types.is_struct(type_):
        return {field.name: _coerce(value.get(field.name), field.type) for field in type_} if isinstance(value, dict) else None
    try:
        if pa.types.is_boolean(type_) or pa.types.is_string(type_):
            return pa.scalar(value, type_).as_py()
        return None if isinstance(value, bool | str | dict | list | None) else _coerce_number(Number(value), type_)
    except (pa.ArrowException, InvalidOperation, OverflowError, UnicodeError, ValueError, TypeError):
        return None


def _coerce_number(number: Number, type_: pa.DataType) -> Any:
    if pa.types.is_integer(type_):
        return int(number) if -(2**63) <= number < 2**63 and number == int(number) else None
    return pa.scalar(float(number) if pa.types.is_floating(type_) else number, type_).as_py()


def _is_coercible(value: Any, coerced: Any) -> bool:
    """Return whether every value that was read has the type that it must have. `coerced`: the result of `_coerce`."""
    if isinstance(coerced, dict):
        return all(_is_coercible(value.get(name), child) for name, child in coerced.items())
    return value is None or coerced is not None


def _has_floats(type_: DataType) -> bool:
    return any(_has_floats(field.type) for field in type_) if isinstance(type_, Struct) else getattr(type_, "name", "") in _FLOATING


def _bounds(fields: Iterable[Field], minima: _Sources, maxima: _Sources, *, as_written: bool) -> tuple[pa.StructArray, pa.StructArray]:
    """Return the lower and upper bounds of the columns that have any."""
    bounded = [field for field in fields if _has_bounds(field.type)]
    bounds = [_field_bounds(field.type, minima.child(field.name), maxima.child(field.name), as_written=as_written) for field in bounded]
    types = [pa.field(field.name, lower.type) for field, (lower, _) in zip(bounded, bounds, strict=True)]
    lower_bounds = struct_of([lower for lower, _ in bounds], types, minima.length)
    return lower_bounds, struct_of([upper for _, upper in bounds], types, minima.length)


def _field_bounds(type_: DataType, minima: _Sources, maxima: _Sources, *, as_written: bool) -> tuple[pa.Array, pa.Array]:
    """Return the lower and upper bounds of one column."""
    if isinstance(type_, Struct):
        return _bounds(type_, minima, maxima, as_written=as_written)
    lower, upper = _typed_values(minima, type_), _typed_values(maxima, type_)
    if isinstance(type_, Primitive) and type_.name in _FLOATING:
        return _float_bounds(lower, upper, as_written=as_written)
    if pa.types.is_timestamp(upper.type) and not as_written:
        millisecond, highest = pa.scalar(1000, pa.duration("us")), pa.scalar(2**63 - 1001, pa.int64()).cast(upper.type)
        upper = pc.if_else(pc.less(upper, highest), pc.add(upper, millisecond), pa.scalar(None, upper.type))
    return lower, upper


def _float_bounds(lower: pa.Array, upper: pa.Array, *, as_written: bool) -> tuple[pa.Array, pa.Array]:
    """Return the bounds with null for NaN."""
    lower, upper = (pc.if_else(pc.is_nan(side), pa.scalar(None, side.type), side) for side in (lower, upper))
    if as_written:
        return lower, upper
    # If one bound was not finite, the other one does not say whether the column has NaN.
    has_both = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
    lower, upper = (pc.if_else(has_both, side, pa.scalar(None, side.type)) for side in (lower, upper))
    return lower, upper


def _typed_values(sources: _Sources, type_: DataType) -> pa.Array:
    """Return the bounds of a column in the type of the column."""
    arrow = arrow_type(type_)
    from_json = None if sources.from_json is None else _convert_json_bounds(sources.from_json, type_, arrow)
    return _Sources(from_json, sources.from_struct, sources.length).values(arrow)


def _convert_json_bounds(values: pa.Array, type_: DataType, arrow: pa.DataType) -> pa.Array:
    """Convert bounds from their JSON type to the column's type. Values that the column's type cannot hold become null."""
    if pa.types.is_string(values.type):
        try:
            return from_text(values, type_)
        except pa.ArrowInvalid:
            return pa.array([_value_from_text(text, type_) for text in values.to_pylist()], arrow)
    is_narrower = pa.types.is_integer(arrow) and arrow != values.type
    return _narrow_integers(values, arrow) if is_narrower else values


def _narrow_integers(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast 64-bit integers to a narrower type. Values outside its range become null."""
    limit = 2 ** (type_.bit_width - 1)
    is_in_range = pc.and_(pc.greater_equal(values, -limit), pc.less(values, limit))
    return pc.if_else(is_in_range, values, pa.scalar(None, values.type)).cast(type_)


def _value_from_text(text: str | None, type_: DataType) -> Any:
    try:
        return from_text(pa.array([text], pa.string()), type_)[0].as_py()
    except pa.ArrowInvalid:
        return None


def _null_counts(fields: Sequence[Field], sources: _Sources) -> pa.StructArray:
    """Return the null counts of columns, with nested structs."""
    counts = [
        _null_counts(field.type.fields, sources.child(field.name))
        if isinstance(field.type, Struct)
        else _without_negative(sources.child(field.name).values(pa.int64()))
        for field in fields
    ]
    types = [pa.field(field.name, count.type) for field, count in zip(fields, counts, strict=True)]
    return struct_of(counts, types, sources.length)


def _without_negative(counts: pa.Array) -> pa.Array:
    return pc.if_else(pc.greater_equal(counts, 0), counts, pa.scalar(None, counts.type))


def _null_counts_of_live_rows(counts: pa.Array, records: pa.Array, tight: pa.Array) -> pa.Array:
    """Return the null counts that are exact for live rows. With wide bounds, these are the counts of none and of all rows."""
    if pa.types.is_struct(counts.type):
        children = [_null_counts_of_live_rows(pc.struct_field(counts, [field.name]), records, tight) for field in counts.type]
        return struct_of(children, list(counts.type), len(counts))
    is_exact = pc.or_(tight, pc.or_(pc.equal(counts, 0), pc.equal(counts, records)))
    return pc.if_else(pc.fill_null(is_exact, False), counts, pa.scalar(None, counts.type))


def _parsed(batch: pa.RecordBatch) -> pa.StructArray | None:
    return batch["parsed"] if "parsed" in batch.schema.names else None


def _child(struct: pa.Array | None, name: str) -> pa.Array | None:
    if struct is None or not pa.types.is_struct(struct.type) or struct.type.get_field_index(name) < 0:
        return None
    return pc.struct_field(struct, [name])


def _cast(values: pa.Array | None, type_: pa.DataType) -> pa.Array | None:
    """Return the values in a type, all null if any cannot be converted."""
    if values is None or values.type == type_:
        return values
    try:
        return values.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), type_)
