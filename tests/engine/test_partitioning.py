"""Iceberg tables with partition transforms. pyiceberg's transforms of each file's rows must equal the values in its manifest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable

import rowmerge
from rowmerge import errors
from tests.engine.interleaving import overtaken
from tests.support.readers import newest_metadata

pytestmark = pytest.mark.one_of("mode")

COLUMNS = (
    "id bigint, name string, amount decimal(10, 2), day date, at timestamp, local timestamp_ntz, data binary, s struct<x: int, y: string>"
)
ROWS = """
    select if(id % 9 = 3, null, id * 7 - 20) as id, concat('é', id % 7, 'ü') as name, cast((id - 11) * 3.25 as decimal(10, 2)) as amount,
        date_add(date'1969-12-20', cast(id as int)) as day, timestamp_micros((id - 9) * 7200000000 - 1) as at,
        cast(timestamp_micros((id - 9) * 3600000000 - 1) as timestamp_ntz) as local, cast(concat('b', id % 3) as binary) as data,
        if(id % 8 = 5, null, named_struct('x', cast(id as int), 'y', concat('y', id % 2))) as s
    from range({}, {})"""


def assert_files_hold_their_partitions(session: rowmerge.Session, name: str = "t") -> list[Any]:
    """Verify that each data file has the partition values of its rows, by the spec of its writer, and return the files."""
    location = session.describe("default", name).location
    table = StaticTable.from_metadata(newest_metadata(location))
    files = [task.file for task in table.scan(row_filter=AlwaysTrue()).plan_files()]
    for file in files:
        spec, schema = table.specs()[file.spec_id], table.schema()
        rows = pq.read_table(file.file_path.removeprefix("file://")).to_pylist()
        for at, part in enumerate(spec.fields):
            path, source = schema.find_column_name(part.source_id), schema.find_type(part.source_id)
            assert path is not None
            transform = part.transform.transform(source)
            expected_values = {transform(_internal(_at(row, path.split(".")))) for row in rows}
            assert expected_values == {file.partition[at]}, f"{file.file_path}: {part}"
    return files


def _at(row: Any, path: list[str]) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row


def _internal(value: Any) -> Any:
    """Convert a value to the type that pyiceberg's transforms take and its manifests contain."""
    if hasattr(value, "timestamp"):
        whole = value.replace(microsecond=0)
        seconds = (whole.replace(tzinfo=None) - type(value)(1970, 1, 1)).total_seconds()
        return int(seconds) * 1_000_000 + value.microsecond
    return (value - type(value)(1970, 1, 1)).days if hasattr(value, "toordinal") else value


@pytest.mark.parametrize(
    ("by", "mode"),
    [
        ("bucket(3, id), years(at), data", "copy-on-write"),
        ("truncate(20, id), days(local), bucket(2, s.y)", "merge-on-read"),
        ("truncate(10, amount), hours(at), months(day), truncate(2, name)", "merge-on-read"),
    ],
)
def test_rows_are_in_the_partitions_of_the_manifests(session: rowmerge.Session, by: str, mode: str) -> None:
    session.sql(f"create table t ({COLUMNS}) using iceberg partitioned by ({by}) tblproperties ('rowmerge.write.mode' = '{mode}')")
    session.sql(f"insert into t {ROWS.format(0, 24)}")
    assert_files_hold_their_partitions(session)
    session.sql(f"""
        merge into t using ({ROWS.format(18, 30)}) s on t.id = s.id
        when matched and s.id % 2 = 0 then update set name = 'zz', amount = -s.amount, day = date'2024-03-01', s = null
        when matched then delete
        when not matched then insert *""")
    assert_files_hold_their_partitions(session)
    session.sql("update t set at = at + interval 3 hours, local = local - interval 1 day where id < 30")
    assert_files_hold_their_partitions(session)
    assert session.sql("select count(*) from t where name = 'zz'").collect()[0][0] > 0


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_files_of_old_and_new_partition_specs_are_read_together(session: rowmerge.Session, mode: str) -> None:
    session.sql(f"create table t ({COLUMNS}) using iceberg tblproperties ('rowmerge.write.mode' = '{mode}')")
    session.sql(f"insert into t {ROWS.format(0, 8)}")
    changes = (
        "add partition field bucket(2, id)",
        "replace partition field id_bucket_2 with truncate(1, name) as letter",
        "add partition field days(at)",
        "drop partition field letter",
    )
    for at, change in enumerate(changes, 1):
        session.sql(f"alter table t {change}")
        session.sql(f"insert into t {ROWS.format(at * 8, at * 8 + 8)}")
        session.sql(f"update t set amount = {at} where id % 5 = {at}")
        session.sql(f"delete from t where id = {at * 21 - 20}")
        assert_files_hold_their_partitions(session)
    specs = {file.spec_id for file in assert_files_hold_their_partitions(session)}
    assert specs >= {3, 4}
    assert session.sql("select count(*), count(distinct id) from t").collect()[0] == (38, 33)


