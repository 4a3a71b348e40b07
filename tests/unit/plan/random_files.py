"""Random small data files with their listing, and random conditions on them, in the SQL of Spark and of DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyiceberg import types as t
from pyiceberg.transforms import TimeTransform, parse_transform

from rowmerge.iceberg.manifests.bounds import to_stored_value
from rowmerge.plan.expressions.sides import Side
from rowmerge.table.metadata.schema import Decimal, Field, Primitive, Struct, arrow_schema, arrow_type
from rowmerge.table.snapshots.files import SOURCE, TRANSFORM, FileListing, listing_schema, range_type

NAN = float("nan")
SCHEMA = Struct(
    (
        Field("id", Primitive("long")),
        Field("small", Primitive("byte")),
        Field("amount", Decimal(10, 2)),
        Field("ratio", Primitive("double")),
        Field("single", Primitive("float")),
        Field("name", Primitive("string")),
        Field("day", Primitive("date")),
        Field("flag", Primitive("boolean")),
        Field("seen", Primitive("timestamp")),
        Field("wall", Primitive("timestamp_ntz")),
        Field("region", Primitive("string")),
        Field("month", Primitive("integer")),
        Field("born", Primitive("date")),
    )
)
PARTITION_COLUMNS = ("region", "month", "born")
ICEBERG_TYPES: dict[str, t.PrimitiveType] = {
    "id": t.LongType(),
    "small": t.IntegerType(),
    "amount": t.DecimalType(10, 2),
    "ratio": t.DoubleType(),
    "name": t.StringType(),
    "day": t.DateType(),
    "seen": t.TimestamptzType(),
    "wall": t.TimestampType(),
}
SIDE = Side("t", (("s", "orders"),), SCHEMA.names)

_DAYS = [date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1), date(2024, 3, 10), date(1969, 12, 31), date(1500, 2, 28)]
_HOURS = [
    datetime(2024, 3, 9, 12),
    datetime(2024, 3, 10, 2, 30),
    datetime(2024, 3, 10, 3),
    datetime(2024, 3, 11),
    datetime(2024, 3, 10, 2, 30, 0, 1),
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 30),
    datetime(1969, 11, 30, 22),
    datetime(1500, 2, 28, 1),
]
VALUES: dict[str, list[Any]] = {
    "id": [-(1 << 63), -1, 0, 1, 2, 3, 5, 8, (1 << 53) + 1, (1 << 63) - 1],
    "small": [-128, -1, 0, 1, 2, 127],
    "amount": [Number("-1.50"), Number("0.00"), Number("1.00"), Number("1.01"), Number("2.50"), Number("99999999.99")],
    "ratio": [-1.5, -0.0, 0.0, 0.1, 1.0, 2.5, NAN, float("inf")],
    "single": [-1.5, -0.0, 0.0, 0.1, 1.0, 2.5, NAN, 16777216.0],
    "name": ["", "a", "ab", "abc", "b", "ba", "Z", "é", "\U0001f600", "~"],
    "day": _DAYS,
    "flag": [True, False],
    "seen": [hour.replace(tzinfo=timezone.utc) for hour in _HOURS],
    "wall": _HOURS,
    "region": ["", "eu", "us", "usa"],
    "month": [-1, 0, 1, 2, 12],
    "born": _DAYS,
}
_INTEGERS = ["-1", "0", "1", "2", "3", "8", "1.5", "2.0", "-0.5", "127", "128", "9007199254740993", "9223372036854775807", "1e0", "2.5e0"]
_DATES = ["DATE '2024-02-29'", "DATE '2024-03-01'", "'2024-02-29'", "'2024-03-02'", "CAST('2024-03-01' AS DATE)", "'1969-12-31'"]
_DATES += ["DATE '1500-03-01'", "DATE '1970-01-01'"]
LITERALS: dict[str, list[str]] = {
    "id": [*_INTEGERS, "'1'", "CAST(5 AS BIGINT)", "- 1"],
    "small": [*_INTEGERS, "'-1'"],
    "month": [*_INTEGERS, "'1'", "CAST('2' AS INT)"],
    "amount": ["0", "1", "1.0", "1.01", "1.005", "2.5", "-1.5", "1.00999", "99999999.99", "100000000", "CAST(2.5 AS DECIMAL(20, 5))"],
    "ratio": ["0", "0.0", "0.1", "1", "2.5", "-1.5", "3", "1e-1", "-0.0"],
    "single": ["0", "0.1", "1", "2.5", "-1.5", "16777217.0", "CAST(0.5 AS FLOAT)"],
    "name": ["''", "'a'", "'ab'", "'b'", "'é'", "'Z'", "'zz'"],
    "region": ["''", "'eu'", "'us'", "'v'"],
    "day": _DATES,
    "born": _DATES,
    "flag": ["TRUE", "FALSE"],
    "seen": [
        "TIMESTAMP '2024-03-10 02:30:00Z'",
        "TIMESTAMP '2024-03-10 03:00:00+01:00'",
        "TIMESTAMP '2024-03-10 12:00:00'",
        "DATE '2024-03-10'",
        "'2024-03-10 02:30:00Z'",
        "CAST('2024-03-10 03:00:00' AS TIMESTAMP)",
        "TIMESTAMP '1969-12-31 23:30:00Z'",
        "TIMESTAMP '1970-01-01 00:00:00Z'",
    ],
    "wall": [
        "DATE '2024-03-10'",
        "'2024-03-10 02:30:00'",
        "'2024-03-11'",
        "CAST('2024-03-10 02:30:00' AS TIMESTAMP_NTZ)",
        "TIMESTAMP_NTZ '2024-03-10 03:00:00'",
        "'1969-12-31 23:30:00'",
        "TIMESTAMP_NTZ '1970-01-01 00:00:00'",
    ],
}
TRANSFORMS: dict[str, list[str]] = {
    "id": ["identity", "truncate[10]", "truncate[7]", "bucket[3]"],
    "small": ["truncate[3]", "bucket[2]"],
    "amount": ["truncate[50]", "truncate[7]", "bucket[3]"],
    "ratio": ["identity"],
    "name": ["identity", "truncate[1]", "truncate[2]", "bucket[3]"],
    "day": ["identity", "year", "month", "day", "bucket[3]"],
    "seen": ["year", "month", "day", "hour"],
    "wall": ["year", "month", "day", "hour"],
}
PATTERNS = ["'a%'", "'a%%'", "'ab_'", "'%b'", "'ab'", "'%'", "'u%'", "'us%'", "'é%'", "''"]


@dataclass(frozen=True)
class Files:
    """Rows by file, and the listing that a format returns for them."""

    rows: tuple[tuple[dict[str, Any], ...], ...]
    listing: FileListing

    def table(self) -> pa.Table:
        """Return all rows, with the index of their file in `file`."""
        schema = arrow_schema(SCHEMA).append(pa.field("file", pa.int64()))
        return pa.Table.from_pylist([{**row, "file": index} for index, rows in enumerate(self.rows) for row in rows], schema)


@st.composite
def files(draw: st.DrawFn) -> Files:
    """Draw a few files. Bounds, null counts and record counts are sometimes missing, and bounds of strings are truncated.

    Each file has one of two partition specs, whose transforms have the same value for all rows of the file.
    """
    chosen, listed, specs_of_files = [], [], []
    specs = [draw(_specs()) for _ in range(2)]
    for index in range(draw(st.integers(1, 5))):
        spec_id = draw(st.integers(0, 1))
        transforms = Transforms(specs[spec_id], rounds_to_zero=draw(st.booleans()))
        partition = {name: draw(st.sampled_from([None, *VALUES[name]])) for name in PARTITION_COLUMNS}
        free = [name for name in SCHEMA.names if name not in PARTITION_COLUMNS]
        values = {name: draw(transforms.values(name, draw(st.integers(0, 3)))) for name in free}
        row = st.fixed_dictionaries({name: st.sampled_from(values[name]) for name in free})
        rows = tuple({**inner, **partition} for inner in draw(st.lists(row, max_size=4)))
        chosen.append(rows)
        hidden = draw(st.sets(st.sampled_from([*free, "records", "nulls"]), max_size=3))
        listed.append(listed_file(f"file:///t/{index}", rows, partition, hidden, cut=draw(st.booleans())))
        specs_of_files.append((spec_id, {name: transforms.of(name, values[name][0]) for name in transforms.spec}))
    listing = pa.Table.from_pylist(listed, LISTING)
    return Files(tuple(chosen), FileListing(listing.append_column("ranges", _ranges(specs, specs_of_files))))


def _specs() -> st.SearchStrategy[dict[str, str]]:
    columns = st.lists(st.sampled_from(sorted(TRANSFORMS)), unique=True, max_size=3)
    return columns.flatmap(lambda names: st.fixed_dictionaries({name: st.sampled_from(TRANSFORMS[name]) for name in names}))


@dataclass(frozen=True)
class Transforms:
    """The transforms of a partition spec by column, as pyiceberg computes them. Old Java writers rounded times to zero."""

    spec: Mapping[str, str]
    rounds_to_zero: bool

    def of(self, column: str, value: Any) -> Any:
        """Return the transformed value, as manifests store it."""
        transform = parse_transform(self.spec[column])
        if value is None:
            return None
        number = to_stored_value(value, ICEBERG_TYPES[column])
        result = transform.transform(ICEBERG_TYPES[column])(number)
        if isinstance(result, int) and result < -(1 << 63):
            return result + (1 << 64)  # as in Java, where the subtraction wraps around
        if not (self.rounds_to_zero and isinstance(transform, TimeTransform) and result < 0):
            return result
        is_start = transform.transform(ICEBERG_TYPES[column])(number - 1) < result
        return result if is_start or (column == "day" and str(transform) == "day") else result + 1

    def values(self, column: str, width: int) -> st.SearchStrategy[list[Any]]:
        """Draw values of a column that can be in one file. `width`: 0 for nulls only, 1 for values and nulls."""
        if width == 0:
            return st.just([None])
        if column not in self.spec:
            return st.just([*VALUES[column], None] if width == 1 else VALUES[column])
        groups: dict[str, list[Any]] = {}
        for value in VALUES[column]:
            # -0.0 and 0.0 are different partitions, as bits.
            groups.setdefault(repr(self.of(column, value)), []).append(value)
        return st.sampled_from([*groups.values(), [None]])


def _ranges(specs: Sequence[Mapping[str, str]], files: Sequence[tuple[int, Mapping[str, Any]]]) -> pa.StructArray:
    """Return the column `ranges` of a listing. `files`: the partition spec and the transformed values of each file."""
    fields, arrays = [], []
    for spec_id, spec in enumerate(specs):
        for column, transform in spec.items():
            field = SCHEMA.find(column)
            assert field is not None
            has_own_type = transform == "identity" or transform.startswith("truncate")
            type_ = arrow_type(field.type) if has_own_type and column != "small" else pa.int32()
            values = [transformed[column] if file_spec == spec_id else None for file_spec, transformed in files]
            array = pa.array(values, type_)
            is_other = pa.array([file_spec != spec_id for file_spec, _ in files])
            children = [array, array, array.is_null(), array.is_valid()]
            arrays.append(pa.StructArray.from_arrays(children, fields=list(range_type(type_)), mask=is_other))
            metadata = {SOURCE: column.encode(), TRANSFORM: transform.encode()}
            fields.append(pa.field(f"{spec_id}.{column}", range_type(type_), metadata=metadata))
    empty = pa.Array.from_buffers(pa.struct([]), len(files), [None], children=[])
    return pa.StructArray.from_arrays(arrays, fields=fields) if arrays else empty


def listed_file(
    path: str, rows: Sequence[Mapping[str, Any]], partition: Mapping[str, Any], hidden: set[str], *, cut: bool
) -> dict[str, Any]:
    """Return one row of a listing."""
    lower, upper, nulls = {}, {}, {}
    for field in SCHEMA:
        if field.name in PARTITION_COLUMNS:
            continue
        values = [row[field.name] for row in rows if row[field.name] is not None]
        nulls[field.name] = None if field.name in hidden or "nulls" in hidden else len(rows) - len(values)
        if not values or field.name in hidden or any(value != value for value in values):
            continue
        low, high = min(values), max(values)
        if cut and field.name == "name":
            low, high = low[:1], high if len(high) < 2 else high[:1] + "\U0010ffff"
        lower[field.name], upper[field.name] = low, high
    records = None if "records" in hidden else len(rows)
    return {
        "path": path,
        "size": 1,
        "records": records,
        "deleted": 0,
        "partition": dict(partition),
        "lower": lower,
        "upper": upper,
        "nulls": nulls,
    }


def _structs() -> tuple[pa.StructType, pa.StructType, pa.StructType]:
    free = [field for field in SCHEMA if field.name not in PARTITION_COLUMNS]
    partition = pa.struct([(field.name, arrow_type(field.type)) for field in SCHEMA if field.name in PARTITION_COLUMNS])
    return partition, pa.struct([(f.name, arrow_type(f.type)) for f in free]), pa.struct([(f.name, pa.int64()) for f in free])


LISTING = listing_schema(*_structs())


def _name(column: str) -> st.SearchStrategy[str]:
    return st.sampled_from([column, f"t.{column}", f"`{column}`", column.upper()])


def _literal(column: str) -> st.SearchStrategy[str]:
    return st.one_of(st.sampled_from(LITERALS[column]), st.sampled_from(LITERALS[column]), st.just("NULL"))


def _comparison(column: str) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["=", "<>", "!=", "==", "<", "<=", ">", ">=", "<=>", " IS DISTINCT FROM "])
    name, literal = _name(column), _literal(column)
    comparison = st.builds("{} {} {}".format, name, operators, literal)
    swapped = st.builds("{} {} {}".format, literal, operators, name)
    between = st.builds("{} {}BETWEEN {} AND {}".format, name, st.sampled_from(["", "NOT "]), literal, literal)
    is_null = st.builds("{} IS {}NULL".format, name, st.sampled_from(["", "NOT "]))
    return st.one_of(comparison, swapped, between, is_null, _in(column), *([_like(column)] if column in ("name", "region") else []))


def _in(column: str) -> st.SearchStrategy[str]:
    # Engines differ in lists of strings and typed literals together, so a list has only strings or only typed literals.
    quoted = [text for text in LITERALS[column] if text.startswith("'")]
    typed = [text for text in LITERALS[column] if not text.startswith("'")]
    members = st.one_of([st.lists(st.sampled_from([*group, "NULL"]), min_size=1, max_size=4) for group in (quoted, typed) if group])
    return st.builds("{} {}IN ({})".format, _name(column), st.sampled_from(["", "NOT "]), members.map(", ".join))


def _function(column: str) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
    literal = st.sampled_from(LITERALS[column])
    tests = [
        st.builds(
            "CASE WHEN {} THEN 'a' WHEN {} THEN 'b' END {} 'a'".format, *(_simple_comparison(column),) * 2, st.sampled_from(["=", "<>"])
        )
    ]
    tests.append(
        st.builds("({}) IS {}{}".format, _simple_comparison(column), st.sampled_from(["", "NOT "]), st.sampled_from(["TRUE", "FALSE"]))
    )
    if column in ("day", "born", "seen", "wall"):
        tests.append(st.builds("year({}) {} {}".format, st.just(column), operators, st.sampled_from(["2023", "2024", "2024.5"])))
        tests.append(st.builds("CAST({} AS DATE) {} {}".format, st.just(column), operators, st.sampled_from(_DATES)))
    if column == "seen":
        tests.append(
            st.builds("date_trunc('{}', seen) {} {}".format, st.sampled_from(["month", "week", "day", "hour"]), operators, literal)
        )
    if column in ("name", "region"):
        forms = st.sampled_from(["left({}, 1)", "substring({}, 1, 2)", "coalesce({}, 'b')", "coalesce({}, name)"])
        tests.append(st.builds(lambda form, op, text: f"{form.format(column)} {op} {text}", forms, operators, literal))
        tests.append(st.builds("startswith({}, {})".format, st.just(column), literal))
    if column in ("id", "month"):
        tests.append(st.builds("coalesce({}, 2) {} {}".format, st.just(column), operators, st.sampled_from(["1", "2", "1.5", "3"])))
    return st.one_of(tests)


def _simple_comparison(column: str) -> st.SearchStrategy[str]:
    """Draw a comparison of the column with a literal of its type."""
    return st.builds("{} {} {}".format, st.just(column), st.sampled_from(["=", "<", ">="]), st.sampled_from(LITERALS[column]))


def _pair(columns: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw a comparison of two columns of similar types."""
    groups = (("id", "small", "month"), ("ratio", "single"), ("name", "region"), ("day", "born"), ("amount",))
    pairs = [(first, other) for group in groups for first in group for other in group if first in columns and other in columns]
    operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
    return st.builds(lambda pair, op: f"{pair[0]} {op} t.{pair[1]}", st.sampled_from(pairs), operators)


