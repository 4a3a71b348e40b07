"""Partition fields and write orders in ALTER TABLE, without a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rowmerge.errors import PlanError, UnknownColumn
from rowmerge.session.definitions.partitioning import (
    change_partitioning,
    change_write_order,
    partition_field,
    resolve_partitioning,
)
from rowmerge.sql import parse, parse_partition_field
from rowmerge.table.metadata.partitioning import Distribution, PartitionField, SortField, Transform
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.settings import TableSettings
from rowmerge.table.metadata.shape import TableDefinition, TableShape

COLUMNS = Struct(
    (
        Field("id", Primitive("long")),
        Field("Name", Primitive("string")),
        Field("ts", Primitive("timestamp")),
        Field("s", Struct((Field("In", Primitive("integer")),))),
        Field("days(ts)", Primitive("integer")),
    )
)


def fields(*texts: str) -> tuple[PartitionField, ...]:
    return resolve_partitioning(COLUMNS, tuple(map(parse_partition_field, texts)))


def altered(text: str, *texts: str) -> TableDefinition:
    """Return the result of `ALTER TABLE t …` for a table with these partition fields."""
    command: Any = parse(f"alter table t {text}")
    shape = TableShape("w.t", "", "", COLUMNS, COLUMNS, True, fields(*texts), True, TableSettings())
    snapshot: Any = SimpleNamespace(name=shape.name, schema=shape.schema, shape=shape)
    return change_write_order(command, snapshot) if text.startswith("write") else change_partitioning(command, snapshot)


def describe_partitioning(definition: TableDefinition) -> list[str]:
    return [f"{field.text} {field.name}" for field in definition.partitioning or ()]


def test_partition_fields_have_the_default_names_of_iceberg() -> None:
    texts = ("ID", "bucket(16, id)", "truncate(4, name)", "years(ts)", "bucket(4, S.in)")
    assert [field.name for field in fields(*texts)] == ["id", "id_bucket", "Name_trunc", "ts_year", "s.In_bucket"]
    assert [fields(text)[0].name for text in ("month(ts)", "date(ts)", "date_hour(ts)")] == ["ts_month", "ts_day", "ts_hour"]
    assert [field.column for field in fields(*texts)] == [("id",), ("id",), ("Name",), ("ts",), ("s", "In")]


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (("idd",), "no column `idd` in PARTITIONED BY"),
        (("bucket(2, s.out)",), r"no column `s\.out` in PARTITIONED BY"),
        (("bucket(2, id.x)",), r"no column `id\.x` in PARTITIONED BY"),
        (("years(ts)", "days(ts)"), r"years\(ts\) and days\(ts\): one of them already divides the rows"),
        (("bucket(2, id)", "bucket(4, id)"), "one of them already divides"),
        (("id", "ID"), "one of them already divides"),
    ],
)
def test_invalid_partition_fields_are_rejected(texts: tuple[str, ...], error: str) -> None:
    with pytest.raises(PlanError, match=error):
        fields(*texts)


def test_a_column_named_as_a_transform_is_a_column() -> None:
    assert partition_field(COLUMNS, "days(ts)") == PartitionField(("days(ts)",))
    assert partition_field(COLUMNS, "hours(ts)") == PartitionField(("ts",), Transform("hour"))


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("add partition field bucket(16, ID)", ["id"], ["id id", "bucket(16, id) id_bucket_16"]),
        ("add partition field truncate(3, name) as short", [], ["truncate(3, Name) short"]),
        ("add partition field hours(ts)", ["days(ts)"], ["days(ts) ts_day", "hours(ts) ts_hour"]),
        ("drop partition field ID_bucket", ["bucket(16, id)", "name"], ["Name Name"]),
        ("drop partition field bucket(16, id)", ["bucket(16, id)", "name"], ["Name Name"]),
        ("drop partition field Name", ["bucket(16, id)", "name"], ["bucket(16, id) id_bucket"]),
        ("drop partition field s.in", ["s.In"], []),
        ("replace partition field ts_day with hours(ts) as h", ["days(ts)", "id"], ["id id", "hours(ts) h"]),
        ("replace partition field days(ts) with day(ts) as d", ["days(ts)", "id"], ["days(ts) d", "id id"]),
    ],
)
def test_partition_fields_are_added_dropped_and_replaced(text: str, before: list[str], after: list[str]) -> None:
    assert describe_partitioning(altered(text, *before)) == after


@pytest.mark.parametrize(
    ("text", "before", "error"),
    [
        ("add partition field bucket(16, id)", ["bucket(16, id)"], r"is already partitioned by bucket\(16, id\), as id_bucket"),
        ("add partition field name as ID_BUCKET", ["bucket(16, id)"], r"already has a partition field id_bucket \(bucket\(16, id\)\)"),
        (
            "drop partition field bucket(8, id)",
            ["bucket(16, id)"],
            r"no partition field bucket\(8, id\)\. Its partition fields are: id_bucket \(bucket",
        ),
        ("drop partition field id", [], r"w\.t has no partition field id\. It is not partitioned\."),
        ("replace partition field id with nope", ["id"], "no column `nope`"),
    ],
)
def test_invalid_partition_field_changes_are_rejected(text: str, before: list[str], error: str) -> None:
    with pytest.raises(PlanError, match=error):
        altered(text, *before)


def test_a_write_order_has_the_spelling_of_the_table_columns() -> None:
    definition = altered("write ordered by NAME desc, bucket(4, S.in)")
    assert definition.ordering == (SortField(("Name",), Transform(), False, False), SortField(("s", "In"), Transform("bucket", 4)))
    assert (definition.distribution, definition.partitioning) == (Distribution.RANGE, None)
    with pytest.raises(UnknownColumn, match="no column `nope` in WRITE ORDERED BY"):
        altered("write locally ordered by nope")


def test_a_local_order_keeps_the_distribution_and_unordered_removes_it() -> None:
    assert altered("write locally ordered by id").distribution is None
    assert altered("write unordered") == TableDefinition(ordering=(), distribution=Distribution.NONE)
    assert altered("write distributed by partition") == TableDefinition(ordering=(), distribution=Distribution.HASH)
