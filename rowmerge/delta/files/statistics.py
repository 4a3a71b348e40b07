"""Statistics of data files in the form of Delta's log (PROTOCOL.md, Per-file Statistics)."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from json.encoder import encode_basestring
from typing import Any

from rowmerge.delta.files.text_values import iso_instant
from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.json_objects import decode_json
from rowmerge.table.metadata.schema import DataType, Decimal, Field, Primitive, Struct
from rowmerge.table.snapshots.files import AddedFile

ColumnPath = tuple[str, ...]
"""The path of a column or of a nested struct field: the names from the top-level column down."""

_Values = Mapping[str, Any]
"""Bounds or null counts by column name, as nested mappings for structs."""

CLUSTERING = "delta.clustering"
INDEXED_COLUMNS = "delta.dataSkippingStatsColumns"
PREFIX = 32
"""The default of `delta.dataSkippingStringPrefixLength`, the maximum length of a string bound in UTF-16 code units."""

_COMPARABLE = frozenset("long integer short byte double float string date timestamp timestamp_ntz".split())
_NAME_IN_PATH = re.compile(r"(?P<name>`(?:[^`]|``)+`\s*|[^`.,]+)([.,]|$)\s*")
"""One name in a dotted column name, with the separator after it. In backquotes, a name may contain any characters: `` `a.b` ``."""


def has_bounds(type_: DataType) -> bool:
    """Return whether statistics contain the minimum and maximum of a column of this type."""
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _COMPARABLE)


def leaves(fields: Iterable[Field], parent: ColumnPath = ()) -> Iterator[ColumnPath]:
    """Yield the paths of all columns and nested fields that are not structs. Arrays and maps count as leaves.

    Args:
        fields: The columns of a table, or the fields of a struct.
        parent: The path of the struct, empty for the columns of a table.
    """
    for field in fields:
        if isinstance(field.type, Struct):
            yield from leaves(field.type, (*parent, field.name))
        else:
            yield (*parent, field.name)


def clustering_columns(domains: Mapping[str, str]) -> list[ColumnPath]:
    """Return the clustering columns of a table, which always have statistics (PROTOCOL.md, Clustered Table)."""
    try:
        return [tuple(column) for column in decode_json(domains[CLUSTERING])["clusteringColumns"]]
    except (KeyError, ValueError, TypeError):
        return []


def indexed_leaves(schema: Struct, partition_columns: Iterable[str], properties: Mapping[str, str]) -> frozenset[ColumnPath]:
    """Return the columns and nested fields that have statistics, as delta-spark selects them.

    If `delta.dataSkippingStatsColumns` is not set, the first `delta.dataSkippingNumIndexedCols` leaf columns have statistics.

    Args:
        schema: The columns of the table.
        partition_columns: The names of the partition columns, which have no statistics.
        properties: The properties of the table.

    Raises:
        ConfigurationError: One of these two properties has an invalid value.
    """
    partition_names = set(partition_columns)
    data_leaves = list(leaves(field for field in schema if field.name not in partition_names))
    if INDEXED_COLUMNS not in properties:
        return frozenset(data_leaves[: indexed_count(properties)])
    prefixes = parse_columns(properties[INDEXED_COLUMNS])
    return frozenset(leaf for leaf in data_leaves if any(leaf[: len(prefix)] == prefix for prefix in prefixes))


def parse_columns(text: str) -> list[ColumnPath]:
    """Parse the value of `delta.dataSkippingStatsColumns`. Raises ConfigurationError if a column name is invalid."""
    return [_parse_column(column) for column in _split_columns(text)]


def indexed_count(properties: Mapping[str, str]) -> int | None:
    """Return the number of columns with statistics, or None if all columns have statistics.

    Raises:
        ConfigurationError: `delta.dataSkippingNumIndexedCols` is not a whole number.
    """
    text = properties.get("delta.dataSkippingNumIndexedCols", "32")
    if not re.fullmatch(r"-1|\d+", text.strip()):
        raise ConfigurationError(f"The table property delta.dataSkippingNumIndexedCols is {text!r}. Set it to a number of columns, or -1.")
    return None if int(text) < 0 else int(text)


def statistics_json(file: AddedFile, indexed: frozenset[ColumnPath], prefix_length: int = PREFIX) -> str:
    """Return the statistics of a new file as JSON, for the field `stats` of the `add` action (PROTOCOL.md, Per-file Statistics).

    Readers skip a file if its bounds show that no row can match their condition.

    Args:
        file: The new file. Its statistics have physical column names.
        indexed: The columns and nested fields that get bounds and null counts (`indexed_leaves`).
        prefix_length: The maximum length of a string bound.
    """
    # JSON has no NaN, so a bound that is NaN cannot be written. The other bound of the column must be omitted, too: Spark orders NaN above
    # all other numbers. So with only the upper bound 5, a reader would skip the file for `x > 7`, although a row with NaN matches.
    bounded = indexed.difference(_nan_columns(file.lower), _nan_columns(file.upper))
    statistics = {
        "numRecords": file.records,
        "tightBounds": True,
        "minValues": _select_values(file.lower, bounded, partial(lower_bound, length=prefix_length)),
        "maxValues": _select_values(file.upper, bounded, partial(upper_bound, length=prefix_length)),
        "nullCount": _select_values(file.nulls, indexed),
    }
    return statistics_text(statistics)


def parse_statistics(stats: str | None) -> dict[str, Any] | None:
    """Parse a `stats` string, with exact decimals. Return None if the string is not a JSON object."""
    try:
        statistics = json.loads(stats or "{}", parse_float=decimal.Decimal, parse_constant=lambda _: None)
    except (ArithmeticError, RecursionError, ValueError):
        return None
    return statistics if isinstance(statistics, dict) else None


def with_wide_bounds(stats: str | None, records: int) -> str:
    """Return the `stats` string for a file that gets a deletion vector. Bounds may be wide, and null counts include deleted rows.

    Args:
        stats: The previous `stats` string of the file, or None if it has no statistics.
        records: The number of rows in the file, including deleted rows.
    """
    return statistics_text({**(parse_statistics(stats) or {}), "numRecords": records, "tightBounds": False})


def statistics_text(value: Any) -> str:
    """Return a value as JSON, in which decimals keep all their digits. Null members of objects are omitted."""
    match value:  # the common types come first, because a commit writes a value for each column of each file
        case str():
            return encode_basestring(value)
        case bool():
            return "true" if value else "false"
        case int() | decimal.Decimal():
            return str(value)
        case list():
            return "[" + ",".join(map(statistics_text, value)) + "]"
        case Mapping():
            members = [f"{encode_basestring(key)}:{statistics_text(inner)}" for key, inner in value.items() if inner is not None]
            return "{" + ",".join(members) + "}"
    return json.dumps(value, ensure_ascii=False)


def parsed_text(parsed: Mapping[str, Any]) -> str:
    """Return the statistics in a checkpoint's struct as JSON. String bounds have already been truncated."""
    return statistics_text(_parsed_to_json(parsed))


