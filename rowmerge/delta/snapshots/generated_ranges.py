"""The ranges of values in files, as far as generated partition columns determine them. Delta derives partition filters from them, too.

For example, the partition column `day` is generated as `CAST(ts AS DATE)`. A file with the day 2024-02-29 has only times of that day in
`ts`. A file with the partition value null can have any values, because null also stands for an empty string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.table.metadata.schema import CHAR_VARCHAR, Field, Primitive, Struct, arrow_type
from rowmerge.table.snapshots.files import LOCAL, SOURCE, TRANSFORM, range_type

_DATE, _TIMESTAMP, _STRING = Primitive("date"), Primitive("timestamp"), Primitive("string")
_TIMES = (_DATE, _TIMESTAMP, Primitive("timestamp_ntz"))
_PARTS = ("year", "month", "day", "hour")
_COLUMN = r"(?:`(?P<quoted>[^`]+)`|(?P<name>\w+))"
_PATTERNS = [
    (kind, re.compile(pattern.replace("COLUMN", _COLUMN).replace(" ", r"\s*"), re.IGNORECASE))
    for kind, pattern in (
        ("date", r"cast \( COLUMN\s+as\s+date \)"),
        ("date", r"(?:date|to_date) \( COLUMN \)"),
        ("part", rf"(?P<parameter>{'|'.join(_PARTS)}) \( COLUMN \)"),
        ("format", r"date_format \( COLUMN , '(?P<parameter>yyyy-MM(?:-dd(?:-HH)?)?)' \)"),
        ("date_trunc", r"date_trunc \( '(?P<parameter>\w+)' , COLUMN \)"),
        ("trunc", r"trunc \( COLUMN , '(?P<parameter>\w+)' \)"),
        ("prefix", r"substr(?:ing)? \( COLUMN , [01] , (?P<parameter>[1-9][0-9]{0,6}) \)"),
        ("copy", "COLUMN"),
    )
]
"""The kinds of generation expressions whose value tells about the source column, and their syntax. A blank stands for optional blanks."""
_FORMATS = {"yyyy-MM": "month", "yyyy-MM-dd": "day", "yyyy-MM-dd-HH": "hour"}
_FORMATTED = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12][0-9]|3[01])(?:-(?:[01][0-9]|2[0-3]))?)?")
_DAY = 86_400_000_000
_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), 366 * _DAY),
    "quarter": 92 * _DAY,
    **dict.fromkeys(("month", "mon", "mm"), 31 * _DAY),
    "week": 7 * _DAY,
    **dict.fromkeys(("day", "dd"), _DAY),
    "hour": _DAY // 24,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
"""The greatest length of each unit of `date_trunc` and `trunc` in microseconds, without changes of the zone's offset."""

_Numbers = np.ndarray[Any, Any]
Range = tuple[pa.Array, pa.Array]


@dataclass(frozen=True)
class GeneratedRange:
    """The range of a source column that follows from one or several generated partition columns.

    `arrow_field`: the field of the range in the column `ranges` of a listing. `columns`: the names of the partition columns. `compute`: the
    function that returns the least and the greatest transformed value from the values of these columns.
    """

    arrow_field: pa.Field
    columns: tuple[str, ...]
    compute: Callable[[Sequence[pa.Array]], Range]

    def of(self, values: Sequence[pa.Array]) -> pa.StructArray:
        """Return the range of each file (`range_type`) from the values of the partition columns. An unknown range is null."""
        lower, upper = self.compute(values)
        unknown = pa.nulls(len(lower), pa.bool_())
        return pa.StructArray.from_arrays([lower, upper, unknown, unknown], fields=list(self.arrow_field.type))


@dataclass
class _Parts:
    """The partition columns with the year, the month, the day and the hour of a source column, by the name of the part."""

    source: Field
    columns: dict[str, str] = field(default_factory=dict)


def generated_ranges(
    schema: Struct, generated: Mapping[str, str], partitions: Collection[str], columns: Collection[str]
) -> list[GeneratedRange]:
    """Return the ranges of columns that follow from generated partition columns.

    Args:
        schema: The columns of the table.
        generated: The expressions of generated columns, by column.
        partitions: The names of the partition columns.
        columns: The names of the columns whose ranges are returned.
    """
    ranges: list[GeneratedRange] = []
    parts: dict[str, _Parts] = {}
    for partition in filter(None, map(schema.find, partitions)):
        kind, source_name, parameter = _parse(generated.get(partition.name, ""))
        source = schema.find(source_name)
        if source is None or source.name not in columns:
            continue
        if kind == "part" and source.type in _TIMES and partition.type == Primitive("integer") and _has_unit(source, parameter):
            parts.setdefault(source.name, _Parts(source)).columns[parameter.lower()] = partition.name
        else:
            ranges += _single_range(kind, partition, source, parameter)
    return ranges + [range_ for group in parts.values() for range_ in _range_of_parts(group)]


def _parse(expression: str) -> tuple[str, str, str]:
    """Return the kind of a generation expression, its source column and its parameter. The kind is empty for other expressions."""
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(expression.strip())
        if match:
            return kind, match["quoted"] or match["name"], match.groupdict().get("parameter", "")
    return "", "", ""


