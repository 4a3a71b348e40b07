"""Metadata tables: `orders.files`, `orders.snapshots` and the others, next to pyiceberg's `inspect` and to the log of Delta tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import rowmerge
from rowmerge.errors import PlanError, RowmergeError
from tests.support.readers import newest_metadata

PYICEBERG = (
    *("snapshots", "history", "refs", "metadata_log_entries", "files", "data_files", "delete_files", "manifests", "partitions"),
    *("all_files", "all_data_files", "all_delete_files", "all_manifests"),
)
COLUMNS = (
    "id int, place string, at timestamp, local timestamp_ntz, day date, price decimal(12,2), ratio double, flag boolean, raw binary, "
    "s struct<x:bigint,y:struct<z:float>>, tags array<string>, counts map<string,int>"
)
TOP_LEVEL_LEAVES = ("id", "place", "at", "local", "day", "price", "ratio", "flag", "raw")
NEWER_FIELDS = ("spec_id", "first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes")
ROW = (
    "({0}, 'p{1}', timestamp'2024-01-0{1} 04:05:06Z', timestamp_ntz'2024-02-03 04:05:06.000007', date'2024-03-0{1}', {0}.25, {0}.5D, true, "
    "x'0a0b', named_struct('x', {0}L, 'y', named_struct('z', cast({0} as float))), array('t', 'u{0}'), map('k', {0}))"
)
NULLS = "(null, null, null, null, null, null, double('nan'), null, null, null, null, null)"
MERGE_ON_READ = ", ".join(f"'write.{operation}.mode' = 'merge-on-read'" for operation in ("delete", "update", "merge"))
PARTITIONINGS = {
    "none": "",
    "identities": "partitioned by (place, day, price)",
    "transforms": "partitioned by (days(at), hours(local), months(day), bucket(4, id), truncate(1, place))",
}


def create(session: rowmerge.Session, partitioning: str, properties: str, format_: str = "iceberg") -> None:
    """Create the table `t` with two inserts."""
    session.sql(f"create table t ({COLUMNS}) using {format_} {partitioning} tblproperties ({properties})")
    session.sql(f"insert into t values {', '.join(ROW.format(number, number % 3 + 1) for number in range(1, 7))}, {NULLS}")
    session.sql(f"insert into t values {ROW.format(7, 1)}")


def change(session: rowmerge.Session) -> None:
    """Delete and update rows of the table `t`."""
    session.sql("delete from t where id in (2, 4)")
    session.sql("update t set ratio = -1 where id = 7")
    session.sql("delete from t where place = 'p3'")


def pyiceberg_table(session: rowmerge.Session) -> StaticTable:
    return StaticTable.from_metadata("file://" + newest_metadata(session.describe("default", "t").location))


def comparable(value: Any) -> Any:
    """Return a value in a form that both readers share: maps as sorted pairs, no map for an empty one, and times in milliseconds."""
    if isinstance(value, dict):
        return {name: comparable(nested) for name, nested in value.items()}
    if isinstance(value, list):
        pairs = [comparable(item) for item in value]
        return sorted(pairs, key=repr) if pairs else None
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if hasattr(value, "tzinfo"):
        return value.replace(tzinfo=None)
    return value


def rows_by_name(rows: pa.Table, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the sorted rows with only these columns. pyiceberg lacks readable metrics of nested fields, and newer fields of entries."""
    values = [{name: comparable(row[name]) for name in names} for row in rows.to_pylist()]
    for row in values:
        if "readable_metrics" in row:
            row["readable_metrics"] = {name: row["readable_metrics"][name] for name in TOP_LEVEL_LEAVES}
        if "data_file" in row:
            row["data_file"] = {name: value for name, value in row["data_file"].items() if name not in NEWER_FIELDS}
    return sorted(values, key=repr)


def assert_equal_to_pyiceberg(session: rowmerge.Session, tables: Iterable[str]) -> None:
    inspect = pyiceberg_table(session).inspect
    for name in tables:
        expected: pa.Table = getattr(inspect, name)()
        actual = session.sql(f"select * from t.{name}").toArrow()
        names = [column for column in expected.column_names if column in actual.column_names]
        assert set(expected.column_names) - set(names) <= {"partition"}, name
        assert len(actual) == len(expected), name
        for actual_row, expected_row in zip(rows_by_name(actual, names), rows_by_name(expected, names), strict=True):
            assert actual_row == expected_row, name


