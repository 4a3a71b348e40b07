"""Statistics of data files as Delta's log writes them (PROTOCOL.md, Per-file Statistics)."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal as Number
from typing import Any

from rowmerge.delta.files.text_values import iso_instant
from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.schema import DataType, Decimal, Field, Primitive, Struct
from rowmerge.table.snapshots.files import AddedFile

Leaf = tuple[str, ...]
"""A column, or a field inside structs, by its names from the top."""

INDEXED_COLUMNS = "delta.dataSkippingStatsColumns"
DEFAULT_INDEXED = 32
PREFIX = 32
"""Length of string bounds in UTF-16 units, delta-spark's default."""

_COMPARABLE = frozenset("long integer short byte double float string date timestamp timestamp_ntz".split())
_NAME = re.compile(r"(`(?:[^`]|``)+`\s*|[^`.,]+)([.,]|$)\s*")


def has_bounds(type_: DataType) -> bool:
    """Whether minimum and maximum of a leaf of this type are kept."""
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _COMPARABLE)


def leaves(fields: Iterable[Field], above: Leaf = ()) -> Iterator[Leaf]:
    """Columns and fields of structs down to what is no struct; lists and maps are leaves."""
    for field in fields:
        if isinstance(field.type, Struct):
            yield from leaves(field.type, (*above, field.name))
        else:
            yield (*above, field.name)


def clustering_columns(domains: Mapping[str, str]) -> list[Leaf]:
    """The columns of a clustered table, which always have statistics (PROTOCOL.md, Clustered Table)."""
    try:
        return [tuple(column) for column in decode_json(domains["delta.clustering"])["clusteringColumns"]]
    except (KeyError, ValueError, TypeError):
        return []


def indexed_leaves(schema: Struct, partition_columns: Iterable[str], properties: Mapping[str, str]) -> frozenset[Leaf]:
    """The leaves that statistics are kept of: the first 32, or what `delta.dataSkippingStatsColumns` or
    `delta.dataSkippingNumIndexedCols` say. Raises ConfigurationError for a value that cannot be read.
    """
    partition = set(partition_columns)
    every = list(leaves(field for field in schema if field.name not in partition))
    named = properties.get(INDEXED_COLUMNS)
    if named is not None:
        chosen = named_leaves(named)
    else:
        chosen = every[: indexed_count(properties)]
    return frozenset(leaf for leaf in every if any(leaf[: len(prefix)] == prefix for prefix in chosen))


def named_leaves(text: str) -> list[Leaf]:
    """The columns that `delta.dataSkippingStatsColumns` names. Raises ConfigurationError."""
    return [_names(column) for column in _split(text)]


def indexed_count(properties: Mapping[str, str]) -> int | None:
    """`delta.dataSkippingNumIndexedCols`; None for all. Raises ConfigurationError."""
    text = properties.get("delta.dataSkippingNumIndexedCols", str(DEFAULT_INDEXED))
    if not re.fullmatch(r"-1|\d+", text.strip()):
        raise ConfigurationError(f"The table property delta.dataSkippingNumIndexedCols is {text!r}. Set it to a number of columns, or -1.")
    return None if int(text) < 0 else int(text)


def statistics_json(file: AddedFile, indexed: frozenset[Leaf]) -> str:
    """The `stats` of a file that was just written, by the leaves that have statistics."""
    lower, upper = _bounds(file.lower, file.upper, indexed, ())
    nulls = _chosen(file.nulls, indexed, ())
    return statistics_text({"numRecords": file.records, "tightBounds": True, "minValues": lower, "maxValues": upper, "nullCount": nulls})


def readable_statistics(stats: str | None) -> dict[str, Any] | None:
    """The JSON object in a `stats` text, its decimals with all digits. None for a text that is none."""
    try:
        statistics = json.loads(stats or "{}", parse_float=Number, parse_constant=lambda _: None)
    except (ArithmeticError, RecursionError, ValueError):
        return None
    return statistics if isinstance(statistics, dict) else None


def with_wide_bounds(stats: str | None, records: int) -> str:
    """The same statistics after rows were marked deleted: counts stay physical, bounds may be too wide."""
    return statistics_text({**(readable_statistics(stats) or {}), "numRecords": records, "tightBounds": False})


