"""The package of Spark's connector for S3."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from rowmerge.session.startup.catalogs import open_catalogs, served_locations
from rowmerge.session.startup.connectors import ANY_S3, warehouse_locations, with_connector
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.store import Storage
from tests.support.rest_catalog import serving

S3 = ["s3://lake/warehouse"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a Spark with the jars of a release of Hadoop."""
    for folder in ("jars", "conf"):
        (tmp_path / folder).mkdir()
    (tmp_path / "jars" / "hadoop-client-api-3.4.9.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for name in ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("location", ["s3://lake/w", "s3a://lake/w", "s3n://lake/w"])
def test_a_warehouse_on_s3_adds_the_connector_for_the_hadoop_of_spark(location: str) -> None:
    settings = {"spark.master": "spark://host:7077"}
    assert with_connector(settings, [location]) == settings | {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.9"}


@pytest.mark.parametrize("location", ["gs://lake/w", "abfss://lake@account.dfs.core.windows.net/w"])
def test_other_warehouses_add_nothing(location: str) -> None:
    assert with_connector({}, [location]) == with_connector({}, []) == {}


@pytest.mark.parametrize("name", ["spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"])
@pytest.mark.parametrize("value", ["other.jar", ""])
def test_jars_of_the_profile_stay_as_they_are(home: Path, name: str, value: str) -> None:
    assert with_connector({name: value}, S3) == {name: value}
    (home / "conf" / "spark-defaults.conf").write_text(f"spark.executor.memory 2g\n{name}   {value}\n")
    assert with_connector({}, S3) == {}


def test_an_existing_connector_stays_as_it_is(home: Path) -> None:
    (home / "jars" / "hadoop-aws-3.4.9.jar").touch()
    assert with_connector({}, S3) == {}


@pytest.mark.parametrize(
    ("variable", "value"), [("PYSPARK_SUBMIT_ARGS", "--packages a:b:1 pyspark-shell"), ("SPARK_DIST_CLASSPATH", "/opt/hadoop/*")]
)
def test_jars_of_the_environment_stay_as_they_are(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    assert with_connector({}, S3) == {}


def test_all_warehouses_of_a_session_count() -> None:
    further = [{"name": "lake", "type": "glue", "warehouse": "s3://lake"}, {"name": "other", "warehouse": "/data"}]
    assert warehouse_locations("/data", {"warehouse": "abfss://a@b.dfs.core.windows.net"}, further) == [
        "abfss://a@b.dfs.core.windows.net",
        "s3://lake",
    ]
    assert warehouse_locations(None, {"type": "rest", "warehouse": "production"}, []) == []


@pytest.mark.parametrize(
    ("location", "defaults", "options", "expected"),
    [
        (None, {"default-base-location": "s3://lake/polaris"}, {}, ["s3://lake/polaris"]),
        (None, {"s3.region": "eu-west-1"}, {}, [ANY_S3]),
        (None, {}, {"aws_region": "eu-west-1"}, [ANY_S3]),
        (None, {}, {}, []),
        ("/data", {"s3.region": "eu-west-1"}, {"aws_region": "eu-west-1"}, []),
    ],
)
def test_a_rest_server_tells_where_tables_are(
    tmp_path: Path, location: str | None, defaults: dict[str, str], options: dict[str, str], expected: list[str]
) -> None:
    configuration = StorageConfiguration.parse(options)
    sql = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    with serving(sql, lambda request, answer: (200, {"defaults": defaults, "overrides": {}}) if "config" in request else answer()) as uri:
        open_storage = partial(Storage, options=configuration)
        catalog = open_catalogs(location, {"type": "rest", "uri": uri}, [], "iceberg", open_storage)
        assert served_locations(catalog, configuration) == expected
        further = [{"name": "lake", "type": "rest", "uri": uri}]
        catalogs = open_catalogs(str(tmp_path), None, further, "delta", open_storage)
        assert served_locations(catalogs, configuration) == (expected if location is None else [ANY_S3])
    assert ("spark.jars.packages" in with_connector({}, expected)) is bool(expected)
