"""The choice of a session's Spark, and its settings."""

from __future__ import annotations

import pytest

import rowmerge
from rowmerge.errors import ConfigurationError

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
