"""The Java options of the embedded Spark."""

from __future__ import annotations

import pytest

from rowmerge.session.startup.embedded import _java_options as java_options

PARALLEL = "-XX:+UseParallelGC"


@pytest.fixture(autouse=True)
def no_options_in_the_environment(monkeypatch):
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_java_runs_with_the_parallel_collector():
    assert java_options({}).split().count(PARALLEL) == 1
    assert java_options({"spark.driver.extraJavaOptions": "-Xss8m -XX:+UseStringDeduplication"}).split().count(PARALLEL) == 1


def test_options_of_the_user_follow_and_take_precedence():
    options = java_options({"spark.driver.extraJavaOptions": "-XX:MetaspaceSize=64m"}).split()
    assert [option for option in options if "MetaspaceSize" in option] == ["-XX:MetaspaceSize=192m", "-XX:MetaspaceSize=64m"]


@pytest.mark.parametrize("option", ["-XX:+UseG1GC", "-XX:+UseSerialGC", "-XX:+UseZGC -Xss8m", PARALLEL])
def test_a_collector_that_the_user_chooses_is_the_only_one(option, monkeypatch):
    """Java does not start with two collectors."""
    assert java_options({"spark.driver.extraJavaOptions": option}).endswith(option)
    assert java_options({"spark.driver.extraJavaOptions": option}).count("GC") == 1
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", option)
    assert "GC" not in java_options({})


def test_a_collector_in_the_configuration_of_spark_is_the_only_one(tmp_path, monkeypatch):
    assert "GC" not in java_options({"spark.driver.defaultJavaOptions": "-XX:+UseG1GC"})
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert java_options({}).count(PARALLEL) == 1
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.defaultJavaOptions -XX:+UseG1GC\n")
    assert "GC" not in java_options({})
