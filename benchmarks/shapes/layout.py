"""The columns of a cell's table: its names, and SQL over the number of a row, `i`, from which each column is derived."""

from __future__ import annotations

from benchmarks.shapes.design import Cell

SMALL_MERGES, ROWS_OF_SMALL_MERGE = 20, 1_000
BUCKETS = 16

_KEYS: dict[str, dict[str, str]] = {
    "int": {"k1": "i"},
    "text": {"k1": "'customer-' || lpad(i::varchar, 10, '0')"},
    "composite": {"k1": "(i // 100)::integer", "k2": "'item-' || lpad((i % 100)::varchar, 4, '0')"},
    "uuid": {"k1": "regexp_replace(md5(i::varchar), '(.{8})(.{4})(.{4})(.{4})(.{12})', '\\1-\\2-\\3-\\4-\\5')"},
    "date+int": {"k1": "date '2000-01-01' + (i // 1000)::integer", "k2": "(i % 1000)::integer"},
    "decimal": {"k1": "(i + 0.25)::decimal(18, 2)"},
    "nested": {"k1": "{'id': i, 'kind': (i % 3)::integer}"},
    "nullable": {"k1": "case when i % 1000 <> 999 then i end"},
}
_WIDTHS = {"4": 4, "20": 20, "200": 200, "nested": 8, "long texts": 6}
_VALUES = (
    "hash(i, {0}) % 1000000",
    "(hash(i, {0}) % 10000000) / 100.0",
    "'value ' || (hash(i, {0}) % 5000)",
    "date '2020-01-01' + (hash(i, {0}) % 1500)::integer",
)
_VALUE_TYPES = ("bigint", "double", "varchar", "date")
_LONG_TEXT = "list_aggregate(list_transform(range(25), x -> 'word' || (hash(i, x, {0}) % 3000)), 'string_agg', ' ')"
_NESTED = "{{'amount': (hash(i, {0}) % 1000)::integer, 'unit': 'unit ' || (hash(i, {0}) % 20), 'tags': [i % 7, (i + {0}) % 11]}}"


def key_columns(cell: Cell) -> tuple[str, ...]:
    """Return the names of the key columns."""
    return tuple(_KEYS[cell.key])


def columns(cell: Cell) -> tuple[str, ...]:
    """Return the names of all columns of the table."""
    return tuple(expressions(cell, 0))


def partition_clause(cell: Cell) -> str:
    """Return PARTITIONED BY for the table of the cell, or nothing. A nested key has no bucket, so its table has months."""
    if cell.partitions == "none":
        return ""
    if cell.partitions == "transform":
        return "partitioned by (months(p))" if cell.key == "nested" else f"partitioned by (bucket({BUCKETS}, k1))"
    return "partitioned by (p)"


def partition_count(cell: Cell) -> int:
    """Return the number of partitions of the table of the cell."""
    return {"none": 1, "transform": BUCKETS, "30": 30, "1000": 1000}[cell.partitions]


def expressions(cell: Cell, version: int) -> dict[str, str]:
    """Return SQL over `i` for each column. `version`: rows of different versions differ in all values."""
    partition = {"none": {}, "transform": {"p": "date '2020-01-01' + (hash(i) % 480)::integer"}}
    history = {"valid_from": "date '2020-01-01'", "valid_to": "null::date"} if cell.statement == "scd2" else {}
    by_number = {"p": f"(hash(i) % {partition_count(cell)})::integer"}
    return {**_KEYS[cell.key], **partition.get(cell.partitions, by_number), **history, **_value_expressions(cell, version)}


def _value_expressions(cell: Cell, version: int) -> dict[str, str]:
    others = len(_KEYS[cell.key]) + (cell.partitions != "none") + 2 * (cell.statement == "scd2")
    count = max(1, _WIDTHS[cell.width] - others)
    expressions = {}
    for number in range(count):
        text, type_ = _VALUES[number % len(_VALUES)], _VALUE_TYPES[number % len(_VALUES)]
        expressions[f"v{number + 1}"] = f"({text.format(100 * version + number)})::{type_}"
    for number in range(1, min(count, 3)):  # v2 and v3
        if cell.width == "long texts":
            expressions[f"v{number + 1}"] = _LONG_TEXT.format(100 * version + number)
        elif cell.width == "nested":
            expressions[f"v{number + 1}"] = _NESTED.format(100 * version + number)
    return expressions
