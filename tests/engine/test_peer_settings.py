"""Spark settings of Delta Lake and Iceberg on Spark: those that have an effect, and the warning for the others."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowmerge
from rowmerge.errors import ConfigurationError, PlanError, UnsupportedStatement

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
DEFAULTS = "spark.databricks.delta.properties.defaults"
OPTIMIZE_SIZE = "spark.databricks.delta.optimize.maxFileSize"


@pytest.fixture
def settings(bare_session: rowmerge.Session) -> Iterator[rowmerge.Session]:
    """Return a session without tables. Afterwards, remove the settings of the test."""
    yield bare_session
    for name in (USER_METADATA, OPTIMIZE_SIZE, f"{DEFAULTS}.appendOnly", f"{DEFAULTS}.checkpointInterval", f"{DEFAULTS}.banana"):
        bare_session.spark.conf.unset(name)


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_the_history_contains_the_user_metadata_of_each_statement(settings: rowmerge.Session, format_: str) -> None:
    settings.sql(f"create table t using {format_} as select 0 as id")
    for number, statement in enumerate(
        (
            "insert into t values (1)",
            "update t set id = 2 where id = 1",
            "merge into t using (select 3 as id) s on s.id = t.id when not matched then insert *",
            "delete from t where id = 3",
            "optimize t",
        )
    ):
        settings.sql(f"set {USER_METADATA} = load {number}")
        settings.sql(statement)
    history = settings.sql("describe history t").select("operation", "userMetadata").collect()
    assert [row.userMetadata for row in reversed(history)] == [None, "load 0", "load 1", "load 2", "load 3", "load 4"][: len(history)]
    assert len(history) >= 5
    settings.sql("create table u (id int) using delta")
    location = settings.describe("default", "u").location.removeprefix("file:")
    first_line = Path(location, "_delta_log", f"{0:020}.json").read_text().splitlines()[0]
    assert json.loads(first_line)["commitInfo"]["userMetadata"] == "load 4"


def test_new_delta_tables_have_the_default_properties(settings: rowmerge.Session) -> None:
    settings.sql(f"set {DEFAULTS}.appendOnly = true")
    settings.sql(f"set {DEFAULTS}.checkpointInterval = 3")
    settings.sql("create table t (id int) using delta tblproperties ('delta.checkpointInterval' = '5')")
    settings.sql("create table i (id int) using iceberg")
    properties = {row.key: row.value for row in settings.sql("show tblproperties t").collect()}
    assert (properties["delta.appendOnly"], properties["delta.checkpointInterval"]) == ("true", "5")
    assert not [row for row in settings.sql("show tblproperties i").collect() if row.key.startswith("delta.")]
    settings.sql(f"set {DEFAULTS}.banana = 1")
    with pytest.raises(ConfigurationError, match=r"There is no table property delta\.banana"):
        settings.sql("create table u (id int) using delta")


def test_optimize_writes_files_of_the_size_in_the_setting(settings: rowmerge.Session) -> None:
    settings.sql("create table t using delta as select id, uuid() as v from range(0, 60000, 1, 4)")
    settings.sql(f"set {OPTIMIZE_SIZE} = 600kb")
    settings.sql("optimize t")
    detail = settings.sql("describe detail t").collect()[0]
    assert detail.numFiles > 2
    settings.sql(f"set {OPTIMIZE_SIZE} = banana")
    with pytest.raises(ConfigurationError, match=f"{OPTIMIZE_SIZE} is 'banana'. Set it to a number of bytes or a size such as '100mb'"):
        settings.sql("optimize t")


def test_settings_without_an_effect_cause_one_warning(settings: rowmerge.Session, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            settings.sql("-- a comment\nset spark.sql.iceberg.locality.enabled = true")
        settings.sql("SET `spark.databricks.delta.snapshotPartitions`=2")
        settings.sql("set spark.sql.session.timeZone = UTC")
        settings.sql("set spark.databricks.delta.schema.autoMerge.enabled = false")
        settings.sql("set spark.databricks.delta.snapshotPartitions")
    names = [record.getMessage().split()[2] for record in caplog.records if "has no effect" in record.getMessage()]
    assert names == ["spark.sql.iceberg.locality.enabled", "spark.databricks.delta.snapshotPartitions"]
    for name in (*names, "spark.databricks.delta.schema.autoMerge.enabled"):
        settings.spark.conf.unset(name)
    settings.spark.conf.unset("spark.sql.session.timeZone")


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("select * from t with ('split-size' = '5')", "'split-size'"),
        ("select * from t with (versionAsOf = '1') as x join t as y on x.id = y.id", "versionAsOf"),
        ("select * from (select id from t /*+ OPTIONS('snapshot-id'='1') */)", "OPTIONS"),
        ("insert into t select * from t /*+ options('a'='b') */ as x", "OPTIONS"),
    ],
)
def test_options_of_reads_are_refused_by_name(bare_session: rowmerge.Session, format_: str, text: str, option: str) -> None:
    bare_session.sql(f"create table t (id int) using {format_}")
    with pytest.raises(PlanError, match=f"The read option {option} of default.t is not supported"):
        bare_session.sql(text)
    bare_session.sql("select /*+ broadcast(x) */ * from t /* options('a'='b') */ as x").collect()


def test_flinks_hint_at_the_end_is_refused(bare_session: rowmerge.Session) -> None:
    bare_session.sql("create table t (id int) using iceberg")
    with pytest.raises(UnsupportedStatement, match=r"hint OPTIONS\(…\) of Flink is not supported"):
        bare_session.sql("select * from t /*+ OPTIONS('snapshot-id'='1') */;")