@pytest.mark.parametrize("partitioning", PARTITIONINGS)
@pytest.mark.parametrize("version", ["2", "3"])
def test_metadata_tables_of_iceberg_equal_those_of_pyiceberg(bare_session: rowmerge.Session, version: str, partitioning: str) -> None:
    create(bare_session, PARTITIONINGS[partitioning], f"'format-version' = '{version}', {MERGE_ON_READ}")
    bare_session.sql("delete from t where id in (1, 4)" if partitioning == "none" else "delete from t where place = 'p2'")
    bare_session.sql("alter table t create tag first_delete")
    # pyiceberg cannot list the entries of delete files without column sizes.
    if not bare_session.sql("select 1 from t.delete_files").collect():
        assert_equal_to_pyiceberg(bare_session, ["entries"])
    change(bare_session)
    bare_session.sql("alter table t create branch audit")
    bare_session.sql("insert into t.branch_audit (id) values (8)")
    bare_session.sql("alter table t create tag eod retain 7 days")
    assert_equal_to_pyiceberg(bare_session, PYICEBERG)


@pytest.mark.parametrize("partitioning", ["", "partitioned by (place, day)"])
def test_metadata_tables_of_delta_equal_the_log(session: rowmerge.Session, partitioning: str) -> None:
    create(session, partitioning, "'delta.enableDeletionVectors' = 'true', 'rowmerge.write.mode' = 'merge-on-read'", "delta")
    change(session)
    location = session.describe("default", "t").location
    table = deltalake.DeltaTable(location.removeprefix("file://"))
    adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = session.sql("select *, readable_metrics.id.* from t.data_files order by file_path").collect()
    vectors = dict(session.sql("select referenced_data_file, record_count from t.delete_files where content = 1").collect())
    by_path = {f"{location}/{add['path']}": add for add in adds}
    assert [row.file_path for row in files] == sorted(by_path)
    for row in files:
        add = by_path[row.file_path]
        assert (row.content, row.file_format, row.record_count, row.file_size_in_bytes) == (
            0,
            "PARQUET",
            add["num_records"],
            add["size_bytes"],
        )
        assert (row.lower_bound, row.upper_bound) == (add["min.id"], add["max.id"])
        # Beside deleted rows, only the counts 0 and all rows are exact (PROTOCOL.md, Per-file Statistics).
        assert row.null_value_count in (add["null_count.id"], None if row.file_path in vectors else add["null_count.id"])
        if partitioning:
            assert (row.partition.place, row.partition.day) == (add["partition.place"], add["partition.day"])
    deleted = session.sql("select file_path, pos from t.position_deletes").collect()
    assert vectors and Counter(row.file_path for row in deleted) == vectors
    counts = session.sql("select sum(record_count), sum(file_count), sum(position_delete_record_count) from t.partitions").collect()
    assert tuple(counts[0]) == (sum(add["num_records"] for add in adds), len(adds), len(deleted))
    history = [(entry["version"], entry["operation"]) for entry in reversed(table.history())]
    snapshots = session.sql("select *, unix_millis(committed_at) as millis from t.snapshots order by snapshot_id").collect()
    assert [(row.snapshot_id, row.operation) for row in snapshots] == history
    commits = [Path(row.manifest_list.removeprefix("file://")) for row in snapshots]
    assert [row.millis for row in snapshots] == [commit.stat().st_mtime_ns // 1_000_000 for commit in commits]
    parents = session.sql("select snapshot_id, parent_id, is_current_ancestor from t.history order by snapshot_id").collect()
    assert [tuple(row) for row in parents] == [(version, version - 1 if version else None, True) for version, _ in history]
    assert [tuple(row)[:3] for row in session.sql("select * from t.refs").collect()] == [("main", "BRANCH", history[-1][0])]


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_metadata_tables_describe_the_version_of_the_statement(bare_session: rowmerge.Session, format_: str) -> None:
    session = bare_session
    session.sql(f"create table t (id int) using {format_}")
    session.sql("insert into t values (1)")
    first = session.sql("select max_by(snapshot_id, committed_at) from t.snapshots").collect()[0][0]
    time = session.sql("select string(max(committed_at)) from t.snapshots").collect()[0][0]
    session.sql("insert into t select id from range(2, 4, 1, 1)")
    for name in (
        f"t.files version as of {first}",
        f"default.t.files timestamp as of '{time}'",
        f"rowmerge.default.t.files version as of {first}",
    ):
        assert session.sql(f"select record_count from {name}").collect() == [(1,)], name
    assert session.sql("select sum(f.record_count) from T.Files f where f.content = 0").collect() == [(3,)]
    assert session.sql("select count(*) from t.partitions p join t.files f on p.record_count >= f.record_count").collect() == [(2,)]
    for name in ("snapshots", "history", "refs"):
        with pytest.raises(PlanError, match=f"t.{name} describes all versions"):
            session.sql(f"select * from t.{name} version as of {first}")


def test_tables_take_precedence_over_metadata_tables(bare_session: rowmerge.Session) -> None:
    session = bare_session
    session.sql("create schema orders")
    session.sql("create table orders (id int)")
    session.sql("insert into orders values (1)")
    assert len(session.sql("select file_path from orders.files").collect()) == 1
    session.sql("create table orders.files as select 'mine' as owner")
    assert session.sql("select * from orders.files").collect() == [("mine",)]
    assert len(session.sql("select file_path from default.orders.files").collect()) == 1


def test_metadata_tables_that_do_not_exist_are_errors(bare_session: rowmerge.Session) -> None:
    session = bare_session
    session.sql("create table t (id int) using delta")
    session.sql("create view v as select 1 as id")
    with pytest.raises(PlanError, match=r"default\.t has no metadata table manifests.*It has data_files"):
        session.sql("select * from t.manifests")
    with pytest.raises(PlanError, match=r"default\.v is a view, so it has no metadata table files"):
        session.sql("select * from v.files")
    for name in ("t.fils", "missing.files"):
        with pytest.raises(RowmergeError, match=name):
            session.sql(f"select * from {name}").collect()
    with pytest.raises(RowmergeError):
        session.sql("delete from t.files")


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_metadata_tables_of_a_new_table_have_no_rows(bare_session: rowmerge.Session, format_: str) -> None:
    bare_session.sql(f"create table t (id int, p string) using {format_} partitioned by (p)")
    for name in ("files", "data_files", "delete_files", "partitions", "position_deletes"):
        assert bare_session.sql(f"select * from t.{name}").collect() == [], name
    if format_ == "iceberg":
        for name in ("snapshots", "history", "refs", "entries", "manifests", "all_manifests", "all_files", "all_entries"):
            assert bare_session.sql(f"select * from t.{name}").collect() == [], name


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_queries_of_some_columns_return_what_all_columns_have(bare_session: rowmerge.Session, format_: str) -> None:
    create(bare_session, PARTITIONINGS["identities"], "'owner' = 'x'", format_)
    files = bare_session.sql("select * from t.files").toArrow()
    paths, counts = files["file_path"].to_pylist(), files["record_count"].to_pylist()
    bounds = [metrics["id"]["upper_bound"] for metrics in files["readable_metrics"].to_pylist()]
    bare_session.sql("create view v as select FILE_PATH as p, record_count from t.files")
    queries: dict[str, list[tuple[Any, ...]]] = {
        "select count(*) from t.files": [(len(paths),)],
        "select sum(f.`record_count`), max(readable_metrics.id.upper_bound) from t.files as f": [
            (sum(counts), max(bound for bound in bounds if bound is not None))
        ],
        "with f as (select file_path from t.files) select min(file_path) from f": [(min(paths),)],
        "select a.record_count from t.files a join t.files b on a.file_path = b.file_path": [(count,) for count in counts],
        "select v.p from v where record_count = (select max(record_count) from t.files)": [
            (path,) for path, count in zip(paths, counts, strict=True) if count == max(counts)
        ],
        "select f.* from (select content, file_path from t.files) as f": [(0, path) for path in paths],
    }
    for query, expected in queries.items():
        assert Counter(map(tuple, bare_session.sql(query).collect())) == Counter(expected), query
    filtered = bare_session.sql("select file_path from t.files").filter("record_count < 0 or readable_metrics.id.upper_bound = 7")
    assert [row["file_path"] for row in filtered.collect()] == [path for path, bound in zip(paths, bounds, strict=True) if bound == 7]
    bare_session.sql("delete from t where (select count(*) from t.files where content = 7) = 0")
    assert bare_session.sql("select * from t").count() == 0


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_only_the_columns_of_a_query_are_read(bare_session: rowmerge.Session, format_: str) -> None:
    bare_session.sql(f"create table t (id int) using {format_}")
    bare_session.sql("insert into t values (1)")
    table = bare_session._catalog.open("default", "t")
    for needed, names in [({"record_count", "id"}, ["record_count"]), ({"id"}, ["content"]), ({"readable_metrics"}, ["readable_metrics"])]:
        read = table.metadata_tables.read("files", table.snapshot(), needed)
        assert read.rows.column_names == names and list(read.columns.names) == names and read.rows.num_rows == 1
