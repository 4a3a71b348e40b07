"""Queries of `table_changes` read only the files that can contain a change row of the result."""

from __future__ import annotations

import pytest

import rowmerge
from rowmerge.spark.spark_session import SKIP_FILES
from tests.engine.test_explain_queries import explain

FEED = "table_changes('default.t', 1)"
CASES = {
    "_commit_version = 2": (1, 4),
    "_commit_version between 2 and 3": (2, 4),
    "_change_type = 'insert'": (3, 4),
    "_change_type in ('delete', 'update_preimage') and p = 'b'": (1, 4),
    "p = 'a'": (2, 4),
    "p is null": (0, 4),
    "_commit_timestamp > timestamp'2999-01-01'": (0, 4),
    "_commit_timestamp < timestamp'2999-01-01' or p = 'a'": (4, 4),
    "_COMMIT_VERSION < 3 and P = 'a'": (1, 4),
    "id + _commit_version = 4": (4, 4),
    "id = 3": (2, 4),
    "id is null": (1, 4),
    "id > 1 and _commit_version < 3": (1, 4),
}
"""For each condition on the changes of `t`, the numbers of files that are read and of all files."""


@pytest.fixture
def feed(session: rowmerge.Session) -> rowmerge.Session:
    """Create `t`: versions 1 to 3 insert rows into partitions a, b and a. Version 4 deletes the row of b with a deletion vector or file."""
    session.sql("create table t (id int, p string) using delta partitioned by (p) tblproperties ('delta.enableChangeDataFeed' = 'true')")
    for rows in ("(1, 'a')", "(2, 'b')", "(3, 'a')"):
        session.sql(f"insert into t values {rows}")
    session.sql("delete from t where p = 'b'")
    return session


@pytest.mark.parametrize("condition", CASES)
def test_a_condition_on_changes_excludes_files_and_no_rows(feed: rowmerge.Session, condition: str) -> None:
    query = f"select * from {FEED} where {condition}"
    read, total = CASES[condition]
    result = feed.execute(query)
    rows = sorted(result.frame.collect())
    (scan,) = result.scans
    assert (scan.files, scan.total_files) == (read, total)
    feed.sql(f"set {SKIP_FILES} = false")
    try:
        assert rows == sorted(feed.sql(query).collect())
    finally:
        feed.spark.conf.unset(SKIP_FILES)


def test_statistics_of_columns_with_mapped_names_exclude_files(feed: rowmerge.Session) -> None:
    properties = "'delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name'"
    feed.sql(f"create table m (id int, v int) using delta tblproperties ({properties})")
    feed.sql("insert into m values (1, 10)")
    feed.sql("insert into m values (2, 20)")
    result = feed.execute("select id from table_changes('default.m', 1) where v = 20")
    assert [tuple(row) for row in result.frame.collect()] == [(2,)]
    assert [scan.files for scan in result.scans] == [1]


def test_rows_that_a_deletion_vector_deletes_are_found_by_their_values(feed: rowmerge.Session) -> None:
    properties = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true', 'rowmerge.write.mode' = 'merge-on-read'"
    feed.sql(f"create table d using delta tblproperties ({properties}) as select /*+ coalesce(1) */ id from range(100)")
    feed.sql("delete from d where id in (0, 99)")
    for change in ("insert", "delete"):
        rows = feed.sql(f"select id from table_changes('default.d', 0) where _change_type = '{change}' and id > 98").collect()
        assert [tuple(row) for row in rows] == [(99,)]


def test_two_reads_of_one_feed_have_their_own_files(feed: rowmerge.Session) -> None:
    query = f"select o.id, n.id from {FEED} o join {FEED} n on o.p = n.p where o._commit_version = 1 and n._commit_version = 3"
    result = feed.execute(query)
    assert [tuple(row) for row in result.frame.collect()] == [(1, 3)]
    assert [scan.files for scan in result.scans] == [1, 1]


def test_a_view_of_changes_reads_the_files_for_its_condition(feed: rowmerge.Session) -> None:
    feed.sql(f"create view v as select *, _commit_version as version from {FEED}")
    result = feed.execute("select id from v where version = 2")
    assert [tuple(row) for row in result.frame.collect()] == [(2,)]
    assert [scan.files for scan in result.scans] == [1]


def test_explain_shows_the_files_of_changes(feed: rowmerge.Session) -> None:
    assert explain(feed, f"select * from {FEED} where _commit_version = 2 and p = 'b'")[1:] == [
        "  changes of default.t: 1 of 4 files",
        "    `_commit_version` = 2: excludes 3 by statistics",
        "    `p` = 'b': excludes 2 by partition values",
    ]


def test_partition_values_of_old_versions_have_the_type_of_a_widened_column(bare_session: rowmerge.Session) -> None:
    session = bare_session  # DuckDB does not read partition values from before the column was widened
    properties = "'delta.enableChangeDataFeed' = 'true', 'delta.enableTypeWidening' = 'true'"
    session.sql(f"create table t (id int, d date, n int) using delta partitioned by (d, n) tblproperties ({properties})")
    session.sql("insert into t values (1, date'2024-01-01', 5), (2, null, null)")
    session.sql("delete from t where id = 1")
    session.sql("alter table t alter column d type timestamp_ntz")
    session.sql("alter table t alter column n type decimal(12, 1)")
    session.sql("insert into t values (3, timestamp_ntz'2024-01-01 12:00:00', 5.5)")
    query = "select _change_type, id, cast(d as string), cast(n as string) from table_changes('t', 1) where {} order by _commit_version, id"
    first = [(change, 1, "2024-01-01 00:00:00", "5.0") for change in ("insert", "delete")]
    assert session.sql(query.format("d < timestamp_ntz'2024-01-01 01:00:00'")).collect() == first
    everything = [first[0], ("insert", 2, None, None), first[1], ("insert", 3, "2024-01-01 12:00:00", "5.5")]
    assert session.sql(query.format("true")).collect() == everything