def _single_range(kind: str, partition: Field, source: Field, parameter: str) -> Iterator[GeneratedRange]:
    """Yield the range of a source column that follows from one partition column, if the expression has a range."""
    is_time = source.type in _TIMES
    if partition.metadata.get(CHAR_VARCHAR):
        return  # CHAR adds spaces to a value, and VARCHAR drops some at its end
    if kind == "copy" and partition.type == source.type and source.type != _TIMESTAMP:
        yield _range(source, "identity", arrow_type(source.type), (partition.name,), _same)
    elif kind == "prefix" and source.type == partition.type == _STRING:
        yield _range(source, f"truncate[{parameter}]", pa.string(), (partition.name,), _same)
    elif kind == "date" and is_time and partition.type == _DATE:
        yield _range(source, "day", pa.int32(), (partition.name,), lambda values: _same([values[0].view(pa.int32())]))
    elif kind == "format" and is_time and partition.type == _STRING and parameter in _FORMATS and _has_unit(source, _FORMATS[parameter]):
        unit = _FORMATS[parameter]
        yield _range(source, unit, pa.int32(), (partition.name,), lambda values: _range_of_texts(values[0], unit), of_instants=True)
    elif kind in ("date_trunc", "trunc") and is_time and partition.type in (_DATE, source.type) and parameter.lower() in _UNITS:
        yield _range_of_trunc(partition, source, _UNITS[parameter.lower()], of_instants=kind == "date_trunc")


def _has_unit(source: Field, unit: str) -> bool:
    """Return whether a column has values of a unit. The hour of a date says nothing."""
    return source.type != _DATE or unit.lower() != "hour"


def _range(
    source: Field,
    transform: str,
    type_: pa.DataType,
    columns: tuple[str, ...],
    compute: Callable[[Sequence[pa.Array]], Range],
    *,
    of_instants: bool = False,
) -> GeneratedRange:
    """Return the range of a source column.

    Args:
        source: The source column.
        transform: The transform as a string of the Iceberg specification.
        type_: The type of the transformed values.
        columns: The names of the partition columns.
        compute: The function that returns the range of the transformed values from the values of these columns.
        of_instants: Whether the expression converts local times to instants. This moves those that never occur in the writer's zone.
    """
    metadata = {SOURCE: source.name.encode(), TRANSFORM: transform.encode()}
    if source.type == _TIMESTAMP or of_instants:
        metadata[LOCAL] = b"true"  # the writers' time zones are unknown
    return GeneratedRange(pa.field(" ".join(columns), range_type(type_), metadata=metadata), columns, compute)


def _same(values: Sequence[pa.Array]) -> Range:
    return values[0], values[0]


def _range_of_trunc(partition: Field, source: Field, length: int, *, of_instants: bool) -> GeneratedRange:
    """Return the range from the start of a unit to its end. `length`: the greatest length of the unit in microseconds."""
    type_, duration = arrow_type(source.type), pa.scalar(length - 1, pa.duration("us"))

    def compute(values: Sequence[pa.Array]) -> Range:
        try:
            starts = values[0].cast(pa.timestamp("us")) if pa.types.is_date(values[0].type) else values[0].view(pa.timestamp("us"))
            ends = pc.add_checked(starts, duration)
        except pa.ArrowInvalid:  # a time is out of range
            return _same([pa.nulls(len(values[0]), type_)])
        if source.type == _DATE:
            return values[0], ends.cast(type_, safe=False)
        return starts.view(type_), ends.view(type_)

    return _range(source, "identity", type_, (partition.name,), compute, of_instants=of_instants)


def _range_of_texts(texts: pa.Array, unit: str) -> Range:
    """Return the months, days or hours since 1970 of texts such as `2024-02-29-13`. Texts of another form become null."""
    distinct = texts.dictionary_encode()
    letter = {"month": "M", "day": "D", "hour": "h"}[unit]
    numbers = [_number_of_text(text, letter) for text in distinct.dictionary.to_pylist()]
    return _same([pa.array(numbers, pa.int32()).take(distinct.indices)])


def _number_of_text(text: str, letter: Any) -> int | None:
    if not _FORMATTED.fullmatch(text) or text.count("-") != "MDh".index(letter) + 1:
        return None
    try:
        return int(np.datetime64(f"{text[:10]}T{text[11:]}" if letter == "h" else text, letter).astype(np.int64))
    except ValueError:  # no such day
        return None


def _range_of_parts(parts: _Parts) -> Iterator[GeneratedRange]:
    """Yield the range that follows from the year, and as far as there are columns for them, from the month, the day and the hour."""
    units = [part for index, part in enumerate(_PARTS) if all(unit in parts.columns for unit in _PARTS[: index + 1])]
    if units:
        columns = tuple(parts.columns[unit] for unit in units)
        yield _range(parts.source, units[-1], pa.int32(), columns, _number_of_parts)


def _number_of_parts(values: Sequence[pa.Array]) -> Range:
    """Return the years, months, days or hours since 1970 from the columns of the parts, null for values outside a calendar."""
    is_valid = np.ones(len(values[0]), np.bool_)
    number: _Numbers = np.zeros(len(values[0]), np.int64)
    limits = ((-9999, 9999), (1, 12), (1, 31), (0, 23))
    for index, (part, (least, greatest)) in enumerate(zip(values, limits, strict=False)):
        digits = part.cast(pa.int64()).fill_null(least - 1).to_numpy(zero_copy_only=False)
        is_valid &= (digits >= least) & (digits <= greatest)
        digits = np.clip(digits, least, greatest)
        match index:
            case 0:
                number = digits - 1970
            case 1:
                number = number * 12 + digits - 1
            case 2:
                number = number.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + digits - 1
            case _:
                number = number * 24 + digits
    return _same([pa.array(number.astype(np.int32), mask=~is_valid)])