def test_files_of_a_sorted_table_have_its_order(session: rowmerge.Session) -> None:
    session.sql(f"create table t ({COLUMNS}) using iceberg partitioned by (bucket(2, id))")
    session.sql("alter table t write distributed by partition locally ordered by name desc, id")
    session.sql(f"insert into t {ROWS.format(0, 30)}")
    files = assert_files_hold_their_partitions(session)
    assert len(files) == 3  # one of them has the rows without an id
    for file in files:
        assert file.sort_order_id == 1
        rows = pq.read_table(file.file_path.removeprefix("file://"), columns=["name", "id"]).to_pylist()
        assert rows == sorted(sorted(rows, key=lambda row: (row["id"] is not None, row["id"])), key=lambda row: row["name"], reverse=True)
    assert max(file.record_count for file in files) > 9
    session.sql("alter table t write unordered")
    session.sql(f"insert into t {ROWS.format(30, 40)}")
    assert {file.sort_order_id for file in assert_files_hold_their_partitions(session)} == {1, None}


def test_files_of_other_buckets_are_skipped(session: rowmerge.Session) -> None:
    """Each file has ids of the whole range, so no bounds exclude a file."""
    session.sql("create table t (id bigint, v string) using iceberg partitioned by (bucket(8, id))")
    session.sql("insert into t select id, 'old' from range(400)")
    explanation = "\n".join(row[0] for row in session.sql("explain update t set v = 'x' where id in (7, 107)").collect())
    assert re.search(r"id in \(7, 107\): excludes [67] by partition values", explanation), explanation
    old_files = {file.file_path for file in assert_files_hold_their_partitions(session)}
    session.sql("""
        merge into t using (values (7), (1007)) s (id) on t.id = s.id
        when matched then update set v = 'new' when not matched then insert (id) values (id)""")
    assert len(old_files & {file.file_path for file in assert_files_hold_their_partitions(session)}) >= 6
    assert session.sql("select id, v from t where v = 'new' or v is null order by id").collect() == [(7, "new"), (1007, None)]


def test_python_creates_a_table_with_partition_transforms(session: rowmerge.Session) -> None:
    session.sql(f"create table s using iceberg as {ROWS.format(0, 5)}")
    rows = session.table("s").toArrow()
    warehouse = session.describe("default", "s").location.rpartition("/default/")[0]
    iceberg_session = rowmerge.connect(warehouse, spark=session.spark, default_format="iceberg")
    iceberg_session.write(rows, "t", mode="replace", partitioned_by=["bucket(2, id)", "day"])
    files = assert_files_hold_their_partitions(session)
    assert len(files) == 5
    description = [tuple(row) for row in session.sql("describe t").collect()]
    assert description[-4:] == [("", "", ""), ("# Partitioning", "", ""), ("Part 0", "bucket(2, id)", ""), ("Part 1", "day", "")]
    with pytest.raises(errors.UnsupportedStatement, match="squares is not a partition transform"):
        iceberg_session.write(rows, "t", mode="replace", partitioned_by=["squares(id)"])


def test_static_overwrite_requires_partition_values_of_every_file(session: rowmerge.Session) -> None:
    """Files older than a change of the partitioning have no value for the new field; OPTIMIZE rewrites them."""
    session.sql("create table t (id bigint, p string) using iceberg partitioned by (p)")
    session.sql("insert into t values (1, 'a'), (2, 'b'), (3, null)")
    session.sql("alter table t add partition field bucket(2, id)")
    session.sql("insert into t partition (p = 'a') select 4")
    for statement in ("insert overwrite t partition (p = 'a') select 5", "truncate table t partition (p = 'b')"):
        with pytest.raises(errors.PlanError, match=r"default\.t has files that were written before its partitioning changed"):
            session.sql(statement)
    session.sql("optimize t")
    assert {file.spec_id for file in assert_files_hold_their_partitions(session)} == {1}
    session.sql("insert overwrite t partition (p = 'b') select 8")
    assert {tuple(row) for row in session.sql("select * from t").collect()} == {(1, "a"), (3, None), (4, "a"), (8, "b")}


def overwrite(session: rowmerge.Session, query: str) -> rowmerge.StatementResult:
    return session.execute(f"insert overwrite t with ('partitionOverwriteMode' = 'dynamic') {query}")