def _parsed_to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _parsed_to_json(inner) for name, inner in value.items()}
    return value if isinstance(value, str | bool) else _bound_to_json(value)


def lower_bound(value: Any, length: int = PREFIX) -> Any:
    """Return the JSON value of a minimum, or None if it has no JSON form. A string is truncated to `length`; with 0, it has no minimum."""
    if not isinstance(value, str):
        return _bound_to_json(value)
    return value[: _prefix_end(value, length)] if length else None


def upper_bound(value: Any, length: int = PREFIX) -> Any:
    """Return the JSON value of a maximum, or None if it has no JSON form. A truncated string is extended so that it remains a maximum.

    Args:
        value: The maximum.
        length: The maximum length of a string before it is extended. With 0, strings have no maximum.
    """
    if not isinstance(value, str):
        return _bound_to_json(value)
    if not length:
        return None
    end = _prefix_end(value, length)
    if end == len(value):
        return value
    if value[end] < "\x7f":
        return value[:end] + "\x7f"
    return value[:end] + "\U0010ffff" if value[end] < "\U0010ffff" else None


def _prefix_end(value: str, length: int) -> int:
    """Return the number of characters that fit into `length` UTF-16 code units. Characters above U+FFFF take two units."""
    units = 0
    for end, character in enumerate(value[: length + 1]):
        units += 2 if ord(character) > 0xFFFF else 1
        if units > length:
            return end
    return len(value)


def _bound_to_json(value: Any) -> Any:
    """Convert a bound that is not a string to its JSON value (PROTOCOL.md, Per-file Statistics).

    Timestamps are truncated to milliseconds, also in upper bounds, because readers allow for this. Booleans, binary values and non-finite
    floats have no bounds, so they become None.
    """
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
        case decimal.Decimal():
            return decimal.Decimal(format(value, "f"))  # writes 1E+2 as 100, without an exponent
    return value


def _select_values(
    values: _Values, columns: Collection[ColumnPath], to_json: Callable[[Any], Any] = lambda value: value, parent: ColumnPath = ()
) -> _Values:
    """Return the bounds or null counts of these columns as JSON values, nested like the columns.

    Values without a JSON form and structs without values are omitted.

    Args:
        values: The bounds or null counts by column name.
        columns: The paths of the columns and nested fields to return.
        to_json: The function that converts a bound to a JSON value. Null counts need no conversion.
        parent: The path of the struct that contains `values`, empty for top-level columns.
    """
    json_values: dict[str, Any] = {}
    for name, value in values.items():
        path = (*parent, name)
        if isinstance(value, Mapping):
            json_values[name] = _select_values(value, columns, to_json, path)
        elif path in columns:
            json_values[name] = to_json(value)
    return {name: json_value for name, json_value in json_values.items() if json_value not in (None, {})}


def _nan_columns(bounds: _Values, parent: ColumnPath = ()) -> Iterator[ColumnPath]:
    """Yield the columns and nested fields whose bound is NaN. `parent` is the path of the struct that contains `bounds`."""
    for name, bound in bounds.items():
        if isinstance(bound, Mapping):
            yield from _nan_columns(bound, (*parent, name))
        elif isinstance(bound, float) and math.isnan(bound):
            yield (*parent, name)


def _split_columns(text: str) -> Iterator[str]:
    """Split a list of column names such as `a, b.c, ```d,e``` ` at commas outside backquotes."""
    column = ""
    for token in re.findall(r"`(?:[^`]|``)*`|[^`,]+|,", text):
        if token == ",":
            yield column
            column = ""
        else:
            column += token
    if column.strip():
        yield column


def _parse_column(text: str) -> ColumnPath:
    """Parse a column name such as `a`, or a dotted field name such as `b.c`. Raises ConfigurationError if the name is invalid."""
    names: list[str] = []
    dotted_name, position = text.strip(), 0
    while position < len(dotted_name):
        match = _NAME_IN_PATH.match(dotted_name, position)
        if match is None:
            raise ConfigurationError(f"{INDEXED_COLUMNS} contains {dotted_name!r}, which is not a column name. Write names such as a, b.c.")
        name = match["name"].strip()
        names.append(name[1:-1].replace("``", "`") if name.startswith("`") else name)
        position = match.end()
    return tuple(names)
