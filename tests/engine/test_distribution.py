"""The distribution and order of rows in the files of tables with partition transforms and sort orders."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rowmerge.execution.insert import NewRows
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.spark.writing.distribution import Gather, distribute_rows
from rowmerge.spark.writing.specs import write_spec
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.table.metadata.partitioning import Distribution, PartitionField, SortField, Transform
from rowmerge.table.metadata.schema import Decimal as DecimalType, Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableShape

COLUMNS = Struct(
    (
        Field("n", Primitive("long")),
        Field("i", Primitive("integer")),
        Field("d", DecimalType(12, 2)),
        Field("s", Primitive("string")),
        Field("b", Primitive("binary")),
        Field("day", Primitive("date")),
        Field("t", Primitive("timestamp")),
        Field("l", Primitive("timestamp_ntz")),
        Field("x", Struct((Field("a.b", Primitive("string")),))),
    )
)
BEGIN = dt.datetime(1969, 12, 30, 22, 59, 59, 999_999, tzinfo=dt.timezone.utc)


def rows(spark: SparkSession, count: int = 600) -> NewRows:
    """Return rows with each value in two tasks, which differ from the tasks that group the rows of one partition."""
    frame = spark.range(0, count, 1, 2).selectExpr(
        "if(id % 50 = 7, null, (id * 7919) % 101 - 50) as n",
        "cast(id % 91 - 45 as int) as i",
        "cast((id % 77 - 38) * 1.25 as decimal(12, 2)) as d",
        "concat('é', id % 13, 'x') as s",
        "cast(concat(id % 17, 'x') as binary) as b",
        "date_add(date'1969-06-01', cast(id % 400 as int)) as day",
        "timestamp_micros(-90000000001L + (id % 60) * 3600000000) as t",
        "cast(timestamp_micros(-90000000001L + (id % 60) * 3600000000) as timestamp_ntz) as l",
        "named_struct('a.b', cast(id % 5 as string)) as x",
    )
    return NewRows(frame)


def shape(folder: Path, *fields: PartitionField, ordering: tuple[SortField, ...] = (), by: Distribution = Distribution.HASH) -> TableShape:
    settings = IcebergSettings({"write.distribution-mode": by.value})
    location = folder.as_uri()
    return TableShape("t", location, location, COLUMNS, COLUMNS, False, fields, True, settings, parse_ordering=lambda: ordering)


def field(column: str, transform: str = "identity") -> PartitionField:
    return PartitionField(("x", column) if column == "a.b" else (column,), Transform.parse(transform), f"{column}_{transform[0]}")


def partitions(output: WriteOutput) -> Counter[tuple[object, ...]]:
    return Counter(tuple(file.partition.values()) for file in output.files)


@pytest.fixture
def far_from_utc(spark: SparkSession):
    old_zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    yield
    spark.conf.set("spark.sql.session.timeZone", old_zone)


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize(
    "fields",
    [
        (field("n", "bucket[3]"), field("a.b")),
        (field("s", "bucket[4]"), field("t", "day")),
        (field("d", "bucket[5]"), field("b", "truncate[1]")),
        (field("t", "bucket[2]"), field("l", "bucket[2]"), field("day", "bucket[2]")),
        (field("d", "truncate[1000]"), field("s", "truncate[2]")),
        (field("i", "truncate[30]"), field("n", "truncate[40]"), field("b", "bucket[2]")),
        (field("day", "month"), field("n", "void")),
        (field("t", "hour"),),
        (field("l", "hour"),),
        (field("l", "day"), field("t", "month"), field("l", "year")),
    ],
)
def test_rows_of_one_partition_are_written_to_one_file(spark: SparkSession, tmp_path: Path, fields: tuple[PartitionField, ...]) -> None:
    output = rows(spark).write(shape(tmp_path, *fields))
    assert sum(file.records for file in output.files) == 600
    assert set(partitions(output).values()) == {1}
    assert len(output.files) > 1


def test_distribution_mode_none_does_not_move_rows(spark: SparkSession, tmp_path: Path) -> None:
    output = rows(spark).write(shape(tmp_path, field("n", "bucket[3]"), by=Distribution.NONE))
    assert set(partitions(output).values()) == {2}


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize("by", list(Distribution))
def test_every_file_has_the_sort_order_of_the_table(spark: SparkSession, tmp_path: Path, by: Distribution) -> None:
    ordering = (
        SortField(("l",), Transform.parse("day")),
        SortField(("d",), Transform.parse("truncate[1000]"), ascending=False, nulls_first=False),
        SortField(("n",), nulls_first=False),
    )
    output = rows(spark).write(shape(tmp_path, field("s", "bucket[2]"), ordering=ordering, by=by))
    assert all(file.ordered for file in output.files)
    for file in output.files:
        file_rows = pq.read_table(file.path.removeprefix("file://"), columns=["l", "d", "n"]).to_pylist()
        keys = [(row["l"].date(), -_tens(row["d"]), row["n"] is None, row["n"] or 0) for row in file_rows]
        assert keys == sorted(keys)


def _tens(value: Decimal) -> Decimal:
    return (value / 10).to_integral_value("ROUND_FLOOR")


def test_files_of_new_rows_cover_disjoint_ranges_of_the_sort_order(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        output = rows(spark).write(shape(tmp_path, ordering=(SortField(("i",)),), by=Distribution.RANGE))
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    spans = sorted((file.lower["i"], file.upper["i"]) for file in output.files)
    assert len(spans) == 2
    assert spans[0][1] < spans[1][0]


def test_few_new_rows_are_one_file_in_a_sorted_table(spark: SparkSession, tmp_path: Path) -> None:
    output = rows(spark, 20).write(shape(tmp_path, ordering=(SortField(("i",)),), by=Distribution.RANGE))
    assert [file.records for file in output.files] == [20]


def test_column_sizes_cover_every_leaf_column(spark: SparkSession, tmp_path: Path) -> None:
    file, _ = rows(spark, 20).write(shape(tmp_path)).files
    assert set(file.sizes) == set(COLUMNS.names)
    assert set(file.sizes["x"]) == {"a.b"}
    columns = pq.read_metadata(file.path.removeprefix("file://")).row_group(0)
    assert file.sizes["s"] == columns.column(3).total_compressed_size
    assert not file.ordered


def test_files_have_the_codec_and_the_target_size_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    properties = {
        "write.parquet.compression-codec": "gzip",
        "write.parquet.compression-level": "9",
        "write.target-file-size-bytes": "5000000",
    }
    table = replace(shape(tmp_path), settings=IcebergSettings(properties))
    files = rows(spark, 100).write(table).files
    assert {pq.read_metadata(file.path.removeprefix("file://")).row_group(0).column(0).compression for file in files} == {"GZIP"}
    spec = write_spec(table)
    assert (spec.target_file_size, spec.row_group_size) == (5_000_000, 5_000_000)
    assert write_spec(shape(tmp_path)).target_file_size == WriteSpec.target_file_size


def test_merged_rows_are_distributed_by_the_merge_property(spark: SparkSession, tmp_path: Path) -> None:
    table = replace(shape(tmp_path, field("s")), partitioning=(field("s"),))
    frame = rows(spark).frame

    def plan(gather: Gather, distribution: Distribution | None, ordering: tuple[SortField, ...] = ()) -> str:
        distributed_rows = distribute_rows(
            frame, replace(table, parse_ordering=lambda: ordering), frame.columns, gather=gather, distribution=distribution
        )
        with redirect_stdout(StringIO()) as plan_text:
            distributed_rows.explain("simple")
        return plan_text.getvalue()

    order = (SortField(("i",)),)
    assert "Exchange" not in plan(Gather.BY_SIZE, Distribution.NONE)
    assert "REBALANCE" in plan(Gather.BY_SIZE, Distribution.HASH) and "REBALANCE" in plan(Gather.BY_SIZE, None)
    assert "rangepartitioning" in plan(Gather.BY_SIZE, Distribution.RANGE, order)
    assert "rangepartitioning" not in plan(Gather.BY_SIZE, None, order)


def test_values_outside_the_range_of_truncate_are_written(spark: SparkSession, tmp_path: Path) -> None:
    columns = Struct((Field("n", Primitive("long")), Field("d", DecimalType(38, 0))))
    frame = spark.sql("select -9223372036854775808 as n, cast(repeat('9', 38) as decimal(38, 0)) * -1 as d")
    by, ordering = (field("n", "truncate[10]"),), (SortField(("d",), Transform.parse("truncate[7]")),)
    table = replace(shape(tmp_path, *by, ordering=ordering), schema=columns, stored_schema=columns)
    (file,) = NewRows(frame).write(table).files
    assert file.partition == {"n_t": 2**63 - 2}
    assert pq.read_table(file.path.removeprefix("file://"))["n"].to_pylist() == [-(2**63)]
