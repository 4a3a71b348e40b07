"""Statistics of data files as Delta's log writes them (PROTOCOL.md, Per-file Statistics)."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal as Number
from typing import Any

from rowmerge.delta.files.text_values import iso_instant
from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.schema import DataType, Decimal, Field, Primitive, Struct
from rowmerge.table.snapshots.files import AddedFile

ColumnPath = tuple[str, ...]
"""A column, or a field inside structs, by its names from the top."""

CLUSTERING = "delta.clustering"
INDEXED_COLUMNS = "delta.dataSkippingStatsColumns"
PREFIX = 32
"""Length of string bounds in UTF-16 units, delta-spark's default."""

_COMPARABLE = frozenset("long integer short byte double float string date timestamp timestamp_ntz".split())
_NAME = re.compile(r"(`(?:[^`]|``)+`\s*|[^`.,]+)([.,]|$)\s*")


def has_bounds(type_: DataType) -> bool:
    """Return whether statistics have the minimum and maximum of a leaf of this type."""
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _COMPARABLE)


def leaves(fields: Iterable[Field], above: ColumnPath = ()) -> Iterator[ColumnPath]:
    """Yield the columns and nested fields that are no structs. Arrays and maps are leaves."""
    for field in fields:
        if isinstance(field.type, Struct):
            yield from leaves(field.type, (*above, field.name))
        else:
            yield (*above, field.name)


def clustering_columns(domains: Mapping[str, str]) -> list[ColumnPath]:
    """Return the columns of a clustered table, which always have statistics (PROTOCOL.md, Clustered Table)."""
    try:
        return [tuple(column) for column in decode_json(domains[CLUSTERING])["clusteringColumns"]]
    except (KeyError, ValueError, TypeError):
        return []


def indexed_leaves(schema: Struct, partition_columns: Iterable[str], properties: Mapping[str, str]) -> frozenset[ColumnPath]:
    """Return the leaves that have statistics: those that `delta.dataSkippingStatsColumns` names, or else the first ones.

    `delta.dataSkippingNumIndexedCols` is the number of the first ones, 32 by default. Raises ConfigurationError for an invalid value.
    """
    partition = set(partition_columns)
    data_leaves = list(leaves(field for field in schema if field.name not in partition))
    if INDEXED_COLUMNS not in properties:
        return frozenset(data_leaves[: indexed_count(properties)])
    prefixes = named_leaves(properties[INDEXED_COLUMNS])
    return frozenset(leaf for leaf in data_leaves if any(leaf[: len(prefix)] == prefix for prefix in prefixes))


def named_leaves(text: str) -> list[ColumnPath]:
    """Parse the columns in `delta.dataSkippingStatsColumns`. Raises ConfigurationError."""
    return [_parse_column(column) for column in _split_columns(text)]


def indexed_count(properties: Mapping[str, str]) -> int | None:
    """Return `delta.dataSkippingNumIndexedCols`, None for all columns. Raises ConfigurationError."""
    text = properties.get("delta.dataSkippingNumIndexedCols", "32")
    if not re.fullmatch(r"-1|\d+", text.strip()):
        raise ConfigurationError(f"The table property delta.dataSkippingNumIndexedCols is {text!r}. Set it to a number of columns, or -1.")
    return None if int(text) < 0 else int(text)


def statistics_json(file: AddedFile, indexed: frozenset[ColumnPath]) -> str:
    """Return the `stats` of a new file, with the leaves that have statistics."""
    statistics = {
        "numRecords": file.records,
        "tightBounds": True,
        "minValues": _indexed_values(file.lower, indexed, lower_bound, opposite=file.upper),
        "maxValues": _indexed_values(file.upper, indexed, upper_bound, opposite=file.lower),
        "nullCount": _indexed_values(file.nulls, indexed, lambda count: count, opposite={}),
    }
    return statistics_text(statistics)


