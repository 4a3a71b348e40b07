"""SHOW CREATE TABLE: its output, executed after a DROP, creates an equal table or view."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import rowmerge
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Struct, backquote
from tests.support.suites import examples

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
_TEXT = st.text("ab'\"`\\\n\t;-$%{}日é", max_size=8)
_NAMES = st.text("abcXY'\"`;, -日é", min_size=1, max_size=6).filter(lambda name: name.strip(" ") == name)
_SIMPLE = ("int", "bigint", "double", "string", "date", "timestamp", "timestamp_ntz", "decimal(12,3)", "boolean", "binary")
_DELTA_TYPES = (*_SIMPLE, "smallint", "tinyint", "varchar(7)", "char(3)")
_LITERALS = {"int": "7", "string": "'it\\'s ; \"x\" ) , --'", "date": "date'2024-02-03'", "boolean": "true", "decimal(12,3)": "1.250"}
_PROPERTIES = st.dictionaries(st.text("abc.-'\"` é", min_size=1, max_size=6).map("team.".__add__), _TEXT, max_size=2)


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@st.composite
def types(draw: st.DrawFn, format_: str) -> str:
    simple = draw(st.sampled_from(_SIMPLE if format_ == "iceberg" else (*_SIMPLE, "smallint")))
    in_map = draw(st.booleans())
    # Delta tables have no NOT NULL inside maps.
    nullability = "" if in_map and format_ == "delta" else draw(st.sampled_from(("", " not null")))
    fields = ", ".join(
        f"{backquote(name)}: {simple}{nullability} comment {literal(draw(_TEXT))}"
        for name in draw(st.lists(_NAMES, min_size=1, max_size=2, unique_by=str.lower))
    )
    nested = f"map<string, struct<{fields}>>" if in_map else f"struct<{fields}>"
    return draw(st.sampled_from((simple, f"array<{simple}>", nested)))


@st.composite
def definitions(draw: st.DrawFn, format_: str) -> list[str]:
    """Return CREATE TABLE t, and ALTER TABLE statements after it."""
    names = draw(st.lists(_NAMES, min_size=3, max_size=5, unique_by=str.lower))
    columns, checks = [], []
    for number, name in enumerate(names):
        quoted = backquote(name)
        if number == 0:  # a column for constraints, generated columns and partitions
            columns.append(f"{quoted} int not null")
            continue
        simple = draw(st.sampled_from(_SIMPLE if format_ == "iceberg" else _DELTA_TYPES))
        type_ = simple if draw(st.booleans()) else draw(types(format_))
        options = [draw(st.sampled_from(("", "not null"))), f"comment {literal(draw(_TEXT))}"]
        if type_ in _LITERALS and draw(st.booleans()):
            options.append(f"default {_LITERALS[type_]}")
        elif format_ == "delta" and draw(st.integers(0, 4)) == 0:
            type_, options = "bigint", [f"generated always as (cast({backquote(names[0])} as bigint) * 2)"]
        columns.append(" ".join([quoted, type_, *options]))
    if format_ == "delta" and draw(st.booleans()):
        checks = [f"constraint {backquote(draw(st.text('abc d', min_size=1).filter(str.strip)))} check ({backquote(names[0])} > -5)"]
    properties: dict[str, str] = draw(_PROPERTIES)
    properties |= {"delta.columnMapping.mode": "name"} if format_ == "delta" else {"format-version": "3"}
    pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    create = f"create table t ({', '.join([*columns, *checks])}) using {format_} comment {literal(draw(_TEXT))} tblproperties ({pairs})"
    first = backquote(names[0])
    if format_ == "delta":
        return [create + draw(st.sampled_from(("", f" partitioned by ({first})")))]
    fields = draw(st.sampled_from(("", first, f"truncate(10, {first}), bucket(4, {first}) as `b c`")))
    partitioning = f" partitioned by ({fields})" if fields else ""
    alterations = [f"alter table t write ordered by {first} desc", f"alter table t add partition field bucket(8, {first}) as x_y"]
    return [create + partitioning, *draw(st.lists(st.sampled_from(alterations), unique=True))]


def type_without_ids(type_: DataType) -> Any:
    """Return a type or field without the ids that differ between tables."""
    match type_:
        case Struct(fields):
            return [shape_of(field) for field in fields]
        case Array(element, contains_null):
            return "array", type_without_ids(element), contains_null
        case Map(key, value, contains_null):
            return "map", type_without_ids(key), type_without_ids(value), contains_null
    return type_


def shape_of(field: Field) -> Any:
    return field.name, field.sql_type, type_without_ids(field.type), field.nullable, field.comment


def description(session: rowmerge.Session) -> Any:
    described = session.describe("default", "t")
    partitioning = [(field.column, field.transform, field.own_name) for field in described.partitioning]
    rules = described.rules
    columns = [shape_of(field) for field in described.columns]
    return columns, partitioning, described.ordering, described.properties, described.comment, rules


def statement_of(session: rowmerge.Session, name: str) -> str:
    ((text,),) = session.sql(f"show create table {name}").collect()
    return str(text)


@pytest.mark.property_test
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_the_statement_creates_an_equal_table(bare_session: rowmerge.Session, format_: str) -> None:
    session = bare_session

    @settings(max_examples=examples(gate=5, full=60), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
    @given(definitions(format_))
    def round_trip(statements: list[str]) -> None:
        session.sql("drop table if exists t")
        for statement in statements:
            session.sql(statement)
        expected, text = description(session), statement_of(session, "t")
        session.sql("drop table t")
        session.sql(text)
        assert description(session) == expected, text
        assert statement_of(session, "t") == text

    round_trip()


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_an_external_table_has_its_location(bare_session: rowmerge.Session, format_: str, tmp_path: Path) -> None:
    folder = tmp_path / "it's outside"
    bare_session.sql(f"create table t (id int) using {format_} location {literal(str(folder))}")
    text, location = statement_of(bare_session, "t"), bare_session.describe("default", "t").location
    assert f"LOCATION {literal(location)}" in text
    bare_session.sql("drop table t")
    shutil.rmtree(folder)
    bare_session.sql(text)
    assert bare_session.describe("default", "t").location == location
    (kind,) = [row["data_type"] for row in bare_session.sql("describe extended t").collect() if row["col_name"] == "Type"]
    assert kind == "EXTERNAL"


def test_a_view_has_its_columns_comments_and_properties(bare_session: rowmerge.Session) -> None:
    create = r"create view v (`a b` comment 'it\'s', c) comment 'x\ny' tblproperties ('k' = '\\') as select 1, 'a;b' -- end"
    bare_session.sql(create)
    text, view = statement_of(bare_session, "v"), bare_session.describe("default", "v")
    bare_session.sql("drop view v")
    bare_session.sql(text)
    again = bare_session.describe("default", "v")
    assert (again.columns, again.comment, again.properties, again.text) == (view.columns, view.comment, view.properties, view.text)
    assert [column.comment for column in again.columns] == ["it's", None]


def test_the_statement_has_one_clause_in_each_line(bare_session: rowmerge.Session) -> None:
    create = "create table t (`a``b` int not null comment 'it''s', ts timestamp) using iceberg partitioned by (days(ts) as day) comment 'c'"
    bare_session.sql(f"{create} write ordered by ts desc tblproperties ('team' = 'x')")
    assert statement_of(bare_session, "t").splitlines() == [
        "CREATE TABLE `default`.`t` (",
        r"  `a``b` INT NOT NULL COMMENT 'it\'s',",
        "  `ts` TIMESTAMP)",
        "USING iceberg",
        "PARTITIONED BY (days(`ts`) AS `day`)",
        "WRITE LOCALLY ORDERED BY ts DESC NULLS LAST",
        "COMMENT 'c'",
        "TBLPROPERTIES (",
        "  'format-version' = '2',",
        "  'team' = 'x',",
        "  'write.distribution-mode' = 'range')",
    ]
