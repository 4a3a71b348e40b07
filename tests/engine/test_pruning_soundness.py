"""Verdicts on files compared with Spark's answers for the rows in them: functions of dates and times, casts, and nested fields."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal as Number
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.plan.bounds.file_bounds import FileBounds
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.predicates.predicates import to_predicate
from rowmerge.spark.time_zones import session_time_zone
from rowmerge.table.metadata.schema import Decimal, Field, Primitive, Struct, arrow_type
from rowmerge.table.snapshots.files import FileListing, listing_schema
from tests.support.suites import examples

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "+05:30", "America/Havana"]
NESTED = Struct((Field("i", Primitive("integer")), Field("d", Primitive("date")), Field("s", Primitive("string"))))
SCHEMA = Struct(
    (
        Field("d", Primitive("date")),
        Field("e", Primitive("date")),
        Field("t", Primitive("timestamp")),
        Field("n", Primitive("timestamp_ntz")),
        Field("i", Primitive("integer")),
        Field("b", Primitive("byte")),
        Field("l", Primitive("long")),
        Field("p", Decimal(10, 2)),
        Field("f", Primitive("double")),
        Field("s", Primitive("string")),
        Field("flag", Primitive("boolean")),
        Field("st", NESTED),
    )
)
SIDE = Side("x", (), SCHEMA.names)
_NULLS: dict[str, Any] = dict.fromkeys(NESTED.names)
_MICROSECOND, _EPOCH = timedelta(microseconds=1), datetime(1970, 1, 1)

DATES = ["0001-01-01", "1582-10-10", "1582-10-15", "1899-12-31", "1969-12-31", "1970-01-01", "2011-12-30", "2023-12-31", "2024-01-01"]
DATES += ["2024-02-29", "2024-03-10", "2024-03-31", "2024-10-27", "2024-11-03", "9999-12-31"]
TIMES = [f"{day} {time}" for day in DATES for time in ("00:00:00", "02:30:00", "23:59:59.999999")]
TIMES += ["2024-03-31 01:00:00", "2024-10-27 00:30:00", "2024-10-27 01:30:00", "2024-11-03 05:30:00", "2024-11-03 04:30:00"]
NUMBERS = [-(1 << 31), -1, 0, 1, 7, 127, 128, (1 << 31) - 1]
VALUES: dict[str, list[Any]] = {
    "d": [date.fromisoformat(day) for day in DATES],
    "e": [date.fromisoformat(day) for day in DATES],
    "t": [datetime.fromisoformat(time) for time in TIMES],
    "n": [datetime.fromisoformat(time) for time in TIMES],
    "i": NUMBERS,
    "b": [-128, -1, 0, 1, 7, 127],
    "l": [*NUMBERS, -(1 << 63), (1 << 53) + 1, (1 << 63) - 1],
    "p": [Number("-1.50"), Number("0.00"), Number("0.99"), Number("1.00"), Number("7.49"), Number("99999999.99")],
    "f": [-1.5, -0.0, 0.99, 1.0, 7.0, 1e10, 1e300],
    "s": ["", "a", "ab", "abc", "b", "é", "2024-01-01", "\U0001f600x"],
    "flag": [True, False],
}

_DATE_LITERALS = [
    "DATE '2024-01-01'",
    "'2024-01-01'",
    "DATE '1970-01-01'",
    "CAST('2024-03-31' AS DATE)",
    "'2023-12-31'",
    "DATE '0001-01-01'",
]
_TIME_LITERALS = ["TIMESTAMP '2024-01-01 00:00:00'", "'2024-03-31 02:30:00'", "TIMESTAMP '2024-10-27 01:30:00Z'", "DATE '2024-01-01'"]
_TIME_LITERALS += ["TIMESTAMP_NTZ '2024-10-27 02:30:00'", "TIMESTAMP '1969-12-31 23:59:59.999999'", "TIMESTAMP '2011-12-31 00:00:00'"]
_YEARS = ["2024", "1969", "1582", "2024.5", "'2024'", "9999", "1"]
_TEXTS = ["'2024-01-01'", "'2024-03-31'", "'1969-12-31'", "'2024-03-31 02:30:00'", "'2024'", "'2024-03'", "'1582-10-10'"]
_NUMBERS = ["0", "1", "7", "128", "-1", "1.5", "0.99", "2147483648", "1e0"]
_STRINGS = ["'a'", "'ab'", "''", "'b'", "'é'"]

FORMS: list[tuple[list[str], list[str]]] = [
    (["year({})", "extract(year FROM {})"], _YEARS),
    (["trunc({}, '" + unit + "')" for unit in ("YEAR", "quarter", "MM", "week")], _DATE_LITERALS),
    (
        ["date_trunc('" + unit + "', {})" for unit in ("YEAR", "quarter", "month", "week", "DAY", "hour", "MINUTE", "second")],
        _TIME_LITERALS,
    ),
    (["date({})", "CAST({} AS DATE)", "{}::date", "to_date({})", "last_day({})", "try_cast({} AS date)"], _DATE_LITERALS),
    (["date_add({}, 3)", "date_sub({}, 1)", "date_add({}, -2)", "dateadd({}, 1)"], _DATE_LITERALS),
    (["CAST({} AS TIMESTAMP)", "CAST({} AS TIMESTAMP_NTZ)", "CAST({} AS TIMESTAMP_LTZ)", "to_timestamp({})", "{}"], _TIME_LITERALS),
    (["date_format({}, '" + form + "')" for form in ("yyyy", "yyyy-MM", "yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd HH:mm", "MM")], _TEXTS),
    (["CAST({} AS STRING)", "string({})"], _TEXTS),
]
_DATE_FORMS = ["{} + 1", "{} - 3", "{} + INTERVAL '1' DAY", "{} - INTERVAL 2 DAYS"]
_NUMBER_FORMS = ["CAST({} AS BIGINT)", "CAST({} AS INT)", "CAST({} AS TINYINT)", "try_cast({} AS tinyint)", "CAST({} AS DECIMAL(12, 3))"]
_NUMBER_FORMS += ["CAST({} AS DECIMAL(4, 1))", "CAST({} AS DOUBLE)", "int({})", "coalesce({}, 1)", "nvl({}, 7)", "{} + 1", "{} - 1", "{}"]
_STRING_FORMS = [
    "substring({}, 1, 1)",
    "substr({}, 1, 2)",
    "left({}, 2)",
    "substring({}, 2, 1)",
    "coalesce({}, 'b')",
    "CAST({} AS STRING)",
    "{}",
]
_OVERFLOWS = re.compile(r"CAST\([\w.]+ AS (TINYINT|INT|DECIMAL\(4, 1\))\)|CAST\(coalesce|int\(|[\w.]+ [+-] 1 |b \+ 1Y")
"""Conditions that cause an error for some rows with ANSI. Spark would evaluate the others of a query again without them."""
_OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
OTHERS = [
    *("d < e", "d = e", "d <= e", "d <> e", "d <=> e", "i < l", "b >= i", "f > f", "s = st.s", "d > st.d", "t > n", "year(d) = year(e)"),
    *("startswith(s, 'a')", "startswith(s, '')", "isnull(i)", "isnotnull(s)", "flag", "NOT flag", "flag IS TRUE", "flag IS NOT TRUE"),
    *(
        "(i > 5) IS TRUE",
        "(i > 5) IS NOT TRUE",
        "(i > 5) IS FALSE",
        "(i > 5) IS NOT FALSE",
        "coalesce(flag, false)",
        "NOT coalesce(flag, true)",
    ),
    *("CASE WHEN i > 5 THEN 'a' ELSE 'b' END = 'a'", "CASE WHEN i > 5 THEN 'a' ELSE 'b' END <> 'a'", "if(i > 5, i, 0) > 6"),
    *(
        "CASE WHEN i > 5 THEN 'a' END IS NULL",
        "CASE i WHEN 1 THEN 'x' WHEN 7 THEN s ELSE 'z' END IN ('x', 'y')",
        "if(flag, d, e) < '2000-01-01'",
    ),
    *(
        "CASE WHEN flag THEN i > 5 ELSE l > 5 END",
        "CASE WHEN s = 'a' THEN 1 WHEN s = 'b' THEN '2' ELSE 3 END = 1",
        "if(i = 1, s, 'q') LIKE 'a%'",
    ),
    *("'a' = 'b'", "'a' = 'a'", "'a' <> 'A'", "DATE '2024-01-01' < DATE '2024-01-02'", "DATE '2024-01-01' = '2024-01-01'", "true = false"),
    *("TIMESTAMP '2024-01-01 00:00:00' > DATE '2024-01-01'", "NULL = 'a'", "NULL <=> NULL", "'a' <=> NULL", "'a' IN ('b', 'c')", "1 = 1.0"),
    *(
        "length(s) = 1",
        "length(s) <> 1",
        "s RLIKE 'a'",
        "NOT contains(s, 'a')",
        "i * 2 > 5",
        "i % 2 = 1",
        "lower(s) = 'a'",
        "s || 'x' = 'ax'",
    ),
    *("coalesce(i, l) = 1", "coalesce(d, e) = '2024-01-01'", "coalesce(p, 0.5) = 0.5", "coalesce(f, 0) = 0", "coalesce(s, 1) = '1'"),
    *("coalesce(d, DATE '1900-01-01') < '1950-01-01'", "coalesce(t, TIMESTAMP '1900-01-01 00:00:00') < '1950-01-01'"),
    *("l < 9223372036854775808", "l = 9223372036854775808", "i < 2147483648", "b < 128", "NOT b < 128", "l > -9223372036854775809"),
    *(
        "year(d) IN (2024, 1969)",
        "year(t) NOT IN (2024)",
        "year(t) BETWEEN 1970 AND 2023",
        "date(t) IN (DATE '2024-01-01', DATE '2024-03-31')",
    ),
    *("d > TIMESTAMP '2024-01-01 00:00:00'", "d = TIMESTAMP '2024-03-31 00:00:00'", "d < TIMESTAMP_NTZ '2024-01-01 00:00:01'", "d = e + 1"),
    *("t IN (TIMESTAMP '2024-01-01 00:00:00')", "t NOT IN (TIMESTAMP '2024-03-31 02:30:00')", "n IN (TIMESTAMP '2024-10-27 01:30:00Z')"),
    *("st IS NULL", "st.i IS NULL", "st.i IS NOT NULL", "st IS NOT NULL", "st.s LIKE 'a%'", "st.s NOT LIKE 'a%'", "x.st.i IN (1, 7)"),
    *(
        "b + 1Y < 0",
        "b + 1 < 0",
        "CAST(coalesce(b, 300) AS TINYINT) = 44",
        "CAST(coalesce(i, 300) AS TINYINT) <> 44",
        "i + 1L > 2147483647",
    ),
    *("CAST(16777216 AS FLOAT) = 16777217", "'1' = 1", "9007199254740993 = 9007199254740992e0", "0.1 = 1e-1", "b = i", "s <=> st.s"),
    f"l IN ({', '.join(map(str, range(5, 300)))})",
    f"f NOT IN ({', '.join(map(str, range(5, 300)))})",
    "s IN (" + ", ".join(f"'a{number}'" for number in range(300)) + ", 'ab')",
]


def conditions() -> list[str]:
    """Return all conditions: each form of each column of its types, compared with literals."""
    result = list(OTHERS)
    cases: list[tuple[list[str], tuple[str, ...], list[str]]] = [(forms, ("d", "t", "n", "st.d"), literals) for forms, literals in FORMS]
    cases += [(_DATE_FORMS, ("d", "st.d"), _DATE_LITERALS), (_NUMBER_FORMS, ("i", "b", "l", "p", "f", "st.i"), _NUMBERS)]
    cases += [(_STRING_FORMS, ("s", "st.s"), _STRINGS)]
    for forms, columns, literals in cases:
        result += [f"{form.format(column)} {op} {literal}" for form, column, op, literal in product(forms, columns, _OPERATORS, literals)]
    return result


def rows(generator: random.Random) -> list[dict[str, Any]]:
    """Return one row for each value of each column, and rows with NULLs."""
    size = max(map(len, VALUES.values()))
    result = []
    for index in range(2 * size):
        row = {name: None if generator.random() < 0.1 else generator.choice(values) for name, values in VALUES.items()}
        row.update({name: values[index] for name, values in VALUES.items() if index < len(values)})
        nested = {
            "i": generator.choice([None, *NUMBERS]),
            "d": generator.choice([None, *VALUES["d"]]),
            "s": generator.choice([None, *VALUES["s"]]),
        }
        row["st"] = generator.choice([None, nested, nested, nested])
        result.append(row)
    return [*result, dict.fromkeys(SCHEMA.names)]


def frame_of(spark: SparkSession, table: Sequence[dict[str, Any]]) -> None:
    """Register the rows as the view `x`. Times are passed as numbers and strings, which no time zone changes."""
    records = []
    for index, row in enumerate(table):
        nested = row["st"] or {}
        times = {"t": None if row["t"] is None else (row["t"] - _EPOCH) // _MICROSECOND, "n": None if row["n"] is None else str(row["n"])}
        flat = {"has": row["st"] is not None, **{f"s_{name}": nested.get(name) for name in NESTED.names}}
        records.append({**row, "id": index, **times, **flat})
    types = {field.name: arrow_type(field.type) for field in SCHEMA if field.name != "st"}
    types |= {"id": pa.int32(), "t": pa.int64(), "n": pa.string(), "has": pa.bool_()}
    types |= {f"s_{field.name}": arrow_type(field.type) for field in NESTED}
    # Spark evaluates queries over an Arrow table in its optimizer, without generated code.
    spark.createDataFrame(pa.Table.from_pylist(records, pa.schema(list(types.items())))).selectExpr(
        *("id", "d", "e", "timestamp_micros(t) as t", "cast(n as timestamp_ntz) as n", "i", "b", "l", "p", "f", "s", "flag"),
        "if(has, named_struct('i', s_i, 'd', s_d, 's', s_s), null) as st",
    ).createOrReplaceTempView("x")


def listing_of(table: Sequence[dict[str, Any]], files: Sequence[Sequence[int]]) -> FileListing:
    """Return a listing of files, each with some of the rows."""
    zoned = [dict(row, t=None if row["t"] is None else row["t"].replace(tzinfo=timezone.utc)) for row in table]
    listed = []
    for index, members in enumerate(files):
        bounds = [_statistics(SCHEMA, [zoned[member] for member in members], which) for which in ("lower", "upper", "nulls")]
        entry = {"path": str(index), "size": 1, "records": len(members), "deleted": 0, "partition": {}}
        listed.append({**entry, **dict(zip(("lower", "upper", "nulls"), bounds, strict=True))})
    bounds_type = pa.struct([(field.name, arrow_type(field.type)) for field in SCHEMA])
    nulls_type = pa.struct([(field.name, _null_type(field)) for field in SCHEMA])
    return FileListing(pa.Table.from_pylist(listed, listing_schema(pa.struct([]), bounds_type, nulls_type)))


def _null_type(field: Field) -> pa.DataType:
    return pa.struct([(inner.name, pa.int64()) for inner in field.type]) if isinstance(field.type, Struct) else pa.int64()


def _statistics(schema: Struct, members: Sequence[dict[str, Any]], which: str) -> dict[str, Any]:
    statistics: dict[str, Any] = {}
    for field in schema:
        if isinstance(field.type, Struct):
            statistics[field.name] = _statistics(
                field.type, [member[field.name] or dict.fromkeys(field.type.names) for member in members], which
            )
            continue
        values = [member[field.name] for member in members if member[field.name] is not None]
        if which == "nulls":
            statistics[field.name] = len(members) - len(values)
        else:
            statistics[field.name] = (min(values) if which == "lower" else max(values)) if values else None
    return statistics


def answers(spark: SparkSession, tests: Sequence[str]) -> dict[str, list[bool | None]]:
    """Return Spark's answer for each row, for the conditions that cause no error."""
    if not tests:
        return {}
    try:
        columns = (f"({test}) as c{index}" for index, test in enumerate(tests))
        result = spark.table("x").selectExpr(*columns, "id").toArrow().sort_by("id")
    except PySparkException:
        if len(tests) == 1:
            return {}
        middle = len(tests) // 2
        return {**answers(spark, tests[:middle]), **answers(spark, tests[middle:])}
    return {test: result[index].to_pylist() for index, test in enumerate(tests)}


