"""Local times in conditions are read in the session's time zone, if Python and Spark have the same rules for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.plan.bounds.time_zones import zone_of
from rowmerge.spark.time_zones import _has_same_rules, session_time_zone


@pytest.fixture
def zoned_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield the session, and restore its time zone."""
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    yield spark
    spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.one_of("format_")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_condition_on_one_day_reads_the_files_of_that_day(zoned_spark: SparkSession, session: rowmerge.Session, format_: str) -> None:
    zoned_spark.conf.set("spark.sql.session.timeZone", "UTC")
    session.sql(f"create table t (id int, at timestamp) using {format_}")
    for day in range(1, 6):
        session.sql(f"insert into t values ({day}, timestamp'2024-01-0{day} 00:00:00'), (-{day}, timestamp'2024-01-0{day} 23:30:00')")
    condition = "at >= '2024-01-03' and at < '2024-01-04'"
    for zone, files, ids in (("UTC", 1, [-3, 3]), ("Europe/Berlin", 2, [-2, 3]), ("-01:00", 2, [-3, 4]), ("Asia/Tokyo", 2, [-2, 3])):
        zoned_spark.conf.set("spark.sql.session.timeZone", zone)
        ((text,),) = session.sql(f"explain delete from t where {condition}").collect()
        assert f"files: {files} of 5 may contain rows to change" in text, zone
        assert sorted(row["id"] for row in session.sql(f"select id from t where {condition}").collect()) == ids
    session.sql("delete from t where date(at) = date'2024-01-03'")  # in Tokyo
    assert sorted(row["id"] for row in session.sql("select id from t").collect()) == [-5, -4, -3, -1, 1, 2, 4, 5]


def test_a_zone_is_known_only_if_spark_has_the_same_rules(zoned_spark: SparkSession) -> None:
    for name in ("Europe/Berlin", "America/New_York", "Pacific/Apia", "UTC", "+02:00"):
        zoned_spark.conf.set("spark.sql.session.timeZone", name)
        assert session_time_zone(zoned_spark) == name
    zoned_spark.conf.set("spark.sql.session.timeZone", "CST")  # a name that only Java knows
    assert session_time_zone(zoned_spark) is None
    for name, other in (("Europe/Berlin", "Europe/London"), ("Europe/London", "Europe/Lisbon"), ("Asia/Atlantis", "UTC")):
        zone = zone_of(other)
        assert zone is not None
        assert not _has_same_rules(zoned_spark, name, zone)
