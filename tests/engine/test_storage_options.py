"""Spark receives the storage options as settings of Hadoop's file systems."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge

REDACTION = "spark.sql.redaction.options.regex"
OPTIONS = {
    "aws_access_key_id": "AKIA1",
    "aws_secret_access_key": "hush",
    "azure_storage_account_key": "hush",
    "aws_endpoint": "http://store:9000",
}


@pytest.fixture
def with_options(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    redaction = spark.conf.get(REDACTION)
    rowmerge.connect(str(tmp_path / "warehouse"), spark=spark, storage_options=OPTIONS)
    yield spark
    for row in spark.sql("set").collect():
        if row["key"].startswith("fs."):
            spark.conf.unset(row["key"])
    spark.conf.set(REDACTION, redaction)


def test_a_running_session_gets_the_settings_and_hides_secrets(with_options: SparkSession) -> None:
    settings = {row["key"]: row["value"] for row in with_options.sql("set").collect() if row["key"].startswith("fs.")}
    assert with_options.conf.get("fs.s3a.secret.key") == with_options.conf.get("fs.azure.account.key") == "hush"
    assert settings["fs.s3a.endpoint"] == "http://store:9000"
    assert "hush" not in str(settings) and "redacted" in settings["fs.azure.account.key"]


def test_a_session_without_options_keeps_the_settings_of_another_one(with_options: SparkSession, tmp_path: Path) -> None:
    rowmerge.connect(str(tmp_path / "other"), spark=with_options)
    assert with_options.conf.get("fs.s3a.endpoint") == "http://store:9000"


def test_the_settings_reach_the_file_systems_of_queries(with_options: SparkSession) -> None:
    with_options.conf.set("fs.s3.impl", "no.such.FileSystem")  # Spark itself comes without hadoop-aws
    with pytest.raises(Exception, match=r"no\.such\.FileSystem"):
        with_options.read.parquet("s3://lake/t").collect()


def test_query_plans_do_not_contain_storage_options(with_options: SparkSession, tmp_path: Path) -> None:
    session = rowmerge.connect(str(tmp_path / "other"), spark=with_options, storage_options=OPTIONS)
    session.sql("create table t as select id from range(3)")
    plan = session.sql("explain merge into t using (select 1 as id) s on t.id = s.id when matched then delete").collect()
    text = str(plan) + session.sql("select * from t")._jdf.queryExecution().toString()
    assert "hush" not in text and "AKIA1" not in text
