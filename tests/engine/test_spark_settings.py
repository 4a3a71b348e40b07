"""The choice of a session's Spark, and its settings."""

from __future__ import annotations

import pytest

import rowmerge
from rowmerge.errors import ConfigurationError, RowmergeError
from rowmerge.session.names import spark_names

PARTITIONS = "spark.sql.shuffle.partitions"


def test_sessions_of_one_process_have_separate_settings(spark, tmp_path):
    one = rowmerge.connect(str(tmp_path), spark_config={PARTITIONS: spark.conf.get(PARTITIONS)})
    other = rowmerge.connect(str(tmp_path), spark_config={PARTITIONS: 7})
    assert (one.spark.conf.get(PARTITIONS), other.spark.conf.get(PARTITIONS)) == (spark.conf.get(PARTITIONS), "7")
    other.sql("create table t using delta as select 1 as id")
    assert one.sql("select id from t").collect()[0]["id"] == 1


def test_settings_that_require_a_new_spark_are_reported(spark, tmp_path):
    with pytest.raises(ConfigurationError, match=r"spark_config cannot change spark.driver.memory now. Set it where Spark is started"):
        rowmerge.connect(str(tmp_path), spark_config={"spark.driver.memory": "77g"})


def test_an_invalid_connect_url_hides_its_token(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        rowmerge.connect(str(tmp_path), spark_config={"spark.remote": "sc://;token=hush"})
    assert "hush" not in str(caught.value)


def test_a_view_is_read_with_the_current_time_zone_and_case_sensitivity(session):
    session.sql("create table t (id int, ts timestamp)")
    session.sql("insert into t values (1, timestamp '2024-01-15 00:00:00Z')")
    session.sql("create view v as select ID from t where ts >= timestamp '2024-01-15 00:00:00'")
    conf = session.spark.conf
    zone = conf.get("spark.sql.session.timeZone")
    try:
        conf.set("spark.sql.session.timeZone", "UTC")
        assert session.sql("select * from v").count() == 1
        conf.set("spark.sql.session.timeZone", "America/New_York")
        assert session.sql("select * from v").count() == 0
        conf.set("spark.sql.caseSensitive", "true")
        with pytest.raises(RowmergeError, match="ID"):
            session.sql("select * from v")
    finally:
        conf.set("spark.sql.session.timeZone", zone)
        conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("is_escaped", ["false", "true"])
def test_keys_and_constants_with_quotes_are_found_whatever_backslashes_mean(session, is_escaped):
    session.spark.conf.set("spark.sql.parser.escapedStringLiterals", is_escaped)
    try:
        session.sql("""create table t using delta as select 1 as id, "it's" as name union all select 2, 'other'""")
        session.sql(
            """merge into t using (select 3 as id, "it's" as name) s on t.name = s.name and t.id < 9
            when matched then update set id = t.id + s.id when not matched then insert *"""
        )
        assert session.sql("select id from t order by id").collect() == [(2,), (4,)]
        session.sql("""delete from t where name = concat("it's", '')""")
        assert session.sql("select id from t").collect() == [(2,)]
    finally:
        session.spark.conf.unset("spark.sql.parser.escapedStringLiterals")


def test_a_view_reads_the_current_variables_temporary_views_and_settings(session):
    session.sql("create table t (id int)")
    session.sql("insert into t values (1), (2), (3)")
    session.sql("declare or replace variable limit_of_ids int default 0")
    session.spark.range(0).createOrReplaceTempView("names")
    session.sql("create view below as select id from t where id < limit_of_ids")
    session.sql("create view outer_view as select * from below")
    session.sql("create view users as select * from names")
    session.sql("create view times as select cast('2024-01-31 12:00:00' as timestamp) as at, id from t")
    conf = session.spark.conf
    try:
        for limit in (2, 4):
            session.sql(f"set variable limit_of_ids = {limit}")
            session.spark.range(limit).createOrReplaceTempView("names")
            for name, count in {"below": limit - 1, "outer_view": limit - 1, "users": limit}.items():
                assert session.sql(f"select * from {name}").count() == count, name
        assert dict(session.sql("select * from times").dtypes)["at"] == "timestamp"
        conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
        assert dict(session.sql("select * from times").dtypes)["at"] == "timestamp_ntz"
    finally:
        conf.unset("spark.sql.timestampType")
        session.sql("drop temporary variable if exists limit_of_ids")


def test_a_view_that_one_session_drops_stays_for_another_session(spark, tmp_path, monkeypatch):
    one, other = (rowmerge.connect(str(tmp_path), spark=spark) for _ in range(2))
    one.sql("create table t using delta as select 1 as id")
    for reader in (one, other):
        assert reader.sql("select a.id from t a join t b on a.id = b.id").collect() == [(1,)]
    monkeypatch.setattr(spark_names, "MOST_VIEWS", 1)
    one.sql("create table u using delta as select 2 as id")
    assert one.sql("select a.id from u a join u b on a.id = b.id").collect() == [(2,)]
    assert other.sql("select b.id from t a join t b on a.id = b.id").collect() == [(1,)]
