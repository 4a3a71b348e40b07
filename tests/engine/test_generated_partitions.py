"""Queries of Delta tables skip files by partition columns that are generated from the column of a condition."""

from __future__ import annotations

from typing import Any

import pytest

import rowmerge

HOUR = "ts >= timestamp '2024-01-03 12:00:00Z' and ts < timestamp '2024-01-03 13:00:00Z'"


def files_and_rows(session: rowmerge.Session, condition: str) -> tuple[int, list[Any]]:
    """Return the number of files that a query reads, and its rows."""
    result = session.execute(f"select id from t where {condition}")
    (scan,) = result.scans
    return scan.files, sorted(row.id for row in result.frame.collect())


@pytest.mark.parametrize(
    ("columns", "partitions", "expected"),
    [
        ("day date generated always as (cast(ts as date))", "day", 9),
        ("m string generated always as (date_format(ts, 'yyyy-MM-dd'))", "m", 9),
        ("y int generated always as (year(ts)), m int generated always as (month(ts)), d int generated always as (day(ts))", "y, m, d", 9),
        ("h timestamp generated always as (date_trunc('hour', ts))", "h", 3),
        ("d int generated always as (day(ts))", "d", 21),
    ],
)
def test_a_filter_on_a_time_skips_the_partitions_of_other_days(
    session: rowmerge.Session, columns: str, partitions: str, expected: int
) -> None:
    """Each day is written in three time zones, so the local day of an instant can be the one before or after. Hours are instants."""
    session.sql(
        f"create table t (id int, ts timestamp, {columns}) using delta partitioned by ({partitions})"
        " tblproperties ('delta.dataSkippingNumIndexedCols' = '0')"
    )
    zone = session.spark.conf.get("spark.sql.session.timeZone")
    try:
        for index, writer_zone in enumerate(("UTC", "Pacific/Kiritimati", "America/Los_Angeles")):
            session.spark.conf.set("spark.sql.session.timeZone", writer_zone)
            session.sql(
                f"insert into t (id, ts) select /*+ repartition(1) */ cast({index}00 + id as int),"
                " timestamp '2024-01-01 12:30:00Z' + make_dt_interval(cast(id as int)) from range(7)"
            )
    finally:
        session.spark.conf.set("spark.sql.session.timeZone", zone)
    files, rows = files_and_rows(session, HOUR)
    assert rows == [2, 102, 202]
    assert files == expected