ALTERATIONS = {
    # the first partitioning, the change of it, and a condition for the rows of the partitions of (10, 1, 1)
    "none to identity": ("", "add partition field p", "p = 1"),
    "added field": ("partitioned by (p)", "add partition field d", "p = 1 and d = 1"),
    "dropped field": ("partitioned by (p, d)", "drop partition field d", "p = 1"),
    "no field": ("partitioned by (p)", "drop partition field p", "true"),
    "replaced field": ("partitioned by (p)", "replace partition field p with d", "d = 1"),
    "bucket": ("partitioned by (p)", "replace partition field p with bucket(2, p)", "p in (1, 2)"),
    "truncate": ("partitioned by (d)", "replace partition field d with truncate(2, d)", "d in (0, 1)"),
}


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(("partitioned", "alteration", "replaced"), ALTERATIONS.values(), ids=ALTERATIONS)
def test_dynamic_overwrite_replaces_partitions_after_their_fields_changed(
    session: rowmerge.Session, mode: str, partitioned: str, alteration: str, replaced: str
) -> None:
    properties = f"tblproperties ('rowmerge.write.mode' = '{mode}')"
    session.sql(f"create table t (id int, p int, d int) using iceberg {partitioned} {properties}")
    session.sql("insert into t values (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2), (5, null, null)")
    session.sql("delete from t where id = 3")
    session.sql(f"alter table t {alteration}")
    session.sql("insert into t values (6, 1, 1), (7, 2, 1), (8, null, 3)")
    kept_rows = {tuple(row) for row in session.sql(f"select * from t where not coalesce({replaced}, false)").collect()}
    deleted = session.sql(f"select count(*) from t where {replaced}").collect()[0][0]
    counts = overwrite(session, "values (10, 1, 1)").changes
    assert {tuple(row) for row in session.sql("select * from t").collect()} == kept_rows | {(10, 1, 1)}
    assert counts is not None
    assert (counts.inserted, counts.deleted) == (1, deleted)
    metrics = session.sql("describe history t limit 1").collect()[0]["operationMetrics"]
    written_rows = 1 + int(metrics.get("numCopiedRows", 0))
    assert (int(metrics["numOutputRows"]), int(metrics["numRemovedFiles"])) == (written_rows, counts.files_removed)


def test_dynamic_overwrite_of_old_partitions_matches_null_nan_and_nested_fields(session: rowmerge.Session) -> None:
    session.sql("create table t (id int, f double, s struct<`a.b`: string>) using iceberg")
    session.sql("insert into t select 1, double('NaN'), named_struct('a.b', 'x') union all select 2, null, named_struct('a.b', 'y')")
    session.sql("insert into t select 3, 1.0D, named_struct('a.b', cast(null as string)) union all select 4, null, null")
    session.sql("alter table t add partition field f")
    session.sql("alter table t add partition field truncate(1, s.`a.b`)")
    overwrite(session, "select 10, double('NaN'), named_struct('a.b', 'xyz') union all select 11, null, null")
    assert {row["id"] for row in session.sql("select id from t").collect()} == {2, 3, 10, 11}


def test_an_overwrite_with_old_files_conflicts_with_new_rows_of_its_partitions(session: rowmerge.Session, tmp_path: Path) -> None:
    """The statement runs again on the version of the other writer."""
    session.sql("create table t (id int, p int) using iceberg")
    session.sql("insert into t values (1, 1), (2, 2), (3, 1)")
    session.sql("alter table t add partition field p")
    statement = "insert overwrite t with ('partitionOverwriteMode' = 'dynamic') values (10, 1)"
    result, _ = overtaken(session.spark, str(tmp_path / "warehouse"), statement, "insert into t values (4, 1), (5, 2)")
    assert result.attempts == 2
    assert {row["id"] for row in session.sql("select id from t").collect()} == {2, 5, 10}


def test_a_partition_value_with_too_many_digits_is_an_error(session: rowmerge.Session) -> None:
    session.sql("create table t (d decimal(3, 2)) using iceberg partitioned by (truncate(50, d))")
    with pytest.raises(errors.PlanError, match=r"d_trunc has the value -10\.00 .* decimal\(3, 2\) cannot hold"):
        session.sql("insert into t values (-9.99), (1.00)")
    session.sql("insert into t values (-9.50), (9.99)")
    assert session.sql("select d from t where d = 9.99").count() == 1
    session.sql("create table u (d decimal(38, 10)) using iceberg partitioned by (truncate(1, d))")
    session.sql("insert into u select cast(-9999999999999999999999999999.9999999999BD as decimal(38, 10))")
    assert session.sql("select * from u").count() == 1


def test_dynamic_overwrite_of_old_files_with_columns_named_like_addresses(session: rowmerge.Session) -> None:
    session.sql("create table t (id int, position string, file int) using iceberg")
    session.sql("insert into t values (1, 'a', 1), (2, 'b', 2)")
    session.sql("alter table t add partition field position")
    session.sql("alter table t add partition field bucket(4, file)")
    overwrite(session, "values (9, 'a', 1)")
    assert {row["id"] for row in session.sql("select id from t").collect()} == {2, 9}


def test_a_wide_table_with_small_files_has_more_than_one_row_per_file(session: rowmerge.Session) -> None:
    columns = [f"c{number}" for number in range(450)]
    session.sql(
        f"create table t ({', '.join(f'{name} int' for name in columns)}) using delta tblproperties ('delta.targetFileSize' = '64kb')"
    )
    session.sql(f"insert into t select {', '.join(f'id + {number}' for number in range(450))} from range(0, 50, 1, 1)")
    assert session.sql("describe detail t").collect()[0]["numFiles"] == 1
