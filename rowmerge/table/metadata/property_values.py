"""The allowed values of table properties: how their text is parsed, and how errors and the documentation describe them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from rowmerge.errors import ConfigurationError

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_MICROS_BY_UNIT = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_BYTES_BY_UNIT = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MAX_INTERVAL = 100_000 * 365 * 86_400_000
"""The longest accepted interval in milliseconds. It keeps calculations with times within 64 bits."""
_MOST = 2**63 - 1
"""The highest number: other engines store numbers in 64 bits."""
_LOCAL_PATH = re.compile(r"(?i:file:)?/")
"""The beginning of an absolute path on a disk, or of a URL such as `file:/folder`."""
_OBJECT_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?P<names>.+)")
"""A URL such as `s3://bucket/folder`, with the names of the bucket and of the folders."""
_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4", "lz4_raw": "lz4", "uncompressed": "none", "none": "none"}


@dataclass(frozen=True)
class Values(Generic[T]):
    """The values that a property allows.

    `description`: the values in words, which complete the sentence `Set it to …`. `convert`: the function that converts the text of a
    value, without spaces around it. It raises ValueError for any other text.
    """

    description: str
    convert: Callable[[str], T]

    def parse(self, name: str, text: str) -> T:
        """Convert the text of a property.

        Args:
            name: The name of the property, for the error.
            text: The value of the property.

        Raises:
            ConfigurationError: The property does not allow the value.
        """
        try:
            return self.convert(text.strip())
        except ValueError as error:
            raise ConfigurationError(f"The table property {name} is {text!r}. Set it to {self.description}.") from error

    def allow(self, text: str) -> bool:
        """Return whether the property allows a value."""
        try:
            self.convert(text.strip())
        except ValueError:
            return False
        return True


def choice(*values: str) -> Values[str]:
    """Return the values of a property that is one of some names. Case is ignored; the converted value is the name in `values`."""
    names = {value.lower(): value for value in values}
    return Values(_in_words(values), lambda text: _member(names, text.lower()))


def enumeration(members: type[E]) -> Values[E]:
    """Return the values of a property that is one of the values of an enumeration of strings. Case is ignored."""
    return Values(_in_words([member.value for member in members]), lambda text: members(text.lower()))


def whole_number(lowest: int = 0, highest: int | None = None) -> Values[int]:
    """Return the values of a property that is a whole number.

    Args:
        lowest: The lowest allowed number, which is not negative.
        highest: The highest allowed number. None allows all numbers of 63 bits.
    """
    description = f"a whole number, {lowest} or more" if highest is None else f"a whole number from {lowest} to {highest}"
    return Values(description, lambda text: _whole_number(text, lowest, highest))


def _in_words(values: Mapping[str, Any] | list[str] | tuple[str, ...]) -> str:
    *first, last = values
    return f"{', '.join(first)} or {last}" if first else last


def _member(members: Mapping[str, T], text: str) -> T:
    if text not in members:
        raise ValueError(f"{text!r} is not one of {sorted(members)}")
    return members[text]


def _whole_number(text: str, lowest: int, highest: int | None) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text) or not lowest <= int(text) <= (_MOST if highest is None else highest):
        raise ValueError(f"{text!r} is not a number in the range")
    return int(text)


def _nonnegative_or_minus_one(text: str) -> int:
    return -1 if text == "-1" else _whole_number(text, 0, None)


def _milliseconds(text: str) -> int:
    """Return an interval such as `interval 7 days` or `1 week 12 hours` in whole milliseconds, at most 100,000 years."""
    words = text.lower().split()
    if words[:1] == ["interval"]:
        del words[0]
    # Numbers and units alternate, as in `1 week 12 hours`.
    counts, units = words[::2], [unit.removesuffix("s") for unit in words[1::2]]
    if not words or len(counts) != len(units):
        raise ValueError(f"{text!r} is not an interval")
    terms = [_whole_number(count, 0, None) * _member(_MICROS_BY_UNIT, unit) for count, unit in zip(counts, units, strict=True)]
    return min(sum(terms) // 1000, _MAX_INTERVAL)


def _bytes_with_unit(text: str) -> int:
    match = re.fullmatch(r"(?P<count>[1-9][0-9]{0,17})\s*(?P<unit>[kmgt]?)b?", text.lower())
    if not match or (size := int(match["count"]) * _BYTES_BY_UNIT[match["unit"]]) > _MOST:
        raise ValueError(f"{text!r} is not a size")
    return size


def _location(text: str) -> str:
    """Return an absolute path or a URL. Object stores have no folders `.` and `..`, but some clients remove them from names."""
    if _LOCAL_PATH.match(text):
        return text
    url = _OBJECT_URL.fullmatch(text)
    if url is None or {"", ".", ".."} & set(url["names"].rstrip("/").split("/")):
        raise ValueError(f"{text!r} is neither an absolute path nor the URL of a folder")
    return text


def _probability(text: str) -> float:
    number = float(text)
    if not 0 < number < 1:
        raise ValueError(f"{text!r} is not between 0 and 1")
    return number


BOOLEAN = Values("true or false", lambda text: _member({"true": True, "false": False}, text.lower()))
BYTES = Values("a number of bytes", lambda text: _whole_number(text, 1, None))
SIZE = Values("a number of bytes or a size such as '100mb'", _bytes_with_unit)
WHOLE_NUMBER = whole_number()
POSITIVE_NUMBER = whole_number(1)
COLUMN_COUNT = Values("a number of columns, or -1 for all columns", _nonnegative_or_minus_one)
MILLISECONDS = Values("a number of milliseconds", lambda text: _whole_number(text, 0, None))
INTERVAL = Values("an interval such as 'interval 7 days', without months or years", _milliseconds)
PROBABILITY = Values("a number between 0 and 1", _probability)
CODEC = Values("one of zstd, snappy, gzip, lz4 and uncompressed", lambda text: _member(_CODECS, text.lower()))
"""Codecs that every reader of Parquet supports. The converted value is the name of the codec in Arrow."""
LOCATION = Values("an absolute path or a URL such as s3://bucket/folder", _location)
TEXT = Values("any text", str)