def _like(column: str) -> st.SearchStrategy[str]:
    return st.builds("{} {}LIKE {}".format, _name(column), st.sampled_from(["", "NOT "]), st.sampled_from(PATTERNS))


def conditions(columns: Sequence[str] = SCHEMA.names) -> st.SearchStrategy[str]:
    """Draw conditions in Spark's SQL. `duck` converts them to DuckDB's SQL."""
    leaves = [_comparison(column) for column in columns]
    constants = st.sampled_from(
        ["TRUE", "FALSE", "NULL", "1 = 1", "1 > 2", *(["flag", "NOT t.flag", "flag IS TRUE"] if "flag" in columns else [])]
    )
    opaque = st.sampled_from(["small % 2 = 1", "length(name) = 2", "id % 2 = 0"]) if "id" in columns else st.nothing()
    functions = st.one_of([_function(column) for column in columns])
    leaf = st.one_of(st.one_of(leaves), st.one_of(leaves), st.one_of(leaves), functions, _pair(columns), constants, opaque)

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("({} AND {})".format, inner, inner), st.builds("({} OR {})".format, inner, inner), st.builds("NOT ({})".format, inner)
        )

    return st.recursive(leaf, grown, max_leaves=5)


def duck(text: str) -> str:
    """Return the same condition in DuckDB's SQL, where TIMESTAMP has no zone and timestamps with a zone are another type.

    Spark compares a float with a decimal as doubles, DuckDB as floats: literals that a float cannot represent become doubles.
    """
    text = re.sub(r"(?<![\d.])(0\.1|16777217\.0)(?!\d)", r"\1::DOUBLE", text)
    text = (
        text.replace("`", '"')
        .replace("startswith(", "starts_with(")
        .replace("<=>", " IS NOT DISTINCT FROM ")
        .replace("AS TIMESTAMP_NTZ", "AS tIMESTAMP")
        .replace("TIMESTAMP_NTZ '", "tIMESTAMP '")
    )
    text = text.replace("AS TIMESTAMP)", "AS TIMESTAMPTZ)").replace("TIMESTAMP '", "TIMESTAMPTZ '")
    return text.replace(" NULL IS ", " NULL::INT IS ")
