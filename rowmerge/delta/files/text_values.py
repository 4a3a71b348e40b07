"""Conversion between typed values and the strings of partition values and statistics in Delta's log."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.table.metadata.schema import DataType, Primitive

_ZONE = r":\d\d(\.\d+)?\s?(Z|[+-]\d\d(:?\d\d)?)$"
_DAY = r"^[+-]?\d+-\d\d-\d\d$"
_SPECIAL_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
UTC = datetime.timezone.utc


def from_text(text: pa.Array, type_: pa.DataType) -> pa.Array:
    """Parse strings from the log as values of a type. Nulls stay null.

    Args:
        text: The strings of partition values or of bounds in statistics.
        type_: The type of the values. Timestamps are in microseconds.

    Raises:
        pa.ArrowInvalid: A string is not a valid value of the type.
    """
    return _parse_timestamps(text, type_) if pa.types.is_timestamp(type_) else text.cast(type_)


def partition_text(value: Any, type_: DataType) -> str | None:
    """Return a partition value as the string in the log (PROTOCOL.md, Partition Value Serialization).

    Args:
        value: The Python value, or None for null.
        type_: The type of the partition column.

    Returns:
        The string. None for null, for an empty string and for an empty binary value.

    Raises:
        UnicodeDecodeError: A binary value is not valid UTF-8.
    """
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.decode() or None
        case datetime.datetime() if type_ == Primitive("timestamp_ntz"):
            return value.isoformat(" ")
        case datetime.datetime():
            return iso_instant(value, "microseconds")
        case datetime.date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case float():
            return _SPECIAL_FLOATS.get(repr(value), repr(value))
    return str(value) or None


def iso_instant(value: datetime.datetime, timespec: str) -> str:
    """Return a time as an ISO 8601 string in UTC, such as `1970-01-01T00:00:00.123Z`.

    Args:
        value: A time with a time zone.
        timespec: The unit to which the time is truncated, as in `datetime.isoformat`.
    """
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def _parse_timestamps(text: pa.Array, type_: pa.TimestampType) -> pa.Array:
    """Parse timestamps in microseconds. A date without a time means midnight, and digits beyond microseconds are dropped."""
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    text = pc.if_else(pc.match_substring_regex(text, _DAY), pc.binary_join_element_wise(text, "T00:00:00", ""), text)
    if type_.tz is None:
        return pc.replace_substring_regex(text, r"\s?(Z|\+00(:?00)?)$", "").cast(type_)
    # A timestamp without a zone is in UTC (PROTOCOL.md, Partition Value Serialization).
    return pc.if_else(pc.match_substring_regex(text, _ZONE), text, pc.binary_join_element_wise(text, "Z", "")).cast(type_)