@pytest.mark.one_of("zone")
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("zone", ZONES)
def test_no_verdict_contradicts_sparks_answer_for_a_row(spark: SparkSession, zone: str, ansi: str) -> None:
    generator = random.Random(f"{zone} {ansi}")
    table = rows(generator)
    files = [[index] for index in range(len(table))]
    files += [generator.sample(range(len(table)), generator.randint(2, 3)) for _ in range(len(table))]
    chosen = [*OTHERS, *generator.sample(conditions(), examples(gate=60, full=400))]
    if ansi == "true":
        chosen = [condition for condition in chosen if not _OVERFLOWS.match(condition)]
    settings = {"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": ansi}
    old_settings = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        frame_of(spark, table)
        truth: dict[str, list[bool | None]] = {}
        for start in range(0, len(chosen), 50):
            truth |= answers(spark, chosen[start : start + 50])
        time_zone = session_time_zone(spark)
    finally:
        for name, value in old_settings.items():
            spark.conf.set(name, value)
    assert time_zone == zone
    listing = listing_of(table, files)
    excluded = 0
    for condition, results in truth.items():
        for known_zone in (zone, None):
            verdict = to_predicate(condition, SIDE, SCHEMA, (), time_zone=known_zone).evaluate(FileBounds(listing))
            may_be_true, may_be_false = verdict.may_be_true.to_pylist(), verdict.may_be_false.to_pylist()
            for index, members in enumerate(files):
                answers_in_file = {results[member] for member in members}
                rows_of_file = [table[member] for member in members]
                assert True not in answers_in_file or may_be_true[index], (condition, known_zone, rows_of_file)
                assert False not in answers_in_file or may_be_false[index], (condition, known_zone, rows_of_file)
                excluded += not may_be_true[index]
    assert len(truth) > 0.6 * len(chosen)
    assert excluded > 0.2 * len(truth) * len(files)


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_fields_of_structs_and_functions_exclude_files_of_a_table(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id int, d date, s struct<a: int, t: struct<b: string>>) using {format_}")
    for number in range(3):
        nested = f"named_struct('a', {number}, 't', named_struct('b', 'x{number}'))"
        session.sql(f"insert into t values ({number}, date'202{number}-01-01', {nested}), ({number}, null, null)")
    expected = {"s.a = 1": 1, "s.t.b = 'x2'": 1, "S.T.B >= 'x1'": 2, "s.a IS NULL": 3, "year(d) = 2021": 1, "coalesce(id, 0) > 5": 0}
    for condition, files in expected.items():
        ((text,),) = session.sql(f"explain delete from t where {condition}").collect()
        assert f"files: {files} of 3 may contain rows to change" in text, condition
        counted = session.sql(f"select count(*) as n from t where {condition}").collect()[0]["n"]
        assert counted == (3 if "NULL" in condition else 2 * files if "id" in condition else files)