def statistics_text(value: Any) -> str:
    """JSON in which decimals keep all their digits."""
    match value:
        case Mapping():
            there = ((json.dumps(key, ensure_ascii=False), inner) for key, inner in value.items() if inner is not None)
            return "{" + ",".join(f"{key}:{statistics_text(inner)}" for key, inner in there) + "}"
        case list():
            return "[" + ",".join(statistics_text(inner) for inner in value) + "]"
        case Number():
            return str(value)
    return json.dumps(value, ensure_ascii=False)


def parsed_text(parsed: Mapping[str, Any]) -> str:
    """The JSON form of statistics that a checkpoint holds as a struct; strings in it were cut when they were made."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: found for name, inner in value.items() if (found := plain(inner)) is not None}
        return value if isinstance(value, str | bool) else json_value(value)

    return statistics_text(plain(parsed))


def lower_bound(value: Any) -> Any:
    """A minimum as JSON holds it; None when it cannot."""
    return value[: _prefix_end(value)] if isinstance(value, str) else json_value(value)


def upper_bound(value: Any) -> Any:
    """A maximum as JSON holds it. A long string's prefix is followed by a character above the first that was cut off."""
    if not isinstance(value, str):
        return json_value(value)
    end = _prefix_end(value)
    if end == len(value):
        return value
    if value[end] < "\x7f":
        return value[:end] + "\x7f"
    return value[:end] + "\U0010ffff" if value[end] < "\U0010ffff" else None


def _prefix_end(value: str) -> int:
    units = 0
    for end, character in enumerate(value[: PREFIX + 1]):
        units += 2 if ord(character) > 0xFFFF else 1
        if units > PREFIX:
            return end
    return len(value)


def json_value(value: Any) -> Any:
    """A bound that is no string as JSON holds it, timestamps cut to milliseconds; None when there is none."""
    match value:
        case bool() | bytes():
            return None
        case datetime.datetime() if value.tzinfo is None:
            return value.isoformat(timespec="milliseconds")
        case datetime.datetime():
            return iso_instant(value, "milliseconds")
        case datetime.date():
            return value.isoformat()
        case float():
            return value if math.isfinite(value) else None
        case Number():
            return Number(format(value, "f"))
    return value


def _bounds(
    lower: Mapping[str, Any], upper: Mapping[str, Any], indexed: frozenset[Leaf], above: Leaf
) -> tuple[dict[str, Any], dict[str, Any]]:
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    for name in dict.fromkeys([*lower, *upper]):
        low, high, leaf = lower.get(name), upper.get(name), (*above, name)
        if isinstance(low, Mapping) or isinstance(high, Mapping):
            inner = _bounds(low or {}, high or {}, indexed, leaf)
            lows.update({name: inner[0]} if inner[0] else {})
            highs.update({name: inner[1]} if inner[1] else {})
        elif leaf in indexed:
            # Not a number is above everything: a bound alone would hide it.
            unknown = any(isinstance(value, float) and math.isnan(value) for value in (low, high))
            lows.update({} if unknown or (low := lower_bound(low)) is None else {name: low})
            highs.update({} if unknown or (high := upper_bound(high)) is None else {name: high})
    return lows, highs


def _chosen(counts: Mapping[str, Any], indexed: frozenset[Leaf], above: Leaf) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, count in counts.items():
        leaf = (*above, name)
        if isinstance(count, Mapping):
            if inner := _chosen(count, indexed, leaf):
                chosen[name] = inner
        elif leaf in indexed and count is not None:
            chosen[name] = count
    return chosen


def _split(text: str) -> Iterator[str]:
    """`a, b.c, ```d,e``` `: columns between commas that stand outside backquotes."""
    column = ""
    for part in re.findall(r"`(?:[^`]|``)*`|[^`,]+|,", text):
        if part == ",":
            yield column
            column = ""
        else:
            column += part
    if column.strip():
        yield column


def _names(column: str) -> Leaf:
    names: list[str] = []
    position, column = 0, column.strip()
    while position < len(column):
        match = _NAME.match(column, position)
        if match is None:
            raise ConfigurationError(f"delta.dataSkippingStatsColumns names {column!r}, which is no column name. Write names like a, b.c.")
        name = match[1].strip()
        names.append(name[1:-1].replace("``", "`") if name.startswith("`") else name)
        position = match.end()
    return tuple(names)
