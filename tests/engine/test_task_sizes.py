"""The properties read.split.* of tables determine the size of the tasks of Spark's reader, where the session allows it."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.spark.reading.task_sizes import OPEN_FILE_COST, TARGET_SIZE

SPLITS = {"read.split.target-size": "4100", "read.split.open-file-cost": "4000"}
PARTITION_COUNTS = itertools.count(3)


@pytest.fixture
def own_session(spark: SparkSession, tmp_path: Path) -> rowmerge.Session:
    """Return a session that rowmerge has started: a new one of the running Spark, because a setting differs."""
    spark_config = {"spark.sql.shuffle.partitions": next(PARTITION_COUNTS)}
    session = rowmerge.connect(str(tmp_path), spark_config=spark_config, default_format="iceberg")
    assert session.spark is not spark
    _create_tables(session)
    return session  # not closed: `close` would stop Spark for the other tests


def test_a_statement_sets_the_task_size_of_its_table_until_a_table_without_the_properties_is_read(own_session: rowmerge.Session) -> None:
    _read(own_session, "split")
    assert _settings(own_session) == ("4100", "4000")
    assert _task_count(own_session, "split") == 3
    _read(own_session, "plain")
    assert _settings(own_session) == (None, None)
    assert _task_count(own_session, "plain") < 3
    own_session.sql("update split set id = id + 1 where id >= 0")
    assert _settings(own_session) == ("4100", "4000")
    _read(own_session, "target_only")
    assert _settings(own_session) == ("7000", None)


def test_tables_with_the_same_properties_agree(own_session: rowmerge.Session, caplog: pytest.LogCaptureFixture) -> None:
    own_session.sql("select * from split a join same b on a.id = b.id").collect()
    assert _settings(own_session) == ("4100", "4000")
    assert not _warnings(caplog)


@pytest.mark.parametrize("other", ["plain", "target_only"])
def test_tables_with_different_properties_have_one_warning(
    own_session: rowmerge.Session, caplog: pytest.LogCaptureFixture, other: str
) -> None:
    for _ in range(2):
        own_session.sql(f"select * from split a join {other} b on a.id = b.id").collect()
    assert _settings(own_session) == (None, None)
    tables = {"default.split", f"default.{other}"} - {"default.plain"}
    assert {warning.split(" of ")[1].split(" ")[0] for warning in _warnings(caplog)} == tables
    assert len(_warnings(caplog)) == len(tables) and "differ in them" in _warnings(caplog)[0]


def test_a_setting_of_the_user_takes_precedence(own_session: rowmerge.Session, caplog: pytest.LogCaptureFixture) -> None:
    own_session.spark.conf.set(TARGET_SIZE, "1m")
    for table in ("split", "plain", "split"):
        _read(own_session, table)
    assert _settings(own_session) == ("1m", "4000")
    (warning,) = _warnings(caplog)
    assert "default.split" in warning and "settings of its own" in warning
    own_session.spark.conf.set(OPEN_FILE_COST, "2m")
    _read(own_session, "plain")
    assert _settings(own_session) == ("1m", "2m"), "the user has set it after the statement"


def test_a_session_of_another_application_keeps_its_settings(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session = rowmerge.connect(str(tmp_path), spark=spark, default_format="iceberg")
    _create_tables(session)
    _read(session, "split")
    _read(session, "split")
    assert _settings(session) == (None, None)
    (warning,) = _warnings(caplog)
    assert "did not start" in warning


def _create_tables(session: rowmerge.Session) -> None:
    tables = {"plain": {}, "split": SPLITS, "same": SPLITS, "target_only": {"read.split.target-size": "7000"}}
    for name, properties in tables.items():
        text = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        session.sql(f"create table {name} (id bigint) {f'tblproperties ({text})' if text else ''}")
        for value in range(3):
            session.sql(f"insert into {name} values ({value})")


def _read(session: rowmerge.Session, table: str) -> None:
    assert len(session.sql(f"select * from {table}").collect()) == 3


def _task_count(session: rowmerge.Session, table: str) -> int:
    return session.sql(f"select distinct spark_partition_id() from {table}").count()


def _settings(session: rowmerge.Session) -> tuple[str | None, str | None]:
    return session.spark.conf.get(TARGET_SIZE, None), session.spark.conf.get(OPEN_FILE_COST, None)


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING and "read.split" in record.getMessage()]