def parse_statistics(stats: str | None) -> dict[str, Any] | None:
    """Parse the JSON object in a `stats` text, decimals without loss. Return None for any other text."""
    try:
        statistics = json.loads(stats or "{}", parse_float=Number, parse_constant=lambda _: None)
    except (ArithmeticError, RecursionError, ValueError):
        return None
    return statistics if isinstance(statistics, dict) else None


def with_wide_bounds(stats: str | None, records: int) -> str:
    """Return the statistics after a deletion vector was added: counts include deleted rows, and bounds may be wide."""
    return statistics_text({**(parse_statistics(stats) or {}), "numRecords": records, "tightBounds": False})


def statistics_text(value: Any) -> str:
    """Return JSON in which decimals keep all their digits. Null members of objects are left out."""
    match value:
        case Mapping():
            members = ((json.dumps(key, ensure_ascii=False), inner) for key, inner in value.items() if inner is not None)
            return "{" + ",".join(f"{key}:{statistics_text(inner)}" for key, inner in members) + "}"
        case list():
            return "[" + ",".join(statistics_text(element) for element in value) + "]"
        case Number():
            return str(value)
    return json.dumps(value, ensure_ascii=False)


def parsed_text(parsed: Mapping[str, Any]) -> str:
    """Return the JSON form of statistics that a checkpoint has as a struct. Its string bounds are already truncated."""
    return statistics_text(_parsed_to_json(parsed))


def _parsed_to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _parsed_to_json(inner) for name, inner in value.items()}
    return value if isinstance(value, str | bool) else json_value(value)


def lower_bound(value: Any) -> Any:
    """Return a minimum in its JSON form, None if it has none. Strings are truncated."""
    return value[: _prefix_end(value)] if isinstance(value, str) else json_value(value)


def upper_bound(value: Any) -> Any:
    """Return a maximum in its JSON form, None if it has none. A truncated string ends with a character above the first one cut off."""
    if not isinstance(value, str):
        return json_value(value)
    end = _prefix_end(value)
    if end == len(value):
        return value
    if value[end] < "\x7f":
        return value[:end] + "\x7f"
    return value[:end] + "\U0010ffff" if value[end] < "\U0010ffff" else None


def _prefix_end(value: str) -> int:
    """Return the number of characters within PREFIX UTF-16 units. Characters above U+FFFF take two units."""
    units = 0
    for end, character in enumerate(value[: PREFIX + 1]):
        units += 2 if ord(character) > 0xFFFF else 1
        if units > PREFIX:
            return end
    return len(value)


def json_value(value: Any) -> Any:
    """Return a bound that is no string in its JSON form, timestamps truncated to milliseconds. Return None for a value without one."""
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


def _indexed_values(
    values: Mapping[str, Any],
    indexed: frozenset[ColumnPath],
    to_json: Callable[[Any], Any],
    *,
    opposite: Mapping[str, Any],
    above: ColumnPath = (),
) -> dict[str, Any]:
    """Return the bounds or null counts of indexed leaves in JSON form, nested like the columns. A leaf whose value is None is left out.

    `opposite`: the bounds of the other side. `above`: the path of the struct whose fields have these values.
    """
    json_values: dict[str, Any] = {}
    for name, value in values.items():
        leaf, opposite_value = (*above, name), opposite.get(name)
        if isinstance(value, Mapping):
            json_values[name] = _indexed_values(value, indexed, to_json, opposite=opposite_value or {}, above=leaf) or None
        # NaN is above everything: one bound alone would hide it.
        elif leaf in indexed and not _is_nan(value) and not _is_nan(opposite_value):
            json_values[name] = to_json(value)
    return {name: json_value for name, json_value in json_values.items() if json_value is not None}


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _split_columns(text: str) -> Iterator[str]:
    """Split `a, b.c, ```d,e``` ` at commas outside backquotes."""
    column = ""
    for token in re.findall(r"`(?:[^`]|``)*`|[^`,]+|,", text):
        if token == ",":
            yield column
            column = ""
        else:
            column += token
    if column.strip():
        yield column


def _parse_column(column: str) -> ColumnPath:
    """Parse a column name like `a` or `b.c` to its parts. Raises ConfigurationError."""
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
